"""The registry: real entry points of real distributions, good ones and broken ones."""

import importlib.metadata
import io
import itertools
import json
import re
import subprocess
import sys
import textwrap
import tomllib
import unicodedata
import warnings
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from conftest import first_fast, left_behind
from rich.console import Console

import es_envs
from es_core import OpenAIES, train
from es_core.training.progress import print_line
from es_envs import EnvDefinition, PluginError, UnknownEnvError, hookimpl, registry
from es_envs.registry import Registry
from es_envs.text import printable

OWN_FORKERS = True

GOOD = """
    from es_envs import EnvDefinition, hookimpl

    @hookimpl
    def register_envs():
        return [EnvDefinition(id="{id}", entry_point="small_envs:Walk", max_episode_steps=5)]
"""
numbers = itertools.count()


class Plugins:
    """Distributions in a folder, each with a module and an entry point."""

    def __init__(self, folder):
        self.folder = folder

    def add(self, name, source, *, value=None, requires=(), distribution=None, **files):
        """Install the module ``source`` as plugin ``name`` of the distribution "es-``name``"; returns its module."""
        module = f"plugin_{name}_{next(numbers)}"  # a new name each time: modules stay in sys.modules
        distribution = distribution or f"es-{name}"
        info = self.folder / f"{distribution.replace('-', '_')}-1.5.dist-info"
        if info.exists():
            info = self.folder / f"es_{name}_{module}-1.5.dist-info"
        info.mkdir()
        needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n{needs}")
        (info / "entry_points.txt").write_text(f"[es_envs]\n{name} = {value or module}\n")
        (self.folder / f"{module}.py").write_text(textwrap.dedent(source))
        for file, text in files.items():
            (self.folder / f"{file}.py").write_text(textwrap.dedent(text))
        return module

    def registry(self):
        found = importlib.metadata.distributions(path=[str(self.folder)])
        return Registry(found=[entry_point for distribution in found for entry_point in distribution.entry_points])


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    return Plugins(tmp_path)


def test_a_plugin_is_found_and_described(installed):
    installed.add("good", GOOD.format(id="Good-v0"))
    registry = installed.registry()

    assert registry.env_ids() == ["Good-v0"]
    assert registry.definition("Good-v0").plugin == "good"
    (info,) = registry.plugins()
    assert (info.name, info.version, info.distribution, info.status) == ("good", "1.5", "es-good", "active")
    assert (info.error, info.ids) == (None, ("Good-v0",))


UNREADABLE = {
    "no metadata": {"METADATA": None},
    "empty metadata": {"METADATA": b""},
    "no name": {"METADATA": b"Metadata-Version: 2.1\nVersion: 1.5\n"},
    "no version": {"METADATA": b"Metadata-Version: 2.1\nName: es-odd\n"},
    "metadata in Latin-1": {"METADATA": b"Metadata-Version: 2.1\nName: es-odd\nVersion: 1.5\nAuthor: Andr\xe9\n"},
    "entry points in Latin-1": {"entry_points.txt": b"[es_envs]\nodd = caf\xe9\n"},
    "entry points without values": {"entry_points.txt": b"[es_envs]\nodd\n= plugin\n[[[\n"},
    "entry point that is no name": {"entry_points.txt": b"[es_envs]\nodd = 1 2 3\n"},
    "a folder for a file": {"entry_points.txt": None},
}


@pytest.mark.parametrize("files", first_fast(UNREADABLE.values(), 2), ids=UNREADABLE)
def test_a_broken_distribution_ends_no_command(installed, python, files):
    installed.add("odd", GOOD.format(id="Odd-v0"))
    installed.add("good", GOOD.format(id="Good-v0"))
    info = installed.folder / "es_odd-1.5.dist-info"
    for name, text in files.items():
        (info / name).unlink()
        if text is not None:
            (info / name).write_bytes(text)
        elif name == "entry_points.txt":
            (info / name).mkdir()

    done = python(EVERY_COMMAND, cwd=installed.folder, path=[installed.folder])
    assert done.out.splitlines()[-1] == "0 0 0 0 0", done.err
    assert "Good-v0" in done.out
    if "METADATA" in files or files["entry_points.txt"] is not None:
        (line,) = [line for line in done.out.splitlines() if line.startswith(("odd ", "es-odd ", "es_odd "))]
        assert re.search(" (active|incomplete|error) ", line)


EVERY_COMMAND = """
from es_core.cli import main
small = ["--generations", "1", "--population-size", "2", "--workers", "1", "--strategy", "openai_es", "--quiet"]
commands = [
    ["list"],
    ["plugins"],
    ["show", "Good-v0"],
    ["train", "Good-v0", *small, "--run-dir", "run"],
    ["evaluate", "run", "--episodes", "1", "--workers", "1"],
]
print(*[main(words) for words in commands])
"""


def test_a_broken_distribution_of_something_else_is_not_mentioned(installed, python):
    info = installed.folder / "other-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_bytes(b"[console_scripts]\nother\n= caf\xe9\n")

    done = python("import es_envs; print(len(es_envs.plugins()))", path=[installed.folder])
    assert (done.out, done.err) == (f"{len(es_envs.plugins())}\n", "")


