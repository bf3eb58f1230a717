"""One line of metrics.jsonl: the numbers of a generation."""

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice, takewhile
from statistics import fmean, variance
from typing import Any, Self

from es_core.config.checks import require_fields
from es_core.formatting import shown
from es_core.runs.scores import Evaluation, Standing

DIAGNOSTICS = (
    "sigma",
    "gradient_norm",
    "half_agreement",
    "step_norm",
    "step_to_sigma",
    "step_cosine",
    "parameter_norm",
)
"""Diagnostics of a strategy's last step; fields of ``GenerationStats``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationStats:
    """One line of metrics.jsonl: the population of a generation, and the centre it was drawn around.

    The line after the last generation has a centre, but no population: its fitness fields are None.

    Attributes:
        generation: from 0.
        fitness_mean: mean of the population's fitness; fitness_median, fitness_max and fitness_min likewise.
        fitness_std: its standard deviation among candidates that are compared with each other.
        fitnesses: mean of every named fitness over the population's episodes; None where it failed.
        population_size: number of candidates.
        restarts: how often the search had begun again before this generation, because of a plateau.
        failed_early: True if it then began again, because it failed early (``fails_early``).
        tied_pairs: share of mirrored pairs whose two candidates have equal fitness; None without pairs.
        sigma: standard deviation of the candidates' noise (root mean square over the parameters).
        gradient_norm: length of the estimated gradient; None where the strategy has none.
        half_agreement: cosine between the gradients of the two halves of the population: on average 0 if they are only
            noise, and at most n / (n + d) with n pairs in each half and d parameters.
        step_norm: length of the centre's step to the next one.
        step_to_sigma: root mean square of that step's entries, divided by sigma.
        step_cosine: cosine between that step and the one before it; below 0 the centre turns back.
        parameter_norm: length of the next centre. An undefined diagnostic is None.
        episode_length: mean steps of the population's episodes.
        episode_cap: their step limit, where it was below that of whole episodes.
        range_share: share of the ranges of ``randomize`` in which they were played; None without a curriculum.
        capped_episodes: share of them that a step limit ended.
        steps: environment steps of the population's episodes, including those that choose an elite.
        evaluation_steps: environment steps of all other episodes: the centre's, and those of the baselines.
        total_steps: environment steps of both since the run began.
        total_episodes: episodes of the populations since the run began.
        workers_replaced: number of processes that died or hung, and were replaced.
        retried: number of candidates and episodes of the centre that failed once and succeeded when repeated.
        failed_candidates: candidates that failed again when repeated: ``candidate``, episode ``seed``, ``kind``,
            ``message``, and the ``command`` that reproduces it. They enter none of the numbers above.
        evaluation: the centre's score on starts that training never sees, or None if this generation had none.
        confirmation: its score on a second set of starts, where it looked best or solved.
        final: in the line that ends an unsolved run, the best centre's score on starts that no decision has seen.
        final_fitness: the fitness from each start of the ``verdict``, in the order of ``RunFolder.final_seeds``.
        baselines: in the first line, scores of doing nothing (all outputs are 0) and of random actions.
        observation_spread: in the first line, if observations are not normalised, but might be, smallest and largest
            standard deviation among their entries in the baselines' episodes, except entries that never change.
        solved: True if the confirmed centre reaches ``solved_at`` beyond chance.
        parameter_hash: hash of the centre.
        next_hash: hash of the next generation's centre; None in the last line.
        seconds: wall time of the generation.
    """

    generation: int
    fitness_mean: float | None
    fitness_median: float | None
    fitness_max: float | None
    fitness_min: float | None
    fitness_std: float | None
    fitnesses: dict[str, float | None]
    population_size: int | None
    restarts: int
    failed_early: bool
    tied_pairs: float | None
    sigma: float | None
    gradient_norm: float | None
    half_agreement: float | None
    step_norm: float | None
    step_to_sigma: float | None
    step_cosine: float | None
    parameter_norm: float | None
    episode_length: float | None
    episode_cap: int | None
    range_share: float | None
    capped_episodes: float | None
    steps: int
    evaluation_steps: int
    total_steps: int
    total_episodes: int
    workers_replaced: int
    retried: int
    failed_candidates: list[dict[str, int | str | None]]
    evaluation: Evaluation | None
    confirmation: Evaluation | None
    final: Evaluation | None
    final_fitness: list[float]
    baselines: dict[str, Evaluation]
    observation_spread: list[float] | None
    solved: bool
    parameter_hash: str
    next_hash: str | None
    seconds: float

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps of all episodes per second of wall time; None if nothing was played."""
        played = self.steps + self.evaluation_steps
        return played / self.seconds if played and self.seconds else None

    @property
    def search(self) -> tuple[int, bool]:
        """The search of its run to which it belongs: ``restarts`` and ``failed_early``."""
        return self.restarts, self.failed_early

    @property
    def verdict(self) -> Evaluation | None:
        """Score of the best centre on starts that no decision has seen, in the line that ends a run.

        Of a solved run it is the confirmation that has proved it; older runs have a final score, too.
        """
        return self.final or (self.confirmation if self.solved else None)

    @property
    def search_steps(self) -> int:
        """``total_steps`` without those at the end: of the last centre, without a population, and the final score."""
        if self.population_size is None:
            return self.total_steps - self.evaluation_steps
        return self.total_steps - (0 if self.final is None else self.final.steps)

    def budgeted_steps(self, goal: float | None) -> int:
        """Those of ``evaluation_steps`` for which ``eval_budget`` is.

        It does not count the first centre, which may last long when no candidate does, nor the confirmation of one that
        has come to the ``goal``: what these cost must not keep later centres from being scored.
        """
        if self.generation == 0:
            return 0
        proves = self.evaluation is not None and self.evaluation.reaches(goal)
        return self.evaluation_steps - (self.confirmation.steps if proves and self.confirmation is not None else 0)

    @property
    def standing(self) -> Standing | None:
        """Standing of the centre among those of its run; None if it was not confirmed."""
        if self.confirmation is None:
            return None
        return Standing.of(self.confirmation, self.evaluation, solved=self.solved)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Read what ``to_json`` returned.

        Raises:
            ValueError: ``values`` is not a line of metrics.
        """
        if isinstance(values, dict):
            # Older runs have none of these.
            missing: dict[str, Any] = {"final": None, "final_fitness": [], "baselines": {}, "observation_spread": None}
            values = {**missing, "range_share": None, "restarts": 0, "failed_early": False, **values}
        require_fields(cls, values)
        for name in ("parameter_hash", "next_hash"):
            if not re.fullmatch("[0-9a-f]{16}", values[name] or "0" * 16):
                raise ValueError(f"{name} cannot be {shown(values[name])}")
        if not all("candidate" in failed for failed in values["failed_candidates"]):
            raise ValueError("failed_candidates cannot be without their candidate")
        scores = {
            name: Evaluation.from_json(values[name]) if values[name] else None
            for name in ("evaluation", "confirmation", "final")
        }
        baselines = {name: Evaluation.from_json(score) for name, score in values["baselines"].items()}
        return cls(**{**values, **scores, "baselines": baselines})


PLATEAU = 100
"""Generations without any gain that are a plateau."""
STALL = 20
"""Generations without a clear gain, after which larger ones are worth their steps."""
_FEWEST_SCORES, _FEW_SCORES = 5, 3
_FAR = 3  # spreads


def since_restart(history: Sequence[GenerationStats], search: tuple[int, bool]) -> list[GenerationStats]:
    """Lines with a population, the latest ``PLATEAU`` of them, of the latest ``search``."""
    ours = takewhile(lambda stats: stats.search == search, reversed(history))
    return list(islice((stats for stats in ours if stats.population_size is not None), PLATEAU))[::-1]


def is_stalled(recent: Sequence[GenerationStats]) -> bool:
    """Tell whether a block of ``STALL`` generations ends here in whose second half fitness was not clearly better.

    A gain is more than a standard error. With fewer steps than it needs, a search is lost in noise; with more, it only
    takes longer.

    Args:
        recent: lines with a population, of one search.
    """
    block = recent[-STALL:]
    if len(block) < STALL or (block[-1].generation + 1) % STALL or _widened(block):
        return False
    halves = [
        [stats.fitness_mean for stats in half if stats.fitness_mean is not None]
        for half in (block[: STALL // 2], block[STALL // 2 :])
    ]
    return min(map(len, halves)) > 1 and not is_gain(*halves, errors=1)


NARROWER = 10
"""Times smaller is the sigma of a search that begins again because candidates were too far from their centre."""


def is_out_of_reach(centre: Evaluation, best: float | None, spread: float | None) -> bool:
    """Tell whether no candidate comes near what their centre does, so that sigma is far too large; False if unknown.

    They play from other starts, so the difference must be clear beside what starts change, too.

    Args:
        centre: the centre's score.
        best: the best candidate's fitness.
        spread: standard deviation of the candidates' fitness.
    """
    if best is None or spread is None:
        return False
    return centre.mean - centre.std - best > _FAR * spread


def fails_early(recent: Sequence[GenerationStats], first: GenerationStats, *, surely: bool = False) -> bool:
    """Tell whether a search is stuck with episodes that end early: each step costs more than where nothing is done.

    Where rewards are negative and an early end is a failure, the hasty find failing, which costs less in all, before
    they find what lasts. Where an early end is the goal, and haste costs, it looks the same, unless the environment
    says whether episodes succeed.

    Args:
        recent: lines with a population, of one search.
        first: the run's first line, which has the baselines.
        surely: only if the environment says that none succeeds.
    """
    nothing = first.baselines.get("doing nothing") if first.generation == 0 else None
    scores = [stats.evaluation for stats in recent[-STALL:] if stats.evaluation is not None][-_FEW_SCORES:]
    fitness = [stats.fitness_mean for stats in recent[-STALL:] if stats.fitness_mean is not None]
    if nothing is None or len(scores) < _FEW_SCORES or len(fitness) < STALL:
        return False
    return not is_gain(fitness[: STALL // 2], fitness[STALL // 2 :], errors=2) and all(
        score.success_rate in ({0} if surely else {0, None})
        and math.isclose(score.mean, score.returns)  # the fitness is the sum of rewards, but for its rounding
        and nothing.mean < score.mean < 0
        and score.length < nothing.length / 2
        and score.mean / score.length < nothing.mean / nothing.length
        for score in scores
    )


def is_plateau(recent: Sequence[GenerationStats]) -> bool:
    """Tell whether nothing was gained lately: neither in the populations' mean fitness nor in the centres' scores.

    The means of the last 50 generations and of the 50 before them are compared: a gain is more than two standard
    errors. Too few scores of centres say nothing, and populations decide alone.

    Args:
        recent: lines with a population, the latest ``PLATEAU`` of one search; fewer are no plateau.
    """
    parts = recent[: PLATEAU // 2], recent[PLATEAU // 2 :]
    if len(recent) < PLATEAU or _widened(parts[1]):
        return False
    scores = [[stats.evaluation.mean for stats in part if stats.evaluation is not None] for part in parts]
    fitness = [[stats.fitness_mean for stats in part if stats.fitness_mean is not None] for part in parts]
    enough = min(map(len, fitness)) > 1, min(map(len, scores)) >= _FEWEST_SCORES
    return any(enough) and not any(
        is_gain(*halves, errors=2) for halves, are_enough in zip((fitness, scores), enough, strict=True) if are_enough
    )


def _widened(lines: Sequence[GenerationStats]) -> bool:
    """Tell whether a curriculum grew meanwhile: then equal fitness is a gain, in a harder world."""
    shares = [stats.range_share for stats in lines if stats.range_share is not None]
    return bool(shares) and shares[-1] > shares[0]


def is_gain(before: Sequence[float], after: Sequence[float], *, errors: float) -> bool:
    """Tell whether the mean of some values is higher than that of earlier ones by so many standard errors."""
    try:
        error = math.sqrt(sum(variance(part) / len(part) for part in (before, after)))
        return fmean(after) - fmean(before) > errors * error
    except OverflowError:  # near the largest number there is
        return False
