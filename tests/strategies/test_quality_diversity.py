"""Repertoires: what the strategies keep, what they refuse, and that nothing of ribs is needed to continue."""

import sys

import numpy as np
import pytest
from written import lines, require_equal

from es_core import TrainConfig, rebuild, train
from es_envs import EnvDefinition

pytest.importorskip("ribs")

from scipy.stats.qmc import Sobol

from es_core.strategies.cma_mae import CMAMAE
from es_core.strategies.map_elites import MAPElites

NAMES = ["map_elites", "cma_mae"]
STRATEGIES = {"map_elites": MAPElites, "cma_mae": CMAMAE}
PLANE = [["x", -1, 1], ["y", -1, 1]]
WALKED = {"place": (-7, 7), "steps": (0, 5)}


def make(name="map_elites", size=6, **options):
    usual = {"population_size": 24, "sigma": 0.3, "ranges": PLANE, "grid": [8, 8], **options}
    return STRATEGIES[name](np.zeros(size, np.float32), **usual)


def evolve(strategy, generations, *, failing=()):
    """The behaviour is the first two parameters, within the ranges; the fitness is higher where all are small."""
    for _ in range(generations):
        population = strategy.ask()
        candidates = np.array([population.candidate(index) for index in range(len(population))], float)
        behaviours, fitness = np.tanh(candidates[:, :2]), -np.square(candidates).sum(axis=1)
        valid = np.isin(np.arange(len(population)), failing, invert=True)
        behaviours[~valid] = fitness[~valid] = np.nan
        strategy.observe_behaviours(behaviours)
        strategy.tell(fitness, valid)
    return strategy


