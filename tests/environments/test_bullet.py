"""BulletEnv: its world, its order of events, its pictures and its errors."""

import copy
import gc
import math
import pickle
import sys
import warnings

import numpy as np
import pytest

pybullet = pytest.importorskip("pybullet")

from gymnasium import spaces

import es_envs
from es_envs.bullet import BulletEnv, Camera, bounded
from es_envs.bullet.camera import from_light as camera_from_light
from es_envs.display import has_display
from es_envs.requirements import bullet_distributions
from es_envs.wheels import how_to_get_bullet

BULLET_IDS = ["BalancingPlate-v0", "CartPoleBullet-v0", "RaceCar-v0"]
TORQUE_HALF_SECOND_ACTIONS = 10


class Recorder(BulletEnv):
    """Notes what BulletEnv asks it."""

    time_step = 1 / 50

    def __init__(self, **options):
        self.calls = []
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        super().__init__(**options)

    def build(self):
        self.calls.append("build")
        self.body = self.load_urdf("sphere2.urdf", (0.0, 0.0, 0.5))

    def decorate(self):
        self.calls.append("decorate")

    def place(self):
        self.calls.append("place")

    def act(self, action):
        self.calls.append("act")

    def observe(self):
        self.calls.append("observe")
        (_, _, z), _ = pybullet.getBasePositionAndOrientation(self.body, physicsClientId=self.client)
        return bounded([z], 1.0)

    def outcome(self):
        self.calls.append("outcome")
        return 1.0, False

    def info(self):
        self.calls.append("info")
        return {}

    def camera(self):
        self.calls.append("camera")
        return Camera(target=(0.0, 0.0, 0.0), distance=3.0, yaw=0.0, pitch=-30.0)


@pytest.fixture
def made():
    """Make Recorders that are closed after the test."""
    envs = []

    def make(**options):
        envs.append(Recorder(**options))
        return envs[-1]

    yield make
    for env in envs:
        env.close()


def test_questions_are_asked_in_the_documented_order(made):
    env = made(action_repeat=2)
    env.reset(seed=0)
    env.step(0)

    assert env.calls == [
        "build", "place", "observe", "info", "act", "act", "observe", "outcome", "info",
    ]  # fmt: skip


def test_the_world_is_decorated_only_if_something_is_to_be_drawn(made):
    assert made(render_mode="rgb_array").calls == ["build", "decorate"]


def test_gravity_and_time_step_are_those_of_the_class(made):
    env = made()
    env.reset(seed=0)
    env.step(0)

    (_, _, speed), _ = pybullet.getBaseVelocity(env.body, physicsClientId=env.client)
    assert speed == pytest.approx(-9.81 / 50, rel=0.01)


def test_an_action_repeat_of_three_is_three_physics_steps(made):
    once, thrice = made(), made(action_repeat=3)
    once.reset(seed=0)
    thrice.reset(seed=0)

    steps = [once.step(0) for _ in range(3)]

    np.testing.assert_array_equal(thrice.step(0)[0], steps[-1][0])
    assert once.metadata["render_fps"] == pytest.approx(50)
    assert thrice.metadata["render_fps"] == pytest.approx(50 / 3)


def test_the_metadata_of_one_environment_leave_the_class_alone(made):
    made(action_repeat=3)

    assert Recorder.metadata is BulletEnv.metadata
    assert "render_fps" not in BulletEnv.metadata


@pytest.mark.parametrize("size", [(64, 48), (50, 30)])
def test_pictures_have_the_size_that_was_asked_for(made, size):
    width, height = size
    env = made(render_mode="rgb_array", width=width, height=height)
    env.reset(seed=0)

    picture = env.render()

    assert picture.shape == (height, width, 3)
    assert picture.dtype == np.uint8
    assert picture.flags["C_CONTIGUOUS"]
    assert picture.std() > 0


