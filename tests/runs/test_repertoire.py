"""Repertoires in use: read, scored, filmed and exported cell by cell; and what is said where there is none."""

import json

import numpy as np
import pytest
from conftest import registered

pytest.importorskip("ribs")

import es_core
from es_core import Checkpoint, Run, evaluate, record, train
from es_core.cli import main
from es_core.runs.repertoire import Repertoire

GRID = [10, 6]
POLE = {
    "env_id": "Pole-v0",
    "entry_point": "gymnasium.envs.classic_control:CartPoleEnv",
    "behaviour": "small_envs:place_and_length",
    "behaviours": {"place": (-3, 3), "length": (0, 1)},
    "max_episode_steps": 30,
}


@pytest.fixture(scope="module")
def run(tiny, tmp_path_factory):
    """A run whose repertoire has some cells, and others empty."""
    settings = {**tiny, "strategy": "map_elites", "population_size": 16, "generations": 3, "policy": "linear"}
    settings.pop("hidden_sizes")
    with registered(**POLE) as pole:
        folder = tmp_path_factory.mktemp("runs") / "run"
        return train(pole.id, run_dir=folder, **settings, strategy_options={"grid": GRID})


@pytest.fixture(autouse=True)
def pole(register):
    register(**POLE)


def test_a_repertoire_is_read_from_the_latest_checkpoint(run):
    found, state = run.repertoire, run.checkpoint.strategy
    assert (found.names, found.grid.tolist(), found.lower.tolist()) == (("place", "length"), GRID, [-3, 0])
    assert len(found) == len(state["cells"]) > 3
    assert (found.cells @ [6, 1]).tolist() == state["cells"].tolist()
    assert found.coverage == run.history[-2].coverage == len(found) / 60
    assert repr(found) == f"<Repertoire of {len(found)} policies in 10 by 6 cells: place, length>"
    inside = ((found.behaviours - found.lower) / (found.upper - found.lower) * GRID).astype(int)
    assert np.minimum(inside, np.array(GRID) - 1).tolist() == found.cells.tolist()
    assert found.describe(0) == "place {:.3g}, length {:.3g}".format(*found.behaviours[0])


