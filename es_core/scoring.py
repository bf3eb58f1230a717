"""How good a policy is: from its episodes to one number, or to an ``Evaluation``."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.checks import require_fields
from es_envs import Episode

_AGGREGATIONS: Mapping[str, Callable[..., NDArray[np.float64]]] = {"mean": np.mean, "median": np.median, "min": np.min}
_RESAMPLES = 1000
_Z = 1.959963984540054  # 97.5 % quantile of the normal distribution


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The score of one policy over several episodes.

    Attributes:
        mean: of the run's fitness.
        std: standard deviation of the fitness between episodes.
        interval: 95 % interval of the mean (seeded bootstrap).
        returns: mean sum of rewards.
        fitnesses: mean of every named fitness; None where it failed in some episode.
        length: mean number of steps.
        success_rate: share of episodes whose last info says ``is_success``; None if the environment does not say.
        success_interval: 95 % interval of the success rate (Wilson 1927).
        episodes: number of episodes.
        distinct: number of different ones; 1 where every start is the same.
        steps: environment steps in all.
    """

    mean: float
    std: float
    interval: tuple[float, float]
    returns: float
    fitnesses: dict[str, float | None]
    length: float
    success_rate: float | None
    success_interval: tuple[float, float] | None
    episodes: int
    distinct: int
    steps: int

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode]) -> Self:
        """Score ``episodes``, at least one."""
        fitness = np.array([episode.fitness for episode in episodes])
        lengths = [episode.length for episode in episodes]
        successes = [bool(e.final_info["is_success"]) for e in episodes if "is_success" in e.final_info]
        known = len(successes) == len(episodes)
        named = {name: [episode.fitnesses[name] for episode in episodes] for name in episodes[0].fitnesses}
        return cls(
            mean=float(fitness.mean()),
            std=float(fitness.std()),
            interval=_bootstrap(fitness),
            returns=float(np.mean([episode.total_reward for episode in episodes])),
            fitnesses={name: _mean(values) for name, values in named.items()},
            length=float(np.mean(lengths)),
            success_rate=float(np.mean(successes)) if known else None,
            success_interval=_wilson(sum(successes), len(successes)) if known else None,
            episodes=len(episodes),
            distinct=len(
                {(e.total_reward, e.length, *e.fitnesses.values(), repr(e.last_observation)) for e in episodes}
            ),
            steps=sum(lengths),
        )

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The evaluation that ``to_json`` described.

        Raises:
            ValueError: it described none.
        """
        require_fields(cls, values)
        success = values["success_interval"]
        intervals = {"interval": tuple(values["interval"]), "success_interval": tuple(success) if success else None}
        return cls(**{**values, **intervals})

    def __str__(self) -> str:
        low, high = self.interval
        text = f"{self.mean:.2f} (95 % interval {low:.2f} to {high:.2f}) over {self.episodes} episodes"
        if self.success_rate is not None and self.success_interval is not None:
            low, high = self.success_interval
            text += f", {self.success_rate:.0%} successful ({low:.0%} to {high:.0%})"
        return text + (", all of them the same" if self.distinct == 1 < self.episodes else "")


def aggregated(values: NDArray[np.float64], aggregation: str) -> NDArray[np.float64]:
    """One number ``(N,)`` for each candidate, from those of its episodes ``(N, k)``, by "mean", "median" or "min"."""
    return _AGGREGATIONS[aggregation](values, axis=1)


def _mean(values: Sequence[float | None]) -> float | None:
    return None if any(value is None for value in values) else float(np.mean(np.array(values, float)))


def _bootstrap(fitness: NDArray[np.float64]) -> tuple[float, float]:
    """Percentile interval of the mean; the resampling depends on nothing but the number of episodes."""
    generator = seeding.generator(seeding.derive(0, seeding.Purpose.BOOTSTRAP, 0, len(fitness)))
    rows = max(1, 1_000_000 // len(fitness))  # at a time, so that memory stays small
    blocks = [min(rows, _RESAMPLES - start) for start in range(0, _RESAMPLES, rows)]
    picks = (generator.integers(len(fitness), size=(block, len(fitness))) for block in blocks)
    low, high = np.quantile(np.concatenate([fitness[pick].mean(axis=1) for pick in picks]), [0.025, 0.975])
    return float(low), float(high)


def _wilson(successes: int, trials: int) -> tuple[float, float]:
    rate, squared = successes / trials, _Z**2 / trials
    centre = (rate + squared / 2) / (1 + squared)
    half = _Z / (1 + squared) * math.sqrt(rate * (1 - rate) / trials + squared / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)
