"""An environment with spaces of any kind, for tests of what policies see and do."""

import gymnasium
import numpy as np
from gymnasium import spaces

from es_envs.spaces import parts

OBSERVATIONS = {
    "box": spaces.Box(-3.0, 3.0, (5,), np.float32),
    "double": spaces.Box(-3.0, 3.0, (2, 2), np.float64),
    "nested": spaces.Dict(
        {
            "arm": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3, start=-1))),
            "keys": spaces.Dict({"on": spaces.MultiBinary(2), "dial": spaces.MultiDiscrete([2, 4], start=[0, 5])}),
        }
    ),
    "image": spaces.Box(0, 255, (36, 40, 3), np.uint8),
    "image and numbers": spaces.Dict(
        {"frames": spaces.Box(0, 255, (3, 36, 36), np.uint8), "speed": spaces.Box(-1.0, 1.0, (2,), np.float32)}
    ),
}
ACTIONS = {
    "box": spaces.Box(-0.5, 0.25, (2,), np.float32),
    "wide box": spaces.Box(np.array([-10.0, 0.0]), np.array([30.0, 1.0]), (2,), np.float64),
    "unbounded box": spaces.Box(-np.inf, np.inf, (1, 2), np.float32),
    "whole box": spaces.Box(-2, 2, (2,), np.int32),
    "wide whole box": spaces.Box(-100, 100, (2,), np.int8),
    "discrete": spaces.Discrete(4, start=2),
    "single": spaces.Discrete(1),
    "multi discrete": spaces.MultiDiscrete([2, 5, 3], start=[0, 7, -1]),
    "multi binary": spaces.MultiBinary([2, 2]),
    "dict": spaces.Dict(
        {
            "legs": spaces.Tuple((spaces.Box(-1.0, 1.0, (2,), np.float64), spaces.MultiDiscrete([2, 3], start=[0, 7]))),
            "gear": spaces.Discrete(3, start=-1),
            "arm": spaces.Box(np.array([-10, 0], np.float32), np.array([30, 1], np.float32)),
            "eyes": spaces.MultiBinary(2),
        }
    ),
    "tuple": spaces.Tuple((spaces.Discrete(2), spaces.Box(-2, 2, (1,), np.int32))),
}
# What no policy can see or do.
UNSEEN = {
    "text": spaces.Dict({"speed": spaces.Box(-1, 1, (2,), np.float32), "mission": spaces.Text(20)}),
    "sequence": spaces.Sequence(spaces.Discrete(3)),
    "graph": spaces.Graph(spaces.Discrete(3), None),
    "number as a key": spaces.Dict({1: spaces.Discrete(3)}),
    "huge image": spaces.Box(0, 255, (3000, 3000, 3), np.uint8),
    "a billion places": spaces.Discrete(10**9),
    "nothing": spaces.Dict({}),
}
UNDONE = {
    "text action": spaces.Text(5),
    "text in a dict action": spaces.Dict(arm=spaces.Discrete(2), word=spaces.Text(5)),
    "nothing": spaces.Dict({}),
    "sequence action": spaces.Sequence(spaces.Discrete(3)),
    "bits in a box": spaces.Box(0, 1, (3,), np.bool_),
    "table of choices": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "too many choices": spaces.MultiDiscrete([2] * 2000 + [2000]),
    "a billion choices": spaces.Discrete(10**9),
}


class Spaces(gymnasium.Env):
    """Random observations for six steps; the reward is the action's mean."""

    def __init__(self, *, observation="box", action="box"):
        self.observation_space = {**OBSERVATIONS, **UNSEEN, "of its own": _box_of_its_own()}[observation]
        self.action_space = {**ACTIONS, **UNDONE}[action]

    def _observation(self):
        space = self.observation_space
        space.seed(int(self.np_random.integers(2**31)))
        return space.sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(np.int64(action) if isinstance(action, int) else action)
        self.time += 1
        reward = float(np.mean(np.concatenate([np.ravel(part) for part in parts(self.action_space, action)])))
        return self._observation(), reward, self.time >= 6, False, {}


def _box_of_its_own():
    class Own(spaces.Box):
        pass

    return Own(-3.0, 3.0, (5,), np.float32)


class Activity:
    """A fitness that sees every action: the sum of all their numbers."""

    def __init__(self):
        self.sum = 0.0

    def on_step(self, observation, action, reward, info):
        self.sum += reward
        assert isinstance(action, dict | tuple)

    def result(self, episode):
        return self.sum
