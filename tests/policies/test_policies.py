import gymnasium
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gymnasium import spaces

from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.policies.deployed import action_of
from es_core.policies.engines import make_actor
from es_core.policies.normalization import ObservationStatistics
from es_core.runs.space_json import space_from_json, space_to_json
from es_envs.spaces import encoder, is_same_space

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
    "dict in its own order": spaces.Dict(
        [("speed", spaces.Box(-1, 1, (2,), np.float32)), ("gear", spaces.Discrete(3))]
    ),
    "small choices": spaces.MultiDiscrete([3, 4], np.uint8),
    "bits": spaces.Box(0, 1, (3,), np.bool_),
}
ACTION_SPACES = {
    "box": spaces.Box(np.array([-1, -np.inf], np.float32), np.array([0.5, np.inf], np.float32)),
    "matrix": spaces.Box(-2, 2, (2, 2), np.float32),
    "float64 box": spaces.Box(-1, 1, (3,), np.float64),
    "whole box": spaces.Box(-100, 100, (2,), np.int8),
    "discrete": spaces.Discrete(3, start=5),
    "small discrete": spaces.Discrete(3, dtype=np.int32),
    "multi discrete": spaces.MultiDiscrete([2, 5], start=[0, 3]),
    "multi binary": spaces.MultiBinary(3),
    "binary matrix": spaces.MultiBinary([2, 3]),
}
BOX = OBSERVATION_SPACES["box"]
UNBOUNDED = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def mlp(observation_space, action_space, **fields):
    return make_policy(TrainConfig(env_id="Walk-v0", **{"policy": "mlp", **fields}), observation_space, action_space)


def parameters_of(policy, seed=0):
    return np.random.default_rng(seed).normal(size=policy.size).astype(np.float32)


def randomised(observation_space, action_space, *, statistics=None, **options):
    policy = mlp(observation_space, action_space, **options)
    return make_actor(policy, parameters_of(policy), statistics)


def outputs(policy, parameters, observations, statistics=None):
    """Of one candidate whose actions have no bounds, observation by observation."""
    act = make_actor(policy, parameters, statistics)
    return np.array([act(observation) for observation in observations])


@pytest.mark.parametrize("action_space", ACTION_SPACES.values(), ids=ACTION_SPACES)
@pytest.mark.parametrize("observation_space", OBSERVATION_SPACES.values(), ids=OBSERVATION_SPACES)
def test_every_action_lies_in_its_space_for_every_kind_of_observation(observation_space, action_space):
    policy = randomised(observation_space, action_space)
    observation_space.seed(1)
    actions = [policy(observation_space.sample()) for _ in range(20)]
    assert all(action_space.contains(action) for action in actions)