@pytest.mark.parametrize("env_id", BULLET_IDS)
def test_environments_show_something_that_moves(env_id):
    env = es_envs.make(env_id, render_mode="rgb_array", width=160, height=120)
    env.action_space.seed(0)
    env.reset(seed=0)
    first = env.render()
    for _ in range(TORQUE_HALF_SECOND_ACTIONS):
        env.step(env.action_space.sample())
    later = env.render()
    env.close()

    assert len(np.unique(first.reshape(-1, 3), axis=0)) >= 5
    assert (first != later).any()


class Scenery(Recorder):
    """A blue box above a green ground with a red square on it, and a camera that each test places."""

    sky, ground, ground_height = (0.0, 1.0, 1.0, 1.0), (0.0, 1.0, 0.0, 1.0), -1.0

    def decorate(self):
        self.paint(self.body, (1.0, 1.0, 1.0, 0.0))
        self.mark_ground([(-9.0, -9.0, 9.0, 9.0)], (1.0, 1.0, 0.0, 1.0))
        self.mark_ground([(-2.0, -2.0, 2.0, 2.0)], (1.0, 0.0, 0.0, 1.0))
        self.visual_box((0.6, 0.3, 0.1), (0.0, 0.0, 0.0), (0.0, 0.0, 1.0, 1.0))

    def camera(self):
        return self.view


def colours(env, **view):
    """The colours of the middle column of a picture, from top to bottom."""
    env.view = Camera(**{"target": (0.0, 0.0, 0.0), "distance": 3.0, "yaw": 0.0, "pitch": 0.0, **view})
    names = {(1, 0, 0): "marked", (0, 1, 0): "ground", (0, 1, 1): "sky", (0, 0, 1): "box", (1, 1, 0): "wide"}
    column = (env.render()[:, 40] > 100).astype(int)
    seen = [names[tuple(pixel)] for pixel in column.tolist() if tuple(pixel) in names]  # edges are smooth
    return [name for name, before in zip(seen, [None, *seen], strict=False) if name != before]


@pytest.fixture
def scenery():
    env = Scenery(render_mode="rgb_array", width=80, height=60)
    env.reset(seed=0)
    yield env
    env.close()


@pytest.mark.parametrize("yaw", [0.0, 90.0, 180.0, 270.0, 30.0])
@pytest.mark.parametrize("pitch", [-89.0, -30.0, 0.0, 30.0, 89.0])
def test_a_box_is_seen_from_every_side(scenery, yaw, pitch):
    assert "box" in colours(scenery, yaw=yaw, pitch=pitch)


def test_a_box_without_height_is_a_rectangle(scenery):
    scenery.visual_box((0.6, 0.6, 0.0), (0.0, 0.0, 0.8), (0.0, 1.0, 1.0, 1.0))
    assert colours(scenery, pitch=-89.0) == ["marked", "sky", "marked"]
    assert "box" in colours(scenery, pitch=0.0)


def test_behind_the_bodies_are_the_marked_ground_and_the_sky(scenery):
    assert colours(scenery, pitch=-10.0) == ["sky", "ground", "wide", "box", "wide", "marked"]
    assert colours(scenery, pitch=-80.0) == ["marked", "box", "marked"]
    assert colours(scenery, target=(0.0, 0.0, 30.0)) == ["sky", "ground"]
    assert colours(scenery, target=(0.0, 0.0, 30.0), pitch=-30.0, distance=60.0)[:1] == ["ground"]
    assert colours(scenery, target=(0.0, 0.0, 30.0), pitch=80.0) == ["sky"]


def test_sky_is_sky_at_every_distance_of_the_camera(scenery):
    """At 3.1 and 3.2 m, say, single precision makes the depth of an empty pixel a little less than 1."""
    for distance in np.arange(0.5, 6.0, 0.1).tolist():
        assert colours(scenery, target=(0.0, 0.0, 30.0), pitch=80.0, distance=distance) == ["sky"], distance


def test_rendering_without_a_render_mode_says_what_to_pass(made):
    with pytest.raises(RuntimeError, match="Recorder was made without a render_mode: pass render_mode='rgb_array'"):
        made().render()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_a_window_without_a_display_is_refused_and_not_offered(made, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)

    assert made().metadata["render_modes"] == ["rgb_array"]
    with pytest.raises(RuntimeError, match="needs a display"):
        made(render_mode="human")


