"""The behaviour of an episode, where a strategy asks for it."""

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from es_envs import EnvDefinition, Episode

_LONGEST = 1000  # numbers: the log and the checkpoints hold those of many episodes


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

    def noted(self, episode: Episode) -> Episode:
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
            if values.size != (self._size or values.size):
                raise ValueError(f"it returned {values.size} numbers, and {self._size} for another episode")
        except Exception as error:
            name = self._definition.behaviour
            raise ValueError(f"behaviour {name!r} failed: {type(error).__name__}: {error}") from error
        self._size = values.size
        return replace(episode, behaviour=tuple(values.tolist()))
