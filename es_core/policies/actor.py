"""Actors: a policy in use, from observations to actions, one candidate at a time."""

from abc import ABC, abstractmethod
from typing import Any

from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_envs.masks import has_choices


class NotFiniteError(ValueError):
    """An observation or a network's output holds NaN or infinity."""


class Actor(ABC):
    """One candidate, ready to act: call it with an observation; ``reset`` it when an episode begins.

    Args:
        policy: its policy.

    Attributes:
        policy: its policy.
        takes_masks: True if it obeys masks of actions, False if it would have to, and cannot; None: it ignores them.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.takes_masks = has_choices(policy.action_space) if policy.config.action_masks else None

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
    def __call__(self, observation: Any, mask: Any = None) -> Any:
        """The action for one observation, as a new object.

        Args:
            observation: as the environment returns it.
            mask: ``info["action_mask"]`` of that step (see ``es_envs.masks``); None: all choices are allowed.

        Raises:
            ValueError: the observation's shape is not that of its space, or the mask does not fit.
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
