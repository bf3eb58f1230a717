"""Registers Trap-v0, a deceptive task: `python -m es_core train trap:Trap-v0 --strategy nsra_es` in this folder."""

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import es_envs

SIDE, BOTTOM, TOP, FINISH = 0.5, -0.2, 0.4, 1.0
SPEED = 0.05


class Trap(gymnasium.Env[Any, Any]):
    """Move a point up to a finish line, out of a trap: an upside-down U around the start.

    ## Actions
    ``Box(-inf, inf, (2,), float32)``: velocity x and y; a step is 0.05 times as long, and at most 0.05.

    ## Observations
    ``Box(-5, 5, (2,), float32)``: position x and y.

    ## Reward
    The way upwards in each step. So the return, the height, is greatest under the wall for all who do not turn back.

    ## Start
    At (0, 0), in x and y uniform within ±0.05. Walls are above it (y = 0.4) and, down to y = -0.2, on its sides
    (x = ±0.5).

    ## End
    Terminated above the finish line y = 1 (``info["is_success"]``) or on touching a wall. ``info`` also holds
    ``position`` (x, y).
    """

    observation_space = spaces.Box(-5.0, 5.0, (2,), np.float32)
    action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Put the point into the trap."""
        super().reset(seed=seed, options=options)
        self.x, self.y = self.np_random.uniform(-0.05, 0.05, 2).tolist()
        return np.array([self.x, self.y], np.float32), {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Move, and see whether a wall or the finish line was in between."""
        dx, dy = action.tolist()
        step = SPEED / max(1.0, math.hypot(dx, dy))
        old_x, old_y = self.x, self.y
        self.x, self.y = old_x + step * dx, old_y + step * dy
        hits_side = (abs(old_x) < SIDE) != (abs(self.x) < SIDE) and BOTTOM < (old_y + self.y) / 2 < TOP
        hits_top = (old_y < TOP) != (self.y < TOP) and abs(old_x + self.x) / 2 < SIDE
        is_success = self.y > FINISH
        info = {"position": (self.x, self.y), "is_success": is_success}
        observation = np.array([self.x, self.y], np.float32)
        return observation, self.y - old_y, is_success or hits_side or hits_top, False, info


es_envs.register(
    es_envs.EnvDefinition(
        id="Trap-v0",
        entry_point="trap:Trap",
        behaviour="es_envs.behaviour:final_position",
        max_episode_steps=60,
        solved_at=0.9,
        summary="Turn back to get ahead",
        recommended={
            "observation_normalization": False,  # they are of the order of 1
            "policy": "mlp",
            "hidden_sizes": (16,),
            "population_size": 64,
        },
        # Novelty gets out by these, which were chosen in trials: docs/results/novelty.md.
        recommended_for={
            "nsra_es": {
                "sigma": 0.3,
                "learning_rate": 0.1,
                "weight_decay": 0.01,
                "strategy_options": {"patience": 5},
            }
        },
        override=True,  # the same again
    )
)
