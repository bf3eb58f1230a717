"""The map of a repertoire on a page: two numbers of a behaviour as a plane, and in each place the best policy there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from es_core.formatting import figures
from es_core.runs.repertoire import Repertoire, cell_text

_SIDE = 420  # units of the picture
_STRIP = 60  # height of the map of one number
_FINEST = 100  # places on an axis: a page is no picture of a million cells
_FAINTEST = 0.12  # opacity of the lowest fitness


@dataclass(frozen=True, kw_only=True)
class Place:
    """A place on the map.

    Attributes:
        x: left edge.
        y: upper edge.
        shade: opacity, by fitness.
        cell: its best policy's cell, as one gives it on the command line.
        text: fitness and behaviour.
        command: command that films it.
    """

    x: float
    y: float
    shade: float
    cell: str
    text: str
    command: str


@dataclass(frozen=True, kw_only=True)
class RepertoireMap:
    """A map.

    Attributes:
        title: the names of its axes.
        across: name of the horizontal axis, and its ends.
        up: the same of the vertical axis; None: there is none.
        size: width and height of a place.
        height: of the whole map, whose width is 420.
        places: the filled places.
        best: the one with the highest fitness.
    """

    title: str
    across: tuple[str, str, str]
    up: tuple[str, str, str] | None
    size: tuple[float, float]
    height: float
    places: tuple[Place, ...]
    best: Place


def repertoire_maps(repertoire: Repertoire, command: Callable[[list[int]], str]) -> Iterator[RepertoireMap]:
    """Draw each pair of the numbers of a behaviour; where a place has several cells, their best policy stands for them.

    All maps share one palette: from the lowest to the highest fitness of the repertoire.

    Args:
        repertoire: the repertoire.
        command: returns the command that films a cell's policy.
    """
    if not len(repertoire):
        return
    axes = range(len(repertoire.names))
    for pair in combinations(axes, 2) if len(axes) > 1 else [(0,)]:
        yield _map(repertoire, pair, command)


def _map(repertoire: Repertoire, pair: tuple[int, ...], command: Callable[[list[int]], str]) -> RepertoireMap:
    chosen = list(pair)
    # Numbered cells lie anywhere: squares of about their size stand for them.
    fineness = [int(repertoire.grid[0] ** 0.5)] * 2 if repertoire.is_numbered else repertoire.grid[chosen]
    counts = np.minimum(fineness, _FINEST)[: len(chosen)]
    bins = (repertoire.places[:, chosen] * counts + 1e-9).astype(int)
    height = _SIDE if len(pair) > 1 else _STRIP
    size = _SIDE / counts[0], height / (counts[1] if len(pair) > 1 else 1)
    low, high = repertoire.fitness.min(), repertoire.fitness.max()
    places: dict[tuple[int, ...], Place] = {}
    for row in np.argsort(-repertoire.fitness, kind="stable"):
        where = tuple(bins[row].tolist())
        if where in places:
            continue
        share = (repertoire.fitness[row] - low) / (high - low) if high > low else 1.0
        up = where[1] if len(where) > 1 else 0
        places[where] = Place(
            x=round(where[0] * size[0], 2),
            y=round(height - (up + 1) * size[1], 2),
            shade=round(_FAINTEST + (1 - _FAINTEST) * share, 3),
            cell=cell_text(repertoire.cells[row]),
            text=f"fitness {figures(float(repertoire.fitness[row]))}; {repertoire.describe(int(row))}",
            command=command(repertoire.cells[row].tolist()),
        )
    ends = [(repertoire.names[axis], f"{repertoire.lower[axis]:g}", f"{repertoire.upper[axis]:g}") for axis in chosen]
    return RepertoireMap(
        title=" and ".join(name for name, *_ in ends),
        across=ends[0],
        up=ends[1] if len(ends) > 1 else None,
        size=(round(size[0], 2), round(size[1], 2)),
        height=height,
        places=tuple(places.values()),
        best=next(iter(places.values())),
    )
