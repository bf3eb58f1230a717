"""A search that restarts at a plateau, with twice the candidates: through whole runs."""

import shutil
from itertools import pairwise

import numpy as np
import pytest
from conftest import first_fast
from written import lines, require_equal, rewrite_checkpoint

from es_core import Checkpoint, Run, TrainConfig, rebuild, train
from es_core.cli import main
from es_core.files import CheckpointError
from es_core.runs.generation_log import GenerationLog
from es_core.training.rules.rule import recent_generations
from es_envs import hookimpl

SETTINGS = {
    "generations": 130, "population_size": 8, "hidden_sizes": (), "initialization": "fan_in", "sigma": 0.3,
    "observation_normalization": True, "eval_budget": None, "eval_episodes": 2, "confirm_episodes": 2, "restarts": 2,
    "workers": 1, "progress": False,
}  # fmt: skip
STUCK = {"fitness": "small_envs:constant"}
RESTARTING = ("openai_es", "cma_es", *(
    pytest.param(name, marks=pytest.mark.long) for name in ("ars", "pgpe", "snes", "sep_cma_es", "ga", "random_search")
))  # fmt: skip


@pytest.fixture
def aim(register):
    return register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)


LEDGE = {
    "generations": 4, "population_size": 8, "hidden_sizes": (), "initialization": "zeros", "output_scale": 1.0,
    "observation_normalization": False, "action_squash": "clip", "eval_budget": None, "eval_every": 1,
    "eval_episodes": 2, "confirm_episodes": 2, "workers": 1, "progress": False, "solved_at": None, "sigma": "auto",
}  # fmt: skip


@pytest.fixture
def ledge(register):
    return register("Ledge-v0", "small_envs:Ledge", fitness="episode_return", max_episode_steps=1)


@pytest.mark.parametrize("strategy", RESTARTING)
def test_a_stuck_search_begins_again_with_twice_the_candidates(strategy, aim, tmp_path, capsys):
    run = train(aim, run_dir=tmp_path / "run", strategy=strategy, **{**SETTINGS, **STUCK, "progress": True})
    first = next(stats.generation for stats in run.history if stats.rules["plateau"] == 1)
    assert first == 101  # a plateau has 100 generations, and is seen after them
    populations = [(stats.rules["plateau"], stats.population_size) for stats in run.history[:-1]]
    assert populations == [(0, 8)] * first + [(1, 16)] * (130 - first)
    hint = "restarted with 16 candidates (restart 1 of 2); the best so far is kept"
    assert capsys.readouterr().err.count(hint) == 1
    again, before = (rebuild(run, generation) for generation in (first, first - 1))
    assert not np.array_equal(again.mean, rebuild(run, 0).mean)
    assert again.statistics.count > before.statistics.count > 0  # what is known of observations stays


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["cma_es", pytest.param("ga", marks=pytest.mark.long)])
def test_a_run_that_began_again_is_the_same_with_two_workers_resumed_and_rebuilt(strategy, aim, tmp_path):
    fields = {**SETTINGS, **STUCK, "strategy": strategy}
    run = train(aim, run_dir=tmp_path / "run", **fields)
    require_equal(train(aim, run_dir=tmp_path / "two", **{**fields, "workers": 2}), run)
    for bound in (100, 101, 102, 115):
        shorter = train(aim, run_dir=tmp_path / str(bound), **{**fields, "on_generation": stops_after(bound)})
        require_equal(shorter.resume(workers=1, progress=False), run)
    for generation in (100, 101, 102, 129):
        assert rebuild(run, generation).mean.tobytes() == rebuilt_from_nothing(run, tmp_path, generation).tobytes()


class Heard:
    """Hears the fitness of each population."""

    def __init__(self):
        self.fitness = []

    @hookimpl
    def generation_finished(self, fitness):
        self.fitness.append(fitness)


def stops_after(generation):
    return lambda stats: stats.generation < generation


def rebuilt_from_nothing(run, folder, generation):
    bare = folder / f"bare-{generation}"
    shutil.copytree(run.directory, bare)
    shutil.rmtree(bare / "checkpoints")
    (bare / "checkpoints").mkdir()
    return rebuild(bare, generation, trust=True).mean


