"""Torch modules of a user's: which can be evolved, how they are computed, and that files do not import them."""

import shutil
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import small_modules
from gymnasium import spaces

import es_core
from es_core import Checkpoint, CheckpointError, Run, TrainConfig, train
from es_core.cli import main
from es_core.policies.batched_modules import BatchedModule
from es_core.policies.torch_policy import TorchPolicy

BOX = spaces.Box(-1, 1, (4,), np.float32)
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)


def policy_of(name, observation_space=BOX, *, fields=None, **options):
    name = name if ":" in name else f"small_modules:{name}"
    config = TrainConfig(env_id="Walk-v0", policy=name, policy_options=options, **(fields or {}))
    return TorchPolicy(config, observation_space, ACTIONS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("DroppingOut", "dropout 'dropout' is active: call self.eval"),
        ("DroppingOutUnseen", "gives different outputs for the same observation: it draws random numbers"),
        ("BatchNormalized", "'norm' normalises by the batch.*self.eval.*LayerNorm"),
        ("Counting", "buffer 'count' changes in a forward pass"),
        ("RememberingInSecret", "gives different outputs.*outside its state"),
        ("WithoutParameters", "has no parameters"),
        ("InHalfPrecision", "parameter 'layers.0.weight' is torch.float16 on cpu; make it torch.float32"),
        ("Lazy", "parameter 'layers.weight' has no shape yet"),
        ("TooWide", r"shape \(batch, 2\), an output for each entry of Box.* it returns a tensor \(1, 4\)"),
        ("FailingToBuild", "cannot be built: RuntimeError: no weights at this address"),
        ("FailingForward", "fails in a forward pass: RuntimeError: .*multiplied"),
        ("StateWithoutBeginning", r"returns \(a tensor .*, a tensor .*\); a state needs initial_state"),
        ("BeginningWithoutState", r"must return \(raw outputs, state\), got a tensor \(1, 2\)"),
        ("OtherState", r"forward returns the state a tensor .*, initial_state \(a tensor .*, a tensor .*\)"),
        ("StateOfText", "a state must be a tensor or a plain tuple of tensors, got 'fresh'"),
        ("NamedState", r"a state must be a tensor or a plain tuple of tensors, got Parts\(a tensor"),
        ("no_module", "must be a subclass of torch.nn.Module, got <function no_module"),
        ("NOT_CALLABLE", "must be a subclass of torch.nn.Module, got 3"),
        ("Missing", "cannot be imported: module 'small_modules' has no 'Missing'"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_a_module_that_cannot_be_evolved_is_refused_with_the_reason(name, message):
    with pytest.raises(ValueError, match=rf"policy 'small_modules:{name}'.*{message}"):
        policy_of(name)


def test_modules_that_do_not_exist_and_options_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="policy 'no_such:Net' cannot be imported: ModuleNotFoundError"):
        policy_of("no_such:Net")
    with pytest.raises(ValueError, match="unexpected keyword argument 'depth'"):
        policy_of("Net", depth=3)
    assert policy_of("Net", width=3).size < policy_of("Net").size


def test_a_module_in_evaluation_mode_may_have_dropout_and_batch_norm():
    assert policy_of("InEvaluation").size > policy_of("Net").size


def test_the_parameters_are_those_of_named_parameters_in_their_order():
    policy = policy_of("Remembering")
    parameters = np.arange(policy.size, dtype=np.float32)
    module = policy.module(parameters, None).module
    found = torch.cat([parameter.flatten() for _, parameter in module.named_parameters()])
    np.testing.assert_array_equal(found.detach().numpy(), parameters)
    assert all(parameter.requires_grad for parameter in module.parameters())


def test_the_initial_mean_is_what_the_module_itself_begins_with():
    policy = policy_of("Net")
    weights = policy.initial(0)[: 4 * 8]
    assert 0.3 < np.abs(weights).max() <= 0.5  # torch.nn.Linear: uniform within 1 / sqrt(4)


@pytest.mark.parametrize(
    "space",
    [spaces.Dict({"a": BOX, "b": spaces.Discrete(3)}), spaces.Discrete(7), spaces.MultiDiscrete([3, 4])],
    ids=str,
)
def test_observations_other_than_box_come_flattened(space):
    policy = policy_of("Net", space)
    assert policy.observation_shape == (7,)


@pytest.mark.slow
def test_a_module_is_computed_by_torch_and_by_nothing_else(walk, tmp_path, tiny):
    options = {**tiny, "policy": "small_modules:Net", "run_dir": tmp_path / "run"}
    with pytest.raises(ValueError, match=r"engine='compiled' cannot compute .*: use engine='torch'"):
        train(walk, engine="compiled", **options)
    assert train(walk, **options).config.engine == "torch"


@pytest.mark.parametrize("name", ["Net", "Summing", "Seeing"])
def test_rows_in_one_pass_compute_what_rows_one_after_the_other_do(name):
    """As on a CUDA device; ``nn.LSTM`` cannot be vectorised, and is computed row by row there, too."""
    space = spaces.Box(0, 255, (12, 12, 3), np.uint8) if name == "Seeing" else BOX
    policy = policy_of(name, space)
    parameters = torch.from_numpy(np.array([policy.initial(seed) for seed in range(5)]))
    together, apart = (
        BatchedModule(policy.build(), policy.observation_shape, parameters, together=together)
        for together in (True, False)
    )
    assert together.together
    assert not apart.together
    with torch.inference_mode():
        for step in range(10):
            inputs = torch.rand(5, policy.inputs, generator=torch.Generator().manual_seed(step))
            if step == 5:
                together.reset(2)
                apart.reset(2)
            torch.testing.assert_close(together.forward(inputs), apart.forward(inputs), atol=1e-5, rtol=0)


def test_a_module_that_cannot_be_vectorised_is_computed_row_by_row():
    policy = policy_of("Remembering")
    parameters = torch.from_numpy(np.array([policy.initial(seed) for seed in range(2)]))
    rows = BatchedModule(policy.build(), policy.observation_shape, parameters, together=True)
    assert not rows.together
    for buffer, first in zip(rows.memory[0], parameters[:, :8], strict=True):
        np.testing.assert_array_equal(buffer.flatten(), first)  # evolved, too


@pytest.fixture(scope="module")
def run(walk, tmp_path_factory, tiny):
    path = tmp_path_factory.mktemp("runs") / "run"
    options = {"policy": "small_modules:Net", "policy_options": {"width": 3}}
    return train(walk, run_dir=path, observation_normalization=True, **{**tiny, **options})


@pytest.fixture
def file(run, tmp_path):
    return shutil.copy(run.checkpoint_path(1), tmp_path / "copy.safetensors")


def test_a_checkpoint_imports_its_module_only_when_trusted(file, run, monkeypatch):
    monkeypatch.delitem(sys.modules, "small_modules")
    checkpoint = Checkpoint.load(file)
    for use in (checkpoint.actor, checkpoint.module, lambda: es_core.evaluate(file)):
        with pytest.raises(ValueError, match=r"names policy='small_modules:Net'.*trust=True"):
            use()
    assert "small_modules" not in sys.modules
    act = Checkpoint.load(file, trust=True).actor()
    observation = np.array([0.5, 1], np.float32)
    np.testing.assert_array_equal(act(observation), run.checkpoint.actor()(observation))


@pytest.mark.slow
def test_a_run_trained_here_is_trusted_and_one_opened_is_not(run):
    assert run.evaluate(episodes=1, workers=1).episodes == 1
    with pytest.raises(ValueError, match="names policy="):
        Run.open(run.directory).checkpoint.actor()
    assert Run.open(run.directory, trust=True).checkpoint.actor()


def test_text_in_the_options_of_a_policy_must_be_trusted_as_well(run, file):
    from dataclasses import replace

    checkpoint = Checkpoint.load(file)
    config = replace(checkpoint.config, policy="mlp", policy_options={"body": ["small_modules:Seeing"]})
    with pytest.raises(ValueError, match="names policy_options='small_modules:Seeing'"):
        replace(checkpoint, config=config).actor()


@pytest.mark.slow
def test_a_run_with_a_module_resumes_if_the_caller_names_it_again(walk, tiny, tmp_path):
    folder, settings = tmp_path / "run", {**tiny, "policy": small_modules.Net, "generations": 2}
    train(walk, run_dir=folder, on_generation=lambda stats: False, **settings)
    assert train(walk, run_dir=folder, resume=True, **settings).finished


@pytest.mark.slow
def test_a_trusted_run_may_be_rebuilt_from_its_own_checkpoints(run, tmp_path):
    folder = shutil.copytree(run.directory, tmp_path / "run")
    (folder / "checkpoints" / "000001.safetensors").unlink()
    stranger = Run.open(folder)
    assert es_core.rebuild(stranger, 1, trust=True).mean.tobytes() == es_core.rebuild(run, 1).mean.tobytes()
    assert es_core.evaluate(stranger, generation=1, episodes=1, workers=1, trust=True).episodes == 1
    with pytest.raises((ValueError, CheckpointError), match="names policy="):
        es_core.rebuild(stranger, 1)


@pytest.mark.slow
def test_a_module_that_has_changed_since_is_noticed(run, file, monkeypatch):
    monkeypatch.setattr(small_modules, "Net", small_modules.Remembering)
    checkpoint = Checkpoint.load(file, trust=True)
    for use in (checkpoint.actor, lambda: es_core.evaluate(checkpoint, episodes=1, workers=1)):
        with pytest.raises(CheckpointError, match=r"'small_modules:Net' has .* parameters now, but had .*: its module"):
            use()


def test_a_run_from_a_trusted_module_continues_with_the_same_command(file, tmp_path, capsys):
    def code(env_id, generations):
        bounds = ["--max-episode-steps", "20", "--eval-episodes", "1", "--population-size", "4", "--workers", "1"]
        words = ["--run-dir", tmp_path / "run", "--continue", "--initial", file, "--trust-names", *bounds]
        return main([str(word) for word in ("train", env_id, *words, "--generations", generations)])

    assert code("small_envs:Walk-v0", 1) == 0
    assert code("small_envs:Walk-v0", 2) == 0
    assert len(Run.open(tmp_path / "run").history) == 3
    assert code("CartPole-v1", 2) == 2
    assert "env_id cannot change" in capsys.readouterr().err
