"""Play a trial: its runs, one after the other, each stopped when other trials were better at the same point."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.progress import Progress

from es_core.config.budgets import share_done
from es_core.config.train_config import TrainConfig
from es_core.run import train
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Standing
from es_core.tuning.search_plan import SearchPlan
from es_core.tuning.trial import RunScore, value_of

if TYPE_CHECKING:
    import optuna

_MILESTONES = 10  # of each run, at which it is compared with other trials at the same point


@dataclass
class TrialPlay:
    """One trial in progress: its runs, one after the other, and its reports to Optuna."""

    plan: SearchPlan
    folder: Path
    workers: int | None
    pool: str
    deadline: float
    display: Progress
    trials: int
    runs: list[RunScore] = field(default_factory=list)
    share: float = 0.0
    pruned: bool = False

    def __call__(self, trial: "optuna.Trial", settings: Mapping[str, Any]) -> bool:
        """Play all runs, unless the trial is pruned; return True if there was time for that.

        Raises:
            ValueError: the settings are refused.
            RolloutError: an episode failed.
        """
        task = self.display.add_task(f"trial {int(self.folder.name) + 1}/{self.trials}", total=1.0)
        try:
            for seed in range(self.plan.base.seed, self.plan.base.seed + self.plan.seeds):
                config = TrainConfig.for_env(self.plan.env_id, **self.plan.fields(settings, seed))
                follow = _Follower(self, trial, config, lambda: self.display.update(task, completed=self.share))
                run = train(
                    config,
                    run_dir=self.folder / f"seed-{seed}",
                    workers=self.workers,
                    pool=self.pool,
                    progress=False,
                    on_generation=follow,
                )
                if self.pruned:
                    return True
                if run.end is None:
                    return False
                self.runs.append(follow.score)
        finally:
            self.display.remove_task(task)
        return True


class _Follower:
    """Follows a run from generation to generation, and stops it when the trial is pruned or time is up."""

    def __init__(self, play: TrialPlay, trial: "optuna.Trial", config: TrainConfig, show: Callable[[], None]) -> None:
        self._play, self._trial, self._config, self._show = play, trial, config, show
        self._milestone = 0
        self._best: Standing | None = None
        self.score = RunScore(seed=config.seed, solved=False, fitness=-math.inf, steps=0)

    def __call__(self, stats: GenerationStats) -> bool:
        score = stats.verdict
        if stats.standing is not None and stats.standing.beats(self._best):
            self._best, score = stats.standing, score or stats.confirmation
        if score is not None:
            self.score = replace(self.score, solved=stats.solved, fitness=score.mean, success_rate=score.success_rate)
        self.score = replace(self.score, steps=stats.search_steps)
        share = share_done(
            self._config, generations=stats.generation + 1, steps=stats.total_steps, episodes=stats.total_episodes
        )
        play, seeds = self._play, self._play.plan.seeds
        reached = _MILESTONES if stats.solved else int(share * _MILESTONES + 1e-9)
        play.share = (len(play.runs) + (1.0 if stats.solved else share)) / seeds
        self._show()
        while self._milestone < reached:
            self._milestone += 1
            step = len(play.runs) * _MILESTONES + self._milestone
            # Optuna compares the best that a trial has reported; the step makes that its latest.
            self._trial.report(step + value_of([*play.runs, self.score]) / (seeds + 1), step)
            if step < seeds * _MILESTONES and self._trial.should_prune():
                play.pruned = True
                return False
        return time.monotonic() < play.deadline
