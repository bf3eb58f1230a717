"""The registry of environments: those of plugins, found through entry points, of scripts, and Gymnasium's.

Discovery happens on the first look-up. Plugins load one by one; one that fails is skipped with a warning, and quoted
when somebody looks for what it should have registered. An id that two plugins register belongs to neither.
"""

import contextlib
import difflib
import importlib
import os
import re
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import EntryPoint, PackageNotFoundError
from importlib.metadata import distributions as installed_distributions
from inspect import getmembers, isroutine, signature
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pluggy
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.envs.registration import registry as gymnasium_registry
from gymnasium.wrappers import TimeLimit

from es_envs import distributions, hookspecs, loading, requirements, wheels
from es_envs.definition import EnvDefinition, PluginError, called
from es_envs.error_text import text_of
from es_envs.old_gym import describe_way_out, has_port
from es_envs.old_gym import registers as old_gym_registers
from es_envs.text import printable

GROUP = "es_envs"

# The ids of the plugins that ship with the project, and the distribution that owns each (pip installs only one of each
# name): another plugin gets one of these ids only with override=True.
SHIPPED = {
    "A1Bullet-v0": "es-locomotion",
    "AntBullet-v0": "es-locomotion",
    "BalancingPlate-v0": "es-balancing-plate",
    "BallMaze-v0": "es-balancing-plate",
    "CartPoleBullet-v0": "es-cartpole-bullet",
    "CartPoleSwingUp-v0": "es-cartpole-bullet",
    "DoublePole-v0": "es-cartpole-bullet",
    "HalfCheetahBullet-v0": "es-locomotion",
    "HopperBullet-v0": "es-locomotion",
    "HumanoidBullet-v0": "es-locomotion",
    "PlateFigureEight-v0": "es-balancing-plate",
    "RaceCar-v0": "es-racecar",
    "RaceTrack-v0": "es-racecar",
    "Walker2DBullet-v0": "es-locomotion",
}

LOCAL_ID = re.compile(r"local/([\w.]+)-s?[0-9a-f]{8}-v0", re.ASCII)
"""Pattern of ids of environments that were given to ``train`` as classes or functions."""

_DISABLED = "named in ES_ENVS_DISABLE_PLUGINS"
_BARE = "es_envs.registry:bare_gymnasium_env"
_ID = "registered_id"  # its argument: a name that no environment gives an argument of its own

# Packages that register a namespace with Gymnasium only when they are imported, and our extra that installs each.
_NAMESPACES = {"ALE": ("ale_py", "atari"), "envpool": ("es_envs.envpools", "envpool")}


# A module that registers environments with Gymnasium.
_REGISTERS = re.compile(r"\bfrom gymnasium[\w.]* import .*\bregister\b|\bgym(nasium)?\.([\w.]+\.)?register\(")


class UnknownEnvError(LookupError):
    """No environment has this id; the message suggests others and quotes plugins that failed to load."""


@dataclass(frozen=True)
class PluginInfo:
    """A plugin and the outcome of loading it.

    Attributes:
        name: the entry point's name.
        version: the distribution's version.
        distribution: the distribution that declares the entry point.
        status: "active"; "incomplete", if its definitions are loaded but a requirement is not installed, or nobody
            knows which there are; "clash", if
            another plugin registers one of its ids, too; "error"; or "disabled".
        error: reason why it is not active, else None.
        ids: ids of the environments that it registered.
        overrides: those ids that it takes from another plugin by ``override=True``.
    """

    name: str
    version: str
    distribution: str
    status: str
    error: str | None
    ids: tuple[str, ...]
    overrides: tuple[str, ...] = ()


