"""Robustness: the score of a policy where an environment's properties vary as in training, and more than that."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from es_core.evaluation.scoring import Source, evaluate, find_policy
from es_core.files import write_whole
from es_core.reports.pages import Chart, Mark, render, require_page
from es_core.rollout.environment import make_env
from es_core.rollout.ranges import scaled_ranges
from es_core.runs.scores import Evaluation
from es_core.training.progress import count_progress
from es_envs.closing import closing_env

STRETCHES = (0.0, 0.5, 1.0, 1.5)
"""Multiples of the ranges; at 0 nothing varies."""
ALL = "all of them"


@dataclass(frozen=True, kw_only=True)
class Robustness:
    """Scores where properties vary.

    Attributes:
        env_id: the environment.
        fitness: name of the fitness.
        ranges: the ranges by name, as in ``randomize``.
        widest: the ranges of the last of ``STRETCHES``: a property may be bounded, as a probability is by 1.
        scores: for each name, and for all of them together, the score at each of ``STRETCHES``.
    """

    env_id: str
    fitness: str
    ranges: Mapping[str, Any]
    widest: Mapping[str, Any]
    scores: Mapping[str, Sequence[Evaluation]]

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {
            "env_id": self.env_id,
            "fitness": self.fitness,
            "ranges": dict(self.ranges),
            "widest": dict(self.widest),
            "stretches": list(STRETCHES),
            "scores": {name: [each.to_json() for each in scores] for name, scores in self.scores.items()},
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a page with a table and charts, and return its path.

        Raises:
            ValueError: the path does not end in .html.
            OSError: the page cannot be written.
        """
        page = require_page(path)
        content = render(
            "robustness.html",
            grids={"stretches": {"stretches": STRETCHES}},
            charts=self._charts(),
            linked=False,
            found=self,
            stretches=STRETCHES,
            version=version("es-envs"),
            made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        )
        write_whole(page, content)
        return page

    def _charts(self) -> list[Chart]:
        fitness, success = [], []
        for number, (name, scores) in enumerate(self.scores.items()):
            colour = f"group-{number % 8 + 1}"
            ends = [each.interval or (None, None) for each in scores]
            low, high = zip(*ends, strict=True)
            means = [each.mean for each in scores]
            fitness.append(Mark(label=name, colour=colour, grid="stretches", values=means, low=low, high=high))
            rates = [each.success_rate for each in scores]
            success.append(Mark(label=name, colour=colour, grid="stretches", values=rates))
        note = "At 1, values are drawn from the range itself, at 0 nothing varies. "
        return [
            Chart(name="fitness", title=f"Fitness: {self.fitness}", note=f"{note}With 95 % intervals.",
                  marks=tuple(fitness)),
            Chart(name="success", title="Success", note=f"{note}Share of the episodes.", marks=tuple(success),
                  limits=(0, 1), percent=True),
        ]  # fmt: skip


def robustness(
    source: Source,
    *,
    randomize: Mapping[str, Any] | None = None,
    episodes: int = 100,
    seed: int = 0,
    generation: int | None = None,
    candidate: int | None = None,
    cell: Sequence[int] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    fitness: str | None = None,
    workers: int | None = None,
    trust: bool = False,
    progress: bool = False,
) -> Robustness:
    """Score a policy where one property varies, or all do: within half of their ranges, all of them, and 1.5 times.

    All scores are from the same starts.

    Args:
        source: see ``evaluate``.
        randomize: ranges by name; None: those of its training.
        episodes: number of episodes of each score.
        seed: see ``evaluate``.
        generation: see ``evaluate``.
        candidate: see ``evaluate``.
        cell: see ``evaluate``.
        env_kwargs: see ``evaluate``.
        fitness: see ``evaluate``.
        workers: see ``evaluate``.
        trust: see ``evaluate``.
        progress: show a progress bar, if there is a terminal.

    Raises:
        ValueError: there are no ranges, or they are wrong; and as ``evaluate`` does.
        FileNotFoundError: see ``evaluate``.
        CheckpointError: see ``evaluate``.
        RolloutError: see ``evaluate``.
    """
    checkpoint, definition = find_policy(
        source, generation=generation, candidate=candidate, cell=cell, env_kwargs=env_kwargs, trust=trust
    )
    ranges: Any = checkpoint.config.randomize if randomize is None else randomize
    if not ranges:
        raise ValueError(
            f"{definition.label}: this policy was trained without randomize: give what is to vary, such as "
            'randomize={"friction": [0.6, 1.4]} (on the command line: --randomize "friction=[0.6,1.4]")'
        )

    def score(varied: Mapping[str, Any]) -> Evaluation:
        return evaluate(
            checkpoint,
            episodes=episodes,
            seed=seed,
            env_kwargs={"randomize": varied},
            fitness=fitness,
            workers=workers,
            trust=checkpoint.trusted,
        )

    with (
        closing_env(make_env(definition, checkpoint.config, randomize=ranges), definition.label) as env,
        count_progress(shown=progress) as bar,
    ):
        worlds = {name: {name: ends} for name, ends in ranges.items()}  # the environment has found them to be ranges
        if len(worlds) > 1:
            worlds[ALL] = ranges
        plain = score({})
        scores = {name: [plain] for name in worlds}
        task = bar.add_task("worlds", total=len(worlds) * (len(STRETCHES) - 1))
        for name, varied in worlds.items():
            for stretch in STRETCHES[1:]:
                scores[name].append(score(scaled_ranges(varied, stretch, env)))
                bar.advance(task)
        widest = {
            name: [round(end) if end == round(end) else float(f"{end:.6g}") for end in ends]  # for people to read
            for name, ends in scaled_ranges(ranges, STRETCHES[-1], env).items()
        }
    name = str(checkpoint.config.fitness) if fitness is None else fitness
    return Robustness(env_id=definition.id, fitness=name, ranges=dict(ranges), widest=widest, scores=scores)
