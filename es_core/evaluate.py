"""Evaluate: the score of an evolved policy on starts that its training never saw."""

import os
from dataclasses import replace
from pathlib import Path

from es_core.checkpoint import Checkpoint
from es_core.checks import require_positive
from es_core.pools.local import LocalPool
from es_core.run import Run
from es_core.scoring import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_core.trust import require_trusted
from es_envs import EnvDefinition

Source = Run | Checkpoint | str | os.PathLike[str]


def evaluate(
    source: Source,
    *,
    episodes: int = 100,
    seed: int = 0,
    generation: int | None = None,
    workers: int | None = None,
    trust: bool = False,
) -> Evaluation:
    """Score a policy on unseen starts, without action noise.

    Args:
        source: a Run or its folder (its best evaluated centre, or its latest checkpoint if none was evaluated), a
            checkpoint file, or a Checkpoint.
        episodes: how many.
        seed: which starts; episode k is the one that ``record(seed=seed)`` films.
        generation: of a Run: the checkpoint of this generation instead.
        workers: processes; None: the usable cores.
        trust: the source may name modules outside the installed plugins.

    Raises:
        ValueError: episodes is not positive, or an untrusted name.
        FileNotFoundError: no such run, checkpoint or generation.
        CheckpointError: a damaged checkpoint.
        RolloutError: an episode failed.
    """
    require_positive("episodes", episodes)
    checkpoint, definition = find_policy(source, generation=generation, trust=trust)
    with LocalPool(definition, checkpoint.config, workers=workers, most=episodes) as pool:
        require_same_spaces(checkpoint, pool)
        seeds = episode_seeds(seed, Purpose.TEST, episodes)
        return Evaluation.from_episodes(pool.rollouts((checkpoint.mean, checkpoint.statistics), seeds))


def find_policy(source: Source, *, generation: int | None, trust: bool) -> tuple[Checkpoint, EnvDefinition]:
    """The checkpoint that ``source`` stands for, and the definition of its environment.

    Raises:
        FileNotFoundError: there is none.
        ValueError: an untrusted name, or a generation asked of a single checkpoint.
    """
    where: object = source
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        source = Run.open(source, trust=trust)
    if isinstance(source, Run):
        trust = trust or source.trusted
        checkpoint = source.checkpoint_at(generation) if generation is not None else source.best or source.checkpoint
        if checkpoint is None:
            raise FileNotFoundError(f"{source.directory} has no checkpoint yet")
    elif generation is not None:
        raise ValueError("a generation can be chosen from a run, not from a single checkpoint")
    elif isinstance(source, Checkpoint):
        checkpoint, where, trust = source, "the checkpoint", trust or source.trusted
    else:
        checkpoint = Checkpoint.load(source, trust=trust)
    definition = require_trusted(checkpoint.config, trust=trust, where=where)
    return replace(checkpoint, trusted=trust), definition


def require_same_spaces(checkpoint: Checkpoint, env: object) -> None:
    """Refuse to play a policy in an environment that has changed under it, or whose own module has changed.

    Raises:
        ValueError: the spaces differ.
        CheckpointError: the module's parameters do.
    """
    for name in ("observation_space", "action_space"):
        then, now = getattr(checkpoint, name), getattr(env, name)
        if then != now:
            env_id = checkpoint.config.env_id
            raise ValueError(f"{env_id} has another {name} now ({now}) than when this policy was evolved ({then})")
    if ":" in checkpoint.config.policy:
        checkpoint.policy()
