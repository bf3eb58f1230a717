"""Where the search begins: each rule against torch's own, and the bits of the default."""

import hashlib

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces

from es_core import train
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.layers import matrices

BOX = spaces.Box(-1, 1, (20,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 3), np.uint8)
KINDS = ["linear", "mlp", "rnn", "lstm", "gru", "cnn_small"]


def make(kind, **fields):
    fields = {"policy": kind, "hidden_sizes": (30, 25), **fields}
    space = IMAGE if kind.startswith("cnn") else BOX
    return make_policy(TrainConfig(env_id="Walk-v0", **fields), space, spaces.Discrete(4))


def weights_of(policy, seed=0):
    """``(layer, weights, bias)`` of every matrix, the output layer's last."""
    own = matrices(policy.initial(seed), policy.layers)
    return [
        (layer, *np.split(matrix, [matrix.shape[1] - layer.bias], axis=1))
        for layer, its in zip(policy.layers, own, strict=True)
        for matrix in its
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_normc_gives_each_unit_the_length_one_or_output_scale(kind):
    *hidden, (_, last, last_bias) = weights_of(make(kind, initialization="normc", output_scale=0.3))
    for _, weights, bias in hidden:
        np.testing.assert_allclose(np.linalg.norm(weights, axis=1), 1, rtol=1e-5)
        assert not bias.any()
    np.testing.assert_allclose(np.linalg.norm(last, axis=1), 0.3, rtol=1e-5)
    assert not last_bias.any()


@pytest.mark.parametrize("kind", KINDS)
def test_orthogonal_matrices_are_orthogonal_along_their_shorter_side(kind):
    for _, weights, bias in weights_of(make(kind, initialization="orthogonal", output_scale=1)):
        product = weights @ weights.T if len(weights) <= weights.shape[1] else weights.T @ weights
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)
        assert not bias.any()


@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (25, 25)])
def test_orthogonal_is_what_torch_makes_of_the_same_noise(shape, monkeypatch):
    outputs, inputs = shape
    space, actions = spaces.Box(-1, 1, (inputs,), np.float32), spaces.Discrete(outputs)
    fields = {"env_id": "Walk-v0", "policy": "linear", "output_scale": 1}
    ours, raw = (
        make_policy(TrainConfig(**fields, initialization=rule), space, actions).initial(3).reshape(outputs, inputs)
        for rule in ("orthogonal", "fan_in")
    )
    noise = torch.from_numpy(raw * np.sqrt(inputs))
    monkeypatch.setattr(torch.Tensor, "normal_", lambda self, *_, **__: self.copy_(noise.reshape(self.shape)))
    theirs = torch.nn.init.orthogonal_(torch.empty(outputs, inputs))
    np.testing.assert_allclose(ours, theirs.numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_torch_initialisation_fills_the_bounds_of_torchs_own_layers(kind):
    policy = make(kind, initialization="torch", output_scale=1)
    module = policy.module(policy.initial(0), None)  # made of torch's layers
    for part in module.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.Conv2d | torch.nn.RNNCellBase):
            begun = {name: value.abs().max().item() for name, value in part.named_parameters()}
            sizes = {name: value.numel() for name, value in part.named_parameters()}
            torch.manual_seed(0)
            part.reset_parameters()
            for name, value in part.named_parameters():
                if sizes[name] > 20:
                    assert begun[name] == pytest.approx(value.abs().max().item(), rel=0.2)
    assert np.abs(policy.initial(0)).min() > 0
    assert abs(policy.initial(0).mean()) < 0.05


@pytest.mark.parametrize("kind", KINDS)
def test_zeros_are_zeros(kind):
    assert not make(kind, initialization="zeros").initial(0).any()


@pytest.mark.parametrize("rule", ["fan_in", "normc", "orthogonal", "torch"])
def test_each_rule_is_a_function_of_the_seed_and_output_scale_is_a_factor(rule):
    policy = make("mlp", initialization=rule)
    np.testing.assert_array_equal(policy.initial(3), policy.initial(3))
    assert not np.array_equal(policy.initial(3), policy.initial(4))
    (*hidden, (_, small, _)), (*same, (_, large, _)) = (
        weights_of(make("mlp", initialization=rule, output_scale=scale)) for scale in (0.01, 2)
    )
    np.testing.assert_allclose(200 * small, large, rtol=1e-5)
    for (_, left, _), (_, right, _) in zip(hidden, same, strict=True):
        np.testing.assert_array_equal(left, right)


def test_a_default_policy_begins_with_the_bits_of_this_version():
    digests = {kind: hashlib.sha256(make(kind).initial(7).tobytes()).hexdigest()[:12] for kind in ("mlp", "gru")}
    assert digests == {"mlp": "d89fb67f66b1", "gru": "d45ea6fef19a"}


def test_a_linear_policy_has_neither_hidden_layers_nor_biases():
    assert make("linear").size == 4 * 20
    assert make("mlp", hidden_sizes=()).size == 4 * 21


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"initialization": "orthogonal"}, "initialization is for built-in policies; .* leave initialization at 'fan_"),
        ({"output_scale": 1.0}, "output_scale is for built-in policies"),
        ({"virtual_batch_normalization": True}, "virtual_batch_normalization is for built-in policies"),
    ],
)
def test_a_module_of_the_users_begins_as_it_chooses(fields, message):
    with pytest.raises(ValueError, match=f"policy 'small_modules:Net': {message}"):
        make("small_modules:Net", **fields)


def test_a_run_begins_with_the_rule_of_its_config(walk, tmp_path, tiny):
    run = train(walk, run_dir=tmp_path / "r", policy="linear", initialization="zeros", **tiny)
    assert not run.checkpoint_at(0).mean.any()
