"""Rebuild: any generation of a run from its log, without playing an episode."""

import os
import warnings

from es_core.budget import largest_population
from es_core.checkpoint import Checkpoint, parameter_hash
from es_core.config import require_bits
from es_core.files import CheckpointError, explained
from es_core.normalizer import ObservationStatistics
from es_core.pools.local import LocalPool
from es_core.run import GenerationStats, Run
from es_core.search import Search
from es_core.told import Told
from es_core.trust import require_trusted


def rebuild(run: Run | str | os.PathLike[str], generation: int, *, trust: bool = False) -> Checkpoint:
    """The checkpoint that a run had in front of a generation, or would have had: the same to the bit.

    Everything else about a run is a function of its config and of what its strategy was told, which stands in
    metrics.jsonl. So this starts at the nearest checkpoint before, or at the initial parameters, and tells the strategy
    again, generation by generation. The environment is needed if there is no checkpoint before: it is made once, to be
    asked for its spaces (and plays the reference batch of virtual batch normalisation).

    Args:
        run: a Run or its folder.
        generation: which; the centre of the last one is the run's result.
        trust: the run may name modules outside the installed plugins.

    Raises:
        FileNotFoundError: the run has not come so far.
        CheckpointError: a file is damaged, the log leads elsewhere than the run went (it names the generation), or
            another version wrote it.
        ValueError: an untrusted name.
    """
    run = run if isinstance(run, Run) else Run.open(run, trust=trust)
    kept = run.checkpoint_generations()
    if generation in kept:
        return run.checkpoint_at(generation)
    if not 0 <= generation <= run.come_to:
        raise FileNotFoundError(
            f"{run.directory} has no generation {generation}: it has come to generation {run.come_to}"
        )
    require_bits(run.config, run.directory)
    start = max((earlier for earlier in kept if earlier < generation), default=0)
    if start in kept:
        checkpoint = run.checkpoint_at(start)
        search = Search.at(checkpoint, run.checkpoint_path(start))
    else:
        definition = require_trusted(run.config, trust=trust or run.trusted, where=run.directory / "config.json")
        with LocalPool(definition, run.config, workers=1, most=1) as pool:
            search = Search.first(run, pool)
            checkpoint = search.checkpoint(run, pool)
    for stats, told in zip(run.history[start:generation], run.told(start, generation), strict=True):
        _require_hash(run, search, stats.generation, stats.parameter_hash)
        _tell(run, search, stats, told)
        _require_hash(run, search, stats.generation + 1, stats.next_hash)
    return search.checkpoint(run, checkpoint)


def restore(run: Run) -> None:
    """Put back what a run needs to be resumed, and its best centre, where they are missing or not what the log says.

    The caller holds the folder's lock, and has required that its names are trusted.

    Raises:
        CheckpointError: there is no checkpoint, and the log does not lead to one.
        OSError: a file cannot be written.
    """
    for name in ("checkpoints", "videos"):
        with explained(run.directory / name):
            (run.directory / name).mkdir(exist_ok=True)
    if run.history and run.next_generation is None:
        rebuild(run, run.come_to, trust=True).save(run.checkpoint_path(run.come_to))
    if run.best_score is not None and not run.holds_best:
        generation, _ = run.best_score
        try:
            rebuild(run, generation, trust=True).save(run.best_path)
        except CheckpointError as error:  # the run itself can go on
            warnings.warn(
                f"{run.best_path} is not the best centre, of generation {generation}, and cannot be put back: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def _tell(run: Run, search: Search, stats: GenerationStats, told: Told | None) -> None:
    where = f"{run.directory / 'metrics.jsonl'}, line {stats.generation + 1}"
    if told is None:
        raise CheckpointError(f"{where} has no log: generation {stats.generation + 1} cannot be rebuilt from it")
    sums, before = told.statistics, search.statistics
    entries = before.total.shape if isinstance(before, ObservationStatistics) else None
    if (None if sums is None else sums.total.shape) != entries or (sums is not None and sums.squares.shape != entries):
        raise CheckpointError(f"{where}: its observations are not those of this run")
    if (told.population_size or 0) > largest_population(run.config):
        raise CheckpointError(f"{where}: no population of this run has {told.population_size} candidates")
    search.strategy.ask()
    try:
        search.move_on(told)
    except (ValueError, ArithmeticError) as error:
        raise CheckpointError(f"{where}: the strategy cannot be told that: {error}") from error
    if stats.confirmation is not None:
        score = stats.solved, stats.confirmation.mean
        search.best = score if search.best is None else max(search.best, score)
    search.total_steps, search.total_episodes = stats.total_steps, stats.total_episodes


def _require_hash(run: Run, search: Search, generation: int, expected: str | None) -> None:
    found = parameter_hash(search.strategy.mean)
    if found != expected:
        raise CheckpointError(
            f"{run.directory}: the log leads elsewhere than the run went: in front of generation {generation} the "
            f"centre has hash {found}, metrics.jsonl says {expected}. Another version of es-envs or NumPy, another "
            "kind of processor or a change of the files may be the reason"
        )
