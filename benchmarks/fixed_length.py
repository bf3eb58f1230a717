"""Environments whose episodes are all of one length, so that contenders in a comparison do the same work.

``fixed_length:FixedCartPole-v0`` and so on: the module in the id registers them, and worker processes find it, since
they look where the main process does.
"""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from es_balancing_plate.env import DROP_HEIGHT, BalancingPlateEnv
from es_balancing_plate.figure_eight import PlateFigureEightEnv
from es_cartpole_bullet.env import CartPoleBulletEnv
from es_locomotion.robots import A1Env, AntEnv
from es_racecar.env import RaceCarEnv
from es_racecar.track_env import RaceTrackEnv
from gymnasium import spaces
from numpy.typing import NDArray

import es_envs
from es_envs import EnvDefinition
from es_envs.bullet import BulletEnv, pybullet


class Endless(BulletEnv):
    """An environment with its own rewards, whose episodes end by their length alone."""

    def outcome(self) -> tuple[float, bool]:
        """The environment's own reward, and no end."""
        reward, _ = super().outcome()
        return reward, False


class Dropping(BalancingPlateEnv):
    """A plate onto whose middle the ball is dropped again once it has fallen off."""

    def outcome(self) -> tuple[float, bool]:
        """The plate's own reward, and no end."""
        reward, failed = super().outcome()
        if failed:
            pybullet.resetBasePositionAndOrientation(
                self.ball, (0.0, 0.0, DROP_HEIGHT), (0.0, 0.0, 0.0, 1.0), physicsClientId=self.client
            )
        return reward, False


class FixedCartPole(CartPoleBulletEnv):
    """The cart-pole, stood upright again in the middle once the pole has fallen past the horizontal.

    Left hanging, its angle would be clipped to the observation's bounds in every step, which no real episode does and
    which costs half as much as a step: every contender would look better beside the bare loop.
    """

    def outcome(self) -> tuple[float, bool]:
        """A reward while a real episode would go on, and no end."""
        reward, failed = super().outcome()
        if failed and (abs(self._angle) > 2.0 or abs(self.position) > 40.0):
            pybullet.resetJointState(self.body, self.cart, 0.0, 0.0, physicsClientId=self.client)
            pybullet.resetJointState(self.body, self.pole, 0.0, 0.0, physicsClientId=self.client)
        return 0.0 if failed else reward, False


class FixedRaceCar(Endless, RaceCarEnv):
    """The racing car, which stops at a wall but not the episode; contacts are looked up as ever."""


class FixedRaceTrack(Endless, RaceTrackEnv):
    """The racing car on a drawn track, which stops at a wall but not the episode."""


class FixedAnt(Endless, AntEnv):
    """The ant, which may lie."""


class FixedA1(Endless, A1Env):
    """The quadruped, which may lie."""


class FixedPlate(Dropping):
    """The balancing plate."""


class FixedFigureEight(Dropping, PlateFigureEightEnv):
    """The plate whose ball follows a figure eight."""


class FixedHumanoid(gymnasium.Env[Any, Any]):
    """As many numbers as Gymnasium's Humanoid, and no physics: what remains is the cost of evolution itself."""

    observation_space = spaces.Box(-1.0, 1.0, (376,), np.float32)
    action_space = spaces.Box(-0.4, 0.4, (17,), np.float32)

    def __init__(self) -> None:
        self._observation = np.linspace(-1.0, 1.0, 376, dtype=np.float32)

    def reset(
        self,
        *,
        seed: int | None = None,  # noqa: ARG002
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """The same observation always."""
        return self._observation, {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """A reward that tells candidates apart: without, there would be no gradient to compute."""
        return self._observation, float(action.sum()), False, False, {}


class FixedImages(FixedHumanoid):
    """Four grey images of 84x84 pixels, as Atari games are seen, and no game."""

    observation_space = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = spaces.Box(-1.0, 1.0, (6,), np.float32)

    def __init__(self) -> None:
        self._observation = np.arange(4 * 84 * 84, dtype=np.uint8).reshape(4, 84, 84)


for _id, _class, _steps in (
    ("CartPoleBullet-v0", "FixedCartPole", 500),
    ("BalancingPlate-v0", "FixedPlate", 500),
    ("PlateFigureEight-v0", "FixedFigureEight", 500),
    ("RaceCar-v0", "FixedRaceCar", 300),
    ("RaceTrack-v0", "FixedRaceTrack", 300),
    ("AntBullet-v0", "FixedAnt", 300),
    ("A1Bullet-v0", "FixedA1", 300),
):
    # All that the definition says about how the environment is used stays; the fitness is what rivals maximise.
    es_envs.register(
        replace(
            es_envs.definition(_id),
            id=f"{_class}-v0",
            entry_point=f"fixed_length:{_class}",
            fitness="episode_return",
            max_episode_steps=_steps,
            solved_at=None,
            recommended={},
            plugin=None,
        )
    )
for _class in ("FixedHumanoid", "FixedImages"):
    es_envs.register(
        EnvDefinition(
            id=f"{_class}-v0",
            entry_point=f"fixed_length:{_class}",
            fitness="episode_return",
            max_episode_steps=1000,
        )
    )
