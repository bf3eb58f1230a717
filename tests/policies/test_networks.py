"""All kinds of policies, in both engines: what they compute, what they remember, and that rows are strangers."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from conftest import first_fast
from gymnasium import spaces
from small_envs import Seen
from threadpoolctl import threadpool_limits

import es_envs
from es_core import Checkpoint, CheckpointError, train
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import POLICIES, make_policy
from es_core.policies.engines import make_actor
from es_core.policies.layers import Cell, Dense, ImageEncoder, matrices

UNBOUNDED = spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
RECURRENT_MODULES = ["small_modules:Summing", "small_modules:Remembering"]
IMAGE_KINDS = [*(kind for kind in POLICIES if kind.startswith("cnn")), "small_modules:Seeing"]
FLAT_KINDS = [*(kind for kind in POLICIES if kind not in IMAGE_KINDS), "small_modules:Net", *RECURRENT_MODULES]
KINDS = FLAT_KINDS + IMAGE_KINDS
RECURRENT = ["rnn", "lstm", "gru", *RECURRENT_MODULES]
BUILT_IN = [kind for kind in KINDS if ":" not in kind]


def make(kind, observation_space, **fields):
    return make_policy(TrainConfig(env_id="Walk-v0", policy=kind, **fields), observation_space, UNBOUNDED)


def policy_of(kind):
    space = IMAGE if kind in IMAGE_KINDS else spaces.Box(-8, 8, (3,), np.float32)
    return make(kind, space, **({} if ":" in kind else {"hidden_sizes": (16, 9)}))


def candidate(policy, seed):
    """The initial mean with decisive outputs, and noise on all else."""
    parameters = policy.initial(seed)
    if hasattr(policy, "layers"):
        matrices(parameters, policy.layers)[-1][0][:] *= 100
    return parameters + np.random.default_rng(seed).normal(0, 0.05, policy.size).astype(np.float32)


def along(actor, observations):
    """Raw outputs ``(time, m)`` of an episode's flattened observations."""
    actor.reset()
    space = actor.policy.observation_space
    return np.array([actor.outputs(spaces.unflatten(space, now)) for now in observations])


@pytest.fixture(scope="module")
def recorded():
    """``recorded(kind)``: 10 000 observations ``(time, episode, n)`` of a real environment, under random actions."""

    def record(env, episodes, length):
        observations = np.empty((length, episodes, *env.observation_space.shape), env.observation_space.dtype)
        env.action_space.seed(0)
        for episode in range(episodes):
            observations[0, episode], _ = env.reset(seed=episode)
            for time in range(1, length):
                observations[time, episode] = env.step(env.action_space.sample())[0]
        return observations.reshape(length, episodes, -1)

    flat, images = record(gymnasium.make("Pendulum-v1").unwrapped, 50, 200), record(Seen(), 50, 200)
    return lambda kind: images if kind in IMAGE_KINDS else flat


