"""PlateFigureEight-v0: roll a ball after a point that moves in a figure eight."""

import math
from typing import Any

from es_balancing_plate.env import BALL_RADIUS, DROP_HEIGHT, REST_HEIGHT, SCALE, BalancingPlateEnv
from es_envs.bullet import pybullet

START = 0.1  # [m], to each side of the middle
SIZE = (0.08, 0.05)  # [m], of the figure, to each side of the middle
PERIOD = 10.0  # [s]
RATE = 2 * math.pi / PERIOD  # [rad/s]
SPEED = (SIZE[0] * RATE, 2 * SIZE[1] * RATE)  # [m/s], at most, along each axis
FAR = 0.2  # [m]; from here on nothing is earned
SUCCESS = 0.03  # [m], mean distance


class PlateFigureEightEnv(BalancingPlateEnv):
    """Roll a ball, dropped somewhere on the plate, after a point that moves in a figure eight.

    ## Actions
    ``MultiBinary(2)``: the sign of the torque about each axis, pitch (x) and roll (y), ±0.002 N·m; with
    ``action_encoding="discrete"``, ``Discrete(4)``: action ``2·pitch + roll``. A step lasts 1/100 s.

    ## Observations
    ``Box(-20, 20, (14,), float32)``, every entry times 10 and clipped to the bounds

    | index | meaning | unit | usual values, scaled |
    |---|---|---|---|
    | 0 to 9 | see ``BalancingPlateEnv`` | | |
    | 10, 11 | from the point to the ball, x and y | m | -1 to 1 |
    | 12, 13 | velocity of the point | m/s | -0.7 to 0.7 |

    With ``observation="without_rates"`` the plate's two rates are hidden, ``(12,)``.

    ## Reward
    1 where the ball is above the point, down to 0 at a distance of 0.2 m or more (``info["reward_near"]``).

    ## Start
    The ball at rest 0.02 m above a point of the plate, uniform within 0.1 m of the middle along each axis; the point
    anywhere on its figure, of which a round takes 10 s. The plate as in ``BalancingPlateEnv``.

    ## End
    Terminated when the ball has fallen off. The definition truncates after 2000 steps. ``info`` holds ``distance`` [m],
    from the point to the ball, and ``is_success``: two rounds are over, and on average the distance was below 0.03 m.

    Args:
        observation: "full" or "without_rates".
        action_encoding: "multi_binary" or "discrete".
        **options: see ``BulletEnv``.

    Attributes:
        target: the point's (x, y) [m].
    """

    torque = 0.002  # enough to lift the ball at the plate's edge
    further_observations = 4

    def __init__(self, *, observation: str = "full", action_encoding: str = "multi_binary", **options: Any) -> None:
        self._mark: int | None = None
        super().__init__(observation=observation, action_encoding=action_encoding, **options)

    def decorate(self) -> None:
        """Add a red mark at the point."""
        super().decorate()
        disc = pybullet.createVisualShape(
            pybullet.GEOM_CYLINDER,
            radius=0.012,
            length=0.004,
            rgbaColor=(0.8, 0.1, 0.2, 1),
            physicsClientId=self.client,
        )
        self._mark = pybullet.createMultiBody(baseVisualShapeIndex=disc, physicsClientId=self.client)
        self.animated = (self._mark,)

    def place(self) -> None:
        """Put the ball above a place on the plate, and the point on its figure."""
        super().place()
        x, y = self.np_random.uniform(-START, START, 2).tolist()
        pybullet.resetBasePositionAndOrientation(
            self.ball, (x, y, DROP_HEIGHT), (0.0, 0.0, 0.0, 1.0), physicsClientId=self.client
        )
        self._phase = float(self.np_random.uniform(0, 2 * math.pi))
        self._steps, self._sum = -1, 0.0

    def values(self) -> list[float]:
        """Move the point on, and add where it is, as seen from it to the ball, and how fast it moves."""
        values = super().values()
        self._steps += 1
        phase = self._phase + RATE * self._steps * self.time_step * self.action_repeat
        x, y = self.target = SIZE[0] * math.sin(phase), SIZE[1] * math.sin(2 * phase)
        away_x, away_y = self.position[0] - x, self.position[1] - y
        self.distance = math.hypot(away_x, away_y)
        self._near = max(0.0, 1 - self.distance / FAR)
        if self._mark is not None:
            self._show_mark()
        speed_x, speed_y = SPEED[0] * math.cos(phase), SPEED[1] * math.cos(2 * phase)
        return [*values, SCALE * away_x, SCALE * away_y, SCALE * speed_x, SCALE * speed_y]

    def _show_mark(self) -> None:
        """Lay the mark onto the plate, which tilts."""
        pitch, roll = (
            state[0] for state in pybullet.getJointStates(self.plate, self._hinges, physicsClientId=self.client)
        )
        x, y = self.target
        height = REST_HEIGHT - BALL_RADIUS + y * math.sin(pitch) - x * math.sin(roll)
        turned = pybullet.getQuaternionFromEuler((pitch, roll, 0.0))
        pybullet.resetBasePositionAndOrientation(self._mark, (x, y, height), turned, physicsClientId=self.client)

    def outcome(self) -> tuple[float, bool]:
        """Return how near the ball is, and True once it has fallen off."""
        self._sum += self.distance
        return self._near, super().outcome()[1]

    def info(self) -> dict[str, Any]:
        """Return the reward's term, the distance, and whether it was small for two rounds."""
        rounds = self._steps * self.time_step * self.action_repeat / PERIOD
        return {
            "reward_near": self._near,
            "distance": self.distance,
            "is_success": rounds >= 2 and self._sum / self._steps < SUCCESS,
        }
