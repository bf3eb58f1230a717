"""Environments that disturb each other if two of them are in one process, as beginners write them."""

from typing import ClassVar

import gymnasium
import numpy as np
import pybullet
import pybullet_data


class _Pushed(gymnasium.Env):
    """Something that is pushed; the reward is its place."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 30}
    observation_space: ClassVar = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space: ClassVar = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def render(self):
        return np.full((16, 16, 3), 128, np.uint8)


class DefaultClient(_Pushed):
    """It uses Bullet's default client, and builds its world once."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        pybullet.connect(pybullet.DIRECT)
        pybullet.setGravity(0, 0, -9.8)
        self.cube = pybullet.loadURDF(f"{pybullet_data.getDataPath()}/cube_small.urdf", [0, 0, 5])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        place = [self.np_random.uniform(-1, 1), 0, 5]
        pybullet.resetBasePositionAndOrientation(self.cube, place, [0, 0, 0, 1])
        pybullet.resetBaseVelocity(self.cube, [0, 0, 0], [0, 0, 0])
        return self._observation(), {}

    def _observation(self):
        return np.array([pybullet.getBasePositionAndOrientation(self.cube)[0][0], 1], np.float32)

    def step(self, action):
        pybullet.applyExternalForce(self.cube, -1, [float(action[0]), 0, 0], [0, 0, 0], pybullet.WORLD_FRAME)
        pybullet.stepSimulation()
        observation = self._observation()
        return observation, float(observation[0]), False, False, {}

    def close(self):
        if pybullet.isConnected():
            pybullet.disconnect()


WORLD = {"place": 0.0}


class ModuleState(_Pushed):
    """Its state is a variable of the module."""

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        WORLD["place"] = self.np_random.uniform(-1, 1)
        return self._observation(), {}

    def _observation(self):
        return np.array([WORLD["place"], 1], np.float32)

    def step(self, action):
        WORLD["place"] += 0.1 * float(action[0])
        return self._observation(), float(WORLD["place"]), False, False, {}