class Registry:
    """Environments and plugins. The module's functions use a shared registry; tests make their own."""

    def __init__(self, found: Iterable[EntryPoint] | None = None) -> None:
        self._found = found
        self._manager: pluggy.PluginManager | None = None
        self._definitions: dict[str, EnvDefinition] = {}
        self._claims: dict[str, list[EnvDefinition]] = {}  # by plugins, in the order in which they load
        self._plugins: list[PluginInfo] = []

    def register(self, definition: EnvDefinition) -> None:
        """Add an environment from a script.

        Registering an equal definition again does nothing, so that a module may be imported twice.

        Raises:
            TypeError: ``definition`` is not an EnvDefinition.
            ValueError: another definition has this id, and this one does not override it.
        """
        if not isinstance(definition, EnvDefinition):
            raise TypeError(f"register expects an EnvDefinition, got {type(definition).__name__}")
        self._discover()
        present = self._definitions.get(definition.id)
        if present is not None and _is_equal(present, definition):
            return
        if present is not None and not definition.override:
            raise ValueError(
                f"{definition.id!r} ({definition.entry_point}) is already registered by {_origin(present)}: "
                "choose another id"
            )
        if not definition.override:
            if definition.id in SHIPPED:
                raise ValueError(_belongs(definition.id))
            if definition.id in self._claims:
                raise ValueError(self._clash(definition.id))
            if _is_gymnasiums(definition.id):
                raise ValueError(_belongs(definition.id))
        self._definitions[definition.id] = definition
        if "es_envs.gym" in sys.modules:
            gymnasium_registry[definition.id] = spec(definition, {})

    def definition(self, env_id: str) -> EnvDefinition:
        """Return the definition of an id: registered by a plugin or script, ``module:Name-v0``, or one of Gymnasium's.

        Gymnasium knows Atari games, ``ALE/Name-v5``, once ``ale_py`` is imported, which is done here.

        Raises:
            UnknownEnvError: no such environment is registered.
            PluginError: two plugins register it.
        """
        if not isinstance(env_id, str):
            raise TypeError(f"an environment id is a string, got {env_id!r}")
        self._discover()
        module, separator, bare_id = env_id.rpartition(":")
        extra = ""
        if not separator and bare_id not in self._definitions:
            module, extra = _NAMESPACES.get(bare_id.partition("/")[0], ("", ""))
        if separator or module:
            try:
                with loading.stdout_kept():
                    importlib.import_module(module)
            except (Exception, SystemExit) as error:
                package = module.partition(".")[0]
                hint = f": pip install 'es-envs[{extra}]'" if extra else ""
                if has_port(package) or (isinstance(error, ModuleNotFoundError) and error.name == "gym"):
                    hint = f"; it is made for the old gym: {describe_way_out(module)}"
                is_unseen = isinstance(error, ModuleNotFoundError) and error.name == package
                if is_unseen and Path(f"{module.replace('.', '/')}.py").is_file():
                    hint = "; for a module of the current folder, run `python -m es_core` in the place of `es-envs`"
                raise UnknownEnvError(
                    f"No environment {env_id!r}: module {module!r} cannot be imported: {_one_line(error)}{hint}"
                ) from error
        if bare_id in self._definitions:
            return self._definitions[bare_id]
        if bare_id in self._claims:
            raise PluginError(self._clash(bare_id))
        if bare_id in gymnasium_registry:
            # The module travels with the id: a worker must import what registers it, too.
            return _gymnasium_definition(f"{module}:{bare_id}" if module else bare_id, gymnasium_registry[bare_id])
        raise UnknownEnvError(self._unknown(env_id, bare_id))

    def env_ids(self) -> list[str]:
        """Sorted ids registered by plugins and scripts. Gymnasium's own ids work, too, but are not listed."""
        self._discover()
        return sorted(self._definitions)

    def clashes(self) -> dict[str, str]:
        """Messages, by id, about ids that belong to no plugin since several register them: names and advice."""
        self._discover()
        return {env_id: self._clash(env_id) for env_id in sorted({*self._claims} - {*self._definitions})}

    def plugins(self) -> list[PluginInfo]:
        """All plugins found, with the outcome of loading them and missing requirements; imports no environment."""
        clashes = self.clashes()
        found = [_complete(plugin) if plugin.status == "active" else plugin for plugin in self._plugins]
        for index, plugin in enumerate(found):
            messages = [clashes[env_id] for env_id in plugin.ids if env_id in clashes]
            if messages:
                found[index] = replace(plugin, status="clash", error="; ".join(messages))
        return found

    def distribution_of(self, plugin: str | None) -> str | None:
        """Name of the distribution of a plugin; None if there is no such plugin. Reads no requirements."""
        self._discover()
        return next((each.distribution for each in self._plugins if each.name == plugin), None)

    def active_plugins(self) -> dict[str, object]:
        """Loaded plugins by name, for calls of their other hooks."""
        return dict(self._discover().list_name_plugin())

    def strategies(self) -> dict[str, str]:
        """Strategies that plugins register, as ``module:Class`` by name.

        Raises:
            PluginError: a plugin's ``register_strategies`` raises, or does not return a mapping of strings.
        """
        return self._classes("register_strategies", "strategy")

    def trainers(self) -> dict[str, str]:
        """Trainers that plugins register, as ``module:Class`` by name.

        Raises:
            PluginError: a plugin's ``register_trainers`` raises, or does not return a mapping of strings.
        """
        return self._classes("register_trainers", "trainer")

    def _classes(self, hook: str, kind: str) -> dict[str, str]:
        found: dict[str, str] = {}
        origins: dict[str, str] = {}
        for implementation in getattr(self._discover().hook, hook).get_hookimpls():
            plugin = implementation.plugin_name
            try:
                table: Any = implementation.function()
                for name, target in table.items():
                    if not (isinstance(name, str) and isinstance(target, str) and ":" in target):
                        raise TypeError(f"expected strings name: 'module:Class', got {name!r}: {target!r}")
                    if name in found:
                        raise ValueError(f"{kind} {name!r} is already registered by plugin {origins[name]!r}")
                    found[name], origins[name] = target, plugin
            except Exception as error:
                raise PluginError(f"plugin {plugin!r}: {hook} failed: {_one_line(error)}") from error
        return found

    def _discover(self) -> pluggy.PluginManager:
        if self._manager is not None:
            return self._manager
        self._manager = pluggy.PluginManager("es_envs")
        self._manager.add_hookspecs(hookspecs)
        try:
            self._load_all(self._manager)
        except BaseException:  # strict, or Ctrl-C: the next look-up tries again
            self._manager, self._definitions, self._claims, self._plugins = None, {}, {}, []
            raise
        return self._manager

    def _load_all(self, manager: pluggy.PluginManager) -> None:
        disabled = {
            distributions.normalized(name.strip()) for name in os.environ.get("ES_ENVS_DISABLE_PLUGINS", "").split(",")
        }
        found, broken = distributions.entry_points(GROUP) if self._found is None else (self._found, {})
        for name, error in broken.items():
            info = PluginInfo(name, "", name, "error", error, ())
            if distributions.normalized(name) in disabled:
                info = replace(info, status="disabled", error=_DISABLED)
            else:
                self._report(f"distribution {name!r} is skipped: {error}; reinstall or remove it")
            self._plugins.append(info)
        # Ours first, so that no other plugin gets one of their names.
        for entry_point in sorted(set(found), key=lambda ep: (_owned(ep) is None, ep.name, ep.value)):
            name = _distribution(entry_point)
            version = distributions.version_of(entry_point.dist) if entry_point.dist else ""
            info = PluginInfo(entry_point.name, version, name, "active", None, ())
            label = f"plugin {entry_point.name!r} (distribution {name!r})"
            if disabled & {distributions.normalized(entry_point.name), distributions.normalized(name)}:
                info = replace(info, status="disabled", error=_DISABLED)
            else:
                try:
                    # A plugin's output must not mix with the results of a program that lists it.
                    with (
                        loading.stdout_kept(),
                        loading.named(label, f"ES_ENVS_DISABLE_PLUGINS={name} leaves it out"),
                    ):
                        definitions = self._load(entry_point, manager)
                except KeyboardInterrupt:
                    raise
                # Any exception: a module that calls sys.exit at import must not end the program that lists it.
                except BaseException as cause:  # noqa: BLE001
                    info = replace(info, status="error", error=_one_line(cause))
                    self._report(f"{label} is skipped: {info.error}", cause)
                else:
                    info = replace(info, ids=tuple(sorted(definitions)), overrides=self._claim(definitions))
            self._plugins.append(info)
        for clash in self.clashes().values():
            self._report(clash)

    def _report(self, message: str, cause: BaseException | None = None) -> None:
        if os.environ.get("ES_ENVS_STRICT", "") not in {"", "0"}:
            raise PluginError(printable(message)) from cause
        warnings.warn(printable(message), RuntimeWarning, stacklevel=6)

    def _load(self, entry_point: EntryPoint, manager: pluggy.PluginManager) -> dict[str, EnvDefinition]:
        if EntryPoint.pattern.match(entry_point.value) is None:
            raise PluginError(f"its entry point {entry_point.value!r} names no module: expected 'module'")
        plugin = entry_point.load()
        if manager.is_registered(plugin) or manager.has_plugin(entry_point.name):
            raise PluginError(f"another plugin has the name {entry_point.name!r}, or is the same object")
        manager.register(plugin, entry_point.name)  # raises, and registers nothing, if a hook has wrong arguments
        try:
            _refuse_misspelt_hooks(plugin, manager)
            return _definitions_of(plugin, entry_point)
        except BaseException:
            manager.unregister(plugin)
            raise

    def _claim(self, definitions: Mapping[str, EnvDefinition]) -> tuple[str, ...]:
        """Enter a plugin's definitions, and return the ids that it takes from another one."""
        for env_id, definition in definitions.items():
            claims = self._claims.setdefault(env_id, [])
            claims.append(definition)
            chosen = _overriding(claims)
            self._definitions.pop(env_id, None)
            if len(chosen) == 1:
                self._definitions[env_id] = chosen[0]
        return tuple(sorted(env_id for env_id, definition in definitions.items() if definition.override))

    def _clash(self, env_id: str) -> str:
        # A plugin that is refused may have the name of one that is not.
        origins = {plugin.name: plugin.distribution for plugin in self._plugins if env_id in plugin.ids}
        names = [str(definition.plugin) for definition in _overriding(self._claims[env_id])]
        rivals = " and ".join(f"plugin {name!r} (distribution {origins[name]!r})" for name in names)
        leave = " or ".join(f"ES_ENVS_DISABLE_PLUGINS={origins[name]}" for name in names)
        return f"{env_id!r} is registered by {rivals}, so neither gets it: disable one with {leave}"

    def _unknown(self, env_id: str, bare_id: str) -> str:
        if is_local(env_id):
            return (
                f"{env_id!r} was given to train() as a class or function, and is in no file: give the same one "
                "again, to Run.open(folder, env=...) or train(..., resume=True). For commands and other machines, "
                "register it from a plugin (`es-envs new`), and train again with its id"
            )
        message = f"No environment {env_id!r}."
        close = difflib.get_close_matches(bare_id, [*self._definitions, *gymnasium_registry], n=3)
        if close:
            message += f" Did you mean {' or '.join(repr(name) for name in close)}?"
        for plugin in self._plugins:
            if plugin.status != "active":
                message += f" Plugin {plugin.name!r} ({plugin.distribution}) is not active: {plugin.error}."
        if module := env_id.rpartition(":")[0]:
            message += f" Module {module!r} was imported, but registers no environment of this name."
            if old_gym_registers(bare_id):
                return f"{message} It registers one with the old gym: {describe_way_out(module)}"
            if isinstance(getattr(sys.modules[module], bare_id, None), type):
                message += (
                    f" {bare_id} is a class there: give it an id in that module, gymnasium.register('{bare_id}-v0', "
                    f"'{env_id}', max_episode_steps=...), and name that, {module}:{bare_id}-v0"
                )
            elif hasattr(sys.modules[module], "register_envs"):
                message += (
                    " Its register_envs is found through an entry point in pyproject.toml (`es-envs new` writes one); "
                    "without one, call es_envs.register(EnvDefinition(...)) in the module"
                )
            return message
        if (package := _package_with(bare_id)) is not None:
            return (
                f"{message} The package {package!r}, which is installed, registers environments when it is imported: "
                f"if this is one of them, name both, '{package}:{bare_id}'"
            )
        if bare_id.endswith(".py"):
            name = Path(bare_id).stem
            return (
                f"{message} An id is no file: in its folder run `python -m es_core ... {name}:Name-v0`, where the file "
                "calls gymnasium.register or es_envs.register with the id Name-v0"
            )
        return (
            f"{message} `es-envs list` shows what plugins registered; a plugin of your own needs its entry point in "
            "pyproject.toml, and `pip install -e .` again after each change of that file"
        )


