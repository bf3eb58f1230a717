"""What is shown of a run while it goes on."""

import contextlib
import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace

import pytest
from conftest import TESTS, first_fast, running

from es_core import Run, train
from es_core.training.progress import RunProgress

SETTINGS = "--generations 3 --population-size 4 --eval-episodes 2 --confirm-episodes 2 --eval-budget none --workers 1"
TRAIN = ["-m", "es_core", "train", "CartPole-v1", *SETTINGS.split(), "--solved-at", "none", "--json"]


def shown(columns, *arguments, command=TRAIN):
    """Stdout, and the lines on a terminal of this width as stderr."""
    main, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    variables = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}} | {
        "TERM": "xterm"
    }
    words = [sys.executable, *command, *arguments]
    with running(words, stdout=subprocess.PIPE, stderr=terminal, env=variables, text=True) as process:
        os.close(terminal)
        written = b""
        with os.fdopen(main, "rb", buffering=0) as screen:
            try:
                while part := screen.read(4096):
                    written += part
            except OSError:  # of a terminal that nobody has open any more
                pass
        return process.communicate()[0], re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode()))


@pytest.mark.parametrize("columns", [60, pytest.param(120, marks=pytest.mark.slow)])
def test_a_terminal_of_any_width_shows_fitness_the_best_and_the_speed(columns, tmp_path):
    out, lines = shown(columns, "--run-dir", str(tmp_path / "run"))
    names = ("generation", "population", "centre", "final", "speed")
    last = {name: [line.rstrip() for line in lines if line.startswith(name)][-1] for name in names}
    assert last["generation"].startswith("generation 3/3 ")
    assert last["generation"].endswith("done")
    assert re.fullmatch(r"population +[▁▂▃▄▅▆▇█]{3}", last["population"])
    assert re.fullmatch(r"centre      [\d.]+ \(\d+ episodes?\) +[▁▂▃▄▅▆▇█]{4}", last["centre"])
    assert re.fullmatch(r"final       [\d.]+ \(\d+ episodes\) +[▁▂▃▄▅▆▇█]{4}", last["final"])
    assert all(len(line) < columns for line in last.values())
    assert json.loads(out)["generation"] == 3


@pytest.mark.parametrize(("after", "what"), [(0, "episodes +0 of 1"), (12, "candidates +0 of 4")])
@pytest.mark.parametrize("is_terminal", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_long_commands_show_their_progress(is_terminal, after, what, tmp_path):
    gate = tmp_path / "gate"
    env_kwargs = json.dumps({"gate": str(gate), "after": after})
    words = [*TRAIN[:3], "small_envs:Gated-v0", "--env-kwargs", env_kwargs, *SETTINGS.split()]
    variables = {**os.environ, "PYTHONPATH": str(TESTS), "TERM": "xterm"}
    ours, theirs = os.openpty() if is_terminal else os.pipe()
    words = [sys.executable, *words, "--run-dir", str(tmp_path / "run")]
    with running(words, stdout=subprocess.DEVNULL, stderr=theirs, env=variables) as process:
        os.close(theirs)
        written = ""
        with os.fdopen(ours, "rb", buffering=0) as screen:
            while not re.search(rf"{what}, \d+ steps/s", re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", written)):
                part = screen.read(4096)
                assert part, written
                written += part.decode(errors="replace")
            gate.touch()
            with contextlib.suppress(OSError):  # of a terminal that nobody has open any more
                while screen.read(4096):
                    pass
        assert process.wait() == 0


def test_of_centres_with_equal_scores_the_first_is_shown_as_the_best(walk, tiny, tmp_path, capsys):
    run = train(walk, run_dir=tmp_path / "run", **tiny)
    del run.history[1:]
    with RunProgress(run) as shown:
        shown.show(replace(run.history[0], generation=1))
    assert re.search(r"confirmed \S+ in generation 0;", capsys.readouterr().err)


@pytest.mark.parametrize("quiet", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("words", "bar"),
    first_fast(
        [
            (
                ["evaluate", "CartPoleBullet-v0", "--pretrained", "--episodes", "21", "--workers", "1"],
                "episodes .* 21/21",
            ),
            (["bench", "CartPole-v1", "--seconds", "0.01", "--workers", "1"], "CartPole-v1 .* 100%"),
        ]
    ),
)
def test_evaluate_and_bench_show_a_bar_on_stderr_unless_quiet(words, bar, quiet):
    out, lines = shown(80, *words, "--json", *(["--quiet"] if quiet else []), command=["-m", "es_core"])
    assert json.loads(out)
    assert any(re.match(bar, line) for line in lines) != quiet


@pytest.mark.long
def test_quiet_shows_nothing(tmp_path):
    out, lines = shown(80, "--quiet", "--run-dir", str(tmp_path / "run"))
    assert lines == [""]
    assert json.loads(out)["directory"] == str(tmp_path / "run")


def test_a_run_continues_when_nobody_reads_its_progress_any_more(tmp_path):
    words = [sys.executable, *TRAIN, "--run-dir", str(tmp_path / "run")]
    with running(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stderr.close()
        out = process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert json.loads(out)["end"] == "generations"


def test_a_command_whose_stdout_is_closed_ends_normally(tmp_path):
    words = [sys.executable, *TRAIN, "--quiet", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert Run.open(tmp_path / "run").finished


@pytest.mark.slow
def test_output_that_is_no_terminal_gets_plain_lines(tmp_path):
    words = [sys.executable, *TRAIN, "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    where, *lines = done.stderr.splitlines()
    assert where == f"CartPole-v1: training in {tmp_path / 'run'}"
    score = r"[\d.]+ \(\d+ episodes?\)"
    assert re.fullmatch(
        rf"generation 3/3: centre {score}; final {score}; "
        rf"speed [\d\u202f]+ steps/s; done",
        lines[-1],
    )
    assert json.loads(done.stdout)["end"] == "generations"
