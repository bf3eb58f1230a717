"""Locks: one process writes to a folder, with the locks of the system or without, and stops if it loses its own."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import TINY, generations, running, wait_until
from written import files, require_equal

from es_core import Run, record, train
from es_core.cli import main
from es_core.runs import locks
from es_core.runs.locks import LockLostError, hold, is_held
from es_core.runs.run_folder import lock

fcntl = pytest.importorskip("fcntl", reason="Windows always has locks")

SETTINGS = {**TINY, "generations": 6, "max_episode_steps": 5, "checkpoint_every": 2, "solved_at": None}
OPTIONS = [
    *("--generations", "6", "--population-size", "2", "--eval-episodes", "1", "--eval-budget", "none"),
    *("--confirm-episodes", "1", "--policy", "linear", "--max-episode-steps", "5", "--checkpoint-every", "2"),
    *("--solved-at", "none", "--workers", "1"),
]

# A library that stands between a program and the system, which then has no locks, as Lustre by default.
NO_LOCKS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
int flock(int file, int how) { errno = ENOSYS; return -1; }
static int refuse(const char *name, int file, int command, void *argument) {
    if (command == F_SETLK || command == F_SETLKW || command == F_GETLK) { errno = ENOSYS; return -1; }
    return ((int (*)(int, int, void *))dlsym(RTLD_NEXT, name))(file, command, argument);
}
#define FORWARD(name) int name(int file, int command, ...) { va_list more; va_start(more, command); \\
    void *argument = va_arg(more, void *); va_end(more); return refuse(#name, file, command, argument); }
FORWARD(fcntl)
FORWARD(fcntl64)
"""
# The same within Python, for processes of their own.
WITHOUT_FLOCK = """
import fcntl, sys
def flock(*_): raise OSError({number}, "no locks")
fcntl.flock = flock
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "run", **SETTINGS)


@pytest.fixture
def unfinished(undisturbed, tmp_path):
    """A run that was interrupted after its third generation."""
    folder = tmp_path / "run"
    train("CartPole-v1", run_dir=folder, on_generation=lambda stats: stats.generation < 2, **SETTINGS)
    return folder


@pytest.fixture(params=[errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def without_locks(request, monkeypatch):
    def flock(*_):
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


def ended_process():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def left_by(pid, place=None):
    """Content of a lock that a killed process has left."""
    return f"{pid}\nnode7\n{locks._place() if place is None else place}\n0123456789abcdef\n"


def test_without_locks_of_the_system_one_process_alone_trains(without_locks, unfinished, undisturbed):
    with lock(unfinished):
        held = (unfinished / ".lock").read_text()
        assert Run.open(unfinished).is_training
        with pytest.raises(RuntimeError, match=f"process {os.getpid()} on .* is training in {unfinished}: wait"):
            train("CartPole-v1", run_dir=unfinished, resume=True, progress=False)
        assert (unfinished / ".lock").read_text() == held
    assert not Run.open(unfinished).is_training
    require_equal(train("CartPole-v1", run_dir=unfinished, resume=True, workers=1, progress=False), undisturbed)


def test_a_run_killed_where_there_are_no_locks_is_resumed_at_once(tmp_path, undisturbed, capsys):
    folder = tmp_path / "run"
    more = ["train", "CartPole-v1", "--run-dir", str(folder), *OPTIONS, "--generations", "100000", "--quiet"]
    with running([sys.executable, "-c", WITHOUT_FLOCK.format(number=errno.ENOSYS), *more]) as process:
        wait_until(lambda: generations(folder) > 1, process)
        assert main(["resume", str(folder)]) == 1  # here, where there are locks
        assert f"process {process.pid} on " in capsys.readouterr().err
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not Run.open(folder).is_training
    assert main(["resume", str(folder), "--max-seconds", "0.01", "--quiet", "--workers", "1"]) == 0


def test_of_several_that_want_a_lock_left_behind_one_gets_it(tmp_path):
    path = tmp_path / ".lock"
    path.write_text(left_by(ended_process()))
    code = f"""
from pathlib import Path
import fcntl
def flock(*_): raise OSError({errno.ENOSYS}, "no locks")
fcntl.flock = flock
from es_core.runs.locks import LockedError, Lock
try:
    held = Lock(Path({str(path)!r}))
except LockedError:
    print("refused", flush=True)
else:
    print("held", flush=True)
