"""Transitions: the steps of an episode as arrays, and who learns from them beside a population."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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


class TransitionLearner(Protocol):
    """A learner of an actor from transitions, such as those of ``learners/off_policy.py``."""

    @property
    def actor(self) -> NDArray[np.float32]:
        """Parameters ``(d,)`` of its actor."""

    def __len__(self) -> int: ...

    def add(self, episodes: Sequence[Transitions]) -> None:
        """Remember these, in this order."""

    def learn(self, steps: int, seed: int) -> None:
        """Take gradient steps."""

    def state_dict(self) -> dict[str, Any]:
        """Copies of arrays and numbers, from which ``load_state_dict`` continues."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""
