"""What README and the pages in docs/ promise: their Python runs, their plugins work, their commands exist."""

import ast
import builtins
import dataclasses
import doctest
import importlib
import inspect
import json
import re
import tomllib

import pytest
from documents import DOCUMENTS, ROOT, TEXTS, block, run_python
from PIL import Image

import es_core
import es_envs
from es_core.cli import main, make_parser
from es_envs import EnvDefinition, hookspecs


def install(folder, name, entry_points):
    """What pip would leave in a folder of ``sys.path`` for a distribution whose modules are there."""
    info = folder / f"{name.replace('-', '_')}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n", encoding="utf-8")
    lines = [f"{plugin} = {module}\n" for plugin, module in entry_points.items()]
    (info / "entry_points.txt").write_text("".join(["[es_envs]\n", *lines]), encoding="utf-8")


def test_the_first_picture_is_a_short_wide_film_that_loads_fast():
    path = ROOT / "docs" / "images" / "hero.gif"
    assert "](docs/images/hero.gif)" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert path.stat().st_size < 2e6
    with Image.open(path) as film:
        assert film.size == (960, 540)
        durations = []
        for number in range(film.n_frames):
            film.seek(number)
            durations.append(film.info["duration"])
    assert 7000 <= sum(durations) <= 9000


@pytest.mark.slow
def test_the_python_example_runs(tmp_path):
    example = block("example").replace('"cartpole.mp4"', '"cartpole.mp4", width=96, height=64')
    printed = run_python(example, tmp_path)
    assert " episodes" in printed
    assert (tmp_path / "cartpole.mp4").stat().st_size > 1000
    assert len(list((tmp_path / "runs" / "CartPoleBullet-v0").iterdir())) == 1


