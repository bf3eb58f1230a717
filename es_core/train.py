"""Train: one call that evolves a policy, and the whole path of a generation from top to bottom."""

import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import es_envs
from es_core.budget import evaluation_episodes
from es_core.callables import resolved
from es_core.checkpoint import Checkpoint, parameter_hash
from es_core.checks import require_seconds
from es_core.commands import run_command
from es_core.config import BOUNDS, OBJECTS, TrainConfig, require_bits, unknown_field
from es_core.display import Display, prepare_policy
from es_core.files import CheckpointError
from es_core.loggers import Lifecycle
from es_core.policies.engines import require_device
from es_core.pools import STEP_TIMEOUT, Results, RolloutPool, make_pool, require_pool
from es_core.pools.forker import started_early
from es_core.rebuild import restore
from es_core.rollout import Failure, RolloutError
from es_core.run import DIAGNOSTICS, GenerationStats, Run, lock
from es_core.scoring import Evaluation, aggregated
from es_core.search import Search
from es_core.seeding import Purpose, episode_seeds
from es_core.shaping import SIGN_SHAPINGS
from es_core.significance import lower_bound
from es_core.strategies import Population, require_strategy
from es_core.trust import require_trusted
from es_envs.fitness import Episode

_ERROR = 0.05  # probability at most that a run is called solved whose centre never reaches the goal
_MOST_LOOKS = 10


def train(
    env: str | TrainConfig | Callable[..., gymnasium.Env[Any, Any]],
    *,
    run_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    pool: str = "local",
    ray_address: str | None = None,
    initial: str | os.PathLike[str] | Checkpoint | None = None,
    resume: bool = False,
    changed_code: bool = False,
    max_seconds: float | None = None,
    step_timeout: float = STEP_TIMEOUT,
    recycle_after: int | None = None,
    progress: bool = True,
    loggers: Iterable[object] = (),
    on_generation: Callable[[GenerationStats], bool | None] | None = None,
    **config_fields: Any,
) -> Run:
    """Evolve a policy.

    A run that was interrupted, killed or cut off can be resumed, and ends as if nothing had happened: after an
    exception (Ctrl-C, too) with the generation it was in, after ``kill -9`` with its latest checkpoint. No signal
    handler is installed here; the command ``es-envs`` treats SIGTERM as it does Ctrl-C.

    A worker process that dies or hangs is replaced, with a warning, and what it was playing is played again: the result
    is that of an undisturbed run. A candidate's episode that fails is played again in an environment made anew; should
    it fail there, too, the config's ``on_candidate_error`` says what happens.

    Args:
        env: id of an environment, whose recommended settings then apply; or a complete TrainConfig; or a class or
            function that makes an environment.
        run_dir: folder of the run; None: runs/ID/DATE-TIME-sSEED.
        workers: processes; None: the usable cores (of a cluster: its CPUs). The result does not depend on it.
        pool: who steps environments and computes policies: "local" (worker processes, each its own candidates), "ray"
            (as local, on the nodes of a Ray cluster) or "vector" (one vector environment, with a candidate in each of
            its ``vector_envs`` copies, and one forward pass in torch for all of them).
        ray_address: of that cluster, "auto" or "HOST:PORT"; None: what RAY_ADDRESS names, or this machine alone.
        initial: a checkpoint whose parameters (and observation statistics) to start from.
        resume: continue the run in ``run_dir``.
        changed_code: the code of environment, fitness or policy, given as objects, may be another than the run's.
        max_seconds: stop after the generation in which so much time has passed; ``resume`` continues.
        step_timeout: seconds that a step or reset of the environment may take ; a worker in which it takes longer is
            ended and replaced.
        recycle_after: episodes, after which a worker is replaced between two generations: for simulators that leak.
        progress: show a progress bar (plain lines where the output is no terminal).
        loggers: further implementations of the lifecycle hooks, or their names.
        on_generation: called after each generation's metrics are written; returning False stops the run.
        **config_fields: fields of TrainConfig. ``fitness`` may also be a function or class, ``policy`` a class of
            torch modules. What a script or notebook defines goes to local workers as a copy of what it is now, and the
            config has its name and a hash of its code.

    Returns:
        The run: its folder, history, checkpoints.

    Raises:
        UnknownEnvError: nobody knows the environment.
        ValueError, TypeError: a setting that cannot be; nothing is left behind.
        FileExistsError: ``run_dir`` has something in it, and ``resume`` is not set.
        OSError: the run folder cannot be written; the last checkpoint is intact.
        RuntimeError: another process is training in ``run_dir``.
        ImportError: Ray is not installed, for the ray pool.
        ConnectionError: there is no Ray cluster at the address, it is of another version, or none of its nodes plays.
        RolloutError: an episode failed for good, or a worker could not start; the last checkpoint is intact.
        FloatingPointError: the parameters have grown beyond all numbers; the last finite ones are kept.
    """
    require_pool(pool, ray_address)
    if changed_code and not resume:
        raise ValueError("changed_code is for resume=True: a new run begins with the code that it is given")
    if max_seconds is not None:
        require_seconds("max_seconds", max_seconds)
    deadline = math.inf if max_seconds is None else time.monotonic() + max_seconds
    if resume and initial is not None:
        raise ValueError("initial is where a new run starts; a resumed one continues from its own checkpoint")
    lifecycle = Lifecycle(loggers)

    def carry_out(run: Run) -> None:
        definition = es_envs.definition(run.config.env_id)
        with started_early(wanted=pool == "local"):
            prepare_policy(run.config, shown=progress)
            how: Any = {"workers": workers, "step_timeout": step_timeout, "recycle_after": recycle_after}
            with make_pool(pool, definition, run.config, ray_address=ray_address, **how) as rollout_pool:
                _settle(run, rollout_pool)
                search = Search.resume(run, rollout_pool) if resume else Search.begin(run, rollout_pool)
                lifecycle.tell("run_started", run=run, config=run.config)
                try:
                    with Display(run, rollout_pool.choice) if progress else nullcontext() as display:
                        _evolve(run, search, rollout_pool, lifecycle, display, on_generation, deadline)
                finally:
                    lifecycle.tell("run_finished", run=run)

    if resume:
        if run_dir is None:
            raise ValueError("resume=True needs run_dir, the folder of the run to continue")
        with lock(run_dir):
            run = _reopen(env, run_dir, config_fields, changed_code=changed_code)
            restore(run)
            if run.finished:
                run.write_config(run.config)  # a bound that has grown does not matter any more, but counts as set
            else:
                carry_out(run)
        return run
    config = resolved(env, config_fields)
    require_device(config, pool)
    require_strategy(config)
    source = initial if initial is None or isinstance(initial, Checkpoint) else Checkpoint.load(initial)
    run = Run.create(run_dir, config, source)
    try:
        with lock(run.directory):
            carry_out(run)
    except BaseException:
        if not run.history and not run.checkpoint_generations():
            run.discard()  # nothing was learnt: leave no empty folder behind
        raise
    return run


