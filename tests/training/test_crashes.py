"""Runs survive the death of their main process and trouble with the disk: real processes, killed and starved."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import first_fast, forker_of, generations, require_gone, started, wait_until, workers_of
from written import lines, require_equal

from es_core import Run, train
from es_core.cli import main
from es_core.files import append
from es_core.runs.run_folder import lock
from es_envs import hookimpl

OWN_FORKERS = True

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs signals and limits of POSIX")

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
FORKERS = int(sys.platform == "linux")  # processes from which the workers of a run are forked
GENERATIONS = 40
SETTINGS = {
    "generations": GENERATIONS,
    "population_size": 6,
    "max_episode_steps": 40,
    "eval_episodes": 2,
    "confirm_episodes": 2,
    "policy": "mlp",
    "hidden_sizes": (4,),
    "strategy": "openai_es",
    "sigma": 0.1,
    "solved_at": None,
    "observation_normalization": True,
    "checkpoint_every": 7,
}
OPTIONS = [
    "--generations", GENERATIONS, "--population-size", 6, "--max-episode-steps", 40, "--eval-episodes", 2,
    "--confirm-episodes", 2, "--hidden-sizes", 4, "--sigma", 0.1, "--solved-at", "none", "--observation-normalization",
    "--checkpoint-every", 7, "--strategy", "openai_es",
]  # fmt: skip

# es-envs, but ``line`` runs at every operation on files: an audit hook hears of it before it happens.
HOOKED = """
import os, signal, sys
def hook(event, arguments):
    {line}
sys.addaudithook(hook)
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


def command(*words, code=None):
    """A process that runs ``es-envs``, or ``code`` with the same arguments."""
    start = ["-m", "es_core"] if code is None else ["-c", code]
    return [sys.executable, *start, *map(str, words)]


def train_command(folder, *words, **options):
    return command("train", "CartPole-v1", "--run-dir", folder, "--workers", 2, *OPTIONS, *words, **options)


def killed_at(event, name, count):
    """Code that is killed in front of the ``count``-th such operation on a file with ``name`` in its path."""
    line = f"if event == {event!r} and {name!r} in str(arguments[0]):\n"
    line += f"        counted.append(0)\n        if len(counted) == {count}: os.kill(os.getpid(), signal.SIGKILL)"
    return "counted = []\n" + HOOKED.format(line=line)


def run_to_its_end(words, **options):
    """Exit code, and what was said; nothing that it started is alive five seconds later."""
    with started(words, **options) as (process, marked):
        _, said = process.communicate(timeout=120)
        require_gone(marked)
    return process.returncode, said


def wait_for_generation(process):
    """Until the progress says that a generation has ended."""
    said = []
    for line in process.stderr:
        said.append(line)
        if line.startswith("generation "):
            return
    pytest.fail(f"it ended early: {said}")