@pytest.mark.parametrize("strategy", ["openai_es", "cma_es"])
def test_generations_that_gain_nothing_have_twice_the_steps_up_to_a_limit(strategy, aim, tmp_path):
    fields = {**SETTINGS, **STUCK, "strategy": strategy, "steps_per_generation": 8, "max_steps_per_generation": 40}
    run = train(aim, run_dir=tmp_path / "run", **fields | {"generations": 70})
    sizes = [stats.population_size for stats in run.history[:-1]]
    assert sizes == [8] * 21 + [16] * 20 + [32] * 29  # after 20 generations, and one in which that is seen
    assert {stats.rules["plateau"] for stats in run.history} == {0}
    shorter = train(aim, run_dir=tmp_path / "shorter", **fields | {"on_generation": stops_after(30), "generations": 70})
    require_equal(shorter.resume(workers=1, progress=False), run)
    assert rebuilt_from_nothing(run, tmp_path, 69).tobytes() == rebuild(run, 69).mean.tobytes()


def test_once_a_search_has_stalled_a_start_counts_by_what_is_at_stake_there(aim, tmp_path):
    fields = {**SETTINGS, "strategy": "cma_es", "generations": 70, "episode_seeds": "grouped"}
    fields |= {"fitness": "small_envs:scaled_by_seed", "steps_per_generation": 8, "max_steps_per_generation": 16}
    heard = Heard()
    run = train(aim, run_dir=tmp_path / "run", loggers=[heard], **fields)
    sizes = set()
    for fitness, line in zip(heard.fitness[:-1], lines(run), strict=False):
        groups = fitness.reshape(-1, 4)  # of candidates with the same starts
        above = groups - np.median(groups, axis=1, keepdims=True)
        within = np.argsort(np.argsort(groups))
        learnt = GenerationLog.from_json(line["log"], before={}).fitness
        expected = above if fitness.size > 8 else within
        assert np.array_equal(np.argsort(learnt, kind="stable"), np.argsort(expected.ravel(), kind="stable"))
        sizes.add(fitness.size)
    assert {8, 16} <= sizes


def test_a_search_that_begins_again_has_twice_the_steps_of_a_generation_too(aim, tmp_path):
    fields = {**SETTINGS, **STUCK, "steps_per_generation": 24, "restarts": 1, "generations": 110}
    run = train(aim, run_dir=tmp_path / "run", strategy="cma_es", **fields)
    sizes = [(stats.rules["plateau"], stats.population_size) for stats in run.history[:-1]]
    assert sizes == [(0, 8)] + [(0, 24)] * 100 + [(1, 16)] + [(1, 48)] * 8  # an episode has one step
    shorter = train(aim, run_dir=tmp_path / "shorter", strategy="cma_es", **fields, on_generation=stops_after(105))
    require_equal(shorter.resume(workers=1, progress=False), run)
    assert rebuilt_from_nothing(run, tmp_path, 109).tobytes() == rebuild(run, 109).mean.tobytes()


def test_a_search_that_would_begin_again_after_the_last_generation_is_not_announced(aim, tmp_path, capsys):
    fields = {**SETTINGS, **STUCK, "restarts": 1, "generations": 101, "progress": True}
    train(aim, run_dir=tmp_path / "run", strategy="openai_es", **fields)
    assert "begun again" not in capsys.readouterr().err


def test_the_best_centre_of_all_searches_is_kept(aim, tmp_path):
    run = train(
        aim, run_dir=tmp_path / "run", strategy="openai_es", learning_rate=0.2, **SETTINGS | {"generations": 250}
    )
    assert run.history[-1].rules["plateau"] >= 1
    confirmed = [stats for stats in run.history if stats.confirmation is not None]
    best = max(confirmed, key=lambda stats: stats.confirmation.mean)
    assert run.best.generation == best.generation
    assert best.rules["plateau"] < run.history[-1].rules["plateau"] or best.rules["plateau"] == 0