BROKEN = {
    "raises at import": ("raise RuntimeError('the flux is missing')", "RuntimeError: the flux is missing"),
    "exits at import": ("import sys; sys.exit('licence expired')", "SystemExit: licence expired"),
    "lacks a dependency": ("import no_such_module_anywhere", "No module named 'no_such_module_anywhere'"),
    "is no Python": ("def (:", "SyntaxError"),
    "returns a string": (
        "import es_envs\n@es_envs.hookimpl\ndef register_envs(): return 'Env-v0'",
        "register_envs must return a list of EnvDefinition, got 'Env-v0'",
    ),
    "returns nothing": (
        "import es_envs\n@es_envs.hookimpl\ndef register_envs(): pass",
        "register_envs must return a list of EnvDefinition, got None",
    ),
    "returns classes": (
        "import es_envs\n@es_envs.hookimpl\ndef register_envs(): return [int]",
        "register_envs must return a list of EnvDefinition, got [<class 'int'>]",
    ),
    "raises in its hook": (
        "import es_envs\n@es_envs.hookimpl\ndef register_envs(): raise OSError('no meshes')",
        "OSError: no meshes",
    ),
    "registers an invalid id": (
        GOOD.format(id="my env"),
        "'my env' is not an environment id: expected 'Name-v0' or 'namespace/Name-v0'",
    ),
    "registers an id with a colon": (GOOD.format(id="mod:Env-v0"), "'mod:Env-v0' is not an environment id"),
    "registers an id twice": (
        GOOD.format(id="Twice-v0").replace("max_episode_steps=5)]", "max_episode_steps=5)] * 2"),
        "'Twice-v0' is already registered by",
    ),
    "misspells a hook": (
        "import es_envs\n@es_envs.hookimpl\ndef register_env(): return []",
        "no hook is called 'register_env': did you mean 'register_envs'?",
    ),
    "invents a hook": (
        "import es_envs\n@es_envs.hookimpl\ndef xyz(): return []",
        "no hook is called 'xyz': the hooks are register_envs, ",
    ),
    "forgets the marker": (
        "def register_envs(): return []",
        "'register_envs' is not marked: put @es_envs.hookimpl above it",
    ),
    "implements nothing": ("ANSWER = 42", "it implements no hook"),
    "wants arguments": (
        "import es_envs\n@es_envs.hookimpl\ndef register_envs(world): return []",
        "register_envs(world)",
    ),
    "wants arguments of a later hook": (
        GOOD.format(id="Awry-v0")
        + """
    @hookimpl
    def run_started(folder): pass""",
        "run_started(folder)",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_plugin_is_skipped_with_a_warning_that_names_it_if_it(fault, installed):
    source, cause = BROKEN[fault]
    installed.add("awry", source)
    installed.add("good", GOOD.format(id="Good-v0"))
    registry = installed.registry()

    with pytest.warns(RuntimeWarning) as caught:
        assert registry.env_ids() == ["Good-v0"]

    (warning,) = caught
    assert str(warning.message).startswith("plugin 'awry' (distribution 'es-awry') is skipped: ")
    assert cause in str(warning.message)
    awry = {plugin.name: plugin for plugin in registry.plugins()}["awry"]
    assert awry.status == "error"
    assert cause in awry.error
    assert awry.ids == ()
    assert list(registry.active_plugins()) == ["good"]  # none of its other hooks is called, either
    with pytest.raises(UnknownEnvError) as error:
        registry.definition("AwryEnvironment-v0")
    assert "Plugin 'awry' (es-awry) is not active" in str(error.value)
    assert cause in str(error.value)


def test_an_entry_point_that_names_nothing_is_skipped(installed):
    installed.add("awry", "", value="no_such_plugin_module")
    with pytest.warns(RuntimeWarning, match="plugin 'awry' .*No module named 'no_such_plugin_module'"):
        assert installed.registry().env_ids() == []


def test_the_registry_knows_the_ids_of_the_shipped_plugins():
    folders = Path(__file__).parents[2].glob("plugins/*/pyproject.toml")
    shipped = {tomllib.loads(file.read_text())["project"]["name"] for file in folders}
    ids = {(plugin.distribution, env_id) for plugin in es_envs.plugins() for env_id in plugin.ids}
    assert set(registry.SHIPPED.items()) == {(env_id, name) for name, env_id in ids if name in shipped}
    assert set(registry.SHIPPED.values()) == shipped - {"es-stable-baselines3"}  # which has no environment


@pytest.mark.parametrize(("env_id", "owner"), registry.SHIPPED.items())
@pytest.mark.parametrize("thief", ["aaa", "zzz", "the same name"])
def test_nobody_takes_a_shipped_id_without_saying_so(env_id, owner, thief, installed):
    name = owner.removeprefix("es-").replace("-", "_")
    installed.add(name if thief == "the same name" else thief, GOOD.format(id=env_id), distribution="es-a-thief")
    reason = f"'{env_id}' belongs to {owner}, which ships with es-envs: .*override=True"
    with pytest.warns(RuntimeWarning, match=rf"\(distribution 'es-a-thief'\) is skipped: {reason}"):
        assert installed.registry().env_ids() == []
    installed.add(name, GOOD.format(id=env_id), distribution=owner)
    registry_ = installed.registry()
    with pytest.warns(RuntimeWarning, match=r"\(distribution 'es-a-thief'\) is skipped"):
        assert registry_.definition(env_id).plugin == name
    assert {plugin.distribution: plugin.status for plugin in registry_.plugins()} == {
        owner: "active", "es-a-thief": "error",
    }  # fmt: skip
    definition = EnvDefinition(id="RaceCar-v0", entry_point="small_envs:Walk")
    with pytest.raises(ValueError, match=r"already registered|belongs to es-racecar"):
        registry_.register(definition)


@pytest.mark.parametrize("name", ["aaa", "zzz"])
def test_a_definition_that_overrides_gets_the_id_and_it_is_shown(name, installed, python):
    for owner, env_id in {owner: env_id for env_id, owner in reversed(registry.SHIPPED.items())}.items():
        installed.add(owner.replace("-", "_"), GOOD.format(id=env_id), distribution=owner)
    overriding = GOOD.replace("max_", "override=True, max_")
    installed.add(name, overriding.format(id="RaceCar-v0"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert installed.registry().definition("RaceCar-v0").plugin == name
    found = {plugin.name: plugin.overrides for plugin in installed.registry().plugins()}
    assert {plugin for plugin, overrides in found.items() if overrides} == {name}
    done = python(arguments=["-m", "es_core", "plugins"], path=[installed.folder])
    assert re.search(rf"^{name} .* active +RaceCar-v0 \(overrides\)$", done.out, re.MULTILINE)
    installed.add("other", overriding.format(id="RaceCar-v0"))
    with pytest.warns(RuntimeWarning, match="'RaceCar-v0' is registered by"):
        assert "RaceCar-v0" not in installed.registry().env_ids()


def test_an_id_that_two_plugins_register_belongs_to_neither(installed, monkeypatch, python):
    installed.add("abel", GOOD.format(id="Same-v0"))
    installed.add("cain", GOOD.format(id="Same-v0"))
    installed.add("eve", GOOD.format(id="Eve-v0"))
    found = installed.registry()
    both = (
        "'Same-v0' is registered by plugin 'abel' (distribution 'es-abel') and plugin 'cain' (distribution 'es-cain'), "
        "so neither gets it: disable one with ES_ENVS_DISABLE_PLUGINS=es-abel or ES_ENVS_DISABLE_PLUGINS=es-cain"
    )
    with pytest.warns(RuntimeWarning, match=re.escape(both)):
        assert found.env_ids() == ["Eve-v0"]
    with pytest.raises(PluginError, match=re.escape(both)):
        found.definition("Same-v0")
    with pytest.raises(ValueError, match=re.escape(both)):
        found.register(EnvDefinition(id="Same-v0", entry_point="small_envs:Walk"))
    assert [plugin.status for plugin in found.plugins()] == ["clash", "clash", "active"]

    done = python(arguments=["-m", "es_core", "list", "--json"], path=[installed.folder])
    assert {"id": "Same-v0", "plugin": None, "summary": f"CLASH: {both}"} in json.loads(done.out)
    done = python(arguments=["-m", "es_core", "train", "Same-v0"], path=[installed.folder])
    assert (done.code, both in done.err) == (1, True)
    monkeypatch.setenv("ES_ENVS_STRICT", "1")
    with pytest.raises(PluginError, match=re.escape(both)):
        installed.registry().env_ids()
    monkeypatch.setenv("ES_ENVS_DISABLE_PLUGINS", "es-abel")
    assert installed.registry().definition("Same-v0").plugin == "cain"


def test_two_entry_points_of_one_name_are_not_confused(installed):
    installed.add("twin", GOOD.format(id="One-v0"))
    installed.add("twin", GOOD.format(id="Two-v0"))
    with pytest.warns(RuntimeWarning, match="another plugin has the name 'twin'"):
        assert len(installed.registry().env_ids()) == 1


def test_a_clash_names_those_who_clash_and_not_their_namesake(installed):
    installed.add("envs", GOOD.format(id="Same-v0"), distribution="a-first")
    installed.add("envs", GOOD.format(id="Else-v0"), distribution="b-second")
    installed.add("other", GOOD.format(id="Same-v0"), distribution="c-third")
    found = installed.registry()
    with pytest.warns(RuntimeWarning, match="envs") as caught:
        (clash,) = found.clashes().values()
    assert ["another plugin has the name 'envs'" in str(each.message) for each in caught] == [True, False]
    assert "'envs' (distribution 'a-first') and plugin 'other' (distribution 'c-third')" in clash


@pytest.mark.parametrize("name", ["awry", "es-awry", "ES_Awry", " other , awry,"])
def test_a_disabled_plugin_is_not_even_imported(name, installed, monkeypatch):
    installed.add("awry", "raise RuntimeError('imported')")
    installed.add("good", GOOD.format(id="Good-v0"))
    monkeypatch.setenv("ES_ENVS_DISABLE_PLUGINS", name)
    registry = installed.registry()

    assert registry.env_ids() == ["Good-v0"]
    assert [plugin.status for plugin in registry.plugins()] == ["disabled", "active"]
    with pytest.raises(UnknownEnvError, match=r"'awry' .*is not active: named in ES_ENVS_DISABLE_PLUGINS"):
        registry.definition("Awry-v0")


def test_strict_mode_raises_and_looks_again_next_time(installed, monkeypatch):
    installed.add("abel", GOOD.format(id="Abel-v0"))
    installed.add("awry", "raise RuntimeError('the flux is missing')")
    monkeypatch.setenv("ES_ENVS_STRICT", "1")
    registry = installed.registry()

    for _ in range(2):
        with pytest.raises(PluginError, match=r"plugin 'awry' .*the flux is missing"):
            registry.env_ids()
    monkeypatch.setenv("ES_ENVS_STRICT", "0")
    with pytest.warns(RuntimeWarning, match="awry"):
        assert registry.env_ids() == ["Abel-v0"]
    assert [plugin.name for plugin in registry.plugins()] == ["abel", "awry"]


def test_a_script_may_register_the_same_but_no_other_definition_twice(installed):
    installed.add("good", GOOD.format(id="Good-v0"))
    registry = installed.registry()
    definition = EnvDefinition(id="Mine-v0", entry_point="small_envs:Walk")
    registry.register(definition)
    registry.register(EnvDefinition(id="Mine-v0", entry_point="small_envs:Walk"))
    assert registry.env_ids() == ["Good-v0", "Mine-v0"]

    with pytest.raises(ValueError, match=r"'Mine-v0' \(small_envs:Nested\) .*already .*a script \(small_envs:Walk\)"):
        registry.register(EnvDefinition(id="Mine-v0", entry_point="small_envs:Nested"))
    with pytest.raises(ValueError, match=r"'Good-v0' \(small_envs:Nested\) .*already registered by plugin 'good'"):
        registry.register(EnvDefinition(id="Good-v0", entry_point="small_envs:Nested"))
    for _ in range(2):
        registry.register(EnvDefinition(id="Array-v0", entry_point="small_envs:Walk", kwargs={"a": np.arange(3)}))
    with pytest.raises(ValueError, match=r"'Array-v0' .* is already registered"):
        registry.register(EnvDefinition(id="Array-v0", entry_point="small_envs:Walk", kwargs={"a": np.arange(4)}))
    with pytest.raises(TypeError, match="expects an EnvDefinition, got dict"):
        registry.register({"id": "Mine-v0"})
    assert registry.definition("Mine-v0") is definition


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": "no id"}, "'no id' is not an environment id"),
        ({"id": ".."}, r"'\.\.' is not an environment id"),
        ({"id": "end."}, r"'end\.' is not an environment id"),
        ({"entry_point": "small_envs"}, "X-v0: entry_point must be a string 'module:name', got 'small_envs'"),
        ({"entry_point": lambda: None}, "X-v0: entry_point: .*is a lambda.*put it into a module"),
        ({"entry_point": "__main__:Env"}, "X-v0: entry_point '__main__:Env': workers do not import the running script"),
        ({"initializer": 3}, "X-v0: initializer must be a string 'module:name', got 3"),
        ({"fitness": lambda episode: 0}, "X-v0: fitness: .*is a lambda"),
        (
            {"fitness": "small_envs:way", "fitnesses": {"way": "small_envs:steps"}},
            r"X-v0: fitnesses\['way'\] has the name of",
        ),
        ({"fitnesses": {"a": 3}}, r"X-v0: fitnesses\['a'\] must be a string"),
        ({"max_episode_steps": 0}, "X-v0: max_episode_steps must be a positive integer or None, got 0"),
        ({"max_episode_steps": True}, "X-v0: max_episode_steps must be a positive integer or None, got True"),
        ({"kwargs": [1]}, r"X-v0: kwargs must be a dict with strings as keys, got \[1\]"),
        ({"solved_at": "high"}, "X-v0: solved_at must be a finite number or None, got 'high'"),
        ({"solved_at": float("nan")}, "X-v0: solved_at must be a finite number or None, got nan"),
        ({"solved_at": 10**400}, "X-v0: solved_at must be a finite number or None, got 1000"),
        ({"summary": 3}, "X-v0: summary must be a string, got 3"),
        ({"kwargs": {1: 2}}, r"X-v0: kwargs must be a dict with strings as keys, got \{1: 2\}"),
        ({"recommended_for": {"ars": 3}}, r"X-v0: recommended_for\['ars'\] must be a dict, got 3"),
        ({"recommended": "sigma"}, "X-v0: recommended must be a dict"),
    ],
)
def test_a_definition_that_cannot_be_is_refused(fields, message):
    with pytest.raises((ValueError, TypeError), match=message):
        EnvDefinition(**{"id": "X-v0", "entry_point": "small_envs:Walk", **fields})


@pytest.mark.parametrize(
    ("fitness", "others"),
    [
        ("final_info:way", {"way": "small_envs:way"}),
        ("episode_return", {"episode_return": "es_envs.fitness:episode_return"}),
        ("small_envs:way", {"way": "small_envs:way"}),
    ],
)
def test_a_definition_may_name_its_fitness_again(fitness, others):
    assert (
        EnvDefinition(id="X-v0", entry_point="small_envs:Walk", fitness=fitness, fitnesses=others).fitnesses == others
    )


def test_an_unknown_id_gets_suggestions_and_a_next_step(installed):
    installed.add("good", GOOD.format(id="WindTurbine-v0"))
    registry = installed.registry()
    for wrong, right in [("WindTurbin-v0", "WindTurbine-v0"), ("CartPole", "CartPole-v1")]:
        with pytest.raises(UnknownEnvError) as error:
            registry.definition(wrong)
        assert f"No environment {wrong!r}. Did you mean " in str(error.value)
        assert repr(right) in str(error.value)
        assert "`es-envs list`" in str(error.value)
    with pytest.raises(TypeError, match="an environment id is a string, got None"):
        registry.definition(None)


def test_an_id_may_name_the_module_that_registers_it(installed):
    (installed.folder / "shop.py").write_text(
        "import gymnasium\ngymnasium.register('Shop-v3', 'small_envs:Walk', max_episode_steps=7)\nclass Stall: pass"
    )
    (installed.folder / "plugin.py").write_text("def register_envs(): return []")
    (installed.folder / "mill.py").write_text("raise RuntimeError('no wind')")
    found = Registry(found=[]).definition("shop:Shop-v3")
    assert (found.id, found.max_episode_steps) == ("Shop-v3", 7)
    env = es_envs.make("shop:Shop-v3")
    assert type(env.unwrapped).__name__ == "Walk"

    for env_id, cause in [
        ("no_shop:Shop-v3", "module 'no_shop' cannot be imported: .*No module named 'no_shop'"),
        ("mill:Shop-v3", "module 'mill' cannot be imported: .*no wind"),
        (":Shop-v3", "module '' cannot be imported"),
        (
            "shop:Ship-v3",
            "Did you mean 'Shop-v3'.* Module 'shop' was imported, but registers no ",
        ),
        ("plugin:Barn-v3", "registers no .*Its register_envs is found through an entry point in pyproject.toml"),
        (
            "shop:Stall",
            r"Stall is a class there: give it an id in that module, gymnasium.register\('Stall-v0', 'shop:St",
        ),
        ("./shop.py", r"An id is no file: in its folder run `python -m es_core \.\.\. shop:Name-v0`"),
    ]:
        with pytest.raises(UnknownEnvError, match=f"No environment '{env_id}'.*{cause}"):
            es_envs.definition(env_id)


def test_an_own_environment_that_is_not_found_gets_a_hint(tmp_path, monkeypatch):
    with pytest.raises(UnknownEnvError, match=r"needs its entry point in pyproject.toml, and `pip install -e .` again"):
        es_envs.definition("Rover-v0")
    (tmp_path / "my_rover.py").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownEnvError, match="for a module of the current folder, run `python -m es_core`"):
        es_envs.definition("my_rover:Rover-v0")
    (tmp_path / "my_rover.py").write_text("import no_such_wheel")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownEnvError, match="No module named 'no_such_wheel'") as caught:
        es_envs.definition("my_rover:Rover-v0")
    assert "current folder" not in str(caught.value)  # it was found there; what it imports was not


