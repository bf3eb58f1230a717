"""What one rollout measured, for fitness functions and for whoever reads a result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, kw_only=True)
class Episode:
    """What one rollout measured.

    Attributes:
        seed: the seed given to ``reset``.
        total_reward: sum of the rewards (the return).
        length: number of steps.
        terminated: the environment ended the episode.
        truncated: the step limit ended it.
        start_info: the info that ``reset`` returned.
        final_info: the info of the last step.
        first_observation: as ``reset`` returned it, neither flattened nor normalised.
        last_observation: as the last step returned it.
        fitnesses: values by name, the one that drives selection first; a secondary fitness that failed is None.
    """

    seed: int
    total_reward: float
    length: int
    terminated: bool
    truncated: bool
    start_info: Mapping[str, Any] = field(default_factory=dict)
    final_info: Mapping[str, Any] = field(default_factory=dict)
    first_observation: Any = None
    last_observation: Any = None
    fitnesses: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def fitness(self) -> float:
        """The value that drives selection.

        Raises:
            ValueError: no fitness has been computed for this episode yet.
        """
        value = next(iter(self.fitnesses.values()), None)
        if value is None:
            raise ValueError("this episode's fitness has not been computed")
        return value


@runtime_checkable
class StepFitness(Protocol):
    """A fitness that sees every step; a new one is made for each episode."""

    def on_step(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:
        """Called after every step, with what ``step`` returned and the action that it was given."""

    def result(self, episode: Episode) -> float:
        """Called once, when the episode has ended."""
