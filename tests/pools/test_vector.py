"""The vector pool: the episodes of the local one, in copies that are stepped together, whatever their kind."""

import numpy as np
import pytest
import vector_envs
from conftest import first_fast
from gymnasium import spaces
from written import lines

import es_envs
from es_core import RolloutError, Run, TrainConfig, evaluate, rebuild, replay, train
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.strategies.population import Population

SETTINGS = {
    "generations": 3,
    "population_size": 8,
    "episodes_per_candidate": 2,
    "eval_episodes": 3,
    "confirm_episodes": 5,
    "policy": "mlp",
    "hidden_sizes": (8,),
    "sigma": 0.3,
    "observation_normalization": True,
    "action_noise": 0.1,
    "progress": False,
}


@pytest.fixture
def tilt(register):
    """``tilt(**vector_env)``: an environment whose vectorised form takes these arguments; None: it has none."""

    def make(*, kwargs=None, native=True, **fields):
        point = {"vector_entry_point": "vector_envs:Tilts"} if native else {}
        entry = "vector_envs:single" if native else "small_envs:Tilt"
        return register("Tilt-v0", entry, kwargs=kwargs or {}, max_episode_steps=12, **point, **fields)

    return make


def population(pool, count, **fields):
    from es_core.policies.by_name import make_policy

    policy = make_policy(pool.config, pool.observation_space, pool.action_space)
    return Population(
        generation=0,
        base=3 * policy.initial(0)[np.newaxis],
        parent=np.zeros(count, np.int64),
        scale=0.5,
        noise_seed=np.arange(count),
        sign=np.ones(count, np.int8),
        **fields,
    )


def evaluated(env_id, pool, *, count=7, seeds=(3, 4), **fields):
    settings = {"hidden_sizes": (6,), "observation_normalization": True, "action_noise": 0.2, **fields}
    config = TrainConfig.for_env(env_id, **settings)
    with make_pool(
        es_envs.definition(env_id), config, PoolOptions(pool=pool, workers=None if pool == "vector" else 1)
    ) as made:
        results = made.evaluate(population(made, count), np.array(seeds), centre_seeds=[2**30, 2**30 + 1])
        return results, made.config


