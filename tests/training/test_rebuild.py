"""The log is the run: any generation, and any candidate of it, is rebuilt from config.json and metrics.jsonl alone."""

import base64
import hashlib
import json
import os
import random
import shutil

import numpy as np
import pytest
from conftest import registered

from es_core import CheckpointError, Run, rebuild, train
from es_core.cli import main
from es_core.evaluation.scoring import find_policy
from es_core.seeding import Purpose, episode_seeds
from es_core.training.state import TrainingState

SETTINGS = {
    "generations": 6,
    "population_size": 12,
    "episode_seeds": "independent",
    "steps_per_generation": 150,
    "episode_cap": "twice_mean",
    "episode_cap_start": 6,
    "observation_normalization": True,
    "action_noise": 0.1,
    "eval_episodes": 2,
    "eval_budget": None,
    "confirm_episodes": 2,
    "policy": "mlp",
    "hidden_sizes": (4,),
    "sigma": 0.3,
    "on_candidate_error": "drop",
    "checkpoint_every": 1,
}
HOW = {"workers": 1, "progress": False}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of which a candidate was dropped and the population grew, stopped and resumed, with all checkpoints."""
    lost = episode_seeds(0, Purpose.TRAINING, SETTINGS["population_size"])[3]
    kwargs = {"faults": {str(lost): "raise in step"}}
    with registered("Failing-v0", "small_envs:Failing", max_episode_steps=30) as env:
        folder = tmp_path_factory.mktemp("runs") / "run"
        with pytest.warns(RuntimeWarning, match="1 of 12 candidates of generation 0 have failed"):
            train(env.id, run_dir=folder, on_generation=lambda stats: stats.generation < 2, env_kwargs=kwargs,
                  **HOW, **SETTINGS)  # fmt: skip
        run = Run.open(folder).resume(**HOW)
        history = run.history
        assert history[0].failed_candidates
        assert len({stats.population_size for stats in history}) > 2
        assert len({stats.rules["episode_cap"] for stats in history}) > 2
        assert len({stats.parameter_hash for stats in history}) == 7
        yield run


@pytest.fixture
def bare(run, tmp_path):
    """A copy of the run without any checkpoint."""
    return shutil.copytree(run.directory, tmp_path / "bare", ignore=shutil.ignore_patterns("*.safetensors"))


def require_same(rebuilt, run, generation, path):
    rebuilt.save(path)
    assert path.read_bytes() == run.checkpoint_path(generation).read_bytes()


@pytest.mark.parametrize("kept", [0, 2, 5])
def test_all_generations_are_rebuilt_from_the_nearest_checkpoint_before(kept, run, bare, tmp_path):
    shutil.copy(run.checkpoint_path(kept), bare / "checkpoints")
    for generation in range(kept, 7):
        require_same(rebuild(bare, generation), run, generation, tmp_path / "rebuilt.safetensors")


def test_without_a_checkpoint_all_follows_from_the_config_and_the_log(run, bare, tmp_path):
    for path in bare.iterdir():
        if path.name not in {"config.json", "metrics.jsonl"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    require_same(rebuild(bare, 6), run, 6, tmp_path / "rebuilt.safetensors")
    (bare / "checkpoints").mkdir()
    shutil.copy(tmp_path / "rebuilt.safetensors", Run.open(bare).checkpoint_path(6))
    assert Run.open(bare).next_generation == 6


def halfway(run, folder):
    """A copy of the run as it was when it was stopped before generation 4."""
    shutil.copytree(run.directory, folder)
    for generation in (5, 6):
        Run.open(folder).checkpoint_path(generation).unlink()
    lines = (folder / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "metrics.jsonl").write_bytes(b"".join(lines[:4]))
    generation, _ = Run.open(folder).best_score
    shutil.copy(run.checkpoint_path(generation), folder / "best.safetensors")
    return folder


LOST = {
    "the best is deleted": lambda folder: (folder / "best.safetensors").unlink(),
    "the best is another generation's": lambda folder: shutil.copy(
        folder / "checkpoints" / f"{int(Run.open(folder).best_score[0] == 0):06d}.safetensors",
        folder / "best.safetensors",
    ),
    "the best is cut off": lambda folder: os.truncate(folder / "best.safetensors", 100),
    "checkpoints are deleted": lambda folder: [path.unlink() for path in folder.glob("checkpoints/*")],
    "their folder is deleted": lambda folder: shutil.rmtree(folder / "checkpoints"),
    "all is deleted": lambda folder: [shutil.rmtree(folder / "checkpoints"), (folder / "best.safetensors").unlink()],
}


@pytest.mark.parametrize("copied", [halfway, lambda run, folder: shutil.copytree(run.directory, folder)])
@pytest.mark.parametrize("lost", LOST)
def test_resume_puts_back_what_follows_from_the_log(lost, copied, run, tmp_path):
    folder = copied(run, tmp_path / "run")
    LOST[lost](folder)
    again = Run.open(folder).resume(**HOW)
    assert [stats.parameter_hash for stats in again.history] == [stats.parameter_hash for stats in run.history]
    assert again.best_path.read_bytes() == run.best_path.read_bytes()
    assert again.checkpoint_path(6).read_bytes() == run.checkpoint_path(6).read_bytes()


@pytest.mark.parametrize("lost", ["the best is deleted", "the best is another generation's", "all is deleted"])
def test_a_best_centre_unlike_the_log_is_rebuilt_with_a_warning(lost, run, tmp_path):
    folder = shutil.copytree(run.directory, tmp_path / "run")
    LOST[lost](folder)
    with pytest.warns(
        RuntimeWarning, match=r"best\.safetensors is missing, or not the centre of generation \d, which is"
    ):
        policy, _ = find_policy(folder, generation=None, trust=False)
    assert policy.parameter_hash == run.best.parameter_hash


def test_a_best_centre_that_cannot_be_rebuilt_does_not_stop_the_run(run, tmp_path):
    folder = halfway(run, tmp_path / "run")
    for path in (folder / "best.safetensors", *(folder / "checkpoints").glob("00000[0-3]*")):
        path.unlink()
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_bytes().splitlines()]
    generation, _ = Run.open(folder).best_score
    first = {**lines[0], "log": None}
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, [first, *lines[1:]])) + "\n")
    assert generation > 0
    with (
        pytest.warns(RuntimeWarning, match="is missing, or not the centre"),  # when the run ends
        pytest.warns(RuntimeWarning, match=rf"best\.safetensors is not the best centre, of generation {generation}"),
    ):
        again = Run.open(folder).resume(**HOW)
    assert again.history[-1].parameter_hash == run.history[-1].parameter_hash


def test_a_beginning_from_another_policy_and_a_reference_batch_is_rebuilt(run, tmp_path):
    settings = {**SETTINGS, "generations": 1, "observation_normalization": False, "virtual_batch_normalization": True}
    other = train("Failing-v0", run_dir=tmp_path / "other", initial=run.best_path, **HOW, **settings)
    other.checkpoint_path(0).unlink()
    moved = other.checkpoint_path(1).rename(tmp_path / "moved.safetensors")
    rebuild(other, 1).save(tmp_path / "rebuilt.safetensors")
    assert (tmp_path / "rebuilt.safetensors").read_bytes() == moved.read_bytes()


def test_commands_rebuild_generations_without_checkpoint_and_report_it(run, bare, capsys):
    shutil.copy(run.checkpoint_path(0), bare / "checkpoints")
    words = ["--generation", "4", "--candidate", "3", "--seed", "5"]
    said = {}
    for folder in (run.directory, bare):
        assert main(["evaluate", str(folder), *words, "--episodes=4", "--workers=1", "--json"]) == 0
        assert main(["replay", str(folder), *words, "--json"]) == 0
        said[folder] = capsys.readouterr()
    assert said[bare].out == said[run.directory].out
    assert said[run.directory].err == ""
    sentence = "generation 4 has no checkpoint: it is rebuilt from the log in metrics.jsonl"
    assert said[bare].err.splitlines() == [sentence, sentence]
    policy, _ = find_policy(bare, generation=4, candidate=3, trust=False)
    np.testing.assert_array_equal(policy.mean, TrainingState.at(run.checkpoint_at(4), "").population().candidate(3))

    for command in ("evaluate", "record"):
        assert main([command, str(bare), "--generation=9"]) == 1
        assert "has no generation 9: it reached generation 6" in capsys.readouterr().err
        assert main([command, str(bare), "--generation=4", "--candidate=99"]) == 2
        assert "candidate must be from 0 to" in capsys.readouterr().err


# ---- damage


def log(fields):
    """A change of a line's log, whose checksum fits again."""

    def change(line):
        log = {**line["log"], **fields}
        del log["sha256"]
        digest = hashlib.sha256(json.dumps(log, sort_keys=True).encode()).hexdigest()[:16]
        return {**line, "log": {**log, "sha256": digest}}

    return change


