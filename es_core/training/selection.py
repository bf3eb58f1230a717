"""Selection: from the starts of a population's episodes to the fitness that its strategy learns from."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.plan import Plan
from es_core.pools.pool import Results, RolloutPool
from es_core.rollout.errors import RolloutError
from es_core.rollout.fitness import aggregated
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_core.strategies.shaping import centered_ranks
from es_core.strategies.strategy import Strategy
from es_envs import Episode

_GROUPS = 4  # of candidates with the same starts, where there are enough candidates
# Candidates: of more there are more groups, since a generation sees more starts.
_SMALLEST_GROUP, _LARGEST_GROUP = 4, 16


def training_seeds(config: Plan, candidates: int, generation: int) -> NDArray[np.int64]:
    """Seeds ``(N, k)`` of the candidates' episodes."""
    starts = np.arange(candidates) if config.episode_seeds == "independent" else _groups(config, candidates)
    shape = (int(starts[-1]) + 1, config.episodes_per_candidate)
    seeds = np.reshape(episode_seeds(config.seed, Purpose.TRAINING, shape[0] * shape[1], generation), shape)
    return seeds[starts]


def compared(config: Plan, valid: NDArray[np.bool_]) -> list[NDArray[np.int64]]:
    """Indices of the ``valid`` candidates ``(N,)`` that had the same starts, group by group.

    A generation with one start for all candidates learns what suits that start. With a start for each, luck decides. So
    ``episode_seeds="grouped"`` has a few starts, and compares each candidate with those that had the same one.
    """
    group = _groups(config, len(valid))
    return [np.flatnonzero(valid & (group == number)) for number in np.unique(group[valid])]


def _groups(config: Plan, candidates: int) -> NDArray[np.int64]:
    """Number ``(N,)`` of each candidate's group; mirrored pairs stay together."""
    count = 1
    if config.episode_seeds == "grouped":
        count = max(1, min(candidates // _SMALLEST_GROUP, max(_GROUPS, candidates // _LARGEST_GROUP)))
    pairs = np.arange(candidates) // 2
    return np.asarray(pairs * count // (pairs[-1] + 1))


def learning_fitness(config: Plan, results: Results, *, stalled: bool) -> NDArray[np.float64]:
    """The fitness ``(N,)`` from which the strategy learns; NaN for a candidate that is dropped.

    A failed candidate has none, or the worst fitness of the others, as ``on_candidate_error`` says; shapings by rank
    then see a tie.

    Instead of the fitness it may be the return without the survival bonus of each step (Mania et al. 2018, section
    4.2), or the sum of the rewards' signs (``return_proc_mode`` of the released code of Salimans et al. 2017).

    In groups, it is the rank among those of the group, so that each start counts alike while all is still to be learnt.
    Once a search has gained nothing for a while, and its steps have grown, most starts are mastered, and what is
    left differs from start to start: then it is the rank among all by what a candidate's fitness is above its group's
    median. A start from which half of them fail outweighs one from which they differ in style.

    Args:
        config: the run's config.
        results: a population's.
        stalled: True if that is so.
    """
    fitness, valid = results.fitness.copy(), results.valid
    values: NDArray[np.float64] | None = None
    if config.shaping in SIGN_SHAPINGS:
        values = results.fitnesses["sign_return"]
    elif config.survival_bonus > 0:
        values = results.fitnesses["episode_return"] - config.survival_bonus * results.lengths
    if values is not None:
        fitness[valid] = aggregated(values[valid], config.fitness_aggregation)
    if config.on_candidate_error == "worst" and valid.any():
        fitness[~valid] = fitness[valid].min()
    if config.episode_seeds == "grouped":
        compares = ~np.isnan(fitness)
        for members in compared(config, compares):
            own = fitness[members]
            fitness[members] = own - np.median(own) if stalled else centered_ranks(own)
        if stalled:
            fitness[compares] = centered_ranks(fitness[compares])
    return fitness


def choose_elite(
    config: Plan, strategy: Strategy, pool: RolloutPool, population: Population, fitness: NDArray[np.float64]
) -> list[Episode]:
    """Choose the best of a strategy's contenders by additional episodes, and return these.

    Such et al. 2017, algorithm 1. The winner's ``fitness`` is raised just above all others', in the log, too.
    """
    contenders, episodes = strategy.contenders(fitness), strategy.elite_episodes
    if not contenders:
        return []
    seeds = episode_seeds(config.seed, Purpose.ELITE, episodes, population.generation)
    matches: dict[int, list[Episode]] = {}
    for index in contenders:
        try:
            who = f"candidate {index}, which may become the elite,"
            matches[index] = pool.rollouts(population.candidate(index), population.statistics, seeds, who=who)
        except RolloutError as error:
            if error.failure is not None:
                error.failure = replace(error.failure, candidate=index)
            if config.on_candidate_error == "raise" or error.failure is None:
                raise
    if matches:
        scores = [[each.fitness - config.survival_bonus * each.length for each in match] for match in matches.values()]
        winner = list(matches)[int(np.argmax(aggregated(np.array(scores), config.fitness_aggregation)))]
        fitness[winner] = np.nextafter(np.nanmax(fitness), np.inf)
    return [episode for match in matches.values() for episode in match]