@pytest.mark.parametrize("name", NAMES)
def test_a_grid_fills_and_each_cell_keeps_the_best_that_landed_in_it(name):
    strategy = make(name)
    best = {}
    for _ in range(12):
        population = strategy.ask()
        candidates = np.array([population.candidate(index) for index in range(len(population))], float)
        behaviours, fitness = np.tanh(candidates[:, :2]), -np.square(candidates).sum(axis=1)
        strategy.observe_behaviours(behaviours)
        strategy.tell(fitness)
        rows, columns = np.clip((behaviours + 1) / 2 * 8, 0, 7).astype(int).T
        for cell, value in zip(rows * 8 + columns, fitness, strict=True):
            best[cell] = max(value, best.get(cell, -np.inf))
    assert dict(zip(strategy.cells, strategy.fitness, strict=True)) == best
    found = strategy.diagnostics
    assert found["coverage"] == len(best) / 64 > 0.3
    assert found["best_elite"] == max(best.values()) == pytest.approx(-np.square(strategy.mean.astype(float)).sum())
    assert found["qd_score"] == pytest.approx(sum(max(value - strategy.floor, 0) for value in best.values()))
    assert found["out_of_range"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_without_a_grid_each_candidate_lands_in_the_cell_of_the_nearest_point(name):
    ranges = [["x", -1, 1], ["y", -100, 100]]
    strategy = make(name, ranges=ranges, grid=None, cells=40)
    seen = {}
    for _ in range(12):
        population = strategy.ask()
        candidates = np.array([population.candidate(index) for index in range(len(population))], float)
        shares, fitness = (np.tanh(candidates[:, :2]) + 1) / 2, -np.square(candidates).sum(axis=1)
        strategy.observe_behaviours(np.column_stack([shares[:, 0] * 2 - 1, shares[:, 1] * 200 - 100]))
        strategy.tell(fitness)
        seen |= dict(zip(fitness, shares, strict=True))
    assert strategy.diagnostics["coverage"] == len(strategy.cells) / 40 > 0.4
    assert set(strategy.fitness) < set(seen)
    places = np.array([seen[value] for value in strategy.fitness])
    np.testing.assert_allclose(strategy.behaviours, places, atol=1e-12)
    # Both axes count alike, though one is a hundred times as long: no elite is nearer to another cell's neighbourhood.
    points = Sobol(2, scramble=False).fast_forward(1).random(40)
    nearest = np.square(places[:, np.newaxis] - points).sum(axis=2).argmin(axis=1)
    assert nearest.tolist() == strategy.cells.tolist()


@pytest.mark.parametrize("options", [{}, {"grid": None, "cells": 30}])
@pytest.mark.parametrize("size", [6, 250])
@pytest.mark.parametrize("name", NAMES)
def test_a_restored_strategy_continues_bit_for_bit_though_some_fail(name, size, options):
    whole = evolve(make(name, size, **options), 7, failing=(0, 5))
    restored = make(name, size, **options)
    restored.load_state_dict(evolve(make(name, size, **options), 3, failing=(0, 5)).state_dict())
    evolve(restored, 4, failing=(0, 5))
    for key, value in whole.state_dict().items():
        np.testing.assert_array_equal(value, restored.state_dict()[key], err_msg=key)


@pytest.mark.parametrize("name", NAMES)
def test_two_workers_an_interruption_and_the_log_give_the_same_bits(name, register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:place_and_steps", behaviours=WALKED)
    settings = {**tiny, "strategy": name, "population_size": 8, "generations": 4, "checkpoint_every": 1}
    settings["strategy_options"] = {"grid": [10, 5]}
    whole = train(env_id, run_dir=tmp_path / "whole", **{**settings, "workers": 2})
    train(env_id, run_dir=tmp_path / "other", **settings, on_generation=lambda stats: stats.generation < 1)
    require_equal(train(env_id, run_dir=tmp_path / "other", **settings, resume=True), whole)
    whole.checkpoint_path(3).unlink()
    rebuild(whole, 3).save(tmp_path / "rebuilt")
    assert (tmp_path / "rebuilt").read_bytes() == (tmp_path / "other/checkpoints/000003.safetensors").read_bytes()
    written = lines(whole)
    assert [line["coverage"] is None for line in written] == [False] * 4 + [True]
    assert sum(line["new_cells"] for line in written[:-1]) == len(whole.checkpoint.strategy["cells"])


def test_names_and_ranges_are_the_environments_unless_the_run_has_others(register):
    env_id = register(behaviour="small_envs:place_and_steps", behaviours=WALKED)
    known = TrainConfig.for_env(env_id, strategy="map_elites")
    assert known.strategy_options == {"ranges": [["place", -7, 7], ["steps", 0, 5]]}
    assert known.solved_at is None
    other = TrainConfig.for_env(env_id, strategy="map_elites", strategy_options={"ranges": {"steps": [0, 9]}})
    assert other.strategy_options == {"ranges": [["place", -7, 7], ["steps", 0, 9]]}
    with pytest.raises(ValueError, match="has no behaviour 'speed', it names place, steps"):
        TrainConfig.for_env(env_id, strategy="map_elites", strategy_options={"ranges": {"speed": [0, 9]}})


def test_a_run_keeps_the_ranges_with_which_it_began(register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:place_and_steps", behaviours=WALKED)
    settings = {**tiny, "strategy": "map_elites", "generations": 1, "run_dir": tmp_path / "run"}
    run = train(env_id, **settings)
    with pytest.raises(ValueError, match="strategy_options cannot change in a resumed run"):
        train(env_id, **settings, strategy_options={"ranges": {"steps": [0, 9]}}, resume=True)
    other = MAPElites(run.best.mean, population_size=8, sigma=0.1, ranges=[["place", -7, 8], ["steps", 0, 5]])
    with pytest.raises(ValueError, match="a repertoire keeps the ranges and the grid with which it began"):
        other.load_state_dict(run.checkpoint.strategy)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"names none: give its EnvDefinition a function behaviour and behaviours="),
        ({"observation_normalization": True}, "keeps policies of many generations"),
        ({"restarts": 1}, "its repertoire would be lost"),
        ({"episode_seeds": "grouped"}, "compares fitness between generations"),
    ],
)
def test_a_run_that_could_have_no_repertoire_is_refused(settings, message, register, tiny, tmp_path):
    given = {**tiny, "strategy": "map_elites", "run_dir": tmp_path / "run", "generations": 9, **settings}
    env_id = register(behaviours=WALKED if settings else {})
    with pytest.raises(ValueError, match=message):
        train(env_id, **given)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranges": [["x", 1, 1]]}, "each lowest below its highest"),
        ({"ranges": [["x", 0]]}, "ranges must be a list of names with lowest and highest values"),
        ({"grid": [8]}, r"grid must be a list of 2 whole numbers of at least 1, the cells for x, y; got \[8\]"),
        ({"grid": [8, 0]}, "grid must be"),
        ({"grid": [4000, 2500]}, r"has 1e\+07 cells, and with 6 parameters each a full archive would take 0.24 GB"),
        ({"grid": [100, 100], "size": 50_000}, "choose fewer cells on each axis, or fewer axes"),
        ({"floor": np.nan}, "floor must be a finite number"),
        ({"cells": 9}, r"grid=\[8, 8\] and cells=9 exclude each other"),
        ({"grid": None, "cells": 1}, "cells must be a whole number of at least 2"),
        ({"grid": None, "cells": 9, "ranges": [["x", 0, 1]]}, r"for one, choose grid=\[9\]"),
        ({"grid": None, "cells": 10**7}, "cells=10000000: at most 100000 are allowed with 6 parameters"),
    ],
)
def test_settings_that_make_no_cells_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_emitters_share_a_population_that_is_large_enough():
    assert len(make("cma_mae", population_size=11, emitters=3).ask()) == 11
    with pytest.raises(ValueError, match="too small for 4 emitters, of at least 2 candidates each"):
        make("cma_mae", population_size=7)