def _package_with(env_id: str) -> str | None:
    """Return an installed package that registers environments with Gymnasium, and mentions names that begin alike.

    Names are often put together in the source, such as PandaReach-v3 of ``f"Panda{task}-v3"``.
    """
    first = re.match(r"[A-Z]+[a-z]+|\w+", env_id.rpartition("/")[2])
    for distribution in installed_distributions():
        with contextlib.suppress(Exception):  # whatever is wrong with one, it is not what was asked for
            if not any(re.match(r"gymnasium\b(?!.*extra ==)", each) for each in distribution.requires or ()):
                continue
            for file in distribution.files or ():
                text = file.read_text("utf-8") if file.suffix == ".py" else ""
                mentions = first is not None and re.search(rf"""["'/]{re.escape(first[0])}""", text)
                if mentions and _REGISTERS.search(text) and file.parts[0] not in {"es_envs", "es_core"}:
                    return file.parts[0].removesuffix(".py")
    return None


def plain_id(env_id: str) -> str:
    """The id as people read it: of an environment that a script has defined, the name it has there."""
    return LOCAL_ID.sub(r"\1", env_id)


def is_local(env_id: str) -> bool:
    """Return True if an id is that of an environment given to ``train`` as a class or function."""
    return LOCAL_ID.fullmatch(env_id) is not None


