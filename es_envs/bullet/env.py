"""The base class for environments simulated by PyBullet: it owns the connection, the snapshot and the order of events.

Environments take pybullet from here (``from es_envs.bullet import BulletEnv, pybullet``): then a message explains a
missing pybullet, and its banner, which every process would print, is suppressed.
"""

import functools
import math
import os
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Literal

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_envs.arguments import ArgumentError, require_number, require_one_of, require_whole
from es_envs.bullet.camera import Camera
from es_envs.bullet.client import captured_output, disconnect, load_egl, pybullet, pybullet_data
from es_envs.bullet.drawing import Drawing, quiet
from es_envs.bullet.models import Model, read_model
from es_envs.bullet.models.robot import MOST_JOINTS
from es_envs.bullet.randomization import VARIATIONS, Randomization, Ranges, Variation, ranges
from es_envs.bullet.scenery import Colour, Rectangle, Scenery
from es_envs.display import has_display

__all__ = [
    "BulletEnv", "Camera", "bounded", "clipped", "pybullet", "require_number", "require_one_of", "require_whole",
]  # fmt: skip

RENDER_MODES = ("rgb_array", "human")
RENDERERS = ("tiny", "egl")
FLOAT32 = np.dtype(np.float32)  # numpy looks up the dtype of a type at each call, for twice the time
_LAST_LINES = 6  # of what Bullet prints about a model that it rejects
_MOST_REASONS = 8  # that a message has