def require_close(results, expected):
    np.testing.assert_array_equal(results.lengths, expected.lengths)
    np.testing.assert_array_equal(results.capped, expected.capped)
    assert len(set(expected.lengths.ravel().tolist())) > 3, "episodes should differ in length, or this shows little"
    for name, values in expected.fitnesses.items():
        np.testing.assert_allclose(results.fitnesses[name], values, rtol=1e-4)
    for now, then in zip(results.statistics, expected.statistics, strict=True):
        assert now.count == then.count
        np.testing.assert_allclose(now.total, then.total, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(now.squares, then.squares, rtol=1e-4)
    for now, then in zip(results.centre, expected.centre, strict=True):
        assert (now.seed, now.length, now.terminated) == (then.seed, then.length, then.terminated)
        np.testing.assert_allclose(now.first_observation, then.first_observation)
        np.testing.assert_allclose(now.last_observation, then.last_observation, rtol=1e-4)
        for told, expected_info in ((now.start_info, then.start_info), (now.final_info, then.final_info)):
            assert told.keys() == expected_info.keys()
            np.testing.assert_allclose(told["position"], expected_info["position"], rtol=1e-4)


FITNESSES = {"fitnesses": {"farthest": "vector_envs:Farthest", "score": "final_info:score"}}


@pytest.mark.parametrize("width", [1, 3, 20])
@pytest.mark.parametrize(
    "kwargs", [{"seeding": "each"}, {"seeding": "each", "mode": "SameStep"}, {"seeding": "construction"}]
)
def test_copies_that_take_seeds_play_the_local_pools_episodes(kwargs, width, tilt):
    env_id = tilt(kwargs=kwargs, **FITNESSES)
    results, config = evaluated(env_id, "vector", vector_envs=width)
    assert config.vector_starts == "each copy seeded"
    require_close(results, evaluated(env_id, "local")[0])


def test_copies_that_take_seeds_when_they_are_made_are_as_many_as_there_are_episodes(tilt, monkeypatch):
    monkeypatch.setattr(vector_envs.Tilts, "made", [])
    evaluated(tilt(kwargs={"seeding": "construction"}), "vector", vector_envs=8)
    assert vector_envs.Tilts.made == [8, 2, 2, 8, 6, 2], "tries; 7 candidates with 2 episodes; 2 of the centre"


@pytest.mark.parametrize("width", [1, 3])
def test_without_a_vectorised_form_each_copy_has_a_process(width, tilt):
    env_id = tilt(native=False, **FITNESSES)
    results, config = evaluated(env_id, "vector", vector_envs=width)
    assert (config.vector_envs, config.vector_starts) == (width, "each copy seeded")
    require_close(results, evaluated(env_id, "local")[0])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("seeding", ["whole", "none"])
def test_the_empty_step_between_two_episodes_is_not_counted(seeding, mode, tilt):
    env_id = tilt(kwargs={"seeding": seeding, "mode": mode})
    results, config = evaluated(env_id, "vector", vector_envs=3)
    assert config.vector_starts == {"whole": "seeded as a whole", "none": "not controlled"}[seeding]
    assert results.valid.all()
    assert (results.fitness <= results.lengths.max()).all(), "the reward of an empty step is 1000"
    assert all(each.count == sum(lengths) for each, lengths in zip(results.statistics, results.lengths, strict=True))


def test_flattened_observations_keep_the_vectorised_form(tilt):
    env_id = tilt(kwargs={"seeding": "whole"}, **FITNESSES)
    results, config = evaluated(env_id, "vector", vector_envs=3, preprocessing={"flatten": True})
    assert config.vector_starts == "seeded as a whole"  # copies in processes take a seed each
    expected, _ = evaluated(env_id, "vector", vector_envs=3)
    np.testing.assert_array_equal(results.fitness, expected.fitness)
    for now, then in zip(results.centre, expected.centre, strict=True):
        np.testing.assert_array_equal(now.last_observation, then.last_observation)


def test_an_environment_seeded_as_a_whole_has_new_starts_each_generation(tilt):
    env_id = tilt(kwargs={"seeding": "whole"})
    first, again, other = (evaluated(env_id, "vector", seeds=seeds)[0] for seeds in ((3, 4), (3, 4), (5, 6)))
    np.testing.assert_array_equal(again.fitness, first.fitness)
    assert (other.fitness != first.fitness).any()


def test_uncontrolled_starts_score_the_centre_in_single_environments(tilt):
    env_id = tilt(kwargs={"seeding": "none"})
    centre = evaluated(env_id, "vector")[0].centre
    expected = evaluated(env_id, "local")[0].centre
    assert [episode.length for episode in centre] == [episode.length for episode in expected]
    np.testing.assert_allclose([episode.fitness for episode in centre], [episode.fitness for episode in expected])


@pytest.mark.slow
@pytest.mark.parametrize("kwargs", first_fast([None, {"seeding": "whole"}, {"seeding": "construction"}]), ids=str)
def test_a_resumed_run_of_the_vector_pool_equals_one_that_never_stopped(kwargs, tilt, tmp_path):
    env_id = tilt(kwargs=kwargs, native=kwargs is not None)
    whole = train(env_id, run_dir=tmp_path / "whole", pool="vector", **SETTINGS)
    options = {**SETTINGS, "on_generation": lambda stats: stats.generation < 1}
    stopped = train(env_id, run_dir=tmp_path / "stopped", pool="vector", **options)
    resumed = stopped.resume(pool="vector", progress=False)
    assert lines(resumed) == lines(whole)
    for file in ("checkpoints/000003.safetensors", "best.safetensors"):
        assert (resumed.directory / file).read_bytes() == (whole.directory / file).read_bytes()
    assert Run.open(whole.directory).config.engine == "torch"
    (whole.directory / "checkpoints/000003.safetensors").unlink()
    np.testing.assert_array_equal(rebuild(whole, 3).mean, resumed.checkpoint_at(3).mean)
    assert evaluate(whole, episodes=2, workers=1).mean > 0


def test_a_run_of_the_vector_pool_is_resumed_by_no_other(tilt, tmp_path):
    run = train(tilt(kwargs={}), run_dir=tmp_path / "r", pool="vector", **SETTINGS)
    with pytest.raises(ValueError, match=r"vector_envs=8 is for pool='vector' .*can only be resumed with it"):
        run.resume(generations=4, progress=False)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"fault": "copies"}, r"its vector environment Tilts has 5 copies, expected 4 \(num_envs\)"),
        ({"fault": "spaces"}, r"has the observation space Box.*, the environment itself Box.*: they must agree"),
        ({"fault": "no mode"}, r"autoreset_mode'\]=None, which the vector pool does not support"),
        ({"mode": "Disabled"}, r"AutoresetMode.DISABLED.* which the vector pool does not support"),
    ],
)
def test_a_vector_environment_that_does_not_fit_is_refused_in_a_sentence(kwargs, message, tilt, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(tilt(kwargs=kwargs), run_dir=tmp_path / "r", pool="vector", vector_envs=4, **SETTINGS)
    assert not (tmp_path / "r").exists()


@pytest.mark.filterwarnings("ignore:.*all copies are replaced")
def test_same_step_autoreset_without_final_infos_is_refused_by_name(tilt):
    with pytest.raises(RolloutError, match=r"AutoresetMode.SAME_STEP.*lack 'final_obs'"):
        evaluated(tilt(kwargs={"mode": "SameStep", "fault": "no final"}), "vector")


@pytest.mark.filterwarnings("ignore:.*all copies are replaced")
@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("fault", "message"), [("step", "the motor is on fire"), ("nan", "the observation is not finite")]
)
def test_a_candidate_that_fails_is_named_with_its_seed(fault, message, native, tilt):
    env_id = tilt(kwargs={"fault": fault}, native=native)
    with pytest.raises(RolloutError, match=rf"Tilt-v0 .*candidate \d in generation 0 \(episode seed \d.*{message}"):
        evaluated(env_id, "vector", vector_envs=2)


