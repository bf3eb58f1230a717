"""Evaluate: the score of an evolved policy on starts that its training never saw."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from es_core.config.checks import require_positive, whole
from es_core.config.choices import SCRIPTED
from es_core.config.strategy_defaults import is_trainer
from es_core.config.train_config import TrainConfig
from es_core.config.trust import require_trusted
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.repertoire import with_policy_of
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_core.training.progress import count_progress, prepare_policy
from es_core.training.rebuilding import find_best, rebuild
from es_core.training.state import TrainingState
from es_envs import EnvDefinition, Episode
from es_envs.spaces import is_same_space

Source = RunFolder | Checkpoint | str | os.PathLike[str]

_TOGETHER = 5  # episodes of each worker between two updates of the bar, which wait for the last of them


def evaluate(
    source: Source,
    *,
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
) -> Evaluation:
    """Score a policy on unseen starts, without action noise.

    Args:
        source: a Run or its folder (its best evaluated centre, or its latest checkpoint if none was evaluated), a
            checkpoint file, or a Checkpoint.
        episodes: number of episodes.
        seed: seed of the starts; episode k is the one that ``record(seed=seed)`` films.
        generation: score a Run's centre of this generation instead; it is rebuilt from the log if it has no checkpoint.
        candidate: score this candidate of the population around that centre instead.
        cell: score the policy of this cell of a Run's latest repertoire instead, or of that of ``generation``. On
            unseen starts it usually scores less than the fitness with which it was found, since luck has chosen it.
        env_kwargs: keyword arguments of the environment that are others than in training.
        fitness: name of the fitness that scores, of which the result's mean and interval are; None: the run's own.
            ``Evaluation.fitnesses`` has those of the environment in any case.
        workers: number of processes; None: the usable cores.
        trust: allow the source to name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Raises:
        ValueError: episodes is not positive, there is no such candidate or fitness, the cell is empty, or a name is not
            trusted.
        FileNotFoundError: there is no such run, checkpoint or generation.
        CheckpointError: the checkpoint or the log is damaged.
        RolloutError: an episode failed.

    Examples:
        >>> from es_core import Checkpoint, evaluate
        >>> evaluate(run).mean  # of the run that ``train`` returned, or of its folder
        500.0
        >>> print(evaluate(Checkpoint.pretrained("CartPoleBullet-v0"), episodes=20))
        500.00 (all 20 alike) over 20 episodes
    """
    require_positive("episodes", episodes)
    checkpoint, definition = find_policy(
        source, generation=generation, candidate=candidate, cell=cell, env_kwargs=env_kwargs, trust=trust
    )
    if fitness is not None:
        # In a config of its own: other settings of the run, such as a survival bonus, may fit to its own fitness alone.
        named = TrainConfig(env_id=checkpoint.config.env_id, fitness=fitness).resolved(definition).fitness
        checkpoint = replace(checkpoint, config=replace(checkpoint.config, fitness=named))
    prepare_policy(checkpoint.config, definition, shown=progress)
    with (
        LocalPool(definition, checkpoint.config, PoolOptions(workers=workers), most=episodes) as pool,
        count_progress(shown=progress) as bar,
    ):
        require_same_spaces(checkpoint, pool)
        seeds = episode_seeds(seed, Purpose.TEST, episodes)
        together = episodes if bar.disable else _TOGETHER * pool.workers
        played: list[Episode] = []
        task = bar.add_task("episodes", total=episodes)
        while len(played) < episodes:
            part = seeds[len(played) : len(played) + together]
            played += pool.rollouts(checkpoint.mean, checkpoint.statistics, part)
            bar.update(task, completed=len(played))
        return Evaluation.from_episodes(played)


def find_policy(
    source: Source,
    *,
    generation: int | None,
    candidate: int | None = None,
    cell: Sequence[int] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    latest: bool = False,
    trust: bool,
) -> tuple[Checkpoint, EnvDefinition]:
    """Find the checkpoint that ``source`` stands for, and the definition of its environment.

    With ``candidate`` or ``cell``, its mean is the parameters of that candidate, or of that cell of its repertoire;
    with ``env_kwargs``, its environment has them, too; ``latest`` prefers a run's latest checkpoint to its best.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: a name is not trusted, a generation is given for a single checkpoint, or there is no such candidate
            or cell.
        CheckpointError: the checkpoint is damaged, or cannot be rebuilt.
    """
    if candidate is not None and cell is not None:
        raise ValueError("candidate and cell name two policies: give one of them")
    checkpoint = find_checkpoint(source, generation=generation, trust=trust, latest=latest or cell is not None)
    definition = require_trusted(checkpoint.config, trust=checkpoint.trusted, where=checkpoint.where)
    if candidate is not None:
        population = population_of(checkpoint)
        require_candidate(population, candidate)
        checkpoint = replace(checkpoint, mean=population.candidate(candidate))
    if cell is not None:
        checkpoint = with_policy_of(checkpoint, cell)
    config = checkpoint.config
    if env_kwargs is not None:
        others = replace(config, env_kwargs=env_kwargs).env_kwargs  # which refuses what are none
        config = replace(config, env_kwargs={**config.env_kwargs, **others})
    return replace(checkpoint, config=config), definition


def find_checkpoint(
    source: Source, *, generation: int | None = None, trust: bool = False, latest: bool = False
) -> Checkpoint:
    """Find the checkpoint that ``source`` stands for; the names in it have still to be trusted, if it is not.

    Without a generation, that is a run's best evaluated centre, or its ``latest`` checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint.
        ValueError: a generation is given for a single checkpoint, or a name of a run to be rebuilt is not trusted.
        CheckpointError: the checkpoint is damaged, or cannot be rebuilt.
    """
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source = RunFolder.open(source, trust=trust)
    if not isinstance(source, RunFolder):
        if generation is not None:
            raise ValueError("a generation can be chosen from a run, not from a single checkpoint")
        if isinstance(source, Checkpoint):
            return replace(source, trusted=trust or source.trusted)
        return Checkpoint.load(source, trust=trust)
    source = replace(source, trusted=trust or source.trusted)
    if generation is not None:
        kept: Checkpoint | None = rebuild(source, generation)
    else:
        kept = (None if latest else find_best(source)) or source.checkpoint
    if kept is None:
        hint = " any more: `es-envs resume` rebuilds it from the log" if source.history else " yet"
        raise FileNotFoundError(f"{source.directory} has no checkpoint{hint}")
    return replace(kept, trusted=source.trusted, where=str(source.directory / "config.json"))


def population_of(checkpoint: Checkpoint) -> Population:
    """Draw the candidates of a checkpoint's generation.

    Raises:
        ValueError: it has none, or the file has only the policy.
        CheckpointError: the state of its strategy does not fit the config.
    """
    strategy = checkpoint.config.strategy
    if is_trainer(strategy):
        raise ValueError(f"{checkpoint.where}: strategy {strategy!r} has no population, and so no candidates")
    if checkpoint.config.policy.startswith(SCRIPTED):
        raise ValueError(f"{checkpoint.where}: a scripted policy has no candidates")
    if not checkpoint.strategy:
        raise ValueError(
            f"{checkpoint.where}: this policy comes without the state of its strategy, {strategy!r}, from which "
            "candidates are drawn: choose a generation of a run that has kept its checkpoint"
        )
    return TrainingState.at(checkpoint, checkpoint.where).population()


def require_candidate(population: Population, candidate: int) -> None:
    """Refuse a candidate that a generation does not have.

    Raises:
        ValueError: the message says which there are.
    """
    last = len(population) - 1
    if whole(0, last)(candidate):
        raise ValueError(f"candidate must be from 0 to {last} in generation {population.generation}; got {candidate!r}")


def require_same_spaces(checkpoint: Checkpoint, env: object) -> None:
    """Refuse to play a policy if its environment's spaces or its own module have changed.

    Raises:
        ValueError: the spaces differ.
        CheckpointError: the module's parameters differ.
    """
    for name in ("observation_space", "action_space"):
        then, now = getattr(checkpoint, name), getattr(env, name)
        if not is_same_space(then, now):
            order = "; its parts come in another order" if then == now else ""
            raise ValueError(
                f"{checkpoint.where}: {checkpoint.config.env_id} has another {name} now ({now}) than when this policy "
                f"was evolved ({then}){order}"
            )
    if ":" in checkpoint.config.policy:
        checkpoint.policy()
