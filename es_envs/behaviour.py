"""Behaviours: episodes as a few numbers, by which a strategy tells what is new from what it has seen.

A behaviour is a function ``(Episode) -> sequence of floats``, always as many. An environment's definition names its own
by ``module:name``, and may name its numbers and their ranges, ``behaviours``, for strategies that fill a repertoire.
Distances between two are Euclidean, so their entries should be of one scale.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_envs.definition import EnvDefinition
from es_envs.episode import Episode

Numbers = NDArray[np.float64]

_LONGEST = 1000  # numbers: the log and the checkpoints hold those of many episodes


def final_position(episode: Episode) -> Numbers:
    """Where the episode ended: ``final_info["position"]``, in the environment's unit.

    Raises:
        KeyError: the info has no position.
    """
    if "position" not in episode.final_info:
        raise KeyError(f"final_position needs info['position'] at the last step; got {sorted(episode.final_info)}")
    return _flat(episode.final_info["position"])


def last_observation(episode: Episode) -> Numbers:
    """The entries of the last observation, neither clipped nor normalised."""
    return _flat(episode.last_observation)


def _flat(value: Any) -> Numbers:
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple):
        return np.concatenate([_flat(part) for part in value])
    return np.asarray(value, float).ravel()


class BehaviourDescriber:
    """Describes episodes by the function that an environment's definition names, imported when it is needed.

    Args:
        definition: the environment's definition.
    """

    def __init__(self, definition: EnvDefinition) -> None:
        self._definition = definition
        self._size: int | None = None  # of all behaviours

    @cached_property
    def _describe(self) -> Any:
        return self._definition.load_behaviour()

    def with_behaviour(self, episode: Episode) -> Episode:
        """Return the episode with its behaviour.

        Raises:
            PluginError: the function cannot be imported.
            ValueError: it fails, or returns something else than finite numbers, always as many.
        """
        describe = self._describe
        try:
            values = np.asarray(describe(episode), float)
            if values.ndim != 1 or not 1 <= values.size <= _LONGEST or not np.isfinite(values).all():
                raise ValueError(f"it returned {values!r}, expected a sequence of 1 to {_LONGEST} finite numbers")
            names = self._definition.behaviours
            if names and values.size != len(names):
                raise ValueError(f"it returned {values.size} numbers, and behaviours names {len(names)}: {list(names)}")
            if values.size != (self._size or values.size):
                raise ValueError(f"it returned {values.size} numbers, and {self._size} for another episode")
        except Exception as error:
            name = self._definition.behaviour
            raise ValueError(f"behaviour {name!r} failed: {type(error).__name__}: {error}") from error
        self._size = values.size
        return replace(episode, behaviour=tuple(values.tolist()))