def resume(folder, *words):
    return main([str(word) for word in ("resume", folder, "--workers", 1, "--quiet", *words)])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A run that nothing ever happened to."""
    run = train("CartPole-v1", run_dir=tmp_path_factory.mktemp("runs") / "run", workers=1, progress=False, **SETTINGS)
    assert len({stats.parameter_hash for stats in run.history}) == GENERATIONS + 1
    return run


# ---- kill -9


def last_best(run):
    """The operation that would append the line of the best centre, whose file has been written."""
    return "open", "metrics.jsonl", run.best.generation + 1


MOMENTS = {
    "before the first checkpoint has its name": ("os.rename", "000000.safetensors.", 1),
    "before the first generation's line": ("open", "metrics.jsonl", 1),
    "between the best centre and its line": last_best,
    "in the middle of a checkpoint": ("os.rename", "000014.safetensors.", 1),
    "between the last checkpoint and the last line": ("open", "metrics.jsonl", GENERATIONS + 1),
}


@pytest.mark.parametrize("moment", first_fast(sorted(MOMENTS, key=lambda moment: "middle" not in moment)))
def test_a_run_that_was_killed_ends_as_if_nothing_had_happened(moment, undisturbed, tmp_path):
    where = MOMENTS[moment]
    event, name, count = where(undisturbed) if callable(where) else where
    code, said = run_to_its_end(train_command(tmp_path / "run", "--quiet", code=killed_at(event, name, count)))
    assert (code, said) == (-signal.SIGKILL, "")
    if moment == "between the best centre and its line":
        run = Run.open(tmp_path / "run")
        assert run.best.generation == count - 1 == len(run.history)  # it is ahead of the metrics
    assert resume(tmp_path / "run") == 0
    require_equal(Run.open(tmp_path / "run"), undisturbed)


def test_a_run_that_was_killed_anywhere_leaves_nothing_but_its_folder(undisturbed, tmp_path):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    shared = {path for path in [Path("/dev/shm")] if path.is_dir()}
    before = {path: set(path.iterdir()) for path in shared}
    words = train_command(tmp_path / "run", "--generations", 10**6)
    with started(words, environment={"TMPDIR": str(temporary)}) as (process, marked):
        wait_for_generation(process)
        assert len(marked()) == 3 + FORKERS
        process.kill()
        process.wait()
        require_gone(marked)
    assert not list(temporary.iterdir())
    assert all(set(path.iterdir()) <= before[path] for path in shared)
    assert resume(tmp_path / "run", "--max-seconds", 0.1) == 0
    run = Run.open(tmp_path / "run")
    common = min(len(run.history), len(undisturbed.history)) - 1
    assert [stats.parameter_hash for stats in run.history[:common]] == [
        stats.parameter_hash for stats in undisturbed.history[:common]
    ]


ENDLESS = """
import os
import time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Endless(CartPoleEnv):
    def __init__(self, how):
        super().__init__()
        self.how = how

    def step(self, action):
        os.write(2, b"stepping\\n")
        while True:
            if self.how == "sleeps":
                time.sleep(3600)