@pytest.mark.filterwarnings("ignore:.*all copies are replaced")
@pytest.mark.parametrize("who", first_fast(["the centre", "random actions"], 1))
def test_an_episode_that_fails_is_repeated_once_in_a_fresh_environment(who, register, tmp_path):
    def play(pool, seed):
        mean = np.zeros(pool.policy.size, np.float32)
        (episode,) = pool.rollouts(mean, None, [seed]) if who == "the centre" else pool.random_rollouts([seed])
        return episode.last_observation.tolist()

    def made(once):
        faults = {"faults": {"7": "raise in step"}, "once": once}
        env_id = register("Failing-v0", "small_envs:Failing", kwargs=faults, max_episode_steps=12)
        config = TrainConfig.for_env(env_id, hidden_sizes=(), vector_envs=2, observation_normalization=False)
        return make_pool(es_envs.definition(env_id), config, PoolOptions(pool="vector"))

    with made(str(tmp_path)) as pool:
        first, other = play(pool, 7), play(pool, 8)
        assert (pool.retried, play(pool, 7)) == (1, first)
    with made(None) as pool:
        with pytest.raises(RolloutError, match=rf"an episode of {who} .*the motor is on fire"):
            play(pool, 7)
        assert (pool.retried, play(pool, 8)) == (0, other)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"workers": 2}, r"workers=2 is for the pools 'local' and 'ray'.*vector_envs"),
        ({"engine": "compiled"}, "engine='compiled' computes one candidate"),
        ({"vector_envs": 0}, "vector_envs must be"),
        ({"pool": "local", "vector_envs": 2}, "vector_envs=2 is for pool='vector'"),
    ],
)
def test_settings_that_do_not_fit_the_pool_are_refused(fields, message, tilt, tmp_path):
    with pytest.raises(ValueError, match=message):
        train(tilt(), run_dir=tmp_path / "r", **{"pool": "vector", **SETTINGS, **fields})


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lstm", "small_modules:Remembering"])
def test_recurrent_policies_and_modules_play_as_in_the_local_pool(policy, tilt):
    env_id = tilt(kwargs={"seeding": "each"})
    fields = {"policy": policy, **({"hidden_sizes": (5,)} if policy == "lstm" else {})}
    results = evaluated(env_id, "vector", vector_envs=4, **fields)[0]
    expected = evaluated(env_id, "local", **fields)[0]
    np.testing.assert_array_equal(results.lengths, expected.lengths)
    np.testing.assert_allclose(results.fitness, expected.fitness, rtol=1e-4)


def test_virtual_batch_norm_finds_its_batch_in_a_single_environment(tilt, tmp_path):
    fields = {**SETTINGS, "observation_normalization": False, "virtual_batch_normalization": True, "generations": 1}
    run = train(tilt(kwargs={}), run_dir=tmp_path / "r", pool="vector", **fields)
    assert run.history[0].fitness_mean is not None


