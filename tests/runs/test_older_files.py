"""What the project wrote at commit 9c9a60a is read today: two runs, the pretrained policies, a plugin's wheel.

``dense`` is an MLP with normalised observations, ``memory`` a GRU; both were trained for the cart-pole by
``es-envs train CartPoleBullet-v0 --seed 3 --population-size 8`` with few generations.
"""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from es_core import Checkpoint, CheckpointError, Run, compare, evaluate, rebuild, replay, train
from es_core.config.train_config import BITS, TrainConfig

WRITTEN = Path(__file__).parents[1] / "written_by_9c9a60a"
RUNS = {"dense": 31.2, "memory": 21.8}
"""Each run, and the mean of five unseen episodes of its best centre then."""


@pytest.fixture(params=RUNS)
def old(request, tmp_path):
    """A copy of an old run's folder."""
    return Path(shutil.copytree(WRITTEN / request.param, tmp_path / request.param))


def test_an_old_run_has_its_history_and_scores_as_it_did(old):
    run = Run.open(old)
    assert [stats.generation for stats in run.history] == list(range(run.config.generations + 1))
    assert run.finished
    assert evaluate(run, episodes=5, workers=1).mean == pytest.approx(RUNS[old.name], rel=0.1)


def test_an_old_run_is_reported(old):
    assert old.name in Run.open(old).report().read_text(encoding="utf-8")


def test_old_runs_are_compared():
    assert len(compare([WRITTEN / name for name in RUNS]).groups) == 2


OTHER_BITS = r"es-envs 0\.1\.0 \(commit 9c9a60a\) wrote it.*install that version"


def test_rebuilding_an_old_run_says_which_version_can(old):
    (old / "checkpoints" / "000001.safetensors").unlink(missing_ok=True)
    run, files = Run.open(old), {file: file.read_bytes() for file in old.rglob("*") if file.is_file()}
    refused = (
        lambda: run.resume(generations=run.config.generations + 1, workers=1, progress=False),
        lambda: rebuild(run, 1),
        lambda: replay(run, generation=0, seed=1),
        lambda: evaluate(run, generation=0, candidate=1, episodes=1, workers=1),
        lambda: run.record(old / "film.mp4", generation=0, population=2),
    )
    for attempt in refused:
        with pytest.raises(CheckpointError, match=OTHER_BITS):
            attempt()
    assert {file: file.read_bytes() for file in old.rglob("*") if file.is_file() and file.name != ".lock"} == files


def test_an_old_run_that_is_finished_may_be_resumed_and_stays_what_it_is(old):
    run = Run.open(old).resume(workers=1, progress=False)
    assert run.finished
    assert len(run.history) == run.config.generations + 1
    assert json.loads((old / "config.json").read_text())["bits"] == 0


def test_a_new_run_starts_from_an_old_one_or_with_its_settings(old, tmp_path):
    best = Run.open(old).best
    settings = replace(best.config, generations=1, population_size=2, eval_every=0)
    run = train(settings, run_dir=tmp_path / "new", initial=old / "best.safetensors", workers=1, progress=False)
    assert (run.checkpoint_at(0).mean == best.mean).all()
    assert json.loads((run.directory / "config.json").read_text())["bits"] == BITS
    assert Run.open(run.directory).resume(generations=2, workers=1, progress=False).finished


def test_a_run_of_a_newer_version_says_to_upgrade(old):
    (old / "checkpoints" / "000001.safetensors").unlink(missing_ok=True)
    config = json.loads((old / "config.json").read_text()) | {"bits": BITS + 1}
    (old / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=r"newer version of es-envs wrote it.*pip install --upgrade es-envs"):
        rebuild(Run.open(old), 1)


def test_names_of_then_are_understood_or_refused_with_those_of_now():
    assert TrainConfig(env_id="CartPoleBullet-v0", engine="numpy").engine == "compiled"
    with pytest.raises(ValueError, match="pool='batched' was removed: use pool='vector'"):
        train("CartPoleBullet-v0", pool="batched")


def test_which_bits_a_run_has_is_no_setting():
    with pytest.raises(TypeError, match="no setting is called 'bits'"):
        train("CartPoleBullet-v0", bits=0)


@pytest.mark.parametrize("file", sorted((WRITTEN / "pretrained").glob("*")), ids=lambda file: file.stem)
def test_an_old_pretrained_policy_acts(file):
    checkpoint = Checkpoint.load(file)
    actor = checkpoint.actor()
    actor.reset()
    assert checkpoint.action_space.contains(actor(checkpoint.observation_space.sample()))


@pytest.mark.slow
def test_a_plugin_that_was_built_then_works(python, tmp_path):
    wheel, site = next(WRITTEN.glob("*.whl")), tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    subprocess.run([*pip, str(wheel)], check=True, timeout=120)
    code = (
        "from es_core import train; "
        "run = train('OldRover-v0', generations=1, population_size=2, max_episode_steps=20, eval_episodes=1, "
        "confirm_episodes=1, workers=1, progress=False); print(len(run.history))"
    )
    done = python(code, path=[site], cwd=tmp_path)
    assert (done.out, done.code) == ("2\n", 0), done.err
