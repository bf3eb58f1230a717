"""Environments that allow some of their actions only, and fail if another one is taken."""

import gymnasium
import numpy as np
from gymnasium import spaces

ACTIONS = {
    "discrete": spaces.Discrete(5, start=-2),
    "multi discrete": spaces.MultiDiscrete([2, 4], start=[0, 3]),
    "box": spaces.Box(-1, 1, (2,), np.float32),
}


class Masked(gymnasium.Env):
    """Six steps; the reward is what the choice is worth at the moment.

    Args:
        action: its action space.
        way: how it gives its masks: "info"; "parts", of a MultiDiscrete action's entries; "method", as sb3-contrib has
            it; "now and then"; or, wrongly, "short" or "empty".
        render_mode: as ever.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self, *, action="discrete", way="info", render_mode=None):
        self.action_space, self.way, self.render_mode = ACTIONS[action], way, render_mode
        self.sizes = [5] if action == "discrete" else [2, 4]
        if way == "method":
            self.action_masks = lambda: np.concatenate(self.masks).astype(bool)

    def _observe(self):
        self.worth = self.np_random.uniform(-1, 1, sum(self.sizes))
        masks = [self.np_random.integers(0, 2, size, dtype=np.int8) for size in self.sizes]
        for mask in masks:
            mask[self.np_random.integers(len(mask))] = 1
        gives = self.way != "now and then" or self.time % 2 == 0
        self.masks = masks if gives else [np.ones(size, np.int8) for size in self.sizes]
        info = {}
        if self.way == "parts":
            info["action_mask"] = tuple(masks)
        elif self.way != "method" and gives:
            info["action_mask"] = np.concatenate(masks)
        if self.way in {"short", "empty"}:
            info["action_mask"] = np.zeros(4 if self.way == "short" else sum(self.sizes), np.int8)
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observe()

    def step(self, action):
        assert self.action_space.contains(np.int64(action) if isinstance(action, int) else action)
        chosen = np.ravel(action) - np.ravel(self.action_space.start)
        for choice, mask in zip(chosen, self.masks, strict=True):
            if not mask[choice]:
                raise RuntimeError(f"choice {choice} was taken, and the mask is {mask}")
        reward = sum(self.worth[first + choice] for first, choice in zip((0, *self.sizes[:-1]), chosen, strict=True))
        self.time += 1
        observation, info = self._observe()
        return observation, float(reward), self.time >= 6, False, info

    def render(self):
        return np.full((48, 64, 3), 40 * self.time, np.uint8)
