"""Tune: Optuna's search, over whole runs, for settings that suit an environment."""

import math
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from es_core.config.checks import require_positive, require_seconds
from es_core.config.commands import chosen_settings
from es_core.config.keywords import accepts_old_names
from es_core.formatting import counted, figures, lists, percent, text_of
from es_core.pools.options import PoolOptions
from es_core.run import Run
from es_core.seeding import Purpose, derive
from es_core.training.progress import print_line, search_progress
from es_core.tuning.search_plan import SearchPlan
from es_core.tuning.study import keep_best, open_study, read_trials, record_result
from es_core.tuning.trial import Trial, best_of, value_of
from es_core.tuning.trial_play import TrialPlay

if TYPE_CHECKING:
    import optuna

_HOPELESS = 3  # trials: if none of the first ones can be run at all, the others cannot either
_STALE = 10  # draws of settings that were all played before, after which they are drawn at random
_EXHAUSTED = 100  # such draws, after which a narrow range has hardly any other numbers of three digits


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """Result of a search.

    Attributes:
        directory: its folder, which keeps the best trial's runs.
        trials: the trials, in their order.
        seeds: number of runs of a complete trial.
        best: the trial with the highest value.
        run: the best of its runs.
        settings: fields of TrainConfig that make that run: ``train(env_id, **settings)``.
    """

    directory: Path
    trials: tuple[Trial, ...]
    seeds: int
    best: Trial
    run: Run
    settings: Mapping[str, Any]


@accepts_old_names
def tune(
    env_id: str,
    *,
    search: Mapping[str, tuple[float, float] | Sequence[Any]] | None = None,
    trials: int = 30,
    seeds: int = 2,
    max_seconds: float | None = None,
    directory: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    pool: str = "local",
    progress: bool = True,
    **settings: Any,
) -> Tuning:
    """Search for the settings with which evolution does best, or continue such a search.

    A trial is one choice of settings, and a run for each of a few seeds. The better of two trials is the one that
    solves the task with more seeds; then, if both solve it with all, the one that takes fewer environment steps, else
    the one with the higher fitness: the mean over the seeds of the best centre's final fitness. The first trial has
    the settings that ``train`` would use, to three digits; the others are Optuna's (multivariate TPE, Bergstra et al.
    2011, after ten random ones).

    Ten times during each run, a trial is compared with the complete ones, and pruned if it is below their median at
    that point, from the sixth trial on (the median rule of Golovin et al. 2017: it compares whole courses, so it needs
    few trials, which Hyperband would divide among brackets).

    All trials are about as long: where a generation has fewer candidates or episodes, ``generations`` (and
    ``eval_every``) are those that ``train`` would use, stretched to as many episodes. With ``steps_per_generation`` or
    ``max_steps`` they are as long anyway.

    A trial's settings depend on the seed, its number and the results before it: a search that was interrupted
    continues as if it had not been; the interrupted trial is repeated. Settings that were played before are not played
    again, since their runs would be the same: the sampler gets their result once more, and the trial other settings.
    When there are no others left, the search ends.

    Args:
        env_id: id of the environment.
        search: domains by the names of settings: ``(low, high)`` for a number, on a logarithmic scale if both are
            positive and a factor of 10 apart, or a list of values. A population size is even. None: sigma,
            population_size (if ``steps_per_generation`` does not set it), episodes_per_candidate,
            observation_normalization and the strategy's other settings, as far as the run has them.
        trials: number of trials, including those of an earlier call; fewer if there are fewer combinations of values.
        seeds: number of runs of each trial, with ``seed`` and those after it.
        max_seconds: stop after the generation in which so much time has passed; the same call continues.
        directory: folder of the search; None: runs/tune/ID-…, one for each combination of the arguments that matter.
        workers: number of processes; None: the usable cores.
        pool: see ``train``.
        progress: show the search's progress.
        **settings: see ``train``, the same in all trials.

    Raises:
        UnknownEnvError: no such environment is registered.
        ValueError, TypeError: a setting, a range or a value is invalid; or the folder contains another search.
        ImportError: Optuna is not installed, or Ray for the ray pool.
        RuntimeError: no trial is complete, or another process is searching in the folder.
        ConnectionError: there is no Ray cluster at the address, or it has another version.
        RolloutError: an episode failed before any trial was complete (a later trial in which one fails counts as bad).
    """
    _require_optuna()
    if not isinstance(env_id, str):
        raise TypeError(
            f"env_id must be the id of an environment, by which a search is continued; got {env_id!r}: put it into a "
            "module or plugin (es-envs new), or call train() with one choice of settings after the other"
        )
    for name, value in (("trials", trials), ("seeds", seeds)):
        require_positive(name, value)
    if max_seconds is not None:
        require_seconds("max_seconds", max_seconds)
    options, config_fields = PoolOptions.split({"workers": workers, "pool": pool, **settings})
    deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
    plan = SearchPlan.make(env_id, config_fields, search, seeds, "local" if pool == "ray" else pool)
    folder = (Path("runs", "tune", plan.name) if directory is None else Path(directory)).resolve()
    with (
        open_study(folder, plan) as study,
        search_progress(shown=progress) as display,
        _cluster(options),
    ):
        draws = read_trials(study)
        done = list({trial.number: trial for trial in draws}.values())
        print_line(display.console, f"{env_id}: searching {', '.join(plan.domains)} in {folder}")
        if done:
            print_line(display.console, f"{len(done)} of {trials} trials are done")
        bar = display.add_task("trials", total=trials, completed=len(done))

        def show(share: float) -> None:
            display.update(bar, completed=len(done) + share)

        try:
            while len(done) < trials:
                keep_best(folder, done)
                if (reason := _reason_to_stop(plan, draws, trials, deadline)) is not None:
                    print_line(display.console, reason)
                    break
                draw = _draw_settings(study, plan, draws)
                settings = {name: lists(domain.setting(draw.params[name])) for name, domain in plan.domains.items()}
                known = next((trial for trial in draws if trial.settings == settings), None)
                trial = known or TrialPlay(plan, draw, deadline, show).play(
                    len(done),
                    settings,
                    folder / "trials" / f"{len(done):04d}",
                    options=replace(options, ray_address=None),  # the connection is there
                    bears_failures=best_of(done) is not None,  # before, the settings are not the cause
                )
                if trial is None:  # time is up
                    continue
                record_result(study, draw, trial)
                draws.append(trial)
                if known is None:
                    done.append(trial)
                    values = ", ".join(f"{name}={text_of(value)}" for name, value in settings.items())
                    of = f"{len(done)} of {trials} done"
                    print_line(display.console, f"trial {trial.number} ({of}): {_outcome(trial)}; {values}")
            keep_best(folder, done)
        except BaseException as error:
            # Instead of train's note: a run of a trial is not resumed, the trial is repeated as a whole.
            error.__notes__ = [f"Only trial {len(done)} is lost: the same command continues the search."]
            raise
    return _result(folder, plan, done)


