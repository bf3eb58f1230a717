import dataclasses
import itertools
import json
import math
import time
from inspect import signature

import numpy as np
import pytest
from conftest import STRATEGIES as USABLE
from conftest import TINY, left_behind, options_for
from threadpoolctl import threadpool_limits
from written import lines

import es_core
import es_envs
from es_core import STRATEGIES, Run, TrainConfig, rebuild, train
from es_core.pools.local import LocalPool
from es_core.pools.options import PoolOptions
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies.by_name import make_strategy
from es_envs import hookimpl

SMALL = {
    "population_size": 8,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "max_episode_steps": 60,
    "eval_episodes": 3,
    "eval_budget": None,
    "confirm_episodes": 4,
    "sigma": 0.1,
    "solved_at": None,
}


def small_run(run_dir, env_id="CartPoleBullet-v0", generations=3, workers=2, **fields):
    return train(
        env_id, run_dir=run_dir, workers=workers, progress=False, **{**SMALL, "generations": generations, **fields}
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of six generations, never interrupted."""
    return small_run(tmp_path_factory.mktemp("runs") / "whole", generations=6, observation_normalization=True)


@pytest.mark.parametrize(
    "env_id",
    [
        "CartPoleBullet-v0",
        pytest.param("BalancingPlate-v0", marks=pytest.mark.slow),
        pytest.param("RaceCar-v0", marks=pytest.mark.long),
    ],
)
def test_the_number_of_workers_and_of_blas_threads_does_not_change_a_bit(env_id, tmp_path):
    runs = []
    for workers, threads in [(1, 1), (2, 2), (3, 1)]:
        with threadpool_limits(threads):
            options = {
                "generations": 5,
                "max_episode_steps": 400 if env_id == "BalancingPlate-v0" else 60,  # it falls first
                "workers": workers,
                "hidden_sizes": (64, 64),
                "observation_normalization": True,
            }
            runs.append(small_run(tmp_path / str(workers), env_id, **options))
    first, *others = runs
    assert first.checkpoint.generation == 5
    assert first.checkpoint.parameter_hash != first.checkpoint_at(0).parameter_hash
    for other in others:
        assert lines(other) == lines(first)
        for file in ("checkpoints/000000.safetensors", "checkpoints/000005.safetensors", "best.safetensors"):
            assert (other.directory / file).read_bytes() == (first.directory / file).read_bytes()


def test_seeds_differ_and_an_equal_seed_repeats(tmp_path):
    hashes = [
        small_run(tmp_path / name, seed=seed).checkpoint.parameter_hash for name, seed in [("a", 0), ("b", 0), ("c", 1)]
    ]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_stopped_and_resumed_run_equals_one_that_never_stopped(whole, tmp_path):
    fields = {"generations": 6, "observation_normalization": True}
    stopped = small_run(tmp_path / "r", on_generation=lambda stats: stats.generation < 2, **fields)
    assert stopped.checkpoint.generation == 3
    assert not stopped.finished
    resumed = Run.open(stopped.directory).resume(progress=False, workers=1)
    assert lines(resumed) == lines(whole)
    assert resumed.checkpoint.parameter_hash == whole.checkpoint.parameter_hash
    assert (resumed.directory / "best.safetensors").read_bytes() == (whole.directory / "best.safetensors").read_bytes()


@pytest.mark.parametrize(
    "strategy",
    ["snes", *(pytest.param(name, marks=pytest.mark.slow) for name in sorted({*USABLE} & {*STRATEGIES} - {"snes"}))],
)
def test_an_integer_sigma_changes_no_bit_of_a_run_resumed_or_rebuilt(strategy, walk, tiny, tmp_path):
    usual = {**tiny, "strategy": strategy, "generations": 3, "population_size": 8, "checkpoint_every": 1}
    usual.pop("hidden_sizes")
    usual |= options_for(strategy)
    rates = {"learning_rate": 1} if "learning_rate" in signature(STRATEGIES[strategy]).parameters else {}
    whole = train(walk, run_dir=tmp_path / "float", **usual, sigma=1.0, **dict.fromkeys(rates, 1.0))
    train(walk, run_dir=tmp_path / "int", **usual, sigma=1, **rates, on_generation=lambda _: False)
    other = train(walk, run_dir=tmp_path / "int", **usual, sigma=np.int64(1), **rates, resume=True)
    assert (other.directory / "config.json").read_bytes() == (whole.directory / "config.json").read_bytes()
    for generation in range(1, 4):
        other.checkpoint_path(generation).unlink()
        rebuild(other, generation).save(tmp_path / "rebuilt")
        assert (tmp_path / "rebuilt").read_bytes() == whole.checkpoint_path(generation).read_bytes()
    assert lines(other) == lines(whole)


def test_a_run_that_diverges_keeps_its_last_finite_parameters(walk, tiny, tmp_path):
    settings = {**tiny, "generations": 9, "learning_rate": 1e30, "learning_rate_final": 1e300, "optimizer": "sgd"}
    settings |= {"population_size": 8, "schedule_generations": 3, "schedule": "exponential", "policy": "linear"}
    for resume in (False, True):
        with pytest.raises(
            FloatingPointError, match="OpenAIES has diverged in generation 1: mean is not finite"
        ) as error:
            train(walk, run_dir=tmp_path / "run", resume=resume, **settings)
        run = Run.open(tmp_path / "run")
        assert str(run.checkpoint_path(1)) in "".join(error.value.__notes__)
        assert (run.next_generation, len(run.history)) == (1, 1)
        assert np.isfinite(run.checkpoint_at(1).mean).all()
        assert math.isfinite(es_core.evaluate(run.checkpoint_path(1), episodes=1, workers=1).mean)


@pytest.mark.slow
def test_an_elite_is_chosen_by_additional_episodes_whoever_plays_them(walk, tiny, tmp_path):
    elite = {"elite_candidates": 3, "elite_episodes": 4}
    settings = {**tiny, "strategy": "ga", "generations": 3, "population_size": 8, "checkpoint_every": 1, "sigma": 1.0}
    settings |= {"policy": "linear", "observation_normalization": False, "strategy_options": elite}
    whole = train(walk, run_dir=tmp_path / "whole", **settings)
    other = train(walk, run_dir=tmp_path / "other", **{**settings, "workers": 2}, on_generation=lambda _: False)
    other = train(walk, run_dir=tmp_path / "other", **settings, resume=True)
    assert lines(other) == lines(whole)
    for generation in range(1, 4):
        other.checkpoint_path(generation).unlink()
        rebuild(other, generation).save(tmp_path / "rebuilt")
        assert (tmp_path / "rebuilt").read_bytes() == whole.checkpoint_path(generation).read_bytes()

    assert [stats.steps for stats in whole.history] == [5 * (8 + 3 * 4)] * 3 + [0]
    assert whole.history[-1].total_episodes == 3 * (8 + 3 * 4)
    config, chosen = whole.config, []
    with LocalPool(es_envs.definition(walk), config, PoolOptions(workers=1), most=1) as pool:
        for generation, told in enumerate(whole.logs(0, 3)):
            strategy = make_strategy(config, whole.checkpoint_at(generation).mean)
            strategy.load_state_dict(whole.checkpoint_at(generation).strategy)
            population, seeds = strategy.ask(), episode_seeds(config.seed, Purpose.ELITE, 4, generation)
            means = [
                np.mean([e.fitness for e in pool.rollouts(population.candidate(i), None, seeds)]) for i in range(8)
            ]
            fitness = told.fitness.copy()
            chosen.append(int(np.argmax(fitness)))
            np.testing.assert_array_equal(whole.checkpoint_at(generation + 1).mean, population.candidate(chosen[-1]))
            measured = [0, *np.argsort(-fitness[1:]) + 1]
            assert means[chosen[-1]] == max(means[index] for index in {chosen[-1], *measured[:3]})
    assert any(chosen)


def test_a_run_interrupted_by_ctrl_c_continues_with_the_same_bits(whole, tmp_path):
    def interrupt(stats):
        if stats.generation == 3:
            raise KeyboardInterrupt

    before = len(left_behind())
    with pytest.raises(KeyboardInterrupt) as caught:
        small_run(tmp_path / "r", on_generation=interrupt, generations=6, observation_normalization=True)
    assert len(left_behind()) == before
    assert Run.open(tmp_path / "r").next_generation == 4  # whose predecessor has its line: nothing is run again
    assert "Nothing is lost" in caught.value.__notes__[0]
    resumed = train("CartPoleBullet-v0", run_dir=tmp_path / "r", resume=True, progress=False)
    assert lines(resumed) == lines(whole)


def test_a_run_whose_last_line_was_cut_off_resumes(whole, tmp_path):
    run = small_run(
        tmp_path / "r", on_generation=lambda stats: stats.generation < 2, generations=6, observation_normalization=True
    )
    metrics = run.directory / "metrics.jsonl"
    metrics.write_text(metrics.read_text(encoding="utf-8")[:-40], encoding="utf-8")
    assert lines(Run.open(run.directory).resume(progress=False)) == lines(whole)


def test_a_finished_run_may_grow_and_then_equals_a_longer_one(whole, tmp_path):
    run = small_run(tmp_path / "r", generations=4, observation_normalization=True)
    assert run.finished
    assert lines(run.resume(progress=False)) == lines(run)
    grown = run.resume(progress=False, generations=6)
    assert lines(grown) == lines(whole)
    assert lines(run.resume(progress=False)) == lines(whole)  # this object has the bounds from before
    assert grown.config.generations == Run.open(run.directory).config.generations == 6


def test_a_generation_is_counted_as_documented(whole):
    history = whole.history
    assert [stats.generation for stats in history] == list(range(7))
    for earlier, later in itertools.pairwise(history):
        assert earlier.next_hash == later.parameter_hash
        assert later.total_steps == earlier.total_steps + later.steps + later.evaluation_steps
    last = history[-1]
    assert last.fitness_mean is None
    assert last.next_hash is None
    assert last.evaluation is not None
    assert whole.checkpoint.parameter_hash == last.parameter_hash


def test_generations_take_no_longer_than_their_run(walk, tiny, tmp_path):
    began = time.perf_counter()
    run = train(walk, run_dir=tmp_path / "run", **tiny)
    assert 0 < sum(stats.seconds for stats in run.history) <= time.perf_counter() - began


def test_a_run_folder_holds_what_is_documented(whole):
    names = {path.name for path in whole.directory.iterdir()}
    assert names >= {"config.json", "metrics.jsonl", "checkpoints", "best.safetensors", "tensorboard"}
    assert (
        TrainConfig.from_json(json.loads((whole.directory / "config.json").read_text(encoding="utf-8"))) == whole.config
    )
    for line in (whole.directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        assert "NaN" not in line
        assert "Infinity" not in line
    assert [whole.checkpoint_at(generation).generation for generation in whole.checkpoint_generations()] == [0, 6]


def test_the_best_centre_is_the_one_with_the_best_confirmed_score(whole):
    confirmed = {stats.generation: stats.confirmation.mean for stats in whole.history if stats.confirmation}
    assert whole.best.generation == max(confirmed, key=lambda generation: (confirmed[generation], -generation))
    assert len(confirmed) < len(whole.history) or sorted(confirmed.values()) == list(confirmed.values())


@pytest.mark.parametrize("every", [0, 2])
def test_the_centre_is_evaluated_as_often_as_asked_for(every, tmp_path):
    run = small_run(tmp_path / "r", eval_every=every, checkpoint_every=2)
    assert [stats.evaluation is not None for stats in run.history] == (
        [False] * 4 if every == 0 else [True, False, True, True]
    )
    assert run.checkpoint_generations() == [0, 2, 3]
    assert (run.best is None) == (every == 0)
    assert run.evaluate(episodes=2, workers=1).episodes == 2


def test_a_solved_run_stops_with_the_centre_that_was_confirmed(tmp_path):
    run = small_run(tmp_path / "r", solved_at=1.0, generations=5)
    assert len(run.history) == 1
    assert run.history[0].solved
    assert run.history[0].confirmation.episodes == 4
    assert run.finished
    assert run.best.parameter_hash == run.checkpoint.parameter_hash == run.history[0].parameter_hash
    assert len(run.resume(progress=False).history) == 1


LUCK = {
    "population_size": 2,
    "hidden_sizes": (),
    "confirm_episodes": 50,
    "eval_episodes": 5,
    "eval_budget": None,
    "workers": 1,
}


def test_a_centre_just_below_the_goal_is_not_solved_by_many_tests(walk, tmp_path):
    """Whichever of the centres is looked at: without a correction for looks, nine runs of ten would be solved."""
    for seed in range(2):
        fields = {**LUCK, "fitness": "small_envs:luck", "solved_at": 0.1, "seed": seed}
        assert small_run(tmp_path / str(seed), walk, generations=40, **fields).end == "generations"


def test_a_centre_well_above_the_goal_is_solved_in_one_of_the_first_tests(walk, tmp_path):
    run = small_run(tmp_path / "r", walk, generations=40, fitness="small_envs:luck", solved_at=-0.5, **LUCK)
    assert run.end == "solved"
    assert len(run.history) < 5


def test_a_test_of_a_lucky_centre_ends_after_ten_episodes(walk, tmp_path):
    lucky = small_run(
        tmp_path / "l", walk, generations=1, fitness="small_envs:good_until_confirmed", solved_at=0.5, **LUCK
    )
    assert [stats.confirmation.episodes for stats in lucky.history if stats.confirmation] == [10, 10]
    good = small_run(tmp_path / "g", walk, generations=1, fitness="small_envs:luck", solved_at=-0.5, **LUCK)
    assert good.history[-1].confirmation.episodes == LUCK["confirm_episodes"]


@pytest.mark.parametrize(("generations", "looks"), [(70, 7), pytest.param(1030, 10, marks=pytest.mark.long)])
def test_tests_of_a_centre_become_rarer_and_one_is_at_the_end(generations, looks, walk, tmp_path):
    fields = {**LUCK, "confirm_episodes": 12, "fitness": "small_envs:good_until_confirmed", "solved_at": 1.0}
    run = small_run(tmp_path / "r", walk, generations=generations, **fields)
    confirmed = [stats for stats in run.history if stats.confirmation]
    looked_at = [stats.generation for stats in confirmed if stats.confirmation.episodes == 10]
    assert looked_at == [*(2**k - 1 for k in range(looks)), generations]
    assert run.end == "generations"


@pytest.mark.parametrize("population_size", [2, 8])
def test_the_score_of_a_solved_run_is_that_of_its_proof(population_size, walk, tmp_path):
    run = small_run(tmp_path / "r", walk, fitness="small_envs:seed_of", solved_at=1.0, population_size=population_size)
    last = run.history[-1]
    assert (run.end, last.final) == ("solved", None)
    assert run.best_score == (last.generation, last.confirmation) == (run.best.generation, last.verdict)
    assert tuple(last.final_fitness) == run.final_seeds


def test_a_proof_ends_with_the_block_after_which_it_misses_the_goal(walk, tmp_path):
    """Blocks have 10, 10, 20 and 10 episodes; the mean of all so far, which is near 0, must reach the goal."""
    ends = set()
    for seed in range(4):
        fields = {**LUCK, "fitness": "small_envs:luck", "solved_at": -0.1, "seed": seed}
        run = small_run(tmp_path / str(seed), walk, generations=8, **fields)
        proofs = [stats for stats in run.history if stats.confirmation and stats.evaluation.reaches(-0.1)]
        ends |= {(stats.confirmation.episodes, stats.confirmation.mean >= -0.1) for stats in proofs}
    assert {episodes for episodes, _ in ends} <= {10, 20, 40, 50}
    assert {(10, False), (50, True)} <= ends


def test_where_the_goal_is_the_most_there_is_all_episodes_must_reach_it(walk, tmp_path):
    """Walk-v0 lasts 5 steps; a cart-pole stops before its limit now and then."""
    length = {**LUCK, "fitness": "episode_length", "generations": 3}
    assert small_run(tmp_path / "w", walk, solved_at=5.0, **length).end == "solved"
    run = small_run(tmp_path / "c", "CartPoleBullet-v0", **{**length, "max_episode_steps": 25, "solved_at": 25.0})
    assert run.end == ("solved" if run.history[-1].confirmation.mean == 25 else "generations")


def test_each_score_of_a_centre_is_taken_on_starts_of_its_own(walk, tmp_path):
    run = small_run(tmp_path / "r", walk, fitness="small_envs:seed_of")
    trained = [stats.fitness_max for stats in run.history[:-1]]
    evaluated, confirmed = (
        [getattr(stats, name).mean / 2**30 for stats in run.history if getattr(stats, name) is not None]
        for name in ("evaluation", "confirmation")
    )
    final, tested = run.history[-1].final.mean / 2**30, run.evaluate(episodes=3, workers=1).mean / 2**30
    assert max(trained) < 2**30
    assert 1 < min(evaluated) < max(evaluated) < 1.5 < min(confirmed) <= max(confirmed) < 1.625 < final < 1.75 < tested


def test_a_run_that_ends_scores_its_best_centre_once_more(whole, tmp_path):
    """Old runs, and those that were stopped, tell the score that confirmed it."""
    assert [stats.final is not None for stats in whole.history] == [False] * 6 + [True]
    last = whole.history[-1]
    assert whole.best_score == (whole.best.generation, last.final)
    assert last.final.episodes == len(last.final_fitness) == whole.config.confirm_episodes
    assert np.mean(last.final_fitness) == last.final.mean
    scores = (last.evaluation, last.confirmation, last.final)
    assert last.evaluation_steps == sum(score.steps for score in scores if score is not None)
    assert last.search_steps == last.total_steps - last.evaluation_steps == whole.history[-2].total_steps
    assert whole.history[-2].search_steps == whole.history[-2].total_steps
    stopped = small_run(tmp_path / "r", on_generation=lambda stats: stats.generation < 2, generations=6,
                        observation_normalization=True)  # fmt: skip
    assert stopped.best_score[1] == stopped.history[stopped.best_score[0]].confirmation


def test_where_success_is_reported_a_run_is_solved_only_by_successes(tmp_path):
    run = small_run(tmp_path / "r", "RaceCar-v0", solved_at=0.0, generations=1, population_size=4)
    assert all(stats.evaluation.mean > 0 for stats in run.history)
    assert not any(stats.solved for stats in run.history)
    assert run.history[0].evaluation.success_rate == 0


@pytest.mark.slow
def test_training_improves_the_centre_on_unseen_starts(tmp_path):
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "r", progress=False, seed=3, generations=20)
    start = es_core.evaluate(run.checkpoint_at(0), episodes=20)
    end = run.evaluate(episodes=20)
    assert (end.interval or (end.mean,))[0] > (start.interval or (start.mean,))[-1]


def test_a_config_takes_over_the_network_that_it_does_not_choose_itself(walk, tiny, tmp_path):
    how = {"workers": 1, "progress": False}
    usual = {name: value for name, value in tiny.items() if name not in {*how, "hidden_sizes"}}
    shape = {"policy": "mlp", "hidden_sizes": (3,), "activation": "relu", "observation_clip": 1.0}
    first = train(walk, run_dir=tmp_path / "first", **{**usual, **shape, **how})
    begun = {
        name: train(env, run_dir=tmp_path / name, initial=first.best, **given, **how)
        for name, env, given in (("id", walk, usual), ("config", TrainConfig.for_env(walk, **usual), {}))
    }
    assert {name: getattr(begun["config"].config, name) for name in shape} == shape
    assert begun["config"].history[-1].parameter_hash == begun["id"].history[-1].parameter_hash
    other = TrainConfig.for_env(walk, **usual, observation_clip=2.0)
    kept = train(other, run_dir=tmp_path / "other", initial=first.best, **how).config
    assert {name: getattr(kept, name) for name in shape} == {**shape, "observation_clip": 2.0}


def test_a_run_can_start_from_another_runs_policy(whole, tmp_path):
    options = {"generations": 1, "observation_normalization": True}
    run = small_run(tmp_path / "r", initial=whole.directory / "best.safetensors", **options)
    np.testing.assert_array_equal(run.checkpoint_at(0).mean, whole.best.mean)
    assert run.checkpoint_at(0).statistics.count == whole.best.statistics.count
    with pytest.raises(ValueError, match="initial has"):
        small_run(tmp_path / "q", initial=whole.best, hidden_sizes=(4,))


def test_a_config_is_complete_and_cannot_be_overridden(tmp_path):
    config = TrainConfig(env_id="CartPoleBullet-v0", **{**SMALL, "generations": 1})
    settled = (
        "strategy",
        "strategy_options",
        "observation_normalization",
        "action_squash",
        "episode_seeds",
        "steps_per_generation",
        "steps_limit",
        "decided",
    )
    run = train(config, run_dir=tmp_path / "r", progress=False, workers=1)
    assert run.config == dataclasses.replace(
        config,
        fitness="episode_length",
        engine="compiled",
        device="cpu",
        **{name: getattr(run.config, name) for name in settled},
    )
    with pytest.raises(TypeError, match="sigma"):
        train(config, sigma=1.0)


def test_recommended_settings_apply_below_the_callers_own():
    config = TrainConfig.for_env("CartPoleBullet-v0", sigma=0.3)
    recommended = es_envs.definition("CartPoleBullet-v0").recommended
    assert config.sigma == 0.3
    assert config.learning_rate == recommended["learning_rate"]
    assert config.solved_at == 500.0
    assert TrainConfig.for_env("CartPoleBullet-v0", fitness="episode_return").solved_at is None
    assert TrainConfig.for_env("CartPoleBullet-v0", fitness="episode_length").solved_at == 500.0


@pytest.mark.parametrize("fields", [{}, {"strategy": "ars"}, {"policy": "linear"}])
def test_hidden_sizes_for_a_linear_policy_are_refused(fields):
    with pytest.raises(ValueError, match=r"hidden_sizes=\(64, 64\): policy='linear' has no hidden layers.* mlp"):
        TrainConfig.for_env("RaceCar-v0", hidden_sizes=(64, 64), **fields)
    assert TrainConfig.for_env("RaceCar-v0", **{**fields, "policy": "mlp"}, hidden_sizes=(64, 64)).policy == "mlp"
    assert TrainConfig.for_env("RaceCar-v0", **fields, hidden_sizes=()).policy == "linear"


def test_zero_is_a_value_and_not_a_missing_one():
    config = TrainConfig.for_env("CartPoleBullet-v0", seed=0, eval_every=0, weight_decay=0, solved_at=0.0)
    assert (config.seed, config.eval_every, config.weight_decay, config.solved_at) == (0, 0, 0, 0.0)


def test_action_noise_changes_training_but_not_evaluation(tmp_path):
    fields = {"env_id": "RaceCar-v0", "generations": 1, "population_size": 4}
    quiet = small_run(tmp_path / "a", **fields)
    noisy = small_run(tmp_path / "b", action_noise=0.5, **fields)
    again = small_run(tmp_path / "c", action_noise=0.5, workers=1, **fields)
    assert quiet.history[0].evaluation == noisy.history[0].evaluation
    assert quiet.history[0].fitness_mean != noisy.history[0].fitness_mean
    assert lines(noisy) == lines(again)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "Taxi-v4"])
def test_gymnasiums_own_environments_train_untouched(env_id, tmp_path):
    run = small_run(tmp_path / "r", env_id, generations=2)
    assert len(run.history) == 3
    assert run.config.fitness == "episode_return"


class Listener:
    def __init__(self):
        self.heard = []

    @hookimpl
    def run_started(self, run, config):
        assert run.config == config
        self.heard.append("started")

    @hookimpl
    def generation_finished(self, stats):
        self.heard.append(stats.generation)

    @hookimpl
    def run_finished(self, run):
        self.heard.append("finished")


def test_lifecycle_hooks_are_called_in_order(tmp_path):
    listener = Listener()
    small_run(tmp_path / "r", loggers=[listener])
    assert listener.heard == ["started", 0, 1, 2, 3, "finished"]


def test_a_logger_that_raises_is_reported_once_and_cannot_stop_a_run(tmp_path):
    class Broken:
        @hookimpl
        def generation_finished(self, stats):
            raise OSError("no network")

    with pytest.warns(RuntimeWarning, match="no network.*switched off") as caught:
        run = small_run(tmp_path / "r", loggers=[Broken()])
    assert len(caught) == 1
    assert run.finished


def test_an_object_that_is_no_logger_is_refused():
    with pytest.raises(ValueError, match="run_started"):
        train("CartPoleBullet-v0", loggers=[object()])
    with pytest.raises(ValueError, match="tensorboard"):
        train("CartPoleBullet-v0", loggers=["tensorbored"])


def test_tensorboard_can_read_the_scalars(whole):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(whole.directory / "tensorboard"))
    events.Reload()
    assert {"population/fitness_mean", "centre/fitness", "fitness/episode_length"} <= set(events.Tags()["scalars"])
    values = [event.value for event in events.Scalars("population/fitness_mean")]
    assert values == pytest.approx([stats.fitness_mean for stats in whole.history[:-1]], rel=1e-6)


def test_progress_is_plain_lines_on_stderr_without_a_terminal(tmp_path, capfd):
    train("CartPoleBullet-v0", run_dir=tmp_path / "r", workers=1, **{**SMALL, "generations": 1})
    out, err = capfd.readouterr()
    assert out == ""
    assert "training in" in err
    assert "generation 1/1" in err


def test_an_evaluation_scores_unseen_starts_and_repeats(whole):
    first, second, other = (
        whole.evaluate(episodes=30),
        whole.evaluate(episodes=30, workers=1),
        whole.evaluate(episodes=30, seed=1),
    )
    assert first == second != other
    assert first.interval[0] <= first.mean <= first.interval[1]
    assert first.success_rate is None
    assert first.distinct == 30
    assert first.returns == first.fitnesses["episode_length"] == first.length
    assert math.isclose(first.steps, first.length * 30)


def test_equal_starts_are_reported_as_one_distinct_episode(tmp_path):
    run = small_run(tmp_path / "r", env_kwargs={"start_noise": 0.0}, generations=1)
    score = run.evaluate(episodes=5)
    assert (score.episodes, score.distinct) == (5, 1)
    assert "all of them the same" in str(score)


def test_every_way_to_name_a_policy_gives_the_same_score(whole):
    best = whole.directory / "best.safetensors"
    scores = [es_core.evaluate(source, episodes=5) for source in (whole, whole.directory, str(best), best, whole.best)]
    assert all(score == scores[0] for score in scores)
    assert es_core.evaluate(whole, episodes=5, generation=0) == es_core.evaluate(whole.checkpoint_at(0), episodes=5)


def test_an_environment_that_ignores_the_seed_is_reported_as_training_begins(register, tmp_path):
    env_id = register("Unseeded-v0", "broken_envs:Unseeded", fitness="episode_return", max_episode_steps=60)
    with pytest.warns(RuntimeWarning, match="begin differently, .* `es-envs check Unseeded-v0` says"):
        train(env_id, run_dir=tmp_path / "r", **{**TINY, "eval_every": 1})


def test_observations_outside_of_their_space_are_reported_as_training_begins(register, tmp_path):
    env_id = register("WrongDtype-v0", "broken_envs:WrongDtype", fitness="episode_return", max_episode_steps=5)
    with pytest.warns(
        RuntimeWarning,
        match="the first observation of an episode has dtype float64, the space says float32. `es-envs check ",
    ):
        train(env_id, run_dir=tmp_path / "r", **{**TINY, "eval_every": 1})