# The fast tests look at a part of the pictures.
@pytest.mark.parametrize("part", [1, pytest.param(10, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "kind", first_fast(sorted(BUILT_IN, key=["mlp", "lstm", "cnn_small"].__contains__, reverse=True))
)
def test_engines_and_module_agree_along_ten_thousand_observations(kind, part, recorded):
    policy, observations = policy_of(kind), recorded(kind)
    if kind in IMAGE_KINDS:
        observations = observations[: 20 * part, : 5 * part]
    parameters = candidate(policy, 0)
    compiled, batched = (
        np.stack([along(actor, observations[:, row]) for row in range(observations.shape[1])], 1)
        for actor in (make_actor(policy, parameters, engine=engine) for engine in ("compiled", "torch"))
    )
    module, state, exported = policy.module(parameters, None), None, np.empty_like(compiled)
    with torch.no_grad():
        for now, out in zip(torch.from_numpy(observations).float(), exported, strict=True):
            outputs = module(now, *([state] if kind in RECURRENT else []))
            if kind in RECURRENT:
                outputs, state = outputs
            out[:] = outputs
    np.testing.assert_allclose(batched, compiled, atol=1e-5, rtol=0)
    np.testing.assert_allclose(exported, compiled, atol=1e-5, rtol=0)
    assert compiled.std() > 0.01


EVERY_ENGINE = [
    (kind, engine) for kind in KINDS for engine in ("compiled", "torch") if ":" not in kind or engine == "torch"
]


@pytest.mark.parametrize(("kind", "engine"), EVERY_ENGINE)
def test_an_episode_is_forgotten_at_reset_and_not_before(kind, engine, recorded):
    policy = policy_of(kind)
    actor = make_actor(policy, candidate(policy, 1), engine=engine)
    observation = spaces.unflatten(policy.observation_space, recorded(kind)[5, 0])
    first, second = actor.outputs(observation), actor.outputs(observation)
    assert np.array_equal(first, second) == (kind not in RECURRENT)
    actor.reset()
    np.testing.assert_array_equal(actor.outputs(observation), first)


@pytest.mark.parametrize(("kind", "engine"), EVERY_ENGINE)
def test_earlier_episodes_of_an_actor_change_no_bit(kind, engine, recorded):
    policy, observations = policy_of(kind), recorded(kind)[:12, 0]
    new, used = (make_actor(policy, engine=engine) for _ in range(2))
    used.load(candidate(policy, 1))
    along(used, observations)
    for actor in (new, used):
        actor.load(candidate(policy, 0))
    np.testing.assert_array_equal(along(used, observations), along(new, observations))


@pytest.mark.parametrize("kind", KINDS)
def test_the_initial_mean_is_a_function_of_the_seed(kind):
    torch.manual_seed(1)
    state = torch.get_rng_state()
    mean = policy_of(kind).initial(3)
    np.testing.assert_array_equal(mean, policy_of(kind).initial(3))
    assert not np.array_equal(mean, policy_of(kind).initial(4))
    assert (mean.shape, mean.dtype) == ((policy_of(kind).size,), np.float32)
    assert torch.equal(torch.get_rng_state(), state), "torch's own random numbers are the user's"


@pytest.mark.parametrize("kind", BUILT_IN)
def test_weights_scale_with_their_layers_width_and_the_last_are_small(kind):
    policy = policy_of(kind)
    *hidden, (last,) = matrices(policy.initial(0), policy.layers)
    for matrix in [matrix for own in hidden for matrix in own if matrix.size > 100]:
        assert matrix[:, :-1].std() * np.sqrt(matrix.shape[1] - 1) == pytest.approx(1, abs=0.3)
        assert not matrix[:, -1].any()
    assert np.abs(last).max() < 0.05


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_a_recurrent_layer_has_the_equations_of_torchs_cell(kind):
    """Its parameters stand in the flat vector as rows of torch's: weights and bias."""
    policy = make(kind, spaces.Box(-1, 1, (5,), np.float32), hidden_sizes=(4,))
    assert policy.layers == (Cell(kind, 5, 4), Dense(4, 3))
    parameters = candidate(policy, 0)
    cell = {"rnn": torch.nn.RNNCell, "lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}[kind](5, 4)
    (of_inputs, of_state), (out,) = matrices(torch.from_numpy(parameters), policy.layers)
    given = {"weight_ih": of_inputs[:, :-1], "bias_ih": of_inputs[:, -1], "weight_hh": of_state[:, :-1]}
    cell.load_state_dict({**given, "bias_hh": of_state[:, -1]})
    act, state = make_actor(policy, parameters), None
    for observation in torch.randn(20, 5, generator=torch.Generator().manual_seed(0)):
        with torch.no_grad():
            state = cell(observation[None], state)
            hidden = state[0] if kind == "lstm" else state
            expected = out[:, :-1] @ hidden[0] + out[:, -1]
        np.testing.assert_allclose(act(observation.numpy()), expected.numpy(), atol=1e-5)


def test_a_recurrent_policy_needs_a_recurrent_layer():
    with pytest.raises(ValueError, match="policy='gru' needs hidden_sizes"):
        make("gru", UNBOUNDED, hidden_sizes=())


@pytest.mark.parametrize(
    ("kind", "shape", "features", "size"),
    [
        ("cnn_small", (84, 84, 4), 9 * 9 * 32, 676_915),
        ("cnn_small", (4, 84, 84), 9 * 9 * 32, 676_915),
        ("cnn_nature", (4, 84, 84), 7 * 7 * 64, 1_685_667),
        ("cnn_nature", (210, 160, 3), 22 * 16 * 64, 11_615_000),
    ],
)
def test_convolutional_networks_have_the_sizes_of_their_papers(kind, shape, features, size):
    policy = make(kind, spaces.Box(0, 255, shape, np.uint8))
    encoder, dense, _ = policy.layers
    assert (encoder.outputs, dense.inputs) == (features, features)
    assert policy.size == pytest.approx(size, rel=0.01)


@pytest.mark.parametrize("shape", [(36, 40, 3), (36, 36, 36), (3, 40, 36), (1, 36, 36)])
def test_channels_are_where_the_image_is_smaller(shape):
    policy = make("cnn_nature", spaces.Box(0, 255, shape, np.uint8))
    height, width, channels = shape if shape[0] >= shape[2] else (shape[1], shape[2], shape[0])
    assert policy.layers[0].images[0].convolutions[0].image == (height, width, channels)
    parameters, image = candidate(policy, 0), policy.observation_space.sample()
    with torch.no_grad():
        expected = policy.module(parameters, None)(torch.from_numpy(image.reshape(1, -1)).float())
    np.testing.assert_allclose(make_actor(policy, parameters)(image), expected.numpy()[0], atol=1e-5)


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_images_among_other_observations_enter_with_them(engine):
    space = spaces.Dict(
        {
            "arm": spaces.Box(-1, 1, (2,), np.float32),
            "eyes": spaces.Tuple([IMAGE, spaces.Box(0, 255, (1, 20, 20), np.uint8)]),
            "gear": spaces.Discrete(3),
        }
    )
    policy = make("cnn_small", space)
    encoder, dense, _ = policy.layers
    assert isinstance(encoder, ImageEncoder)
    assert dense.inputs == 3 * 3 * 32 + 1 * 1 * 32 + 2 + 3
    space.seed(0)
    observations, flat = [space.sample() for _ in range(5)], np.empty((5, policy.inputs), np.float32)
    for observation, out in zip(observations, flat, strict=True):
        policy.encode(observation, out)
    parameters = candidate(policy, 0)
    with torch.no_grad():
        expected = policy.module(parameters, None)(torch.from_numpy(flat)).numpy()
    actor = make_actor(policy, parameters, engine=engine)
    np.testing.assert_allclose([actor.outputs(each) for each in observations], expected, atol=1e-5)
    changed = {**observations[0], "arm": observations[0]["arm"] + np.float32(0.1)}
    assert (actor.outputs(changed) != actor.outputs(observations[0])).any(), "what is no image matters, too"


@pytest.mark.parametrize(
    ("kind", "space", "message"),
    [
        (
            "cnn_small",
            spaces.Box(0, 255, (19, 40, 3), np.uint8),
            "20x20 pixels or more.* has none: choose policy='mlp'",
        ),
        ("cnn_nature", spaces.Box(0, 255, (3, 40, 35), np.uint8), "40x35 pixels.*'cnn_nature', .* at least 36x36"),
        ("cnn_nature", spaces.Box(0, 255, (84, 84), np.uint8), "has none: choose policy='mlp'"),
        ("cnn_nature", UNBOUNDED, "has none: choose policy='mlp'"),
        ("mlp", IMAGE, "holds images: choose policy='cnn_nature'"),
        ("lstm", spaces.Dict({"camera": IMAGE}), r"observation space\['camera'\] .* holds images"),
    ],
)
def test_a_policy_that_cannot_see_these_observations_says_which_can(kind, space, message):
    with pytest.raises(ValueError, match=message):
        make(kind, space)


def test_images_are_not_normalised_by_statistics():
    with pytest.raises(ValueError, match="observation_normalization is for numbers, not for images"):
        make("cnn_small", IMAGE, observation_normalization=True)


def test_policy_options_are_for_modules_and_an_unknown_policy_is_named():
    with pytest.raises(ValueError, match="policy_options are for a torch module"):
        make("mlp", UNBOUNDED, policy_options={"width": 3})
    with pytest.raises(ValueError, match="one of linear, mlp, rnn, lstm, gru, cnn_small, cnn_nature, module:Class "):
        make("transformer", UNBOUNDED)


def test_an_actor_has_the_bits_of_a_worker_for_any_number_of_threads():
    policy = make("cnn_nature", spaces.Box(0, 255, (84, 84, 4), np.uint8))
    policy.observation_space.seed(0)
    image, act = policy.observation_space.sample(), make_actor(policy, candidate(policy, 0))
    actions = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            actions.append(act(image))
    np.testing.assert_array_equal(*actions)


def test_built_in_policies_load_no_torch():
    code = """
import sys, numpy as np
from gymnasium import spaces
from es_core import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor
for kind, shape, dtype in (("lstm", (3,), np.float32), ("cnn_small", (20, 20, 3), np.uint8)):
    space = spaces.Box(0, 255, shape, dtype)
    policy = make_policy(TrainConfig(env_id="Walk-v0", policy=kind), space, spaces.Discrete(2))
    make_actor(policy, policy.initial(0))(space.sample())
sys.exit("torch" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "kind", [kind if kind in {"lstm", "cnn_small"} else pytest.param(kind, marks=pytest.mark.long) for kind in KINDS]
)
def test_every_kind_is_trained_stored_and_acts_as_it_was_scored(kind, register, tmp_path, tiny):
    env_id = register("Seen-v0", "small_envs:Seen") if kind in IMAGE_KINDS else register()
    hidden = () if kind == "linear" else (4,)
    fields = {**tiny, "hidden_sizes": hidden, "policy": kind, "sigma": 0.05, "action_noise": 0.1}
    run = train(env_id, run_dir=tmp_path / "run", **fields)
    checkpoint = run.checkpoint
    checkpoint.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == run.checkpoint_path(1).read_bytes()
    assert not np.array_equal(checkpoint.mean, run.checkpoint_at(0).mean)
    score = run.history[-1].evaluation
    act, env = checkpoint.actor(), es_envs.make(env_id).unwrapped
    for _ in range(2):  # an episode leaves no trace
        act.reset()
        observation, total, ended = env.reset(seed=seeds_of(run)[0])[0], 0.0, False
        while not ended:
            observation, reward, ended, _, _ = env.step(act(observation))
            total += reward
        assert total == score.mean
    outputs = checkpoint.module()(torch.zeros(3, checkpoint.policy().inputs))
    assert (outputs[0] if kind in RECURRENT else outputs).shape == (3, 1)


def seeds_of(run):
    from es_core.seeding import Purpose, episode_seeds

    return episode_seeds(run.config.seed, Purpose.EVALUATION, 1, run.history[-1].generation)


@pytest.mark.parametrize("kind", [kind for kind in BUILT_IN if kind != "linear"])
def test_a_checkpoint_of_another_size_is_refused_before_anything_is_built(kind, tmp_path):
    policy = policy_of(kind)
    fields = {"policy": kind, "hidden_sizes": (10**9, 10**9)} if kind in FLAT_KINDS else {"policy": kind}
    space = policy.observation_space if kind in FLAT_KINDS else spaces.Box(0, 255, (600, 600, 3), np.uint8)
    config = TrainConfig(env_id="Walk-v0", **fields)
    empty = {"strategy": {}, "statistics": None, "generation": 0}
    checkpoint = Checkpoint(
        config=config, mean=policy.initial(0), observation_space=space, action_space=UNBOUNDED, **empty
    )
    checkpoint.save(tmp_path / "huge.safetensors")
    with pytest.raises(CheckpointError, match=r"mean has shape .*, its policy needs \(\d{8,},\)"):
        Checkpoint.load(tmp_path / "huge.safetensors")