def _is_equal(one: EnvDefinition, other: EnvDefinition) -> bool:
    try:
        return one == other
    except ValueError:  # keyword arguments with arrays
        try:
            np.testing.assert_equal(vars(one), vars(other))
        except AssertionError:
            return False
        return True


def _definitions_of(plugin: object, entry_point: EntryPoint) -> dict[str, EnvDefinition]:
    implementation = getattr(plugin, "register_envs", None)
    if implementation is None:
        return {}
    returned = implementation()
    if not isinstance(returned, list | tuple) or not all(isinstance(item, EnvDefinition) for item in returned):
        raise PluginError(f"register_envs must return a list of EnvDefinition, got {returned!r}")
    definitions: dict[str, EnvDefinition] = {}
    for item in returned:
        if item.id in definitions:
            raise PluginError(f"{item.id!r} is already registered by {_origin(definitions[item.id])}")
        is_others = SHIPPED.get(item.id, _owned(entry_point)) != _owned(entry_point) or _is_gymnasiums(item.id)
        if is_others and not item.override:
            raise PluginError(_belongs(item.id))
        definitions[item.id] = replace(item, plugin=entry_point.name)
    return definitions


def _overriding(claims: Sequence[EnvDefinition]) -> Sequence[EnvDefinition]:
    """Candidate definitions of an id: those that override, if there are any, else all."""
    return [definition for definition in claims if definition.override] or claims