input()
"""
    start = [sys.executable, "-c", code]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with running(start, **pipes) as one, running(start, **pipes) as two, running(start, **pipes) as three:
        assert sorted(each.stdout.readline() for each in (one, two, three)) == ["held\n", "refused\n", "refused\n"]


def test_a_lock_of_another_computer_is_named_and_free_once_it_is_silent(without_locks, unfinished, undisturbed):
    path = unfinished / ".lock"
    for left in (left_by(12, "elsewhere"), "12\nnode7\n", "12\nnode7\n987654321\n"):  # filelock's, too
        path.write_text(left)
        with pytest.raises(RuntimeError, match=r"process 12 on node7 \(if that has ended, try again in 120 seconds\)"):
            train("CartPole-v1", run_dir=unfinished, resume=True, progress=False)
        assert Run.open(unfinished).is_training
    silent = time.time() - locks.SILENCE - 1
    os.utime(path, (silent, silent))
    assert not Run.open(unfinished).is_training
    require_equal(train("CartPole-v1", run_dir=unfinished, resume=True, workers=1, progress=False), undisturbed)


def test_a_lock_without_the_system_is_renewed_while_it_is_held(without_locks, tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "_RENEWAL", 0.01)
    path = tmp_path / ".lock"
    with hold(path):
        os.utime(path, (0, 0))
        deadline = time.monotonic() + 30
        while path.stat().st_mtime < locks.SILENCE:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert is_held(path)
    assert path.read_bytes() == b""


def test_films_are_made_where_there_are_no_locks(without_locks, undisturbed, tmp_path):
    left = tmp_path / "film.mp4.unfinished"
    left.mkdir()
    how = {"width": 32, "height": 24, "workers": 1}
    (left / ".lock").write_text(left_by(12, "elsewhere"))
    with pytest.raises(FileExistsError, match=r"process 12 on node7 .* is writing .*film\.mp4"):
        record(undisturbed, tmp_path / "film.mp4", **how)
    (left / ".lock").write_text(left_by(ended_process()))
    assert record(undisturbed, tmp_path / "film.mp4", **how)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["film.json", "film.mp4", "film.png"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs LD_PRELOAD and a compiler")
def test_a_search_works_where_there_are_no_locks(tmp_path):
    pytest.importorskip("optuna")
    source, library = tmp_path / "no_locks.c", tmp_path / "no_locks.so"
    source.write_text(NO_LOCKS)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    words = ["tune", "CartPole-v1", "--dir", str(tmp_path / "search 1?"), "--trials", "1", "--seeds", "1", *OPTIONS]
    for trials in ("1", "2"):
        words[words.index("--trials") + 1] = trials
        subprocess.run(
            [sys.executable, "-m", "es_core", *words, "--quiet"],
            check=True,
            env={**os.environ, "LD_PRELOAD": str(library)},
            timeout=200,
        )
    assert main([*words, "--quiet"]) == 0  # here, where there are locks


def test_a_run_whose_lock_is_deleted_stops_with_a_sentence(tmp_path, undisturbed):
    folder = tmp_path / "run"

    def delete(stats):
        if stats.generation == 2:
            (folder / ".lock").unlink()

    with pytest.raises(LockLostError, match=r"\.lock was deleted or replaced while this process held it"):
        train("CartPole-v1", run_dir=folder, on_generation=delete, **SETTINGS)
    assert generations(folder) == 3
    require_equal(train("CartPole-v1", run_dir=folder, resume=True, workers=1, progress=False), undisturbed)


def test_a_run_does_not_write_into_a_folder_made_anew_in_its_place(tmp_path, undisturbed):
    folder, moved = tmp_path / "run", tmp_path / "moved"
    new = {}

    def written():  # by training: TensorBoard has a new file for each process
        return {path: content for path, content in files(folder).items() if "tensorboard" not in path.parts}

    def move(stats):
        if stats.generation == 2:
            folder.rename(moved)
            train("CartPole-v1", run_dir=folder, **{**SETTINGS, "seed": 1})
            new.update(written())

    with pytest.raises(LockLostError, match="or its folder was: another process may write there now"):
        train("CartPole-v1", run_dir=folder, on_generation=move, **SETTINGS)
    assert written() == new
    require_equal(train("CartPole-v1", run_dir=moved, resume=True, workers=1, progress=False), undisturbed)


@pytest.mark.parametrize("change", [lambda path: path.write_bytes(path.read_bytes() + b"{}\n"), Path.unlink])
def test_a_run_stops_when_somebody_else_writes_to_its_log(change, tmp_path):
    folder = tmp_path / "run"

    def write(stats):
        if stats.generation == 2:
            change(folder / "metrics.jsonl")

    with pytest.raises(LockLostError, match=r"metrics\.jsonl has \d+ bytes where this process has written \d+"):
        train("CartPole-v1", run_dir=folder, on_generation=write, **SETTINGS)
