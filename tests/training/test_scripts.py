"""Training from where people train: scripts without a guard, stdin, notebooks; and what workers load there."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from es_core import Run, train

TESTS = Path(__file__).parents[1]

SCRIPT = """
    import sys
    import es_envs
    from es_core import train

    with open("started", "a") as file:
        file.write("x")
    es_envs.register(es_envs.EnvDefinition(id="Mine-v0", entry_point="my_env:Mine", max_episode_steps=5))
    run = train("Mine-v0", run_dir="run", workers=2, generations=2, population_size=4, eval_episodes=1,
                confirm_episodes=1, hidden_sizes=(), observation_normalization=True)
    print(len(run.history), "torch" in sys.modules, "small_envs" in sys.modules)
"""
MY_ENV = """
    import small_envs

    class Mine(small_envs.Reporting):
        def __init__(self):
            super().__init__(log="log")
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module of the user's and a script that trains on it without a guard."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_env.py").write_text(textwrap.dedent(MY_ENV))
    (tmp_path / "script.py").write_text(textwrap.dedent(SCRIPT))
    return tmp_path


def check(folder):
    """The script ran once, in one process; two workers played; none of them saw torch or the script."""
    assert (folder / "started").read_text() == "x"
    assert [stats.generation for stats in Run.open(folder / "run").history] == [0, 1, 2]
    lines = [line.split() for line in (folder / "log").read_text().splitlines()]
    assert len({line[0] for line in lines}) == 2
    assert [line[1] for line in lines].count("made") == 2
    assert {tuple(line[2:]) for line in lines} == {("torch=False", "main=None")}


@pytest.mark.long
def test_imports_of_an_unguarded_script_stay_out_of_the_workers(folder, python):
    script = (folder / "script.py").read_text()
    (folder / "script.py").write_text("import torch\n" + script)
    done = python(arguments=["script.py"])
    assert done.code == 0, done.err
    assert done.out == "3 True False\n"
    check(folder)


def test_a_script_from_stdin_trains_and_no_process_imports_torch(folder, python):
    done = python(stdin=(folder / "script.py").read_text(), environment={"PYTHONPROFILEIMPORTTIME": "1"})
    assert done.code == 0, done.err
    assert done.out == "3 False False\n"
    check(folder)
    imported = [line.rpartition("|")[2].strip() for line in done.err.splitlines() if line.startswith("import time:")]
    loading = 1 if sys.platform == "linux" else 2  # processes: one from which both workers are forked, or each of them
    assert imported.count("numpy") == 1 + loading
    assert imported.count("small_envs") == loading
    assert not [name for name in imported if name.partition(".")[0] in {"torch", "pybullet"}]
    assert "Mine-v0: training in" in done.err


NOTEBOOK_OWN = """
    run = train(Here, fitness=lambda episode: 7.0, max_episode_steps=5, workers=1, generations=1, population_size=2,
                eval_episodes=1, confirm_episodes=1, progress=False)
    print(run.evaluate(episodes=2, workers=1).mean)
"""