def _distribution(entry_point: EntryPoint) -> str:
    return distributions.name_of(entry_point.dist) if entry_point.dist else entry_point.name


def _owned(entry_point: EntryPoint) -> str | None:
    """The shipped distribution that declares this entry point, or None."""
    name = distributions.normalized(_distribution(entry_point)) if entry_point.dist else ""
    return name if name in SHIPPED.values() else None


def _is_gymnasiums(env_id: str) -> bool:
    spec = gymnasium_registry.get(env_id)
    return spec is not None and str(spec.entry_point).startswith("gymnasium.")


def _belongs(env_id: str) -> str:
    owner = f"{SHIPPED[env_id]}, which ships with es-envs" if env_id in SHIPPED else "Gymnasium"
    return f"{env_id!r} belongs to {owner}: choose another id, or set override=True in the EnvDefinition"


def _refuse_misspelt_hooks(plugin: object, manager: pluggy.PluginManager) -> None:
    """Refuse a plugin with an unknown hook, an unmarked one, or none: it would silently do nothing."""
    specified = [name for name, member in vars(hookspecs).items() if hasattr(member, f"{manager.project_name}_spec")]
    hooks = [*specified, *hookspecs.LIFECYCLE]
    for name, member in getmembers(plugin, isroutine):
        marked = hasattr(member, f"{manager.project_name}_impl")
        if marked and name not in hooks:
            close = difflib.get_close_matches(name, hooks, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"the hooks are {', '.join(hooks)}"
            raise PluginError(f"no hook is called {name!r}: {hint}")
        if name in hooks and not marked:
            raise PluginError(f"{name!r} is not marked: put @es_envs.hookimpl above it")
        known = hookspecs.LIFECYCLE.get(name, ())
        unknown = [] if not known else [argument for argument in signature(member).parameters if argument not in known]
        if unknown:
            raise PluginError(f"{name}({', '.join(unknown)}): the arguments of this hook are {', '.join(known)}")
    if not manager.get_hookcallers(plugin):
        where = f" ({plugin.__name__} is no module: its entry point names one alone)" if isroutine(plugin) else ""
        raise PluginError(
            f"it implements no hook{where}: the hooks are {', '.join(hooks)}, marked with @es_envs.hookimpl"
        )


def _complete(plugin: PluginInfo) -> PluginInfo:
    """``plugin``, marked incomplete if a requirement of its distribution is not installed."""
    from packaging.requirements import InvalidRequirement

    try:
        missing = list(requirements.missing(plugin.distribution))
        is_readable = bool(plugin.version)
    except (PackageNotFoundError, InvalidRequirement):  # its requirements are unknown
        return plugin
    except Exception:  # noqa: BLE001  (whatever parsing its metadata raises)
        is_readable = False
    if not is_readable:
        what = "its metadata is missing or cannot be read, so nobody knows what it needs"
        return replace(plugin, status="incomplete", error=f"{what}: reinstall {plugin.distribution}")
    if not missing:
        return plugin
    remedy = wheels.how_to_get_bullet() if wheels.BULLET[0] in missing else f"reinstall {plugin.distribution}"
    error = f"its environments need {', '.join(missing)}, which is not installed: {remedy}"
    return replace(plugin, status="incomplete", error=error)


def _origin(definition: EnvDefinition) -> str:
    return f"plugin {definition.plugin!r}" if definition.plugin else f"a script ({definition.entry_point})"


def _one_line(error: BaseException) -> str:
    text = text_of(error)
    if isinstance(error, PluginError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _gymnasium_definition(env_id: str, spec: EnvSpec) -> EnvDefinition:
    return EnvDefinition(
        id=spec.id,
        entry_point=_BARE,
        kwargs={_ID: env_id},
        vector_entry_point="es_envs.registry:gymnasium_vector_env" if spec.vector_entry_point else None,
        max_episode_steps=None if spec.max_episode_steps == -1 else spec.max_episode_steps,  # its word for none
        solved_at=None if spec.reward_threshold is None else float(spec.reward_threshold),
        summary="registered with Gymnasium",
    )


def modules(definition: EnvDefinition) -> list[str]:
    """Names of the modules that make an environment."""
    found = [str(definition.entry_point).partition(":")[0]]
    if definition.entry_point == _BARE:
        module, _, bare_id = str(definition.kwargs[_ID]).rpartition(":")
        found.append(module)
        spec = gymnasium_registry.get(bare_id)
        if spec is not None and isinstance(spec.entry_point, str):
            found.append(spec.entry_point.partition(":")[0])
    return [name for name in dict.fromkeys(found) if name]


def bare_gymnasium_env(registered_id: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment of Gymnasium without the wrappers that ``gymnasium.make`` adds."""
    module, separator, bare_id = registered_id.rpartition(":")
    if separator:
        importlib.import_module(module)
    # Wrappers that the registration itself names (frame skip, ...) are part of the environment and stay.
    spec = replace(gymnasium.spec(bare_id), order_enforce=False, disable_env_checker=True, max_episode_steps=None)
    factory = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
    env: gymnasium.Env[Any, Any] = called(partial(gymnasium.make, spec), kwargs, registered_id, factory)
    return env


def gymnasium_vector_env(
    num_envs: int,
    registered_id: str,
    *,
    seed: list[int] | None = None,
    max_episode_steps: int | None = None,
    **kwargs: Any,
) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make Gymnasium's vectorised form of an environment; it gets the arguments that it names."""
    module, separator, bare_id = registered_id.rpartition(":")
    if separator:
        importlib.import_module(module)
    spec = gymnasium.spec(bare_id)
    point = spec.vector_entry_point
    factory: Any = load_env_creator(point) if isinstance(point, str) else point
    optional = {"seed": seed, "max_episode_steps": max_episode_steps}
    named = signature(factory).parameters
    taken = {name: value for name, value in optional.items() if value is not None and name in named}
    arguments = {"num_envs": num_envs, **spec.kwargs, **taken, **kwargs}
    env: gymnasium.vector.VectorEnv[Any, Any, Any] = called(factory, arguments, registered_id)
    return env


def make(env_id: str, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Make an environment for use outside evolution: with Gymnasium's TimeLimit and a spec.

    Args:
        env_id: see ``definition``.
        render_mode: "rgb_array", "human" or None.
        **kwargs: keyword arguments of the environment's constructor that override the definition's.

    Raises:
        UnknownEnvError: no such environment is registered.
        PluginError: the environment cannot be imported.
    """
    found = definition(env_id)
    env = found.build(render_mode, **kwargs)
    if env.spec is None:
        env.unwrapped.spec = spec(found, kwargs)
    limit = found.max_episode_steps
    return env if limit is None else TimeLimit(env, limit)


def spec(definition: EnvDefinition, kwargs: Mapping[str, Any]) -> EnvSpec:
    """Describe the environment, with these keyword arguments, to ``gymnasium.make``."""
    return EnvSpec(
        id=definition.id,
        # By name where possible, since such a spec can be written to a file.
        entry_point=str(definition.entry_point) if definition.initializer is None else definition.build,
        reward_threshold=definition.solved_at,
        max_episode_steps=definition.max_episode_steps,
        kwargs={**definition.kwargs, **kwargs},
    )


def register_with_gymnasium() -> list[str]:
    """Make every registered environment known to ``gymnasium.make``, and return the ids. May be called again."""
    ids = env_ids()
    for env_id in ids:
        gymnasium_registry[env_id] = spec(definition(env_id), {})
    return ids


_registry = Registry()
register = _registry.register
definition = _registry.definition
env_ids = _registry.env_ids
plugins = _registry.plugins
distribution_of = _registry.distribution_of
active_plugins = _registry.active_plugins
strategies = _registry.strategies
trainers = _registry.trainers
clashes = _registry.clashes
