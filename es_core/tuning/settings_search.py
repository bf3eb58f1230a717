"""Tune: Optuna's search, over whole runs, for settings that suit an environment."""

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Self

from filelock import Timeout
from rich.progress import Progress

import es_envs
from es_core.config.budgets import share_done
from es_core.config.checks import require_positive, require_seconds
from es_core.config.choices import LEARNER
from es_core.config.train_config import TrainConfig
from es_core.files import file_name, hold, remove, require_plain
from es_core.formatting import figures, lists, percent, text_of
from es_core.policies.by_name import make_policy
from es_core.policies.defaults import Space
from es_core.pools.by_name import require_pool
from es_core.rollout.environment import make_env
from es_core.rollout.errors import RolloutError
from es_core.run import Run, train
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Standing
from es_core.seeding import Purpose, derive
from es_core.strategies.by_name import require_strategy
from es_core.strategies.defaults import settled
from es_core.training.progress import print_line, search_progress
from es_core.tuning.search_space import Choice, Range, domain, usual_search
from es_envs.choice import ArgumentError

if TYPE_CHECKING:
    import optuna

_MILESTONES = 10  # of each run, at which it is compared with other trials at the same point
_UNPRUNED = 3  # milestones at the start without pruning: evolution often begins slowly
_HOPELESS = 3  # trials: if none of the first ones can be run at all, the others cannot either


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """Score of one run.

    Attributes:
        seed: the run's seed.
        solved: True if it solved the task.
        fitness: fitness of its best centre, on starts that no decision of the run has seen.
        steps: environment steps until it was solved or ended.
    """

    seed: int
    solved: bool
    fitness: float
    steps: int


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One choice of settings, and its result.

    Attributes:
        number: from 0.
        state: "complete", "pruned" (other trials were better at that point) or "failed".
        settings: the searched settings, as JSON.
        runs: scores of its runs, one for each seed; in an incomplete trial only of those that ended.
        reason: reason why it was pruned or failed.
    """

    number: int
    state: str
    settings: Mapping[str, Any]
    runs: tuple[RunScore, ...]
    reason: str = ""

    @property
    def solved(self) -> int:
        """Number of runs that solved the task."""
        return sum(run.solved for run in self.runs)

    @property
    def fitness(self) -> float:
        """Mean of the runs' fitness."""
        return fmean(run.fitness for run in self.runs)

    @property
    def steps(self) -> float:
        """Mean of the runs' environment steps."""
        return fmean(run.steps for run in self.runs)

    @property
    def value(self) -> float:
        """Value that the search maximises; see ``tune``."""
        return _value(self.runs)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read what ``dataclasses.asdict`` returned."""
        return cls(**{**values, "runs": tuple(RunScore(**run) for run in values["runs"])})


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
    ray_address: str | None = None,
    progress: bool = True,
    **config_fields: Any,
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

    A generation with fewer candidates or episodes costs less: ``generations`` (and ``eval_every``) are those that
    ``train`` would use, stretched so that all trials play about as many episodes.

    A trial's settings depend on the seed, its number and the results before it: a search that was interrupted
    continues as if it had not been; the interrupted trial is repeated.

    Args:
        env_id: id of the environment.
        search: domains by the names of settings: ``(low, high)`` for a number, on a logarithmic scale if both are
            positive and a factor of 10 apart, or a list of values. A population size is even. None: sigma,
            population_size, episodes_per_candidate, observation_normalization and the strategy's other settings.
        trials: number of trials, including those of an earlier call.
        seeds: number of runs of each trial, with ``seed`` and those after it.
        max_seconds: stop after the generation in which so much time has passed; the same call continues.
        directory: folder of the search; None: runs/tune/ID-…, one for each combination of the arguments that matter.
        workers: number of processes; None: the usable cores.
        pool: see ``train``.
        ray_address: see ``train``.
        progress: show the search's progress.
        **config_fields: fields of TrainConfig, the same in all trials.

    Raises:
        UnknownEnvError: no such environment is registered.
        ValueError, TypeError: a setting, a range or a value is invalid; or the folder contains another search.
        ImportError: Optuna is not installed, or Ray for the ray pool.
        RuntimeError: no trial is complete, or another process is searching in the folder.
        ConnectionError: there is no Ray cluster at the address, or it has another version.
        RolloutError: an episode failed before any trial was complete (a later trial in which one fails counts as bad).
    """
    _require_optuna()
    for name, value in (("trials", trials), ("seeds", seeds)):
        require_positive(name, value)
    if max_seconds is not None:
        require_seconds("max_seconds", max_seconds)
    require_pool(pool, ray_address, workers)
    deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
    plan = _Plan.make(env_id, config_fields, search, seeds, "local" if pool == "ray" else pool)
    folder = (Path("runs", "tune", plan.name) if directory is None else Path(directory)).resolve()
    with (
        _opened(folder, plan) as study,
        search_progress(shown=progress) as display,
        _cluster(pool, ray_address, workers),
    ):
        done = _trials(study)
        _keep_best(folder, done)
        print_line(display.console, f"{env_id}: searching {', '.join(plan.domains)} in {folder}")
        if done:
            print_line(display.console, f"{len(done)} of {trials} trials are done")
        try:
            while len(done) < trials and time.monotonic() < deadline and not _hopeless(done):
                play = _Play(plan, folder / "trials" / f"{len(done):04d}", workers, pool, deadline, display, trials)
                trial = _next_trial(study, plan, done, play)
                done += [] if trial is None else [trial]
                _keep_best(folder, done)
                if trial is None:  # time is up
                    break
                outcome = f"trial {trial.number + 1}/{trials}: {_outcome(trial)}; {_listed(trial.settings)}"
                print_line(display.console, outcome)
        except BaseException as error:
            # Instead of train's note: a run of a trial is not resumed, the trial is repeated as a whole.
            error.__notes__ = [f"Only trial {len(done) + 1} is lost: the same command continues the search."]
            raise
        if len(done) < trials and time.monotonic() >= deadline:
            print_line(display.console, f"time is up after {len(done)} of {trials} trials: the same command continues")
    return _result(folder, plan, done)


