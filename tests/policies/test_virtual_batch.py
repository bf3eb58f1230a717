"""Virtual batch normalisation: what it computes, and that the batch is kept with a run."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces
from written import require_equal, rewrite_checkpoint

import es_envs
from es_core import Checkpoint, CheckpointError, RolloutError, Run, train
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor
from es_core.policies.normalization import ReferenceBatch
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.seeding import Purpose, episode_seeds
from es_envs import definition

BOX = spaces.Box(-np.inf, np.inf, (5,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
BOTH = spaces.Dict({"camera": spaces.Box(0, 255, (3, 36, 40), np.uint8), "place": BOX})
UNBOUNDED = spaces.Box(-np.inf, np.inf, (3,), np.float32)
CASES = {
    "mlp": ("mlp", BOX),
    "cnn_small": ("cnn_small", IMAGE),
    "cnn_nature": ("cnn_nature", IMAGE),
    "image and numbers": ("cnn_small", BOTH),
}
every_case = pytest.mark.parametrize(("kind", "space"), CASES.values(), ids=CASES)


def make(kind, space, **fields):
    fields = {"policy": kind, "hidden_sizes": (8, 6), "output_scale": 1, **fields}
    return make_policy(
        TrainConfig(env_id="Walk-v0", virtual_batch_normalization=True, **fields), space, UNBOUNDED
    )  # fmt: skip


def sampled(policy, count, seed):
    """Flattened observations ``(count, n)``; numbers other than pixels far from mean 0 and deviation 1."""
    policy.observation_space.seed(seed)
    flat = np.empty((count, policy.inputs), np.float32)
    for out in flat:
        policy.encode(policy.observation_space.sample(), out)
    return 7 * flat + 3 if policy.observation_space == BOX else flat


def candidate(policy, seed=0):
    return policy.initial(seed) + np.random.default_rng(seed).normal(0, 0.05, policy.size).astype(np.float32)


def by_the_book(policy, parameters, reference, observations):
    """Layer by layer with torch's own batch normalisation, whose statistics are the reference batch's."""

    def normalized(layer, values):
        """Products of weights and inputs, normalised, plus bias: for reference batch and observations."""
        bias = layer.bias.view(1, -1, *([1, 1] if isinstance(layer, torch.nn.Conv2d) else []))
        products = [layer(value) - bias for value in values]
        norm = torch.nn.BatchNorm2d if isinstance(layer, torch.nn.Conv2d) else torch.nn.BatchNorm1d
        norm = norm(products[0].shape[1], momentum=1.0, affine=False, eps=1e-5).double()
        norm(products[0])
        count = products[0].numel() / products[0].shape[1]
        norm.running_var *= (count - 1) / count  # torch keeps the unbiased variance
        norm.eval()
        return [norm(product) + bias for product in products]

    raw = policy.module(parameters, None).double()  # a plain module: nothing is folded in
    values = [torch.from_numpy(array).double() for array in (reference, observations)]
    *hidden, last = raw.layers
    for layer in hidden:
        if isinstance(layer, torch.nn.Sequential):
            values = [layer[1](value) for value in normalized(layer[0], values)]
            continue
        encoder = layer.layer
        features = [[], []]
        for encoded, parts in zip(encoder.images, layer.eyes, strict=True):
            images = [value[:, encoded.place].reshape(-1, *encoded.shape) / 255 for value in values]
            images = images if encoded.channels_first else [image.permute(0, 3, 1, 2) for image in images]
            for part in parts:
                if isinstance(part, torch.nn.Conv2d):
                    images = [image.relu() for image in normalized(part, images)]
            for found, image in zip(features, images, strict=True):
                found.append(image.permute(0, 2, 3, 1).flatten(1))
        for found, value in zip(features, values, strict=True):
            found += [value[:, part] for part in encoder.others]
        values = [torch.cat(found, 1) for found in features]
    return last(values[1]).detach().numpy()


@every_case
def test_hidden_layers_are_normalised_as_torchs_batch_normalisation_does(kind, space):
    policy = make(kind, space)
    reference, observations = sampled(policy, 128, 0), sampled(policy, 20, 1)
    parameters = candidate(policy)
    module = policy.module(parameters, ReferenceBatch(reference))
    ours = module(torch.from_numpy(observations)).detach().numpy()
    np.testing.assert_allclose(ours, by_the_book(policy, parameters, reference, observations), atol=1e-4)
    plain = policy.module(parameters, None)(torch.from_numpy(observations)).detach().numpy()
    assert np.abs(ours - plain).max() > 0.1
    assert ours.std() > 0.1


@every_case
def test_engines_module_and_actor_agree_on_normalised_batches(kind, space):
    policy = make(kind, space)
    batch, observations, parameters = ReferenceBatch(sampled(policy, 128, 0)), sampled(policy, 6, 1), candidate(policy)
    before, found = parameters.copy(), []
    for engine in ("compiled", "torch"):
        actor = make_actor(policy, parameters, batch, engine=engine)
        found.append(
            np.array([actor.outputs(spaces.unflatten(policy.observation_space, each)) for each in observations])
        )
    np.testing.assert_allclose(found[1], found[0], atol=1e-5, rtol=0)
    exported = policy.module(parameters, batch)(torch.from_numpy(observations)).detach().numpy()
    np.testing.assert_allclose(exported, found[0], atol=1e-5, rtol=0)
    np.testing.assert_array_equal(parameters, before)


def test_units_that_never_move_do_no_harm():
    policy = make("mlp", BOX, initialization="zeros")
    module = policy.module(policy.initial(0), ReferenceBatch(sampled(policy, 128, 0)))
    assert not module(torch.ones(1, 5)).any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"observation_normalization": True}, "virtual_batch_normalization and observation_normalization exclude each"),
        ({"policy": "gru"}, "not for policy='gru': a recurrent layer's outputs depend on an episode"),
        ({"policy": "linear"}, "normalises hidden layers, and this policy has none"),
        ({"hidden_sizes": ()}, "normalises hidden layers, and this policy has none"),
    ],
)
def test_normalisation_is_refused_where_there_is_nothing_to_normalise(fields, message):
    with pytest.raises(ValueError, match=message):
        make(**{"kind": "mlp", "space": BOX, **fields})


FIELDS = {
    "virtual_batch_normalization": True,
    "generations": 2,
    "population_size": 6,
    "episodes_per_candidate": 2,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "hidden_sizes": (8, 8),
    "sigma": 0.3,
    "progress": False,
}


@pytest.fixture
def small(tiny):
    return {**tiny, "hidden_sizes": (4,), "virtual_batch_normalization": True}


def test_neither_workers_nor_a_resume_change_a_bit_of_the_batch(wander, tmp_path):
    one, two = (train(wander, run_dir=tmp_path / str(workers), workers=workers, **FIELDS) for workers in (1, 2))
    require_equal(two, one)
    stopped = train(wander, run_dir=tmp_path / "stopped", workers=1, **FIELDS, on_generation=lambda stats: False)
    require_equal(stopped.resume(workers=2, progress=False), one)
    plain = train(wander, run_dir=tmp_path / "plain", **{**FIELDS, "virtual_batch_normalization": False})
    assert plain.history[0].fitness_mean != one.history[0].fitness_mean


@pytest.mark.long
def test_the_torch_engine_has_its_own_bits_whatever_the_number_of_workers(wander, tmp_path):
    fields = {**FIELDS, "engine": "torch"}
    one, two = (train(wander, run_dir=tmp_path / str(workers), workers=workers, **fields) for workers in (1, 2))
    require_equal(two, one)


@pytest.mark.parametrize("kind", ["mlp", "cnn_small"])
def test_a_checkpoint_acts_as_it_was_scored_without_the_environment(kind, register, tmp_path, small):
    entry = "small_envs:Seen" if kind == "cnn_small" else "small_envs:Walk"
    env_id = register("Some-v0", entry, fitness="episode_return")
    run = train(env_id, run_dir=tmp_path / "r", policy=kind, **small)
    checkpoint = Checkpoint.load(run.checkpoint_path(1))
    checkpoint.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == run.checkpoint_path(1).read_bytes()
    act, env = checkpoint.actor(), es_envs.make(env_id).unwrapped
    (seed,) = episode_seeds(run.config.seed, Purpose.EVALUATION, 1, 1)
    observation, total, ended = env.reset(seed=seed)[0], 0.0, False
    while not ended:
        observation, reward, ended, _, _ = env.step(act(observation))
        total += reward
    assert total == run.history[-1].evaluation.mean
    assert Run.open(run.directory).evaluate(episodes=2, workers=1).episodes == 2


def test_the_batch_is_what_random_actions_of_the_runs_seed_meet(wander):
    def batch(workers, **fields):
        config = TrainConfig.for_env(wander, **fields)
        with make_pool(definition(wander), config, PoolOptions(workers=workers)) as rollout_pool:
            return rollout_pool.reference_batch().observations

    first = batch(1)
    assert (first.shape, first.dtype) == ((128, 2), np.float32)
    assert len(np.unique(first[:, 1])) > 5, "steps of an episode"
    assert (first[:, 1] == 0).sum() > 3, "several episodes"
    np.testing.assert_array_equal(batch(2), first)
    assert not np.array_equal(batch(1, seed=1), first)


@pytest.mark.parametrize(("fault", "message"), [("step", "the motor is on fire"), ("nan", "not finite")])
def test_an_environment_that_fails_while_the_batch_is_made_is_reported(fault, message, register, tmp_path, small):
    env_id = register("Faulty-v0", "small_envs:Walk", kwargs={"fault": fault})
    with pytest.raises(RolloutError, match=rf"Faulty-v0 .*{message}"):
        train(env_id, run_dir=tmp_path / "r", **small)
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((128, 3), np.float32), r"reference has shape \(128, 3\), its policy needs \(128, 2\)"),
        (np.zeros((128, 2)), "reference has type float64, expected float32"),
        (np.full((128, 2), np.nan, np.float32), "reference has entries that are not finite"),
        (None, "reference"),
    ],
)
def test_a_checkpoint_with_another_batch_is_refused(array, message, walk, tmp_path, small):
    run = train(walk, run_dir=tmp_path / "r", **small)

    def change(document, arrays):
        arrays.pop("reference") if array is None else arrays.update(reference=array)

    file = rewrite_checkpoint(run.checkpoint_path(1), change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint.load(file)