def test_a_window_is_offered_where_there_is_a_display(made, monkeypatch):
    monkeypatch.setenv("DISPLAY", ":0")

    assert made().metadata["render_modes"] == ["rgb_array", "human"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"render_mode": "ansi"}, "render_mode must be None or one of rgb_array, human, got 'ansi'"),
        ({"renderer": "opengl"}, "renderer must be one of tiny, egl, got 'opengl'"),
        ({"action_repeat": 0}, "action_repeat must be a whole number of at least 1, got 0"),
        ({"action_repeat": 1.5}, "action_repeat must be a whole number of at least 1, got 1.5"),
        ({"width": -640}, "width must be a whole number of at least 1, got -640"),
        ({"height": True}, "height must be a whole number of at least 1, got True"),
    ],
)
def test_wrong_options_are_refused_with_the_value(options, message):
    with pytest.raises(ValueError, match=message):
        Recorder(**options)


def test_an_unknown_option_is_refused_by_name():
    with pytest.raises(TypeError, match="colour"):
        Recorder(colour="red")


def test_a_missing_model_is_named(made):
    env = made()
    for load in env.load_urdf, env.load_mjcf:
        with pytest.raises(FileNotFoundError, match=r"Recorder: no model at nowhere\.xml or "):
            load("nowhere.xml")


def test_a_mujoco_model_is_loaded_with_its_bodies(made):
    env = made()
    (hopper,) = env.load_mjcf("mjcf/hopper.xml")
    assert {"thigh_joint", "leg_joint", "foot_joint"} < env.joints(hopper).keys()
    with pytest.raises(KeyError, match=r"there is no joint 'tail': this body has .*, thigh_joint, "):
        env.joints(hopper)["tail"]


def test_a_constructor_that_makes_no_world_is_named():
    class Worldless(Recorder):
        def __init__(self):
            self.observation_space, self.action_space = spaces.Box(-1, 1, (1,)), spaces.Discrete(2)

    env = Worldless()
    with pytest.raises(RuntimeError, match=r"Worldless has no world: its __init__ must end in super\(\)\.__init__"):
        env.reset(seed=0)
    env.close()


def test_flags_of_a_model_reach_bullet(made):
    env, model = made(), es_envs.urdf_path("cart_pole.urdf")
    inertias = []
    for flags in (0, pybullet.URDF_USE_INERTIA_FROM_FILE):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            body = env.load_urdf(model, flags=flags)
        assert [str(warning.message)[:21] for warning in warned] == ([] if flags else ["Recorder: no link of "])
        inertias.append(pybullet.getDynamicsInfo(body, env.joints(body)["hinge"], physicsClientId=env.client)[2][0])
    assert inertias == [pytest.approx(0.0, abs=1e-6), pytest.approx(0.1 * 0.6**2 / 12)]


def test_a_model_that_bullet_cannot_read_is_named_with_the_reason(made, tmp_path, capfd):
    broken = tmp_path / "broken.urdf"
    broken.write_text('<robot name="broken"><link name="base"/><link name="arm"/></robot>', encoding="utf-8")
    with pytest.raises(
        RuntimeError, match=r"Bullet cannot read .*broken\.urdf:\n.*:1: error: link 'arm' has no parent"
    ):
        made().load_urdf(broken)
    broken = tmp_path / "broken.xml"
    broken.write_text("<mujoco", encoding="utf-8")
    with pytest.raises(RuntimeError, match=r"Bullet cannot read .*broken\.xml:\n.*:1: error: unclosed token"):
        made().load_mjcf(broken)


def test_our_own_model_is_found_and_a_missing_one_is_not():
    assert es_envs.urdf_path("balancing_plate.urdf").is_file()
    with pytest.raises(FileNotFoundError, match=r"balancing_plate\.urdf"):
        es_envs.urdf_path("missing.urdf")


def test_a_world_that_cannot_be_built_is_left(monkeypatch):
    def build(env):
        env.load_urdf("nowhere.urdf")

    monkeypatch.setattr(Recorder, "build", build)
    before = connections()
    with pytest.raises(FileNotFoundError):
        Recorder()

    assert connections() == before


