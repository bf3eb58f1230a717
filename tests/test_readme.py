"""README's promises: its Python runs, its plugin works, its commands exist."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from es_core.cli import main

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def block(label, document=README):
    """The code block behind the marker ``<!-- label -->``."""
    found = re.search(rf"<!-- {re.escape(label)} -->\n```\w*\n(.*?)```", document, re.DOTALL)
    assert found, f"there is no block {label!r}"
    return found.group(1)


def run_python(script, folder):
    done = subprocess.run([sys.executable, "-"], input=script, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_example_runs(tmp_path):
    example = block("example").replace('"cartpole.mp4"', '"cartpole.mp4", width=96, height=64')
    printed = run_python(example, tmp_path)
    assert "95 % interval" in printed
    assert (tmp_path / "cartpole.mp4").stat().st_size > 1000
    assert len(list((tmp_path / "runs" / "CartPoleBullet-v0").iterdir())) == 1


def test_the_plugin_trains_better_than_it_started_and_is_filmed(tmp_path):
    """From README's two files alone; the slow tests install it from its wheel."""
    (tmp_path / "es_hover.py").write_text(block("plugin: es_hover.py"), encoding="utf-8")
    entry_points = tomllib.loads(block("plugin: pyproject.toml"))["project"]["entry-points"]["es_envs"]
    info = tmp_path / "es_hover-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: es-hover\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(
        "[es_envs]\n" + "".join(f"{name} = {value}\n" for name, value in entry_points.items()), encoding="utf-8"
    )
    script = """
import sys; sys.path.insert(0, ".")
import es_envs, es_core
from es_envs.testing import check_env
check_env("Hover-v0")
run = es_core.train("Hover-v0", run_dir="run", progress=False)
start = es_core.evaluate(run.checkpoint_at(0), episodes=50)
assert run.evaluate(episodes=50).interval[0] > start.interval[1], (run.evaluate(), start)
run.record("hover.mp4")
"""
    run_python(script, tmp_path)
    assert (tmp_path / "hover.mp4").stat().st_size > 1000


def test_the_torch_module_is_trained_and_acts(tmp_path):
    (tmp_path / "my_net.py").write_text(block("policy: my_net.py"), encoding="utf-8")
    training = block("policy: training").replace("train(", "run = train(", 1)
    assert "run = train(" in training
    training = training.replace("16})", "16}, generations=1, population_size=2, eval_episodes=1, confirm_episodes=1)")
    script = f"{training}\nprint(run.config.policy, run.checkpoint.actor()([0.0, 0.0, 0.0, 0.0]))"
    printed = run_python(script, tmp_path)
    assert re.fullmatch("my_net:Net [01]", printed.strip())


def test_a_search_by_hand_finds_the_top_of_the_sphere(tmp_path):
    example = block("search")
    assert len(example.replace("\n\n", "\n").strip().splitlines()) <= 8
    run_python(f"{example}\nassert abs(search.mean).max() < 1e-3", tmp_path)


def test_the_strategy_in_the_documents_is_trained_with(tmp_path):
    document = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    (tmp_path / "es_greedy.py").write_text(block("strategy: es_greedy.py", document), encoding="utf-8")
    info = tmp_path / "es_greedy-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: es-greedy\nVersion: 0.1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[es_envs]\ngreedy = es_greedy\n", encoding="utf-8")
    script = """
import sys; sys.path.insert(0, ".")
import es_core
run = es_core.train("CartPoleBullet-v0", strategy="greedy", generations=3, eval_every=0, run_dir="run", progress=False)
assert run.checkpoint.config.strategy == "greedy"
assert run.history[-2].step_norm > 0
"""
    run_python(script, tmp_path)


@pytest.mark.parametrize("table", ["STRATEGIES", "SHAPINGS", "OPTIMIZERS", "POLICIES"])
def test_the_documents_name_all_that_there_is_to_choose(table):
    from es_core import optimizers, policies, shaping, strategies

    document = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    for module in (optimizers, policies, shaping, strategies):
        for name in getattr(module, table, ()):
            assert f"`{name}`" in document, name


def test_every_command_in_the_documents_exists(capsys):
    for document in DOCUMENTS:
        for command in set(re.findall(r"es-envs ([a-z]+)", document.read_text(encoding="utf-8"))) - {"says"}:
            with pytest.raises(SystemExit) as stop:
                main([command, "--help"])
            assert stop.value.code == 0, command
            assert capsys.readouterr().out


@pytest.mark.parametrize("label", ["demo command", "test command"])
def test_a_set_up_command_is_one_line_that_names_files_of_the_repository(label):
    command = block(label).strip()
    assert "\n" not in command
    for word in shlex.split(command):
        if word.startswith("requirements"):
            assert (ROOT / word).is_file()


def test_files_and_pictures_that_the_documents_link_exist():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (document.parent / target).exists(), target