def test_ids_of_gymnasium_work_and_are_not_listed():
    found = es_envs.definition("CartPole-v1")
    assert (found.max_episode_steps, found.solved_at) == (500, 475.0)
    assert "CartPole-v1" not in es_envs.env_ids()
    with found.build() as bare:
        assert bare is bare.unwrapped  # neither TimeLimit nor checking wrappers
    with es_envs.make("CartPole-v1", render_mode="rgb_array") as env:
        assert type(env) is gymnasium.wrappers.TimeLimit
        env.reset(seed=0)
        assert env.render().ndim == 3


def test_a_threshold_of_any_number_and_a_limit_of_none_are_gymnasiums_own_words():
    gymnasium.register("Odd-v0", "small_envs:Walk", reward_threshold=np.float32(3), max_episode_steps=-1)
    try:
        found = es_envs.definition("Odd-v0")
        assert (found.solved_at, found.max_episode_steps) == (3.0, None)
    finally:
        del gymnasium.registry["Odd-v0"]


def test_environments_registered_later_are_known_to_gymnasium_too(python):
    done = python("""
import es_envs, es_envs.gym, gymnasium
es_envs.register(es_envs.EnvDefinition(id="Later-v0", entry_point="small_envs:Walk", max_episode_steps=5))
print(gymnasium.make("es_envs.gym:Later-v0").unwrapped)
""")
    assert "Walk" in done.out, done.err