gymnasium.register(id="Endless-v0", entry_point=Endless, max_episode_steps=9)
"""


@contextmanager
def endless(folder, how):
    """A training process whose workers will not leave the first step of their environments."""
    (folder / "endless.py").write_text(ENDLESS)
    words = command("train", "endless:Endless-v0", "--env-kwargs", json.dumps({"how": how}), "--run-dir",
                    folder / "run", "--workers", 2, "--quiet")  # fmt: skip
    with started(words, environment={"PYTHONPATH": str(folder)}) as (process, marked):
        assert process.stderr.readline() == "stepping\n"
        assert process.stderr.readline() == "stepping\n"
        yield process, marked


@pytest.mark.parametrize("how", first_fast(["computes", "sleeps"]))
def test_workers_end_soon_after_the_main_process_whatever_they_do(how, tmp_path):
    with endless(tmp_path, how) as (process, marked):
        process.kill()
        process.wait()
        assert len(marked()) == 2 + FORKERS
        require_gone(marked)


@LINUX
@pytest.mark.parametrize("how", ["sleeps", "computes"])
def test_workers_end_with_the_forker_and_the_main_process_at_once(how, tmp_path):
    with endless(tmp_path, how) as (process, marked):
        for each in forker_of(process), process:
            each.kill()
        process.wait()
        require_gone(marked)


@LINUX
def test_workers_end_with_the_forker_and_are_replaced(tmp_path):
    with endless(tmp_path, "computes") as (process, marked):
        before = workers_of(process)
        forker_of(process).kill()
        said = [process.stderr.readline() for _ in range(3)]
        assert not set(before) & set(marked())
        assert "stepping\n" in said, said
        assert forker_of(process) is None
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        require_gone(marked)


@pytest.mark.long
def test_a_run_killed_before_its_first_checkpoint_starts_from_its_policy(undisturbed, tmp_path):
    policy, folder = undisturbed.best_path, tmp_path / "killed"
    settings = {**SETTINGS, "generations": 3}
    whole = train("CartPole-v1", run_dir=tmp_path / "whole", workers=1, progress=False, initial=policy, **settings)
    killed = killed_at("os.rename", "000000.safetensors.", 1)
    words = train_command(folder, "--initial", policy, "--generations", 3, "--quiet", code=killed)
    assert run_to_its_end(words)[0] == -signal.SIGKILL
    assert not Run.open(folder).checkpoint_generations()
    assert resume(folder) == 0
    require_equal(Run.open(folder), whole)


def test_resuming_a_finished_run_says_so_and_changes_nothing(undisturbed, capsys):
    before = {path: path.read_bytes() for path in undisturbed.directory.rglob("*") if path.is_file()}
    assert resume(undisturbed.directory) == 0
    said = capsys.readouterr().err
    assert "nothing to do" in said
    assert f"since generations={GENERATIONS} is reached" in said
    assert before == {path: path.read_bytes() for path in undisturbed.directory.rglob("*") if path.is_file()}


BEGINNINGS = {
    "before anything is there": ("os.mkdir", "run", 1),
    "between its folders": ("os.mkdir", "videos", 1),
    "before its first policy has its name": ("os.rename", "initial.safetensors", 1),
    "before its settings have their name": ("os.rename", "config.json", 1),
    "while it is locked for the first time": ("open", ".lock", 1),
    "before its first line": ("open", "metrics.jsonl", 2),
    "in the middle": ("os.rename", "000014.safetensors.", 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("moment", first_fast(reversed(BEGINNINGS)))
def test_one_command_begins_a_run_continues_it_and_leaves_it_alone(moment, undisturbed, tmp_path):
    folder, policy = tmp_path / "run", undisturbed.checkpoint_path(0)
    words = ["--quiet", "--continue", "--initial", policy]
    killed = train_command(folder, *words, code=killed_at(*BEGINNINGS[moment]))
    assert run_to_its_end(killed) == (-signal.SIGKILL, "")
    code, said = run_to_its_end(train_command(folder, *words))
    assert code == 0, said
    assert "nothing to do" not in said
    assert lines(Run.open(folder)) == lines(undisturbed)
    before = {path: path.stat().st_mtime_ns for path in (folder / "checkpoints").iterdir()}
    code, said = run_to_its_end(train_command(folder, *words))
    assert (code, "nothing to do" in said) == (0, True)
    assert before == {path: path.stat().st_mtime_ns for path in (folder / "checkpoints").iterdir()}


def test_a_run_that_may_have_begun_leaves_other_files_alone(tmp_path):
    settings = {**SETTINGS, "generations": 1}
    folder = tmp_path / "run"
    for name in ("checkpoints/000003.safetensors", "metrics.jsonl", "notes.txt", "videos/film.mp4"):
        (folder / "checkpoints").mkdir(parents=True)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("mine")
        with pytest.raises(FileExistsError, match="is not empty"):
            train("CartPole-v1", run_dir=folder, resume="if begun", progress=False, **settings)
        assert (folder / name).read_text() == "mine"
        shutil.rmtree(folder)
    run = train("CartPole-v1", run_dir=folder, resume="if begun", progress=False, workers=1, **settings)
    with pytest.raises(ValueError, match="env_id cannot change in a resumed run"):
        train("CartPoleBullet-v0", run_dir=run.directory, resume="if begun")


def test_resume_must_be_true_false_or_if_begun(capsys):
    with pytest.raises(ValueError, match="resume must be True, False or 'if begun', got 'yes'"):
        train("CartPole-v1", resume="yes")
    with pytest.raises(ValueError, match="resume='if begun' needs run_dir"):
        train("CartPole-v1", resume="if begun")
    with pytest.raises(SystemExit, match="2"):
        main(["train", "CartPole-v1", "--continue"])
    assert "--continue needs --run-dir DIR" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.parametrize("number", range(30))
def test_a_run_killed_again_and_again_ends_as_if_nothing_had_happened(number, undisturbed, tmp_path, record_property):
    generator, folder = random.Random(number), tmp_path / "run"
    start = train_command(folder, "--quiet")
    kills = 0
    for _ in range(generator.randint(1, 3)):
        words = command("resume", folder, "--quiet") if (folder / "config.json").exists() else start
        with started(words) as (process, marked):
            if generator.random() < 0.5:  # at its start, or when it has something to lose
                written = folder / "metrics.jsonl"
                while process.poll() is None and not written.exists():
                    time.sleep(0.001)
                delay = generator.uniform(0, 0.3)
            else:
                delay = generator.uniform(0, 2.5)
            try:
                process.wait(timeout=delay)
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
            process.wait()
            require_gone(marked)
        if folder.exists() and not (folder / "config.json").exists():
            shutil.rmtree(folder)  # killed before it was a run
    record_property("kills", kills)
    if (folder / "config.json").exists():
        assert resume(folder) == 0
        require_equal(Run.open(folder), undisturbed)
    else:
        assert kills


@pytest.mark.long
@pytest.mark.parametrize("event", ["open", "os.rename"])
def test_a_run_killed_at_any_file_operation_ends_as_if_nothing_happened(event, undisturbed, tmp_path, record_property):
    short = 2
    whole = train("CartPole-v1", run_dir=tmp_path / "whole", workers=1, progress=False,
                  **{**SETTINGS, "generations": short, "checkpoint_every": 1})  # fmt: skip
    for count in range(1, 100):
        folder = tmp_path / str(count)
        words = train_command(folder, "--generations", short, "--checkpoint-every", 1, "--quiet",
                              code=killed_at(event, str(folder), count))  # fmt: skip
        code, _ = run_to_its_end(words)
        if code == 0:
            break
        if (folder / "config.json").exists():
            assert resume(folder) == 0
            require_equal(Run.open(folder), whole)
    record_property("kills", count - 1)
    assert count > (6 if event == "os.rename" else 10)


# ---- Ctrl-C and SIGTERM


# es-envs, by which a signal is not ignored, even if these tests run under nohup.
HEARING = """
import signal, sys
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("number", "code", "word"),
    first_fast(
        [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted"), (signal.SIGHUP, 129, "terminated")]
    ),
)
def test_a_signal_ends_a_run_in_order(number, code, word, undisturbed, tmp_path):
    folder = tmp_path / "run"
    words = train_command(folder, "--generations", 10**6, code=HEARING)
    with started(words) as (process, marked):
        wait_for_generation(process)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
        assert process.returncode == code
        require_gone(marked)
    run = Run.open(folder)
    last = run.checkpoint_generations()[-1]
    assert last == run.next_generation >= len(run.history) - 1
    *_, first, second = said.splitlines()
    assert first == word
    assert second.endswith(f": `es-envs resume {folder}` runs generation {last} again.")
    assert "Traceback" not in said
    assert "leaked" not in said
    assert resume(folder, "--max-seconds", 0.1) == 0
    after = Run.open(folder).history
    assert [stats.generation for stats in after] == list(range(len(after)))
    assert len(after) > last


