"""From raw outputs to actions: bins, squashing, and what is drawn while training explores."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces

from es_core import Checkpoint, train
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.deployed import action_of
from es_core.policies.engines import make_actor
from es_core.policies.layers import matrices
from es_envs.spaces import leaves, parts

OBSERVATION = spaces.Box(-np.inf, np.inf, (3,), np.float32)
IMAGE = spaces.Box(0, 255, (36, 36, 3), np.uint8)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([0.7, 10], np.float32))
MATRIX = spaces.Box(-2, 2, (2, 2), np.float64)
UNBOUNDED = spaces.Box(np.array([-1, -np.inf], np.float32), np.array([1, np.inf], np.float32))
CHOICES = spaces.MultiDiscrete([2, 5, 3], start=[0, 3, 0])
GEAR = spaces.Discrete(3, start=-1)
BODY = spaces.Dict({"legs": spaces.Tuple((MATRIX, CHOICES)), "arm": BOX, "eyes": spaces.MultiBinary(2), "gear": GEAR})
SETTINGS = {
    "box": (BOX, {}),
    "unbounded": (UNBOUNDED, {}),
    "float64 matrix": (MATRIX, {}),
    "discrete": (spaces.Discrete(3, start=5), {}),
    "multi discrete": (CHOICES, {}),
    "multi binary": (spaces.MultiBinary([2, 3]), {}),
    "tanh": (BOX, {"action_squash": "tanh"}),
    "tanh matrix": (MATRIX, {"action_squash": "tanh"}),
    "bins": (BOX, {"action_bins": 10}),
    "bins of a matrix": (MATRIX, {"action_bins": (-2, 0.5, 2)}),
    "bins by entry": (BOX, {"action_bins": ((-1, 0, 0.3, 0.7), (0, 9.5))}),
    "drawn box": (UNBOUNDED, {"sample_actions": True}),
    "drawn tanh": (MATRIX, {"sample_actions": True, "action_squash": "tanh"}),
    "drawn discrete": (spaces.Discrete(4), {"sample_actions": True}),
    "drawn multi discrete": (CHOICES, {"sample_actions": True}),
    "drawn multi binary": (spaces.MultiBinary(3), {"sample_actions": True}),
    "drawn bins": (BOX, {"sample_actions": True, "action_bins": 5}),
    "noisy": (BOX, {"action_noise": 0.1}),
    "body": (BODY, {}),
    "body with tanh": (BODY, {"action_squash": "tanh"}),
    "two boxes": (spaces.Tuple((UNBOUNDED, MATRIX)), {}),
    "bins of two boxes": (spaces.Dict(a=BOX, b=MATRIX), {"action_bins": 5}),
    "drawn choices in a dict": (spaces.Dict(a=CHOICES, b=spaces.Discrete(4)), {"sample_actions": True}),
    "drawn bits in a tuple": (spaces.Tuple((spaces.MultiBinary(2), spaces.MultiBinary(3))), {"sample_actions": True}),
    "two noisy boxes": (spaces.Dict(a=BOX, b=MATRIX), {"action_noise": 0.1}),
}
every_setting = pytest.mark.parametrize(("action_space", "fields"), SETTINGS.values(), ids=SETTINGS)


def make(action_space, *, kind="mlp", **fields):
    config = TrainConfig(env_id="Walk-v0", **{"policy": kind, "hidden_sizes": (6,), "action_squash": "clip", **fields})
    return make_policy(config, IMAGE if kind.startswith("cnn") else OBSERVATION, action_space)


def parameters_of(policy, seed=0):
    return np.random.default_rng(seed).normal(0, 0.5, policy.size).astype(np.float32)


def flat(action_space, action):
    return np.concatenate([np.ravel(part) for part in parts(action_space, action)])


def outputs_are(policy, raw):
    """Parameters whose outputs are ``raw`` whatever the observation is."""
    parameters = np.zeros(policy.size, np.float32)
    matrices(parameters, policy.layers)[-1][0][:, -1] = raw
    return parameters


def explored(policy, parameters, seeds):
    """An action for each seed, the first of an episode as training draws it."""
    actor, actions = make_actor(policy, parameters), []
    for seed in seeds:
        actor.reset(noise_seed=seed)
        actions.append(actor(np.full(3, 0.5, np.float32)))
    return actions


@pytest.mark.parametrize("kind", ["linear", "mlp", "rnn", "lstm", "gru", "cnn_small", "cnn_nature"])
@every_setting
def test_engines_and_module_agree_for_every_policy_and_action_space(kind, action_space, fields):
    policy = make(action_space, kind=kind, **fields)
    parameters, generator = 0.2 * parameters_of(policy), np.random.default_rng(1)
    actors = [make_actor(policy, parameters, engine=engine) for engine in ("compiled", "torch")]
    module, state = policy.module(parameters, None), None
    for _ in range(5):
        inputs = generator.uniform(0, 255, (1, policy.inputs)).astype(np.uint8).astype(np.float32)
        inputs = inputs if kind.startswith("cnn") else inputs / 100
        observation = inputs.reshape(policy.observation_space.shape).astype(policy.observation_space.dtype)
        with torch.no_grad():
            outputs = module(torch.from_numpy(inputs), *([state] if module.is_recurrent else []))
        if module.is_recurrent:
            outputs, state = outputs
        expected = np.concatenate([part[0].numpy().ravel() for part in action_of(policy)(outputs)])
        for actor in actors:
            if not module.is_recurrent:
                raw = actor.outputs(observation)
                np.testing.assert_allclose(raw[: policy.actions.decisive], outputs[0], atol=1e-5, rtol=0)
            action = actor(observation)
            assert action_space.contains(action)
            np.testing.assert_allclose(flat(action_space, action), expected, atol=1e-5, rtol=1e-5)


@every_setting
def test_actions_in_training_lie_in_the_space_too(action_space, fields):
    policy = make(action_space, **fields)
    actions = explored(policy, 0.5 * parameters_of(policy), range(50))
    assert all(action_space.contains(action) for action in actions)
    assert len({str(action) for action in actions}) > 1 or policy.actions.exploration is None


@every_setting
def test_an_explored_episode_depends_on_its_seed_alone(action_space, fields):
    policy = make(action_space, **fields)
    actor = make_actor(policy, parameters_of(policy))

    def episode(seed):
        actor.reset(noise_seed=seed)
        return [actor(np.full(3, 0.5, np.float32)) for _ in range(6)]

    first, *others, again = [episode(seed) for seed in (3, 4, 5, 3)]
    assert str(again) == str(first)
    if policy.actions.exploration is not None:
        assert len({str(each) for each in (first, *others)}) > 1
        assert len({str(action) for action in first}) > 1, "each step draws anew"


def test_parts_of_an_action_are_what_they_would_be_alone_with_the_same_bits():
    """Each part of a Dict gets its own outputs, in the order of the keys and entries."""
    policy = make(BODY, action_squash="tanh")
    raw = np.random.default_rng(2).normal(0, 1, policy.outputs)
    action = make_actor(policy, outputs_are(policy, raw))(np.zeros(3))
    for (_, _, leaf), part in zip(leaves(BODY), parts(BODY, action), strict=True):
        alone = make(leaf, action_squash="tanh" if isinstance(leaf, spaces.Box) else "clip")
        expected = make_actor(alone, outputs_are(alone, raw[: alone.outputs]))(np.zeros(3))
        raw = raw[alone.outputs :]
        assert type(part) is type(expected)
        np.testing.assert_array_equal(part, expected)
    assert [*action] == [*BODY]
    assert not raw.size


def test_tanh_reaches_from_bound_to_bound_and_no_further():
    policy = make(BOX, action_squash="tanh")
    for raw, expected in ((-50.0, BOX.low), (0.0, (BOX.low + BOX.high) / 2), (50.0, BOX.high)):
        action = make_actor(policy, outputs_are(policy, raw))(np.zeros(3, np.float32))
        np.testing.assert_allclose(action, expected, rtol=1e-6)
        assert BOX.contains(action)
    assert make_actor(policy, outputs_are(policy, 0.5))(np.zeros(3))[1] == pytest.approx(5 * (1 + np.tanh(0.5)))


@pytest.mark.parametrize(
    ("bins", "outputs", "best", "expected"),
    [
        (5, 10, (0, 9), (-1, 10)),
        (5, 10, (2, 6), (-0.15, 2.5)),
        ((0, 0.5), 4, (1, 2), (0.5, 0)),
        (((-1, 0.7, 0), (3, 4)), 5, (2, 4), (0, 4)),
        (((-1, 0.7), (3, 4, 5, 6)), 6, (0, 4), (-1, 5)),
    ],
)
def test_the_largest_output_of_each_entry_chooses_its_bin(bins, outputs, best, expected):
    policy = make(BOX, action_bins=bins)
    assert policy.outputs == outputs
    raw = np.full(outputs, -1.0)  # below the padding of shorter rows, if there were one
    raw[list(best)] = -0.5
    np.testing.assert_allclose(make_actor(policy, outputs_are(policy, raw))(np.zeros(3)), expected, rtol=1e-6)


def test_drawn_box_actions_have_the_mean_and_deviation_of_the_outputs():
    policy = make(UNBOUNDED, sample_actions=True)
    assert (policy.outputs, policy.actions.decisive) == (4, 2)
    for log_std, std in ((-1.0, np.exp(-1)), (9.0, np.exp(2)), (-9.0, np.exp(-5))):
        actions = np.array(explored(policy, outputs_are(policy, [0, 4, 0, log_std]), range(2000)))[:, 1]
        assert actions.mean() == pytest.approx(4, abs=0.1 * std)
        assert actions.std() == pytest.approx(std, rel=0.1)
    assert make_actor(policy, outputs_are(policy, [0.5, 4, 0, 0]))(np.zeros(3)).tolist() == [0.5, 4], (
        "the mean, elsewhere"
    )


@pytest.mark.parametrize(
    ("action_space", "fields", "first"),
    [
        (spaces.Discrete(2), {}, 0),
        (spaces.MultiDiscrete([2, 3]), {}, 0),
        (spaces.Box(-1, 1, (1,), np.float32), {"action_bins": 2}, -1),
    ],
)
def test_drawn_choices_have_the_probabilities_of_a_softmax(action_space, fields, first):
    policy = make(action_space, sample_actions=True, **fields)
    raw = np.zeros(policy.outputs)
    raw[0] = 1.5
    actions = explored(policy, outputs_are(policy, raw), range(2000))
    share = np.mean([np.ravel(action)[0] == first for action in actions])
    assert share == pytest.approx(1 / (1 + np.exp(-1.5)), abs=0.03)
    assert np.ravel(make_actor(policy, outputs_are(policy, raw))(np.zeros(3)))[0] == first


def test_drawn_bits_have_the_probability_of_a_sigmoid():
    policy = make(spaces.MultiBinary(2), sample_actions=True)
    actions = explored(policy, outputs_are(policy, [1.5, -1.5]), range(2000))
    np.testing.assert_allclose(np.mean(actions, 0), 1 / (1 + np.exp([-1.5, 1.5])), atol=0.03)


@pytest.mark.parametrize(
    ("action_space", "fields", "message"),
    [
        (spaces.Discrete(3), {"action_bins": 3}, r"action_bins are for Box actions, and Discrete\(3\) has none"),
        (UNBOUNDED, {"action_bins": 3}, "action_bins=3 are uniform from bound to bound, .* give the values instead"),
        (BOX, {"action_bins": (0, 0.8)}, "action_bins: 0.8 is outside the bounds -1 and 0.7 of entry 0"),
        (BOX, {"action_bins": ((0, 0.5), (0, 1), (0, 1))}, "action_bins has 3 rows of values, and Box.* has 2 entries"),
        (BOX, {"action_bins": 3, "action_squash": "tanh"}, "action_squash='tanh' and action_bins exclude each other"),
        (BOX, {"action_bins": 3, "action_noise": 0.1}, "action_noise is added to outputs that are actions"),
        (BOX, {"sample_actions": True, "action_noise": 0.1}, "sample_actions and action_noise exclude each other"),
        (spaces.MultiBinary(3), {"action_squash": "tanh"}, "action_squash='tanh' is for Box actions"),
        (spaces.Dict(a=CHOICES), {"action_squash": "tanh"}, r"action_squash='tanh' is for Box actions, and Dict\("),
        (spaces.Dict(a=BOX, b=CHOICES), {"action_bins": 3}, "action_bins are for Box actions, and MultiDiscrete"),
        (spaces.Dict(a=BOX, b=CHOICES), {"action_noise": 0.1}, "action_noise is for actions of one kind, and Dict"),
        (spaces.Dict(a=BOX, b=BOX), {"sample_actions": True}, "sample_actions is for actions of one kind, and Dict"),
        (UNBOUNDED, {"action_squash": "tanh"}, "not all entries of Box.* have two bounds: use action_squash='clip'"),
        (
            spaces.Box(-3e38, 3e38, (1,), np.float32),
            {"action_squash": "tanh"},
            "not all entries of Box.* have two",
        ),
    ],
)
def test_settings_that_do_not_fit_the_actions_are_refused_with_the_reason(action_space, fields, message):
    with pytest.raises(ValueError, match=message):
        make(action_space, **fields)


def test_the_size_of_a_policy_is_known_before_it_is_allocated():
    assert make(BOX, action_bins=10**12).size > 10**12


def test_values_need_no_bounds():
    policy = make(UNBOUNDED, action_bins=((-1, 1), (-1e6, 0, 1e6)))
    assert make_actor(policy, outputs_are(policy, [0, 1, 0, 0, 1]))(np.zeros(3)).tolist() == [1, 1e6]


def test_a_users_module_gets_the_number_of_outputs_that_settings_need():
    for fields, message in (
        ({"sample_actions": True}, r"shape \(batch, 4\), with sample_actions the means of .*, then their log-stds"),
        ({"action_bins": 4}, r"shape \(batch, 8\), an output for each of the values that action_bins gives"),
    ):
        with pytest.raises(ValueError, match=rf"{message}.* returns a tensor \(1, 2\)"):
            make(BOX, kind="small_modules:Net", **fields)


@pytest.mark.parametrize("kind", ["small_modules:Wide", "small_modules:WideRemembering"])
def test_a_module_with_log_stds_acts_by_its_means_and_exports_them(kind):
    policy = make(BOX, kind=kind, sample_actions=True)
    parameters = parameters_of(policy)
    module, observation = policy.module(parameters, None), np.ones(3, np.float32)
    outputs = module(torch.from_numpy(observation[np.newaxis]))
    means = (outputs[0] if module.is_recurrent else outputs).detach().numpy()
    assert means.shape == (1, 2)
    np.testing.assert_allclose(
        make_actor(policy, parameters)(observation), np.clip(means[0], BOX.low, BOX.high), atol=1e-5
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"action_bins": 5},
        pytest.param({"sample_actions": True}, marks=pytest.mark.slow),
        pytest.param({"sample_actions": True, "action_squash": "tanh"}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_neither_workers_nor_a_checkpoint_change_an_action(fields, register, tmp_path):
    env_id = register("Wander-v0", "small_envs:Wander", fitness="episode_return", max_episode_steps=30)
    options = {"generations": 2, "population_size": 6, "eval_episodes": 2, "confirm_episodes": 2, "progress": False}
    runs = [
        train(
            env_id,
            run_dir=tmp_path / str(workers),
            workers=workers,
            sigma=0.3,
            hidden_sizes=(8,),
            episodes_per_candidate=2,
            **options,
            **fields,
        )
        for workers in (1, 2)
    ]
    first, *others = [(run.directory / "checkpoints/000002.safetensors").read_bytes() for run in runs]
    assert all(other == first for other in others)
    plain = train(env_id, run_dir=tmp_path / "plain", workers=1, sigma=0.3, hidden_sizes=(8,), **options)
    assert plain.history[0].fitness_mean != runs[0].history[0].fitness_mean, "the settings should matter"
    checkpoint = Checkpoint.load(runs[0].checkpoint_path(2))
    act, raw = checkpoint.actor(), checkpoint.module()
    observation = np.array([0.5, 3], np.float32)
    (decoded,) = action_of(checkpoint.policy())(raw(torch.from_numpy(observation[np.newaxis])))
    np.testing.assert_allclose(act(observation), decoded[0].detach().numpy(), atol=1e-5)
    assert runs[0].evaluate(episodes=3, workers=1).mean == runs[0].evaluate(episodes=3, workers=2).mean


def test_a_resumed_run_may_repeat_bins_by_entry(walk, tmp_path, tiny):
    fields = {**tiny, "action_bins": ((-1, 0, 0.5),)}
    train(walk, run_dir=tmp_path / "r", **fields)
    run = train(walk, run_dir=tmp_path / "r", resume=True, **{**fields, "generations": 2})
    assert len(run.history) == 3
    with pytest.raises(ValueError, match="action_bins cannot change in a resumed run"):
        train(walk, run_dir=tmp_path / "r", resume=True, **{**fields, "action_bins": ((-1, 0),), "generations": 3})


@every_setting
def test_both_engines_explore_by_the_same_random_numbers(action_space, fields):
    policy = make(action_space, **fields)
    actors = [make_actor(policy, 0.3 * parameters_of(policy), engine=engine) for engine in ("compiled", "torch")]
    for actor in actors:
        actor.reset(noise_seed=7)
    for _ in range(5):
        compiled, batched = (flat(action_space, actor(np.full(3, 0.5, np.float32))) for actor in actors)
        np.testing.assert_allclose(batched, compiled, atol=1e-5, rtol=1e-5)