def test_make_adds_the_time_limit_and_a_spec_that_can_make_it_again(register):
    env_id = register("Stroll-v0", "small_envs:Walk", max_episode_steps=3, kwargs={"fault": "none"})
    env = es_envs.make(env_id, where="/nowhere")
    assert (env.unwrapped.fault, env.unwrapped.where) == ("none", "/nowhere")
    env.reset(seed=0)
    endings = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(3)]
    assert endings == [(False, False), (False, False), (False, True)]

    again = gymnasium.make(env.spec)
    assert type(again.unwrapped) is type(env.unwrapped)
    assert (again.unwrapped.fault, again.unwrapped.where) == ("none", "/nowhere")
    assert (again.spec.id, again.spec.max_episode_steps) == (env_id, 3)

    endless = es_envs.make(register("Endless-v0", "small_envs:Walk", max_episode_steps=None))
    assert endless is endless.unwrapped


def test_make_passes_a_render_mode_on_only_if_there_is_one(register):
    assert es_envs.make(register("Drawn-v0", "small_envs:Sized"), render_mode="human").render_mode == "human"
    blind = register("Blind-v0", "small_envs:Walk")
    es_envs.make(blind)
    with pytest.raises(ValueError, match=r"Blind-v0 \(plugin 'walking'\) cannot render: .* takes no render_mode arg"):
        es_envs.make(blind, render_mode="rgb_array")


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"entry_point": "no_such_module:Env"}, "entry_point 'no_such_module:Env' cannot be imported"),
        ({"entry_point": "small_envs:NoEnv"}, "module 'small_envs' has no 'NoEnv'"),
        ({"entry_point": "small_envs:NOT_CALLABLE"}, "entry_point 'small_envs:NOT_CALLABLE' must be callable, got 3"),
        ({"entry_point": "builtins:dict"}, "builtins:dict made dict, not a gymnasium.Env"),
        ({"initializer": "small_envs:no_start"}, "initializer 'small_envs:no_start' cannot be imported"),
    ],
)
def test_an_environment_that_cannot_be_made_is_named_with_its_plugin(fields, cause, register):
    env_id = register("Ruin-v0", **{"entry_point": "small_envs:Walk", **fields})
    with pytest.raises(PluginError, match=rf"Ruin-v0 \(plugin 'walking'\): .*{re.escape(cause)}"):
        es_envs.make(env_id)