def test_an_environment_that_is_forgotten_leaves_its_world():
    before = connections()
    env = Recorder()
    assert connections() == before + 1
    del env
    gc.collect()

    assert connections() == before


def connections():
    return sum(pybullet.isConnected(client) for client in range(64))


def test_a_closed_environment_cannot_touch_the_world_of_another(made):
    closed = made()
    closed.reset(seed=0)
    closed.close()
    closed.close()
    other = made()  # gets the number that has become free
    other.reset(seed=0)

    with pytest.raises(pybullet.error):
        closed.step(0)


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_environment_is_neither_pickled_nor_copied(made, copier):
    with pytest.raises(TypeError, match="Recorder cannot be pickled or copied"):
        copier(made())


def test_a_class_with_missing_methods_is_refused_with_their_names():
    class Half(BulletEnv):
        def build(self):
            pass

    with pytest.raises(TypeError, match="camera"):
        Half()


def test_observations_are_clipped_only_where_they_leave_the_bounds():
    np.testing.assert_array_equal(bounded([0.5, -3.0, 7.0], 2.0), np.array([0.5, -2.0, 2.0], np.float32))
    np.testing.assert_array_equal(bounded([0.5, -2.0], 2.0), np.array([0.5, -2.0], np.float32))
    assert bounded([0.5], 2.0).dtype == np.float32


def test_without_pybullet_the_error_says_where_to_get_it(python):
    child = python("import sys; sys.modules['pybullet'] = None; from es_envs.bullet import BulletEnv")

    message = child.err.strip().splitlines()[-1]
    assert message.startswith("ImportError: es_envs.bullet needs Bullet, the module pybullet. ")
    assert f"{' and '.join(bullet_distributions())} 3." in message
    assert "pip uninstall -y pybullet pybullet-arm64" in message
    assert how_to_get_bullet() in message


def test_listing_environments_imports_no_bullet_and_keeps_stdout_clean(python):
    child = python("import sys, es_envs; es_envs.env_ids(); assert 'pybullet' not in sys.modules")

    assert (child.code, child.out, child.err) == (0, "", "")


def test_stdout_stays_clean_while_environments_run(python):
    code = "import es_envs\nfor id in ['CartPoleBullet-v0', 'RaceCar-v0']:\n"
    code += "    env = es_envs.make(id, render_mode='rgb_array'); env.reset(seed=0); env.render(); env.close()"
    child = python(code)

    assert (child.code, child.out) == (0, "")


@pytest.mark.parametrize("env_id", BULLET_IDS)
def test_observations_stay_within_bounds_even_long_after_the_end(env_id):
    env = es_envs.make(env_id).unwrapped
    env.action_space.seed(0)
    extremes = (
        (env.action_space.low, env.action_space.high)
        if isinstance(env.action_space, spaces.Box)
        else (0, 1) if isinstance(env.action_space, spaces.Discrete) else (np.array([0, 0]), np.array([1, 1]))
    )  # fmt: skip
    for choose in (env.action_space.sample, lambda: extremes[0], lambda: extremes[1]):
        observation, _ = env.reset(seed=0)
        for _ in range(1500):
            assert env.observation_space.contains(observation), observation
            observation, *_ = env.step(choose())
    env.close()


EGL = """
import es_envs, sys
def make(): return es_envs.make("RaceCar-v0", render_mode="rgb_array", renderer="egl", width=160, height=120)
try:
    env = make()
except RuntimeError as error:
    sys.exit(f"no EGL: {error}")
env.reset(seed=0)
sys.stderr.write(f"\\nstd {env.render().std()}\\n")
try:
    make()
except RuntimeError as error:
    sys.stderr.write(f"\\nsecond {error}\\n")
env.close()
env = make()
env.reset(seed=0)
sys.stderr.write(f"\\nagain {env.render().std()}\\n")
"""


