"""A Bullet environment whose bodies touch from the start: the hardest to reset exactly."""

import gymnasium
import numpy as np
import pybullet_data
from gymnasium import spaces
from pybullet_utils.bullet_client import BulletClient

from es_envs.bullet import BulletEnv, Camera, bounded, pybullet


class Puck(BulletEnv):
    """A puck that lies on the floor from the start: a reset must forget its contacts."""

    def __init__(self, **options):
        self.observation_space = spaces.Box(-10, 10, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        super().__init__(**options)

    def build(self):
        self.load_urdf("plane.urdf")
        shape = pybullet.createCollisionShape(
            pybullet.GEOM_CYLINDER, radius=0.1, height=0.05, physicsClientId=self.client
        )
        self.puck = pybullet.createMultiBody(0.2, shape, basePosition=(0, 0, 0.025), physicsClientId=self.client)

    def place(self):
        x, y = self.np_random.uniform(-0.1, 0.1, 2).tolist()
        pybullet.resetBasePositionAndOrientation(self.puck, (x, y, 0.025), (0, 0, 0, 1), physicsClientId=self.client)

    def act(self, action):
        force = [float(action[0]), float(action[1]), 0.0]
        pybullet.applyExternalForce(self.puck, -1, force, (0, 0, 0), pybullet.LINK_FRAME, physicsClientId=self.client)

    def observe(self):
        position, _ = pybullet.getBasePositionAndOrientation(self.puck, physicsClientId=self.client)
        return bounded(list(position[:2]), 10.0)

    def outcome(self):
        return 0.0, False

    def info(self):
        return {}

    def camera(self):
        return Camera(target=(0.0, 0.0, 0.0), distance=2.0, yaw=0.0, pitch=-40.0)


class PlainPuck(gymnasium.Env):
    """The same without BulletEnv, reset as the manual says: by ``restoreState``, after which contacts survive."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, render_mode=None):
        self.bullet = bullet = BulletClient(pybullet.DIRECT)
        bullet.setAdditionalSearchPath(pybullet_data.getDataPath())
        bullet.setGravity(0, 0, -9.81)
        bullet.loadURDF("plane.urdf")
        shape = bullet.createCollisionShape(pybullet.GEOM_CYLINDER, radius=0.1, height=0.05)
        self.puck = bullet.createMultiBody(0.2, shape, basePosition=(0, 0, 0.025))
        self.start = bullet.saveState()

    def observation(self):
        position, _ = self.bullet.getBasePositionAndOrientation(self.puck)
        return bounded(list(position[:2]), 10.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.bullet.restoreState(self.start)
        x, y = self.np_random.uniform(-0.1, 0.1, 2).tolist()
        self.bullet.resetBasePositionAndOrientation(self.puck, (x, y, 0.025), (0, 0, 0, 1))
        return self.observation(), {}

    def step(self, action):
        force = [float(action[0]), float(action[1]), 0.0]
        self.bullet.applyExternalForce(self.puck, -1, force, (0, 0, 0), pybullet.LINK_FRAME)
        self.bullet.stepSimulation()
        return self.observation(), 0.0, False, False, {}

    def close(self):
        self.bullet.disconnect()
