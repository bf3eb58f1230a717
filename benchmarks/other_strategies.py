"""Strategies that we have not built in, for trials in defaults.py: other libraries', behind our ``Strategy``.

They need what requirements-test.txt does not bring: pip install cmaes crfmnes
Nothing of them is saved: a run with one of these cannot be resumed.
"""

import copy
from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.strategies import by_name
from es_core.strategies.optimizers import Adam
from es_core.strategies.population import Population
from es_core.strategies.strategy import Strategy

Values = NDArray[np.float64]


class Library(Strategy):
    """A search with explicit candidates, which minimises costs."""

    resizable, adapts_sigma = False, True

    def __init__(self, mean: NDArray[np.float32], *, population_size: int, sigma: float, seed: int = 0) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        self._drawn: NDArray[np.float32] | None = None
        self._begin(self.mean.astype(float), float(sigma))

    @abstractmethod
    def _begin(self, mean: Values, sigma: float) -> None:
        """Make the library's object."""

    @abstractmethod
    def _candidates(self) -> Values:
        """Draw ``(N, d)``."""

    @abstractmethod
    def _update(self, costs: Values) -> None:
        """Learn from their costs ``(N,)``."""

    @abstractmethod
    def _centre(self) -> tuple[Values, float]:
        """The mean ``(d,)`` and the standard deviation."""

    @property
    def sigma(self) -> float:
        """Standard deviation of a candidate's parameters."""
        return float(self._centre()[1])

    def draw(self) -> Population:
        """The library's candidates, drawn once."""
        if self._drawn is None:
            self._drawn = np.ascontiguousarray(self._candidates(), np.float32)
        return self.explicit(self._drawn)

    def learn(self, population: Population, fitness: Values, valid: NDArray[np.bool_]) -> None:  # noqa: ARG002
        """Tell the library; a candidate without fitness costs more than all others."""
        self._update(np.where(valid, -fitness, 1 + np.max(-fitness[valid])))
        self._drawn, self.mean = None, np.asarray(self._centre()[0], np.float32)


class Cmaes(Library):
    """A class of the package cmaes (Nomura and Shibata 2024)."""

    kind: ClassVar[str] = "CMA"
    options: ClassVar[dict[str, Any]] = {}

    def _begin(self, mean: Values, sigma: float) -> None:
        import cmaes

        self._kind, self._first = partial(getattr(cmaes, self.kind), **self.options), (mean, sigma)
        self._search = self._kind(mean=mean, sigma=sigma, population_size=self.population_size, seed=self.seed)

    def _candidates(self) -> Values:
        self._vectors = [self._search.ask() for _ in range(self.population_size)]
        return np.array(self._vectors)

    def _update(self, costs: Values) -> None:
        self._search.tell(list(zip(self._vectors, map(float, costs), strict=True)))

    def _centre(self) -> tuple[Values, float]:
        return self._search._mean, self._search._sigma  # noqa: SLF001  (there is no other way)


class XNES(Cmaes):
    """Exponential natural evolution strategy (Glasmachers et al. 2010)."""

    kind = "XNES"


class LRACMAES(Cmaes):
    """CMA-ES whose steps become smaller where they are mostly noise (Nomura, Akimoto and Ono 2023)."""

    options: ClassVar[dict[str, Any]] = {"lr_adapt": True}


class IPOP(Cmaes):
    """CMA-ES that begins again with twice the population when it stands still (Auger and Hansen 2005)."""

    def _update(self, costs: Values) -> None:
        super()._update(costs)
        if self._search.should_stop():
            self.population_size *= 2
            mean, sigma = self._first
            seed = self.seed + self.population_size
            self._search = self._kind(mean=mean, sigma=sigma, population_size=self.population_size, seed=seed)


