"""Policies that plugins ship, and policies in a window."""

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace

import numpy as np
import pygame
import pytest

pytest.importorskip("pybullet")

from conftest import TINY, registered

import es_core
import es_envs
from es_core import Checkpoint, evaluate, train, watch
from es_core.cli import main
from es_core.video.watching import training_state
from es_envs import EnvDefinition, PluginError
from es_envs.bullet import pybullet
from es_envs.bullet.camera import Camera

DISPLAY = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb (Debian: apt-get install xvfb)")


XDOTOOL = pytest.mark.skipif(shutil.which("xdotool") is None, reason="needs xdotool (Debian: apt-get install xdotool)")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return train("CartPole-v1", run_dir=folder, **{**TINY, "generations": 2, "checkpoint_every": 1})


@pytest.fixture(scope="module")
def display(tmp_path_factory):
    """A display without a screen, in DISPLAY."""
    log = tmp_path_factory.mktemp("xvfb") / "log"
    reading, writing = os.pipe()
    # Without -noreset the server begins anew whenever its last client leaves, and a window that opens then is refused.
    words = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "640x480x24", "-nolisten", "tcp", "-noreset"]
    with log.open("w") as said, subprocess.Popen(words, pass_fds=[writing], stdout=said, stderr=said) as server:
        os.close(writing)
        with os.fdopen(reading, encoding="ascii") as numbers:
            name = f":{numbers.readline().strip()}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DISPLAY", name)
            patch.setenv("SDL_VIDEODRIVER", "x11")
            patch.delenv("WAYLAND_DISPLAY", raising=False)
            yield name
        server.terminate()


@pytest.mark.parametrize(
    "name", ["es_racecar", ":a.safetensors", "es_racecar:", "p:../a.safetensors", "p:/a.safetensors", "p:a.pkl", 3]
)
def test_a_pretrained_policy_is_a_safetensors_file_of_a_package_itself(name):
    with pytest.raises(ValueError, match=r"^Mine-v0: pretrained must name a file in a package, .*; got "):
        EnvDefinition(id="Mine-v0", entry_point="small_envs:Walk", pretrained=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("es_racecar:nothing.safetensors", "there is no checkpoint .*nothing.safetensors"),
        ("no_such_package:a.safetensors", "No module named 'no_such_package'"),
        # Python 3.12 looks beside a module that is no package.
        ("small_envs:a.safetensors", "('small_envs' is not a package|there is no checkpoint .*a.safetensors)"),
        ("es_racecar:RaceCar-v0.safetensors", "it is a policy for RaceCar-v0"),
    ],
)
def test_a_pretrained_policy_that_cannot_be_used_names_the_plugin(name, message):
    expected = rf"^Walk-v0 \(plugin 'walking'\): its pretrained policy '{name}' cannot be used: .*{message}"
    with registered(pretrained=name), pytest.raises(PluginError, match=expected):
        Checkpoint.pretrained("Walk-v0")


def test_a_missing_pretrained_policy_says_which_exist(capsys):
    assert main(["evaluate", "CartPole-v1", "--pretrained"]) == 2
    said = capsys.readouterr().err
    assert "CartPole-v1 has no pretrained policy (these have one: A1Bullet-v0, AntBullet-v0, BalancingPlate-v0" in said
    assert "es-envs train CartPole-v1" in said


def test_a_pretrained_policy_is_filmed_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["record", "RaceCar-v0"]) == 2
    assert "RaceCar-v0 is an environment" in capsys.readouterr().err
    arguments = ["record", "BalancingPlate-v0", "plate.mp4", "--pretrained", "--width", "64", "--height", "48"]
    assert main([*arguments, "--fps", "1", "--workers", "1", "--quiet"]) == 0
    assert (tmp_path / "plate.mp4").stat().st_size > 500


TOLD = {  # by their READMEs
    "RaceTrack-v0": {"seed": 1, "max_steps": 1_200_000, "eval_every": 0},
    "HalfCheetahBullet-v0": {"seed": 2},
    "AntBullet-v0": {"seed": 1},
    "Walker2DBullet-v0": {"max_steps": 8_000_000},
}


@pytest.mark.parametrize("env_id", [name for name in es_envs.env_ids() if es_envs.definition(name).pretrained])
def test_every_pretrained_policy_has_the_recommended_settings(env_id):
    config = Checkpoint.pretrained(env_id).config
    others = ("engine", "device", "bits", "eval_budget", "action_squash", "hidden_sizes", "observation_std_floor",
              "generations", "episode_seeds", "steps_per_generation", "steps_limit", "action_masks")  # fmt: skip
    told = TOLD.get(env_id, {})
    if es_envs.definition(env_id).plugin == "locomotion":
        told = {"max_steps": 2_000_000, "checkpoint_every": 100, "seed": 0, **told}
        others = (*others, *config.decided)
    elif es_core.TrainConfig.for_env(env_id).sigma == "auto":
        told = {**told, "sigma": 0.1}  # as the run chooses when it begins
    settled = {name: getattr(config, name) for name in others}  # of the version that trained it
    assert set(config.decided) <= set(others)
    assert config == replace(es_core.TrainConfig.for_env(env_id), **settled, **told, decided=config.decided)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems always have a display")
