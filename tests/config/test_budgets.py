"""What a generation and a run may spend, and what the candidates' episodes are: through whole runs."""

import itertools
import json
import math
import re
import shutil

import numpy as np
import pytest
from written import lines, require_equal

from es_core import Run, TrainConfig, train
from es_core.cli import main
from es_core.config.budgets import step_limit
from es_core.config.commands import changed_settings
from es_core.reports.run_charts import run_charts
from es_envs import EnvDefinition, hookimpl

SETTINGS = {
    "generations": 4,
    "population_size": 8,
    "episodes_per_candidate": 2,
    "eval_episodes": 3,
    "eval_budget": None,
    "confirm_episodes": 4,
    "strategy": "openai_es",
    "observation_normalization": False,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "sigma": 0.3,
    "progress": False,
}

ALL = {
    "episode_seeds": "independent",
    "survival_bonus": 0.5,
    "episode_cap": "twice_mean",
    "episode_cap_start": 4,
    "observation_normalization": True,
    "statistics_fraction": 0.3,
    "eval_share": 0.2,
    "steps_per_generation": 200,
}


@pytest.fixture
def endless(register):
    return register("Endless-v0", "small_envs:Endless", fitness="episode_return", max_episode_steps=40)


def run_of(env_id, folder, workers=1, **fields):
    return train(env_id, run_dir=folder, workers=workers, **{**SETTINGS, **fields})


@pytest.mark.slow
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"episode_seeds": "independent"}, marks=pytest.mark.long),
        pytest.param({"shaping": "sign"}, marks=pytest.mark.long),
        pytest.param({"shaping": "centered_sign", "fitness_aggregation": "min"}, marks=pytest.mark.long),
        pytest.param({"episode_cap": "growing", "episode_cap_start": 2}, marks=pytest.mark.slow),
        ALL,
    ],
    ids=str,
)
def test_workers_and_a_resume_do_not_change_a_bit(fields, wander, tmp_path):
    whole = run_of(wander, tmp_path / "whole", **fields)
    require_equal(run_of(wander, tmp_path / "local", workers=2, **fields), whole)
    stopped = run_of(wander, tmp_path / "stopped", on_generation=lambda stats: stats.generation < 1, **fields)
    assert len(stopped.history) == 2
    require_equal(stopped.resume(workers=2, progress=False), whole)


def test_candidates_start_alike_or_in_groups_or_each_on_its_own(wander, tmp_path):
    fields = {"fitness": "small_envs:depends_on_seed", "generations": 1, "population_size": 20}
    runs = {
        name: run_of(wander, tmp_path / name, episode_seeds=name, **fields)
        for name in ("common", "grouped", "independent")
    }
    first = {name: run.history[0] for name, run in runs.items()}
    assert first["common"].fitness_min == first["common"].fitness_max
    assert all(first[name].fitness_min < first[name].fitness_max for name in ("grouped", "independent"))
    assert first["common"].fitness_std == first["grouped"].fitness_std == 0 < first["independent"].fitness_std
    assert first["common"].evaluation == first["grouped"].evaluation == first["independent"].evaluation


@pytest.mark.parametrize(("candidates", "groups"), [(6, 1), (8, 2), (16, 4), (64, 4), (80, 5), (256, 16)])
def test_more_candidates_play_from_more_starts_in_groups(candidates, groups, wander, tmp_path):
    class Seen:
        @hookimpl
        def generation_finished(self, fitness):
            if fitness is not None:  # there is a population
                self.starts = len(set(fitness.tolist()))

    seen, fields = Seen(), {"fitness": "small_envs:depends_on_seed", "generations": 1, "episodes_per_candidate": 1}
    fields |= {"episode_seeds": "grouped", "population_size": candidates}
    run_of(wander, tmp_path / "run", loggers=[seen], **fields)
    assert seen.starts == groups


@pytest.mark.parametrize("strategy", ["openai_es", "cma_es", "ga"])
def test_luck_of_the_start_does_not_move_the_mean_of_grouped_candidates(strategy, wander, tmp_path):
    fields = {"fitness": "small_envs:depends_on_seed", "generations": 1, "population_size": 20, "strategy": strategy}
    grouped = run_of(wander, tmp_path / "grouped", episode_seeds="grouped", **fields)
    alone = run_of(wander, tmp_path / "alone", episode_seeds="independent", **fields)
    assert grouped.history[0].next_hash == grouped.history[0].parameter_hash
    assert alone.history[0].next_hash != alone.history[0].parameter_hash