USE_FROM_GYMNASIUM = """
import gymnasium, warnings
warnings.simplefilter("error")
env = gymnasium.make("es_envs.gym:Stroll-v0")
print(type(env.unwrapped).__name__, env.spec.max_episode_steps)
env.reset(seed=0); env.step(env.action_space.sample())
for mode in ("sync", "async"):
    vector = gymnasium.make_vec("Stroll-v0", num_envs=2, vectorization_mode=mode)
    observations, _ = vector.reset(seed=1)
    print(mode, observations.shape)
    vector.step(vector.action_space.sample())
    vector.close()
import es_envs
print(es_envs.register_with_gymnasium() == es_envs.register_with_gymnasium() == es_envs.env_ids())
"""


def test_plain_gymnasium_makes_our_environments_singly_and_in_vectors(installed, python, tmp_path):
    hooks = GOOD.format(id="Stroll-v0").replace("max_", 'initializer="small_envs:initialize", max_')
    installed.add("stroll", hooks)
    log = tmp_path / "log"
    done = python(USE_FROM_GYMNASIUM, path=[tmp_path], environment={"SMALL_ENVS_LOG": str(log)})

    assert done.err == ""
    assert done.out.splitlines() == ["Walk 5", "sync (2, 2)", "async (2, 2)", "True"]
    assert log.exists()  # the initializer runs here, too


def test_listing_imports_neither_torch_nor_pybullet_nor_environments(installed, python):
    installed.add("good", GOOD.format(id="Good-v0"))
    done = python(
        "import es_envs, sys; print(es_envs.env_ids()); print({'torch', 'pybullet', 'small_envs'} & {*sys.modules})",
        path=[installed.folder],
    )
    assert "'Good-v0'" in done.out
    assert done.out.splitlines()[-1] == "set()"


TRAIN = """
from es_core import train
import es_envs, json, os, sys
settings = json.loads(sys.argv[1])
run = train(settings.pop("env"), **settings)
print(len(run.history), os.getpid())
"""


def test_a_worker_makes_one_environment_and_imports_no_other_plugin(installed, python, tmp_path, tiny):
    """One run of several generations with evaluation, observed from outside."""
    log, marks = tmp_path / "log", tmp_path / "marks"
    marks.mkdir()
    for name in ("mill", "farm"):
        environment = f"""
            import os, pathlib, small_envs
            pathlib.Path({str(marks)!r}, f"{name}-{{os.getpid()}}").touch()
            class Env(small_envs.Reporting): pass
        """
        hooks = f"""
            from es_envs import EnvDefinition, hookimpl
            @hookimpl
            def register_envs():
                return [EnvDefinition(id="{name.title()}-v0", entry_point="{name}_env:Env", max_episode_steps=5,
                                      initializer="small_envs:initialize", kwargs=dict(log={str(log)!r}))]
            @hookimpl
            def register_strategies():
                return {{"{name}_search": "{name}_search:Still"}}
        """
        search = """
            import numpy as np
            from es_core import Population, Strategy
            class Still(Strategy):
                def draw(self):
                    zeros = np.zeros(self.population_size, np.int64)
                    return Population(generation=self.generation, base=self.mean[None], parent=zeros, scale=0.0,
                                      noise_seed=zeros, sign=zeros.astype(np.int8))
                def learn(self, population, fitness, valid):
                    return None
        """
        installed.add(name, hooks, **{f"{name}_env": environment, f"{name}_search": search})
    settings = {"generations": 3, "eval_episodes": 2, "workers": 2, "env": "Mill-v0", "strategy": "mill_search"}
    settings |= {"run_dir": str(tmp_path / "run"), "population_size": 4}
    done = python(
        TRAIN,
        path=[tmp_path],
        environment={"SMALL_ENVS_LOG": str(log)},
        arguments=[json.dumps({**tiny, **settings})],
    )

    assert done.err == ""
    generations, main = done.out.split()
    assert generations == "4"  # three, and the last centre
    events = [line.split()[:2] for line in log.read_text().splitlines()]
    workers = {pid for pid, _ in events}
    assert len(workers) == 2
    assert main not in workers
    for worker in workers:
        here = [event for pid, event in events if pid == worker]
        assert here[:2] == ["initialized", "made"]
        assert Counter(here)["made"] == Counter(here)["initialized"] == 1
    importing = {mark.name for mark in marks.iterdir()}
    if sys.platform == "linux":  # the process from which the workers were forked
        assert {name.partition("-")[0] for name in importing} == {"mill"}
        assert len(importing) == 1
    else:
        assert importing == {f"mill-{worker}" for worker in workers}

    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert len({line["parameter_hash"] for line in lines}) == 1  # the plugin's strategy stands still


