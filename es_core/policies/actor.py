"""A policy in use: from observations to actions, one candidate at a time."""

from abc import ABC, abstractmethod
from typing import Any

from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics


class NotFiniteError(ValueError):
    """An observation, or what a network makes of one, holds NaN or infinity."""


class Actor(ABC):
    """One candidate, ready to act: call it with an observation; ``reset`` it when an episode begins.

    Args:
        policy: its kind.

    Attributes:
        policy: its kind.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @abstractmethod
    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on, and begin an episode.

        Args:
            parameters: copied.
            statistics: by which observations or hidden layers are normalised, or None.
        """

    @abstractmethod
    def reset(self, *, noise_seed: int | None = None) -> None:
        """An episode begins: forget the last one.

        Args:
            noise_seed: explore as the policy's ``actions`` say, by random numbers that follow from it; None: do not.
        """

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The action for one observation: a new object, for keeps.

        Raises:
            ValueError: the observation has another shape than its space.
            NotFiniteError: it is not finite, or the policy's raw outputs are not.
        """

    @abstractmethod
    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)`` for one observation, without exploration; errors as of a call."""

    @abstractmethod
    def collect(self) -> None:
        """Add up the observations of each episode from now on."""

    @abstractmethod
    def statistics(self, count: int) -> ObservationStatistics:
        """Of the ``count`` observations since ``reset``, for which ``collect`` was called."""
