"""One line of metrics.jsonl: the numbers of a generation."""

import re
from dataclasses import asdict, dataclass
from typing import Any, Self

from es_core.config.checks import flag, require_fields, whole
from es_core.formatting import duration, figures, html_table, shown
from es_core.runs.scores import Evaluation, Standing

DIAGNOSTICS = (
    "sigma",
    "gradient_norm",
    "half_agreement",
    "step_norm",
    "step_to_sigma",
    "step_cosine",
    "parameter_norm",
    "coverage",
    "qd_score",
    "best_elite",
    "new_cells",
    "out_of_range",
)
"""Diagnostics of a strategy's last step; fields of ``GenerationStats``."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationStats:
    """One line of metrics.jsonl: the population of a generation, and the centre it was drawn around.

    The line after the last generation has a centre, but no population: its fitness fields are None.

    Attributes:
        generation: from 0.
        fitness_mean: mean of the population's fitness; fitness_median, fitness_max, fitness_min: its median, ...
        fitness_std: its standard deviation among candidates that are compared with each other.
        fitnesses: mean of every named fitness over the population's episodes; None where it failed.
        population_size: number of candidates.
        search: how often the search had begun again, from other parameters, before this generation.
        rules: state of each of the run's rules (``es_core/training/rules``) before this generation, by name.
        tied_pairs: share of mirrored pairs whose two candidates have equal fitness; None without pairs.
        sigma: standard deviation of the candidates' noise (root mean square over the parameters).
        gradient_norm: length of the estimated gradient; None where the strategy has none.
        half_agreement: cosine between the gradients of the two halves of the population: on average 0 if they are only
            noise, and at most n / (n + d) with n pairs in each half and d parameters.
        step_norm: length of the centre's step to the next one.
        step_to_sigma: root mean square of that step's entries, divided by sigma.
        step_cosine: cosine between that step and the one before it; below 0 the centre turns back.
        parameter_norm: length of the next centre. An undefined diagnostic is None.
        coverage: share of a repertoire's cells that are filled after this generation.
        qd_score: sum over its cells of the fitness above the strategy's ``floor``.
        best_elite: highest fitness in it.
        new_cells: number of its cells that this generation filled first.
        out_of_range: share of the candidates whose behaviour lay outside its ranges.
        episode_length: mean steps of the population's episodes.
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
        solved: True if the confirmed centre reaches ``solved_at`` beyond chance.
        end: in the line that ends an unsolved run, the bound or the rule that has ended it.
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
    contender: int
    search: int
    rules: dict[str, float | None]
    tied_pairs: float | None
    sigma: float | None
    gradient_norm: float | None
    half_agreement: float | None
    step_norm: float | None
    step_to_sigma: float | None
    step_cosine: float | None
    parameter_norm: float | None
    coverage: float | None
    qd_score: float | None
    best_elite: float | None
    new_cells: float | None
    out_of_range: float | None
    episode_length: float | None
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
    solved: bool
    end: str | None
    parameter_hash: str
    next_hash: str | None
    seconds: float

    def _repr_html_(self) -> str:
        """For a notebook: the population, the evaluated policy, steps and time."""
        rows = [
            ("generation", figures(self.generation)),
            ("population's fitness", f"{figures(self.fitness_mean)} ({figures(self.fitness_min)} to "
                                     f"{figures(self.fitness_max)})" if self.fitness_mean is not None else ""),
            *((name, str(score)) for name, score in (("evaluated", self.evaluation), ("confirmed", self.confirmation),
                                                    ("final", self.final)) if score is not None),
            ("steps so far", figures(self.total_steps)),
            ("time", duration(self.seconds)),
        ]  # fmt: skip
        return html_table(*(row for row in rows if row[1]))

    @property
    def steps_per_second(self) -> float | None:
        """Environment steps of all episodes per second of wall time; None if nothing was played."""
        played = self.steps + self.evaluation_steps
        return played / self.seconds if played and self.seconds else None

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
            values = _from_older(values)
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


def _from_older(values: dict[str, Any]) -> dict[str, Any]:
    """Return a line of metrics, of this version or an earlier one, as this version has it."""
    missing: dict[str, Any] = {"final": None, "final_fitness": [], "baselines": {}, "end": None, "contender": 0}
    missing |= dict.fromkeys(("coverage", "qd_score", "best_elite", "new_cells", "out_of_range"))
    values = {**missing, **{name: value for name, value in values.items() if name != "observation_spread"}}
    if "rules" not in values:  # each rule had a field of its own
        older = {"range_share": None, "restarts": 0, "failed_early": False, "episode_cap": None}
        share, restarts, failed_early, cap = (values.pop(name, default) for name, default in older.items())
        if whole(0)(restarts) or flag(failed_early):
            raise ValueError(f"restarts and failed_early cannot be {shown(restarts)} and {shown(failed_early)}")
        values["search"] = 2 * restarts + failed_early
        values["rules"] = {"plateau": restarts, "sigma_shrinking": 2 * failed_early, "episode_cap": cap}
        values["rules"] |= {} if share is None else {"curriculum": share}
    return values