def test_without_a_display_watch_names_record(run, monkeypatch, capsys):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert main(["watch", str(run.directory)]) == 1
    assert "no display to open a window on (DISPLAY is not set): film the policy instead (`es-envs record`)" in (
        capsys.readouterr().err
    )


def test_only_a_run_is_shown_live_and_only_its_best_policy(run):
    with pytest.raises(ValueError, match="a single checkpoint does not"):
        watch(run.best, live=True)
    with pytest.raises(ValueError, match="leave generation, candidate and cell out"):
        watch(run, live=True, generation=0)
    with pytest.raises(ValueError, match="episodes must be"):
        watch(run, episodes=0)


@pytest.mark.slow
@DISPLAY
@pytest.mark.parametrize("env_id", ["RaceCar-v0", "BalancingPlate-v0", "AntBullet-v0"])
def test_in_a_window_what_is_painted_lies_on_the_ground(env_id, display):
    env = es_envs.make(env_id, render_mode="human")
    world = env.unwrapped
    env.reset(seed=0)
    paint = []
    for body in range(pybullet.getNumBodies(physicsClientId=world.client)):
        shapes = pybullet.getVisualShapeData(body, physicsClientId=world.client)
        place, _ = pybullet.getBasePositionAndOrientation(body, physicsClientId=world.client)
        paint += [place[2] - world.ground_height for shape in shapes if shape[3][2] == pytest.approx(0.001)]
    env.close()
    paint = [height for height in paint if height < 0.2]  # and not on top of a wall
    assert len(paint) > 20
    assert 0 < max(paint) < 0.01  # within a fifth of a wheel's radius, under what stands on it


@pytest.mark.slow
@DISPLAY
def test_watch_plays_the_episodes_that_evaluate_scores(run, display):
    told = []
    episodes = watch(run, episodes=2, seed=3, generation=1, on_episode=lambda *told_now: told.append(told_now))
    score = evaluate(run, episodes=2, seed=3, generation=1, workers=1)
    assert sum(episode.fitness for episode in episodes) / 2 == score.mean
    assert told == [(episode, 1) for episode in episodes]


@DISPLAY
@pytest.mark.slow
def test_live_waits_for_a_run_and_then_takes_its_newer_best(display, tmp_path, monkeypatch, capfd):
    begun, folder, generations = tmp_path / "begun", tmp_path / "run", []
    decided = train("CartPole-v1", run_dir=begun, seed=1, **{**TINY, "population_size": 16}).config
    (folder / "checkpoints").mkdir(parents=True)
    undecided = decided.to_json() | {"hidden_sizes": "auto"}  # as it is until the run has looked at the spaces
    (folder / "config.json").write_text(json.dumps(undecided), encoding="utf-8")

    def begin(_):  # while the first checkpoint is waited for
        monkeypatch.undo()
        shutil.copytree(begun, folder, dirs_exist_ok=True)

    def go_on(episode, generation):
        generations.append(generation)
        es_core.Run.open(folder).resume(generations=2, workers=1, progress=False)

    monkeypatch.setattr(time, "sleep", begin)
    watch(folder, episodes=2, live=True, on_episode=go_on, progress=True)
    assert generations == [0, es_core.Run.open(folder).best.generation] == [0, 2]
    said = capfd.readouterr().err
    assert "has no checkpoint yet: waiting" in said
    assert "opening a window for CartPole-v1 ... (H: what the keys do" in said
    assert "the run has ended (generations)" in said


def test_the_window_of_a_live_run_says_how_far_the_training_is(run, tmp_path):
    generation, score = run.best_score
    best = f"best score {score.mean:.2f}, in generation {generation}"
    assert training_state(run) == ("training: generation 2 of 2", best, "the run has ended (generations)")
    shutil.copytree(run.directory, tmp_path / "run")
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.write_text(metrics.read_text(encoding="utf-8").partition("\n")[0] + "\n", encoding="utf-8")
    state = training_state(es_core.Run.open(tmp_path / "run"))
    assert (state[0], state[-1]) == ("training: generation 0 of 2", "interrupted")


def test_the_window_of_a_live_run_that_ends_by_its_steps_says_what_share_is_done(tmp_path):
    run = train("CartPole-v1", run_dir=tmp_path / "run", **{**TINY, "generations": None, "max_steps": 200})
    taken = tmp_path / "taken"
    shutil.copytree(run.directory, taken)
    settings = run.config.to_json() | {"max_steps": 4 * run.history[-1].total_steps}
    (taken / "config.json").write_text(json.dumps(settings), encoding="utf-8")
    assert training_state(es_core.Run.open(taken))[0] == f"training: generation {run.history[-1].generation}, 25 % done"


def in_window(*words):
    """Do something to the one window that is open."""
    found = ["xdotool", "search", "--onlyvisible", "--class", "."]
    (window,) = subprocess.check_output(found, text=True).split()
    command, *more = words
    place = ["--window", window] if command == "key" else [window]
    # A key may close the window as it is pressed: xdotool then fails to release it.
    subprocess.run(["xdotool", command, *place, *more], check=command != "key")