def test_the_scale_of_starts_does_not_count_in_groups(wander, tmp_path):
    """A candidate is better than those of its group, whether its start pays little or much."""
    fields = {"generations": 1, "population_size": 16, "episode_seeds": "grouped", "episodes_per_candidate": 1}
    plain = run_of(wander, tmp_path / "plain", **fields)
    shifted = run_of(wander, tmp_path / "shifted", fitness="small_envs:shifted_by_seed", **fields)
    assert plain.history[0].fitness_mean != shifted.history[0].fitness_mean
    assert plain.history[0].parameter_hash != plain.history[0].next_hash
    assert plain.checkpoint.mean.tobytes() == shifted.checkpoint.mean.tobytes()


def test_without_the_survival_bonus_a_run_learns_all_the_same(register, tmp_path):
    options = {"fitness": "episode_return", "max_episode_steps": 30}
    free = register("Free-v0", "small_envs:Tolled", **options)
    tolled = register("Tolled-v0", "small_envs:Tolled", kwargs={"toll": 0.5}, **options)
    plain = run_of(free, tmp_path / "plain")
    shifted = run_of(free, tmp_path / "shifted", survival_bonus=0.5)
    dear = run_of(tolled, tmp_path / "dear")
    assert [stats.next_hash for stats in shifted.history] == [stats.next_hash for stats in dear.history]
    assert shifted.history[1].parameter_hash != plain.history[1].parameter_hash
    first, true = shifted.history[0], plain.history[0]  # around the same centre
    assert (first.fitness_mean, first.evaluation) == (true.fitness_mean, true.evaluation)


@pytest.mark.parametrize(("shaping", "equivalent"), [("sign", "raw"), ("centered_sign", "centered_ranks")])
def test_sign_shaping_learns_from_signs_and_reports_the_fitness(shaping, equivalent, wander, tmp_path):
    signs = run_of(wander, tmp_path / "signs", shaping=shaping)
    explicit = run_of(wander, tmp_path / "explicit", fitness="sign_return", shaping=equivalent)
    assert [stats.next_hash for stats in signs.history] == [stats.next_hash for stats in explicit.history]
    for one, other in zip(signs.history[:-1], explicit.history[:-1], strict=True):
        assert one.fitness_mean == one.fitnesses["episode_return"]
        assert one.fitnesses["sign_return"] == other.fitness_mean
    assert all(stats.fitness_mean == round(stats.fitness_mean * 16) / 16 for stats in explicit.history[:-1])
    notes = {chart.title: chart.note for chart in run_charts(signs.config, signs.history)}
    assert notes["sign_return"] == "Another measure of the same episodes, from which evolution learns, by its shaping."


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"fitness": "episode_length", "survival_bonus": 1.0}, "needs fitness='episode_return'"),
        ({"shaping": "sign", "survival_bonus": 1.0}, "shaping='sign'"),
        ({"max_seconds": 0}, "max_seconds must be a finite number above 0"),
    ],
    ids=str,
)
def test_conflicting_options_are_refused_and_leave_no_files(fields, message, wander, tmp_path):
    with pytest.raises(ValueError, match=message):
        run_of(wander, tmp_path / "r", **fields)
    assert not (tmp_path / "r").exists()


def test_a_cap_of_twice_the_mean_follows_the_lengths_of_the_last_episodes(wander, tmp_path):
    history = run_of(wander, tmp_path / "r", episode_cap="twice_mean", episode_cap_start=6).history
    assert history[0].rules["episode_cap"] == 6
    for last, stats in itertools.pairwise(history[:-1]):
        wanted = math.ceil(2 * last.episode_length)
        assert stats.rules["episode_cap"] == (wanted if wanted < 30 else None)
    for stats in history[:-1]:
        assert stats.episode_length <= (stats.rules["episode_cap"] or 30)
        assert stats.evaluation.length > stats.episode_length  # the centre's episodes are whole
    assert len({stats.rules["episode_cap"] for stats in history[:-1]}) > 1