@pytest.mark.slow
def test_a_signal_ends_a_run_whose_environments_hang(tmp_path):
    with endless(tmp_path, "sleeps") as (process, marked):
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 130
        require_gone(marked)
    words = f"python -m es_core resume {tmp_path / 'run'} --trust-names"
    assert said == f"interrupted\nNothing is lost: `{words}` runs generation 0 again.\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.slow)]
)
def test_signals_that_reach_the_workers_too_end_a_run_in_order(number, code, tmp_path):
    with started(train_command(tmp_path / "run", "--generations", 10**6, code=HEARING)) as (process, marked):
        wait_for_generation(process)
        workers = workers_of(process)
        assert len(workers) == 2
        for each in [*workers, process]:  # the workers first, who shall not care
            each.send_signal(number)
        _, said = process.communicate(timeout=30)
        assert process.returncode == code, said
        require_gone(marked)
    assert "terminated" in said.splitlines()
    assert "a worker is" not in said


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the file was never closed
def test_a_signal_that_comes_while_a_file_is_opened_is_no_error_of_the_disk(tmp_path):
    """The file closes its descriptor, and nothing else may: that would fail, and hide the signal."""

    def interrupt(_, event, function):
        if event == "c_return" and function is open:
            raise KeyboardInterrupt  # which ends this profile, too

    sys.setprofile(interrupt)
    with pytest.raises(KeyboardInterrupt):
        append(tmp_path / "metrics.jsonl", b"{}")


