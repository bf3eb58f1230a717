"""Scores of a policy: from its episodes to one number, or to an ``Evaluation``."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from es_core.config.checks import require_fields
from es_core.formatting import counted, figures, html_table, interval_text, percent
from es_core.statistics import mean, share_interval
from es_envs import Episode


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """The score of one policy over several episodes.

    Attributes:
        mean: mean of the run's fitness.
        std: standard deviation of the fitness between episodes.
        interval: 95 % interval of the mean (see ``es_core.statistics``); None if there is only one episode, or if
            all score alike, which says nothing about others.
        returns: mean sum of rewards.
        fitnesses: mean of every named fitness; None where it failed in some episode.
        length: mean number of steps.
        success_rate: share of episodes whose last info says ``is_success``; None if none says anything about it.
        success_interval: 95 % interval of the success rate (Wilson 1927).
        episodes: number of episodes.
        distinct: number of different episodes; 1 where every start is the same.
        steps: environment steps of all episodes.
        at_bounds: share of the actions' entries that were at a bound; None if it was not counted.
        truncated: share of episodes that lasted until their time was up; None in older scores.
        randomized: mean of each property that ``randomize`` can vary, as the episodes' last infos say, if they do.
    """

    mean: float
    std: float
    interval: tuple[float, float] | None
    returns: float
    fitnesses: dict[str, float | None]
    length: float
    success_rate: float | None
    success_interval: tuple[float, float] | None
    episodes: int
    distinct: int
    steps: int
    at_bounds: float | None
    truncated: float | None
    randomized: dict[str, float]

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode]) -> Self:
        """Score ``episodes``, at least one."""
        fitness = np.array([episode.fitness for episode in episodes])
        lengths = [episode.length for episode in episodes]
        successes = [bool(episode.is_success) for episode in episodes]  # one that does not say so is none
        known = any(episode.is_success is not None for episode in episodes)
        are_alike = fitness.min() == fitness.max()  # rounding must not keep them below a goal that is their maximum
        named = {name: [episode.fitnesses[name] for episode in episodes] for name in episodes[0].fitnesses}
        return cls(
            mean=float(fitness[0] if are_alike else fitness.mean()),
            std=0.0 if are_alike else float(fitness.std()),
            interval=mean(fitness).interval,
            returns=float(np.mean([episode.total_reward for episode in episodes])),
            fitnesses={name: _mean(values) for name, values in named.items()},
            length=float(np.mean(lengths)),
            success_rate=float(np.mean(successes)) if known else None,
            success_interval=share_interval(sum(successes), len(successes)) if known else None,
            episodes=len(episodes),
            distinct=len(
                {(e.total_reward, e.length, *e.fitnesses.values(), repr(e.last_observation)) for e in episodes}
            ),
            steps=sum(lengths),
            at_bounds=_mean([episode.at_bounds for episode in episodes]),
            truncated=float(np.mean([episode.truncated for episode in episodes])),
            randomized=_randomized([episode.final_info.get("randomized") for episode in episodes]),
        )

    def reaches(self, goal: float | None) -> bool:
        """Return True if the mean is at the goal, if there is one, and no episode failed that could have succeeded."""
        return goal is not None and self.mean >= goal and self.success_rate in {None, 1.0}

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Read what ``to_json`` returned.

        Raises:
            ValueError: ``values`` is not an evaluation.
        """
        if isinstance(values, dict):
            values = {"at_bounds": None, "truncated": None, "randomized": {}, **values}  # older ones have none of them
        require_fields(cls, values)
        if values["episodes"] < 1:
            raise ValueError(f"episodes must be at least 1, got {values['episodes']}")
        intervals = {name: values[name] and tuple(values[name]) for name in ("interval", "success_interval")}
        return cls(**{**values, **intervals})

    @property
    def spread(self) -> str:
        """The interval of the mean in words, or why there is none."""
        if self.interval is None:
            return f"all {self.episodes} alike" if self.episodes > 1 else "a single episode"
        return f"95 % interval {interval_text(self.interval)}"

    def __str__(self) -> str:
        text = f"{figures(self.mean, self.interval)} ({self.spread}) over {counted(self.episodes, 'episode')}"
        if self.success_rate is not None and self.success_interval is not None:
            low, high = self.success_interval
            text += f", {percent(self.success_rate)} successful ({percent(low)} to {percent(high)})"
        return text + (", all of them the same" if self.distinct == 1 < self.episodes else "")

    def _repr_html_(self) -> str:
        """For a notebook: the score, its interval, success, episodes."""
        success = ""
        if self.success_rate is not None and self.success_interval is not None:
            success = f"{percent(self.success_rate)} ({' to '.join(map(percent, self.success_interval))})"
        rows = [
            ("score", f"{figures(self.mean, self.interval)} ({self.spread})"),
            ("successful", success),
            ("episodes", figures(self.episodes)),
            ("steps of an episode", figures(self.length)),
            *((name, figures(value)) for name, value in [*self.fitnesses.items()][1:]),
        ]
        return html_table(*(row for row in rows if row[1]))


@dataclass(frozen=True)
class Standing:
    """A score as far as it decides which centre of a run is the best.

    Attributes:
        solved: True if it is solved.
        mean: mean of its fitness.
        std: standard deviation of the centre's fitness between episodes.
        episodes: number of episodes.
    """

    solved: bool
    mean: float
    std: float
    episodes: int

    @classmethod
    def of(
        cls, score: Evaluation, before: Evaluation | None = None, *, solved: bool = False, episodes: int | None = None
    ) -> Self:
        """Return the standing of a centre with this score.

        Args:
            score: the one that counts.
            before: an earlier one, which may show more of the scatter.
            solved: True if the centre is solved.
            episodes: number of episodes that count, if not the score's.
        """
        scatter = max(score.std, 0.0 if before is None else before.std)
        return cls(solved, score.mean, scatter, score.episodes if episodes is None else episodes)

    def beats(self, other: "Standing | None") -> bool:
        """Return True if a centre is better than another, or than none.

        Of equally many episodes the higher mean is better. Of fewer ones it must be higher by more, since the best of
        many short scores is a lucky one: both count as two standard errors less, at the larger of their scatters,
        because few equal scores do not show theirs.
        """
        if other is None:
            return True
        scatter = max(self.std, other.std)
        ours, theirs = (each.mean - 2 * scatter / math.sqrt(each.episodes) for each in (self, other))
        return (self.solved, ours) > (other.solved, theirs)


def _randomized(ranges: Sequence[Any]) -> dict[str, float]:
    if not all(isinstance(varied, Mapping) for varied in ranges):
        return {}
    values = {str(name): [varied.get(name) for varied in ranges] for name in ranges[0]}
    return {
        name: float(np.mean(of))
        for name, of in values.items()
        if all(isinstance(value, int | float | np.number) and math.isfinite(value) for value in of)
    }


def _mean(values: Sequence[float | None]) -> float | None:
    return None if any(value is None for value in values) else float(np.mean(np.array(values, float)))