def numbers(*values):
    return base64.b64encode(np.array(values, "<f8").tobytes()).decode()


DAMAGES = {
    "no log": (lambda line: {**line, "log": None}, "line 3 has no log: generation 3 cannot be rebuilt"),
    "an older line": (lambda line: {k: v for k, v in line.items() if k != "log"}, "line 3 has no log"),
    "another kind": (lambda line: {**line, "log": [1]}, "line 3 is damaged: its log cannot be read"),
    "a changed number": (lambda line: {**line, "log": {**line["log"], "population_size": 9}}, "its checksum does not"),
    "too few": (log({"fitness": numbers(1, 2)}), r"line 3: the strategy cannot learn from it: .* \(\d+,\), got \(2,\)"),
    "half a number": (log({"fitness": "AAAA"}), "line 3 is damaged: its log cannot be read: buffer size"),
    "no base64": (log({"fitness": "?"}), "line 3 is damaged: its log cannot be read"),
    "none": (log({"fitness": None}), "line 3 is damaged: its log cannot be read"),
    "infinite": (log({"fitness": numbers(*[np.inf] * 12)}), "line 3: the strategy cannot learn from it"),
    "too many candidates": (log({"population_size": 10**12}), "line 3: no population of this run has 1000000000000"),
    "a cap of none": (log({"rules": {"episode_cap": 0}}), "line 3: .*: its episode_cap must be a whole"),
    "words": (log({"rules": {"episode_cap": "a"}}), "line 3 is damaged: its log cannot be read: its rules must be num"),
    "no observations": (log({"observations": None}), "line 3: its observations are not those of this run"),
    "others": (log({"total": numbers(1)}), "line 3: its observations are not those of this run"),
    "not finite": (log({"total": numbers(1, np.nan)}), "line 3 is damaged: .* its observations are not finite"),
    "another hash": (lambda line: {**line, "next_hash": "0" * 16}, "before generation 3 the centre has hash"),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_log_is_named_with_its_line(damage, run, bare):
    shutil.copy(run.checkpoint_path(0), bare / "checkpoints")
    change, sentence = DAMAGES[damage]
    lines = (bare / "metrics.jsonl").read_text().splitlines(keepends=True)
    lines[2] = json.dumps(change(json.loads(lines[2]))) + "\n"
    (bare / "metrics.jsonl").write_text("".join(lines))
    rebuild(bare, 2)
    with pytest.raises(CheckpointError, match=sentence):
        rebuild(bare, 4)


def test_a_log_that_leads_elsewhere_names_the_generation(run, bare):
    shutil.copy(run.checkpoint_path(0), bare / "checkpoints")
    lines = (bare / "metrics.jsonl").read_text().splitlines(keepends=True)
    line = json.loads(lines[3])
    fitness = np.frombuffer(base64.b64decode(line["log"]["fitness"]))
    lines[3] = json.dumps(log({"fitness": numbers(*fitness[::-1])})(line)) + "\n"
    (bare / "metrics.jsonl").write_text("".join(lines))
    rebuild(bare, 3)
    with pytest.raises(CheckpointError, match=r"the log does not reproduce the run: before generation 4"):
        rebuild(bare, 6)


@pytest.mark.parametrize("files", [150, pytest.param(10_000, marks=pytest.mark.long)])
def test_from_spoilt_metrics_the_right_parameters_are_rebuilt_or_none(files, run, bare):
    shutil.copy(run.checkpoint_path(0), bare / "checkpoints")
    whole = (bare / "metrics.jsonl").read_bytes()
    means = [run.checkpoint_at(generation).mean for generation in range(7)]
    refused = 0
    for number in range(files):
        chance, data = random.Random(number), bytearray(whole)
        place = chance.randrange(len(data))
        match chance.randrange(4):
            case 0:
                data[place] ^= 1 << chance.randrange(8)
            case 1:
                data[place : place + chance.randrange(1, 50)] = b""
            case 2:
                data[place:place] = chance.randbytes(chance.randrange(1, 20))
            case _:
                data[place : place + 4] = chance.choice([b"null", b"9999", b"AAAA", b'""""', b"\n\n\n\n"])
        (bare / "metrics.jsonl").write_bytes(data)
        generation = chance.randrange(1, 7)
        try:
            rebuilt = rebuild(bare, generation)
        except (CheckpointError, FileNotFoundError) as error:
            assert str(bare) in str(error)  # noqa: PT017
            assert len(str(error)) < 1000  # noqa: PT017
            refused += 1
        else:
            np.testing.assert_array_equal(rebuilt.mean, means[generation])
    assert files / 2 < refused < files