@pytest.mark.long
def test_a_second_signal_ends_a_run_at_once_and_without_damage(tmp_path):
    folder = tmp_path / "run"
    # The second one comes while the first one has a checkpoint written.
    line = "if event == 'os.rename' and signal.getsignal(signal.SIGINT) == signal.SIG_DFL: "
    code = HOOKED.format(line=line + "os.kill(os.getpid(), signal.SIGINT)")
    # With no checkpoint but the very first, there is one to write whenever the signal comes.
    words = train_command(folder, "--generations", 10**6, "--checkpoint-every", 10**6, code=code)
    with started(words) as (process, marked):
        wait_until(lambda: generations(folder) > 1, process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        assert process.returncode == -signal.SIGINT
        require_gone(marked)
    assert "Traceback" not in said
    assert list(folder.rglob("*.partial"))
    assert Run.open(folder).checkpoint_generations() == [0]
    assert resume(folder, "--max-seconds", 0.1) == 0
    assert Run.open(folder).history
    assert not list(folder.rglob("*.partial"))


def test_signal_handlers_are_the_commands_alone_and_are_put_back(tmp_path, capsys):
    seen = []

    class Listener:
        @hookimpl
        def generation_finished(self):
            seen.append([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)])

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    train("CartPole-v1", run_dir=tmp_path / "run", workers=1, progress=False, loggers=[Listener()],
          **{**SETTINGS, "generations": 1})  # fmt: skip
    assert seen == [before, before]
    assert main(["list"]) == 0
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    codes = []
    thread = threading.Thread(target=lambda: codes.append(main(["list"])))
    thread.start()
    thread.join()
    assert codes == [0]


# ---- the lock