def _evolve(
    run: Run,
    search: Search,
    pool: RolloutPool,
    lifecycle: Lifecycle,
    display: Display | None,
    on_generation: Callable[[GenerationStats], bool | None] | None,
    deadline: float,
) -> None:
    """Run generations until the task is solved, a bound or the deadline reached, or ``on_generation`` says stop."""
    config, strategy = run.config, search.strategy
    with _repeatable(run, search, pool) as begin:
        while True:
            before = begin()
            started = time.perf_counter()
            replaced, retried = pool.workers_replaced, pool.retried
            generation, centre = strategy.generation, strategy.mean
            last = search.at_end(config)
            due = config.eval_every > 0 and (last or generation % config.eval_every == 0)
            centre_episodes = evaluation_episodes(config, strategy.population_size) if due else 0
            centre_seeds = _seeds(config, Purpose.EVALUATION, centre_episodes, generation)
            if last:
                results = None
                centre_results = pool.rollouts(centre, search.statistics, centre_seeds)
            else:
                population = search.population()
                training_seeds = _training_seeds(config, len(population), generation)
                results = pool.evaluate(population, training_seeds, centre_seeds=centre_seeds)
                centre_results = results.centre
            evaluation = Evaluation.from_episodes(centre_results) if due else None
            confirmation, solved = _confirm(run, search, before, pool, evaluation)

            episode_cap = None if last else search.episode_cap
            diagnostics: dict[str, Any] = dict.fromkeys(DIAGNOSTICS)
            fitness = None if results is None else _told(config, results)
            told, matches = None, []
            if results is not None and fitness is not None and not solved:
                matches = _choose_elite(config, search, pool, population, fitness)
                told = search.told(config, fitness, results)
                search.move_on(told)
                diagnostics = {name: _finite(strategy.diagnostics.get(name)) for name in DIAGNOSTICS}
            finished = last or solved
            final = _final(run, pool) if finished else None
            evaluation_steps = sum(score.steps for score in (evaluation, confirmation, final) if score is not None)
            steps = sum(episode.length for episode in matches) + (results.steps if results is not None else 0)
            search.total_steps += evaluation_steps + steps
            search.total_episodes += len(matches) + (results.lengths[results.valid].size if results is not None else 0)
            stats = GenerationStats(
                generation=generation,
                **_population_stats(results, fitness if strategy.mirrored else None),
                **diagnostics,
                steps=steps,
                episode_cap=episode_cap,
                evaluation_steps=evaluation_steps,
                total_steps=search.total_steps,
                total_episodes=search.total_episodes,
                workers_replaced=pool.workers_replaced - replaced,
                retried=pool.retried - retried,
                failed_candidates=_failed(run, before, results),
                evaluation=evaluation,
                confirmation=confirmation,
                final=final,
                solved=solved,
                parameter_hash=parameter_hash(centre),
                next_hash=None if last or solved else parameter_hash(strategy.mean),
                seconds=time.perf_counter() - started,
            )
            if finished:  # first, since the line says that nothing is left to do
                run.keep(before)
            run.append(stats, told)
            stopped = (on_generation is not None and on_generation(stats) is False) or time.monotonic() >= deadline
            measured = None if results is None else results.fitness.copy()
            lifecycle.tell("generation_finished", run=run, stats=stats, fitness=measured)
            if display is not None:
                display.show(stats)
            if not finished and (stopped or strategy.generation % config.checkpoint_every == 0):
                run.keep(search.checkpoint(run, pool))
            if finished or stopped:
                return


