"""The loop of generations: the whole path of a run, from top to bottom."""

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import step_limit
from es_core.config.commands import run_command
from es_core.config.plan import Plan
from es_core.policies.by_name import make_policy
from es_core.policies.defaults import advice_on_pictures
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.pools.pool import Results, RolloutPool
from es_core.processes.forker import started_early
from es_core.rollout.errors import RolloutError
from es_core.runs.checkpoint import Checkpoint, parameter_hash
from es_core.runs.failure import RunFailure
from es_core.runs.locks import LockLostError
from es_core.runs.metrics import DIAGNOSTICS, GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_core.training.confirmation import NOTHING, episodes_of_evaluation, first_episodes, score_centre
from es_core.training.lifecycle import Lifecycle
from es_core.training.progress import RunProgress, prepare_policy
from es_core.training.rebuilding import restore_best
from es_core.training.rules.rule import Evidence
from es_core.training.rules.rules import Changes
from es_core.training.selection import compared, learning_fitness
from es_core.training.state import TrainingState
from es_envs import Episode, interruption


def evolve(
    run: RunFolder,
    *,
    resume: bool,
    options: PoolOptions,
    lifecycle: Lifecycle,
    progress: bool,
    on_generation: Callable[[GenerationStats], bool | None] | None,
    deadline: float,
) -> None:
    """Run the generations of a run whose folder exists; for the arguments and errors see ``es_core.train``.

    Args:
        run: the run, new or to be resumed.
        resume: start at the run's latest checkpoint.
        options: of the rollout pool.
        lifecycle: hooks to call.
        progress: show the run's progress.
        on_generation: called with each generation's stats; returns False to stop the run.
        deadline: no generation begins after it [s, of the monotonic clock].
    """
    with started_early(wanted=options.pool == "local"):
        prepare_policy(run.config, run.definition if options.pool != "vector" else None, shown=progress)
        with make_pool(run.definition, run.config, options) as pool:
            notes = _write_choices(run, pool)
            state = (TrainingState.resume if resume else TrainingState.begin)(run, pool)
            if resume:
                restore_best(run)
            lifecycle.call("run_started", run=run, config=run.config)
            try:
                display = RunProgress(run, pool.choice, *notes, pool=pool) if progress else None
                with display or nullcontext() as shown:
                    _run_generations(run, state, pool, lifecycle, shown, on_generation, deadline)
            finally:
                lifecycle.call("run_finished", run=run)


def _run_generations(
    run: RunFolder,
    state: TrainingState,
    pool: RolloutPool,
    lifecycle: Lifecycle,
    progress: RunProgress | None,
    on_generation: Callable[[GenerationStats], bool | None] | None,
    deadline: float,
) -> None:
    """Run generations until the task is solved, a bound or the deadline reached, or ``on_generation`` stops it."""
    limit = step_limit(pool.definition, run.config)
    with _keeping_checkpoint(run, state, pool) as begin:
        while True:
            before, trainer, search, rules = begin(), state.trainer, state.search, state.rules
            config = pool.config
            started, replaced, retried = time.perf_counter(), pool.workers_replaced, pool.retried
            generation, ending = trainer.generation, state.ending(run)

            first = None if generation or ending else first_episodes(run, state, pool)
            results, centre_episodes = _play(run, state, pool, last=ending is not None)
            scores = score_centre(run, state, before, pool, results, centre_episodes, first)
            fitness = None if results is None else learning_fitness(config, results, stalled=rules.has_stalled)
            played = _population_stats(config, results, fitness)
            _warn_of_missing_fitness(run, generation, played["fitnesses"])

            log, matches, reason = None, [], ""
            if results is not None and fitness is not None and not scores.solved:
                matches = trainer.choose_elite(results.population, fitness, pool)
                evidence = _evidence(run, state, results, scores.evaluation, played, limit)
                # A trainer's generation may be over before an episode is.
                changes = rules.change(evidence) if results.valid.any() else Changes(rules=rules.states)
                log, reason = state.log(fitness, results, changes), changes.reason
                state.learn(log, results.transitions)
            measured = {} if log is None else trainer.diagnostics
            diagnostics: dict[str, Any] = {name: _finite(measured.get(name)) for name in DIAGNOSTICS}

            steps = sum(episode.length for episode in matches) + (results.steps if results is not None else 0)
            episodes = len(matches) + (results.lengths[results.valid].size if results is not None else 0)
            stats = GenerationStats(
                generation=generation,
                contender=state.contender,
                search=search,
                rules=dict(rules.states),
                **played,
                **diagnostics,
                **vars(scores),
                steps=steps,
                evaluation_steps=scores.steps,
                total_steps=state.total_steps + steps + scores.steps,
                total_episodes=state.total_episodes + episodes,
                workers_replaced=pool.workers_replaced - replaced,
                retried=pool.retried - retried,
                failed_candidates=_failed(run, before, results),
                end=None if scores.solved else ending,
                parameter_hash=before.parameter_hash,
                next_hash=None if log is None else parameter_hash(trainer.mean),
                seconds=time.perf_counter() - started,
            )
            turn = state.count(stats)
            finished = ending is not None or scores.solved
            if finished:  # before the line, which says that nothing is left to do
                run.save_checkpoint(before)
            run.append(stats, log if trainer.rebuildable else None)
            stopped = (on_generation is not None and _is_false(on_generation(stats))) or time.monotonic() >= deadline
            raw_fitness = results.fitness.copy() if results is not None and results.valid.any() else None
            lifecycle.call("generation_finished", run=run, stats=stats, fitness=raw_fitness)
            if progress is not None:
                progress.show(stats, reason or _announced(turn, run, state.race.contender))
            if not finished and (stopped or trainer.generation % config.checkpoint_every == 0):
                run.save_checkpoint(begin())
            if finished or stopped:
                return


