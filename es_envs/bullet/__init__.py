"""Environments simulated by PyBullet, which is the extra ``es-envs[bullet]``.

Names load their module when first used: a camera can be placed without PyBullet.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from es_envs.bullet.camera import Camera
    from es_envs.bullet.env import (
        BulletEnv,
        bounded,
        clipped,
        pybullet,
        require_number,
        require_one_of,
        require_whole,
    )
    from es_envs.bullet.randomization import MOTOR_STRENGTH, Variation
    from es_envs.bullet.robots import Reach, RobotEnv, Stand, Task, Track, Walk

__all__ = [
    "MOTOR_STRENGTH", "BulletEnv", "Camera", "Reach", "RobotEnv", "Stand", "Task", "Track", "Variation", "Walk",
    "bounded", "clipped", "pybullet", "require_number", "require_one_of", "require_whole",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "Camera":
        from es_envs.bullet.camera import Camera

        return Camera
    if name in {"MOTOR_STRENGTH", "Variation"}:
        from es_envs.bullet import randomization

        return getattr(randomization, name)
    if name in {"Reach", "RobotEnv", "Stand", "Task", "Track", "Walk"}:
        from es_envs.bullet import robots

        return getattr(robots, name)
    if name in __all__:
        from es_envs.bullet import env

        return getattr(env, name)
    raise AttributeError(f"module 'es_envs.bullet' has no attribute {name!r}")