def test_behaviours_beyond_their_ranges_count_as_at_the_border_and_are_told_once():
    strategy = make(ranges=[["x", -0.5, 0.5], ["y", -1, 1]], floor=-1)
    strategy.ask()
    found = np.tile([0.0, 0.1], (24, 1))
    found[:6, 0] = 1e300
    strategy.observe_behaviours(found)
    with pytest.warns(
        RuntimeWarning, match=r"6 of 24 candidates of generation 0 .* 'x' is 1e\+300 to 1e\+300, its range"
    ):
        strategy.tell(np.zeros(24))
    assert strategy.diagnostics["out_of_range"] == 0.25
    assert strategy.behaviours.tolist() == [[0, 0.1], [0.5, 0.1]]
    assert strategy.diagnostics["qd_score"] == 2
    strategy.ask()
    strategy.observe_behaviours(found)
    strategy.tell(np.zeros(24))  # warnings are errors in these tests


def test_a_behaviour_that_is_always_the_same_is_told():
    strategy = make()
    strategy.ask()
    strategy.observe_behaviours(np.full((24, 2), 0.5))
    with pytest.warns(RuntimeWarning, match=r"all 24 candidates of generation 0 have the same behaviour, 0\.5, 0\.5"):
        strategy.tell(np.arange(24.0))
    assert len(strategy.cells) == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_generation_without_any_behaviour_changes_nothing(name):
    strategy = make(name)
    strategy.ask()
    strategy.observe_behaviours(np.full((24, 2), np.nan))
    strategy.tell(np.zeros(24))
    assert len(strategy.cells) == 0
    assert strategy.diagnostics["best_elite"] is None
    assert len(evolve(strategy, 2).cells) > 1


@pytest.mark.parametrize("value", [(1, 0), (0, np.inf), 3, ("a", "b"), (0, 1, 2)])
def test_a_definition_refuses_what_is_no_range(value):
    with pytest.raises(ValueError, match=r"behaviours\['place'\] must be its lowest and highest value"):
        EnvDefinition(id="Walk-v0", entry_point="small_envs:Walk", behaviours={"place": value})


def test_a_behaviour_of_another_size_than_its_names_is_refused(register, tiny, tmp_path):
    env_id = register(behaviour="small_envs:place_and_steps", behaviours={"place": (-7, 7)})
    with pytest.raises(Exception, match=r"it returned 2 numbers, and behaviours names 1: \['place'\]"):
        train(env_id, run_dir=tmp_path / "run", **{**tiny, "strategy": "map_elites"})


def test_without_ribs_the_error_names_what_to_install(monkeypatch):
    for name in ("ribs", "ribs.archives"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"strategies that fill a repertoire need ribs: pip install 'es-envs\[qd\]'"):
        make()