def test_a_growing_cap_doubles_while_half_of_the_episodes_reach_it(endless, tmp_path):
    fields = {"episode_cap": "growing", "episode_cap_start": 7}
    history = run_of(endless, tmp_path / "r", **fields).history
    assert [stats.rules["episode_cap"] for stats in history] == [7, 14, 28, None, None]
    assert [stats.episode_length for stats in history] == [7, 14, 28, 40, None]
    assert [stats.capped_episodes for stats in history] == [1, 1, 1, 1, None]
    assert {stats.evaluation.length for stats in history} == {40}


def test_a_growing_cap_stays_where_fewer_episodes_reach_it(wander, tmp_path):
    history = run_of(wander, tmp_path / "r", episode_cap="growing", episode_cap_start=25, sigma=3.0).history
    assert all(stats.capped_episodes < 0.5 for stats in history[:-1])
    assert {stats.rules["episode_cap"] for stats in history[:-1]} == {25}


@pytest.mark.slow
def test_only_a_share_of_the_episodes_enters_the_statistics(endless, tmp_path):
    counts = {}
    for share in (0.01, 0.1, 1.0):
        options = {"observation_normalization": True, "statistics_fraction": share, "population_size": 2}
        run = run_of(endless, tmp_path / str(share), **options, generations=100, eval_every=0)
        counts[share] = run.checkpoint.statistics.count  # generations of which any of four episodes enters
    assert counts[1.0] == 100
    assert 20 < counts[0.1] < 50
    assert counts[0.01] < 10


@pytest.mark.parametrize(("share", "episodes"), [(0.07, 7), (0.25, 25), (1e-6, 1)])
def test_an_evaluation_can_be_a_share_of_the_populations_episodes(share, episodes, wander, tmp_path):
    fields = {"eval_share": share, "population_size": 50, "generations": 1}
    history = run_of(wander, tmp_path / "r", **fields).history
    assert [stats.evaluation.episodes for stats in history] == [episodes, episodes]


@pytest.mark.parametrize("steps", [10, 2000, 10**6])
def test_the_population_is_as_large_as_the_steps_of_a_generation_allow(steps, wander, tmp_path):
    # Learning hardly changes the episodes' lengths, and an evaluation counts the candidates of its generation.
    fields = {"steps_per_generation": steps, "learning_rate": 1e-6, "eval_share": 0.5, "generations": 3}
    history = run_of(wander, tmp_path / "r", population_size=40, **fields).history[:-1]
    assert history[0].population_size == 40
    for last, stats in itertools.pairwise(history):
        wanted = steps / (2 * last.episode_length)
        assert stats.population_size % 2 == 0
        assert abs(stats.population_size - min(max(16, wanted), 160)) <= 1
        assert stats.evaluation.episodes == stats.population_size
    if steps == 2000:
        assert 0.8 * steps < history[2].steps < 1.2 * steps


@pytest.mark.parametrize(("bound", "value"), [("max_steps", 600), ("max_episodes", 33)])
def test_a_run_ends_behind_the_generation_that_reaches_its_bound(bound, value, wander, tmp_path):
    whole = run_of(wander, tmp_path / "whole", generations=6)
    bounded = run_of(wander, tmp_path / "bounded", generations=6, **{bound: value})
    totals = {"max_steps": "total_steps", "max_episodes": "total_episodes"}
    before, reached, last = bounded.history[-3:]
    assert getattr(before, totals[bound]) < value <= getattr(reached, totals[bound])
    assert (bounded.finished, bounded.end) == (True, bound)
    assert last.population_size is None
    assert last.evaluation is not None
    assert bounded.checkpoint.generation == last.generation < 6
    assert len(bounded.resume(progress=False).history) == len(bounded.history)
    grown = bounded.resume(progress=False, workers=2, **{bound: None})
    assert getattr(grown.config, bound) is None
    assert lines(grown) == lines(whole)
    with pytest.raises(
        ValueError, match=f"{bound} can only grow in a resumed run: it was without a bound, now {value}"
    ):
        grown.resume(**{bound: value})


@pytest.mark.parametrize("recommended", [{}, {"generations": 100}])
@pytest.mark.parametrize("bound", ["max_steps", "max_episodes"])
def test_generations_end_a_run_only_where_no_other_bound_is_given(bound, recommended, register, tmp_path):
    env_id = register(recommended=recommended)
    assert TrainConfig.for_env(env_id).generations == recommended.get("generations", 1000)
    assert TrainConfig.for_env(env_id, **{bound: 10**9}).generations is None
    assert TrainConfig.for_env(env_id, generations=7, **{bound: 10**9}).generations == 7
    run = train(env_id, run_dir=tmp_path / "run", seed=3, workers=1, progress=False, **{bound: 60})
    assert (run.end, run.config.generations) == (bound, None)
    assert changed_settings(run.config) == {"seed": 3, bound: 60}
    assert Run.open(run.directory).config == run.config