@pytest.mark.parametrize("policy", ["mlp", "gru"])
def test_the_result_of_a_row_does_not_depend_on_other_rows(policy):
    import torch

    from es_core.policies.by_name import make_policy
    from es_core.policies.torch_actor import TorchActors

    config = TrainConfig(env_id="Walk-v0", policy=policy, hidden_sizes=(16,))
    made = make_policy(config, spaces.Box(-1, 1, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32))
    generator = np.random.default_rng(0)
    parameters = generator.normal(size=(70, made.size)).astype(np.float32)
    observations = generator.normal(size=(5, 70, 3)).astype(np.float32)

    def raw(live):
        actors = TorchActors(made, 70)
        for row, own in enumerate(parameters):
            actors.load(row, own if live[row] else 100 * own)
            actors.reset(row)
        return np.array([actors.outputs(torch.from_numpy(now), live)[0].numpy()[66] for now in observations])

    everybody, few = np.ones(70, np.bool_), np.arange(70) == 66
    np.testing.assert_array_equal(raw(few), raw(everybody))


def test_cart_poles_own_vectorised_form_is_trained_in(tmp_path):
    run = train("CartPole-v1", run_dir=tmp_path / "r", pool="vector", **{**SETTINGS, "action_noise": 0})
    assert (run.config.vector_envs, run.config.vector_starts) == (8, "seeded as a whole")
    assert all(1 < stats.episode_length <= 500 for stats in run.history[:-1])
    page = run.report().read_text(encoding="utf-8")
    assert "--pool vector" in page
    assert "seeded as a whole" in page
    with pytest.warns(RuntimeWarning, match="was seeded as a whole, so no episode of its training begins like one"):
        replay(run, generation=0, seed=1)


@pytest.mark.slow
def test_a_task_of_envpool_plays_as_many_copies_and_as_one():
    pytest.importorskip("envpool", reason="EnvPool is not installed")
    # A few steps: after twenty, contacts have made a hundredth of the last bit's difference.
    fields = {"hidden_sizes": (8,), "max_episode_steps": 5, "action_noise": 0.0, "observation_normalization": False}
    results, config = evaluated("envpool/HalfCheetah-v4", "vector", **fields)
    assert config.vector_starts == "each copy seeded"
    expected, _ = evaluated("envpool/HalfCheetah-v4", "local", **fields)
    np.testing.assert_allclose(results.fitness, expected.fitness, rtol=1e-4)


def test_observations_are_not_flattened_where_the_next_episode_begins_at_once(tilt):
    env_id = tilt(kwargs={"mode": "SameStep"})
    with pytest.raises(ValueError, match=r"Tilt-v0.*preprocessing 'flatten'.*autoreset_mode.*pool='local'"):
        evaluated(env_id, "vector", preprocessing={"flatten": True})


@pytest.mark.long
def test_images_of_an_atari_game_of_envpool_are_seen_in_one_row():
    pytest.importorskip("envpool", reason="EnvPool is not installed")
    fields = {
        "hidden_sizes": (),
        "env_kwargs": {"img_height": 12, "img_width": 12, "stack_num": 2},
        "preprocessing": {"flatten": True},
        "max_episode_steps": 30,
        "action_noise": 0.0,
    }
    results, _ = evaluated("envpool/Boxing-v5", "vector", count=2, seeds=(1,), vector_envs=2, **fields)
    expected, _ = evaluated("envpool/Boxing-v5", "local", count=2, seeds=(1,), **fields)
    np.testing.assert_array_equal(results.fitness, expected.fitness)
    for now, then in zip(results.statistics, expected.statistics, strict=True):
        assert now.total.shape == (288,)
        np.testing.assert_allclose(now.total, then.total)


@pytest.mark.long
def test_images_of_an_atari_game_of_envpool_are_seen():
    pytest.importorskip("envpool", reason="EnvPool is not installed")
    fields = {"policy": "cnn_small", "max_episode_steps": 8, "action_noise": 0.0, "observation_normalization": False}
    results, _ = evaluated("envpool/Pong-v5", "vector", count=2, seeds=(1,), **fields)
    assert (results.lengths == 8).all()


