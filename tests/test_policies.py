import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from es_core.normalizer import ObservationStatistics, StatisticsCollector
from es_core.policies.mlp import MLP
from es_core.policies.spaces import space_from_json, space_to_json

NESTED = spaces.Dict(
    {
        "pose": spaces.Box(-1, 1, (2, 3), np.float32),
        "gear": spaces.Discrete(4, start=1),
        "rest": spaces.Tuple(
            [spaces.MultiBinary(3), spaces.MultiDiscrete([2, 3]), spaces.Dict({"x": spaces.Discrete(2)})]
        ),
    }
)
OBSERVATION_SPACES = {
    "box": spaces.Box(-np.inf, np.inf, (5,), np.float32),
    "float64 box": spaces.Box(np.array([-1.0, 0.0]), np.array([np.inf, 2.0]), dtype=np.float64),
    "matrix": spaces.Box(0, 1, (3, 4), np.float32),
    "scalar box": spaces.Box(0, 1, (), np.float32),
    "discrete": spaces.Discrete(6, start=-2),
    "multi discrete": spaces.MultiDiscrete([3, 4]),
    "multi binary": spaces.MultiBinary(4),
    "nested": NESTED,
}
ACTION_SPACES = {
    "box": spaces.Box(np.array([-1, -np.inf], np.float32), np.array([0.5, np.inf], np.float32)),
    "matrix": spaces.Box(-2, 2, (2, 2), np.float32),
    "float64 box": spaces.Box(-1, 1, (3,), np.float64),
    "discrete": spaces.Discrete(3, start=5),
    "multi discrete": spaces.MultiDiscrete([2, 5], start=[0, 3]),
    "multi binary": spaces.MultiBinary(3),
    "binary matrix": spaces.MultiBinary([2, 3]),
}
BOX = OBSERVATION_SPACES["box"]


def randomised(observation_space, action_space, **options):
    policy = MLP(observation_space, action_space, **options)
    policy.parameters[:] = np.random.default_rng(0).normal(size=policy.size)
    return policy


@pytest.mark.parametrize("action_space", ACTION_SPACES.values(), ids=ACTION_SPACES)
@pytest.mark.parametrize("observation_space", OBSERVATION_SPACES.values(), ids=OBSERVATION_SPACES)
def test_every_action_lies_in_its_space_for_every_kind_of_observation(observation_space, action_space):
    policy = randomised(observation_space, action_space)
    observation_space.seed(1)
    actions = [policy.act(observation_space.sample()) for _ in range(20)]
    assert all(action_space.contains(action) for action in actions)