def test_strategies_that_plugins_misname_are_refused_with_the_plugin(installed):
    installed.add("good", "import es_envs\n@es_envs.hookimpl\ndef register_strategies(): return {'walk': 'm:Walk'}")
    assert installed.registry().strategies() == {"walk": "m:Walk"}
    installed.add("hasty", "import es_envs\n@es_envs.hookimpl\ndef register_strategies(): return {'walk': 'm:Run'}")
    with pytest.raises(PluginError, match=r"plugin 'hasty': .*'walk' is already registered by plugin 'good'"):
        installed.registry().strategies()
    other = Plugins(installed.folder / "other")
    other.folder.mkdir()
    other.add("lazy", "import es_envs\n@es_envs.hookimpl\ndef register_strategies(): return {'walk': int}")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(other.folder)
        with pytest.raises(PluginError, match=r"plugin 'lazy': register_strategies failed: .*'walk': <class 'int'>"):
            other.registry().strategies()


@pytest.mark.parametrize(
    ("recommended", "cause"),
    [
        ({"sigmma": 1}, "no setting is called 'sigmma': did you mean 'sigma'?"),
        ({"sigma": -1}, "sigma must be a finite number above 0, or 'auto', got -1"),
        ({"env_id": "Other-v0"}, "'env_id'"),
    ],
)
def test_an_invalid_recommendation_names_the_plugin(recommended, cause, register):
    from es_core import TrainConfig

    env_id = register("Walk-v0", recommended=recommended)
    with pytest.raises(PluginError, match=rf"Walk-v0 \(plugin 'walking'\) recommends an invalid.*{re.escape(cause)}"):
        TrainConfig.for_env(env_id)


USELESS = {
    "recommended={'sigmma': 1}": "recommends an invalid setting: no setting is called 'sigmma': did you mean 'sigma'?",
    "recommended={'sigma': -1}": "an invalid setting: sigma must be a finite number above 0, or 'auto', got -1",
    "recommended={'strategy': 'open_es'}": "no strategy is called 'open_es': did you mean 'openai_es'?",
    "recommended_for={'cma_es': {'optimizer': 'sgd'}}": "strategy 'cma_es' does not use optimizer='sgd'",
    "recommended_for={'nes': {'sigma': 0.1}}": "no strategy is called 'nes'",
    "initializer='no_such_module:start'": "there is no module 'no_such_module' (initializer='no_such_module:start')",
    "pretrained='no_such_package:x.safetensors'": "there is no module 'no_such_package' (pretrained=",
    "scripts={'brake': 'no_such_module:Brake'}": "there is no module 'no_such_module' (script 'brake'=",
    "fitness='episode_retrun'": "there is no fitness 'episode_retrun'",
    "fitnesses={'calm': 'no_envs.none:calm'}": "there is no module 'no_envs.none'",
}


def test_a_plugin_with_useless_definitions_is_shown_as_broken(installed, python):
    pytest.importorskip("pybullet", reason="without Bullet our own plugins are shown as incomplete")
    installed.add("good", GOOD.format(id="Good-v0"))
    arguments = ["-m", "es_core", "plugins", "--json", "--strict"]
    assert python(arguments=arguments, path=[installed.folder]).code == 0
    for number, fields in enumerate(USELESS):
        installed.add(f"bad{number}", GOOD.format(id=f"Bad{number}-v0").replace("max_", f"{fields}, max_"))
    done = python(arguments=arguments, path=[installed.folder])
    found = {plugin["name"]: plugin for plugin in json.loads(done.out)}
    assert done.code == 1
    assert found["good"]["status"] == "active"
    for number, cause in enumerate(USELESS.values()):
        assert found[f"bad{number}"]["status"] == "error"
        assert cause in found[f"bad{number}"]["error"]
    assert python(arguments=arguments[:-1], path=[installed.folder]).code == 0


def test_importing_the_package_discovers_nothing(installed, python):
    installed.add("awry", "raise RuntimeError('imported')")
    done = python("import es_envs, es_core; from es_core import train", path=[installed.folder])
    assert (done.err, done.code) == ("", 0)


