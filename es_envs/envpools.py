"""EnvPool's environments among Gymnasium's, as ``envpool/HalfCheetah-v4``: many copies at once in C++, or one.

Importing this module registers all of them with Gymnasium, and loads EnvPool.
"""

from typing import Any

import envpool
import gymnasium
import numpy as np
from envpool.registration import registry

from es_envs.return_values import info_of


def several(
    num_envs: int,
    task_id: str,
    seed: list[int] | None = None,
    max_episode_steps: int | None = None,
    **options: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make copies of a task, which take their seeds when they are made.

    Args:
        num_envs: number of copies.
        task_id: EnvPool's id of the task.
        seed: the copies' seeds.
        max_episode_steps: steps after which EnvPool begins another episode; None: EnvPool's own limit.
        **options: more of EnvPool's options.
    """
    given = {"seed": seed, "max_episode_steps": max_episode_steps}
    options |= {name: value for name, value in given.items() if value is not None}
    envs: gymnasium.vector.VectorEnv[Any, Any, Any] = envpool.make_gymnasium(task_id, num_envs=num_envs, **options)
    return envs


class Single(gymnasium.Env[Any, Any]):
    """One copy of a task as an ordinary environment, to evaluate and replay policies that were trained with many.

    It draws no pictures: without a display, EnvPool's renderer ends the process.

    Args:
        task_id: EnvPool's id of the task.
        **options: more of EnvPool's options.
    """

    def __init__(self, task_id: str, **options: Any) -> None:
        self._task_id, self._options = task_id, options
        self._envs = several(1, task_id, **options)
        self.observation_space = self._envs.single_observation_space
        self.action_space = self._envs.single_action_space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; a seed needs a fresh copy, since EnvPool takes it only then."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self._envs.close()
            self._envs = several(1, self._task_id, [seed], **self._options)
        observations, infos = self._envs.reset()
        return observations[0], info_of(infos, 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Step the copy."""
        observations, rewards, terminated, truncated, infos = self._envs.step(np.asarray(action)[np.newaxis])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info_of(infos, 0)

    def close(self) -> None:
        """Close the copy."""
        self._envs.close()


for _task_id, (_, _, _options) in registry.specs.items():
    if "/" not in _task_id and f"envpool/{_task_id}" not in gymnasium.registry:  # some are copies of Gymnasium's own
        gymnasium.register(
            f"envpool/{_task_id}",
            entry_point="es_envs.envpools:Single",
            vector_entry_point="es_envs.envpools:several",
            max_episode_steps=_options.get("max_episode_steps"),
            kwargs={"task_id": _task_id},
        )