@contextmanager
def _keeping_checkpoint(run: RunFolder, state: TrainingState, pool: RolloutPool) -> Iterator[Callable[[], Checkpoint]]:
    """Make sure that a generation which fails or is interrupted can be run again, and that the error says how.

    Yields:
        Function that begins a generation and returns its checkpoint, which is kept if the generation does not end.
    """
    before = state.checkpoint(run, pool)
    run.write_failure(None)

    def begin() -> Checkpoint:
        nonlocal before
        interruption.check()
        state.take_turn(run)
        pool.play_as(state.contender)
        before = state.checkpoint(run, pool)
        return before

    try:
        yield begin
    except LockLostError:
        raise
    except BaseException as error:
        interruption.settle()
        if before.generation < len(run.history) == state.trainer.generation:  # between two generations
            begin()
        with suppress(OSError, LockLostError):  # the disk itself is in trouble: an older one has to do
            run.save_checkpoint(before)
        if isinstance(error, Exception):
            with suppress(OSError):
                run.write_failure(RunFailure.of(error, before.generation))
        if isinstance(error, FloatingPointError):  # to resume would lead to the same end
            error.add_note(f"The last finite parameters: {run.checkpoint_path(before.generation)}")
        elif run.next_generation is not None and not run.finished:
            lost = "Nothing is lost" if run.next_generation == before.generation else "The last checkpoint is intact"
            error.add_note(f"{lost}: `{_command('resume', run)}` runs generation {run.next_generation} again.")
        if state.leader is not None:
            error.add_note(
                f"It happened to contender {state.contender}, which challenges the leader with "
                f"{dict(run.plan.settings_of(state.contender))}: a new run can do without it."
            )
        if isinstance(error, RolloutError) and error.failure is not None:
            if error.failure.candidate is not None and run.config.on_candidate_error == "raise":
                error.add_note(
                    "If it fails from some starts only, a new run can give such candidates the worst fitness: "
                    "on_candidate_error='worst' (on the command line: --on-candidate-error worst)."
                )
            replay = error.failure.replay(before.generation)
            error.add_note(f"To see that episode fail: {_command('replay', run, **replay)}")
        raise


def _play(
    run: RunFolder, state: TrainingState, pool: RolloutPool, *, last: bool
) -> tuple[Results | None, Sequence[Episode]]:
    """Play a generation: the episodes from which the trainer learns, unless it is the last one, and the centre's."""
    trainer, count = state.trainer, episodes_of_evaluation(run, state, last=last)
    centre_seeds = episode_seeds(run.config.seed, Purpose.EVALUATION, count, trainer.generation)
    if last:
        return None, pool.rollouts(trainer.mean, state.statistics, centre_seeds)
    results = trainer.play(pool, state.rules, state.statistics, centre_seeds)
    return results, results.centre


def _evidence(
    run: RunFolder,
    state: TrainingState,
    results: Results,
    evaluation: Evaluation | None,
    played: Mapping[str, Any],
    limit: int,
) -> Evidence:
    """The facts that the rules read."""
    first = run.history[0] if run.history else None
    return Evidence(
        config=state.rules.search_config,
        history=state.search_history(run),
        fitness=results.fitness[results.valid],
        spread=played["fitness_std"],
        lengths=results.lengths[results.valid],
        centre=evaluation,
        nothing=first.baselines.get(NOTHING) if first is not None and first.generation == 0 else None,
        step_limit=limit,
        population=results.population,
        from_policy=run.initial_path.exists(),
    )


def _announced(turn: str, run: RunFolder, contender: int) -> str:
    """What changes in the race, with the settings of the contender that plays next."""
    own = run.plan.settings_of(contender)
    settings = ", ".join(f"{name}={value}" for name, value in own.items()) or "the run's own settings"
    return turn and f"{turn} ({settings})"


