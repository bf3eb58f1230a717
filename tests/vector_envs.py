"""Vector environments for tests: ``small_envs.Tilt`` many times, with what such environments do, and do wrong."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from small_envs import Tilt


class Tilts(VectorEnv):
    """Copies of ``Tilt``, by the rules of Gymnasium's vector environments.

    Args:
        num_envs: how many.
        seed: of each copy, if ``seeding`` is "construction".
        seeding: "each", "whole", "construction" or "none".
        mode: value of the autoreset mode.
        fault: what is wrong.
    """

    made: ClassVar[list[int]] = []  # numbers of copies, one for each time that some were made

    def __init__(self, num_envs, seed=None, *, seeding="whole", mode="NextStep", fault=None):
        self.made.append(num_envs)
        self.num_envs = num_envs + (fault == "copies")
        self.metadata = {"autoreset_mode": AutoresetMode(mode)} if fault != "no mode" else {}
        self.single_observation_space = (
            spaces.Box(-1, 1, (3,), np.float32) if fault == "spaces" else Tilt.observation_space
        )
        self.single_action_space = Tilt.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.seeding, self.mode, self.fault, self.given = seeding, AutoresetMode(mode), fault, seed
        self.envs = [single(fault=fault) for _ in range(self.num_envs)]
        self.over = np.zeros(self.num_envs, bool)

    def reset(self, *, seed=None, options=None):
        if self.seeding == "whole" and not (seed is None or isinstance(seed, int)):
            raise TypeError("one seed")
        if self.seeding == "construction":
            seed, self.given = self.given, None
        if self.seeding == "none":
            seed = None
        seeds = seed if isinstance(seed, list) else [None] * self.num_envs
        if isinstance(seed, int):
            seeds = [seed + number for number in range(self.num_envs)]
        self.over[:] = False
        pairs = [env.reset(seed=each) for env, each in zip(self.envs, seeds, strict=True)]
        return np.stack([observation for observation, _ in pairs]), self._infos([info for _, info in pairs])

    def step(self, actions):
        observations, rewards, ends, infos = [], np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool), []
        final_obs, final_infos = np.full(self.num_envs, None, object), [{}] * self.num_envs
        for row, env in enumerate(self.envs):
            if self.over[row] and self.mode == AutoresetMode.NEXT_STEP:
                observation, info = env.reset()
                self.over[row] = False
                rewards[row] = 1000.0  # of the empty step, which does not count
            else:
                observation, rewards[row], ends[0, row], ends[1, row], info = env.step(actions[row])
                self.over[row] = ends[:, row].any()
                if self.over[row] and self.mode == AutoresetMode.SAME_STEP:
                    final_obs[row], final_infos[row] = observation, info
                    observation, info = env.reset()
            observations.append(observation)
            infos.append(info)
        told = self._infos(infos)
        if self.mode == AutoresetMode.SAME_STEP and self.over.any() and self.fault != "no final":
            told |= {"final_obs": final_obs, "_final_obs": self.over.copy(), "final_info": self._infos(final_infos)}
        return np.stack(observations), rewards, *ends, told

    def _infos(self, infos):
        told = {}
        for row, info in enumerate(infos):
            told = self._add_info(told, info, row)
        return told


def single(*, fault=None, **_):
    """The environment of which ``Tilts`` are copies."""
    return Tilt(fault=fault if fault in {"step", "nan"} else None)


class Farthest:
    """How far an episode came from 0: a fitness that sees every step."""

    def __init__(self):
        self.far = 0.0

    def on_step(self, observation, action, reward, info):
        assert np.shape(action) == (1,)
        self.far = max(self.far, abs(float(info["position"][0])), abs(float(observation[0])) * (reward < 1))

    def result(self, episode):
        return self.far + episode.length


class Doomed(Tilt):
    """A process that dies, or hangs, in the third step of an episode: whichever finds the file ``flag`` first."""

    def __init__(self, *, fault, flag):
        super().__init__()
        self.doom, self.flag = fault, Path(flag)

    def step(self, action):
        if self.time == 2 and self.flag.exists():
            self.flag.unlink()
            os.kill(os.getpid(), signal.SIGKILL) if self.doom == "die" else time.sleep(600)
        return super().step(action)


COMPUTER = ThreadPoolExecutor(1)


class Threaded(Tilt):
    """It computes in a thread that its module keeps, as JAX does: in a fork of this process there is no such thread."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        COMPUTER.submit(int).result()

    def reset(self, **options):
        return COMPUTER.submit(lambda: Tilt.reset(self, **options)).result()

    def step(self, action):
        return COMPUTER.submit(lambda: Tilt.step(self, action)).result()


class OnlyInMain(Tilt):
    """It plays in the first process alone, as a simulator that wants a device for itself."""

    def reset(self, **options):
        if multiprocessing.parent_process() is not None:
            threading.Event().wait()
        return super().reset(**options)
