"""Fitness functions, and how they are named and loaded.

Evolution maximises fitness, which is separate from the environment's reward. There are two kinds:

* a function ``(Episode) -> float``, called when the episode has ended;
* a class with ``on_step(observation, action, reward, info)``, called after every step, and ``result(episode) ->
  float``, of which each episode gets a new object: for what start and end do not show (a lap time, energy used, ...).

Either is named by ``module:name``, by a name of the environment's definition, or by a name in this module;
``final_info:KEY`` is the value of ``KEY`` in the last step's info.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from es_envs import import_path
from es_envs.episode import Episode, StepFitness


def episode_return(episode: Episode) -> float:
    """Sum of the rewards."""
    return episode.total_reward


def episode_length(episode: Episode) -> float:
    """Number of steps survived."""
    return float(episode.length)


def distance_from_start(episode: Episode) -> float:
    """Distance between where the episode started and where it ended, in the environment's unit.

    It is read from ``final_info["distance_from_start"]`` if present, else computed from ``start_info["position"]`` and
    ``final_info["position"]``.

    Raises:
        KeyError: the infos have neither.
    """
    if "distance_from_start" in episode.final_info:
        return float(episode.final_info["distance_from_start"])
    if "position" in episode.final_info and "position" in episode.start_info:
        start, end = (np.asarray(info["position"], float) for info in (episode.start_info, episode.final_info))
        return float(np.linalg.norm(end - start))
    raise KeyError(
        "distance_from_start needs info['distance_from_start'] at the last step, or info['position'] from reset and "
        f"the last step; got the keys {sorted(episode.start_info)} from reset, {sorted(episode.final_info)} at the end"
    )


def final_info(key: str) -> Callable[[Episode], float]:
    """Return a fitness that reads ``info[key]`` of the last step; its name is ``final_info:KEY``."""

    def value(episode: Episode) -> float:
        if key not in episode.final_info:
            raise KeyError(f"final_info:{key}: the last info has the keys {sorted(episode.final_info)}")
        return float(episode.final_info[key])

    return value


class sign_return:  # noqa: N801  (named as the functions are)
    """Number of steps with a positive reward minus steps with a negative one."""

    def __init__(self) -> None:
        self._sum = 0

    def on_step(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Add one step's sign."""
        self._sum += (reward > 0) - (reward < 0)

    def result(self, episode: Episode) -> float:  # noqa: ARG002
        """Return the sum."""
        return float(self._sum)


FITNESSES: Mapping[str, Callable[[Episode], float] | type[StepFitness]] = {
    fitness.__name__: fitness for fitness in (episode_return, episode_length, distance_from_start, sign_return)
}
_PREFIX = "es_envs.fitness:"


def is_same_fitness(one: str, other: str) -> bool:
    """Return True if two names load the same fitness."""
    return one.removeprefix(_PREFIX) == other.removeprefix(_PREFIX)


def short_name(fitness: str) -> str:
    """Name of a fitness in metrics: the part after ``module:``, or ``final_info:KEY``."""
    fitness = fitness.removeprefix(_PREFIX)
    return fitness if fitness.startswith("final_info:") else fitness.rpartition(":")[2]


def load_fitness(name: str, known: Iterable[str] = ()) -> Callable[[Episode], float] | type[StepFitness]:
    """Import the fitness function or per-step fitness class that ``name`` names.

    Args:
        name: see the module's docstring; a definition's name must have been looked up in
            ``EnvDefinition.fitness_names``.
        known: the names of the environment's definition, for the message.

    Raises:
        ValueError: the name is unknown, or does not name a fitness.
        ImportError: its module cannot be imported.
    """
    bare = name.removeprefix(_PREFIX)
    if bare.startswith("final_info:") and len(bare) > len("final_info:"):
        return final_info(bare.partition(":")[2])
    if bare in FITNESSES:
        return FITNESSES[bare]
    if ":" not in bare or bare.startswith("final_info:"):
        # A definition whose own fitness is misspelt knows the misspelt name.
        choices = ", ".join(name for name in dict.fromkeys([*known, *FITNESSES, "final_info:KEY"]) if name != bare)
        raise ValueError(f"no fitness {name!r}: expected one of {choices}, or 'module:name'")
    target = import_path.load(name)
    if inspect.isclass(target) and not (hasattr(target, "on_step") and hasattr(target, "result")):
        raise ValueError(
            f"fitness {name!r}: a class needs on_step(observation, action, reward, info) and result(episode)"
        )
    if not callable(target):
        raise ValueError(f"fitness {name!r} must be callable, got {target!r}")
    return target  # type: ignore[no-any-return]