def test_a_plateau_ends_a_run_after_its_last_restart(aim, tmp_path, capsys):
    fields = {**SETTINGS, **STUCK, "restarts": 1, "generations": 300, "stop_at_plateau": True}
    run = train(aim, run_dir=tmp_path / "run", strategy="openai_es", **fields)
    assert run.end == "plateau"
    assert [stats.rules["plateau"] for stats in run.history] == [0] * 101 + [1] * 101
    assert main(["report", str(run.directory), "--trust-names"]) == 0
    page = (run.directory / "report.html").read_text(encoding="utf-8")
    assert "8 to 16 candidates each; begun again 1 of 1 times, with twice as many" in page


def test_a_radius_stays_as_it_is_though_all_candidates_fall(ledge, tmp_path, capsys):
    fields = {**LEDGE, "strategy": "pgpe", "strategy_options": {"radius": 1.0}, "progress": True}
    first, second, *_ = train(ledge, run_dir=tmp_path / "run", **fields).history
    assert first.fitness_max < 99
    assert second.sigma == pytest.approx(first.sigma, rel=0.2)
    assert "begun again" not in capsys.readouterr().err


@pytest.mark.parametrize("strategy", first_fast(["cma_es", "sep_cma_es", "snes", "pgpe"], 1))
def test_candidates_that_all_fall_far_below_their_centre_are_followed_by_closer_ones(strategy, ledge, tmp_path, capsys):
    fields = {**LEDGE, "strategy": strategy}
    run = train(ledge, run_dir=tmp_path / "run", **{**fields, "progress": True})
    first, second, *_ = run.history
    assert first.fitness_max < 99 < second.fitness_max
    assert first.evaluation.mean == 100
    assert second.sigma == pytest.approx(first.sigma / 10, rel=0.05)
    assert second.parameter_hash == first.parameter_hash
    assert capsys.readouterr().err.count("no candidate comes near its centre: restarted with a tenth") == 1
    require_equal(train(ledge, run_dir=tmp_path / "two", **{**fields, "workers": 2}), run)
    for bound in (0, 1, 2):
        shorter = train(ledge, run_dir=tmp_path / str(bound), **{**fields, "on_generation": stops_after(bound)})
        require_equal(shorter.resume(workers=1, progress=False), run)
    for generation in (1, 3):
        assert rebuild(run, generation).mean.tobytes() == rebuilt_from_nothing(run, tmp_path, generation).tobytes()


@pytest.mark.slow
def test_a_search_that_is_stuck_with_failing_early_begins_again_with_closer_candidates(register, tmp_path, capsys):
    fleeing = register("Fleeing-v0", "small_envs:Fleeing", fitness="episode_return", max_episode_steps=100)
    fields = {"max_steps": 60_000, "workers": 1, "progress": False, "checkpoint_every": 5}
    run = train(fleeing, run_dir=tmp_path / "run", **{**fields, "progress": True})
    (narrowed,) = (
        late.generation for early, late in pairwise(run.history) if late.sigma and late.sigma < early.sigma / 3
    )
    said = capsys.readouterr().err
    assert said.count("ending early scored better than continuing: restarted with a tenth of sigma") == 1
    assert "each step costs more" not in said  # the run knows what to do
    before = next(stats.evaluation for stats in run.history[narrowed - 1 :: -1] if stats.evaluation is not None)
    after = run.history[-1].final
    assert before.length < 50 < 90 < after.length
    assert after.mean > before.mean
    require_equal(train(fleeing, run_dir=tmp_path / "two", **{**fields, "workers": 2}), run)
    for bound in (narrowed - 1, narrowed, narrowed + 1):
        shorter = train(fleeing, run_dir=tmp_path / str(bound), **{**fields, "on_generation": stops_after(bound)})
        require_equal(shorter.resume(workers=1, progress=False), run)
    assert rebuild(run, narrowed + 1).mean.tobytes() == rebuilt_from_nothing(run, tmp_path, narrowed + 1).tobytes()
    ours = recent_generations(run.history, 1)  # what came before says nothing about the new search
    assert [stats.generation for stats in ours] == [*range(narrowed, len(run.history) - 1)]


def test_an_older_run_keeps_its_population(aim):
    new = {"restarts": 0, "steps_per_generation": None, "steps_limit": None}
    older = {name: value for name, value in TrainConfig.for_env(aim).to_json().items() if name not in new}
    assert {name: getattr(TrainConfig.from_json(older), name) for name in new} == new


