"""Our environments in Gymnasium and Stable-Baselines3, and theirs in ours."""

import json
import os
import runpy
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from conftest import first_fast
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import es_envs
from es_core import Run
from es_core.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY = [
    "--generations=2",
    "--population-size=4",
    "--eval-episodes=2",
    "--confirm-episodes=2",
    "--max-episode-steps=24",
    "--workers=2",
    "--quiet",
]
MOVIEPY = ["moviepy==2.2.1", "decorator==5.3.1", "proglog==0.1.12", "python-dotenv==1.2.4"]


def vector_env(env_id, mode):
    return RecordEpisodeStatistics(
        gymnasium.make_vec(f"es_envs.gym:{env_id}", num_envs=2, vectorization_mode=mode, max_episode_steps=12)
    )


def played(env_id, mode):
    """Observations and rewards of 20 steps of two environments, and the statistics of their episodes."""
    envs = vector_env(env_id, mode)
    try:
        envs.action_space.seed(0)
        moments, statistics = [envs.reset(seed=[3, 4])[0]], []
        for _ in range(20):
            observations, rewards, _, _, info = envs.step(envs.action_space.sample())
            moments += [observations, rewards]
            if "episode" in info:
                statistics.append((info["episode"]["l"].tolist(), info["episode"]["r"].tolist()))
    finally:
        envs.close()
    return moments, statistics


@pytest.mark.parametrize("env_id", first_fast(es_envs.env_ids(), 3))
def test_vector_environments_play_the_same_in_one_or_more_processes(env_id):
    (one, ends), (several, other_ends) = played(env_id, "sync"), played(env_id, "async")
    for here, there in zip(one, several, strict=True):
        np.testing.assert_array_equal(here, there)
    assert ends == other_ends
    assert ends
    assert max(max(lengths) for lengths, _ in ends) <= 12, "some fall sooner"


def test_a_game_that_is_not_installed_is_explained(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(
        es_envs.UnknownEnvError, match=r"'ALE/Pong-v5': module 'ale_py' .* pip install 'es-envs\[atari\]'"
    ):
        es_envs.definition("ALE/Pong-v5")


def test_an_unknown_game_is_answered_with_those_that_there_are():
    pytest.importorskip("ale_py")
    with pytest.raises(es_envs.UnknownEnvError, match="Did you mean 'ALE/Pong-v5'"):
        es_envs.definition("ALE/Pongg-v5")


@pytest.mark.slow
def test_a_game_is_trained_from_pixels_and_filmed_without_python_code(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    preprocessing = '{"skip": 4, "grey": true, "resize": 42, "stack": 2}'
    pixels = ["--policy=cnn_small", f"--preprocessing={preprocessing}", '--env-kwargs={"frameskip": 1}']
    game = ["ALE/Assault-v5", "--generations=1", "--eval-episodes=1", "--confirm-episodes=1"]  # one that scores soon
    assert main(["train", *TINY, *pixels, *game, "--sample-actions", "--seed=1"]) == 0  # in which some score
    folder = Path(capfd.readouterr().out.strip())
    assert folder.parent == tmp_path / "runs" / "ALE-Assault-v5"
    run = Run.open(folder)
    assert run.checkpoint.observation_space.shape == (2, 42, 42)
    assert run.history[0].episode_length == 24
    assert not np.array_equal(run.checkpoint.mean, run.checkpoint_at(0).mean)
    assert main(["evaluate", str(folder), "--episodes=2", "--workers=1"]) == 0
    assert main(["record", str(folder), "assault.mp4", "--workers=1", "--quiet"]) == 0
    assert json.loads(Path("assault.json").read_text())["shots"][0]["frames"] == 24
    assert "leaked" not in capfd.readouterr().err, "a worker that kept its environment to the end"


@pytest.mark.slow
def test_half_cheetah_is_trained_as_it_is(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)  # MuJoCo writes its log into the working directory
    assert main(["train", "HalfCheetah-v5", *TINY, "--strategy=ars", "--run-dir=r"]) == 0
    assert main(["evaluate", "r", "--episodes=3", "--workers=1"]) == 0
    assert " episodes" in capfd.readouterr().out
    run = Run.open("r")
    assert run.checkpoint.observation_space.dtype == np.float64
    assert run.history[0].fitness_std > 0


def sb3(name, *arguments):
    """Run an example in this process; what it knows at its end."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs
        patch.setattr(sys, "argv", [name, *map(str, arguments)])
        try:
            return runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        finally:
            torch.set_num_threads(threads)  # the examples choose one


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("sb3_ppo_racecar.py", 2048), ("sb3_dqn_balancing_plate.py", 1500)])
def test_stable_baselines3_trains_in_our_environments(name, steps, capsys):
    known = sb3(name, steps)
    assert known["model"].num_timesteps >= steps
    assert f"after {known['model'].num_timesteps} steps" in capsys.readouterr().out


@pytest.mark.long
def test_stable_baselines3_learns_to_drive():
    scores = [sb3("sb3_ppo_racecar.py", steps)["score"] for steps in (1, 100_000)]
    assert scores[1] > scores[0] + 2  # [m]


@pytest.mark.slow
def test_gymnasium_films_our_environments(tmp_path):
    """With moviepy in a folder of its own, since it needs an older pillow than we pin, though none for films."""
    packages = tmp_path / "packages"
    install = ["pip", "install", "--quiet", "--no-deps", "--target", str(packages), *MOVIEPY]
    subprocess.run([sys.executable, "-m", *install], check=True)
    script = """
import gymnasium
from gymnasium.wrappers import RecordEpisodeStatistics, RecordVideo
for env_id in ("CartPoleBullet-v0", "BalancingPlate-v0", "RaceCar-v0"):
    env = gymnasium.make(f"es_envs.gym:{env_id}", render_mode="rgb_array", width=64, height=48, max_episode_steps=5)
    env = RecordVideo(RecordEpisodeStatistics(env), "films", name_prefix=env_id, episode_trigger=lambda number: True)
    env.reset(seed=0)
    over = False
    while not over:
        *_, terminated, truncated, info = env.step(env.action_space.sample())
        over = terminated or truncated
    env.close()
    print(env_id, info["episode"]["l"])
"""
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    )
    for line in done.stdout.splitlines():
        env_id, length = line.split()
        film = tmp_path / "films" / f"{env_id}-episode-0.mp4"
        assert imageio_ffmpeg.count_frames_and_secs(str(film))[0] == int(length) + 1
    assert len(done.stdout.splitlines()) == 3


STRANGERS = """
import gymnasium
gymnasium.register(
    id="Twice-v0",
    entry_point="gymnasium.envs.classic_control:CartPoleEnv",
    vector_entry_point="gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv",
)
"""


def test_a_vectorised_form_is_made_where_nobody_has_imported_its_module(python, tmp_path):
    (tmp_path / "strangers.py").write_text(STRANGERS, encoding="utf-8")
    code = "from es_envs.registry import gymnasium_vector_env as make; print(make(2, 'strangers:Twice-v0').num_envs)"
    assert python(code, path=[tmp_path]).out == "2\n"
