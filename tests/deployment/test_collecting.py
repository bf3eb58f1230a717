"""Datasets: episodes as Minari and others read them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

minari = pytest.importorskip("minari")

from conftest import TINY, running, wait_until

import es_envs
from es_core import RolloutError, collect, train
from es_core.cli import main
from es_core.seeding import Purpose, episode_seeds

STEPS = 12
EXAMPLE = Path(__file__).parents[2] / "examples" / "behaviour_cloning.py"


@pytest.fixture(scope="module")
def runs(tmp_path_factory, nested):
    """Runs of a Bullet environment, one of Gymnasium's, and one with Dict observations."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {**TINY, "population_size": 4, "max_episode_steps": STEPS, "policy": "mlp"}
    ids = ("CartPoleBullet-v0", "FrozenLake-v1", nested)
    return {env_id: train(env_id, run_dir=folder / env_id, seed=1, **settings) for env_id in ids}


@pytest.fixture(scope="module")
def nested():
    from conftest import registered

    fields = {"fitness": "episode_return", "max_episode_steps": STEPS}
    with registered("Nested-v0", "small_envs:Nested", **fields) as definition:
        yield definition.id


@pytest.fixture(params=["CartPoleBullet-v0", "FrozenLake-v1", "Nested-v0"])
def run(request, runs):
    return runs[request.param]


def load(collected, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(collected.path.parent))
    return minari.load_dataset(collected.dataset_id)


def entries(space, values):
    """Arrays of a batch of a space's values, one for each part."""
    if isinstance(space, gymnasium.spaces.Dict):
        return [leaf for name, part in space.items() for leaf in entries(part, values[name])]
    if isinstance(space, gymnasium.spaces.Tuple):
        return [leaf for part, value in zip(space, values, strict=True) for leaf in entries(part, value)]
    return [np.asarray(values)]


def test_a_dataset_holds_the_scored_episodes_step_by_step(run, tmp_path, monkeypatch):
    collected = collect(run, tmp_path / "data", episodes=23, seed=4)
    dataset = load(collected, monkeypatch)
    score = run.evaluate(episodes=23, seed=4, workers=1)
    assert (dataset.total_episodes, dataset.total_steps) == (collected.episodes, collected.steps) == (23, score.steps)
    assert collected.mean_fitness == pytest.approx(score.mean)
    seeds = episode_seeds(4, Purpose.TEST, 23)
    env = es_envs.make(run.config.env_id).unwrapped
    act = (run.best or run.checkpoint).actor()
    for number, episode in enumerate(dataset.iterate_episodes()):
        assert np.flatnonzero(episode.terminations | episode.truncations).tolist() == [len(episode.rewards) - 1]
        act.reset()
        observation, _ = env.reset(seed=int(seeds[number]))
        for step, reward in enumerate(episode.rewards):
            here = [leaf[step] for leaf in entries(env.observation_space, episode.observations)]
            expected = entries(env.observation_space, observation)
            assert all(np.array_equal(a, b) for a, b in zip(here, expected, strict=True))
            action = act(observation)
            assert np.array_equal(np.asarray(episode.actions)[step], action)
            observation, earned, *_ = env.step(action)
            assert reward == earned
    env.close()
    storage = list(dataset.storage.get_episode_metadata(range(23)))
    assert [each["seed"] for each in storage] == list(seeds)
    assert np.mean([each["fitness"] for each in storage]) == pytest.approx(score.mean)


def test_the_environment_can_be_made_again_from_a_dataset(runs, tmp_path, monkeypatch):
    for env_id in ("CartPoleBullet-v0", "FrozenLake-v1"):
        dataset = load(collect(runs[env_id], tmp_path, episodes=1), monkeypatch)
        env = dataset.recover_environment()
        assert env.observation_space == dataset.observation_space
        env.reset(seed=0)
        env.close()
    varied = train("CartPoleBullet-v0", run_dir=tmp_path / "varied", randomize={"mass": [2, 2]}, **TINY)
    env = load(collect(varied, tmp_path, episodes=1, dataset_id="heavy-v0"), monkeypatch).recover_environment()
    assert env.reset(seed=0)[1]["randomized"]["mass"] == 2
    env.close()
    frozen = {"env_kwargs": {"is_slippery": False}, "max_episode_steps": 7}
    run = train("FrozenLake-v1", run_dir=tmp_path / "frozen", **{**TINY, **frozen})
    spec = load(collect(run, tmp_path, episodes=1, dataset_id="frozen-v0"), monkeypatch).recover_environment().spec
    assert spec.kwargs["is_slippery"] is False
    assert spec.max_episode_steps == 7


def test_an_environment_made_again_has_the_runs_step_limit(runs, register, tmp_path, monkeypatch):
    dataset = load(collect(runs["CartPoleBullet-v0"], tmp_path, episodes=1), monkeypatch)
    assert dataset.recover_environment().spec.max_episode_steps == STEPS
    endless = register("Endless-v0", "small_envs:Endless", max_episode_steps=None)
    how = {"preprocessing": {"skip": 4, "stack": 2}, "max_episode_steps": 3}
    run = train(endless, run_dir=tmp_path / "run", **{**TINY, **how})
    dataset = load(collect(run, tmp_path, episodes=1, dataset_id="endless-v0"), monkeypatch)
    assert dataset.recover_environment().spec.max_episode_steps == 3 * 4
    assert "'stack': 2" in dataset.storage.metadata["description"]