def test_a_folder_in_use_is_refused_before_its_history_is_read(undisturbed, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(undisturbed.directory, folder)
    (folder / "metrics.jsonl").write_text("damaged\n\n")
    with lock(folder), pytest.raises(RuntimeError, match=f"another process is training in {folder}: wait"):
        train("CartPole-v1", run_dir=folder, resume=True, progress=False)
    with pytest.raises(Exception, match=r"metrics.jsonl.*damaged"):
        train("CartPole-v1", run_dir=folder, resume=True, progress=False)


def test_two_processes_cannot_train_in_one_folder(tmp_path, capsys):
    folder = tmp_path / "run"
    with started(train_command(folder, "--generations", 10**6)) as (process, _):
        wait_for_generation(process)
        assert resume(folder) == 1
        assert "another process is training in" in capsys.readouterr().err
        assert main(["train", "CartPole-v1", "--run-dir", str(folder)]) == 1
        assert f"{folder} exists and is not empty" in capsys.readouterr().err
        assert process.poll() is None


# ---- the disk


def limited(size):
    """Code that cannot write files of more than ``size`` bytes."""
    limit = f"import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))\n"
    return limit + HOOKED.format(line="pass")


@pytest.mark.slow
def test_a_line_that_the_disk_had_no_room_for_is_repaired_on_resume(undisturbed, tmp_path):
    folder = tmp_path / "run"
    lines = (undisturbed.directory / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    room = sum(map(len, lines[:9])) + len(lines[9]) // 2
    assert undisturbed.checkpoint_path(0).stat().st_size < room
    code, said = run_to_its_end(train_command(folder, "--quiet", code=limited(room)))
    assert code == 1
    error, note = (line for line in said.splitlines() if not line.startswith("warning: "))
    remedy = "File too large; raise the limit on the size of files (ulimit -f)"
    assert error == f"error: cannot write {folder / 'metrics.jsonl'}: {remedy}"
    run = Run.open(folder)
    assert (folder / "metrics.jsonl").stat().st_size == room
    assert note == f"Nothing is lost: `es-envs resume {folder}` runs generation {len(run.history)} again."
    assert 7 <= len(run.history) <= 10
    assert resume(folder) == 0
    require_equal(Run.open(folder), undisturbed)


def test_a_run_that_there_is_no_room_for_leaves_nothing_behind(tmp_path):
    code, said = run_to_its_end(train_command(tmp_path / "run", "--quiet", code=limited(3000)))
    assert code == 1
    assert f"error: cannot write {tmp_path / 'run' / 'checkpoints' / '000000.safetensors'}: File too large" in said
    assert "Traceback" not in said
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, with hardly any room."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    words = [mount, "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if mount is None or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("needs to be allowed to mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_run_stopped_by_a_full_disk_resumes_once_there_is_room(undisturbed, small_disk):
    folder, ballast = small_disk / "run", small_disk / "ballast"
    ballast.write_bytes(b"0" * 16_000)
    code, said = run_to_its_end(train_command(folder, "--quiet"))
    assert code == 1
    assert f"error: cannot write {folder}" in said
    assert "No space left on device; make room on that disk" in said
    assert f"`es-envs resume {folder}` runs generation " in said
    assert "Traceback" not in said
    assert Run.open(folder).checkpoint.generation <= len(Run.open(folder).history)

    code, said = run_to_its_end(command("resume", folder, "--quiet"))  # still no room
    assert code == 1
    assert "make room on that disk" in said
    assert Run.open(folder).checkpoint.generation <= len(Run.open(folder).history)

    ballast.unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    assert run_to_its_end(command("resume", folder, "--quiet"))[0] == 0
    require_equal(Run.open(folder), undisturbed)


def test_a_disk_that_cannot_be_written_is_named(undisturbed, small_disk):
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)
    shutil.copytree(undisturbed.directory, small_disk / "run")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    remedy = "Read-only file system; make that disk writable, or choose a folder on another\n"
    code, said = run_to_its_end(command("resume", small_disk / "run", "--generations", GENERATIONS + 1))
    assert (code, said) == (1, f"error: cannot write {small_disk / 'run' / '.lock'}: {remedy}")
    code, said = run_to_its_end(train_command(small_disk / "other"))
    assert (code, said) == (1, f"error: cannot write {small_disk / 'other'}: {remedy}")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_one_may_not_write_to_is_named(undisturbed, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match=rf"cannot write {tmp_path / 'run'}: .*make the folder writable"):
        train("CartPole-v1", run_dir=tmp_path / "run", progress=False, **SETTINGS)
    tmp_path.chmod(0o700)


def test_a_run_whose_folder_is_deleted_ends_with_a_sentence(tmp_path):
    folder = tmp_path / "run"

    def delete(stats):
        if stats.generation == 2:
            shutil.rmtree(folder)

    with (
        pytest.warns(RuntimeWarning, match="TensorBoard.*its folder has been deleted or moved.*switched off"),
        pytest.raises(FileNotFoundError, match=rf"cannot write {folder}.*; its folder has been deleted or moved"),
    ):
        train("CartPole-v1", run_dir=folder, workers=1, progress=False, on_generation=delete, **SETTINGS)
    assert not folder.exists()


@pytest.mark.long
def test_a_run_stopped_by_a_read_only_disk_resumes_later(undisturbed, small_disk):
    folder = small_disk / "run"
    subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)

    def protect(stats):
        if stats.generation == 9:  # its files are open: what is opened from now on is on a mount of its own
            subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
            subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)

    try:
        with (
            pytest.warns(RuntimeWarning, match="TensorBoard.*Read-only file system.*switched off"),
            pytest.raises(OSError, match=rf"cannot write {folder}.*: Read-only file system; make that d") as caught,
        ):
            train("CartPole-v1", run_dir=folder, workers=1, progress=False, on_generation=protect, **SETTINGS)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
    assert "The last checkpoint is intact" in caught.value.__notes__[0]
    assert Run.open(folder).checkpoint_generations() == [0, 7]
    assert resume(folder) == 0
    require_equal(Run.open(folder), undisturbed)