@pytest.mark.parametrize("observation_space", OBSERVATION_SPACES.values(), ids=OBSERVATION_SPACES)
@pytest.mark.parametrize(("hidden_sizes", "activation"), [((), "tanh"), ((8,), "relu"), ((16, 7), "tanh")])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_torch_engine_gives_the_same_outputs(observation_space, hidden_sizes, activation, normalized):
    from es_core.policies.torch_mlp import TorchMLP

    policy = randomised(observation_space, spaces.Discrete(3), hidden_sizes=hidden_sizes, activation=activation)
    observation_space.seed(2)
    observations = [observation_space.sample() for _ in range(50)]
    flat = np.array([np.asarray(spaces.flatten(observation_space, item), np.float32) for item in observations])
    statistics = None
    if normalized:
        total, squares = flat.sum(0, dtype=float), np.square(flat, dtype=float).sum(0)
        statistics = ObservationStatistics(len(flat), total, squares)
        policy.normalize(statistics)
    ours = np.array([policy.raw(observation).copy() for observation in observations])
    with torch.no_grad():
        theirs = TorchMLP(policy, policy.parameters, statistics)(torch.from_numpy(flat)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert ours.std() > 0.1


def test_the_forward_pass_is_the_textbook_one():
    policy = randomised(BOX, spaces.Box(-100, 100, (2,), np.float32), hidden_sizes=(3,))
    first, second = policy.parameters[: 3 * 6].reshape(3, 6), policy.parameters[3 * 6 :].reshape(2, 4)
    x = np.arange(5, dtype=np.float32) / 5
    hidden = np.tanh(first[:, :5] @ x + first[:, 5])
    np.testing.assert_allclose(policy.act(x), second[:, :3] @ hidden + second[:, 3], rtol=1e-5)


def test_an_action_is_a_new_object_that_the_environment_may_keep():
    policy = randomised(BOX, spaces.Box(-1, 1, (2,), np.float32))
    first = policy.act(np.ones(5, np.float32))
    kept = first.copy()
    policy.act(-np.ones(5, np.float32))
    np.testing.assert_array_equal(first, kept)


def test_the_initial_mean_depends_on_the_seed_alone_and_starts_almost_undecided():
    policy = MLP(BOX, spaces.Discrete(2))
    np.testing.assert_array_equal(policy.initial(3), MLP(BOX, spaces.Discrete(2)).initial(3))
    assert not np.array_equal(policy.initial(3), policy.initial(4))
    policy.parameters[:] = policy.initial(3)
    assert np.abs(policy.raw(np.ones(5))).max() < 0.05


@pytest.mark.parametrize("observation", [np.full(5, np.nan), np.array([0, 0, np.inf, 0, 0])])
def test_an_observation_that_is_not_finite_is_refused(observation):
    with pytest.raises(ValueError, match="not finite"):
        randomised(BOX, spaces.Discrete(2)).act(observation)


def test_large_finite_observations_are_accepted():
    randomised(BOX, spaces.Discrete(2)).act(np.full(5, 1e18))


@pytest.mark.parametrize("observation", [np.zeros(4), np.zeros(1), 0.0, np.zeros((5, 1))])
def test_an_observation_of_another_shape_is_not_broadcast_but_refused(observation):
    with pytest.raises(ValueError, match="shape"):
        randomised(BOX, spaces.Discrete(2)).act(observation)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict({"a": spaces.Text(3)}),
        spaces.Box(0, 255, (8, 8, 3), np.uint8),
    ],
    ids=["text", "sequence", "text in dict", "image"],
)
def test_an_unsupported_observation_space_is_named(space):
    with pytest.raises(ValueError, match="observation space"):
        MLP(space, spaces.Discrete(2))


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Dict({"a": spaces.Discrete(2)}), NESTED])
def test_an_unsupported_action_space_is_named(space):
    with pytest.raises(ValueError, match="action space"):
        MLP(BOX, space)


@pytest.mark.parametrize("space", [*OBSERVATION_SPACES.values(), *ACTION_SPACES.values()], ids=str)
def test_a_space_survives_json(space):
    import json

    assert space_from_json(json.loads(json.dumps(space_to_json(space), allow_nan=False))) == space


@pytest.mark.parametrize(
    "described", [{"type": "Text"}, {}, {"type": "Box", "shape": [10**9], "dtype": "float32", "low": 0, "high": 1}]
)
def test_json_that_describes_no_space_is_refused(described):
    with pytest.raises((ValueError, KeyError)):
        space_from_json(described)


def test_statistics_merge_to_the_mean_and_deviation_of_all_observations():
    observations = np.random.default_rng(0).normal([3, -1], [2, 0.001], (3000, 2)).astype(np.float32)
    parts = []
    for part in np.array_split(observations, 3):
        collector = StatisticsCollector(2)
        for observation in part:
            collector.add(observation)
        parts.append(collector.take())
        assert collector.take().count == 0
    statistics = ObservationStatistics.empty(2).merged(parts)
    mean, scale = statistics.mean_and_scale()
    np.testing.assert_allclose(mean, observations.mean(0), rtol=1e-3)
    assert scale[0] == pytest.approx(1 / observations[:, 0].std(), rel=1e-3)
    assert scale[1] == pytest.approx(10)  # the floor of 0.1 on the deviation


def test_normalised_inputs_are_clipped():
    policy = randomised(BOX, spaces.Discrete(2))
    policy.normalize(ObservationStatistics(100, np.zeros(5), np.full(5, 100.0)))
    extreme = policy.raw(np.full(5, 1000.0)).copy()
    np.testing.assert_array_equal(extreme, policy.raw(np.full(5, 50.0)))


def test_a_policy_acts_in_a_real_environment():
    env = gymnasium.make("Pendulum-v1")
    policy = randomised(env.observation_space, env.action_space)
    observation, _ = env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(policy.act(observation))
