"""A robot's file, constants and a task make an environment."""

import math

import numpy as np
import pytest

pytest.importorskip("pybullet")

import robot_envs
from conftest import first_fast, registered

from es_core import evaluate, train
from es_envs.arguments import ArgumentError
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


@pytest.mark.parametrize("name", first_fast(NAMES, 1))
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


class TorqueDog(robot_envs.Dog):
    """A dog whose motors are torques."""

    control = "torque"


THIGH = "FR_upper_joint"


@pytest.mark.parametrize(
    ("robot", "locked"), [("Arm", "bend"), ("FastArm", "bend"), ("Dog", THIGH), (TorqueDog, THIGH)]
)
def test_a_locked_joint_stays_where_it_starts_whatever_the_action_is(make, robot, locked):
    swings = []
    for faults in ({}, {"locked": [locked]}):
        env = make(robot, faults=faults)
        env.reset(seed=0)
        start, random = env.start_positions[list(env.motors).index(locked)], np.random.default_rng(1)
        places = []
        for _ in range(20):
            env.step(np.sign(random.uniform(-1, 1, env.action_space.shape)).astype(np.float32))
            places.append(abs(joint(env, locked) - start))
        swings.append(max(places))
    free, held = swings
    assert held < 0.06 < 0.12 < free


def test_a_weak_motor_has_a_share_of_its_force(make):
    reached = {}
    for share in (1.0, 0.5, 0.0):
        env = make("Arm", faults={"weak": {"turn": share}})
        env.reset(seed=0)
        env.step(np.array([0.3, 0.0, 0.0], np.float32))
        reached[share] = abs(pybullet.getJointState(env.body, env.joints(env.body)["turn"], env.client)[3])
    assert reached[1.0] > reached[0.5] > reached[0.0] == 0


def test_a_short_link_is_smaller_lighter_and_brings_its_foot_nearer(make):
    whole, broken = make("Dog"), make("Dog", faults={"short": {"FR_lower": 0.5}})
    distances, masses = [], []
    for env in (whole, broken):
        env.reset(seed=0)
        knee, foot = (env.point(*env.find_link(name)) for name in ("FR_lower", "FR_toe"))
        distances.append(np.linalg.norm(np.subtract(knee, foot)))
        masses.append(pybullet.getDynamicsInfo(env.body, env.find_link("FR_lower")[0], env.client)[0])
        assert env.observation_space.shape == whole.observation_space.shape
    assert distances[1] == pytest.approx(distances[0] / 2, rel=1e-3)
    assert masses[1] < masses[0]
    other = [env.point(*env.find_link("FL_toe")) for env in (whole, broken)]
    np.testing.assert_allclose(*other, atol=1e-6)


@pytest.mark.parametrize("name", ["Arm", "FastArm", "Dog"])
def test_without_faults_every_bit_is_the_same(make, name):
    plain = play(make(name), 3)[1]
    for faults in (None, {}, {"locked": [], "weak": {}, "short": {}}):
        np.testing.assert_array_equal(play(make(name, faults=faults), 3)[1], plain)


def test_a_fault_changes_what_follows_but_not_the_task(make):
    whole, broken = make("Arm"), make("Arm", faults={"locked": ["turn"]})
    for env in (whole, broken):
        env.reset(seed=5)
    assert whole.motor_ranges(1.0) == broken.motor_ranges(1.0)
    assert not np.array_equal(play(whole, 5)[1], play(broken, 5)[1])
    np.testing.assert_array_equal(play(broken, 5)[1], play(broken, 5)[1])


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        (3, r'faults must be a dict, such as \{"locked": \["knee"\], .*got 3'),
        ({"lockd": []}, "a kind of faults must be one of locked, weak, short, got 'lockd': did you mean 'locked'"),
        ({"locked": "turn"}, r"faults\['locked'\] must be a list of joints"),
        ({"locked": ["tun"]}, r"faults\['locked'\] must be one of turn, bend, grip, got 'tun': did you mean 'turn'"),
        ({"weak": {"wrist": 0.5}}, r"faults\['weak'\] must be one of turn, bend, grip, got 'wrist'"),
        ({"weak": ["turn"]}, r"faults\['weak'\] must be a dict of shares by name"),
        ({"weak": {"turn": 1.5}}, r"faults\['weak'\]\['turn'\] must be from 0 to 1, got 1.5"),
        ({"short": {"lower": 0}}, r"faults\['short'\]\['lower'\] must be from 0.05 to 1, got 0"),
        ({"short": {"lover": 0.5}}, "a link of arm.urdf must be one of foot, upper, lower, .*did you mean 'lower'"),
        ({"locked": ["turn"], "weak": {"turn": 0.5}}, "joint 'turn' is locked, so it cannot be weak, too"),
    ],
)
def test_a_fault_that_there_cannot_be_is_refused_in_a_sentence(make, faults, message):
    with pytest.raises(ArgumentError, match=message):
        make("Arm", faults=faults)


def test_links_of_mujoco_models_keep_their_size():
    robots = pytest.importorskip("es_locomotion.robots")
    with pytest.raises(ArgumentError, match=r"ant\.xml: links of another size are for URDF and xacro files.*MJCF"):
        robots.AntEnv(faults={"short": {"aux_1": 0.5}})


def test_faults_are_an_argument_like_others_for_runs_and_scores(tmp_path):
    faults = {"locked": [THIGH], "weak": {"FL_lower_joint": 0.5}, "short": {"RR_lower": 0.8}}
    settings = {"policy": "linear", "population_size": 4, "generations": 1, "eval_episodes": 2, "workers": 1}
    with registered("DogRobot-v0", entry_point="robot_envs:Dog", fitness="episode_return", max_episode_steps=10) as dog:
        run = train(dog.id, run_dir=tmp_path / "run", env_kwargs={"faults": faults}, progress=False, **settings)
        assert run.config.env_kwargs == {"faults": faults}
        broken = evaluate(run, episodes=2, workers=1)
        assert broken == evaluate(run, episodes=2, workers=1, env_kwargs={"faults": faults})
        assert broken != evaluate(run, episodes=2, workers=1, env_kwargs={"faults": {}})
