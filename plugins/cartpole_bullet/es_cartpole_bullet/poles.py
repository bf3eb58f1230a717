"""CartPoleSwingUp-v0 and DoublePole-v0: a cart whose force is chosen freely, and poles that are harder to balance."""

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_cartpole_bullet.rail import RailEnv
from es_envs import urdf_path
from es_envs.bullet import Camera, bounded, clipped, pybullet, require_number, require_one_of

FORCE = 10.0  # [N]
BOUND = 10.0
UPRIGHT_FOR = 2.0  # [s], for a swing-up to be a success
CALM = 5.0  # [rad/s]; a pole that turns so fast earns half


class PolesEnv(RailEnv):
    """A cart on a rail of 4.8 m, without friction, and one or more poles that swing on it.

    A subclass names its model and its poles' hinges, draws their start, and says what is observed and rewarded.
    """

    time_step = 1 / 100
    action_repeat = 2
    ground_height = -0.9
    position_limit = 2.4
    model: ClassVar[str]
    hinges: ClassVar[tuple[str, ...]]

    def __init__(self, observations: int, **options: Any) -> None:
        self.observation_space = spaces.Box(-BOUND, BOUND, (observations,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        super().__init__(**options)

    def build(self) -> None:
        """Load the cart and its poles, and let all of them move freely."""
        self.body = self.load_urdf(urdf_path(self.model), fixed=True, flags=pybullet.URDF_USE_INERTIA_FROM_FILE)
        joints = self.joints(self.body)
        self.cart, *self.poles = (joints[name] for name in ("rail_to_cart", *self.hinges))
        self._joints = (self.cart, *self.poles)
        for joint in self._joints:
            pybullet.setJointMotorControl2(
                self.body, joint, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=self.client
            )
        for link in (-1, *self._joints):
            pybullet.changeDynamics(
                self.body, link, linearDamping=0.0, angularDamping=0.0, jointDamping=0.0, physicsClientId=self.client
            )

    def decorate(self) -> None:
        """Add rails with posts, and colour the poles."""
        self.decorate_rail(spacing=0.8, posts=3, top=-0.09, gauge=0.11)
        for pole, colour in zip(self.poles, ((1.0, 0.6, 0.2, 1.0), (0.9, 0.1, 0.25, 1.0)), strict=False):
            self.paint(self.body, colour, pole)

    @abstractmethod
    def start(self) -> tuple[float, ...]:
        """Draw the positions of cart [m] and poles [rad], which start at rest."""

    def place(self) -> None:
        """Put the cart and its poles into their start."""
        for joint, position in zip(self._joints, self.start(), strict=True):
            pybullet.resetJointState(self.body, joint, position, 0.0, physicsClientId=self.client)

    def act(self, action: Any) -> None:
        """Push the cart."""
        force = clipped(action[0]) * FORCE * self.varied["motor_strength"]
        pybullet.setJointMotorControl2(
            self.body, self.cart, pybullet.TORQUE_CONTROL, force=force, physicsClientId=self.client
        )

    def _read(self) -> list[tuple[float, float]]:
        """Position and velocity of the cart [m, m/s], then of each pole [rad, rad/s]."""
        states = pybullet.getJointStates(self.body, self._joints, self.client)
        self.position = float(states[0][0])
        return [state[:2] for state in states]

    def camera(self) -> Camera:
        """Return a camera that goes half as far as the cart, and so sees it large, and the end that it nears."""
        return Camera(target=(self.position / 2, 0.0, 0.2), distance=3.0, yaw=0.0, pitch=-8.0)


class CartPoleSwingUpEnv(PolesEnv):
    """Swing up a hanging pole by moving its cart, and keep it upright.

    ## Actions
    ``Box(-1, 1, (1,), float32)``: the force on the cart, ±10 N; values beyond the bounds are clipped. A step lasts
    1/25 s.

    ## Observations
    ``Box(-10, 10, (5,), float32)``, clipped to the bounds

    | index | meaning | unit | scaled by | usual values, scaled |
    |---|---|---|---|---|
    | 0 | position of the cart | m | 1 / 2.4 | -1 to 1 |
    | 1 | velocity of the cart | m/s | 1 / 3 | -1.5 to 1.5 |
    | 2 | sine of the pole's angle from upright | | 1 | -1 to 1 |
    | 3 | cosine of that angle | | 1 | -1 (hanging) to 1 (upright) |
    | 4 | angular velocity of the pole | rad/s | 1 / 10 | -1.5 to 1.5 |

    ## Reward
    The height of the pole's tip, 0 hanging, 1 upright; divided by 1 + (rate / 5 rad/s)², so that it does not pay to
    whirl the pole round (``info["reward_upright"]``).

    ## Start
    Position of the cart [m] and angle of the pole from hanging [rad] uniform in ±``start_noise``, both at rest.

    ## End
    Terminated when the cart is more than 2.4 m from the middle. The definition truncates after 250 steps.
    ``info["is_success"]``: for the last 2 s the pole was less than 0.45 rad from upright, and the cart on its rail.

    Args:
        start_noise: bound of the cart's position [m] and the pole's angle [rad] at the start.
        **options: see ``BulletEnv``.
    """

    action_repeat = 4
    model = "cart_pole.urdf"
    hinges = ("hinge",)

    def __init__(self, *, start_noise: float = 0.1, **options: Any) -> None:
        self.start_noise = require_number("start_noise", start_noise, 0.0, 1.0, below=True)
        super().__init__(observations=5, **options)

    def start(self) -> tuple[float, ...]:
        """Draw a place near the middle and a pole that nearly hangs."""
        position, angle = self.np_random.uniform(-self.start_noise, self.start_noise, 2).tolist()
        self._upright_for = 0
        return position, math.pi + angle

    def observe(self) -> NDArray[np.float32]:
        """Read the cart and its pole."""
        (position, velocity), (angle, rate) = self._read()
        self._cosine = math.cos(angle)
        self._reward = (1 + self._cosine) / 2 / (1 + (rate / CALM) ** 2)
        return bounded(
            [position / self.position_limit, velocity / 3, math.sin(angle), self._cosine, rate / 10],
            BOUND,
        )

    def outcome(self) -> tuple[float, bool]:
        """Return how high and calm the tip is, and True off the rail."""
        self._upright_for = self._upright_for + 1 if self._cosine > 0.9 and self.is_on_rail else 0
        return self._reward, not self.is_on_rail

    def info(self) -> dict[str, Any]:
        """Return the reward's term, and whether the pole has been kept upright."""
        return {
            "reward_upright": self._reward,
            "is_success": self._upright_for * self.time_step * self.action_repeat >= UPRIGHT_FOR,
        }


class DoublePoleEnv(PolesEnv):
    """Balance two poles, of 1 m and of 0.1 m, on one cart.

    The task of Wieland (1991), by which neuroevolution has long been measured, in Bullet's physics.

    ## Actions
    ``Box(-1, 1, (1,), float32)``: the force on the cart, ±10 N; values beyond the bounds are clipped. A step lasts
    1/50 s.

    ## Observations
    ``Box(-10, 10, (6,), float32)``, clipped to the bounds

    | index | meaning | unit | scaled by | values while balancing, scaled |
    |---|---|---|---|---|
    | 0 | position of the cart | m | 1 / 2.4 | -1 to 1 |
    | 1, 2 | angle of the long and of the short pole from upright | rad | 1 / 0.628 | -1 to 1 |
    | 3 | velocity of the cart | m/s | 1 / 3 | -1 to 1 |
    | 4, 5 | angular velocity of the long and of the short pole | rad/s | 1 / 5 | -1 to 1 |

    With ``observation="without_velocities"`` there are only the first three, ``(3,)``: a policy needs a memory.

    ## Reward
    1 for every step (``info["reward_survive"]``).

    ## Start
    Angle of the long pole uniform in ±``start_noise`` [rad]; the short one upright, the cart in the middle, all at
    rest.

    ## End
    Terminated when the cart is more than 2.4 m from the middle, or a pole more than 0.628 rad (36°) from upright. The
    definition truncates after 1000 steps.

    Args:
        observation: "full" or "without_velocities".
        start_noise: bound of the long pole's angle at the start [rad].
        **options: see ``BulletEnv``.
    """

    model = "cart_two_poles.urdf"
    hinges = ("long_hinge", "short_hinge")
    ANGLE_LIMIT = math.pi / 5
    OBSERVATIONS: ClassVar = {"full": 6, "without_velocities": 3}

    def __init__(self, *, observation: str = "full", start_noise: float = 0.07, **options: Any) -> None:
        require_one_of("observation", observation, self.OBSERVATIONS)
        self.observation = observation
        self.start_noise = require_number("start_noise", start_noise, 0.0, self.ANGLE_LIMIT, below=True)
        super().__init__(self.OBSERVATIONS[observation], **options)

    def start(self) -> tuple[float, ...]:
        """Draw the angle of the long pole."""
        return 0.0, float(self.np_random.uniform(-self.start_noise, self.start_noise)), 0.0

    def observe(self) -> NDArray[np.float32]:
        """Read the cart and its poles; only their positions if the velocities are hidden."""
        (position, velocity), (long, long_rate), (short, short_rate) = self._read()
        self._is_upright = abs(long) <= self.ANGLE_LIMIT and abs(short) <= self.ANGLE_LIMIT
        values = [position / self.position_limit, long / self.ANGLE_LIMIT, short / self.ANGLE_LIMIT]
        if self.observation == "full":
            values += [velocity / 3, long_rate / 5, short_rate / 5]
        return bounded(values, BOUND)

    def outcome(self) -> tuple[float, bool]:
        """Return 1 for every step, until a pole falls or the rail ends."""
        return 1.0, not (self._is_upright and self.is_on_rail)

    def info(self) -> dict[str, Any]:
        """Return the reward's term."""
        return {"reward_survive": 1.0}