@contextmanager
def _repeatable(run: Run, search: Search, pool: RolloutPool) -> Iterator[Callable[[], Checkpoint]]:
    """Whatever interrupts a generation, or fails in it: it can be run again, and the error says how.

    Yields:
        What begins a generation: a function that returns its checkpoint, which is kept if that generation does not end.
    """
    before = search.checkpoint(run, pool)

    def begin() -> Checkpoint:
        nonlocal before
        before = search.checkpoint(run, pool)
        return before

    try:
        yield begin
    except BaseException as error:
        if before.generation < len(run.history) == search.strategy.generation:  # between two generations
            begin()
        with suppress(OSError):  # the disk itself is in trouble: an older one has to do
            run.keep(before)
        if isinstance(error, FloatingPointError):  # to resume would lead to the same end
            error.add_note(f"The last parameters that are finite: {run.checkpoint_path(before.generation)}")
        elif run.next_generation is not None and not run.finished:
            lost = "Nothing is lost" if run.next_generation == before.generation else "The last checkpoint is intact"
            error.add_note(f"{lost}: `{_command('resume', run)}` runs generation {run.next_generation} again.")
        if isinstance(error, RolloutError) and error.failure is not None:
            error.add_note(f"To see that episode fail: {_replay_command(run, before.generation, error.failure)}")
        raise


def _confirm(
    run: Run, search: Search, before: Checkpoint, pool: RolloutPool, evaluation: Evaluation | None
) -> tuple[Evaluation | None, bool]:
    """Score a centre that looks solved, or better than the best so far, on a second set of starts.

    The first score chose it, and so is too good on average; the second is so, too, as soon as it chooses among several
    (see ``_look``, ``_final``).
    """
    if evaluation is None:
        return None, False
    config = run.config
    look = _look(run, before.generation) if _reaches(config, evaluation) else None
    if look is None and search.best is not None and evaluation.mean <= search.best[1]:
        return None, False
    seeds = _seeds(config, Purpose.CONFIRMATION, config.confirm_episodes, before.generation)
    episodes = pool.rollouts(before.mean, before.statistics, seeds)
    confirmation = Evaluation.from_episodes(episodes)
    solved = False
    if look is not None and config.solved_at is not None and _reaches(config, confirmation):
        bound = lower_bound([episode.fitness for episode in episodes], _ERROR / (look * (look + 1)))
        solved = bound >= config.solved_at
    if search.best is None or (solved, confirmation.mean) > search.best:
        search.best = (solved, confirmation.mean)
        before.save(run.best_path)
    return confirmation, solved


def _reaches(config: TrainConfig, score: Evaluation | None) -> bool:
    if score is None or config.solved_at is None:
        return False
    return score.mean >= config.solved_at and score.success_rate in {None, 1.0}


