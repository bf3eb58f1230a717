"""The base class of strategies that fill a repertoire: the best policy of each kind, instead of one best policy."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import alike, finite, number, require, require_real, whole
from es_core.formatting import shown
from es_core.seeding import Purpose, derive
from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule
from es_core.strategies.strategy import Diagnostics, Strategy

RIBS = "ribs: pip install 'es-envs[qd]'"
"""The library that is missing where these strategies cannot be used."""

_NONE = ("behaviour",)  # names, where there are no behaviours
_CELLS = 400  # by default, on all axes together
_MOST_ON_AXIS = 100
_MOST_CENTROIDS = 100_000
_MOST_BYTES = 1_000_000_000  # of a full archive, which is a part of every checkpoint

Elites = dict[str, NDArray[Any]]
"""Elites ordered by cell, in arrays as ribs names them: ``index``, ``solution``, ``objective``, ``measures`` and
``threshold``."""


class QualityDiversity(Strategy):
    """Divides the ranges of a behaviour into cells, each of which keeps the best candidate that has landed in it.

    Archives and emitters are those of pyribs (Tjanaka et al. 2023, arXiv 2303.00191). They live for one generation:
    they are made from the arrays of ``state_dict`` and from seeds that are a function of the generation. So nothing of
    them is saved but arrays, and a resumed or rebuilt run has the same bits.

    An elite is the luckiest of its cell: nobody scores it again while it stays. Evaluate cells before you trust them.
    The mean is the elite with the highest fitness so far. Fitness that is compared across generations must not depend
    on statistics that change, so observations are not normalised.

    Without behaviours (``observe_behaviours``) all candidates land in the first cell.

    Args:
        mean: around which the first candidates are drawn ``(d,)``.
        population_size: candidates in a generation.
        sigma: standard deviation of the noise.
        seed: root seed.
        ranges: name, lowest and highest value of each number of a behaviour; None: it has none. Values beyond them
            count as the lowest or highest.
        grid: number of cells on each axis; None: 400 in all, at most 100 on one axis.
        cells: so many cells in place of a grid: those of a Voronoi diagram, each around a point of a Sobol sequence
            (CVT-MAP-Elites, Vassiliades et al. 2018, arXiv 1610.05729; Mouret 2023, "Fast generation of centroids for
            MAP-Elites": such points are as good as k-means, and are the same everywhere).
        floor: fitness that is worth nothing, from which the QD score counts; None: as far below the lowest fitness of
            the first generation as that is below the highest.

    Attributes:
        names: names of the axes.
        lower: ``(b,)``, lowest values.
        upper: ``(b,)``, highest values.
        grid: ``(b,)`` int64, cells on each axis; ``(1,)``, their number, if they are not a grid's.
        cells: ``(n,)`` int64, ascending numbers of the filled cells; the last axis counts fastest.
        elites: ``(n, d)`` float32, their policies' parameters.
        fitness: ``(n,)`` float64.
        behaviours: ``(n, b)`` float64, within the ranges; without a grid as shares of them, 0 to 1, so that all axes
            count alike in a distance.

    Raises:
        ImportError: ribs is not installed.
        ValueError: a setting is out of range, or the archive would be too large.
    """

    compares_generations = True
    keeps_repertoire = True
    state: ClassVar[tuple[str, ...]] = ("floor", "best", "lower", "upper", "grid")
    rows: ClassVar[tuple[str, ...]] = ("cells", "elites", "fitness", "behaviours")
    """Names of the arrays that have a row for each elite."""

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
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        require_ribs()
        self.names, self.lower, self.upper = _axes(ranges)
        if cells is None:
            self.grid = _grid(grid, self.names, self.mean.size)
        else:
            self.grid = _one_axis(cells, grid, self.names, self.mean.size)
        self._centroids = None if cells is None else _centroids(cells, len(self.names))
        self._given_floor = None if floor is None else require_real("floor", floor, finite)
        self.floor = self._given_floor or 0.0
        self.best = float(np.finfo(float).min)
        self.cells = np.zeros(0, np.int64)
        self.elites = np.zeros((0, self.mean.size), np.float32)
        self.fitness = np.zeros(0)
        self.behaviours = np.zeros((0, len(self.names)))
        self._observed: NDArray[np.float64] | None = None
        self._has_warned = False

    def observe_behaviours(self, behaviours: NDArray[np.float64]) -> None:
        """Take the behaviours that say into which cells the candidates of the next ``tell`` fall."""
        self._observed = behaviours

    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Put the candidates into the repertoire, then let the subclass learn from them."""
        seen, self._observed = self._observed, None
        found = np.tile(self.lower, (len(fitness), 1)) if seen is None else seen
        if found.shape[1] != len(self.names):
            raise ValueError(
                f"a behaviour has {found.shape[1]} numbers, and ranges names {len(self.names)}: "
                f"{', '.join(self.names)}. Each number needs a name and a range"
            )
        valid = valid & np.isfinite(found).all(axis=1)
        outside = ((found < self.lower) | (found > self.upper)) & valid[:, np.newaxis]
        if seen is not None:
            self._warn(seen, outside)
        before = len(self.cells)
        if valid.any():
            if before == 0 and self._given_floor is None:
                low, high = float(fitness[valid].min()), float(fitness[valid].max())
                self.floor = low - ((high - low) or 1.0)
            within = np.clip(found, self.lower, self.upper)
            if self._centroids is not None:
                within = (within - self.lower) / (self.upper - self.lower)
            self.adapt(population, fitness, within, valid)
            leader = int(np.argmax(self.fitness))
            if self.fitness[leader] > self.best:
                self.best, self.mean = float(self.fitness[leader]), self.elites[leader].copy()
        return {
            "coverage": len(self.cells) / int(self.grid.prod()),
            "qd_score": float(np.maximum(self.fitness - self.floor, 0).sum()),
            "best_elite": self.best if len(self.cells) else None,
            "new_cells": float(len(self.cells) - before),
            "out_of_range": float(outside.any(axis=1).sum() / max(1, valid.sum())),
        }

    def adapt(
        self,
        population: Population,
        fitness: NDArray[np.float64],
        behaviours: NDArray[np.float64],
        valid: NDArray[np.bool_],
    ) -> None:
        """Learn from a generation; a subclass extends this.

        Args:
            population: the population that ``draw`` returned.
            fitness: ``(N,)``.
            behaviours: ``(N, b)``, as the attribute has them.
            valid: ``(N,)``, at least one True.
        """
        archive = self.archive(self.repertoire)
        archive.add(population.base[1:][valid], fitness[valid], behaviours[valid])
        self.take(archive)

    @property
    def repertoire(self) -> Elites:
        """The elites as ribs has them, of whom each one's threshold is its fitness."""
        return {
            "index": self.cells,
            "solution": self.elites,
            "objective": self.fitness,
            "measures": self.behaviours,
            "threshold": self.fitness,
        }

    def take(self, archive: Any) -> None:
        """Take the repertoire from an archive."""
        elites = elites_of(archive)
        self.cells, self.elites, self.fitness, self.behaviours = (
            elites[name] for name in ("index", "solution", "objective", "measures")
        )

    def archive(self, elites: Elites, **options: Any) -> Any:
        """A ribs archive with these elites.

        Args:
            elites: the elites.
            **options: further arguments of ``ribs.archives.GridArchive`` and ``CVTArchive``.
        """
        from ribs.archives import CVTArchive, GridArchive

        options |= {"solution_dim": self.mean.size, "seed": self.emitter_seed(0)}
        archive: GridArchive | CVTArchive
        if self._centroids is None:
            ranges = list(zip(self.lower, self.upper, strict=True))
            archive = GridArchive(dims=self.grid, ranges=ranges, **options)
        else:
            archive = CVTArchive(centroids=self._centroids, ranges=[(0, 1)] * len(self.names), **options)
        # An archive's own method takes elites by fitness, and would not give them back the threshold they have had.
        archive._store.add(elites["index"], {name: part for name, part in elites.items() if name != "index"})  # noqa: SLF001
        return archive

    def emitter_seed(self, index: int) -> int:
        """Seed for this generation's archive, number 0, or for one of its emitters, from 1."""
        return derive(self.seed, Purpose.EMITTER, self.generation, index)

    def described(self, candidates: NDArray[np.floating[Any]]) -> Population:
        """The population of these vectors ``(N, d)``, which asks for behaviours."""
        return replace(self.explicit(candidates), describes=True)

    def _warn(self, behaviours: NDArray[np.float64], outside: NDArray[np.bool_]) -> None:
        """Say once that behaviours lie outside their ranges, or that they are all alike."""
        if self._has_warned:
            return
        axis = int(outside.sum(axis=0).argmax())
        if outside.any():
            values = behaviours[outside[:, axis], axis]
            text = (
                f"{outside.any(axis=1).sum()} of {len(behaviours)} candidates of generation {self.generation} have a "
                f"behaviour outside its ranges, and count as at their border: {self.names[axis]!r} is "
                f"{values.min():.4g} to {values.max():.4g}, its range {self.lower[axis]:g} to {self.upper[axis]:g}. "
                "The metric out_of_range counts them; wider ranges are for a new run"
            )
        elif self.generation == 0 and len(behaviours) > 1 and (behaviours == behaviours[0]).all():
            text = (
                f"all {len(behaviours)} candidates of generation 0 have the same behaviour, "
                f"{', '.join(f'{each:.4g}' for each in behaviours[0])}: if it stays so, a single cell is filled. "
                "Look at the function that describes episodes, or raise sigma"
            )
        else:
            return
        self._has_warned = True
        warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _parts(self) -> dict[str, Any]:
        return {**super()._parts(), **{name: getattr(self, name) for name in self.rows}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; for errors see ``Strategy``."""
        rows = {name: _like_rows(name, getattr(self, name), state[name]) for name in self.rows}
        _require_cells(rows, int(self.grid.prod()))
        for name in ("lower", "upper", "grid"):
            if not np.array_equal(alike(f"the state's {name}", getattr(self, name), state[name]), getattr(self, name)):
                raise ValueError(
                    f"the state's {name} is {shown(state[name])}, and the settings say {shown(getattr(self, name))}: a "
                    "repertoire keeps the ranges and the grid with which it began"
                )
        super().load_state_dict(state)
        for name, value in rows.items():
            setattr(self, name, value)
        self._observed = None


def require_ribs() -> None:
    """Refuse to go on without ribs, which is imported.

    Raises:
        ImportError: ribs is not installed.
    """
    try:
        import ribs.archives  # noqa: F401
    except ImportError as error:
        raise ImportError(f"strategies that fill a repertoire need {RIBS} ({error})") from error


def elites_of(archive: Any) -> Elites:
    """Elites of a ribs archive, ordered by cell, with parameters as policies have them."""
    elites = archive.data()
    order = np.argsort(elites["index"])
    kinds = {"index": np.int64, "solution": np.float32}
    return {name: part[order].astype(kinds.get(name, np.float64)) for name, part in elites.items()}


def _axes(
    ranges: Sequence[Sequence[Any]] | None,
) -> tuple[tuple[str, ...], NDArray[np.float64], NDArray[np.float64]]:
    """Names, lowest and highest values of a behaviour's numbers."""
    if ranges is None:
        return _NONE, np.zeros(1), np.ones(1)
    expected = 'ranges must be a list of names with lowest and highest values, such as [["left foot", 0, 1]]'
    try:
        rows = [(str(name), float(low), float(high)) for name, low, high in ranges]
    except (TypeError, ValueError):
        raise ValueError(f"{expected}; got {shown(ranges)}") from None
    if not rows or not all(np.isfinite((low, high)).all() and low < high for _, low, high in rows):
        raise ValueError(f"{expected}, each lowest below its highest; got {shown(ranges)}")
    names, lower, upper = zip(*rows, strict=True)
    return names, np.array(lower), np.array(upper)


def _grid(given: Sequence[int] | None, names: Sequence[str], size: int) -> NDArray[np.int64]:
    """Number of cells on each axis."""
    axes = len(names)
    if given is None:
        each = max(2, min(_MOST_ON_AXIS, int(_CELLS ** (1 / axes) + 1e-9)))
        given = [1] if names == _NONE else [each] * axes
    whole = isinstance(given, list | tuple | np.ndarray) and all(
        number(1)(each) is None and float(each).is_integer() for each in given
    )
    if not whole or len(given) != axes:
        raise ValueError(
            f"grid must be a list of {axes} whole numbers of at least 1, the cells for {', '.join(names)}; "
            f"got {shown(given)}"
        )
    cells = float(np.prod(np.array(given, float)))
    if cells * size * 4 > _MOST_BYTES or cells > 10**6:
        raise ValueError(
            f"grid={shown(list(given))} has {cells:.3g} cells, and with {size} parameters each a full archive would "
            f"take {cells * size * 4 / 1e9:.3g} GB in every checkpoint. At most {_MOST_BYTES / 1e9:.0f} GB and a "
            "million cells are allowed: choose fewer cells on each axis, or fewer axes"
        )
    return np.array(given, np.int64)


def _one_axis(cells: int, grid: Sequence[int] | None, names: Sequence[str], size: int) -> NDArray[np.int64]:
    """The number of cells that are not a grid's."""
    require("cells", cells, whole(2))
    if grid is not None:
        raise ValueError(f"grid={shown(grid)} and cells={cells} exclude each other: cells takes the place of a grid")
    if len(names) < 2:
        raise ValueError(f"cells={cells} is for behaviours of at least two numbers: for one, choose grid=[{cells}]")
    most = min(_MOST_CENTROIDS, _MOST_BYTES // (4 * size))
    if cells > most:
        raise ValueError(f"cells={cells}: at most {most} are allowed with {size} parameters in each of them")
    return np.array([cells], np.int64)


def _centroids(count: int, axes: int) -> NDArray[np.float64]:
    """Points that fill the unit cube evenly ``(count, axes)``: a Sobol sequence without its first point, a corner."""
    from scipy.stats.qmc import Sobol  # comes with ribs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it wishes for a power of 2
        points: NDArray[np.float64] = Sobol(axes, scramble=False).fast_forward(1).random(count)
    return points


def _like_rows(name: str, own: NDArray[Any], given: Any) -> NDArray[Any]:
    """Copy ``given``, which may have another number of rows than ``own``."""
    shape = np.shape(given)
    if len(shape) != own.ndim:
        raise ValueError(f"the state's {name} has shape {shape}, expected {own.ndim} axes")
    array: NDArray[Any] = alike(f"the state's {name}", np.empty((shape[0], *own.shape[1:]), own.dtype), given)
    return array


def _require_cells(rows: Mapping[str, NDArray[Any]], most: int) -> None:
    """Refuse rows that are no elites of a grid with ``most`` cells; each archive's rows begin with its cells."""
    cells, which = np.zeros(0, np.int64), ""
    for name, each in rows.items():
        if name.endswith("cells"):
            cells, which = each, name
            if len(cells) and (cells[0] < 0 or cells[-1] >= most or (np.diff(cells) <= 0).any()):
                raise ValueError(f"the state's {which} must ascend from at least 0 to at most {most - 1}")
        elif len(each) != len(cells):
            raise ValueError(f"the state's {name} has shape {each.shape}, and {which} has {len(cells)} rows")