def _cluster(pool: str, address: str | None, workers: int | None) -> AbstractContextManager[object]:
    """One connection for all runs."""
    if pool != "ray":
        return nullcontext()
    from es_core.pools.cluster import connection

    return connection(address, cores=workers)


@dataclass(frozen=True)
class _Plan:
    """Arguments of a search: the same plan is the same search."""

    env_id: str
    given: Mapping[str, Any]
    spaces: tuple[Space, Space]  # the environment's
    base: TrainConfig  # the settings that ``train`` would use
    domains: Mapping[str, Range | Choice]
    seeds: int
    pool: str  # "local" stands for the ray pool, too, which computes the same

    @classmethod
    def make(
        cls, env_id: str, given: Mapping[str, Any], search: Mapping[str, Any] | None, seeds: int, pool: str
    ) -> Self:
        base = TrainConfig.for_env(env_id, **given)
        if base.strategy.startswith(LEARNER):
            raise ValueError(f"strategy {base.strategy!r} learns by gradients: tune searches for settings of evolution")
        with closing(make_env(es_envs.definition(env_id), base)) as env:
            spaces = env.observation_space, env.action_space
        base = settled(make_policy(base, *spaces))
        if base.eval_every == 0:
            raise ValueError("tune compares evaluations of the centre: eval_every must be at least 1, got 0")
        wanted = search or usual_search(base, given)
        for name in wanted:
            if name in given:
                raise ValueError(f"{name} is both searched for and set, to {given[name]!r}: leave out one of the two")
        domains = {name: domain(base, name, values) for name, values in wanted.items()}
        plan = cls(env_id, dict(given), spaces, base, domains, seeds, pool)
        for name, each in domains.items():
            for value in each.values if isinstance(each, Choice) else ():
                try:
                    require_strategy(plan.config({**given, name: value}))
                except ArgumentError:  # a misspelt name
                    raise
                except ValueError:  # which may fit to other values than the base's
                    continue
        return plan

    def config(self, fields: Mapping[str, Any]) -> TrainConfig:
        """The config, decided, of a run with these fields.

        Raises:
            ValueError: they do not fit together.
        """
        config = TrainConfig.for_env(self.env_id, **fields)
        return replace(settled(make_policy(config, *self.spaces)), decided=())

    @property
    def asked(self) -> dict[str, Any]:
        """Everything that identifies this search, as JSON."""
        settings = {f"setting {name}": value for name, value in self.base.to_json().items() if name != "env_id"}
        domains = {f"search {name}": lists(list(asdict(domain).values())) for name, domain in self.domains.items()}
        own = {"environment": self.env_id, "seeds": self.seeds, "pool": self.pool, "given": sorted(self.given)}
        return {**own, **domains, **settings}

    @property
    def name(self) -> str:
        digest = hashlib.sha256(json.dumps(self.asked, sort_keys=True).encode()).hexdigest()
        return f"{file_name(self.env_id)}-{digest[:8]}"

    def fields(self, settings: Mapping[str, Any], seed: int) -> dict[str, Any]:
        """Fields of TrainConfig for a run with these searched settings.

        Raises:
            ValueError: they do not fit together.
        """
        chosen = {**self.given, **settings, "seed": seed}
        config = self.config(chosen)
        ratio = _candidate_episodes(self.base) / _candidate_episodes(config)
        if ratio == 1 or any(each.steps_per_generation is not None for each in (self.base, config)):
            return chosen
        return chosen | {
            name: max(1, round(getattr(self.base, name) * ratio)) for name in ("generations", "eval_every")
        }


