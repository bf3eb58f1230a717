"""Who may import whom: the rooms of the house, from the ground up."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OLD = ROOT / "tests" / "written_by_9c9a60a" / "dense"

# A room imports from lower ones only, and a file of a room from files of its own that do not import it.
ROOMS = {
    "es_envs": ["text", "cache", "streams", "interruption", "error_text", "closing", "worker_number", "arguments",
                "old_gym", "spaces", "return_values", "masks", "loading", "distributions", "wheels", "requirements",
                "display", "import_path", "code_hash", "scripts", "episode", "fitness", "definition", "behaviour",
                "hookspecs", "registry", "gym", "envpools", "bullet", "testing", "scaffold", "__main__"],
    "es_core": ["seeding", "statistics", "machine", "formatting", "files", "processes", "config", "policies",
                "strategies", "rollout", "runs", "pools", "training", "evaluation", "video", "reports", "deployment",
                "run", "tuning", "cli", "__main__"],
}  # fmt: skip


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


FILES = {module_of(file): file for package in ROOMS for file in sorted((ROOT / package).rglob("*.py"))}


def imports(module: str) -> set[str]:
    """Full names of what a module imports: at its top, inside functions, and for annotations only."""
    found = set()
    for node in ast.walk(ast.parse(FILES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module} has a relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else str(node.module) for name in names}
    return found


IMPORTS = {module: imports(module) for module in FILES}
ROOTS = {module: {name.partition(".")[0] for name in found} for module, found in IMPORTS.items()}


def room_of(module: str) -> str:
    return module.split(".")[1]


def test_a_room_imports_lower_rooms_only():
    for package, order in ROOMS.items():
        for module in (name for name in FILES if name.startswith(f"{package}.")):
            others = {name for name in IMPORTS[module] & {*FILES} if name.startswith(f"{package}.")}
            for name in (name for name in others if room_of(name) != room_of(module)):
                assert order.index(room_of(name)) < order.index(room_of(module)), f"{module} imports {name}"


def test_nobody_inside_imports_the_front_door_of_es_core():
    assert not [module for module, found in IMPORTS.items() if "es_core" in found]


def test_there_is_no_circle_of_imports():
    left = {module: {name for name in found if name in FILES} for module, found in IMPORTS.items()}
    while free := [module for module, found in left.items() if not found]:
        left = {module: found - {*free} for module, found in left.items() if module not in free}
    assert not left, f"these import each other in a circle, or import such a circle: {sorted(left)}"


def test_every_room_has_its_place_and_few_files_lie_flat():
    for package, order in ROOMS.items():
        assert {room_of(name) for name in FILES if name.startswith(f"{package}.")} == set(order)
    assert len(list((ROOT / "es_core").glob("*.py"))) <= 8


def test_only_the_bullet_room_imports_pybullet():
    assert [module for module, roots in ROOTS.items() if "pybullet" in roots] == ["es_envs.bullet.client"]


def test_es_envs_imports_neither_torch_nor_es_core():
    roots = set().union(*(found for module, found in ROOTS.items() if module.startswith("es_envs")))
    assert "gymnasium" in roots
    assert not roots & {"torch", "es_core"}


def test_es_core_imports_no_plugin():
    plugins = {path.parent.name for path in (ROOT / "plugins").glob("*/es_*/__init__.py")}
    assert len(plugins) == 5
    assert not plugins & set().union(*ROOTS.values())


def test_no_module_is_named_like_a_public_function():
    import es_core

    functions = {name for name in es_core.__all__ if name.islower()}
    assert len(functions) > 10
    modules = {module.rpartition(".")[2] for module in FILES if not module.startswith("es_core.cli")}
    assert not functions & modules


def test_no_module_is_called_utils_or_asserts_or_prints():
    for file in FILES.values():
        assert file.stem not in {"utils", "common", "helpers", "core", "base_class"}
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        assert not any(isinstance(node, ast.Assert) for node in nodes), file
        calls = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        assert "print" not in calls or file.parent.name == "cli", file


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
def test_commands_that_play_nothing_load_nothing_heavy(statement, heavy, tmp_path):
    code = f"import sys; {statement}; print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    words = [sys.executable, "-c", code, str(tmp_path / "report.html")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr.strip().endswith("[]")


@pytest.mark.parametrize("package", ["es_core", "es_envs", "es_envs.bullet", "es_envs.testing"])
def test_public_names_are_those_of_all_and_each_can_be_had(package):
    module = importlib.import_module(package)
    assert len(module.__all__) == len(set(module.__all__))
    for name in module.__all__:
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        module.trian  # noqa: B018


def test_every_public_name_of_es_core_has_a_home():
    import es_core

    assert set(es_core.__all__) == set(es_core._HOME) == set(dir(es_core))
