"""Transitions: the steps of an episode as arrays, for a strategy that learns from more than fitness."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, eq=False)
class Transitions:
    """The steps of one episode of ``T`` steps.

    Attributes:
        observations: ``(T + 1, n)`` float32, flattened, not normalised; the last is what the last step returned.
        actions: ``(T, m)`` float32, the entries of a Box action, or the number of a Discrete one, as the environment
            got them.
        rewards: ``(T,)`` float32.
        terminated: True if the environment ended the episode; else a step limit did.
    """

    observations: NDArray[np.float32]
    actions: NDArray[np.float32]
    rewards: NDArray[np.float32]
    terminated: bool

    def __len__(self) -> int:
        return len(self.rewards)
