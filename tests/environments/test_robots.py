"""A robot's file, constants and a task make an environment."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet")

import robot_envs

from es_envs.bullet import BulletEnv, Reach, RobotEnv, Task, pybullet

NAMES = ("Arm", "FastArm", "TrackingArm", "PushingArm", "Dog", "StandingDog", "CrouchingDog")


@pytest.fixture
def make():
    """``make(class or name, **options)``: such an environment, for the length of the test."""
    made = []

    def of(robot, **options):
        made.append((getattr(robot_envs, robot) if isinstance(robot, str) else robot)(**options))
        return made[-1]

    yield of
    for env in made:
        env.close()


def play(env, seed, steps=25, action=None):
    """Play; the last info and everything that was observed and earned."""
    observation, info = env.reset(seed=seed)
    seen, random = [observation], np.random.default_rng(seed)
    for _ in range(steps):
        chosen = random.uniform(-1, 1, env.action_space.shape) if action is None else action
        observation, reward, terminated, _, info = env.step(np.asarray(chosen, np.float32))
        seen += [observation, np.array([reward])]
        if terminated:
            break
    return info, np.concatenate(seen)


def still(env):
    return np.zeros(env.action_space.shape, np.float32)


def joint(env, name):
    return pybullet.getJointState(env.body, env.joints(env.body)[name], physicsClientId=env.client)[0]


@pytest.mark.parametrize("name", NAMES)
def test_a_robot_meets_the_requirements_of_training(name, register, check_env):
    check_env(register(f"{name}Robot-v0", f"robot_envs:{name}", fitness="episode_return", max_episode_steps=20))


@pytest.mark.parametrize("name", NAMES)
def test_a_filmed_episode_is_the_same_episode(name, make):
    plain, filmed = make(name), make(name, render_mode="rgb_array", width=32, height=24)
    for seed in (3, 1):
        np.testing.assert_array_equal(play(plain, seed)[1], play(filmed, seed)[1])
    assert filmed.render().std() > 0


@pytest.mark.parametrize("name", NAMES)
def test_everything_can_be_varied_for_every_robot(name, make):
    env = make(name)
    plain = play(env, 0)[1]
    for variation in ("mass", "friction", "motor_strength", "latency", "sensor_noise", "push"):
        value = 2 if variation == "latency" else 1.5
        env.reset(seed=0, options={"randomize": {variation: value}})
        assert env.varied[variation] == value
    np.testing.assert_array_equal(play(env, 0)[1], plain)


def test_a_push_moves_the_end_of_a_fixed_robot(make):
    env = make("TrackingArm")
    speeds = []
    for pushed in (False, True):
        env.reset(seed=0)
        if pushed:
            env.push((2.0, 0.0))
        env.step(still(env))
        speeds.append(env.joint_positions[0])
    assert speeds[1] > speeds[0] + 1e-3


@pytest.mark.parametrize("merge", [True, False])
def test_a_link_is_found_whether_it_is_merged_or_not(merge, make):
    class Here(robot_envs.Arm):
        merge_fixed = merge

    env = make(Here)
    assert ("hand" in env.links()) is not merge
    env.put_joints([0.3, -0.7, 0.0])
    # By hand: the hand hangs 0.32 m beyond the second joint, which is 0.32 m beyond the first, 0.12 m above the foot.
    turn, bend = 0.3, -0.7
    ahead, up = 0.32 * math.cos(bend), 0.32 * math.sin(bend)
    tip = (math.sin(turn) * (0.32 + ahead), -up, 0.12 + math.cos(turn) * (0.32 + ahead))
    assert env.point(*env.find_link("hand")) == pytest.approx(tip, abs=1e-6)
    foot, _ = pybullet.getBasePositionAndOrientation(env.body, physicsClientId=env.client)
    assert env.point(*env.find_link("foot")) == pytest.approx((0.0, 0.0, foot[2] - 0.05), abs=1e-6)


def test_a_joint_that_mimics_follows(make):
    for name in ("TrackingArm", "FastArm"):
        env = make(name)
        play(env, 0, 40, [0.0, 0.0, 0.3])
        assert joint(env, "grip") > 0.1
        assert joint(env, "grip too") == pytest.approx(0.1 - joint(env, "grip"), abs=0.1)


def test_an_action_of_0_holds_the_start_and_one_of_1_reaches_up_to_the_limit(make):
    env = make("Arm")
    assert env.targets([0.0, 0.0, 0.0]) == [0.0, 0.5, 0.0]
    assert env.targets([1.0, 1.0, -1.0]) == pytest.approx([1.2, 1.5, -1.2])
    play(env, 0, 40, still(env))
    assert env.joint_positions == pytest.approx([0.0, 0.5, 0.0], abs=0.05)


def test_joints_that_are_not_driven_hold_unless_they_are_passive(make):
    class Held(robot_envs.TrackingArm):
        motors = {"turn": 40.0}  # noqa: RUF012
        mimics = {}  # noqa: RUF012

    class Loose(Held):
        passive = ("bend",)

    ends = []
    for robot in (Held, Loose):
        env = make(robot)
        play(env, 0, 40, [1.0])
        ends.append(joint(env, "bend"))
    assert ends[0] == pytest.approx(0.5, abs=0.02)
    assert abs(ends[1]) > 1.0


def test_positions_are_observed_between_the_limits_and_speeds_as_shares_of_theirs(make):
    env = make("TrackingArm")
    env.reset(seed=0)
    observation, *_ = env.step(np.array([1.0, -1.0, 0.0], np.float32))
    assert env.limits()["bend"] == (-1.5, 1.5)
    assert observation[:3] == pytest.approx(np.array(env.joint_positions) / 1.5, abs=1e-6)
    assert observation[3:6] == pytest.approx(np.array(env.joint_speeds) / 4.0, abs=1e-6)
    assert observation[6:9] == pytest.approx([1.0, -1.0, 0.0])


def test_a_policy_sees_what_is_named(make):
    class Short(robot_envs.Arm):
        observed = ("speeds", "positions", "up")

    env, whole = make(Short), make("Arm")
    observation, all_of_it = (each.reset(seed=0)[0] for each in (env, whole))
    np.testing.assert_array_equal(observation, all_of_it[[3, 4, 5, 0, 1, 2, *range(9, 12)]])


def test_targets_to_reach_are_where_the_tip_can_be_and_touch_nothing(make):
    env = make("Arm")
    task = env.task
    targets = []
    for seed in range(30):
        env.reset(seed=seed)
        targets.append(task.target)
        assert math.dist(task.target, task.tip_at(env, env.read_joints())) >= task.span / 4
    assert len(set(targets)) == 30
    assert min(target[2] for target in targets) > 0


def test_a_tip_at_its_target_is_a_success(make):
    env = make("Arm")
    _, info = env.reset(seed=4)
    assert not info["is_success"]
    assert info["closed"] == 0.0
    best = min(
        (math.dist(env.task.target, env.task.tip_at(env, (turn, bend, 0.0))), turn, bend)
        for turn in np.linspace(-1.2, 1.2, 60)
        for bend in np.linspace(-0.7, 1.5, 60)
    )
    env.reset(seed=4)
    _, down_up = env.start_positions, env.motor_ranges(2.0)
    wanted = [best[1] / down_up[0][1], (best[2] - 0.5) / (1.2 if best[2] < 0.5 else 1.0), 0.0]
    for _ in range(60):
        *_, info = env.step(np.array(wanted, np.float32))
    assert info["is_success"]
    assert info["closed"] > 0.8


def test_following_the_targets_tracks_them_and_standing_still_does_not(make):
    env = make("TrackingArm")
    observation, _ = env.reset(seed=0)
    for _ in range(90):
        observation, _, _, _, info = env.step(np.clip(observation[-3:] * 0.5 / 1.2, -1, 1))
    assert info["tracked"] > 0.3
    info, _ = play(env, 0, 90, still(env))
    assert abs(info["tracked"]) < 0.1


def test_the_way_walked_is_that_of_the_base(make):
    env = make("Dog")
    _, start = env.reset(seed=0)
    assert start["walked"] == 0.0
    info, _ = play(env, 0)
    assert info["walked"] == pytest.approx(info["position"][0] - start["position"][0])


def test_a_robot_that_is_turned_over_has_fallen(make):
    env = make("Dog")
    env.reset(seed=0)
    pybullet.resetBasePositionAndOrientation(env.body, (0, 0, 0.4), (1, 0, 0, 0), physicsClientId=env.client)
    *_, terminated, _, info = env.step(still(env))
    assert terminated
    assert info["ending"] == "fell"


def test_a_robot_left_alone_stands_and_feels_the_floor(make):
    env = make("Dog")
    play(env, 0, 60, still(env))
    assert env.touching == [1.0] * 4
    assert env.up[2] > 0.99


def test_the_seconds_upright_are_counted_until_the_fall_and_pushes_come_once_a_second(make):
    env = make("StandingDog")
    env.reset(seed=0)
    speeds = []
    for _ in range(60):
        *_, info = env.step(still(env))
        speeds.append(math.hypot(*env.base_velocity[:2]))
    assert 5 + np.argmax(np.diff(speeds[5:])) == 29
    pybullet.resetBasePositionAndOrientation(env.body, (0, 0, 0.4), (1, 0, 0, 0), physicsClientId=env.client)
    *_, terminated, _, info = env.step(still(env))
    assert terminated
    assert info["upright"] == pytest.approx(2.0)


def test_a_task_of_a_users_own_is_asked_like_an_environment(make):
    env = make("CrouchingDog")
    info, _ = play(env, 0, 3)
    assert info["height"] == env.place_of_base[2]


def test_each_environment_has_a_task_of_its_own(make):
    first, second = make("Arm"), make("Arm")
    first.reset(seed=0)
    target = first.task.target
    second.reset(seed=1)
    assert first.task.target == target != second.task.target


@pytest.mark.parametrize(
    ("constants", "message"),
    [
        ({"motors": {"elbow": 1.0}}, "no joint 'elbow': this robot has turn, bend, grip, grip too"),
        ({"start_pose": {"elbow": 1.0}}, "no joint 'elbow'"),
        ({"contacts": ("toe",)}, "no link 'toe': this robot has foot, upper, lower, left, right"),
        ({"task": Reach("toe")}, "no link 'toe'"),
        ({"observed": (), "task": Task()}, "observed: the policy would see nothing"),
        ({"motors": {}}, "motors: a robot needs a joint that is driven"),
        ({"observed": ("hope",)}, "observed must be one of up, velocity, turning, positions, speeds, contacts, action"),
        ({"control": "hope"}, "control must be one of position, velocity, torque"),
    ],
)
def test_a_name_that_the_robot_does_not_have_is_told_with_those_that_it_has(constants, message):
    with pytest.raises(ValueError, match=message):
        type("Wrong", (robot_envs.Arm,), constants)()


def test_a_mujoco_model_is_fastened_where_the_base_is_fixed(make):
    class Reacher(RobotEnv):
        model = "mjcf/hopper.xml"
        base = "fixed"
        motors = dict.fromkeys(("thigh_joint", "leg_joint", "foot_joint"), 75.0)

    env = make(Reacher)
    assert isinstance(env, BulletEnv)
    assert set(env.limits()) >= set(env.motors)
