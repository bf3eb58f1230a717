"""Selection: from a population's measured fitness to the fitness that its strategy learns from."""

import numpy as np
from numpy.typing import NDArray

from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.train_config import TrainConfig
from es_core.pools.pool import Results, RolloutPool
from es_core.rollout.fitness import aggregated
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.population import Population
from es_core.training.state import TrainingState
from es_envs import Episode


def learning_fitness(config: TrainConfig, results: Results) -> NDArray[np.float64]:
    """The fitness ``(N,)`` from which the strategy learns; NaN for a candidate that is dropped.

    A failed candidate has none, or the worst fitness of the others, as ``on_candidate_error`` says; shapings by rank
    then see a tie.

    Instead of the fitness it may be the return without the survival bonus of each step (Mania et al. 2018, section
    4.2), or the sum of the rewards' signs (``return_proc_mode`` of the released code of Salimans et al. 2017).
    """
    fitness, valid = results.fitness.copy(), results.valid
    values: NDArray[np.float64] | None = None
    if config.shaping in SIGN_SHAPINGS:
        values = results.fitnesses["sign_return"]
    elif config.survival_bonus > 0:
        values = results.fitnesses["episode_return"] - config.survival_bonus * results.lengths
    if values is not None:
        fitness[valid] = aggregated(values[valid], config.fitness_aggregation)
    if config.on_candidate_error == "worst":
        fitness[~valid] = fitness[valid].min()
    return fitness


def choose_elite(
    config: TrainConfig, state: TrainingState, pool: RolloutPool, population: Population, fitness: NDArray[np.float64]
) -> list[Episode]:
    """Choose the best of a strategy's contenders by additional episodes, and return these.

    Such et al. 2017, algorithm 1. The winner's ``fitness`` is raised just above all others', in the log, too.
    """
    contenders, episodes = state.strategy.contenders(fitness), state.strategy.elite_episodes
    if not contenders:
        return []
    seeds = episode_seeds(config.seed, Purpose.ELITE, episodes, population.generation)
    matches = [pool.rollouts(population.candidate(index), state.statistics, seeds) for index in contenders]
    scores = [[episode.fitness - config.survival_bonus * episode.length for episode in match] for match in matches]
    winner = contenders[int(np.argmax(aggregated(np.array(scores), config.fitness_aggregation)))]
    fitness[winner] = np.nextafter(np.nanmax(fitness), np.inf)
    return [episode for match in matches for episode in match]
