"""Who may import whom."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OLD = ROOT / "tests" / "written_by_9c9a60a" / "dense"

# From the ground up; a module imports from lower lines only.
LAYERS = [
    ["figures"],
    ["checks", "files", "layout", "pages", "machine", "preprocessing", "schedules", "seeding", "shaping", "sheet"],
    ["captions", "config", "film", "normalizer", "optimizers", "scaffold"],
    ["trust", "callables", "budget", "domains", "significance", "told"],
    ["commands", "policies"],
    ["strategies", "rollout", "scoring"],
    ["pools", "checkpoint"],
    ["run", "drawing"],
    ["artists", "loggers", "advice", "search"],
    ["display", "doctor", "rebuild"],
    ["train", "evaluate"],
    ["shots"],
    ["export", "report", "record", "replay", "bench", "tune", "watch"],
    ["compare"],
    ["seeds"],
    ["cli"],
    ["__main__"],
]
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}


def imports(file: Path) -> set[str]:
    """Full names of the modules that ``file`` imports, at its top or inside functions, but for annotations only."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def roots(file: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(file)}


def module_of(file: Path) -> str:
    return file.relative_to(ROOT / "es_core").parts[0].removesuffix(".py")


CORE = sorted((ROOT / "es_core").rglob("*.py"))
ENVS = sorted((ROOT / "es_envs").rglob("*.py"))


@pytest.mark.parametrize("file", ENVS, ids=lambda file: file.name)
def test_es_envs_imports_neither_torch_nor_es_core_and_only_bullet_imports_pybullet(file):
    assert not roots(file) & {"torch", "es_core"}
    assert ("pybullet" in roots(file)) == (file.name == "bullet.py")


@pytest.mark.parametrize("file", CORE, ids=lambda file: str(file.relative_to(ROOT)))
def test_es_core_never_imports_pybullet_or_a_plugin(file):
    plugins = {path.name for path in (ROOT / "plugins").glob("*/es_*")}
    assert plugins
    assert not roots(file) & ({"pybullet", "pybullet_data"} | plugins)


@pytest.mark.parametrize("file", CORE, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_inside_es_core_run_strictly_downwards(file):
    here = module_of(file)
    if here == "__init__":
        return  # the front door, which resolves names lazily
    for name in imports(file):
        package, _, rest = name.partition(".")
        there = rest.partition(".")[0]
        if package != "es_core" or there not in LAYER or there == here:
            continue
        assert LAYER[there] < LAYER[here], f"{here} imports {there}"


def test_every_module_has_its_layer():
    assert {module_of(file) for file in CORE} - {"__init__"} == set(LAYER)


@pytest.mark.parametrize("file", ENVS + CORE, ids=lambda file: str(file.relative_to(ROOT)))
def test_nothing_is_called_utils_or_asserts_or_prints_outside_the_command_line(file):
    assert file.stem not in {"utils", "common", "helpers", "core", "base_class"}
    tree = ast.parse(file.read_text(encoding="utf-8"))
    assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree))
    calls = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert "print" not in calls or file.parent.name == "cli"


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import es_core", {"torch", "pybullet", "numba"}),
        ("import es_envs; es_envs.env_ids()", {"torch", "pybullet", "numba"}),
        ("from es_core.cli import main; main(['list'])", {"torch", "pybullet", "numba"}),
        ("from es_core.cli import main; main(['show', 'RaceCar-v0'])", {"torch", "numba"}),
        (f"from es_core.cli import main; main(['report', {str(OLD)!r}, '--output', sys.argv[1]])", {"torch", "numba"}),
        (f"from es_core.cli import main; main(['compare', {str(OLD)!r}])", {"torch", "numba"}),
    ],
)
def test_who_plays_nothing_loads_nothing_heavy(statement, heavy, tmp_path):
    code = f"import sys; {statement}; print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    words = [sys.executable, "-c", code, str(tmp_path / "report.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("[]")


def test_importing_a_module_does_not_hide_the_function_of_its_name():
    code = "import es_core, es_core.train, es_core.record; print(callable(es_core.train), callable(es_core.record))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True True"


def test_public_names_are_those_of_all_and_each_can_be_had():
    import es_core
    import es_envs

    for package in (es_core, es_envs):
        assert len(package.__all__) == len(set(package.__all__))
        for name in package.__all__:
            assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        es_core.trian  # noqa: B018