def test_a_run_without_a_bound_is_shown_interrupted_resumed_and_reported(wander, tmp_path):
    settings = {"generations": None, "seed": 3, "eval_every": 0, "workers": 1}
    run = train(wander, run_dir=tmp_path / "run", on_generation=lambda stats: stats.generation < 1, **settings)
    assert (run.end, run.share_done, len(run.history)) == (None, 0, 2)
    assert run.report().exists()
    assert len(run.resume(on_generation=lambda stats: stats.generation < 2).history) == 3


BUDGET = {"generations": 90, "eval_episodes": 60, "confirm_episodes": 30, "eval_budget": 0.2, "checkpoint_every": 10}


def test_a_first_centre_that_falls_at_once_does_not_make_the_next_evaluation_long(tmp_path):
    run = train("CartPoleBullet-v0", seed=1, generations=3, workers=1, progress=False, run_dir=tmp_path / "run")
    first, second, *_ = run.history
    assert (first.evaluation.length, second.evaluation.length) == (2, 500)
    assert second.evaluation.steps < second.steps / 2


def test_evaluation_takes_at_most_its_share_of_the_steps(wander, tmp_path):
    run = run_of(wander, tmp_path / "r", **BUDGET)
    *during, last = run.history
    spent = np.cumsum([stats.budgeted_steps(run.config.solved_at) for stats in during])
    shares = spent / [stats.total_steps for stats in during]
    assert spent[-1] == sum(stats.evaluation_steps for stats in during[1:])
    assert max(shares[12:]) < 0.25, "episodes grow longer"
    assert shares[-1] < 0.21
    scored = [stats.evaluation.episodes for stats in during if stats.evaluation]
    assert len(scored) > 5
    assert max(scored) < 60
    assert any(stats.confirmation for stats in during)
    assert 5 <= last.evaluation.episodes <= 60


@pytest.mark.parametrize("budget", [0.01, 0.2, None])
@pytest.mark.parametrize(("fitness", "goal"), [("episode_length", 40), ("small_envs:luck", -3.0)])
def test_a_proof_takes_its_episodes_whatever_the_budget(fitness, goal, budget, endless, tmp_path):
    fields = {"eval_budget": budget, "confirm_episodes": 100, "generations": 5}
    run = run_of(endless, tmp_path / "r", **fields, fitness=fitness, solved_at=goal)
    assert run.end == "solved"
    assert run.history[-1].verdict.episodes == 100


def test_a_first_centre_that_lasts_takes_no_later_one_its_evaluation(register, tmp_path):
    """What moves falls at once, so that the first centre alone costs more than all generations together."""
    still = register("Still-v0", "small_envs:Still", fitness="episode_return", max_episode_steps=400)
    fields = {"generations": 20, "eval_budget": 0.2, "confirm_episodes": 20, "hidden_sizes": ()}
    first, *later = run_of(still, tmp_path / "r", **fields).history
    assert first.evaluation_steps > 3 * sum(stats.steps for stats in later)
    assert sum(stats.evaluation is not None for stats in later) > 10


@pytest.mark.parametrize("max_steps", [6000, 20_000])
def test_the_bound_of_steps_holds_for_proofs_and_the_scores_at_the_end_come_after_it(max_steps, tmp_path):
    run = train("CartPole-v1", max_steps=max_steps, workers=1, progress=False, run_dir=tmp_path / "run")
    *_, latest, last = run.history
    generation = latest.steps + latest.evaluation_steps
    assert run.end == "max_steps" or (run.end == "solved" and last.verdict.mean >= run.config.solved_at)
    assert last.search_steps <= max_steps + generation
    assert last.total_steps == last.search_steps + (last.evaluation_steps if last.population_size is None else 0)


