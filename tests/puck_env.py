"""A Bullet environment whose bodies touch from the start: the hardest to reset exactly."""

import numpy as np
from gymnasium import spaces

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