def _look(run: Run, generation: int) -> int | None:
    """Which look this is at a centre that seems to solve the task, from 1; None: the next one is not due yet.

    Looks are at least 1, 2, 4, 8, ... generations apart, and ten at most: who looks at chance often enough sees what he
    wants to see. So each look may err with a smaller probability, error / (k (k + 1)) at look k, which never sums to
    more than the error.
    """
    looks, due = 0, 0
    for stats in run.history:
        if stats.generation >= due and _reaches(run.config, stats.evaluation):
            looks, due = looks + 1, stats.generation + 2**looks
    return looks + 1 if generation >= due and looks < _MOST_LOOKS else None


def _final(run: Run, pool: RolloutPool) -> Evaluation | None:
    """The best centre's score on starts that no decision has seen; None if no centre was evaluated, or it is lost."""
    try:
        best = run.best
    except CheckpointError:  # which cannot be rebuilt here, on another kind of processor, say: resume has warned
        return None
    if best is None:
        return None
    seeds = _seeds(run.config, Purpose.FINAL, run.config.confirm_episodes, 0)
    return Evaluation.from_episodes(pool.rollouts(best.mean, best.statistics, seeds))


def _failed(run: Run, before: Checkpoint, results: Results | None) -> list[dict[str, int | str | None]]:
    """Candidates that have failed, for the metrics; the checkpoint from which they can be played again is kept."""
    if results is None or not results.failures:
        return []
    run.keep(before)
    failed = [
        {**asdict(failure), "command": _replay_command(run, before.generation, failure)} for failure in results.failures
    ]
    warnings.warn(
        f"{len(failed)} of {len(results.valid)} candidates of generation {before.generation} have failed. Candidate "
        "{candidate}, for one, with episode seed {seed}: {kind}: {message}; to see it: {command}".format(**failed[0]),
        RuntimeWarning,
        stacklevel=2,
    )
    return failed


def _told(config: TrainConfig, results: Results) -> NDArray[np.float64]:
    """What the strategy is told of each candidate: its fitness ``(N,)``, NaN if it is dropped.

    A candidate that has failed has none, or the worst of the others', as ``on_candidate_error`` says; shapings by rank
    then see a tie.

    Instead of the fitness it may be the return without the survival bonus of each step (Mania et al. 2018, section
    4.2), or the sum of the rewards' signs (``return_proc_mode`` of the released code of Salimans et al. 2017).
    """
    told, valid = results.fitness.copy(), results.valid
    values: NDArray[np.float64] | None = None
    if config.shaping in SIGN_SHAPINGS:
        values = results.fitnesses["sign_return"]
    elif config.survival_bonus > 0:
        values = results.fitnesses["episode_return"] - config.survival_bonus * results.lengths
    if values is not None:
        told[valid] = aggregated(values[valid], config.fitness_aggregation)
    if config.on_candidate_error == "worst":
        told[~valid] = told[valid].min()
    return told


def _choose_elite(
    config: TrainConfig, search: Search, pool: RolloutPool, population: Population, fitness: NDArray[np.float64]
) -> list[Episode]:
    """Let additional episodes decide which of a strategy's contenders is told to be the best, and return them.

    Such et al. 2017, algorithm 1. The winner's ``fitness`` is raised just above all others', and so is in the log.
    """
    contenders, episodes = search.strategy.contenders(fitness), search.strategy.elite_episodes
    if not contenders:
        return []
    seeds = _seeds(config, Purpose.ELITE, episodes, population.generation)
    matches = [pool.rollouts(population.candidate(index), search.statistics, seeds) for index in contenders]
    scores = [[episode.fitness - config.survival_bonus * episode.length for episode in match] for match in matches]
    winner = contenders[int(np.argmax(aggregated(np.array(scores), config.fitness_aggregation)))]
    fitness[winner] = np.nextafter(np.nanmax(fitness), np.inf)
    return [episode for match in matches for episode in match]


def _population_stats(results: Results | None, told_pairs: NDArray[np.float64] | None) -> dict[str, Any]:
    if results is None:
        names = ("mean", "median", "max", "min", "std")
        unknown = ("population_size", "episode_length", "tied_pairs", "capped_episodes")
        return {f"fitness_{name}": None for name in names} | dict.fromkeys(unknown) | {"fitnesses": {}}
    valid = results.valid
    fitness = results.fitness[valid]
    measures: dict[str, Callable[..., Any]] = {
        "mean": np.mean,
        "median": np.median,
        "max": np.max,
        "min": np.min,
        "std": np.std,
    }
    named = {name: float(values[valid].mean()) for name, values in results.fitnesses.items()}
    return {f"fitness_{name}": float(measure(fitness)) for name, measure in measures.items()} | {
        "fitnesses": {name: None if math.isnan(value) else value for name, value in named.items()},
        "population_size": len(valid),
        "episode_length": float(results.lengths[valid].mean()),
        "tied_pairs": _tied(told_pairs) if told_pairs is not None else None,
        "capped_episodes": float(results.capped[valid].mean()),
    }


