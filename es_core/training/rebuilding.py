"""Rebuild: any generation of a run from its log, without playing an episode."""

import os
import warnings
from dataclasses import replace

from es_core.config.budgets import largest_population
from es_core.config.checks import require, whole
from es_core.config.train_config import require_bits
from es_core.config.trust import require_trusted
from es_core.files import CheckpointError, naming_errors
from es_core.policies.normalization import ObservationStatistics
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.runs.checkpoint import Checkpoint, parameter_hash
from es_core.runs.generation_log import GenerationLog
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.training.race import Race
from es_core.training.state import TrainingState


def rebuild(run: RunFolder | str | os.PathLike[str], generation: int, *, trust: bool = False) -> Checkpoint:
    """Rebuild the checkpoint before a generation of a run, the same to the bit.

    A run is a function of its config and of the fitness that its strategy learnt from, which is in metrics.jsonl. So
    this starts at the nearest earlier checkpoint, or at the initial parameters, and gives the strategy the logged
    fitness again, generation by generation. The environment is needed if there is no earlier checkpoint: it is made
    once for its spaces (and plays the reference batch of virtual batch normalisation).

    Args:
        run: a Run or its folder.
        generation: the generation; the centre of the last one is the run's result.
        trust: allow the run to name modules outside the installed plugins.

    Raises:
        FileNotFoundError: the run has not reached this generation.
        CheckpointError: a file is damaged, the log does not reproduce the run (the message names the generation), or
            another version wrote it.
        ValueError: a name is not trusted.
    """
    if not isinstance(run, RunFolder):
        run = RunFolder.open(run, trust=trust)
    elif trust:
        run = replace(run, trusted=True)
    require("generation", generation, whole(0))
    kept = run.checkpoint_generations()
    if generation in kept:
        return run.checkpoint_at(generation)
    if not 0 <= generation <= run.generation_reached:
        raise FileNotFoundError(
            f"{run.directory} has no generation {generation}: it reached generation {run.generation_reached}"
        )
    require_bits(run.config, run.directory)
    start = max((earlier for earlier in kept if earlier < generation), default=0)
    if start in kept:
        checkpoint = run.checkpoint_at(start)
        state = TrainingState.at(checkpoint, run.checkpoint_path(start))
        state.race = Race.of(run.plan, run.history[:start], contender=state.contender, search=state.search)
    else:
        definition = require_trusted(run.config, trust=run.trusted, where=run.directory / "config.json")
        with LocalPool(definition, run.config, PoolOptions(workers=1), most=1) as pool:
            state = TrainingState.first(run, pool)
            checkpoint = state.checkpoint(run, pool)
    if not state.trainer.rebuildable:
        raise CheckpointError(
            f"{run.directory} has no checkpoint of generation {generation}, and what {run.config.strategy} learns from "
            f"is in no log; there are checkpoints of generations {', '.join(map(str, kept)) or '(none)'}"
        )
    for stats, log in zip(run.history[start:generation], run.logs(start, generation), strict=True):
        state.take_turn(run)
        _require_hash(run, state, stats.generation, stats.parameter_hash)
        _replay(run, state, stats, log)
        _require_hash(run, state, stats.generation + 1, stats.next_hash)
    state.take_turn(run)
    return state.checkpoint(run, checkpoint)


def find_best(run: RunFolder) -> Checkpoint | None:
    """The best evaluated centre of a run, or None if none was evaluated.

    A file that is missing, or does not match the log, is rebuilt from the log, with a warning.

    Raises:
        CheckpointError: the file is damaged, or cannot be rebuilt.
    """
    checkpoint, score = run.stored_best, run.best_score
    if checkpoint is not None or score is None:
        return checkpoint
    warnings.warn(
        f"{run.best_path} is missing, or not the centre of generation {score[0]}, which is the best in "
        "metrics.jsonl: it is rebuilt from there (resume puts the file back)",
        RuntimeWarning,
        stacklevel=3,
    )
    return rebuild(run, score[0])


def restore(run: RunFolder) -> None:
    """Restore the folders and the checkpoint to resume from, where they are missing.

    The caller holds the folder's lock, and has checked that its names are trusted.

    Raises:
        CheckpointError: there is no checkpoint, and the log does not lead to one.
        OSError: a file cannot be written.
    """
    for name in ("checkpoints", "videos"):
        with naming_errors(run.directory / name):
            (run.directory / name).mkdir(exist_ok=True)
    if run.history and run.next_generation is None:
        rebuild(run, run.generation_reached, trust=True).save(run.checkpoint_path(run.generation_reached))


def restore_best(run: RunFolder) -> None:
    """Restore the best centre, where it is missing or not the log's; the caller has done the same as for ``restore``.

    A run whose bounds have grown has lost its last line, whose centre may be in the file: so this comes after that.

    Raises:
        OSError: the file cannot be written.
    """
    if run.best_score is not None and not run.holds_best:
        generation, _ = run.best_score
        try:
            if run.backup_is_best:
                run.backup_best_path.replace(run.best_path)
            else:
                rebuild(run, generation, trust=True).save(run.best_path)
        except CheckpointError as error:  # the run itself can go on
            warnings.warn(
                f"{run.best_path} is not the best centre, of generation {generation}, and cannot be restored: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _replay(run: RunFolder, state: TrainingState, stats: GenerationStats, log: GenerationLog | None) -> None:
    where = f"{run.directory / 'metrics.jsonl'}, line {stats.generation + 1}"
    if log is None:
        raise CheckpointError(f"{where} has no log: generation {stats.generation + 1} cannot be rebuilt from it")
    sums, before = log.statistics, state.statistics
    entries = before.total.shape if isinstance(before, ObservationStatistics) else None
    if (None if sums is None else sums.total.shape) != entries or (sums is not None and sums.squares.shape != entries):
        raise CheckpointError(f"{where}: its observations are not those of this run")
    if (log.population_size or 0) > largest_population(run.plan):
        raise CheckpointError(f"{where}: no population of this run has {log.population_size} candidates")
    try:
        state.learn(log)
    except (ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{where}: the strategy cannot learn from it: {error}") from error
    if stats.standing is not None and stats.standing.beats(state.best):
        state.best = stats.standing
    state.count(stats)


def _require_hash(run: RunFolder, state: TrainingState, generation: int, expected: str | None) -> None:
    found = parameter_hash(state.trainer.mean)
    if found != expected:
        raise CheckpointError(
            f"{run.directory}: the log does not reproduce the run: before generation {generation} the centre has hash "
            f"{found}, metrics.jsonl says {expected}. Another version of es-envs or NumPy, another kind of processor "
            "or a changed file may be the reason"
        )