def test_deleting_the_checkpoints_in_mid_run_costs_the_deleted_ones_alone(undisturbed, tmp_path):
    folder = tmp_path / "run"

    def delete(stats):
        if stats.generation == 9:
            shutil.rmtree(folder / "checkpoints")

    train("CartPole-v1", run_dir=folder, workers=1, progress=False, on_generation=delete, **SETTINGS)
    assert lines(Run.open(folder)) == lines(undisturbed)
    assert Run.open(folder).checkpoint_generations() == undisturbed.checkpoint_generations()[2:]


@pytest.mark.slow
def test_a_run_that_can_write_no_checkpoint_any_more_keeps_its_history(undisturbed, tmp_path):
    folder = tmp_path / "run"

    def spoil(stats):
        if stats.generation == 9:
            shutil.rmtree(folder / "checkpoints")
            (folder / "checkpoints").touch()

    with pytest.raises(OSError, match=r"cannot write .*000014\.safetensors"):
        train("CartPole-v1", run_dir=folder, workers=1, progress=False, on_generation=spoil, **SETTINGS)
    (folder / "checkpoints").unlink()
    assert lines(Run.open(folder)) == lines(undisturbed)[:14]
    assert resume(folder) == 0
    assert lines(Run.open(folder)) == lines(undisturbed)


# ---- memory, and the clock


# es-envs with so many bytes of address space more than it has when it begins; what it starts has no more in all.
CONFINED = """
import resource, sys
from es_core.cli import main
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + {room}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ulimit -v is Linux's")
@pytest.mark.long
@pytest.mark.parametrize("megabytes", [1, 8])
def test_a_run_with_too_little_memory_resumes_where_there_is_more(megabytes, undisturbed, tmp_path):
    folder = tmp_path / "run"
    code, said = run_to_its_end(train_command(folder, "--quiet", code=CONFINED.format(room=megabytes * 2**20)))
    assert code in {0, 1, -signal.SIGABRT}  # the last is how compiled code gives up
    assert said or code == 0  # who notices first, and says so, differs
    if not (folder / "config.json").exists():
        assert not folder.exists() or not list(folder.iterdir())
        return
    assert resume(folder) == 0
    require_equal(Run.open(folder), undisturbed)


# es-envs in a world whose clock goes backwards, a day at a time.
BACKWARDS = """
import itertools, sys, time
days = itertools.count()
time.time = lambda: 1.7e9 - 86_400 * next(days)
time.time_ns = lambda: int(1e9 * time.time())
from es_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long
def test_a_clock_that_is_set_back_changes_nothing(undisturbed, tmp_path):
    code, said = run_to_its_end(train_command(tmp_path / "run", "--max-seconds", 1000, code=BACKWARDS))
    assert code == 0, said
    require_equal(Run.open(tmp_path / "run"), undisturbed)
    assert all(0 <= stats.seconds < 1000 for stats in Run.open(tmp_path / "run").history)


@pytest.mark.long
def test_leftovers_of_a_killed_film_are_removed_by_the_next_one(tmp_path):
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "run", workers=1, progress=False,
                **{**SETTINGS, "generations": 1})  # fmt: skip
    film, partial = tmp_path / "film.mp4", tmp_path / "film.mp4.unfinished"
    words = command("record", run.directory, film, "--episodes", 200, "--width", 64, "--height", 48, "--workers", 2)
    with started(words) as (process, marked):
        wait_until((partial / "film.mp4").exists, process)
        process.kill()
        process.wait()
        require_gone(marked)
    assert partial.exists()
    assert not film.exists()
    run.record(film, width=64, height=48, workers=1)
    assert {path.name for path in tmp_path.iterdir()} == {"run", "film.mp4", "film.json", "film.png"}


@pytest.mark.long
def test_a_film_without_room_is_named_and_leaves_nothing_behind(tmp_path):
    run = train("CartPoleBullet-v0", run_dir=tmp_path / "run", workers=1, progress=False,
                **{**SETTINGS, "generations": 1})  # fmt: skip
    words = command("record", run.directory, tmp_path / "film.mp4", "--episodes", 5, "--workers", 1, code=limited(2000))
    code, said = run_to_its_end(words)
    assert code == 1
    assert "film.mp4" in said
    assert "is the disk full?" in said
    assert "Traceback" not in said
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
