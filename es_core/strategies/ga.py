"""Genetic algorithm with truncation selection (Such et al. 2017, "Deep Neuroevolution: Genetic Algorithms Are a
Competitive Alternative for Training Deep Neural Networks for Reinforcement Learning", arXiv 1712.06567, algorithm 1).
"""  # noqa: D205

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.config.checks import require_positive
from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule
from es_core.strategies.strategy import Diagnostics, Strategy


class GA(Strategy):
    """Mutates its best candidates, without crossover. The elite, the best of all, joins the next population unchanged.

    A candidate is its parent and the seed of its mutation, as in the paper. The elite is scored again in each
    generation, on that generation's episodes: a lucky score does not last. With ``elite_candidates``,
    ``train`` plays additional episodes with the best ones, and gives the winner the highest fitness.

    Args:
        mean: centre of the first generation ``(d,)``.
        population_size: candidates in a generation (paper: 1000).
        sigma: standard deviation of a mutation, or a function of the generation (paper: 0.002 for Atari).
        seed: root seed; mutations and parents of generation g are a function of the two.
        parents: number of candidates that survive (paper: 20); None: an eighth of the population.
        elite_candidates: number of candidates, the last elite and the best others, among whom additional episodes
            choose the elite (paper: 10); 1: fitness chooses it.
        elite_episodes: number of additional episodes that each of them plays (paper: 30).

    Raises:
        ValueError: a number is out of range.
    """

    state: ClassVar[tuple[str, ...]] = ("survivors",)

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        parents: int | None = None,
        elite_candidates: int = 1,
        elite_episodes: int = 30,
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        count = max(1, population_size // 8) if parents is None else parents
        require_positive("parents", count)
        if not count < population_size:
            raise ValueError(f"parents must be from 1 to {population_size - 1}, fewer than the population; got {count}")
        require_positive("elite_candidates", elite_candidates)
        require_positive("elite_episodes", elite_episodes)
        self.elite_candidates, self.elite_episodes = elite_candidates, elite_episodes
        self.survivors = np.repeat(self.mean[np.newaxis], count, axis=0)  # ``(parents, d)``, the best first

    def draw(self) -> Population:
        """Draw mutations of random survivors, in addition to the elite."""
        count = self.population_size
        chance = seeding.generator(seeding.derive(self.seed, seeding.Purpose.PARENT, self.generation))
        parent, sign = chance.integers(len(self.survivors), size=count), np.ones(count, np.int8)
        parent[0] = sign[0] = 0
        return self.independent(self.sigma, base=self.survivors.copy(), parent=parent, sign=sign)

    def contenders(self, fitness: NDArray[np.float64]) -> list[int]:
        """The elite, candidate 0, then the best of the others; ties go to the earlier."""
        if self.elite_candidates == 1:
            return []
        order = [0, *(np.argsort(-fitness[1:], kind="stable") + 1).tolist()]
        return [index for index in order if not np.isnan(fitness[index])][: self.elite_candidates]

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Keep the best candidates; ties go to the earlier, so that nothing moves if all are equal."""
        candidates = np.flatnonzero(valid)
        order = candidates[np.argsort(-fitness[candidates], kind="stable")][: len(self.survivors)]
        best = np.array([population.candidate(index) for index in order]).reshape(-1, self.mean.size)
        self.survivors = np.concatenate([best, self.survivors[: len(self.survivors) - len(best)]])
        self.mean = self.survivors[0].copy()
        return None
