"""One robot and one task: environments of which only constants have to be written."""

from es_envs.bullet.robots.env import RobotEnv, Task
from es_envs.bullet.robots.tasks import Reach, Stand, Track, Walk

__all__ = ["Reach", "RobotEnv", "Stand", "Task", "Track", "Walk"]