def test_every_environment_that_collecting_makes_is_closed(tmp_path, monkeypatch):
    kind = CartPoleEnv
    run = train("CartPole-v1", run_dir=tmp_path / "run", **TINY)
    open_now = set()
    make, close = kind.__init__, kind.close
    monkeypatch.setattr(kind, "__init__", lambda env, *args, **how: (open_now.add(env), make(env, *args, **how))[1])
    monkeypatch.setattr(kind, "close", lambda env: (open_now.discard(env), close(env))[1])
    collect(run, tmp_path, episodes=1)
    assert not open_now


def test_a_whole_population_is_collected_with_who_played(runs, tmp_path, monkeypatch):
    run = runs["CartPoleBullet-v0"]
    collected = collect(run, tmp_path, generation=0, population=True, episodes=2, dataset_id="carts/all-v3")
    assert collected.path == tmp_path / "carts" / "all-v3"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    metadata = list(minari.load_dataset("carts/all-v3").storage.get_episode_metadata(range(8)))
    assert [each["candidate"] for each in metadata] == [0, 0, 1, 1, 2, 2, 3, 3]
    one = run.evaluate(episodes=2, generation=0, candidate=3, workers=1)
    assert np.mean([each["fitness"] for each in metadata[6:]]) == one.mean


@pytest.mark.slow
def test_pictures_are_kept_as_they_were_seen(tmp_path, monkeypatch):
    settings = {**TINY, "hidden_sizes": "auto", "policy": "cnn_small", "preprocessing": {"pixels": 64}}
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "run", **settings)
    dataset = load(collect(run, tmp_path / "data", episodes=1), monkeypatch)
    [episode] = dataset.iterate_episodes()
    env = es_envs.make("CartPoleBullet-v0", render_mode="rgb_array").unwrapped
    env.reset(seed=int(next(iter(dataset.storage.get_episode_metadata([0])))["seed"]))
    assert episode.observations.shape == (len(episode.rewards) + 1, 64, 64, 3)
    np.testing.assert_array_equal(episode.observations[0], env.seen(64))
    assert not np.array_equal(episode.observations[0], episode.observations[-1])
    env.close()


def test_a_dataset_that_cannot_be_collected_leaves_no_files(runs, register, tmp_path):
    run, folder = runs["CartPoleBullet-v0"], tmp_path / "data"
    with pytest.raises(ValueError, match="dataset_id must be NAME-vNUMBER"):
        collect(run, folder, dataset_id="cart")
    with pytest.raises(ValueError, match="episodes must be a whole number of at least 1"):
        collect(run, folder, episodes=0)
    assert not folder.exists()
    first = collect(run, folder, episodes=1)
    with pytest.raises(FileExistsError, match=f"{first.dataset_id} exists: choose another"):
        collect(run, folder, episodes=1)
    faulty = register("Fine-v0", "small_envs:Walk")
    walker = train(faulty, run_dir=tmp_path / "run", **TINY)
    with pytest.raises(RolloutError, match=r"Fine-v0 .*: the episode with seed \d+ failed at step \d+: .*on fire"):
        collect(walker, folder, env_kwargs={"fault": "step"})
    assert [path.name for path in folder.iterdir()] == [first.dataset_id]
    for where in tmp_path / "new", folder:
        with pytest.raises(RolloutError):
            collect(walker, where, dataset_id="other-v0", env_kwargs={"fault": "step"})
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=f"cannot write {tmp_path / 'file'}: "):
        collect(run, tmp_path / "file")


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="no such signals")
def test_leftovers_of_a_killed_process_are_removed_by_the_next_dataset(runs, tmp_path):
    run, name = runs["CartPoleBullet-v0"].directory, "cart/pole-v0"
    words = ["collect", str(run), str(tmp_path), "--dataset-id", name]
    with running([sys.executable, "-m", "es_core", *words, "--episodes", "1000000"]) as process:
        wait_until(lambda: any(tmp_path.rglob("*.hdf5")), process)
        with pytest.raises(FileExistsError, match=r"another process is writing .*cart/pole-v0: choose another name"):
            collect(run, tmp_path, dataset_id=name, episodes=1)
        process.kill()
        process.wait()
    assert main([*words, "--episodes", "2"]) == 0
    assert [path.name for path in (tmp_path / "cart").iterdir()] == ["pole-v0"]
    with pytest.raises(FileExistsError, match="exists: choose another"):
        collect(run, tmp_path, dataset_id=name, episodes=1)


def test_without_minari_the_error_says_how_to_install_it(runs, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(ImportError, match=r"pip install 'es-envs\[minari\]'"):
        collect(runs["CartPoleBullet-v0"], tmp_path)


@pytest.mark.long
def test_the_example_learns_to_drive_from_a_dataset():
    done = subprocess.run([sys.executable, str(EXAMPLE)], check=True, capture_output=True, text=True)
    assert int(re.search(r"finishes (\d+) of 10", done.stdout)[1]) >= 8


def test_the_command_prints_where_the_dataset_is_and_how_to_read_it(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ["collect", str(runs["CartPoleBullet-v0"].directory), "my data", "--episodes", "3"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    assert out.strip() == str(Path("my data") / "CartPoleBullet-generation-1-v0")
    command = re.search("MINARI_DATASETS_PATH=.*", err)[0]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(command, shell=True, check=True, env=environment)
    assert main([*words, "--dataset-id", "other-v1", "--json", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out)["episodes"] == 3