class CRFMNES(Library):
    """Cost-reduction fast moving natural evolution strategy (Nomura and Ono 2022), of the package crfmnes."""

    def _begin(self, mean: Values, sigma: float) -> None:
        import crfmnes

        size = self.population_size
        self._search = crfmnes.CRFMNES(
            mean.size, None, mean.reshape(-1, 1), sigma, size, seed=self.seed, use_constraint_violation=False
        )
        self._random = np.random.get_state()  # noqa: NPY002  (the package draws from it)

    def _candidates(self) -> Values:
        # It has no ask and tell: a copy says which candidates come, and the same iteration is done again to learn.
        drawn: list[Values] = []
        self._iterate(copy.deepcopy(self._search), lambda vector: float(bool(drawn.append(vector.ravel().copy()))))
        return np.array(drawn)

    def _update(self, costs: Values) -> None:
        left = iter(costs)
        self._iterate(self._search, lambda _: float(next(left)))
        self._random = np.random.get_state()  # noqa: NPY002  (the package draws from it)

    def _iterate(self, search: Any, cost: Any) -> None:
        search.f = cost
        np.random.set_state(self._random)  # noqa: NPY002
        search.one_iteration()

    def _centre(self) -> tuple[Values, float]:
        return self._search.m.ravel(), float(np.ravel(self._search.sigma)[0])


class CEM(Library):
    """Cross-entropy method; its additional variance falls to 0 in 100 generations (Szita and Lorincz 2006)."""

    def _begin(self, mean: Values, sigma: float) -> None:
        self._mean, self._stds = mean, np.full(mean.size, sigma)
        self._first, self._random = sigma, np.random.default_rng(self.seed)

    def _candidates(self) -> Values:
        self._vectors = self._mean + self._stds * self._random.standard_normal((self.population_size, self._mean.size))
        return self._vectors

    def _update(self, costs: Values) -> None:
        elite = self._vectors[np.argsort(costs, kind="stable")[: max(2, self.population_size // 4)]]
        more = self._first**2 * max(0.0, 1 - self.generation / 100)
        self._mean, self._stds = elite.mean(0), np.sqrt(elite.var(0) + more)

    def _centre(self) -> tuple[Values, float]:
        return self._mean, float(np.sqrt(np.mean(self._stds**2)))


class Mirrored(Library):
    """OpenAI-ES with Adam (Salimans et al. 2017), to be compared with ``Orthogonal``."""

    def _begin(self, mean: Values, sigma: float) -> None:
        self._mean, self._sigma, self._random = mean.astype(np.float32), sigma, np.random.default_rng(self.seed)
        self._optimizer = Adam(mean.size)

    def _directions(self) -> Values:
        return self._random.standard_normal((self.population_size // 2, self._mean.size))

    def _candidates(self) -> Values:
        self._drawn_directions = self._directions()
        steps = self._sigma * self._drawn_directions
        return np.concatenate([self._mean + steps, self._mean - steps])

    def _update(self, costs: Values) -> None:
        ranks = np.argsort(np.argsort(-costs, kind="stable"), kind="stable") / (costs.size - 1) - 0.5
        better = ranks[: costs.size // 2] - ranks[costs.size // 2 :]
        uphill = better @ self._drawn_directions / (costs.size * self._sigma)
        self._mean = self._mean + self._optimizer.step(uphill.astype(np.float32), self._mean, learning_rate=0.03)

    def _centre(self) -> tuple[Values, float]:
        return self._mean.astype(float), self._sigma


class Orthogonal(Mirrored):
    """The same with orthogonal directions, as long as they would have been (Choromanski et al. 2018)."""

    def _directions(self) -> Values:
        free = super()._directions()
        blocks = [free[start : start + free.shape[1]] for start in range(0, len(free), free.shape[1])]
        turned = np.concatenate([np.linalg.qr(block.T)[0].T for block in blocks])
        return turned * np.linalg.norm(free, axis=1, keepdims=True)


def register() -> None:
    """Put them beside our strategies."""
    others = {"xnes": XNES, "lra_cma_es": LRACMAES, "ipop_cma_es": IPOP, "cr_fm_nes": CRFMNES, "cem": CEM}
    others |= {"mirrored_es": Mirrored, "orthogonal_es": Orthogonal}
    by_name.STRATEGIES = {**by_name.STRATEGIES, **others}
