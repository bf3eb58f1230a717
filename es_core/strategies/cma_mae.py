"""CMA-MAE (Fontaine and Nikolaidis 2023, "Covariance Matrix Adaptation MAP-Annealing", arXiv 2205.10752)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import alike, require, require_real, share, whole
from es_core.strategies.population import Population
from es_core.strategies.quality_diversity import Elites, QualityDiversity, elites_of
from es_core.strategies.schedules import Schedule

_COVARIANCE = 200  # parameters up to which each emitter learns a full covariance matrix
_PATHS = ("current_eval", "mean", "sigma", "pc", "ps")  # public attributes of an evolution strategy of ribs


class CMAMAE(QualityDiversity):
    """Evolves several normal distributions, each towards candidates that improve most on their cells' thresholds.

    A cell's threshold begins at ``floor`` and comes nearer to the fitness of each candidate that exceeds it, by the
    share ``threshold_rate``. So a distribution first improves where it is, then moves on to where there is more to
    gain. It begins anew at an elite once its candidates all improve alike.

    Each distribution is a CMA-ES of ribs, with a full covariance matrix for up to 200 parameters, with a diagonal one
    for more. Their means and matrices are public attributes, and are kept in ``state_dict``; their generators are not:
    they are seeded anew in each generation. (The archive's thresholds go back through an attribute that is not public.)

    Args:
        mean: of all distributions at first ``(d,)``.
        population_size: candidates in a generation, of all distributions together.
        sigma: first standard deviation of each distribution.
        seed: root seed; candidates of generation g are a function of it and of the state.
        ranges: see ``QualityDiversity``.
        grid: see there.
        cells: see there.
        floor: see there; the first threshold of each cell, too.
        emitters: number of distributions (paper: 15, of 36 candidates each).
        threshold_rate: share (paper: 0.01); at 1 this is nearly CMA-ME, at 0 it would be CMA-ES.

    Raises:
        ImportError: ribs is not installed.
        ValueError: a setting is out of range.
    """

    resizable = False
    adapts_sigma = True
    rows: ClassVar[tuple[str, ...]] = (*QualityDiversity.rows, "annealed_cells", "annealed_elites", "thresholds")

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        ranges: Sequence[Sequence[Any]] | None = None,
        grid: Sequence[int] | None = None,
        cells: int | None = None,
        floor: float | None = None,
        emitters: int = 4,
        threshold_rate: float = 0.01,
    ) -> None:
        super().__init__(
            mean,
            population_size=population_size,
            sigma=sigma,
            seed=seed,
            ranges=ranges,
            grid=grid,
            cells=cells,
            floor=floor,
        )
        require("emitters", emitters, whole(1))
        if population_size < 2 * emitters:
            raise ValueError(
                f"population_size={population_size} is too small for {emitters} emitters, of at least 2 candidates "
                'each: raise it, or set strategy_options={"emitters": ...}'
            )
        self.threshold_rate = require_real("threshold_rate", threshold_rate, share)
        self._shares = [len(part) for part in np.array_split(np.arange(population_size), emitters)]
        self.annealed_cells, self.annealed_elites = self.cells, self.elites
        self.thresholds = self.fitness
        self._searches: dict[str, NDArray[np.float64]] = {}
        self._searches = _arrays([search for _, search in self._emitters(self.archive(self.repertoire))])

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise, root mean square over parameters and distributions."""
        variances = self._searches.get("eigenvalues", self._searches["cov"])
        return float(np.sqrt((np.square(self._searches["sigma"]) * variances.mean(axis=1)).mean()))

    def draw(self) -> Population:
        """Draw from each distribution."""
        return self.described(np.concatenate([emitter.ask() for emitter, _ in self._emitters(self._annealed())]))

    def adapt(
        self,
        population: Population,
        fitness: NDArray[np.float64],
        behaviours: NDArray[np.float64],
        valid: NDArray[np.bool_],
    ) -> None:
        """Algorithm 1: fill the repertoire, anneal the thresholds, and move distributions by what exceeds them."""
        super().adapt(population, fitness, behaviours, valid)
        archive = self._annealed()
        emitters = self._emitters(archive)
        for emitter, _ in emitters:
            emitter.ask()  # the same candidates again, to which the distribution relates its next step
        solutions, worst = population.base[1:], float(fitness[valid].min())
        gained = archive.add(solutions[valid], fitness[valid], behaviours[valid])
        # A candidate without fitness takes part as the last of all: a distribution needs as many as it has drawn.
        status, value = np.zeros(len(fitness), np.int32), np.full(len(fitness), gained["value"].min())
        status[valid], value[valid] = gained["status"], gained["value"]
        ends = np.cumsum(self._shares)
        for (emitter, _), part in zip(emitters, map(slice, ends - self._shares, ends), strict=True):
            emitter.tell(
                solutions[part],
                np.where(valid, fitness, worst)[part],
                np.where(valid[:, np.newaxis], behaviours, self.lower)[part],
                {"status": status[part], "value": value[part]},
            )
        self._searches = _arrays([search for _, search in emitters])
        elites = elites_of(archive)
        self.annealed_cells, self.annealed_elites, self.thresholds = (
            elites[name] for name in ("index", "solution", "threshold")
        )

    def _annealed(self) -> Any:
        """The archive whose thresholds decide what a gain is; its solutions are where distributions begin anew."""
        unused = np.zeros((len(self.thresholds), len(self.names)))
        elites: Elites = {
            "index": self.annealed_cells,
            "solution": self.annealed_elites,
            "objective": self.thresholds,
            "measures": unused,
            "threshold": self.thresholds,
        }
        return self.archive(elites, learning_rate=self.threshold_rate, threshold_min=self.floor)

    def _emitters(self, archive: Any) -> list[tuple[Any, Any]]:
        """Emitters of ribs on this archive, each with its evolution strategy."""
        from ribs.emitters import EvolutionStrategyEmitter
        from ribs.emitters.opt import CMAEvolutionStrategy, SeparableCMAEvolutionStrategy

        kind = CMAEvolutionStrategy if self.mean.size <= _COVARIANCE else SeparableCMAEvolutionStrategy
        made: list[Any] = []

        def make(**arguments: Any) -> Any:
            made.append(kind(**arguments))
            return made[-1]

        emitters = [
            EvolutionStrategyEmitter(
                archive,
                x0=self.mean,
                sigma0=self._sigma(0),
                ranker="imp",
                selection_rule="mu",
                restart_rule="basic",
                es=make,
                batch_size=size,
                seed=self.emitter_seed(number),
            )
            for number, size in enumerate(self._shares, 1)
        ]
        for number, search in enumerate(made):
            for name, values in self._searches.items():
                holder = search if name in _PATHS else search.cov
                setattr(holder, name, values[number].copy() if values.ndim > 1 else float(values[number]))
        return list(zip(emitters, made, strict=True))

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), **{f"search_{name}": values for name, values in self._searches.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; for errors see ``Strategy``."""
        searches = {
            name: alike(f"the state's search_{name}", own, state[f"search_{name}"])
            for name, own in self._searches.items()
        }
        super().load_state_dict(state)
        self._searches = searches


def _arrays(searches: Sequence[Any]) -> dict[str, NDArray[np.float64]]:
    """What evolution strategies of ribs have learnt, by the names of their attributes: an array of all for each."""
    names = [*_PATHS, *(name for name in vars(searches[0].cov) if name != "dtype")]
    return {
        name: np.array([getattr(search if name in _PATHS else search.cov, name) for search in searches], np.float64)
        for name in names
    }