def _cluster(options: PoolOptions) -> AbstractContextManager[object]:
    """One connection for all runs."""
    if options.pool != "ray":
        return nullcontext()
    from es_core.pools.cluster import connection

    return connection(options.ray_address, cores=options.workers)


def _reason_to_stop(plan: SearchPlan, draws: Sequence[Trial], trials: int, deadline: float) -> str | None:
    """Reason to stop before all trials are done, as a message; or None."""
    done = len({trial.number for trial in draws})
    if time.monotonic() >= deadline:
        return f"time is up after {done} of {trials} trials: the same command continues"
    if done >= _HOPELESS and all(trial.state == "failed" for trial in draws):
        return f"the search ends: none of the first {done} trials could be run"
    if done >= plan.combinations or (math.isinf(plan.combinations) and _repeats(draws) >= _EXHAUSTED):
        return f"no other settings are left: the search ends after {counted(done, 'trial')}"
    return None


def _repeats(draws: Sequence[Trial]) -> int:
    """Number of the last draws in a row whose settings were drawn before."""
    numbers = [trial.number for trial in draws]
    return len(numbers) - 1 - numbers.index(max(numbers)) if numbers else 0


def _draw_settings(study: "optuna.Study", plan: SearchPlan, draws: Sequence[Trial]) -> "optuna.Trial":
    """Draw settings: at first those that ``train`` would use, then Optuna's."""
    from optuna.samplers import RandomSampler, TPESampler
    from optuna.trial import TrialState

    # A new sampler for each draw, so that nothing about randomness has to be stored.
    sampler = TPESampler if _repeats(draws) < _STALE else RandomSampler
    study.sampler = sampler(seed=derive(plan.base.seed, Purpose.TUNING, len(draws)) % 2**32)
    if not draws and not study.get_trials(deepcopy=False, states=[TrialState.WAITING]):
        first = {name: domain.drawn(getattr(plan.base, name)) for name, domain in plan.domains.items()}
        study.enqueue_trial({name: value for name, value in first.items() if value is not None})
    return study.ask({name: domain.distribution for name, domain in plan.domains.items()})


def _result(folder: Path, plan: SearchPlan, trials: Sequence[Trial]) -> Tuning:
    best = best_of(trials)
    if best is None and trials:
        raise RuntimeError(
            f"none of {len(trials)} trials could be run; the last one: {trials[-1].reason}\n"
            f"To start again when that is fixed, delete {folder}."
        )
    if best is None:
        raise RuntimeError("time was up before the first trial was complete: the same command repeats it")
    score = max(best.runs, key=lambda run: value_of([run]))
    run = Run.open(folder / "trials" / f"{best.number:04d}" / f"seed-{score.seed}", trust=True)
    settings = chosen_settings(run.config)
    return Tuning(directory=folder, trials=tuple(trials), seeds=plan.seeds, best=best, run=run, settings=settings)


def _outcome(trial: Trial) -> str:
    if trial.state != "complete":
        return f"{trial.state}, {trial.reason.splitlines()[0]}"
    succeeded = "" if trial.success_rate is None else f", {percent(trial.success_rate)} successful"
    steps = figures(round(trial.steps))
    return f"fitness {figures(trial.fitness)}{succeeded}, {trial.solved} of {len(trial.runs)} solved, {steps} steps"


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ImportError("tune searches with Optuna, which is not installed: pip install 'es-envs[tune]'") from error
