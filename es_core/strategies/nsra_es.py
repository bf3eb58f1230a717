"""NSRA-ES, and with it NS-ES and NSR-ES (Conti et al. 2018, "Improving Exploration in Evolution Strategies for Deep
Reinforcement Learning via a Population of Novelty-Seeking Agents", arXiv 1712.06560, section 3).
"""  # noqa: D205

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import alike, require_positive
from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule
from es_core.strategies.shaping import centered_ranks
from es_core.strategies.strategy import Diagnostics

_MEAN = slice(2)  # the first pair


class NSRAES(OpenAIES):
    """Climbs fitness and novelty at once: w times the ranks of one plus 1 - w times those of the other.

    A candidate's novelty is the mean distance of its behaviour from the nearest in the archive, which holds the
    behaviours of all means so far. A better mean than all before lets w rise; w falls whenever there was none for a
    while. With ``weight_step=0`` it stays: at 1/2 this is NSR-ES, at 0 NS-ES.

    The first pair of candidates is the mean as it is, whose fitness and behaviour are needed. The paper has a few means
    that share an archive and move in turn. Here there is one: runs with other seeds are other beginnings.

    Without behaviours (``observe_behaviours``) this is OpenAI-ES.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, an even number from 4.
        sigma: standard deviation of the noise, or a function of the generation.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: the optimiser's learning rate, or a function of the generation.
        optimizer: a name from ``OPTIMIZERS``.
        optimizer_options: further arguments of the optimiser.
        weight_decay: see ``OpenAIES``.
        neighbours: number of nearest behaviours (paper: 10).
        weight: w of the first generation (paper: 1).
        weight_step: by which w rises and falls (paper: 0.05).
        patience: generations without a better mean after which w falls (paper: 50).

    Attributes:
        weight: w.
        archive: ``(n, b)`` float64, behaviours of the means.

    Raises:
        ValueError: a setting is out of range.
    """

    compares_generations = True
    state: ClassVar[tuple[str, ...]] = ("weight", "best", "waited")

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        learning_rate: float | Schedule = 0.01,
        optimizer: str = "adam",
        optimizer_options: Mapping[str, Any] | None = None,
        weight_decay: float = 0.0,
        neighbours: int = 10,
        weight: float = 1.0,
        weight_step: float = 0.05,
        patience: int = 50,
    ) -> None:
        super().__init__(
            mean,
            population_size=population_size,
            sigma=sigma,
            seed=seed,
            learning_rate=learning_rate,
            optimizer=optimizer,
            optimizer_options=optimizer_options,
            weight_decay=weight_decay,
        )
        if population_size < 4:
            raise ValueError(f"population_size must be at least 4, the mean and a pair; got {population_size}")
        require_positive("neighbours", neighbours)
        require_positive("patience", patience)
        for name, value in (("weight", weight), ("weight_step", weight_step)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must be from 0 to 1, got {value}")
        self.neighbours, self.weight_step, self.patience = neighbours, float(weight_step), patience
        self.weight = float(weight)
        self.best = float(np.finfo(float).min)  # fitness of the best mean
        self.waited = 0  # generations since then
        self.archive = np.zeros((0, 0))
        self._behaviours: NDArray[np.float64] | None = None

    def draw(self) -> Population:
        """Draw mirrored pairs; the first is the mean itself."""
        population = super().draw()
        population.sign[_MEAN] = 0
        return replace(population, describes=True)

    def observe_behaviours(self, behaviours: NDArray[np.float64]) -> None:
        """Take the behaviours whose novelty the next ``tell`` weighs."""
        self._behaviours = behaviours

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Algorithm 3: rate the mean, then move it along the weighted ranks of fitness and novelty."""
        behaviours, self._behaviours = self._behaviours, None
        utilities = np.zeros(len(fitness))
        utilities[valid] = centered_ranks(fitness[valid])
        if behaviours is not None:
            if np.isfinite(behaviours[_MEAN]).all() and valid[0]:
                self._rate(float(fitness[_MEAN].mean()), behaviours[_MEAN].mean(axis=0))
            novelty = np.array([self._novelty(each) for each in behaviours[valid]])
            utilities[valid] = self.weight * utilities[valid] + (1 - self.weight) * centered_ranks(novelty)
        utilities[_MEAN] = 0
        return super().learn(population, utilities, valid)

    def utilities(self, fitness: NDArray[np.float64]) -> NDArray[np.float64]:
        """The numbers themselves: ``learn`` has shaped them."""
        return fitness

    def _rate(self, fitness: float, behaviour: NDArray[np.float64]) -> None:
        """Put the mean into the archive, and adapt the weight to its fitness (section 3.3)."""
        if self.archive.size and self.archive.shape[1] != behaviour.size:
            raise ValueError(f"a behaviour has {behaviour.size} numbers, those before had {self.archive.shape[1]}")
        self.archive = np.concatenate([self.archive.reshape(-1, behaviour.size), behaviour[np.newaxis]])
        if fitness > self.best:
            self.best, self.waited = fitness, 0
            self.weight = min(1.0, self.weight + self.weight_step)
            return
        self.waited += 1
        if self.waited >= self.patience:
            self.waited = 0
            self.weight = max(0.0, self.weight - self.weight_step)

    def _novelty(self, behaviour: NDArray[np.float64]) -> float:
        """Mean distance from the nearest behaviours in the archive (equation 1); 0 if there is none to measure."""
        if not (self.archive.size and np.isfinite(behaviour).all()):
            return 0.0
        distances = np.sqrt(np.square(self.archive - behaviour).sum(axis=1))
        return float(np.sort(distances)[: self.neighbours].mean())

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), "archive": self.archive}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; for errors see ``Strategy``."""
        given = state["archive"]
        if np.ndim(given) != 2:
            raise ValueError(f"the state's archive has shape {np.shape(given)}, expected (n, b)")
        archive = alike("the state's archive", np.empty(np.shape(given)), given)
        super().load_state_dict(state)
        self.archive, self._behaviours = archive, None