class BulletEnv(gymnasium.Env[Any, Any], ABC):
    """A Gymnasium environment in its own Bullet world.

    The world is built once and its state saved before the first step. Every reset returns to that snapshot, which
    is two orders of magnitude faster than loading anything again, does not leak, and makes an episode depend on its
    seed and actions alone, to the last bit. The order of events is this class's:

    * ``__init__``: connect, ``build``, ``decorate`` (only if it renders), snapshot;
    * ``reset``: seed ``self.np_random``, back to the snapshot, ``place``, ``observe``, ``info``;
    * ``step``: ``action_repeat`` times (``act``, one physics step), then ``observe``, ``outcome``, ``info``;
    * ``render``: ``camera``.

    A subclass implements these few methods. Its constructor sets its own options, ``observation_space`` and
    ``action_space``, then calls ``super().__init__``. It calls ``pybullet`` itself, always with
    ``physicsClientId=self.client``. It does not count steps: the step limit belongs to the ``EnvDefinition``.

    Args:
        render_mode: None, "rgb_array" (``render`` returns a picture) or "human" (a window, in real time).
        action_repeat: physics steps for each ``step``; None for the class's own number.
        width: width of a picture [pixels].
        height: height of a picture [pixels].
        renderer: renderer of "rgb_array": "tiny" (software, works everywhere) or "egl" (OpenGL without a display).
        randomize: ranges [low, high], or fixed values, of ``variations`` by name; each episode draws its own.

    Attributes:
        client: the physicsClientId of this environment's world; -1 once it is closed.
        varied: this episode's value of each of the ``variations``.
        metadata: metadata of the instance: ``render_fps`` is the number of ``step`` calls per second.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES)}  # noqa: RUF012  (Gymnasium declares it so)
    time_step: ClassVar[float] = 1 / 240
    """Duration of a physics step [s]."""
    gravity: ClassVar[float] = -9.81
    """Gravity along z [m/s²]."""
    action_repeat: int = 1
    light: ClassVar[tuple[float, float, float]] = (-4.0, -6.0, 10.0)
    """Direction towards the light, which is above the ground, in world coordinates."""
    sky: ClassVar[Colour] = (0.95, 0.97, 0.98, 1.0)
    """Colour above the horizon where there is no body."""
    ground: ClassVar[Colour] = (0.58, 0.66, 0.7, 1.0)
    """Colour below the horizon where there is no body. The ground is not a body: nothing stands on it."""
    ground_height: ClassVar[float] = 0.0
    """Height at which ``mark_ground`` draws [m]."""
    readout: Literal["distance", "time"] | None = None
    """What films that follow a player show in a corner: its distance and speed, in place of a map; or the time."""
    animated: Sequence[int] = ()
    """Bodies without mass that the environment itself moves, such as a mark. Set it in ``build`` or ``decorate``."""
    variations: dict[str, Variation] = VARIATIONS
    """Properties that ``randomize`` can vary. A subclass adds its own, and reads their values from ``varied``."""
    varied: Mapping[str, float]
    """This episode's value of each of the ``variations``; there is none before ``build`` has returned."""
    reset_options: ClassVar[tuple[str, ...]] = ("randomize",)
    """Names that the options of ``reset`` may have; others are refused. A subclass that reads more adds them."""

    def __init__(
        self,
        *,
        render_mode: str | None = None,
        action_repeat: int | None = None,
        width: int = 640,
        height: int = 480,
        renderer: str = "tiny",
        randomize: Mapping[str, Any] | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ArgumentError(f"render_mode must be None or one of {', '.join(RENDER_MODES)}, got {render_mode!r}")
        require_one_of("renderer", renderer, RENDERERS)
        self.variations = {**VARIATIONS, **self.variations}
        self._ranges = self._checked({} if randomize is None else randomize)
        if action_repeat is not None:
            self.action_repeat = require_whole("action_repeat", action_repeat, 1)
        self._physics_steps = range(self.action_repeat)  # kept: to make one takes longer than to go through it
        self.width = require_whole("width", width, 1)
        self.height = require_whole("height", height, 1)
        self.render_mode = render_mode
        self.metadata = {
            "render_modes": [mode for mode in RENDER_MODES if mode != "human" or has_display(wayland=False)],
            "render_fps": 1 / (self.time_step * self.action_repeat),
        }
        egl, has_window = renderer == "egl" and render_mode == "rgb_array", render_mode == "human"
        self.client = self._connect()
        self._disconnect = weakref.finalize(self, disconnect, self.client, egl or has_window, os.getpid())
        scenery = Scenery(self.sky, self.ground, self.ground_height, self.light)
        self._drawing = Drawing(self.client, scenery, ground_height=self.ground_height, has_window=has_window, egl=egl)
        try:
            with quiet(opengl=egl or has_window):
                if egl:
                    load_egl(self.client)  # before the bodies, else every picture is blank
                self._start_world()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> int:
        if self.render_mode == "human":
            if not has_display(wayland=False):  # Bullet would end the whole process
                raise RuntimeError("render_mode 'human' needs a display, and DISPLAY is not set; use 'rgb_array'")
            sky = zip(("red", "green", "blue"), self.sky, strict=False)
            options = " ".join(f"--background_color_{name}={value}" for name, value in sky)
            with quiet(opengl=True):
                return int(pybullet.connect(pybullet.GUI, options=options))
        return int(pybullet.connect(pybullet.DIRECT))

    def _start_world(self) -> None:
        client = self.client
        if self.render_mode == "human":
            pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_GUI, 0, physicsClientId=client)
            # On the marks of `mark_ground` they are noise.
            pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_SHADOWS, 0, physicsClientId=client)
            pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_RENDERING, 0, physicsClientId=client)
        pybullet.setTimeStep(self.time_step, physicsClientId=client)
        pybullet.setGravity(0.0, 0.0, self.gravity, physicsClientId=client)
        # Without it the order of contacts depends on earlier episodes, and so do the last bits of the next one.
        pybullet.setPhysicsEngineParameter(deterministicOverlappingPairs=1, physicsClientId=client)
        self.build()
        if self.render_mode == "human":  # a window shows only bodies
            self._drawing.add_ground(self.ground)
        if self.render_mode is not None:
            self.decorate()
        if self.render_mode == "human":
            pybullet.configureDebugVisualizer(pybullet.COV_ENABLE_RENDERING, 1, physicsClientId=client)
        # Before any step: a state saved with contacts in it is restored with small differences.
        self._snapshot = pybullet.saveState(physicsClientId=client)
        self._movable = self._find_movable()
        self._randomization = Randomization(
            client, self._movable, self.variations, self.observation_space, 1 / self.metadata["render_fps"]
        )
        self.varied = self._randomization.values
        self._require_pushable(self._ranges)
        self._is_varied = False
        self._drawing.find_bodies(self._movable)
        self._apart = self._save_apart()

    @abstractmethod
    def build(self) -> None:
        """Load the bodies, and switch their motors off or to their start command.

        Called once, by the constructor; gravity and time step are set. Everything that episodes share belongs here:
        nothing may be loaded or removed later. Take no physics step.
        """

    def decorate(self) -> None:
        """Colour the bodies and add visual ones (without mass and collision shape).

        Called once, after ``build``, and only if the environment can render. Must not change the physics: an episode
        that is filmed is the same episode.
        """

    @abstractmethod
    def place(self) -> None:
        """Set the start state, with all random numbers from ``self.np_random``.

        Called by every ``reset``, including the first, in the state that ``build`` left behind. Motor commands are not
        part of that state; nor are ``self``'s own attributes, which you must reset here.
        """

    @abstractmethod
    def act(self, action: Any) -> None:
        """Apply the action to the motors.

        Called before every physics step, ``action_repeat`` times for each ``step``, since Bullet forgets a torque
        after one physics step.
        """

    @abstractmethod
    def observe(self) -> Any:
        """Read the world and return a new observation, a member of ``observation_space``.

        Called at the end of ``reset`` and after the physics steps of ``step``. You may store what ``outcome`` and
        ``info`` need in attributes here.
        """

    @abstractmethod
    def outcome(self) -> tuple[float, bool]:
        """Return the step's reward, and True if the episode has terminated. Called by ``step``, after ``observe``."""

    def info(self) -> dict[str, Any]:
        """Return the info for ``reset`` and ``step``, a new dict. Called last."""
        return {}

    @property
    def failure(self) -> str:
        """Text of ``info["ending"]`` where an episode terminates without success, such as "fell"; empty: none.

        Where there is only one, a subclass assigns it in its body: ``failure = "fell"``.
        """
        return ""

    @abstractmethod
    def camera(self) -> Camera:
        """Return the camera for the current state. Called for every picture, never while training."""

    def eyes(self) -> Camera:
        """Return the camera of a policy that acts on pixels; it is that of films, unless you override this."""
        return self.camera()

    def seen(self, size: int) -> NDArray[np.uint8]:
        """Draw what the ``eyes`` see, ``(size, size, 3)``: as in a film, but without shadows and smooth edges.

        Raises:
            RuntimeError: the environment was made without a render_mode.
        """
        self._require_pictures()
        return self._drawing.see(self.eyes(), size)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode; ``options={"randomize": {...}}`` has other ranges or values for this one.

        Raises:
            ArgumentError: such a range is none, or its name or the option's is unknown.
        """
        for name in options or {}:
            require_one_of("an option of reset", name, self.reset_options)
        super().reset(seed=seed, options=options)
        if not hasattr(self, "_snapshot"):
            raise RuntimeError(f"{type(self).__name__} has no world: its __init__ must end in super().__init__(...)")
        self._restore()
        given = {**self._ranges, **self._checked((options or {}).get("randomize", {}))}
        self._require_pushable(given)
        if given or self._is_varied:  # or the last episode was
            # A generator of its own: starts are those of the same seed without variation.
            self._randomization.begin(given, self.np_random.spawn(1)[0])
        self._is_varied = bool(given)
        self.place()
        observation = self.observe()
        if self.render_mode == "human":
            self._show()
        info = self.info()
        if self._is_varied:
            observation = self._add_variation(observation, info)
        return observation, info

    def _require_pushable(self, given: Ranges) -> None:
        if given.get("push", (0, 0))[1] > 0 and not self._loose and type(self).push is BulletEnv.push:
            raise ArgumentError(
                f"randomize['push']: {type(self).__name__} has no loose body that could be pushed: override its "
                "method push(velocity), or leave the name out"
            )

    def _checked(self, randomize: object) -> Ranges:
        return ranges(randomize, self.variations, self.observation_space)

    def _add_variation(self, observation: Any, info: dict[str, Any]) -> Any:
        """Write this episode's values into the info, and return the observation as noisy sensors see it."""
        info["randomized"] = dict(self.varied)
        return self._randomization.sensed(observation)

    def push(self, velocity: tuple[float, float]) -> None:
        """Change the velocity (x, y) [m/s] of what is pushed: here of all bodies that are not fastened to the world.

        Called between two steps, if ``randomize`` has pushes. Override it where something else is to be pushed.
        """
        for body in self._loose:
            (x, y, z), turning = pybullet.getBaseVelocity(body, physicsClientId=self.client)
            pushed = (x + velocity[0], y + velocity[1], z)
            pybullet.resetBaseVelocity(body, pushed, turning, physicsClientId=self.client)

    @functools.cached_property
    def _loose(self) -> list[int]:
        """Bodies that are not fastened to the world."""
        return [
            body for body in self._movable if pybullet.getDynamicsInfo(body, -1, physicsClientId=self.client)[0] > 0
        ]

    def _find_movable(self) -> dict[int, dict[int, int]]:
        """Bodies that can move, and their movable joints, each with its number of position values."""
        client = self.client
        movable = {}
        for index in range(pybullet.getNumBodies(physicsClientId=client)):
            body = pybullet.getBodyUniqueId(index, physicsClientId=client)
            mass = pybullet.getDynamicsInfo(body, -1, physicsClientId=client)[0]
            joints = range(pybullet.getNumJoints(body, physicsClientId=client))
            if mass > 0 or joints or body in self.animated:
                movable[body] = {
                    joint: len(pybullet.getJointStateMultiDof(body, joint, physicsClientId=client)[0])
                    for joint in joints
                    if pybullet.getJointInfo(body, joint, physicsClientId=client)[2] != pybullet.JOINT_FIXED
                }
        return movable

    def _save_apart(self) -> int:
        """Save a state in which no movable body touches another, then return to the snapshot."""
        client = self.client
        for body in self._movable:
            place = (0.0, 0.0, 1000.0 + 100.0 * body)  # far from each other
            pybullet.resetBasePositionAndOrientation(body, place, (0.0, 0.0, 0.0, 1.0), physicsClientId=client)
        apart = int(pybullet.saveState(physicsClientId=client))
        pybullet.restoreState(self._snapshot, physicsClientId=client)
        return apart

    def _restore(self) -> None:
        """Return to the snapshot, via a state without contacts.

        A pair of bodies that still touches after ``restoreState`` keeps the impulses of the last episode, from which
        the solver starts: the next episode would differ from its twin in the last bits, and then in all. (Switching the
        pair's collisions off and on clears them, too, but changes the order of the pairs.)
        """
        pybullet.restoreState(self._apart, physicsClientId=self.client)
        pybullet.performCollisionDetection(physicsClientId=self.client)
        pybullet.restoreState(self._snapshot, physicsClientId=self.client)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Run the physics for ``action_repeat`` steps under ``action``; never truncates."""
        if isinstance(action, np.ndarray) and action.ndim == 0:
            action = action[()]  # a choice, as Stable-Baselines3 predicts it
        if self._is_varied:
            if pushed := self._randomization.push():
                self.push(pushed)
            action = self._randomization.delayed(action)
        for _ in self._physics_steps:
            self.act(action)
            pybullet.stepSimulation(self.client)  # by its place, for Bullet takes names slowly
        observation = self.observe()
        reward, terminated = self.outcome()
        if self.render_mode == "human":
            self._show()
        info = self.info()
        if self._is_varied:
            observation = self._add_variation(observation, info)
        if terminated and self.failure and not info.get("is_success"):
            info["ending"] = self.failure
        return observation, reward, terminated, False, info

    def render(self) -> NDArray[np.uint8] | None:
        """Draw the current state as a picture ``(height, width, 3)``; None in "human" mode, where the window shows it.

        Raises:
            RuntimeError: the environment was made without a render_mode.
        """
        self._require_pictures()
        if self.render_mode == "human":
            return None
        return self.picture(self.camera())

    def _require_pictures(self) -> None:
        if self.render_mode is None:
            raise RuntimeError(f"{type(self).__name__} was made without a render_mode: pass render_mode='rgb_array'")

    def pose(self) -> NDArray[np.float64]:
        """Positions of everything that moves, ``(p,)``: each body's base position, its orientation and its joints."""
        numbers: list[float] = []
        for body, joints in self._movable.items():
            for part in pybullet.getBasePositionAndOrientation(body, physicsClientId=self.client):
                numbers += part
            if joints:
                states = pybullet.getJointStatesMultiDof(body, list(joints), physicsClientId=self.client)
                numbers += (number for position, *_ in states for number in position)
        return np.array(numbers)

    def _assume(self, pose: NDArray[np.float64]) -> None:
        """Put everything that moves into ``pose``, at rest; this ends the current episode."""
        numbers = iter(pose.tolist())

        def take(count: int) -> list[float]:
            return [next(numbers) for _ in range(count)]

        for body, joints in self._movable.items():
            pybullet.resetBasePositionAndOrientation(body, take(3), take(4), physicsClientId=self.client)
            if joints:
                positions = [take(size) for size in joints.values()]
                pybullet.resetJointStatesMultiDof(body, list(joints), positions, physicsClientId=self.client)

    def picture(self, camera: Camera, poses: Sequence[NDArray[np.float64]] = ()) -> NDArray[np.uint8]:
        """Draw the current state as a picture ``(height, width, 3)``, or several poses instead.

        Args:
            camera: the camera.
            poses: poses to draw, all but the last as ghosts, from blue for the first to yellow. Afterwards the world is
                in one of them, so that the next call must be ``reset``, or this one again.
        """
        return self._drawing.draw(camera, (self.width, self.height), poses, self._assume)

    def close(self) -> None:
        """Disconnect from the world. May be called again; garbage collection closes an environment, too."""
        if hasattr(self, "_disconnect"):
            self._disconnect()  # a finalizer runs once only
        self.client = -1  # Bullet gives the number to the next world, which this one must not touch

    def load_urdf(
        self,
        path: str | Path,
        position: Sequence[float] = (0.0, 0.0, 0.0),
        orientation: Sequence[float] = (0.0, 0.0, 0.0, 1.0),
        *,
        fixed: bool = False,
        flags: int = 0,
        packages: Mapping[str, str | Path] | None = None,
    ) -> int:
        """Load a model in ``build``, and return its body id.

        Where Bullet cannot read the file itself, but a corrected copy of it, it gets that; the findings of
        ``read_model`` say what is corrected.

        Args:
            path: path of the URDF or xacro file; a relative one is also looked up among the models that come with
                pybullet.
            position: the base's position [m].
            orientation: the base's orientation, a quaternion (x, y, z, w).
            fixed: True to fasten the base to the world.
            flags: pybullet's ``URDF_`` flags, added up; without ``pybullet.URDF_USE_INERTIA_FROM_FILE`` Bullet computes
                inertias from collision shapes: without such a shape a link has hardly any.
            packages: folders of packages by name, for meshes with paths such as ``package://NAME/meshes/arm.stl``.

        Raises:
            FileNotFoundError: there is no such file; Bullet itself would not say which one is missing.
            RuntimeError: Bullet cannot read the file; the message says why.
        """
        client = self.client
        with self._reading(path, packages, flags) as (_, file):
            body = int(
                pybullet.loadURDF(file, position, orientation, useFixedBase=fixed, flags=flags, physicsClientId=client)
            )
        links = range(-1, pybullet.getNumJoints(body, physicsClientId=client))
        if not (
            flags & pybullet.URDF_USE_INERTIA_FROM_FILE
            or any(pybullet.getCollisionShapeData(body, link, physicsClientId=client) for link in links)
            or all(pybullet.getDynamicsInfo(body, link, physicsClientId=client)[0] == 0 for link in links)
        ):
            warnings.warn(
                f"{type(self).__name__}: no link of {self._model(path)} has a <collision> shape, so that it touches "
                "nothing, and Bullet takes its inertias for nearly 0: add shapes, or, if it need not touch anything, "
                "pass flags=pybullet.URDF_USE_INERTIA_FROM_FILE to load_urdf",
                RuntimeWarning,
                stacklevel=2,
            )
        return body

    def load_mjcf(self, path: str | Path, *, flags: int = 0) -> list[int]:
        """Load a MuJoCo model in ``build``, and return the ids of its bodies.

        Args:
            path: path of the XML file; a relative one is also looked up among the models that come with pybullet.
            flags: pybullet's ``URDF_`` flags, added up.

        Raises:
            FileNotFoundError: there is no such file.
            RuntimeError: Bullet cannot read the file; the message says why.
        """
        with self._reading(path, None, flags) as (_, file):
            return [int(body) for body in pybullet.loadMJCF(file, flags=flags, physicsClientId=self.client)]

    def load_sdf(self, path: str | Path, *, packages: Mapping[str, str | Path] | None = None) -> list[int]:
        """Load the models of an SDF file in ``build``, and return the ids of their bodies.

        Args:
            path: path of the SDF file; a relative one is also looked up among the models that come with pybullet.
            packages: folders of packages by name, for meshes with paths such as ``model://NAME/meshes/arm.stl``.

        Raises:
            FileNotFoundError: there is no such file.
            RuntimeError: Bullet cannot read the file; the message says why.
        """
        with self._reading(path, packages) as (_, file):
            return [int(body) for body in pybullet.loadSDF(file, physicsClientId=self.client)]

    @contextmanager
    def _reading(
        self,
        path: str | Path,
        packages: Mapping[str, str | Path] | None = None,
        flags: int = 0,
        link_sizes: Mapping[str, float] | None = None,
    ) -> Iterator[tuple[Model, str]]:
        """Give a model, and its file that Bullet can load; what would end the process is an error."""
        file = self._model(path)
        model = read_model(file, packages=packages, look_into_meshes=False, link_sizes=link_sizes)
        reasons = [str(finding) for finding in model.errors]
        if len(model.joints) > MOST_JOINTS and not flags & pybullet.URDF_MERGE_FIXED_LINKS:
            reasons += [str(finding) for finding in model.findings if finding.kind == "many-joints"]
        if reasons:
            raise RuntimeError(self._cannot_read(file, reasons))
        with model.file_for_bullet() as copy:
            try:
                with captured_output() as lines:
                    yield model, str(copy)
            except pybullet.error as error:
                printed = [line.replace(str(copy), file) for line in lines if "Warning" not in line]
                raise RuntimeError(self._cannot_read(file, printed[-_LAST_LINES:] or [str(error)])) from error

    def _cannot_read(self, file: str, reasons: Sequence[str]) -> str:
        more = f" (and {len(reasons) - _MOST_REASONS} more)" if len(reasons) > _MOST_REASONS else ""
        shown = "\n  ".join(reasons[:_MOST_REASONS])
        return f"{type(self).__name__}: Bullet cannot read {file}:\n  {shown}{more}"

    def _model(self, path: str | Path) -> str:
        candidates = [Path(path), Path(pybullet_data.getDataPath()) / path]
        for candidate in candidates:
            if candidate.is_file():
                return str(candidate)
        raise FileNotFoundError(
            f"{type(self).__name__}: no model at {' or '.join(map(str, dict.fromkeys(candidates)))}"
        )

    def joints(self, body: int) -> dict[str, int]:
        """Return the joint indices of a body by joint name, for use in ``build``.

        A name that the body does not have raises a KeyError with those that it has.
        """
        count = pybullet.getNumJoints(body, physicsClientId=self.client)
        infos = (pybullet.getJointInfo(body, joint, physicsClientId=self.client) for joint in range(count))
        return _Joints((info[1].decode(), info[0]) for info in infos)

    def paint(self, body: int, colour: Colour, link: int = -1) -> None:
        """Colour a link of a body (-1: the base), for use in ``decorate``. Opacity 0 hides it."""
        self._drawing.paint(body, colour, link)

    def paint_sectors(self, body: int, colours: Sequence[Colour], link: int = -1) -> None:
        """Colour a sphere in sectors, from pole to pole, so that it is seen to roll; for use in ``decorate``."""
        self._drawing.paint_sectors(body, colours, link)

    def visual_box(
        self, size: Sequence[float], position: Sequence[float], colour: Colour, *, stripes: Sequence[Colour] = ()
    ) -> None:
        """Add a box that is visible but takes no part in the physics, for use in ``decorate``.

        Args:
            size: size along x, y, z [m]; one that is 0 makes a rectangle. Boxes may touch, but should not overlap.
            position: position of its middle [m].
            colour: red, green, blue, opacity, each from 0 to 1.
            stripes: alternating colours of its top; none: ``colour``.
        """
        self._drawing.add_box(size, position, colour, stripes)

    def mark_ground(self, rectangles: Sequence[Rectangle], colour: Colour) -> None:
        """Paint rectangles onto the ground, over those of earlier calls, for use in ``decorate``."""
        self._drawing.mark_ground(rectangles, colour)

    def pave(self, paving: Sequence[tuple[NDArray[np.float64], Colour]]) -> None:
        """Paint the ground of this episode's films, for use in ``place``.

        What was painted in earlier episodes is gone. Neither a window nor a policy that acts on pixels sees it.

        Args:
            paving: for each colour, in the order of painting, the corners of quadrilaterals (x, y) ``(n, 4, 2)`` [m].
        """
        self._drawing.pave(paving)

    def _show(self) -> None:
        self._drawing.update_window(self.camera, 1 / self.metadata["render_fps"])

    def __getstate__(self) -> Any:
        raise TypeError(
            f"{type(self).__name__} cannot be pickled or copied, since its world is in Bullet: "
            "make another environment in the process that needs it"
        )


class _Joints(dict[str, int]):
    def __missing__(self, name: str) -> int:
        raise KeyError(f"there is no joint {name!r}: this body has {', '.join(self) or 'none'}")


def bounded(values: list[float], limit: float) -> NDArray[np.float32]:
    """``values`` as a float32 observation, every entry clipped to ±``limit``."""
    observation = np.array(values, FLOAT32)
    # Asking first is several times faster than clipping, which is rarely needed.
    if max(values) > limit or min(values) < -limit:
        np.clip(observation, -limit, limit, out=observation)
    return observation


def clipped(value: Any, low: float = -1.0, high: float = 1.0) -> float:
    """Clip an entry of an action to a Python float, since Bullet does not take numpy scalars everywhere.

    Raises:
        ValueError: it is NaN, which Bullet would spread through the whole world, and no reset would remove.
    """
    number = float(value)
    if low <= number <= high:
        return number
    if math.isnan(number):
        raise ValueError("an action holds NaN")
    return low if number < low else high