@dataclass
class _Play:
    """One trial in progress: its runs, one after the other, and its reports to Optuna."""

    plan: _Plan
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

    def __init__(self, play: _Play, trial: "optuna.Trial", config: TrainConfig, show: Callable[[], None]) -> None:
        self._play, self._trial, self._config, self._show = play, trial, config, show
        self._milestone = 0
        self._best: Standing | None = None
        self.score = RunScore(seed=config.seed, solved=False, fitness=-math.inf, steps=0)

    def __call__(self, stats: GenerationStats) -> bool:
        if stats.standing is not None and stats.standing.beats(self._best):
            self._best = stats.standing
        if stats.final is not None:
            self._best = Standing.of(stats.final, solved=stats.solved)
        if self._best is not None:
            self.score = replace(self.score, solved=self._best.solved, fitness=self._best.mean)
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
            self._trial.report(step + _value([*play.runs, self.score]) / (seeds + 1), step)
            if step < seeds * _MILESTONES and self._trial.should_prune():
                play.pruned = True
                return False
        return time.monotonic() < play.deadline


def _value(runs: Sequence[RunScore]) -> float:
    """Number of solved runs, plus a fraction from 0 to 1 for the mean steps if all are solved, else the mean fitness.

    Only the order matters, for both sampler and pruner.
    """
    solved = sum(run.solved for run in runs)
    measure = -fmean(run.steps for run in runs) if solved == len(runs) else fmean(run.fitness for run in runs)
    return solved + 0.5 + math.copysign(math.log1p(abs(measure)), measure) / 1500  # log1p stays below 710


def _next_trial(study: "optuna.Study", plan: _Plan, done: Sequence[Trial], play: _Play) -> Trial | None:
    """Sample settings, play them, and record the result; None if time was up before that.

    Raises:
        RolloutError: an episode failed before any trial was complete: the settings are not the cause.
    """
    import optuna

    index = len(done)
    # A new sampler for each trial, so that nothing about randomness has to be stored.
    study.sampler = optuna.samplers.TPESampler(seed=derive(plan.base.seed, Purpose.TUNING, index) % 2**32)
    if index == 0 and not study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.WAITING]):
        begin = [domain.fixed(name, getattr(plan.base, name)) for name, domain in plan.domains.items()]
        study.enqueue_trial({name: value for part in begin for name, value in part.items()})
    asked = study.ask()
    settings = {name: domain.draw(asked, name) for name, domain in plan.domains.items()}
    state, reason = "complete", ""
    try:
        if not play(asked, settings):
            return None
        if play.pruned:
            state, reason = "pruned", f"below the median after {percent(play.share)} of its runs"
    except (ValueError, TypeError, RolloutError) as error:
        if isinstance(error, RolloutError) and _best(done) is None:
            raise
        state, reason = "failed", str(error) or repr(error)
    trial = Trial(number=index, state=state, settings=lists(settings), runs=tuple(play.runs), reason=reason)
    asked.set_user_attr("trial", asdict(trial))
    _end_trial(study, asked.number, trial)
    return trial


def _end_trial(study: "optuna.Study", number: int, trial: Trial | None) -> None:
    """End a trial of the study: with its recorded result, or as failed if it was interrupted before that."""
    from optuna.trial import TrialState

    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
    if trial is None:
        study.tell(number, state=TrialState.FAIL)
    else:
        study.tell(number, trial.value if trial.state == "complete" else None, state=states[trial.state])