def test_a_proof_that_does_not_fit_into_the_bound_waits_for_the_end(endless, tmp_path):
    """100 episodes of 40 steps do not fit into 2000."""
    fields = {"generations": None, "max_steps": 2000, "confirm_episodes": 100, "eval_budget": 0.2}
    run = run_of(endless, tmp_path / "r", **fields, fitness="episode_length", solved_at=40)
    *earlier, last = run.history
    assert not any(stats.solved for stats in earlier)
    assert (run.end, last.population_size, last.verdict.episodes) == ("solved", None, 100)
    assert last.search_steps < 3500


def test_the_scores_at_the_end_take_few_steps_of_a_short_run_too(endless, tmp_path):
    """The final one takes a fifth of the run's, or ten episodes, but never more episodes than are asked for."""
    fields = {"generations": 2, "solved_at": None, "eval_episodes": 20, "confirm_episodes": 100}
    short = run_of(endless, tmp_path / "short", **fields, eval_budget=0.2).history[-1]
    assert 5 <= short.evaluation.episodes < 10 == short.final.episodes
    more = {**fields, "generations": 30, "confirm_episodes": 1000}
    long = run_of(endless, tmp_path / "long", **more, eval_budget=0.2).history[-1]
    assert 10 < long.final.episodes < 1000
    assert long.final.steps == pytest.approx(long.search_steps / 5, abs=40), "an episode takes 40 steps"
    whole = run_of(endless, tmp_path / "whole", **fields, eval_budget=None).history[-1]
    assert (whole.evaluation.episodes, whole.final.episodes) == (20, 100)
    few = run_of(endless, tmp_path / "few", **{**fields, "confirm_episodes": 4}, eval_budget=0.2).history[-1]
    assert few.final.episodes == len(few.final_fitness) == 4


def test_an_evaluation_within_a_budget_depends_on_the_log_alone(wander, tmp_path):
    whole = run_of(wander, tmp_path / "whole", **BUDGET)
    require_equal(run_of(wander, tmp_path / "local", workers=2, **BUDGET), whole)
    stopped = run_of(wander, tmp_path / "stopped", **BUDGET, on_generation=lambda stats: stats.generation < 13)
    require_equal(stopped.resume(progress=False), whole)


def test_the_first_centre_stays_the_best_though_the_budget_confirms_no_other(register, tmp_path):
    still = register("Still-v0", "small_envs:Still", fitness="episode_return", max_episode_steps=200)
    fields = {"initialization": "zeros", "generations": 6, "eval_budget": 0.2, "learning_rate": 1.0}
    run = run_of(still, tmp_path / "run", **fields)
    assert run.history[-1].evaluation.mean < 200
    assert (run.best_score[0], run.history[0].confirmation.mean, run.history[-1].final.mean) == (0, 200, 200)


def test_the_first_better_centre_is_confirmed_whatever_the_budget(tmp_path):
    fields = {"eval_budget": 0.2, "population_size": 16, "generations": 8, "solved_at": None}
    run = train("CartPole-v1", strategy="openai_es", run_dir=tmp_path / "run", workers=1, progress=False, **fields)
    scored = [stats for stats in run.history if stats.evaluation is not None]
    assert scored[1].evaluation.mean > scored[0].evaluation.mean
    assert scored[1].confirmation is not None


def test_better_centres_are_confirmed_as_long_as_a_run_learns(register, tmp_path):
    """Episodes of equal length and 16 candidates: an evaluation would leave a little less than a confirmation takes."""
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    fields = {"generations": 60, "learning_rate": 0.01, "sigma": 0.02, "initialization": "zeros"}
    budget = {"population_size": 16, "episodes_per_candidate": 1, "eval_budget": 0.2, "eval_episodes": 20}
    run = run_of(aim, tmp_path / "run", **fields, **budget, confirm_episodes=100)
    confirmed = [stats.generation for stats in run.history[:-1] if stats.confirmation]
    assert len(confirmed) > 5
    assert confirmed[-1] > 40


