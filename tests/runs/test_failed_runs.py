"""Runs that an error ended: they say so, with the error and what shows it, wherever runs are looked at."""

import ast
import html
import json
import re

import pytest
from browser import Page
from conftest import TINY
from small_envs import Walk

from es_core import RolloutError, Run, report, train
from es_core.cli import main
from es_core.runs.listing import list_runs

SETTINGS = {**TINY, "generations": 3}


@pytest.fixture
def failed(register, tmp_path):
    """``failed()``: a run whose second generation failed with a candidate, and the file while which it fails."""
    broken = tmp_path / "broken"
    kwargs = {"fault": "step", "where": str(broken)}
    env_id = register("Stumbling-v0", kwargs=kwargs)
    with pytest.raises(RolloutError):
        train(env_id, run_dir=tmp_path / "runs" / "one", on_generation=lambda stats: broken.touch(), **SETTINGS)
    return Run.open(tmp_path / "runs" / "one"), broken


def test_a_failed_run_keeps_its_error_and_what_shows_it(failed, capsys):
    run, broken = failed
    (listed,) = list_runs(run.directory.parent)
    assert listed.state == "failed"
    assert re.search(
        r"^RolloutError: .*candidate \d in generation 1 .*: RuntimeError: the motor is on fire$", listed.error
    )
    replay = rf"es-envs replay {re.escape(str(run.directory))} --generation 1 --candidate \d --seed \d+"
    assert re.fullmatch(replay, listed.next)

    assert main(["runs", str(run.directory.parent)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"Stumbling-v0 +failed", shown)
    assert f"  {listed.error}: {listed.next}\n" in shown

    text = Page(report(run)).text
    first_screen = text[: text.index("Films")]
    assert "State failed RolloutError:" in first_screen
    assert f"{listed.error}. To see that episode fail: copy {listed.next} " in first_screen

    broken.unlink()
    stopped = run.resume(workers=1, progress=False, on_generation=lambda stats: False)
    assert stopped.failure is None
    assert list_runs(run.directory.parent)[0].state == "interrupted"
    assert not (run.directory / "failure.json").exists()


def test_a_run_that_its_caller_ends_with_an_error_has_failed(walk, tmp_path):
    def stop(stats):
        raise ZeroDivisionError("the diary is full")

    with pytest.raises(ZeroDivisionError):
        train(walk, run_dir=tmp_path / "run", on_generation=stop, **SETTINGS)
    (listed,) = list_runs(tmp_path)
    assert (listed.state, listed.error) == ("failed", "ZeroDivisionError: the diary is full")
    assert listed.next == f"es-envs resume {tmp_path / 'run'}"
    page = Page(report(tmp_path / "run")).text
    assert (
        "ZeroDivisionError: the diary is full. Once the cause is removed, to run it again: copy es-envs resume" in page
    )


def test_an_interrupted_run_has_not_failed(walk, tmp_path):
    def interrupt(stats):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(walk, run_dir=tmp_path / "run", on_generation=interrupt, **SETTINGS)
    (listed,) = list_runs(tmp_path)
    assert (listed.state, listed.error) == ("interrupted", None)


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"generation": 1}', "[" * 100_000, '{"generation": 1, "kind": 2, "message": 3, "episode": null}'],
)
def test_a_strangers_file_of_a_failure_is_ignored_unless_it_is_one(content, failed):
    run, _ = failed
    (run.directory / "failure.json").write_text(content, encoding="utf-8")
    assert list_runs(run.directory.parent)[0].state == "interrupted"
    assert report(run).exists()


def test_markup_in_a_failure_is_text(failed):
    run, _ = failed
    path = run.directory / "failure.json"
    values = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**values, "message": "<script>alert(1)</script>\x1b[2J"}), encoding="utf-8")
    assert "<script>alert(1)" not in report(run).read_text(encoding="utf-8")


def nested():
    """A class and a factory without a name that a command could give."""

    class Inner(Walk):
        def __init__(self):
            super().__init__(fault="step")

    return Inner


OBJECTS = {
    "class in a function": lambda: {"env": nested()},
    "lambda": lambda: {"env": lambda: Walk(fault="step")},
    "lambda as fitness": lambda: {"env": nested(), "fitness": lambda episode: episode.total_reward},
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_commands_about_objects_of_a_script_are_python(kind, tmp_path):
    objects = OBJECTS[kind]()
    with pytest.raises(RolloutError) as caught:
        train(**objects, run_dir=tmp_path / "run", max_episode_steps=5, **SETTINGS)
    (listed,) = list_runs(tmp_path)
    page = report(tmp_path / "run").read_text(encoding="utf-8")
    noted = re.findall(r"(?:`|fail: )([\w.]+\(.*\))", "\n".join(caught.value.__notes__))
    calls = [listed.next, *noted, *map(html.unescape, re.findall(r"<pre><code>(.*?)</code></pre>", page))]
    assert len(calls) > 5
    for call in calls:
        ast.parse(call)
        assert "..." not in call
