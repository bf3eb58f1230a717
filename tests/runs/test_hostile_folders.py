"""Run folders of somebody else's: links, pipes, sockets, folders and huge files in place of what should be there."""

import ast
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from conftest import TINY
from written import files

from es_core import (
    Checkpoint,
    CheckpointError,
    Run,
    TrainConfig,
    compare,
    rebuild,
    record,
    report,
    train,
    train_seeds,
    tune,
)
from es_core.cli import main
from es_core.evaluation.scoring import find_policy
from es_core.files import read_whole, remove, write_whole
from es_core.runs.listing import list_runs
from es_core.training.loggers import SessionLogger

ROOT = Path(__file__).parents[2]
SPARSE, MOST_MEMORY = 3_000_000_000, 50_000_000  # bytes
FILM = {"width": 32, "height": 24, "workers": 1}
HOW = {"workers": 1, "progress": False}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run with all that a run folder can hold."""
    settings = {**TINY, "generations": 2, "checkpoint_every": 1, "max_episode_steps": 5}
    folder = tmp_path_factory.mktemp("runs")
    other = train("CartPole-v1", run_dir=folder / "other", **settings)
    run = train("CartPole-v1", run_dir=folder / "run", initial=other.best_path, seed=1, **settings)
    run.record(run.directory / "videos" / "film-1.mp4", **FILM)
    run.report()
    (run.directory / "wandb").mkdir()
    write_whole(run.directory / "wandb" / "run-id", b"12345678")
    return run


@pytest.fixture
def outside(tmp_path):
    """A folder in which nothing may change."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "precious").write_bytes(b"precious")
    return tmp_path / "outside"


def partial_of(name):
    """Name of a file while this process writes it."""
    return f"{name}.{os.getpid()}.partial"


def names(run):
    """Of all that is in a run folder, of files that are still being written, and of the next film."""
    present = [path.relative_to(run.directory) for path in run.directory.rglob("*")]
    partial = [name.with_name(partial_of(name.name)) for name in present if (run.directory / name).is_file()]
    written = [f"videos/{partial_of(name)}" for name in ("film-2.json", "film-2.png")]
    films = ["videos/film-2.mp4", *written, "videos/film-2.mp4.unfinished"]
    return sorted({*map(str, (*present, *partial)), *films})