def test_a_cell_is_scored_on_unseen_starts(run, capsys):
    cell = run.repertoire.cells[0]
    score = evaluate(run, cell=cell, episodes=4, workers=1)
    assert score == evaluate(Checkpoint.load(run.checkpoint_path(3)), cell=tuple(cell), episodes=4, workers=1)
    text = ",".join(map(str, cell))
    words = ["evaluate", str(run.directory), "--cell", text, "--episodes", "4", "--workers", "1", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == score.mean
    with pytest.raises(ValueError, match="candidate and cell name two policies"):
        evaluate(run, cell=cell, candidate=0)


def test_an_empty_cell_names_the_nearest_that_are_filled(run):
    filled = run.repertoire.cells.tolist()
    empty = next([x, y] for x in range(10) for y in range(6) if [x, y] not in filled)
    with pytest.raises(ValueError, match=r"cell \d,\d is empty: \d+ of 60 cells are filled; the nearest: ") as error:
        evaluate(run, cell=empty)
    nearest = str(error.value).partition("the nearest: ")[2].split(" or ")
    assert len(nearest) == 3
    assert all([int(each) for each in cell.split(",")] in filled for cell in nearest)


@pytest.mark.parametrize("cell", [(3,), (3, 3, 3), (3, -1), (10, 0), "3,1", 3, (0.5, 1)])
def test_what_is_no_cell_is_refused(run, cell):
    with pytest.raises(ValueError, match="a cell is a list of whole numbers, 0 to 9 for place, 0 to 5 for length; got"):
        evaluate(run, cell=cell)


def test_a_run_without_a_repertoire_says_which_strategies_fill_one(walk, tiny, tmp_path):
    other = train(walk, run_dir=tmp_path / "run", **tiny)
    for use in (lambda: other.repertoire, lambda: evaluate(other, cell=(0, 0))):
        with pytest.raises(
            ValueError, match="one policy, and has no repertoire with cells; map_elites and cma_mae fill"
        ):
            use()


def test_an_earlier_generation_has_fewer_policies(run):
    first, last = Repertoire.of(es_core.rebuild(run, 1)), run.repertoire
    assert len(first) < len(last)
    assert evaluate(run, cell=first.cells[0], generation=1, episodes=1, workers=1).episodes == 1
    with pytest.raises(ValueError, match="is empty, as are all others: no generation has ended yet"):
        evaluate(run, cell=(0, 2), generation=0)


def test_a_gallery_films_cells_side_by_side_from_left_to_right(run, tmp_path):
    assert len(record(run, tmp_path / "gallery.mp4", gallery="2x2", width=320, workers=1)) == 4
    described = json.loads((tmp_path / "gallery.json").read_text())
    names = [player["name"] for player in described["shots"][0]["players"]]
    places = [[int(each) for each in name.removeprefix("cell ").split(",")] for name in names]
    assert places[0][0] <= places[1][0]
    assert places[2][0] <= places[3][0]
    assert min(places[0][1], places[1][1]) >= max(places[2][1], places[3][1])
    assert described["layout"] == "grid"


def test_a_cell_is_filmed_with_its_name(run, tmp_path):
    cell = run.repertoire.cells[1]
    (episode,) = Run.open(run.directory).record(tmp_path / "cell.mp4", cell=cell, workers=1)
    assert episode.fitness == evaluate(run, cell=cell, episodes=1, workers=1).mean
    player = json.loads((tmp_path / "cell.json").read_text())["shots"][0]["players"][0]
    assert player["name"] == f"cell {cell[0]},{cell[1]}"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gallery": "4"}, "gallery must be a number of rows and one of columns, such as '4x4', got '4'"),
        ({"gallery": "0x4"}, "gallery must be"),
        ({"gallery": "2x2", "cell": (1, 2)}, "cells of a repertoire, or other policies: cell or gallery"),
        ({"gallery": "2x2", "generations": [1]}, "gallery or generations"),
        ({"cell": (1, 2), "candidate": 1}, "cell or candidate"),
        ({"cell": (1, 2), "compare": "x"}, "cell or compare"),
        ({"gallery": "2x2", "layout": "ghosts"}, "gallery or layout='ghosts'"),
        ({"cell": (1, 2), "layout": "grid"}, "to be filmed without a layout"),
    ],
)
def test_options_of_a_film_that_name_two_things_are_refused(run, options, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        record(run, tmp_path / "film.mp4", **options)


def repertoire(cells, grid, fitness):
    cells = np.array(cells)
    return Repertoire(
        names=("x", "y")[: len(grid)],
        lower=np.zeros(len(grid)),
        upper=np.ones(len(grid)),
        grid=np.array(grid),
        cells=cells,
        parameters=np.zeros((len(cells), 1), np.float32),
        fitness=np.array(fitness, float),
        behaviours=cells / np.array(grid),
    )


def test_a_gallery_shows_the_best_of_each_part_and_then_what_is_farthest():
    cells = [(0, 0), (1, 1), (2, 0), (0, 3), (3, 2)]
    found = repertoire(cells, [4, 4], [1, 2, 3, 4, 5])
    assert [cells[row] for row in found.gallery(2, 2)] == [(0, 3), (3, 2), (1, 1), (2, 0)]
    assert sorted(found.gallery(9, 9)) == [0, 1, 2, 3, 4]
    without_a_part = repertoire(cells[:4], [4, 4], [1, 2, 3, 4])
    assert [cells[row] for row in without_a_part.gallery(2, 2)] == [(0, 3), (1, 1), (0, 0), (2, 0)]
    assert repertoire([(0,), (5,), (7,)], [8], [1, 1, 1]).gallery(1, 2) == [0, 1]


@pytest.mark.slow
def test_cells_that_are_no_grids_have_numbers(run, tiny, tmp_path, capsys):
    settings = {**tiny, "strategy": "map_elites", "population_size": 16, "generations": 3, "policy": "linear"}
    settings.pop("hidden_sizes")
    numbered = train("Pole-v0", run_dir=tmp_path / "run", **settings, strategy_options={"cells": 20})
    found = numbered.repertoire
    assert (found.grid.tolist(), found.cells.shape) == ([20], (len(found), 1))
    assert repr(found) == f"<Repertoire of {len(found)} policies in 20 cells: place, length>"
    assert ((found.behaviours >= found.lower) & (found.behaviours <= found.upper)).all()
    assert np.ptp(found.behaviours[:, 0]) > 0.1
    number = str(found.cells[0, 0])
    words = ["evaluate", str(numbered.directory), "--cell", number, "--episodes", "4", "--workers", "1", "--json"]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == evaluate(numbered, cell=found.cells[0], episodes=4).mean
    with pytest.raises(ValueError, match="a cell is a list of whole numbers, 0 to 19 for its number; got"):
        evaluate(numbered, cell=(3, 4))
    assert len(set(found.gallery(2, 2))) == 4
    page = numbered.report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert f'data-cell="{number}"' in page
    assert "place and length" in page


@pytest.mark.slow
def test_a_cell_is_exported(run, tmp_path):
    pytest.importorskip("onnxruntime")
    exported = es_core.export(run, tmp_path / "cell.onnx", cell=run.repertoire.cells[0])
    assert exported.largest_difference < 1e-5