def _tied(told: NDArray[np.float64]) -> float:
    """The share of pairs whose two candidates are told to be equally good."""
    plus, minus = told[0::2], told[1::2]
    return float(np.mean((plus == minus)[~np.isnan(plus + minus)]))


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _command(verb: str, run: Run, **options: int) -> str:
    """A command about the run; who has trained it trusts what it names."""
    return run_command(verb, run.config, run.directory, trusted=True, **options)


def _replay_command(run: Run, generation: int, failure: Failure) -> str:
    candidate = {} if failure.candidate is None else {"candidate": failure.candidate}
    return _command("replay", run, generation=generation, **candidate, seed=failure.seed)


def _seeds(config: TrainConfig, purpose: Purpose, count: int, generation: int) -> tuple[int, ...]:
    return episode_seeds(config.seed, purpose, count, generation)


def _training_seeds(config: TrainConfig, candidates: int, generation: int) -> NDArray[np.int64]:
    """Seeds of the candidates' episodes: ``(k,)`` that they share, or ``(N, k)``."""
    shape: tuple[int, ...] = (config.episodes_per_candidate,)
    if config.episode_seeds == "independent":
        shape = (candidates, *shape)
    return np.reshape(_seeds(config, Purpose.TRAINING, math.prod(shape), generation), shape)


def _settle(run: Run, pool: RolloutPool) -> None:
    """Write down what the pool has settled: it changes bits, and a resumed run keeps it.

    Raises:
        ValueError: the run has begun with others.
    """
    begun = bool(run.checkpoint_generations())
    for name in ("engine", "device", "vector_envs", "vector_starts"):
        then, now = getattr(run.config, name), getattr(pool.config, name)
        if begun and then != now:
            raise ValueError(
                f"this run has {name}={then!r}, its pool would have {now!r}: it cannot be resumed with that"
            )
    if pool.config != run.config:
        run.write_config(pool.config)


def _reopen(
    env: str | TrainConfig | Callable[..., Any],
    run_dir: str | os.PathLike[str],
    config_fields: dict[str, Any],
    *,
    changed_code: bool,
) -> Run:
    """The run to resume; settings may be repeated, but none may differ, except that its bounds may grow."""
    given = {**(env.to_json() if isinstance(env, TrainConfig) else {}), **config_fields}
    objects: dict[str, Any] = {name: given.pop(name) for name in OBJECTS if callable(given.get(name))}
    if callable(env):
        objects["env"] = env
    elif not isinstance(env, TrainConfig):
        given["env_id"] = env
    run = Run.open(run_dir, trust=isinstance(env, TrainConfig), changed_code=changed_code, **objects)
    vouched = {*given, *("env_id" if name == "env" else name for name in objects)}
    stored = run.config.to_json()
    given.pop("bits", None)
    for name, left_open in (
        ("fitness", None),
        ("schedule_generations", None),
        ("engine", "auto"),
        ("device", "auto"),
        ("vector_envs", None),
        ("vector_starts", None),
    ):  # what the run settled when it began
        if given.get(name) == left_open:
            given.pop(name, None)
    bounds = {name: given.pop(name, getattr(run.config, name)) for name in BOUNDS}
    for name, value in given.items():
        if name not in stored:
            raise TypeError(unknown_field(name, set(stored)))
        wanted = replace(run.config, **{name: value}).to_json()[name]
        if wanted != stored[name]:
            raise ValueError(
                f"{name} cannot change in a resumed run: it was {stored[name]!r}, now {wanted!r}. Only "
                f"{', '.join(BOUNDS)} can, and only grow; a new run may begin with this one's policy (initial=... or, "
                f"on the command line, --initial {run.best_path})"
            )
    config = replace(run.config, **bounds)
    for name, now in bounds.items():
        then = getattr(run.config, name)
        if now is not None and (then is None or now < then):
            raise ValueError(f"{name} can only grow in a resumed run: it was {then}, now {now}")
    require_trusted(config, trust=run.trusted, vouched=vouched, where=run.directory / "config.json")
    run.config = config
    if not run.finished:
        require_bits(config, run.directory)
    return run
