"""Behaviours: episodes as a few numbers, by which a strategy tells what is new from what it has seen.

A behaviour is a function ``(Episode) -> sequence of floats``, always as many. An environment's definition names its own
by ``module:name``. Distances between two are Euclidean, so their entries should be of one scale.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_envs.episode import Episode

Numbers = NDArray[np.float64]


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