@DISPLAY
@XDOTOOL
@pytest.mark.slow
@pytest.mark.parametrize("words", [["windowkill"], ["key", "Escape"]])
def test_closing_the_window_ends_the_command_in_order(run, display, words):
    (episode,) = watch(run, on_episode=lambda *_: in_window(*words))
    assert episode.fitness > 0


@DISPLAY
@XDOTOOL
@pytest.mark.slow
def test_n_continues_with_the_next_start(display):
    checkpoint = Checkpoint.pretrained("CartPoleBullet-v0")  # which balances for ten seconds
    with ThreadPoolExecutor() as threads:
        watched = threads.submit(watch, checkpoint, episodes=2)
        while not watched.done():
            with suppress(subprocess.CalledProcessError, ValueError):  # while there is no window
                in_window("key", "n")
    assert watched.result() == []


@pytest.fixture
def window(display):
    """A window in this process, with a picture; ``press`` presses a key in it."""
    from es_core.video.window import Window

    window = Window("test")
    window.show(np.zeros((48, 64, 3), np.uint8))
    window.press = lambda key: pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.key.key_code(key)))
    while window.wait(0.1):
        pass
    yield window
    pygame.display.quit()


@DISPLAY
@pytest.mark.slow
def test_keys_pause_step_repeat_and_change_the_speed(window):
    window.press("n")
    assert window.wait(5) == "next"
    window.press("space")
    assert window.wait(5) == "look", "it waits, and is drawn again now and then"
    assert window.is_paused
    window.press(".")
    assert window.wait(5) is None, "one frame"
    assert window.is_paused
    window.press("r")
    assert window.wait(5) == "again"
    assert not window.is_paused
    for key in "++-h":
        window.press(key)
    assert window.wait(0.1) is None
    assert (window.speed, window.shows_help) == (2, True)


@DISPLAY
@XDOTOOL
@pytest.mark.slow
def test_pictures_are_drawn_in_the_size_of_the_window(window):
    assert window.size is None, "that of the pictures"
    in_window("windowsize", "300", "200")
    while window.size is None:
        window.wait(0.1)
    assert window.size == (300, 200)
    checks = np.indices((200, 300)).sum(axis=0, keepdims=True).transpose(1, 2, 0) % 2 * np.full(3, 255)
    window.show(checks.astype(np.uint8))
    shown = pygame.surfarray.array3d(pygame.display.get_surface())
    np.testing.assert_array_equal(shown.transpose(1, 0, 2), checks, "not scaled")
    assert window.size == (300, 200), "not opened anew"


@DISPLAY
@pytest.mark.slow
def test_c_holds_the_camera_and_then_lets_it_orbit(window):
    first = Camera(target=(0.0, 0.0, 0.0), distance=2.0, yaw=10.0, pitch=-20.0)
    later = replace(first, target=(5.0, 0.0, 0.0))
    assert (window.turned(first), window.turned(later)) == (first, later)
    window.press("c")
    window.wait(0.1)
    assert (window.turned(first), window.turned(later)) == (first, first)
    window.press("c")
    window.wait(0.1)
    around = window.turned(later)
    assert around.target == later.target
    assert 10 < around.yaw < 360
    window.press("c")
    window.wait(0.1)
    assert window.turned(first) == first


@DISPLAY
@pytest.mark.slow
def test_an_episode_in_the_window_is_that_of_the_score(display, tmp_path):
    run = train("RaceTrack-v0", run_dir=tmp_path / "run", max_episode_steps=8, **{**TINY, "population_size": 4})
    assert [e.fitness for e in watch(run, episodes=1)] == [evaluate(run, episodes=1, workers=1).mean]


@DISPLAY
@pytest.mark.slow
def test_bullets_own_window_shows_kerbs_and_the_same_episode(display):
    shown, bare = (es_envs.make("RaceCar-v0", render_mode=mode) for mode in ("human", None))
    with closing(shown), closing(bare):
        bodies = [pybullet.getNumBodies(physicsClientId=env.unwrapped.client) for env in (shown, bare)]
        assert bodies[0] > bodies[1] + 100
        steps = [[env.reset(seed=3)[0], *(env.step([0.5])[0] for _ in range(8))] for env in (shown, bare)]
        np.testing.assert_array_equal(*steps)


@DISPLAY
@pytest.mark.slow
def test_an_environment_that_cannot_be_shown_says_so(register, tmp_path):
    run = train(register("Blind-v0", "small_envs:Walk"), run_dir=tmp_path / "blind", **TINY)
    with pytest.raises(ValueError, match=r"^Blind-v0 .* cannot render: small_envs:Walk takes no render_mode"):
        watch(run)


@DISPLAY
def test_a_display_that_does_not_answer_is_no_crash(monkeypatch):
    monkeypatch.setenv("DISPLAY", ":4242")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")  # as filming without a display leaves it
    with pytest.raises(ValueError, match=r"^CartPoleBullet-v0 .*: no window can be opened \(.*\): film the"):
        watch(Checkpoint.pretrained("CartPoleBullet-v0"))
