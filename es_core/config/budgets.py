"""How much may be spent: candidates, steps of an episode, episodes of an evaluation; and when a run has had enough."""

import math

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_envs import EnvDefinition

# At the start episodes may last a few steps only, and a population of any size would fit into a generation's steps; but
# each candidate costs its noise twice (to play it, and to weigh it), and all of them give one update of the mean.
_GROWTH = 64


def step_limit(definition: EnvDefinition, config: TrainConfig) -> int:
    """Steps at most of a whole episode.

    Raises:
        ValueError: neither the definition nor the config has a limit.
    """
    of_definition = definition.max_episode_steps
    if of_definition is not None:  # steps of the environment itself, of which one of ours may skip some
        of_definition = max(1, of_definition // config.preprocessing.get("skip", 1))
    return min(limit for limit in (of_definition, config.max_episode_steps) if limit is not None)


def first_cap(config: TrainConfig, limit: int) -> int | None:
    """The step limit of the first population's episodes, or None if ``limit``, that of whole episodes, is enough."""
    return None if config.episode_cap is None else _below(config.episode_cap_start, limit)


def next_cap(config: TrainConfig, limit: int, cap: int | None, lengths: NDArray[np.int64]) -> int | None:
    """The step limit of the next population's episodes.

    "twice_mean": Salimans et al. 2017, section 2.1. "growing": their released code's ``adaptive_tslimit``.

    Args:
        config: of the run.
        limit: of whole episodes.
        cap: that of the last population's, or None.
        lengths: ``(N, k)``, how long these were.
    """
    match config.episode_cap:
        case "twice_mean":
            return _below(-(-2 * int(lengths.sum()) // lengths.size), limit)
        case "growing" if cap is not None and np.mean(lengths >= cap) >= 0.5:
            return _below(2 * cap, limit)
    return cap


def _below(cap: int, limit: int) -> int | None:
    return cap if cap < limit else None


def next_population_size(config: TrainConfig, steps: int, lengths: NDArray[np.int64]) -> int:
    """How many candidates come near so many ``steps``, if their episodes last as long as ``lengths`` ``(N, k)``.

    An even number, since candidates may come in pairs. Two pairs are the least of which one can be better.
    """
    pairs = round(steps / (lengths.mean() * config.episodes_per_candidate) / 2)
    return int(np.clip(2 * pairs, 4, largest_population(config)))


def largest_population(config: TrainConfig) -> int:
    """How many candidates a generation may come to have."""
    return config.population_size * (1 if config.steps_per_generation is None else _GROWTH)


def evaluation_episodes(config: TrainConfig, candidates: int) -> int:
    """Episodes in an evaluation of the centre of so many candidates."""
    if config.eval_share is None:
        return config.eval_episodes
    exact = config.eval_share * candidates * config.episodes_per_candidate
    return max(1, math.ceil(round(exact, 6)))  # 0.07 * 100 is a little more than 7


def reached(config: TrainConfig, *, generations: int, steps: int, episodes: int) -> str | None:
    """The setting that ends a run which has come so far, or None if it goes on.

    Args:
        config: of the run.
        generations: how many are done.
        steps: environment steps of all episodes.
        episodes: of candidates.
    """
    shares = _shares(config, generations, steps, episodes)
    return next((name for name, share in shares.items() if share >= 1), None)


def share_done(config: TrainConfig, *, generations: int, steps: int, episodes: int) -> float:
    """How far a run has come, 0 to 1, by the bound that it will reach first; see ``reached``."""
    return min(1.0, max(_shares(config, generations, steps, episodes).values()))


def _shares(config: TrainConfig, generations: int, steps: int, episodes: int) -> dict[str, float]:
    used = {"generations": generations, "max_steps": steps, "max_episodes": episodes}
    bounds = {name: getattr(config, name) for name in used}
    return {name: used[name] / bound for name, bound in bounds.items() if bound is not None}