@contextlib.contextmanager
def within_limits(what, seconds=20, *, memory=False, most=MOST_MEMORY):
    """End what takes longer, and refuse what takes more memory, where that is measured, which is slow."""

    def hangs(signum, frame):
        pytest.fail(f"{what}: no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    if memory:
        tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most, what
    finally:
        tracemalloc.stop()
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def link_out(path, outside):
    """A link to the like of what was there."""
    remove(outside / "target")
    path.rename(outside / "target") if path.exists() else (outside / "target").touch()
    path.symlink_to(outside / "target")


def link_to_nothing(path, outside):
    remove(path)
    path.symlink_to(outside / "new")


def link_within(path, outside):
    path.rename(path.with_name("moved")) if path.exists() else path.with_name("moved").touch()
    path.symlink_to(path.with_name("moved"))


def pipe(path, outside):
    remove(path)
    os.mkfifo(path)


def unix_socket(path, outside):
    remove(path)
    with contextlib.chdir(path.parent), socket.socket(socket.AF_UNIX) as server:  # whose paths must be short
        server.bind(path.name)


def folder(path, outside):
    remove(path)
    path.mkdir()
    (path / "something").touch()


def file(path, outside):
    remove(path)
    path.write_bytes(b"something")


def sparse(path, outside):
    if path.is_dir() or path.is_symlink():
        remove(path)
    path.touch()
    os.truncate(path, SPARSE)


def uses(run, other):
    """What reads a finished run or writes to it; nothing of it plays a whole episode."""
    return {
        "open": lambda: Run.open(run).checkpoint,
        "evaluate": lambda: find_policy(run, generation=None, trust=False),
        "rebuild": lambda: rebuild(run, 1),
        "report": lambda: report(run),
        "compare": lambda: compare([run, other]),
        "resume": lambda: train("CartPole-v1", run_dir=run, resume=True, **HOW),
    }


@pytest.mark.parametrize(
    "kind", [link_out, pipe, *(pytest.param(kind, marks=pytest.mark.slow) for kind in (link_to_nothing, unix_socket))]
)
def test_links_out_of_a_run_and_blocking_files_are_refused_everywhere(kind, finished, outside, tmp_path):
    for number, name in enumerate(names(finished)):
        run = shutil.copytree(finished.directory, tmp_path / str(number))
        kind(run / name, outside)
        before = files(outside), files(run).keys()
        more = {
            "record": lambda run=run: record(run, run / "videos" / "film-2.mp4", **FILM),
            "go on": lambda run=run: train("CartPole-v1", run_dir=run, resume=True, generations=9, **HOW),
        }
        for what, use in {**uses(run, finished.directory.with_name("other")), **more}.items():
            with within_limits((name, what)), pytest.raises((CheckpointError, FileNotFoundError), match=str(run)):
                use()
            assert (files(outside), files(run).keys()) == before, (name, what)
        remove(run)


@pytest.mark.long
@pytest.mark.parametrize("kind", [sparse, link_within, folder, file])
def test_foreign_files_in_a_run_folder_are_named_or_ignored(kind, finished, outside, tmp_path):
    ignored = 0
    for number, name in enumerate(names(finished)):
        run = shutil.copytree(finished.directory, tmp_path / str(number))
        kind(run / name, outside)
        for what, use in uses(run, finished.directory.with_name("other")).items():
            with within_limits((name, what), memory=kind is sparse):
                try:
                    use()
                    ignored += 1
                except (CheckpointError, OSError, ValueError) as error:
                    assert str(run) in str(error), (name, what)  # noqa: PT017
        remove(run)
    assert ignored


@pytest.mark.parametrize("kind", [pipe, unix_socket, folder, sparse])
def test_only_files_and_ones_own_links_are_read_as_checkpoints(kind, finished, tmp_path):
    path = tmp_path / "link.safetensors"
    path.symlink_to(finished.best_path)
    assert Checkpoint.load(path).parameter_hash == finished.best.parameter_hash
    kind(path, tmp_path)
    with within_limits(kind, memory=True), pytest.raises((CheckpointError, FileNotFoundError), match=str(path)):
        Checkpoint.load(path)


@pytest.mark.parametrize("kind", [link_out, pipe])
def test_links_made_after_a_run_was_opened_are_not_written_through(kind, finished, outside, tmp_path):
    """Each file, and its half-written form, is replaced just before it is written."""
    folder = shutil.copytree(finished.directory, tmp_path / "run")
    run = Run.open(folder)
    writes = {
        "config.json": lambda: run.write_config(run.config),
        "metrics.jsonl": lambda: run.append(run.history[0], None),
        "best.safetensors": lambda: finished.best.save(run.best_path),
        "checkpoints/000001.safetensors": lambda: finished.best.save(run.checkpoint_path(1)),
        "sessions.jsonl": lambda: SessionLogger().run_started(run),
        "report.html": run.report,
        "videos/film-1.mp4": lambda: run.record(folder / "videos" / "film-1.mp4", **FILM),
    }
    for name, write in writes.items():
        spoilt = [name, partial_of(name)]
        if "film" in name:
            spoilt = ["videos/film-1.mp4.unfinished", f"videos/{partial_of('film-1.json')}",
                      f"videos/{partial_of('film-1.png')}"]  # fmt: skip
        for path in (folder / each for each in spoilt):
            shutil.rmtree(folder)
            shutil.copytree(finished.directory, folder)
            kind(path, outside)
            before = files(outside)
            with within_limits(path), contextlib.suppress(CheckpointError, OSError):
                write()
            assert files(outside) == before, path


@pytest.mark.parametrize("name", ["tensorboard", "seed-1", "seed-1/checkpoints"])
def test_several_seeds_do_not_continue_behind_a_link(name, finished, outside, tmp_path):
    folder = tmp_path / "seeds"
    (folder / "seed-1").mkdir(parents=True)
    link_out(folder / name, outside)
    before = files(outside)
    with pytest.raises(CheckpointError, match=f"{folder / name} is a link that leads out of {folder}"):
        train_seeds("CartPole-v1", [1, 2], run_dir=folder, progress=False)
    assert files(outside) == before


@pytest.mark.parametrize("name", ["trials", "trials/0003", "trials/0003/seed-0", "study.jsonl.lock"])
def test_a_search_does_not_clean_up_behind_a_link(name, outside, tmp_path):
    pytest.importorskip("optuna")
    link = tmp_path / "search" / name
    link.parent.mkdir(parents=True)
    (tmp_path / "search" / "study.jsonl").touch()
    link.symlink_to(outside)
    with pytest.raises(CheckpointError, match=f"{link} is a link that leads out of"):
        tune("CartPole-v1", directory=tmp_path / "search", trials=1, progress=False)
    assert list(files(outside).values()) == [b"precious"]


def test_a_lock_that_holds_something_is_not_emptied(finished, outside, tmp_path):
    folder = shutil.copytree(finished.directory, tmp_path / "run")
    remove(folder / ".lock")
    os.link(outside / "precious", folder / ".lock")
    with pytest.raises(CheckpointError, match=r"\.lock is not a lock"):
        train("CartPole-v1", run_dir=folder, resume=True, **HOW)
    assert (outside / "precious").read_bytes() == b"precious"


def filled(parts, unit, size):
    """A JSON list of many short entries, with blanks up to its size."""
    return "[" + ",".join([unit] * parts).ljust(size) + "]"


def with_field(document, name, text):
    """JSON of a dict, with ``text`` as the value of one of its fields."""
    return json.dumps({**document, name: "here"}).replace('"here"', text)


LARGEST = {
    "text": ("config.json", "env_kwargs", lambda: json.dumps({"a": "x" * 990_000})),
    "dicts": ("config.json", "env_kwargs", lambda: '{"a":' + filled(55_000, '{"ab":0}', 990_000) + "}"),
    "lists": ("config.json", "hidden_sizes", lambda: filled(110_000, "1", 990_000)),
    "log": ("metrics.jsonl", "log", lambda: json.dumps("A" * 15_900_000)),
    "failed": ("metrics.jsonl", "failed_candidates", lambda: filled(190_000, '{"candidate":0}', 15_900_000)),
    "numbers": ("metrics.jsonl", "final_fitness", lambda: filled(390_000, "1.5", 15_900_000)),
}  # fmt: skip
TOO_LARGE = {
    "config": ("config.json", "env_kwargs", lambda: json.dumps({"a": "x" * 9_900_000}), "is too large"),
    "lists": ("config.json", "env_kwargs", lambda: '{"a":' + filled(240_000, "[]", 0) + "}", "entries, lists and"),
    "line": ("metrics.jsonl", "failed_candidates", lambda: filled(5_000_000, "{}", 0), "entries, lists and objects"),
    "names": ("metrics.jsonl", "fitnesses", lambda: json.dumps({f"{k}": 0.5 for k in range(1001)}), "fitnesses cannot"),
    "steps": ("metrics.jsonl", "total_steps", lambda: "1" * 400, "total_steps cannot be 111"),
    "bound": ("config.json", "max_steps", lambda: "1" * 400, "max_steps must be a whole number"),
    "seed": ("config.json", "seed", lambda: "1" * 400, "seed must be a whole number"),
    "goal": ("config.json", "solved_at", lambda: "1" * 400, "solved_at must be a finite number"),
}  # fmt: skip


def spoil(run, folder, name, field, text):
    """A copy of a run with other content of a field: of its config, or of its first generation."""
    shutil.copytree(run.directory, folder)
    first, _, rest = (folder / name).read_text().partition("\n" if name == "metrics.jsonl" else "\0")
    content = with_field(json.loads(first), field, text) + "\n" + rest
    (folder / name).write_text(content)
    return len(content)


@pytest.mark.parametrize(
    "case",
    ["text", "log", *(pytest.param(case, marks=pytest.mark.slow) for case in sorted(LARGEST.keys() - {"text", "log"}))],
)
def test_the_largest_files_cost_a_few_times_their_size(case, finished, tmp_path):
    name, field, text = LARGEST[case]
    size = spoil(finished, tmp_path / "run", name, field, text())
    for what in (list_runs, report):
        with within_limits(what, 120, memory=True, most=MOST_MEMORY + 5 * size):  # measuring takes most of the time
            what(tmp_path / "run")


@pytest.mark.parametrize("case", TOO_LARGE)
def test_values_too_large_to_process_are_refused_by_name(case, finished, tmp_path):
    name, field, text, sentence = TOO_LARGE[case]
    folder = tmp_path / "runs" / "run"
    size = spoil(finished, folder, name, field, text())
    others = shutil.copytree(finished.directory, tmp_path / "runs" / "other")
    for what in (report, lambda folder: compare([folder, finished.directory])):
        refused = pytest.raises(CheckpointError, match=f"{re.escape(str(folder / name))}.*{sentence}")
        with within_limits(case, memory=True, most=MOST_MEMORY + 5 * size), refused:
            what(folder)
    states = {run.directory: run.state for run in list_runs(tmp_path / "runs")}
    assert states == {folder: "damaged", others: "finished"}


@pytest.mark.slow
def test_settings_that_could_not_be_read_again_are_refused_at_once(tmp_path):
    for much in ({"a": "x" * 10**6}, {"a": [[]] * 130_000}):
        with pytest.raises(ValueError, match=r"config\.json could not be read again: it has"):
            train("CartPole-v1", run_dir=tmp_path / "run", env_kwargs=much, **HOW)
        assert not (tmp_path / "run").exists()


def test_deep_folders_hide_no_other_run(finished, tmp_path):
    shutil.copytree(finished.directory, tmp_path / "run")
    deep = tmp_path / "deep"
    deep.mkdir()
    with contextlib.chdir(deep):  # whose path is longer than a system takes at once
        for _ in range(1200):
            Path("d").mkdir()
            os.chdir("d")
    assert [run.directory for run in list_runs(tmp_path)] == [tmp_path / "run"]
    (tmp_path / "deep").rename(tmp_path / "run" / "deep")
    assert Run.open(tmp_path / "run").finished
    subprocess.run(["rm", "-r", tmp_path / "run" / "deep"], check=True)  # which Python before 3.12 cannot


def test_a_file_in_a_strangers_settings_is_opened_only_if_trusted(finished, tmp_path):
    pytest.importorskip("es_racecar")
    os.mkfifo(tmp_path / "track.csv")
    for file, fault in (
        (tmp_path / "track.csv", "is not a regular file"),
        (Path("/dev/zero"), "is not a regular file"),
    ):
        folder = tmp_path / file.stem
        config = {**finished.config.to_json(), "env_id": "RaceTrack-v0", "env_kwargs": {"track": str(file)}}
        folder.mkdir()
        (folder / "checkpoints").mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        for command in ("resume", "evaluate", "report"):
            with within_limits(command):
                main([command, str(folder), "--quiet"])
        with within_limits("resume"), pytest.raises(ValueError, match=rf"env_kwargs='{file}', which is a file here"):
            train("RaceTrack-v0", run_dir=folder, resume=True, **HOW)
        with within_limits("trusted"), pytest.raises(Exception, match=fault):
            train(TrainConfig.load(folder / "config.json"), run_dir=folder, resume=True, **HOW)


READ = {"open", "read_text", "read_bytes", "write_text", "write_bytes", "safe_open", "load_file", "save_file"}
ALLOWED = {
    "files.py": "opens what lies in run folders",
    "machine.py": "/sys",
    "policies/compilation.py": "the source of the kernels, and what is compiled of it",
    "processes/printed.py": "stderr",
    "processes/process.py": "/proc",
    "runs/locks.py": "/proc",
    "runs/provenance.py": "/proc",
    "reports/pages.py": "style and script of pages",
}


def test_one_module_alone_opens_files():
    opening = set()
    for path in (ROOT / "es_core").rglob("*.py"):
        for call in (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            name = call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")
            of = ast.unparse(call.value) if isinstance(call, ast.Attribute) else ""
            if name in READ and (of, name) not in {("Run", "open"), ("RunFolder", "open")}:
                opening.add(str(path.relative_to(ROOT / "es_core")))
    assert opening == set(ALLOWED)


def test_a_file_is_read_up_to_ten_million_bytes(tmp_path):
    (tmp_path / "file").write_bytes(bytes(10_000_000))
    assert len(read_whole(tmp_path / "file")) == 10_000_000
    (tmp_path / "file").write_bytes(bytes(10_000_001))
    with pytest.raises(CheckpointError, match="file is too large: it has 10000001 bytes"):
        read_whole(tmp_path / "file")
