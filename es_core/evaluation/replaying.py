"""Replay: one episode of a candidate, as training played it, in the foreground."""

import os
import warnings
from contextlib import closing
from typing import Any

from es_core.config.checks import require, whole
from es_core.config.train_config import require_bits
from es_core.evaluation.scoring import find_policy, population_of, require_candidate, require_same_spaces
from es_core.pools.copies import EACH
from es_core.pools.worker import action_noise_seed
from es_core.rollout.errors import RolloutError
from es_core.rollout.rollout import Rollout
from es_core.runs.run_folder import RunFolder
from es_envs import Episode


def replay(
    run: RunFolder | str | os.PathLike[str],
    *,
    generation: int,
    seed: int,
    candidate: int | None = None,
    trust: bool = False,
) -> Episode:
    """Play an episode of a generation again, in this process, so that breakpoints work and tracebacks are complete.

    It is the episode of training, with its observation statistics, action noise and step limit, except that the
    environment has played no other before. (If the run computes on a GPU, it is the same within rounding; if its vector
    environment could not be seeded copy by copy, it is another episode, and a warning says so.)

    Args:
        run: a Run or its folder.
        generation: the generation; it is rebuilt from the log if it has no checkpoint (a run keeps those of generations
            in which a candidate failed).
        seed: the episode's seed.
        candidate: index of the candidate that plays it; None: the centre, as it is evaluated.
        trust: allow the run to name modules outside the installed plugins.

    Returns:
        The episode, if it does not fail.

    Raises:
        RolloutError: the episode fails; its cause is the environment's error.
        FileNotFoundError: there is no such run, or it has not reached that generation.
        ValueError: there is no such candidate, or a name is not trusted.
        CheckpointError: the checkpoint or the log is damaged.
    """
    require("seed", seed, whole(0))
    checkpoint, definition = find_policy(run, generation=generation, trust=trust)
    require_bits(checkpoint.config, checkpoint.where)
    if checkpoint.config.vector_starts not in {None, EACH}:
        warnings.warn(
            f"{checkpoint.where}: its vector environment was {checkpoint.config.vector_starts}, so no episode of its "
            "training begins like one that is played alone, whatever its seed",
            RuntimeWarning,
            stacklevel=2,
        )
    with closing(Rollout(definition, checkpoint.config)) as rollout:
        require_same_spaces(checkpoint, rollout.env)
        parameters = checkpoint.mean
        how: dict[str, Any] = {}
        if candidate is not None:
            population = population_of(checkpoint)
            require_candidate(population, candidate)
            parameters = population.candidate(candidate)
            how = {
                "noise_seed": action_noise_seed(rollout.policy, population, candidate, seed),
                "max_steps": population.max_episode_steps,
                "range_share": population.range_share,
                "describes": population.describes,
            }
        rollout.use(parameters, checkpoint.statistics)
        try:
            return rollout.episode(seed, **how)
        except (Exception, SystemExit) as error:
            who = "the centre" if candidate is None else f"candidate {candidate}"
            raise RolloutError(
                f"{definition.label}: the failure is reproduced: an episode of {who} in generation {generation} "
                f"(episode seed {seed}) failed: {type(error).__name__}: {error}"
            ) from error