def test_a_plugin_may_look_up_other_environments_while_it_registers(installed):
    installed.add("abel", GOOD.format(id="Abel-v0"))
    source = "import es_envs\nSEEN = es_envs.env_ids()\n" + textwrap.dedent(GOOD.format(id="Curious-v0"))
    installed.add("curious", source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert installed.registry().env_ids() == ["Abel-v0", "Curious-v0"]


def test_a_plugin_without_its_simulator_is_incomplete_others_work(installed):
    installed.add("good", GOOD.format(id="Good-v0"), requires=["numpy>=2", 'no-such-thing; extra == "docs"'])
    installed.add(
        "bare", GOOD.format(id="Bare-v0"), requires=["no-such-simulator>=3", 'no-other; python_version < "3"']
    )
    # As es-racecar depends on es-envs[bullet], whose extra depends on pybullet.
    installed.add("nested", GOOD.format(id="Nested-v0"), requires=["es-kit[deep]"])
    installed.add("kit", GOOD.format(id="Kit-v0"), requires=["numpy", 'no-such-engine; extra == "deep"'])
    installed.add("odd", GOOD.format(id="Odd-v0"), requires=["no requirement at all !"])
    registry = installed.registry()

    assert len(registry.env_ids()) == 5
    found = {plugin.name: plugin for plugin in registry.plugins()}
    assert {name: plugin.status for name, plugin in found.items()} == {
        "good": "active", "bare": "incomplete", "nested": "incomplete", "kit": "active", "odd": "active",
    }  # fmt: skip
    assert found["bare"].error == (
        "its environments need no-such-simulator>=3, which is not installed: reinstall es-bare"
    )
    assert "no-such-engine" in found["nested"].error
    assert found["bare"].ids == ("Bare-v0",)


def test_output_of_a_plugin_is_not_a_result_of_the_command_line(installed, python):
    loud = """
        import ctypes, os
        print("importing")
        os.write(1, b"from-below\\n")
        ctypes.CDLL(None).printf(b"from-C\\n")
    """
    installed.add("loud", textwrap.dedent(loud) + textwrap.dedent(GOOD.format(id="Loud-v0")).replace(
        "    return [", "    print('registering')\n    return ["))  # fmt: skip
    for command in ("list", "plugins"):
        done = python(arguments=["-m", "es_core", command, "--json"], path=[installed.folder])
        assert "loud" in {row.get("name", row.get("plugin")) for row in json.loads(done.out)}
        assert sorted(done.err.split()) == ["from-C", "from-below", "importing", "registering"]


FORKS = """
    import os
    child = os.fork()
    if not child:
        os._exit(3)
    assert os.waitpid(child, 0)[1] >> 8 == 3
"""
ENDS = {
    "exits": ("import os; os._exit(7)", "SystemExit: os._exit(7)"),
    "leaves": ("from os import _exit; _exit(0)", "SystemExit: os._exit(0)"),
    "stops": ("class Stop(BaseException): pass\nraise Stop('here')", "Stop: here"),
    "mute": (
        "class Mute(Exception):\n    def __str__(self): return 1 / 0\nraise Mute",
        "Mute: (its text cannot be made: ZeroDivisionError)",
    ),
    "final": (
        "class Final(Exception):\n    def __str__(self): raise SystemExit\nraise Final",
        "Final: (its text cannot be made: SystemExit)",
    ),
}


def test_a_plugin_that_would_end_the_process_is_skipped_by_name(installed, python):
    for name, (source, _) in ENDS.items():
        installed.add(name, source)
    installed.add("zealous", textwrap.dedent(FORKS) + textwrap.dedent(GOOD.format(id="Good-v0")))
    done = python(
        "import es_envs, os; print(*es_envs.env_ids(), flush=True); os._exit(5)",
        path=[installed.folder],
    )
    assert "Good-v0" in done.out.split()  # a process that a plugin forks may exit as it likes
    for name, (_, cause) in ENDS.items():
        assert f"plugin '{name}' (distribution 'es-{name}') is skipped: {cause}\n" in done.err
    assert done.code == 5  # afterwards os._exit does what it says


def test_signals_and_recursion_are_as_before_a_plugin_was_loaded(installed, python):
    source = "import signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nsys.setrecursionlimit(150)\n"
    installed.add("deaf", source + textwrap.dedent(GOOD.format(id="Good-v0")))
    seen = "signal.getsignal(signal.SIGINT), sys.getrecursionlimit()"
    code = f"before = {seen}; ids = es_envs.env_ids(); print('Good-v0' in ids, before == ({seen}))"
    done = python(f"import es_envs, signal, sys; {code}", path=[installed.folder])
    assert done.out == "True True\n"


def test_a_plugin_at_which_loading_is_interrupted_or_crashes_is_named(installed, python):
    module = installed.add("bore", "raise KeyboardInterrupt")
    done = python(arguments=["-m", "es_core", "list"], path=[installed.folder])
    assert done.code == 130
    assert "while plugin 'bore' (distribution 'es-bore') was loading; ES_ENVS_DISABLE_PLUGINS=es-bore" in done.err
    (installed.folder / f"{module}.py").write_text("import os; os.abort()")
    done = python(arguments=["-m", "es_core", "list"], path=[installed.folder])
    assert done.code == -6
    assert f'{module}.py", line 1 in <module>' in done.err


@pytest.mark.parametrize("before", [False, True])
def test_loading_plugins_leaves_the_handler_of_crashes_as_it_was(before, installed, python):
    installed.add("calm", "")
    begin = "import faulthandler\n" + ("faulthandler.enable()\n" if before else "")
    done = python(
        f"{begin}import es_envs\nes_envs.env_ids()\nprint(faulthandler.is_enabled())", path=[installed.folder]
    )
    assert done.out.strip() == str(before)


def test_a_plugin_that_takes_long_to_load_is_named_meanwhile(installed, python):
    """It waits for the line that names it."""
    waits = "import os\nend, other = os.pipe()\nos.dup2(other, 2)\nraise OSError(os.read(end, 1000).decode())"
    installed.add("slow", waits)
    done = python(
        "from es_envs import loading; loading.PATIENCE = 0.1\n"
        "import es_envs\n{p.name: print(p.error) for p in es_envs.plugins()}",
        path=[installed.folder],
    )
    assert (
        "OSError: still loading plugin 'slow' (distribution 'es-slow'); ES_ENVS_DISABLE_PLUGINS=es-slow leaves it out"
    ) in done.out


def test_no_control_character_of_a_plugin_reaches_the_terminal(installed, python):
    escape = "\\x1b]0;owned\\x07\\x9b31m"
    installed.add("awry", f"raise OSError('{escape}')")
    installed.add("vain", GOOD.format(id="Vain-v0").replace("max_", f"summary='{escape}\\n', max_"))
    installed.add("abel", GOOD.format(id="Abel-v0").replace("max_", f"fitness='no{escape}', max_"))
    commands = (["list"], ["plugins"], ["show", "Vain-v0"], ["show", "Nope-v0"], ["train", "Abel-v0"])
    code = "import sys; from es_core.cli import main\n" + "\n".join(f"main({command})" for command in commands)
    done = python(code, path=[installed.folder])
    assert set(done.out + done.err).isdisjoint("\x1b\x07\x9b")
    assert min(text.count(r"\x1b]0;owned\x07\x9b31m") for text in (done.out, done.err)) >= 3
    assert r"\x1b]0;owned\x07\x9b31m\n" in done.out  # a row stays a row


def test_characters_that_move_the_cursor_or_cannot_be_written_are_escaped():
    for character in map(chr, range(0x10000)):
        hidden = unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} and character not in "\n\t"
        reordering = unicodedata.bidirectional(character) in {
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
            "PDI",
        }
        if hidden or reordering:
            assert printable(character).isascii()
        if character.isprintable() or character in "\n\t":
            assert printable(character) == character


