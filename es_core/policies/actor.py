"""Actors: a policy in use, from observations to actions, one candidate at a time."""

from abc import ABC, abstractmethod
from typing import Any

from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics


class NotFiniteError(ValueError):
    """An observation or a network's output holds NaN or infinity."""


class Actor(ABC):
    """One candidate, ready to act: call it with an observation; ``reset`` it when an episode begins.

    Args:
        policy: its policy.

    Attributes:
        policy: its policy.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @abstractmethod
    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on, and begin an episode.

        Args:
            parameters: copied.
            statistics: statistics that normalise observations or hidden layers, or None.
        """

    @abstractmethod
    def reset(self, *, noise_seed: int | None = None) -> None:
        """Begin an episode, and forget the last one.

        Args:
            noise_seed: seed of the random numbers by which the episode is explored, as the policy's ``actions`` say;
                None: do not explore.
        """

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The action for one observation, as a new object.

        Raises:
            ValueError: the observation's shape is not that of its space.
            NotFiniteError: the observation or the policy's raw outputs are not finite.
        """

    @abstractmethod
    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)`` for one observation, without exploration; raises the same errors as a call."""

    @abstractmethod
    def collect(self) -> None:
        """Add up the observations of each episode from now on."""

    @abstractmethod
    def statistics(self, count: int) -> ObservationStatistics:
        """Statistics of the ``count`` observations since ``reset``; needs ``collect``."""
