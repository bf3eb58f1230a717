"""Repertoires: the policies that a strategy of quality diversity keeps, one for each cell of a grid of behaviours."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import whole
from es_core.config.strategy_defaults import keeps_repertoire
from es_core.formatting import shown
from es_core.runs.checkpoint import Checkpoint

_NEAREST = 3  # filled cells that are named where one is empty


@dataclass(frozen=True, kw_only=True, eq=False)
class Repertoire:
    """Policies by what they do, each the best of its cell so far.

    A fitness in it is that of the luckiest candidate: ``evaluate(run, cell=...)`` scores it on unseen starts.

    Attributes:
        names: names of the b axes.
        lower: ``(b,)``, where each axis begins.
        upper: ``(b,)``, where it ends.
        grid: ``(b,)``, number of cells on each axis; ``(1,)``, their number, where they are numbered (the option
            ``cells``).
        cells: ``(n, b)``, the filled cells: a place on each axis, from 0; ``(n, 1)``, their numbers.
        parameters: ``(n, d)`` float32, their policies'.
        fitness: ``(n,)``, with which each was found.
        behaviours: ``(n, b)``, with which each was found, within the ranges.
    """

    names: tuple[str, ...]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    grid: NDArray[np.int64]
    cells: NDArray[np.int64]
    parameters: NDArray[np.float32]
    fitness: NDArray[np.float64]
    behaviours: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.cells)

    def __repr__(self) -> str:
        size = " by ".join(map(str, self.grid))
        return f"<Repertoire of {len(self)} policies in {size} cells: {', '.join(self.names)}>"

    @property
    def is_numbered(self) -> bool:
        """True if cells are no grid's, and have a number instead of a place on each axis."""
        return len(self.grid) != len(self.names)

    @property
    def places(self) -> NDArray[np.float64]:
        """Where each policy is on each axis ``(n, b)``, from 0 to below 1."""
        if not self.is_numbered:
            return self.cells / self.grid
        return np.minimum(self.shares, 1 - 1e-9)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Behaviours as shares of their ranges ``(n, b)``, 0 to 1."""
        found: NDArray[np.float64] = (self.behaviours - self.lower) / (self.upper - self.lower)
        return found

    @property
    def coverage(self) -> float:
        """Share of the cells that are filled."""
        return len(self) / int(self.grid.prod())

    @classmethod
    def of(cls, checkpoint: Checkpoint) -> Self:
        """Read the repertoire of a checkpoint.

        Raises:
            ValueError: its strategy has none, or the file has only one policy.
        """
        config, state = checkpoint.config, checkpoint.strategy
        if not keeps_repertoire(config.strategy):
            raise ValueError(
                f"{checkpoint.where}: strategy {config.strategy!r} evolves one policy, and has no repertoire with "
                "cells; map_elites and cma_mae fill one (on the command line: --strategy cma_mae)"
            )
        if "cells" not in state:
            raise ValueError(f"{checkpoint.where}: this policy comes without the repertoire of its run")
        grid, lower, upper, behaviours = (state[name] for name in ("grid", "lower", "upper", "behaviours"))
        names = tuple(name for name, *_ in config.strategy_options["ranges"])
        if len(grid) != len(names):  # numbered cells: the strategy has behaviours as shares of their ranges
            behaviours = lower + behaviours * (upper - lower)
        return cls(
            names=names,
            lower=lower,
            upper=upper,
            grid=grid,
            cells=np.stack(np.unravel_index(state["cells"], grid), axis=1).astype(np.int64),
            parameters=state["elites"],
            fitness=state["fitness"],
            behaviours=behaviours,
        )

    def index(self, cell: Sequence[int]) -> int:
        """Row of a cell's policy.

        Raises:
            ValueError: there is no such cell, or it is empty; the message names the nearest that are filled.
        """
        given = list(cell) if isinstance(cell, Sequence | np.ndarray) and not isinstance(cell, str) else []
        names = ("its number",) if self.is_numbered else self.names
        if len(given) != len(self.grid) or any(
            whole(0, int(most) - 1)(int(each) if isinstance(each, np.integer) else each)
            for each, most in zip(given, self.grid, strict=True)
        ):
            axes = ", ".join(f"0 to {most - 1} for {name}" for name, most in zip(names, self.grid, strict=True))
            raise ValueError(f"a cell is a list of whole numbers, {axes}; got {shown(cell)}")
        if not len(self):
            raise ValueError(f"cell {cell_text(given)} is empty, as are all others: no generation has ended yet")
        distances = np.square((self.cells - given) / self.grid).sum(axis=1)
        nearest = np.argsort(distances, kind="stable")
        if distances[nearest[0]] > 0:
            others = " or ".join(cell_text(self.cells[row]) for row in nearest[:_NEAREST])
            raise ValueError(
                f"cell {cell_text(given)} is empty: {len(self)} of {self.grid.prod()} cells are filled; the nearest: "
                f"{others}"
            )
        return int(nearest[0])

    def describe(self, row: int) -> str:
        """The behaviour of a row's policy, in words."""
        values = zip(self.names, self.behaviours[row], strict=True)
        return ", ".join(f"{name} {value:.3g}" for name, value in values)

    def gallery(self, rows: int, columns: int) -> list[int]:
        """Rows of policies that show what there is, in the order of a picture: the first axis from left to right.

        The plane of the first two axes has ``rows`` times ``columns`` parts: the best policy of each, then, where
        parts are empty, those that lie farthest from all chosen ones.

        Args:
            rows: number of rows; the second axis points up.
            columns: number of columns.
        """
        wanted = min(rows * columns, len(self))
        plane = self.places[:, :2]
        plane = np.column_stack([plane, np.zeros((len(self), 2 - plane.shape[1]))])
        parts = (plane * (columns, rows)).astype(int) if len(self.names) > 1 else (plane * rows * columns).astype(int)
        best: dict[tuple[int, ...], int] = {}
        for row in np.argsort(-self.fitness, kind="stable"):
            best.setdefault(tuple(parts[row]), int(row))
        chosen = list(best.values())[:wanted]
        while len(chosen) < wanted:
            apart = np.square(plane[:, np.newaxis] - plane[chosen]).sum(axis=2).min(axis=1)
            apart[chosen] = -1
            chosen.append(int(np.argmax(apart)))
        down = sorted(chosen, key=lambda row: (-plane[row, 1], row))
        lines = [down[first : first + columns] for first in range(0, wanted, columns)]
        return [row for line in lines for row in sorted(line, key=lambda row: (plane[row, 0], row))]


def with_policy_of(checkpoint: Checkpoint, cell: Sequence[int]) -> Checkpoint:
    """The checkpoint with the policy of a cell of its repertoire, in place of its centre.

    Raises:
        ValueError: it has no repertoire, or the cell is empty.
    """
    repertoire = Repertoire.of(checkpoint)
    return replace(checkpoint, mean=repertoire.parameters[repertoire.index(cell)].copy())


def cell_text(cell: Any) -> str:
    """A cell as one gives it on the command line: 3,7."""
    return ",".join(str(int(each)) for each in cell)