def test_a_line_with_a_progress_bar_is_shown_without_markup():
    console = Console(file=(file := io.StringIO()), force_terminal=True)
    print_line(console, "[red]\x1b[2Jcleared")
    assert file.getvalue() == "[red]\\x1b[2Jcleared\n"


def test_listing_runs_no_code_of_a_plugin_beyond_its_registration(installed, python, tmp_path):
    hooks = "\n".join(
        f"@hookimpl\ndef {name}({argument}): pathlib.Path({str(tmp_path / 'mark')!r}).touch()"
        for name, argument in {
            "register_strategies": "",
            "register_trainers": "",
            "run_started": "run",
            "run_finished": "run",
        }.items()
    )
    source = textwrap.dedent(GOOD.format(id="Quiet-v0")).replace("small_envs:Walk", "quiet_env:Env")
    installed.add(
        "quiet",
        f"import pathlib\n{source}\n{hooks}\n",
        quiet_env=f"import pathlib\npathlib.Path({str(tmp_path / 'mark')!r}).touch()",
    )
    for command in ("list", "plugins"):
        done = python(arguments=["-m", "es_core", command], path=[installed.folder])
        assert "Quiet-v0" in done.out
        assert done.code == 0
    assert not (tmp_path / "mark").exists()


def test_an_interrupted_discovery_begins_again(installed):
    installed.add("abel", GOOD.format(id="Abel-v0"))
    source = (
        "import sys\nif not hasattr(sys, 'interrupted'):\n    sys.interrupted = True\n    raise KeyboardInterrupt\n"
    )
    installed.add("bore", source + textwrap.dedent(GOOD.format(id="Bore-v0")))
    registry = installed.registry()
    with pytest.raises(KeyboardInterrupt):
        registry.env_ids()
    assert registry.env_ids() == ["Abel-v0", "Bore-v0"]


class Faulty:
    """Hooks, one of which raises what it was made with, and which note their calls."""

    def __init__(self, error, where="generation_finished"):
        self.error, self.where, self.calls = error, where, []

    @hookimpl
    def run_started(self):
        self.note("run_started")

    @hookimpl
    def generation_finished(self):
        self.note("generation_finished")

    @hookimpl
    def run_finished(self):
        self.note("run_finished")

    def note(self, hook):
        self.calls.append(hook)
        if hook == self.where:
            raise self.error


@pytest.mark.parametrize(
    ("where", "error", "calls"),
    first_fast(
        [
            ("run_started", OSError("no network"), ["run_started"]),
            ("generation_finished", RuntimeError("the disk is full"), ["run_started", "generation_finished"]),
            ("generation_finished", SystemExit("enough"), ["run_started", "generation_finished"]),
            ("generation_finished", AssertionError("no"), ["run_started", "generation_finished"]),
            ("run_finished", KeyError("score"), ["run_started", *["generation_finished"] * 4, "run_finished"]),
        ],
        fast=2,
    ),
)
def test_a_hook_that_raises_is_reported_once_and_switched_off(where, error, calls, walk, tiny, tmp_path):
    faulty, other = Faulty(error, where), Faulty(ValueError("of another object"), where)
    with pytest.warns(RuntimeWarning) as caught:
        run = train(walk, run_dir=tmp_path / "run", loggers=[faulty, other], **{**tiny, "generations": 3})
    assert len(run.history) == 4
    sentence = f"Faulty (logger 1): {where} raised {type(error).__name__}: {error}; it is switched off"
    assert [str(warning.message).startswith(sentence) for warning in caught].count(True) == 1
    assert faulty.calls == other.calls == calls


class Stumbling(OpenAIES):
    """A plugin's strategy: it raises where ``stumbles`` says, in generation 1."""

    stumbles = None

    def draw(self):
        self.step("draw")
        return super().draw()

    def learn(self, *told):
        self.step("learn")
        return super().learn(*told)

    def step(self, where):
        if (where, self.generation) == (Stumbling.stumbles, 1):
            raise ArithmeticError("no way up from here")


def test_a_strategy_that_raises_ends_the_run_with_its_own_error(walk, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "stumbling", SimpleNamespace(Stumbling=Stumbling))
    monkeypatch.setattr(registry, "strategies", lambda: {"stumbling": "stumbling:Stumbling"})
    settings = {**tiny, "generations": 3, "strategy": "stumbling", "run_dir": tmp_path / "run"}
    for where, resume in (("draw", False), ("learn", True)):
        monkeypatch.setattr(Stumbling, "stumbles", where)
        with pytest.raises(ArithmeticError, match="no way up from here") as caught:
            train(walk, resume=resume, **settings)
        assert caught.value.__notes__[0].startswith("Nothing is lost: ")
        assert left_behind() == []
    monkeypatch.setattr(Stumbling, "stumbles", None)
    assert len(train(walk, resume=True, **settings).history) == 4


def test_ctrl_c_in_a_hook_is_the_users_and_the_run_can_be_resumed(walk, tiny, tmp_path):
    settings = {**tiny, "generations": 3}
    with pytest.raises(KeyboardInterrupt):
        train(walk, run_dir=tmp_path / "run", loggers=[Faulty(KeyboardInterrupt())], **settings)
    assert len(train(walk, run_dir=tmp_path / "run", resume=True, **settings).history) == 4


@pytest.mark.parametrize("options", [[], ["-X", "faulthandler"]], ids=["off", "on"])
def test_loading_plugins_leaves_the_fault_handler_as_it_was(options):
    code = (
        "import faulthandler; before = faulthandler.is_enabled(); import es_envs; es_envs.env_ids(); "
        "assert faulthandler.is_enabled() is before"
    )
    subprocess.run([sys.executable, *options, "-c", code], check=True)
