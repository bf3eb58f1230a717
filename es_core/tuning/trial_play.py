"""Play a trial: its runs, one after the other, each stopped when other trials were better at the same point."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from es_core.config.budgets import share_done
from es_core.config.train_config import TrainConfig
from es_core.formatting import percent
from es_core.pools.options import PoolOptions
from es_core.rollout.errors import RolloutError
from es_core.run import train
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Standing
from es_core.tuning.search_plan import SearchPlan
from es_core.tuning.trial import RunScore, Trial, value_of

if TYPE_CHECKING:
    import optuna

_MILESTONES = 10  # of each run, at which it is compared with other trials at the same point


class TrialPlay:
    """One trial in progress.

    Args:
        plan: the search's.
        draw: Optuna's trial, which gets the reports.
        deadline: when time is up [s, of the monotonic clock].
        show: called after each generation with the share of the trial that is done.
    """

    def __init__(self, plan: SearchPlan, draw: "optuna.Trial", deadline: float, show: Callable[[float], None]) -> None:
        self._plan, self._draw, self._deadline, self._show = plan, draw, deadline, show
        self._share, self._milestones, self._is_pruned = 0.0, 0, False
        self._runs: list[RunScore] = []  # those that have ended
        self._best: Standing | None = None  # of the present run's centres
        self._score: RunScore  # of the present run

    def play(
        self,
        number: int,
        settings: Mapping[str, Any],
        folder: Path,
        *,
        options: PoolOptions,
        bears_failures: bool,
    ) -> Trial | None:
        """Play all runs, unless the trial is pruned or the settings are refused; None if time was up before that.

        Args:
            number: the trial's.
            settings: those that are searched.
            folder: of the trial.
            options: of the pool.
            bears_failures: an episode that fails makes the trial a failed one.

        Raises:
            RolloutError: an episode failed, and ``bears_failures`` is False.
        """
        state, reason = "complete", ""
        try:
            for seed in range(self._plan.base.seed, self._plan.base.seed + self._plan.seeds):
                config = TrainConfig.for_env(self._plan.env_id, **self._plan.fields(settings, seed))
                self._best, self._score = None, RunScore(seed=seed, solved=False, fitness=-math.inf, steps=0)
                run = train(
                    config,
                    run_dir=folder / f"seed-{seed}",
                    progress=False,
                    on_generation=partial(self._follow, config),
                    **vars(options),
                )
                if self._is_pruned:
                    state, reason = "pruned", f"below the median after {percent(self._share)} of its runs"
                    break
                if run.end is None:
                    return None
                self._runs.append(self._score)
        except (ValueError, TypeError, RolloutError) as error:
            if isinstance(error, RolloutError) and not bears_failures:
                raise
            state, reason = "failed", str(error) or repr(error)
        return Trial(number=number, state=state, settings=settings, runs=tuple(self._runs), reason=reason)

    def _follow(self, config: TrainConfig, stats: GenerationStats) -> bool:
        """Score the run so far; return False to stop it: the trial is pruned, or time is up."""
        score = stats.verdict
        if stats.standing is not None and stats.standing.beats(self._best):
            self._best, score = stats.standing, score or stats.confirmation
        self._score = replace(self._score, steps=stats.search_steps)
        if score is not None:
            self._score = replace(self._score, solved=stats.solved, fitness=score.mean, success_rate=score.success_rate)
        share = share_done(
            config, generations=stats.generation + 1, steps=stats.total_steps, episodes=stats.total_episodes
        )
        runs = len(self._runs) + (share if stats.verdict is None else 1.0)
        self._share = runs / self._plan.seeds
        self._show(self._share)
        while self._milestones < int(runs * _MILESTONES + 1e-9):
            self._milestones += 1
            # Optuna compares the best that a trial has reported; the number of the milestone makes that its latest.
            value = value_of([*self._runs, self._score]) / (self._plan.seeds + 1)
            self._draw.report(self._milestones + value, self._milestones)
            if self._milestones < self._plan.seeds * _MILESTONES and self._draw.should_prune():
                self._is_pruned = True
                return False
        return time.monotonic() < self._deadline