@pytest.mark.parametrize("observation_space", OBSERVATION_SPACES.values(), ids=OBSERVATION_SPACES)
@pytest.mark.parametrize(("hidden_sizes", "activation"), [((), "tanh"), ((8,), "relu"), ((16, 7), "tanh")])
@pytest.mark.parametrize("normalized", [False, True])
def test_the_torch_engine_gives_the_same_outputs(observation_space, hidden_sizes, activation, normalized):
    policy = mlp(observation_space, UNBOUNDED, hidden_sizes=hidden_sizes, activation=activation)
    observation_space.seed(2)
    observations = [observation_space.sample() for _ in range(50)]
    flat = np.array([np.asarray(spaces.flatten(observation_space, item), np.float32) for item in observations])
    statistics = None
    if normalized:
        total, squares = flat.sum(0, dtype=float), np.square(flat, dtype=float).sum(0)
        statistics = ObservationStatistics(len(flat), total, squares)
    ours = outputs(policy, parameters_of(policy), observations, statistics)
    with torch.no_grad():
        theirs = policy.module(parameters_of(policy), statistics)(torch.from_numpy(flat)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert ours.std() > 0.1


def test_the_forward_pass_is_the_textbook_one():
    policy = mlp(BOX, UNBOUNDED, hidden_sizes=(2,))
    parameters = parameters_of(policy)
    first, second = parameters[: 2 * 6].reshape(2, 6), parameters[2 * 6 :].reshape(3, 3)
    x = np.arange(5, dtype=np.float32) / 5
    hidden = np.tanh(first[:, :5] @ x + first[:, 5])
    np.testing.assert_allclose(outputs(policy, parameters, [x])[0], second[:, :2] @ hidden + second[:, 2], rtol=1e-5)


def test_an_action_is_a_new_object_that_the_environment_may_keep():
    policy = randomised(BOX, spaces.Box(-1, 1, (2,), np.float32))
    first = policy(np.ones(5, np.float32))
    kept = first.copy()
    policy(-np.ones(5, np.float32))
    np.testing.assert_array_equal(first, kept)


def test_the_initial_mean_depends_on_the_seed_and_is_almost_undecided():
    policy = mlp(BOX, UNBOUNDED)
    np.testing.assert_array_equal(policy.initial(3), mlp(BOX, UNBOUNDED).initial(3))
    assert not np.array_equal(policy.initial(3), policy.initial(4))
    assert np.abs(outputs(policy, policy.initial(3), [np.ones(5)])).max() < 0.05


@pytest.mark.parametrize("observation", [np.full(5, np.nan), np.array([0, 0, np.inf, 0, 0])])
def test_an_observation_that_is_not_finite_is_refused(observation):
    with pytest.raises(ValueError, match="not finite"):
        randomised(BOX, spaces.Discrete(2))(observation)


def test_large_finite_observations_are_accepted():
    randomised(BOX, spaces.Discrete(2))(np.full(5, 1e18))


@pytest.mark.parametrize("observation", [np.zeros(4), np.zeros(1), 0.0, np.zeros((5, 1))])
def test_an_observation_of_another_shape_is_not_broadcast_but_refused(observation):
    with pytest.raises(ValueError, match="shape"):
        randomised(BOX, spaces.Discrete(2))(observation)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(5),
        spaces.Sequence(spaces.Discrete(2)),
        spaces.Dict({"a": spaces.Text(3)}),
        spaces.Box(0, 255, (20, 20, 3), np.uint8),
    ],
    ids=["text", "sequence", "text in dict", "image"],
)
def test_an_unsupported_observation_space_is_named(space):
    with pytest.raises(ValueError, match="observation space"):
        mlp(space, spaces.Discrete(2))


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Dict({"a": spaces.Discrete(2)}), NESTED])
def test_an_unsupported_action_space_is_named(space):
    with pytest.raises(ValueError, match="action space"):
        mlp(BOX, space)


@pytest.mark.parametrize("space", [*OBSERVATION_SPACES.values(), *ACTION_SPACES.values()], ids=str)
def test_a_space_survives_json(space):
    import json

    described = json.dumps(space_to_json(space), allow_nan=False, sort_keys=True)  # as in a file
    assert is_same_space(space_from_json(json.loads(described)), space)


def test_an_observation_whose_parts_come_in_another_order_is_another_one():
    one, other = (spaces.Dict([(key, spaces.Discrete(2)) for key in keys]) for keys in ("ab", "ba"))
    assert one == other  # says Gymnasium
    assert not is_same_space(one, other)


def test_keys_that_are_not_text_are_refused_since_files_could_not_tell_them_apart():
    with pytest.raises(ValueError, match="observation space has the key 1: the keys of a Dict must be strings"):
        mlp(spaces.Dict({1: spaces.Discrete(2)}), spaces.Discrete(2))


def test_bits_as_a_box_are_refused_as_actions_with_what_to_take_instead():
    with pytest.raises(ValueError, match=r"are bits: let the action space be MultiBinary\(\[3\]\)"):
        mlp(BOX, spaces.Box(0, 1, (3,), np.bool_))


@pytest.mark.parametrize("squash", ["clip", "tanh"])
def test_whole_numbers_are_rounded_so_that_the_greatest_is_reached(squash):
    policy = mlp(BOX, spaces.Box(0, 1, (1,), np.int8), action_squash=squash, hidden_sizes=())
    parameters = np.zeros(policy.size, np.float32)
    parameters[-1] = 0.9  # the only output's bias
    (deployed,) = action_of(policy)(torch.tensor([[0.9]]))
    assert make_actor(policy, parameters, None)(np.zeros(5, np.float32)) == [1] == deployed.tolist()[0]


@pytest.mark.parametrize(
    "described", [{"type": "Text"}, {}, {"type": "Box", "shape": [10**9], "dtype": "float32", "low": 0, "high": 1}]
)
def test_json_that_describes_no_space_is_refused(described):
    with pytest.raises((ValueError, KeyError)):
        space_from_json(described)


