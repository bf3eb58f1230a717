"""BalancingPlate-v0: a ball on a plate that tilts about two axes."""

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs import urdf_path
from es_envs.bullet import MOTOR_STRENGTH, BulletEnv, Camera, bounded, pybullet, require_one_of

TORQUE = 0.0003  # [N·m]
BASE_HEIGHT = 0.1  # [m]
BALL_RADIUS = 0.02  # [m]
BALL_COLOURS = 2 * ((0.95, 0.4, 0.15, 1.0), (0.98, 0.96, 0.92, 1.0))  # of its sectors
BALL_MASS = 0.0007  # [kg]
DROP_HEIGHT = 0.2  # [m], of the ball's centre
REST_HEIGHT = 0.18  # [m], of the ball's centre on a level plate
FALLEN_HEIGHT = 0.1  # [m], of the ball's centre
ANGLE_NOISE = 0.0005  # [rad]
RATE_NOISE = 0.00005  # [rad/s]
SCALE = 10.0
BOUND = 20.0

OBSERVATIONS = {"full": 10, "without_rates": 8}
ACTION_ENCODINGS = ("multi_binary", "discrete")


class BalancingPlateEnv(BulletEnv):
    """Keep a ball on a square plate of 0.3 m by tilting it about two axes.

    ## Actions
    ``MultiBinary(2)``: the sign of the torque about each axis

    | index | axis | 0 | 1 |
    |---|---|---|---|
    | 0 | pitch (x) | -0.0003 N·m | +0.0003 N·m |
    | 1 | roll (y) | -0.0003 N·m | +0.0003 N·m |

    With ``action_encoding="discrete"``, ``Discrete(4)``: action ``2·pitch + roll``. A step lasts 1/100 s.

    ## Observations
    ``Box(-20, 20, (10,), float32)``, every entry times 10 and clipped to the bounds

    | index | meaning | unit | values while balancing, scaled |
    |---|---|---|---|
    | 0, 1 | position of the ball, x and y | m | -1.5 to 1.5 |
    | 2 | height of the ball above its rest on the level plate | m | -0.5 to 0.2 |
    | 3, 4, 5 | velocity of the ball | m/s | -6 to 6 (the fall onto the plate) |
    | 6, 7 | angle of pitch and roll joint | rad | -1 to 1 |
    | 8, 9 | angular velocity of pitch and roll joint | rad/s | -2 to 2 |

    With ``observation="without_rates"`` the last two are hidden, ``(8,)``, and the task is harder.

    ## Reward
    1 for every step (``info["reward_survive"]``).

    ## Start
    The ball at rest 0.02 m above the plate's middle. Joint angles uniform in ±0.0005 rad, joint velocities in
    ±0.00005 rad/s.

    ## End
    Terminated when the ball's centre is below 0.1 m: it has fallen off. The definition truncates after 2000 steps.

    Args:
        observation: "full" or "without_rates".
        action_encoding: "multi_binary" or "discrete".
        **options: see ``BulletEnv``.

    Attributes:
        position: the ball's (x, y, z) [m].
    """

    time_step = 1 / 100
    failure = "the ball fell"
    ground = (0.3, 0.4, 0.47, 1.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}
    torque: ClassVar[float] = TORQUE
    """Torque of an action about each axis [N·m]."""
    further_observations: ClassVar[int] = 0
    """Number of observations that a subclass adds to these."""

    def __init__(self, *, observation: str = "full", action_encoding: str = "multi_binary", **options: Any) -> None:
        require_one_of("observation", observation, OBSERVATIONS)
        require_one_of("action_encoding", action_encoding, ACTION_ENCODINGS)
        self.observation = observation
        self.action_encoding = action_encoding
        self.observation_space = spaces.Box(
            -BOUND, BOUND, (OBSERVATIONS[observation] + self.further_observations,), np.float32
        )
        self.action_space = spaces.MultiBinary(2) if action_encoding == "multi_binary" else spaces.Discrete(4)
        self._torques = {
            (pitch, roll) if action_encoding == "multi_binary" else 2 * pitch + roll: (
                (2 * pitch - 1) * self.torque,
                (2 * roll - 1) * self.torque,
            )
            for pitch in (0, 1)
            for roll in (0, 1)
        }
        self._rates, self._takes_pairs = observation == "full", action_encoding == "multi_binary"
        super().__init__(**options)

    def build(self) -> None:
        """Load a floor, the plate on its two hinges, free to turn, and the ball above it."""
        client = self.client
        self.floor = self.load_urdf("plane.urdf")
        self.plate = self.load_urdf(urdf_path("balancing_plate.urdf"), (0.0, 0.0, BASE_HEIGHT), fixed=True)
        joints = self.joints(self.plate)
        self._hinges = (joints["pitch_joint"], joints["roll_joint"])
        for hinge in self._hinges:
            pybullet.setJointMotorControl2(
                self.plate, hinge, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=client
            )
        sphere = pybullet.createCollisionShape(pybullet.GEOM_SPHERE, radius=BALL_RADIUS, physicsClientId=client)
        self.ball = pybullet.createMultiBody(
            baseMass=BALL_MASS,
            baseCollisionShapeIndex=sphere,
            basePosition=(0.0, 0.0, DROP_HEIGHT),
            physicsClientId=client,
        )

    def decorate(self) -> None:
        """Add a stand on tiles, and colour plate and ball."""
        self.paint(self.floor, (1.0, 1.0, 1.0, 0.0))
        tiles = [(x / 5, y / 5, (x + 1) / 5, (y + 1) / 5) for x in range(-8, 8) for y in range(-8, 8) if (x + y) % 2]
        self.mark_ground(tiles, (0.33, 0.43, 0.5, 1.0))
        self.visual_box((0.14, 0.14, 0.02), (0.0, 0.0, 0.01), (0.2, 0.22, 0.25, 1.0))
        self.visual_box((0.025, 0.025, 0.12), (0.0, 0.0, 0.08), (0.3, 0.32, 0.36, 1.0))
        self.paint(self.plate, (0.85, 0.82, 0.76, 1.0), self._hinges[1])
        self.paint_sectors(self.ball, BALL_COLOURS)

    def place(self) -> None:
        """Put the plate nearly level and nearly at rest."""
        angles = self.np_random.uniform(-ANGLE_NOISE, ANGLE_NOISE, 2).tolist()
        rates = self.np_random.uniform(-RATE_NOISE, RATE_NOISE, 2).tolist()
        for hinge, angle, rate in zip(self._hinges, angles, rates, strict=True):
            pybullet.resetJointState(self.plate, hinge, angle, rate, physicsClientId=self.client)

    def act(self, action: Any) -> None:
        """Turn both hinges."""
        strength = self.varied["motor_strength"]
        try:
            if self._takes_pairs:  # of numpy's integers, which are slow as keys
                action = tuple(action.tolist() if isinstance(action, np.ndarray) else action)
            pitch, roll = self._torques[action]
        except (KeyError, TypeError):
            raise ValueError(f"an action is a member of {self.action_space}, got {action!r}") from None
        pybullet.setJointMotorControlArray(
            self.plate,
            self._hinges,
            pybullet.TORQUE_CONTROL,
            forces=(pitch * strength, roll * strength),
            physicsClientId=self.client,
        )

    def observe(self) -> NDArray[np.float32]:
        """Read the ball's position and velocity, joint angles, and joint velocities unless they are hidden."""
        return bounded(self.values(), BOUND)

    def values(self) -> list[float]:
        """Return what is observed, before it is clipped to the bounds."""
        client = self.client
        (x, y, z), _ = pybullet.getBasePositionAndOrientation(self.ball, client)
        (vx, vy, vz), _ = pybullet.getBaseVelocity(self.ball, client)
        pitch, roll = pybullet.getJointStates(self.plate, self._hinges, client)
        self.position = (x, y, z)
        values = [
            x * SCALE, y * SCALE, (z - REST_HEIGHT) * SCALE, vx * SCALE, vy * SCALE, vz * SCALE,
            pitch[0] * SCALE, roll[0] * SCALE,
        ]  # fmt: skip
        if self._rates:
            values += (pitch[1] * SCALE, roll[1] * SCALE)
        return values

    def outcome(self) -> tuple[float, bool]:
        """Return 1 for every step, until the ball has fallen off."""
        return 1.0, self.position[2] < FALLEN_HEIGHT

    def info(self) -> dict[str, Any]:
        """Return the reward's term."""
        return {"reward_survive": 1.0}

    def camera(self) -> Camera:
        """Return a camera above and beside the plate."""
        return Camera(target=(0.0, 0.0, 0.12), distance=0.5, yaw=30.0, pitch=-32.0)