def test_egl_draws_for_one_environment_at_a_time_and_keeps_stdout_clean(python):
    child = python(EGL)
    if child.code:
        pytest.skip(f"this machine has no EGL: {child.err.strip().splitlines()[-1:]}")

    said = dict(line.split(" ", 1) for line in child.err.splitlines() if line.startswith(("std", "second", "again")))
    assert child.out == ""
    assert float(said["std"]) > 10
    assert float(said["again"]) > 10
    assert "close the other one first" in said["second"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells")
@pytest.mark.parametrize("variable", ["", "DISPLAY", "WAYLAND_DISPLAY"])
def test_bullet_needs_a_display_of_x11_other_windows_any(variable, monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, ":0")

    assert has_display() is bool(variable)
    assert has_display(wayland=False) is (variable == "DISPLAY")


@pytest.mark.slow
def test_bodies_that_touch_from_the_start_are_reset_to_the_last_bit(register):
    from es_envs.testing import check_env

    check_env(register("Puck-v0", "puck_env:Puck", max_episode_steps=50))


@pytest.mark.slow
def test_the_kit_notices_contacts_that_survive_a_reset(register):
    from es_envs.testing import ConformanceError, check_env

    with pytest.raises(ConformanceError, match=r"another episode after other episodes.*contacts"):
        check_env(register("Puck-v0", "puck_env:PlainPuck", max_episode_steps=50))


@pytest.mark.parametrize("pitch", [-60.0, -10.0, 0.0, 20.0])
@pytest.mark.parametrize("height", [0.0, 0.5])
def test_shadows_are_drawn_from_everywhere_even_from_the_ground_itself(made, pitch, height, monkeypatch):
    monkeypatch.setattr(Recorder, "ground_height", 0.0)
    env = made(render_mode="rgb_array", width=80, height=60)
    env.reset(seed=0)
    camera = Camera(target=(0.0, 0.0, height), distance=4.0, yaw=30.0, pitch=pitch)
    assert env.picture(camera).std() > 0


def test_the_light_sees_what_the_camera_sees_from_far_away():
    camera = Camera(target=(1.0, 2.0, 0.5), distance=4.0, yaw=30.0, pitch=-20.0)
    light = np.array([-4.0, -6.0, 9.0])
    from_light = camera_from_light(camera, light)
    assert from_light.target == camera.target
    assert -from_light.axes[2] == pytest.approx(light / np.linalg.norm(light))
    assert from_light.distance >= 100.0  # its rays are parallel
    seen = [2 * each.distance * math.tan(math.radians(each.field_of_view) / 2) for each in (camera, from_light)]
    assert seen[1] == pytest.approx(seen[0], rel=0.1)


def test_what_moves_casts_a_shadow_farther_away_on_lower_ground(made, monkeypatch):
    above, away = Camera(target=(0.0, 0.0, 0.0), distance=8.0, yaw=0.0, pitch=-89.0), []
    for height in (0.0, -1.0):
        monkeypatch.setattr(Recorder, "ground_height", height)
        env = made(render_mode="rgb_array", width=160, height=120)
        env.reset(seed=0)
        ground = np.array(env.ground[:3]) * 255
        picture = env.picture(above).astype(float)
        darker = (picture.sum(axis=2) < 0.9 * ground.sum()) & (np.ptp(picture / ground, axis=2) < 0.2)
        assert darker.sum() > 100
        away.append(np.argwhere(darker).mean(axis=0) - [59.5, 79.5])
        assert away[-1][0] < 0 < away[-1][1]  # opposite to the light, (-4, -6)
    assert np.linalg.norm(away[1]) > 1.5 * np.linalg.norm(away[0])


def test_a_body_is_drawn_whole_however_thin_it_is(monkeypatch):
    """Such as the pole of a cart-pole from afar, of which only the cart is collided with."""
    env = es_envs.make("CartPoleBullet-v0", render_mode="rgb_array", width=640, height=480).unwrapped
    env.reset(seed=0)
    for yaw in (0.0, 45.0):
        camera = Camera(target=(0.0, 0.0, 0.0), distance=25.0, yaw=yaw, pitch=-5.0)
        orange = (env.picture(camera).astype(int) @ [1, 0, -1]) > 60
        assert np.ptp(np.argwhere(orange)[:, 0]) >= 18  # a pole of 1 m has 22 pixels
    env.close()
