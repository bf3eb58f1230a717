"""What the project wrote at commit 9c9a60a is read today: two runs, the pretrained policies, a plugin's wheel.

``dense`` is an MLP with normalised observations, ``memory`` a GRU; both were trained for the cart-pole by
``es-envs train CartPoleBullet-v0 --seed 3 --population-size 8`` with few generations.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from es_core import Checkpoint, Run, compare, evaluate, train

WRITTEN = Path(__file__).parent / "written_by_9c9a60a"
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


def test_an_old_run_goes_on_and_is_where_a_new_one_starts(old, tmp_path, tiny):
    generations = Run.open(old).config.generations
    assert len(Run.open(old).resume(generations=generations + 1, workers=1, progress=False).history) == generations + 2
    best = Run.open(old).best
    policy = {"policy": best.config.policy, "hidden_sizes": best.config.hidden_sizes}
    settings = tiny | policy | {"observation_normalization": best.config.observation_normalization}
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "new", initial=old / "best.safetensors", **settings)
    assert (run.checkpoint_at(0).mean == best.mean).all()


@pytest.mark.parametrize("file", sorted((WRITTEN / "pretrained").glob("*")), ids=lambda file: file.stem)
def test_an_old_pretrained_policy_acts(file):
    checkpoint = Checkpoint.load(file)
    actor = checkpoint.actor()
    actor.reset()
    assert checkpoint.action_space.contains(actor(checkpoint.observation_space.sample()))


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