def test_statistics_merge_to_the_mean_and_deviation_of_all_observations():
    observations = np.random.default_rng(0).normal([3, -1], [2, 0.001], (3000, 2)).astype(np.float32)
    policy = mlp(spaces.Box(-np.inf, np.inf, (2,), np.float32), spaces.Discrete(2), observation_std_floor=0.1)
    actor, increments = make_actor(policy, policy.initial(0)), []
    actor.collect()
    for episode in observations.reshape(3, 1000, 2):
        actor.reset()
        for observation in episode:
            actor(observation)
        increments.append(actor.statistics(1000))
    statistics = ObservationStatistics.empty(2).merged(increments)
    normalization = policy.normalization(statistics)
    scale = normalization.scale
    np.testing.assert_allclose(normalization.center, observations.mean(0), rtol=1e-3)
    assert scale[0] == pytest.approx(1 / observations[:, 0].std(), rel=1e-3)
    assert scale[1] == pytest.approx(10)  # the floor of 0.1 on the deviation
    actor.reset()
    assert not actor.statistics(0).total.any()


def test_each_generation_counts_alike_in_the_normalisation():
    def seen(value, count):
        return ObservationStatistics(count, np.full(1, count * value), np.full(1, count * value**2))

    begun = ObservationStatistics.empty(1)
    statistics = begun.after([seen(1.0, 5), seen(3.0, 5)]).after([seen(6.0, 10_000)])
    normalization = statistics.normalization(std_floor=1e-6, clip=None)
    assert normalization.center == 4.0
    assert normalization.scale == pytest.approx(1 / np.sqrt((1 + 9) / 4 + 36 / 2 - 16), rel=1e-6)
    assert begun.after([]) is begun


@pytest.mark.parametrize("bound", [5.0, 2.0, None])
def test_normalised_inputs_are_clipped_in_every_engine(bound):
    policy = mlp(BOX, UNBOUNDED, **({} if bound == 5 else {"observation_clip": bound}))
    statistics, parameters = ObservationStatistics(100, np.zeros(5), np.full(5, 100.0)), parameters_of(policy)
    edge = 1000.0 if bound is None else bound
    observations = [np.full(5, value, np.float32) for value in (edge, edge * 0.99, 1000.0)]
    at_bound, inside, beyond = outputs(policy, parameters, observations, statistics)
    assert not np.array_equal(at_bound, inside)
    np.testing.assert_array_equal(at_bound, beyond)
    with torch.no_grad():
        exported = policy.module(parameters, statistics)(torch.from_numpy(np.array(observations)))
    np.testing.assert_allclose(exported, [at_bound, inside, beyond], atol=1e-5)


@pytest.mark.parametrize(("fields", "floor"), [({"observation_std_floor": 0.1}, 0.1), ({}, 0.001)])
def test_an_input_that_hardly_moves_is_divided_by_the_floor_at_least(fields, floor):
    policy = mlp(BOX, UNBOUNDED, observation_clip=None, **fields)
    statistics = ObservationStatistics(100, np.zeros(5), np.full(5, 1e-4))  # a deviation of 0.001
    plain, parameters = mlp(BOX, UNBOUNDED), parameters_of(policy)
    observation = np.full(5, 1e-3, np.float32)
    np.testing.assert_allclose(
        outputs(policy, parameters, [observation], statistics),
        outputs(plain, parameters, [observation / np.float32(floor)]),
        rtol=1e-4,
    )


def test_a_policy_acts_in_a_real_environment():
    env = gymnasium.make("Pendulum-v1")
    policy = randomised(env.observation_space, env.action_space)
    observation, _ = env.reset(seed=0)
    for _ in range(10):
        observation, *_ = env.step(policy(observation))


@pytest.mark.parametrize(
    ("space", "observation"),
    [
        (spaces.Discrete(5), -1),
        (spaces.Discrete(5), 5),
        (spaces.Discrete(5, start=3), 1),
        (spaces.MultiDiscrete([3, 4]), [3, 1]),
        (spaces.MultiBinary(2), [7, 0]),
        (spaces.Tuple([spaces.Box(0, 1, (1,)), spaces.Dict({"a": spaces.Discrete(2)})]), ([0.5], {"a": 2})),
    ],
    ids=str,
)
def test_a_choice_that_a_space_does_not_have_is_refused_and_not_read_as_another(space, observation):
    with pytest.raises(ValueError, match="is not in its space, "):
        encoder(space)(observation, np.zeros(spaces.flatdim(space), np.float32))