def test_a_run_may_start_from_another_run(aim, tmp_path):
    fields = {"generations": 2, "workers": 1, "progress": False}
    first = train(aim, run_dir=tmp_path / "first", **fields)
    for number, source in enumerate((first, first.directory, first.best)):
        second = train(aim, run_dir=tmp_path / str(number), initial=source, **fields)
        assert rebuild(second, 0).mean.tobytes() == first.best.mean.tobytes()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"strategy": "erl", "population_size": 11}, "its learner would be lost"),
        ({"strategy": "openai_es", "population_size": 600_000}, "more than 1000000"),
        ({"strategy": "openai_es", "sigma_final": 0.1}, "a search that restarts late would hardly explore"),
        (
            {"strategy": "erl", "steps_per_generation": 40},
            "'erl' keeps its population_size, and steps_per_generation w",
        ),
        (
            {"strategy": "snes", "steps_per_generation": 40, "max_steps_per_generation": 39},
            "max_steps_per_generation=39 is less than steps_per_generation=40",
        ),
        (
            {"strategy": "snes", "max_steps_per_generation": 39},
            "changes nothing without steps_per_generation",
        ),
    ],
    ids=["learner", "size", "schedule", "fixed", "limit", "none"],
)
def test_populations_that_cannot_be_are_refused_with_the_reason(fields, reason, aim, tmp_path):
    with pytest.raises(ValueError, match=reason):
        train(aim, run_dir=tmp_path / "run", **{**SETTINGS, **fields})
    assert not (tmp_path / "run").exists()


def test_a_checkpoint_with_more_restarts_than_its_run_allows_is_damaged(aim, tmp_path):
    run = train(aim, run_dir=tmp_path / "run", strategy="cma_es", **SETTINGS | {"generations": 2})
    path = rewrite_checkpoint(
        run.checkpoint_path(2), lambda document, arrays: document["progress"]["rules"].update(plateau=60)
    )
    metrics = run.directory / "metrics.jsonl"
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:2]))
    with pytest.raises(CheckpointError, match="its plateau must be a whole number of at least 0, at most 2, got 60"):
        Run.open(run.directory).resume(generations=3, workers=1, progress=False)
    assert Checkpoint.load(path).generation == 2  # its policy can be used all the same


@pytest.fixture
def widening(register):
    return register("Widening-v0", "small_envs:Widening", fitness="episode_return", max_episode_steps=1)


WIDENING = {
    "strategy": "cma_es", "policy": "mlp", "hidden_sizes": (), "randomize": {"distance": [0.0, 1.0]}, "eval_every": 0,
    "workers": 1, "progress": False,
}  # fmt: skip


def test_a_curriculum_that_grows_is_a_gain_though_fitness_is_not(widening, tmp_path):
    steps = {"population_size": 16, "steps_per_generation": 16, "max_steps_per_generation": 256}
    run = train(
        widening, run_dir=tmp_path / "run", curriculum=-0.05, sigma=0.02, generations=60, seed=0, **steps, **WIDENING
    )
    *played, _ = run.history
    growing = [stats for before, stats in pairwise(played) if stats.rules["curriculum"] > before.rules["curriculum"]]
    assert len(growing) > 2
    assert growing[-1].generation > 20  # in a second block, whose fitness is no higher than that of the first
    assert {stats.population_size for stats in played if stats.generation <= growing[-1].generation} == {16}


def test_a_search_that_begins_again_begins_with_the_easiest_worlds_too(widening, tmp_path):
    settings = {**WIDENING, "fitness": "small_envs:luck", "population_size": 4, "generations": 103, "restarts": 1}
    run = train(widening, run_dir=tmp_path / "run", curriculum=-100.0, seed=0, **settings)
    shares = [stats.rules["curriculum"] for stats in run.history[:-1]]
    assert [shares[at] for at in (0, 1, 100, 101, 102)] == pytest.approx([0.0, 0.1, 1.0, 0.0, 0.1])
    assert [run.history[at].rules["plateau"] for at in (100, 101)] == [0, 1]