def _is_false(answer: object) -> bool:
    """Return True if it is False, or NumPy's, which a comparison of numbers may return."""
    return isinstance(answer, bool | np.bool_) and not answer


def _failed(run: RunFolder, before: Checkpoint, results: Results | None) -> list[dict[str, int | str | None]]:
    """Failed candidates, for the metrics; the checkpoint from which they can be played again is kept."""
    if results is None or not results.failures:
        return []
    run.save_checkpoint(before)
    failed = [
        {**asdict(failure), "command": _command("replay", run, **failure.replay(before.generation))}
        for failure in results.failures
    ]
    warnings.warn(
        f"{len(failed)} of {len(results.valid)} candidates of generation {before.generation} have failed. Candidate "
        "{candidate}, for example, with episode seed {seed}: {kind}: {message}; to see it: {command}".format(
            **failed[0]
        ),
        RuntimeWarning,
        stacklevel=2,
    )
    return failed


def _population_stats(config: Plan, results: Results | None, learnt: NDArray[np.float64] | None) -> dict[str, Any]:
    """Fitness and lengths of a population, for the metrics; ``learnt``: the fitness ``(N,)`` to learn from."""
    if results is None or learnt is None or not results.valid.any():
        spread = tuple(f"fitness_{name}" for name in ("mean", "median", "max", "min", "std"))
        unknown = dict.fromkeys((*spread, "episode_length", "tied_pairs", "capped_episodes"))
        return {**unknown, "population_size": None if results is None else len(results.valid), "fitnesses": {}}
    valid = results.valid
    fitness = results.fitness[valid]
    parts = [results.fitness[members] for members in compared(config, valid)]
    squares = sum(part.size * part.var() for part in parts if np.ptp(part))  # of equal values rounding is no spread
    named = {name: float(values[valid].mean()) for name, values in results.fitnesses.items()}
    return {
        "fitness_mean": float(fitness.mean() if np.ptp(fitness) else fitness[0]),
        "fitness_median": float(np.median(fitness)),
        "fitness_max": float(fitness.max()),
        "fitness_min": float(fitness.min()),
        "fitness_std": math.sqrt(squares / fitness.size) if fitness.size > 1 else None,  # a trainer may have one
        "fitnesses": {name: None if math.isnan(value) else value for name, value in named.items()},
        "population_size": len(valid),
        "episode_length": float(results.lengths[valid].mean()),
        "tied_pairs": _tied(results.population, learnt),
        "capped_episodes": float(results.capped[valid].mean()),
    }


def _warn_of_missing_fitness(run: RunFolder, generation: int, fitnesses: Mapping[str, float | None]) -> None:
    """Warn once of secondary fitnesses that fail: they end no run, and nobody would look for them in the metrics."""
    for name, value in fitnesses.items():
        if value is None and generation == 0:
            warnings.warn(
                f"{run.definition.label}: fitness {name!r} fails, and is left out of the metrics; selection does not "
                f"use it. `es-envs check {run.config.env_id}` says why",
                RuntimeWarning,
                stacklevel=2,
            )


def _tied(population: Population, fitness: NDArray[np.float64]) -> float | None:
    """Share of mirrored pairs whose two candidates have equal fitness; None if candidates are no such pairs."""
    noisy = np.flatnonzero(population.sign)  # not the mean itself
    plus, minus = noisy[0::2], noisy[1::2]
    if len(noisy) == 0 or len(noisy) % 2 or (population.sign[plus] == population.sign[minus]).any():
        return None
    is_tied = fitness[plus] == fitness[minus]
    return float(np.mean(is_tied[~np.isnan(fitness[plus] + fitness[minus])]))


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def _command(verb: str, run: RunFolder, **options: int) -> str:
    """Return a command about the run; the user who trained it trusts the names in it."""
    return run_command(verb, run.config, run.directory, trusted=True, **options)


def _write_choices(run: RunFolder, pool: RolloutPool) -> list[str]:
    """Write the pool's choices to config.json: they change bits, so a resumed run keeps them.

    Returns:
        What the run decided here, and why, in a line; and advice, if its policy is too large for its pictures.

    Raises:
        ValueError: the run began with other choices.
    """
    begun = bool(run.checkpoint_generations())
    for name in ("engine", "device", "vector_envs", "vector_starts"):
        then, now = getattr(run.config, name), getattr(pool.plan, name)
        if begun and then != now:
            raise ValueError(
                f"this run has {name}={then!r}, but its pool chooses {now!r}: it cannot be resumed with that"
            )
    run.write_config(pool.plan)
    if begun:
        return []
    policy = make_policy(run.config, pool.observation_space, pool.action_space)
    lines = {"chosen": pool.plan.why, "advice": advice_on_pictures(policy)}
    return [f"{kind}: {text}" for kind, text in lines.items() if text]