@pytest.mark.slow
def test_a_notebook_trains(folder, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    cells = [
        nbformat.v4.new_code_cell(cell)
        for cell in (
            textwrap.dedent(SCRIPT),
            "class Here(small_envs.Walk): pass",
            textwrap.dedent(NOTEBOOK_OWN),
            "es_envs.register(es_envs.EnvDefinition(id='Here-v0', entry_point=Here))",
        )
    ]
    cells[1].source = "import small_envs\n" + cells[1].source
    notebook = nbformat.v4.new_notebook(cells=cells)
    client = nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", allow_errors=True)
    client.execute(cwd=str(folder))

    texts = ["".join(output.get("text", "") for output in cell.outputs) for cell in notebook.cells]
    assert texts[0].splitlines()[-1:] == ["3 False False"], notebook.cells[0].outputs
    check(folder)
    assert texts[2] == "7.0\n", notebook.cells[2].outputs
    (error,) = notebook.cells[3].outputs
    assert error["ename"] == "ValueError"
    assert "'Here' is defined in the running script or notebook, which no worker imports" in error["evalue"]
    assert error["evalue"].endswith("or give it to train() as it is")


@pytest.mark.slow
def test_the_notebook_of_the_documents_ends_with_a_film(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(TESTS.parent / "docs" / "notebooks" / "train-to-film.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(tmp_path))
    shown = {cell.id: cell.outputs for cell in notebook.cells if cell.cell_type == "code"}
    (chart,) = (output.data["text/html"] for output in shown["train"] if "data" in output)
    assert "<svg" in chart
    assert (
        0.35 < float(re.search(r"final ([\d.]+) \(100 episodes\); .*done", chart)[1]) < 0.5
    )  # it varies with processors
    assert "chosen: policy mlp" in chart
    (score,) = (output.data["text/html"] for output in shown["evaluate"] if "data" in output)
    assert float(re.search(r"score</th><td>([\d.]+) \(95 %", score)[1]) > 0.35
    (film,) = (output.data["text/html"] for output in shown["record"] if "data" in output)
    assert 'src="data:video/mp4;base64,' in film


OWN = """
    import sys
    import small_envs
    from es_core import train
    goal = 1.0
    class Here(small_envs.Walk):
        pass
    def closeness(episode):
        return -abs(goal - float(episode.final_info["position"][0]))
    first, last = sys.argv[1:]
    run = train(Here, fitness=closeness, max_episode_steps=5, run_dir="run", resume=first != "0", generations=int(last),
                workers=2, population_size=4, eval_episodes=1, confirm_episodes=1, hidden_sizes=(), progress=False)
    print(len(run.history), run.config.env_id, run.config.fitness)
"""


@pytest.mark.slow
def test_a_scripts_run_is_resumed_by_any_script_that_defines_the_same(folder, python):
    source = textwrap.dedent(OWN)
    (folder / "own.py").write_text(source)
    begun = python(arguments=["own.py", "0", "1"])
    assert begun.out.startswith("2 local/Here-"), begun.err
    (folder / "elsewhere.py").write_text("# the same, elsewhere\n\n" + source)
    resumed = python(arguments=["elsewhere.py", "1", "2"])
    assert resumed.out == "3" + begun.out[1:], resumed.err
    (folder / "changed.py").write_text(source.replace("goal = 1.0", "goal = 1.5"))
    changed = python(arguments=["changed.py", "2", "3"])
    assert "ValueError: fitness: the run began with the code of '__main__:closeness#" in changed.err
    assert changed.code == 1


def test_nested_observations_are_learned_from_by_a_fitness_of_the_last(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "third_party.py").write_text(
        "import gymnasium\ngymnasium.register('Nested-v2', 'small_envs:Nested', max_episode_steps=9)"
    )
    run = train(
        "third_party:Nested-v2",
        fitness="small_envs:middle_of_nested",
        run_dir=tmp_path / "run",
        workers=1,
        progress=False,
        generations=12,
        population_size=16,
        eval_episodes=5,
        confirm_episodes=5,
        hidden_sizes=(4,),
        sigma=0.3,
        learning_rate=0.3,
        observation_normalization=True,
    )
    assert run.history[-1].evaluation.mean > 1.5  # five steps of 0.5 from somewhere between -1 and 1
    assert run.history[0].episode_length == 5
    act = run.checkpoint.actor()
    observation = {"body": (np.zeros(1, np.float32), np.int64(0)), "mode": {"on": np.zeros(2, np.int8)}}
    assert act(observation) == 1
    assert run.evaluate(episodes=20, workers=1).mean > 1.5


@pytest.mark.long
def test_runs_started_in_the_same_moment_get_folders_of_their_own(tmp_path):
    code = (
        "from es_core import train; train('CartPole-v1', generations=1, population_size=2, workers=1, progress=False)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) for _ in range(3)]
    assert [process.wait(timeout=100) for process in started] == [0, 0, 0]
    assert len(list((tmp_path / "runs" / "CartPole-v1").iterdir())) == 3


def test_a_file_next_to_the_script_does_not_shadow_the_workers_modules(tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit('not the real json')", encoding="utf-8")
    train = "from es_core import train; train('CartPole-v1', generations=1, progress=False)"
    code = f"import sys; sys.path.pop(0); {train}"  # the script itself does not look beside it
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
