"""CartPoleBullet-v0: a pole on a cart, pushed left or right."""

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_cartpole_bullet.rail import RailEnv
from es_envs import urdf_path
from es_envs.bullet import Camera, bounded, pybullet, require_number, require_one_of

FORCES = {0: -50.0, 1: 50.0}  # [N]; a weaker push cannot hold the pole at 20 Hz
ANGLE_LIMIT = 0.2095  # [rad], 12 degrees
# Scales that make each observation entry about 1: [m], [m/s], [rad], [rad/s].
POSITION_SCALE, VELOCITY_SCALE, ANGLE_SCALE, RATE_SCALE = 1 / 5, 1 / 5, 1 / ANGLE_LIMIT, 1 / 2
BOUND = 10.0

OBSERVATIONS = {"full": 4, "without_velocities": 2}


class CartPoleBulletEnv(RailEnv):
    """Keep a pole upright on a cart that runs on a rail.

    ## Actions
    ``Discrete(2)``

    | action | meaning | force on the cart [N] |
    |---|---|---|
    | 0 | push left | -50 |
    | 1 | push right | +50 |

    A step lasts 1/20 s.

    ## Observations
    ``Box(-10, 10, (4,), float32)``, clipped to the bounds

    | index | meaning | unit | scaled by | values while balancing |
    |---|---|---|---|---|
    | 0 | position of the cart | m | 1 / 5 | -0.5 to 0.5 |
    | 1 | velocity of the cart | m/s | 1 / 5 | -0.5 to 0.5 |
    | 2 | angle of the pole from upright | rad | 1 / 0.2095 | -1 to 1 |
    | 3 | angular velocity of the pole | rad/s | 1 / 2 | -1.5 to 1.5 |

    With ``observation="without_velocities"`` there are only position and angle, ``(2,)``: a policy that remembers the
    last ones can balance the pole, others cannot.

    ## Reward
    1 for every step (``info["reward_survive"]``).

    ## Start
    Cart position [m] and pole angle [rad] uniform in ±``start_noise``, both at rest.

    ## End
    Terminated when the cart is more than 10 m from the middle or the pole more than 0.2095 rad from upright. The
    definition truncates after 500 steps.

    Args:
        observation: "full" or "without_velocities".
        start_noise: bound of cart position [m] and pole angle [rad] at the start; 0 for a fixed start.
        **options: see ``BulletEnv``.
    """

    time_step = 1 / 20
    ground_height = -0.6
    position_limit = 10.0

    def __init__(self, *, observation: str = "full", start_noise: float = 0.05, **options: Any) -> None:
        require_one_of("observation", observation, OBSERVATIONS)
        self.observation = observation
        self.start_noise = require_number("start_noise", start_noise, 0.0, ANGLE_LIMIT, below=True)
        self.observation_space = spaces.Box(-BOUND, BOUND, (OBSERVATIONS[observation],), np.float32)
        self.action_space = spaces.Discrete(2)
        self._velocities = observation == "full"
        super().__init__(**options)

    def build(self) -> None:
        """Load a cart on a rail, and the pole on it, which swings freely."""
        self.body = self.load_urdf(urdf_path("cart_pole_bullet.urdf"))
        joints = self.joints(self.body)
        self.cart, self.pole = joints["slider_to_cart"], joints["cart_to_pole"]
        # The cart keeps Bullet's default motor, which brakes it a little: else no policy balances the pole at 20 Hz.
        pybullet.setJointMotorControl2(
            self.body, self.pole, pybullet.VELOCITY_CONTROL, force=0.0, physicsClientId=self.client
        )
        self._both = (self.cart, self.pole)

    def decorate(self) -> None:
        """Add rails with a post every metre, and colour the pole."""
        self.decorate_rail(spacing=1.0, posts=15, top=-0.14, gauge=0.28)
        self.paint(self.body, (1.0, 0.6, 0.2, 1.0), self.pole)

    def place(self) -> None:
        """Put the cart near the middle and the pole nearly upright."""
        noise, client = self.start_noise, self.client
        position, angle = self.np_random.uniform(-noise, noise, 2).tolist()
        pybullet.resetJointState(self.body, self.cart, position, 0.0, physicsClientId=client)
        pybullet.resetJointState(self.body, self.pole, angle, 0.0, physicsClientId=client)

    def act(self, action: Any) -> None:
        """Push the cart."""
        try:
            force = FORCES[action] * self.varied["motor_strength"]
        except (KeyError, TypeError):
            raise ValueError(f"an action is 0 (left) or 1 (right), got {action!r}") from None
        pybullet.setJointMotorControl2(
            self.body, self.cart, pybullet.TORQUE_CONTROL, force=force, physicsClientId=self.client
        )

    def observe(self) -> NDArray[np.float32]:
        """Read position, velocity, angle, rate; without the velocities if they are hidden."""
        cart, pole = pybullet.getJointStates(self.body, self._both, self.client)
        self.position, self._angle = cart[0], pole[0]
        if not self._velocities:
            return bounded([cart[0] * POSITION_SCALE, pole[0] * ANGLE_SCALE], BOUND)
        return bounded(
            [cart[0] * POSITION_SCALE, cart[1] * VELOCITY_SCALE, pole[0] * ANGLE_SCALE, pole[1] * RATE_SCALE], BOUND
        )

    def outcome(self) -> tuple[float, bool]:
        """Return 1 for every step, until the pole falls or the rail ends."""
        upright = -ANGLE_LIMIT <= self._angle <= ANGLE_LIMIT
        return 1.0, not (upright and self.is_on_rail)

    def info(self) -> dict[str, Any]:
        """Return the reward's term."""
        return {"reward_survive": 1.0}

    def camera(self) -> Camera:
        """Return a camera beside the rail that moves with the cart."""
        return Camera(target=(self.position, 0.0, 0.25), distance=2.4, yaw=0.0, pitch=-9.0)

    def eyes(self) -> Camera:
        """Return a camera so near that a few pixels show how the pole leans."""
        return Camera(target=(self.position, 0.0, 0.45), distance=1.3, yaw=0.0, pitch=0.0)