def test_a_few_equal_scores_do_not_hide_what_the_evaluation_shows_of_the_scatter(wander, tmp_path):
    """The first centre fails from most starts, but not from those of its short confirmation."""
    run = run_of(wander, tmp_path / "run", generations=2, eval_every=1)
    lines = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    scores = [(-60.0, 49.0, 5), (0.0, 0.0, 5), (-4.5, 2.0, 20), (-4.4, 2.0, 100)]
    told = [{**lines[0]["evaluation"], "mean": mean, "std": std, "episodes": count} for mean, std, count in scores]
    lines[0] |= {"evaluation": told[0], "confirmation": told[1]}
    lines[1] |= {"evaluation": told[2], "confirmation": told[3]}
    lines[2] |= {"confirmation": None, "final": None}
    (run.directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert Run.open(run.directory).best_score[0] == 1


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ([(9.0, 5.0, 100), (10.0, 5.0, 100)], 1),
        ([(9.0, 5.0, 100), (10.0, 5.0, 5)], 0),
        ([(10.0, 5.0, 5), (9.0, 5.0, 100)], 1),
        ([(9.0, 5.0, 100), (15.0, 5.0, 5)], 1),
        ([(1.0, 0.0, 5), (0.98, 0.14, 100)], 1),
        ([(1.0, 0.0, 100), (1.0, 0.0, 5), (1.0, 0.0, 100)], 0),
    ],
    ids=["as many", "a few", "a few first", "a few, clearly", "a few that are alike", "all alike"],
)
def test_a_few_lucky_episodes_do_not_make_the_best_centre(scores, best, wander, tmp_path):
    run = run_of(wander, tmp_path / "run", generations=2, eval_every=1)
    lines = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    told = [None] * 3
    for number, (mean, std, episodes) in enumerate(scores):
        told[number] = {**lines[0]["confirmation"], "mean": mean, "std": std, "episodes": episodes}
    lines = [{**line, "confirmation": score, "final": None} for line, score in zip(lines, told, strict=True)]
    (run.directory / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    assert Run.open(run.directory).best_score[0] == best
    if best != run.best.generation:
        with pytest.warns(RuntimeWarning, match=f"not the centre of generation {best}"):
            assert Run.open(run.directory).best.generation == best


def test_without_any_step_limit_a_sentence_asks_for_one():
    with pytest.raises(ValueError, match="Mine-v0 has no step limit, and an episode might never end: set max_episode"):
        step_limit(EnvDefinition(id="Mine-v0", entry_point="small_envs:Walk"), TrainConfig(env_id="Mine-v0"))


def test_a_config_from_before_there_was_a_budget_has_none(wander):
    values = TrainConfig.for_env(wander).to_json()
    assert values.pop("eval_budget") == 0.2
    assert TrainConfig.from_json(values).eval_budget is None


def test_the_best_of_a_run_whose_bound_has_grown_is_that_of_its_log(register, tmp_path, recwarn):
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    fields = {**STALLED, "stop_at_plateau": False, "eval_every": 100, "confirm_episodes": 2, "learning_rate": 0.02}
    run = run_of(aim, tmp_path / "run", **fields | {"generations": 5})
    assert run.best.generation == 5  # scored since it was the last
    grown = run.resume(progress=False, generations=8, on_generation=lambda stats: stats.generation < 6)
    assert grown.end is None
    assert grown.stored_best.generation == grown.best_score[0] == 0
    assert not recwarn.list


def test_a_grown_bound_gives_the_run_that_had_it_from_the_start(wander, tmp_path):
    longer = run_of(wander, tmp_path / "longer", max_episodes=64)
    run = run_of(wander, tmp_path / "r", max_episodes=20).resume(max_episodes=64, progress=False)
    assert lines(run) == lines(longer)
    assert run.config == longer.config


def test_schedules_end_at_the_first_bound_of_an_extended_run(wander, tmp_path):
    fields = {"sigma_final": 0.1, "learning_rate_final": 0.01}
    run = run_of(wander, tmp_path / "r", generations=2, **fields).resume(generations=4, progress=False)
    assert [round(stats.sigma, 6) for stats in run.history[:-1]] == [0.3, 0.2, 0.1, 0.1]
    assert lines(run) == lines(run_of(wander, tmp_path / "whole", generations=4, schedule_generations=2, **fields))


def test_a_run_stops_when_its_time_is_up_and_can_be_resumed(wander, tmp_path):
    whole = run_of(wander, tmp_path / "whole")
    run = run_of(wander, tmp_path / "r", max_seconds=1e-6)
    assert len(run.history) == 1
    assert (run.finished, run.end) == (False, None)
    assert len(run.resume(progress=False, max_seconds=1e-6).history) == 2
    assert lines(run.resume(progress=False)) == lines(whole)


def test_a_run_that_stops_in_front_of_its_last_centre_is_shown_to_its_end(wander, tmp_path, capfd):
    run = run_of(wander, tmp_path / "r", on_generation=lambda stats: stats.generation < 3)
    assert (len(run.history), run.finished) == (4, False)
    assert run.resume().end == "generations"
    assert any(
        line.startswith("generation 4/4:") and "centre" in line and line.endswith("done")
        for line in capfd.readouterr().err.splitlines()
    )


def test_the_command_line_says_why_a_run_ended(tmp_path, capsys):
    folder = str(tmp_path / "r")
    tiny = ["--generations", "3", "--population-size", "4", "--max-episode-steps", "20", "--workers", "1"]
    first = ["train", "CartPoleBullet-v0", "--run-dir", folder, "--max-seconds", "1e-6", "--max-steps", "9"]
    assert main([*first, *tiny]) == 0
    err = capsys.readouterr().err
    assert re.search(r"^generation 0, step [\d\u202f]+/9: ", err, re.MULTILINE)
    assert "stopped after generation 0; " in err
    assert f"Next:\n  es-envs resume {folder}\n" in err
    assert main(["resume", folder, "--max-seconds", "1e-6", "--max-steps", "none"]) == 0
    assert main(["resume", folder]) == 0
    assert "since generations=3 is reached (--generations of `es-envs resume` allows more)" in capsys.readouterr().err
    assert main(["train", "CartPoleBullet-v0", "--run-dir", folder + "2", *tiny, "--max-episodes", "3"]) == 0
    err = capsys.readouterr().err
    assert "done: max_episodes is reached" in err
    assert "stopped after generation 1, since max_episodes=3 is reached (--max-episodes of" in err
    assert main(["resume", folder + "2"]) == 0
    assert "nothing to do" in capsys.readouterr().err
    assert main(["resume", folder + "2", "--max-episodes", "33"]) == 0
    assert Run.open(folder + "2").config.max_episodes == 33
    assert "since generations=3 is reached" in capsys.readouterr().err


STALLED = {
    "generations": 400, "population_size": 8, "episodes_per_candidate": 1, "hidden_sizes": (), "eval_budget": None,
    "eval_episodes": 2, "learning_rate": 0.2, "action_squash": "clip", "stop_at_plateau": True,
}  # fmt: skip


def test_a_run_ends_at_a_plateau_with_stop_at_plateau(register, tmp_path, capsys):
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    run = run_of(aim, tmp_path / "run", **STALLED)
    last = run.history[-1].generation
    assert (run.end, run.finished) == ("plateau", True)
    assert 100 <= last < 400
    assert run.history[-1].final is not None
    whole = run_of(aim, tmp_path / "whole", **{**STALLED, "stop_at_plateau": False})
    assert [stats.parameter_hash for stats in whole.history[: last + 1]] == [s.parameter_hash for s in run.history]
    shutil.copytree(run.directory, tmp_path / "stopped")
    text = (run.directory / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "stopped" / "metrics.jsonl").write_bytes(b"".join(text[:-1]))
    assert main(["resume", str(tmp_path / "stopped"), "--quiet"]) == 0
    said = capsys.readouterr().err
    assert f"stopped after generation {last}, at a plateau: nothing was gained in 100 generations" in said
    assert lines(Run.open(tmp_path / "stopped")) == lines(run)
    assert "nothing was gained in 100 generations, a plateau" in run.report().read_text(encoding="utf-8")


def test_a_run_at_a_bound_before_a_plateau_resumes_when_the_bound_grows(register, tmp_path):
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    run = run_of(aim, tmp_path / "run", **{**STALLED, "generations": 5})
    assert run.end == "generations"
    longer = run.resume(generations=8, progress=False)
    assert (longer.end, longer.history[-1].generation) == ("generations", 8)
    assert run.resume(progress=False).end == "generations"  # the object that was opened before the bound grew


def test_a_run_that_still_gains_is_at_no_plateau(register, tmp_path):
    aim = register("Aim-v0", "small_envs:Aim", fitness="episode_return", max_episode_steps=1)
    run = run_of(aim, tmp_path / "run", **{**STALLED, "generations": 120, "learning_rate": 0.005})
    assert run.end == "generations"
    longer = run.resume(generations=122, workers=1, progress=False)
    assert (longer.end, longer.history[-1].generation) == ("generations", 122)
