"""Environments as others wrote them: with the old gym's habits, and with faults that need a good message."""

import multiprocessing
import os
import sys

import gymnasium
import numpy as np
from gymnasium import spaces
from small_envs import Walk


class Foreign(Walk):
    """Walk with one strange habit, by its name."""

    def __init__(self, *, habit=""):
        super().__init__()
        self.habit = habit
        if habit == "KeyboardInterrupt when made":
            raise KeyboardInterrupt
        if multiprocessing.parent_process() is not None:
            if habit == "KeyboardInterrupt when a copy is made":
                raise KeyboardInterrupt
            if habit == "death when a copy is made":
                os._exit(3)
        if habit in {"missing key", "short tuple"}:
            kind = spaces.Dict if habit == "missing key" else lambda parts: spaces.Tuple(parts.values())
            self.observation_space = kind({"goal": spaces.Discrete(3), "here": spaces.Box(-10.0, 10.0, (2,))})

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed, options=options)
        if self.habit == "StopIteration at reset":
            next(iter(()))
        if self.habit == "percent at reset":
            raise RuntimeError("battery at 5 % of its charge")
        if self.habit == "old reset":
            return observation
        return self._shaped(observation), info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        match self.habit:
            case "four values":
                return observation, reward, terminated, info
            case "arrays as terminated":
                terminated = np.array([False, False])
            case "arrays of one":
                reward, terminated, truncated = np.array([reward]), np.array([terminated]), np.array([truncated])
            case "two rewards":
                reward = np.array([reward, reward])
            case "StopIteration":
                next(iter(()))
            case "KeyboardInterrupt":
                raise KeyboardInterrupt
            case "GeneratorExit":
                raise GeneratorExit
            case "sys.exit":
                sys.exit("no track is left")
            case "KeyboardInterrupt in a copy" if multiprocessing.parent_process() is not None:
                raise KeyboardInterrupt
            case "percent":
                raise RuntimeError("battery at 5 % of its charge")
            case "own error":
                raise type("Own", (Exception,), {})("of a class that only this process knows")
            case "short observation":
                observation = np.zeros(1, np.float32)
            case "assertion":
                assert self.time < 2
        return self._shaped(observation), reward, terminated, truncated, info

    def _shaped(self, observation):
        if self.habit == "missing key":
            return {"here": observation}
        return (1,) if self.habit == "short tuple" else observation


class TakesNoSeed(Walk):
    """Its reset is that of the old gym."""

    def reset(self):
        return super().reset(seed=0)


class NeedsArguments(Walk):
    """It cannot be made without arguments, and cannot be drawn."""

    def __init__(self, *, track, laps):
        super().__init__()
        self.track, self.laps = track, laps


gymnasium.register("NeedsArguments-v0", entry_point="foreign_envs:NeedsArguments", max_episode_steps=5)
gymnasium.register("Undrawn-v0", entry_point="foreign_envs:Foreign", max_episode_steps=5)