@pytest.mark.slow
def test_arrays_of_jax_go_to_the_policy_and_back_the_same_way_each_time():
    pytest.importorskip("jax", reason="JAX is not installed")
    pytest.importorskip("flax", reason="JAX is not installed")
    fields = {"hidden_sizes": (8,), "action_noise": 0.0, "max_episode_steps": 40, "count": 5}
    first, config = evaluated("phys2d/CartPole-v1", "vector", **fields)
    again, _ = evaluated("phys2d/CartPole-v1", "vector", **fields)
    assert config.vector_starts == "seeded as a whole"
    np.testing.assert_array_equal(first.fitness, again.fitness)
    assert (first.fitness > 1).all()


@pytest.mark.cuda
def test_a_cuda_device_plays_the_episodes_of_the_cpu_within_rounding(tilt):
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    env_id = tilt(kwargs={"seeding": "each"})
    require_close(evaluated(env_id, "vector", device="cuda")[0], evaluated(env_id, "vector")[0])


ENDS = {
    "die": r"WorkerDied: the process died \(exit code -9; killed by a signal",
    "hang": r"StepTimeout: a step or reset took more than 3 seconds \(step_timeout\)",
}


@pytest.mark.parametrize("fault", first_fast(ENDS))
def test_copies_of_which_a_process_dies_or_hangs_are_made_anew(fault, register, tmp_path):
    flag = tmp_path / "once"
    env_id = register("Tilt-v0", "vector_envs:Doomed", kwargs={"fault": fault, "flag": str(flag)}, max_episode_steps=12)
    flag.touch()
    config = TrainConfig.for_env(env_id, hidden_sizes=(6,), vector_envs=2)
    with make_pool(es_envs.definition(env_id), config, PoolOptions(pool="vector", step_timeout=3)) as made:
        with pytest.warns(RuntimeWarning, match=f"all copies are replaced: {ENDS[fault]}"):
            results = made.evaluate(population(made, 4), np.array([3]))
        assert not flag.exists()
        assert (made.workers_replaced, results.valid.all()) == (1, True)
    expected = evaluated(env_id, "local", count=4, seeds=(3,), observation_normalization=False, action_noise=0.0)[0]
    np.testing.assert_allclose(results.fitness, expected.fitness, rtol=1e-4)


SMALL = {"generations": 1, "population_size": 4, "eval_episodes": 2, "confirm_episodes": 2, "progress": False}


def test_an_environment_with_threads_plays_in_the_vector_pool(register, tmp_path):
    env_id = register("Threaded-v0", "vector_envs:Threaded", max_episode_steps=12)
    run = train(env_id, pool="vector", vector_envs=2, run_dir=tmp_path / "run", step_timeout=60, **SMALL)
    local = train(env_id, workers=2, run_dir=tmp_path / "local", **SMALL)

    assert run.history[0].fitness_mean == pytest.approx(local.history[0].fitness_mean, abs=1e-4)


def test_an_environment_in_jax_plays_in_processes(register, tmp_path):
    pytest.importorskip("jax", reason="JAX is not installed")
    env_id = register("Jaxed-v0", "jax_envs:Pushed", max_episode_steps=12)
    run = train(env_id, pool="vector", vector_envs=2, run_dir=tmp_path / "run", step_timeout=120, **SMALL)

    assert (run.history[0].failed_candidates, run.history[0].retried) == ([], 0)


def test_copies_that_never_answer_end_the_run_at_the_first_wave(register, tmp_path):
    env_id = register("OnlyInMain-v0", "vector_envs:OnlyInMain", max_episode_steps=12)
    with pytest.raises(RolloutError, match=r"no copy has ever answered, though each had 2 seconds .* pool='local'"):
        train(env_id, pool="vector", vector_envs=2, run_dir=tmp_path / "run", step_timeout=2, **SMALL)


SCRIPT = """
import gymnasium
from es_core import train
from vector_envs import Tilt

class Mine(Tilt):
    pass

print("started")
run = train(Mine, pool="vector", vector_envs=2, generations=1, population_size=4, eval_episodes=2, confirm_episodes=2,
            max_episode_steps=12, run_dir="run", progress=False)
print(len(run.history))
"""


@pytest.mark.slow
def test_copies_do_not_import_an_unguarded_script(python, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    done = python(arguments=["script.py"], cwd=tmp_path)

    assert (done.out.splitlines(), done.code) == (["started", "2"], 0), done.err