@contextmanager
def _opened(folder: Path, plan: _Plan) -> Iterator["optuna.Study"]:
    """Open the study in ``folder``, new or continued, and lock it.

    Raises:
        ValueError: the folder contains another search.
        FileExistsError: the folder is not empty, but contains no search.
        CheckpointError: a link leads out of the folder.
        RuntimeError: another process is searching there, or the file is damaged.
    """
    import optuna
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    file = folder / "study.db"
    if folder.exists() and not (folder.is_dir() and (file.exists() or not any(folder.iterdir()))):
        raise FileExistsError(f"{folder} exists, but contains no search: choose another folder (--dir)")
    folder.mkdir(parents=True, exist_ok=True)
    require_plain(folder)
    try:
        lock = hold(folder / ".lock")
    except Timeout:
        raise RuntimeError(f"another process is searching in {folder}") from None
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    with lock:
        try:
            url = URL.create("sqlite", database=str(file)).render_as_string()
            storage = optuna.storages.RDBStorage(url)
            study = optuna.create_study(
                storage=storage,
                study_name="tune",
                direction="maximize",
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_UNPRUNED),
                load_if_exists=True,
            )
            _require_same(folder, study, plan)
            for trial in study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
                _end_trial(study, trial.number, _written(trial))  # it was interrupted
            yield study
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            raise RuntimeError(f"{file} cannot be read or written: {error}") from error
        finally:
            if storage is not None:
                storage.remove_session()
                storage.engine.dispose()
            optuna.logging.set_verbosity(verbosity)


def _require_same(folder: Path, study: "optuna.Study", plan: _Plan) -> None:
    then, now = study.user_attrs.get("asked"), plan.asked
    if then is None:
        study.set_user_attr("asked", now)
    elif then != now:
        names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        changes = "; ".join(f"{name}: {_shown(then, name)} there, {_shown(now, name)} here" for name in names)
        raise ValueError(f"{folder} contains another search ({changes}): choose another folder (--dir)")


def _shown(asked: Mapping[str, Any], name: str) -> str:
    return json.dumps(asked[name]) if name in asked else "nothing"


def _trials(study: "optuna.Study") -> list[Trial]:
    """Trials that were played to their end, pruned or refused."""
    written = map(_written, study.get_trials(deepcopy=False))
    return [trial for trial in written if trial is not None]


def _written(trial: "optuna.trial.FrozenTrial") -> Trial | None:
    return Trial.from_json(trial.user_attrs["trial"]) if "trial" in trial.user_attrs else None


def _best(trials: Sequence[Trial]) -> Trial | None:
    complete = [trial for trial in trials if trial.state == "complete"]
    return max(complete, key=lambda trial: trial.value, default=None)


def _keep_best(folder: Path, trials: Sequence[Trial]) -> None:
    """Delete the runs of all other trials.

    Raises:
        CheckpointError: a link leads out of the folder.
    """
    require_plain(folder)
    best = _best(trials)
    for runs in (folder / "trials").glob("*"):
        if best is None or runs.name != f"{best.number:04d}":
            remove(runs)


def _hopeless(trials: Sequence[Trial]) -> bool:
    return len(trials) >= _HOPELESS and all(trial.state == "failed" for trial in trials)


def _result(folder: Path, plan: _Plan, trials: Sequence[Trial]) -> Tuning:
    best = _best(trials)
    if best is None and trials:
        raise RuntimeError(
            f"none of {len(trials)} trials could be run; the last one: {trials[-1].reason}\n"
            f"To start again when that is fixed, delete {folder}."
        )
    if best is None:
        raise RuntimeError("time was up before the first trial was complete: the same command repeats it")
    score = max(best.runs, key=lambda run: _value([run]))
    run = Run.open(folder / "trials" / f"{best.number:04d}" / f"seed-{score.seed}", trust=True)
    settings = _shortest(plan, best, run)
    return Tuning(directory=folder, trials=tuple(trials), seeds=plan.seeds, best=best, run=run, settings=settings)


def _shortest(plan: _Plan, best: Trial, run: Run) -> dict[str, Any]:
    """The fewest fields that make the run's config, without those that have these values anyway."""
    chosen = [*plan.fields(best.settings, run.config.seed)]
    if plan.pool != "local":  # it measures what is fastest, and may choose differently another time
        chosen += ["engine", "device"]
    fields = {name: getattr(run.config, name) for name in chosen}
    config = plan.config(fields)
    for name in chosen:
        fewer = {kept: value for kept, value in fields.items() if kept != name}
        try:
            if plan.config(fewer) == config:
                fields = fewer
        except ValueError:  # the other fields need it
            continue
    return fields


def _candidate_episodes(config: TrainConfig) -> int:
    return config.population_size * config.episodes_per_candidate


def _outcome(trial: Trial) -> str:
    if trial.state != "complete":
        return f"{trial.state}, {trial.reason.splitlines()[0]}"
    steps = figures(round(trial.steps))
    return f"fitness {figures(trial.fitness)}, {trial.solved} of {len(trial.runs)} solved, {steps} steps"


def _listed(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={text_of(value)}" for name, value in settings.items())


def _require_optuna() -> None:
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ImportError("tune searches with Optuna, which is not installed: pip install 'es-envs[tune]'") from error