@pytest.mark.slow
def test_the_examples_of_the_reference_print_what_they_say(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    examples = [
        example
        for function in (es_core.train, es_core.evaluate, es_core.record)
        for example in doctest.DocTestParser().get_examples(inspect.getdoc(function))
    ]
    assert len(examples) > 9
    shown = []
    runner = doctest.DocTestRunner()
    runner.run(doctest.DocTest(examples, {}, "reference", None, None, None), out=shown.append)
    assert runner.failures == 0, "".join(shown)


@pytest.mark.slow
def test_the_plugin_trains_better_than_it_started_and_is_filmed(tmp_path):
    """From the guide's two files alone; the slow tests install it from its wheel."""
    (tmp_path / "es_hover.py").write_text(block("plugin: es_hover.py"), encoding="utf-8")
    entry_points = tomllib.loads(block("plugin: pyproject.toml"))["project"]["entry-points"]["es_envs"]
    install(tmp_path, "es-hover", entry_points)
    script = """
import sys; sys.path.insert(0, ".")
import es_envs, es_core
from es_envs.testing import check_env
check_env("Hover-v0")
run = es_core.train("Hover-v0", run_dir="run", progress=False)
start = es_core.evaluate(run.checkpoint_at(0), episodes=50)
end = run.evaluate(episodes=50)
assert (end.interval or (end.mean,))[0] > (start.interval or (start.mean,))[-1], (end, start)
run.record("hover.mp4")
"""
    run_python(script, tmp_path)
    assert (tmp_path / "hover.mp4").stat().st_size > 1000


@pytest.mark.slow
def test_the_guides_fitness_class_hooks_and_tests_work(tmp_path):
    for name in ("es_hover.py", "es_gentle.py", "es_diary.py", "test_hover.py"):
        (tmp_path / name).write_text(block(f"plugin: {name}"), encoding="utf-8")
    install(tmp_path, "es-hover", {"hover": "es_hover", "gentle": "es_gentle", "diary": "es_diary"})
    script = """
import sys; sys.path.insert(0, ".")
import es_core, pytest
run = es_core.train("GentleHover-v0", generations=2, population_size=4, run_dir="run", progress=False, seed=3)
print(sorted(run.history[0].fitnesses))
assert pytest.main(["-q", "-p", "es_envs_pytest", "-p", "no:cacheprovider", "test_hover.py"]) == 0
"""
    assert "['Gentle', 'calm', 'height']" in run_python(script, tmp_path)
    diary = (tmp_path / "diary.txt").read_text(encoding="utf-8")
    assert re.fullmatch(r"GentleHover-v0, seed 3: [.x]{3} \d+ steps\n", diary)
    assert "x" in diary


def test_the_plugin_in_short_is_the_guides(tmp_path):
    (tmp_path / "es_hover.py").write_text(block("plugin: es_hover.py"), encoding="utf-8")
    printed = run_python(f"{block('plugin in short')}\nprint(register_envs()[0].build().reset(seed=0)[1])", tmp_path)
    assert printed.startswith("{'height': ")


@pytest.mark.slow
def test_the_notebook_trains_with_what_it_defines(tmp_path):
    few = "generations=1, population_size=2, eval_episodes=1, confirm_episodes=1)"
    example = block("notebook").replace("generations=20)", few).replace("evaluate()", "evaluate(episodes=2)")
    assert few in example
    assert run_python(example, tmp_path).endswith("over 2 episodes\n")


@pytest.mark.slow
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
    (tmp_path / "es_greedy.py").write_text(block("strategy: es_greedy.py"), encoding="utf-8")
    install(tmp_path, "es-greedy", {"greedy": "es_greedy"})
    script = """
import sys; sys.path.insert(0, ".")
import es_core
run = es_core.train("CartPoleBullet-v0", strategy="greedy", generations=3, eval_every=0, run_dir="run", progress=False)
assert run.checkpoint.config.strategy == "greedy"
assert run.history[-2].step_norm > 0
"""
    run_python(script, tmp_path)


def test_the_trainer_in_the_documents_trains_and_continues_a_policy(tmp_path):
    (tmp_path / "es_climber.py").write_text(block("trainer: es_climber.py"), encoding="utf-8")
    install(tmp_path, "es-climber", {"climber": "es_climber"})
    script = """
import sys; sys.path.insert(0, ".")
import es_core
how = {"generations": 6, "progress": False, "confirm_episodes": 5, "eval_episodes": 5}
run = es_core.train("CartPole-v1", strategy="climber", run_dir="run", **how)
assert run.history[-1].parameter_hash != run.history[0].parameter_hash
tuned = es_core.finetune(run, algorithm="climber", steps=10_000, run_dir="tuned", **how)
assert (tuned.checkpoint_at(0).mean == run.best.mean).all()
"""
    run_python(script, tmp_path)


@pytest.mark.parametrize("table", ["STRATEGIES", "SHAPINGS", "OPTIMIZERS", "POLICIES"])
def test_the_documents_name_all_that_there_is_to_choose(table):
    document = (ROOT / "docs" / "algorithms.md").read_text(encoding="utf-8")
    module = {"SHAPINGS": "strategies.shaping", "OPTIMIZERS": "strategies.optimizers"}.get(
        table, f"{table.lower()}.by_name"
    )
    for name in getattr(importlib.import_module(f"es_core.{module}"), table):
        assert f"`{name}`" in document, name


@pytest.mark.parametrize("package", ["es_core", "es_envs"])
def test_every_public_name_is_in_the_reference(package):
    reference = TEXTS[ROOT / "docs" / "reference.md"]
    missing = [name for name in importlib.import_module(package).__all__ if f"{package}::{name}\n" not in reference]
    assert set(missing) <= {"STRATEGIES", "hookimpl"}


def test_the_tree_of_errors_has_all_that_there_are_below_their_bases():
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    tree = text[text.index("```text\nException") : text.index("```", text.index("```text\nException") + 3)]
    shown: dict[str, list[str]] = {}
    above: list[str] = []
    for line in tree.splitlines()[1:]:
        bars, name = re.match(r"([│ ├└─]*)(?:[a-z_.]+\.)?(\w+)", line).groups()
        above = [*above[: len(bars) // 4 - 1], name]
        shown[name] = above
    bases = {
        node.name: ast.unparse(node.bases[0])
        for package in ("es_core", "es_envs")
        for file in (ROOT / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and node.name.endswith("Error") and node.bases
    }

    def path_of(name):
        if name == "Exception":
            return []
        return [*path_of(bases.get(name) or getattr(builtins, name).__base__.__name__), name]

    found = {name: path_of(name) for name in bases}
    ours = {name: path for name, path in shown.items() if not hasattr(builtins, name)}
    assert ours == found


def test_every_field_of_a_definition_is_explained():
    for field in dataclasses.fields(EnvDefinition):
        assert f"`{field.name}`" in TEXTS[ROOT / "docs" / "plugins.md"] or field.name == "plugin", field.name


def test_every_hook_is_explained():
    for name in vars(hookspecs):
        if hasattr(getattr(hookspecs, name), "es_envs_spec"):
            assert f"| `{name}(" in TEXTS[ROOT / "docs" / "plugins.md"], name


def test_every_command_in_the_documents_exists(capsys):
    for document in DOCUMENTS:
        for command in set(re.findall(r"(?:`|&& |^)es-envs ([a-z]+)", TEXTS[document], re.MULTILINE)):
            with pytest.raises(SystemExit) as stop:
                main([command, "--help"])
            assert stop.value.code == 0, command
            assert capsys.readouterr().out


@pytest.mark.parametrize("label", ["demo command", "uv command", "test command"])
def test_a_set_up_command_is_one_line(label):
    assert "\n" not in block(label).strip()


def test_the_gallery_has_a_small_film_of_every_environment():
    definitions = map(es_envs.definition, es_envs.env_ids())
    ours = {definition.id for definition in definitions if definition.entry_point.startswith("es_")}
    films = list((ROOT / "docs" / "gallery").glob("*.mp4"))
    assert {film.stem for film in films} == ours, "`python docs/gallery.py` makes the films that are missing"
    assert all(film.with_suffix(".json").is_file() and film.stat().st_size <= 350_000 for film in films)


def test_the_gallery_shows_the_policies_that_come_with_environments():
    for env_id in filter(lambda name: es_envs.definition(name).pretrained, es_envs.env_ids()):
        told = json.loads((ROOT / "docs" / "gallery" / f"{env_id}.json").read_text(encoding="utf-8"))
        filmed = told["shots"][0]["players"][0]["parameter_hash"]
        assert filmed == es_core.Checkpoint.pretrained(env_id).parameter_hash, (
            f"`python docs/gallery.py {env_id}` films it anew"
        )


def test_the_gallerys_commands_exist(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    importlib.import_module("gallery_page").write(tmp_path)
    lines = re.findall(r"^es-envs (.*)", (tmp_path / "gallery.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) > 20
    for line in lines:
        assert not make_parser().parse_known_args(line.split())[1], line


def test_files_and_pictures_that_the_documents_link_exist():
    for document in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
            if not target.startswith(("http", "generated/")):  # the latter are made with the site
                assert (document.parent / target).exists(), target
