"""The ``EnvDefinition``: a plugin's description of an environment."""

import math
import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass, field
from inspect import Parameter, signature
from typing import Any

import gymnasium
import gymnasium.vector

from es_envs import import_path
from es_envs.arguments import as_float
from es_envs.display import draw_unseen
from es_envs.fitness import is_same_fitness, short_name
from es_envs.old_gym import describe_way_out, is_old_gym
from es_envs.scripts import SCRIPTS
from es_envs.worker_number import worker_number

# Gymnasium's grammar without the colon, which here separates a module from an id; and no name such as "..", since runs
# have folders of these names.
ID_PATTERN = re.compile(r"(?:[\w-]+/)?\w(?:[\w.-]*\w)?", re.ASCII)
# A file in a package: not a path, which could lead out of it.
_CHECKPOINT_PATTERN = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[\w.-]+\.safetensors", re.ASCII)

_MAPPINGS = "kwargs", "randomize", "fitnesses", "behaviours", "scripts", "recommended", "recommended_for"

_initialized: set[tuple[int, str]] = set()  # with the process, since a fork has not called them
_NAMES = r"'\w+'(?:(?:, and |, | and )'\w+')*"  # as Python lists missing arguments


class PluginError(Exception):
    """A plugin is at fault; the message names it."""


class KeywordError(ValueError):
    """An environment's constructor does not take a keyword argument, or needs others; the message names them."""


class RenderError(ValueError):
    """An environment cannot draw."""


@dataclass(frozen=True, kw_only=True)
class EnvDefinition:
    """A registered environment.

    Attributes:
        id: Gymnasium's form, ``Name-v0`` or ``namespace/Name-v0``.
        entry_point: the environment's class or factory, as ``module:name`` (an importable callable is turned into it;
            one that is defined in a script or notebook goes to ``train`` itself). If it names an argument ``worker``,
            that is the process's ``worker_number``.
        fitness: the fitness to maximise: ``module:name`` of a function ``(Episode) -> float`` or of a per-step
            fitness class (``es_envs.fitness``), or a name from ``es_envs.fitness``.
        kwargs: keyword arguments of the entry point.
        randomize: ranges, by name, of what differs from episode to episode (see ``es_envs.bullet.BulletEnv``), for
            training and evaluation; given to the entry point as the keyword argument ``randomize``.
        fitnesses: more fitness functions by name; all are logged, and you can choose any with ``train(fitness=name)``.
        behaviour: ``module:name`` of a function ``(Episode) -> sequence of floats``, always as many, which says what
            an episode came to, for strategies that seek what is new (see ``es_envs.behaviour``).
        behaviours: name and range, lowest and highest value, of each of its numbers in their order, such as
            ``{"left foot": (0, 1), "right foot": (0, 1)}``, for strategies that fill a repertoire; empty: they cannot.
        max_episode_steps: steps after which an episode is truncated, or None if the environment ends by itself. A run
            then truncates episodes after 1000 steps, or after its own ``max_episode_steps``.
        initializer: ``module:name`` of a function that each process calls once before it makes the environment, also
            with ``worker`` if it names that.
        vector_entry_point: ``module:name`` of a factory of this environment's ``gymnasium.vector.VectorEnv``, called
            with ``num_envs`` and the keyword arguments of ``entry_point``, and with ``seed`` (a list, one per copy)
            and ``max_episode_steps`` if it names them. None: the vector pool gives each copy a process.
        solved_at: fitness at which the task counts as solved, or None.
        recommended: TrainConfig fields that suit this environment.
        recommended_for: more of them for a strategy, by its name.
        pretrained: a checkpoint that comes with the plugin, as ``package:file.safetensors``, or None.
        scripts: scripted policies by name, to score and film like evolved ones: ``module:name`` of a class or
            function that is called with the bare environment and a seed for each episode, before its reset, and
            returns what chooses its actions, ``act(observation)``. Every environment also has "random".
        summary: one line for lists.
        override: True to take the id from the plugin that has it; `es-envs plugins` shows it.
        plugin: name of the plugin that registered it; the registry fills it in.
    """

    id: str
    entry_point: str | Callable[..., Any]
    fitness: str | Callable[..., Any] = "episode_return"
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    randomize: Mapping[str, Any] = field(default_factory=dict)
    fitnesses: Mapping[str, str | Callable[..., Any]] = field(default_factory=dict)
    behaviour: str | Callable[..., Any] = "es_envs.behaviour:last_observation"
    behaviours: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    max_episode_steps: int | None = None
    initializer: str | Callable[[], None] | None = None
    vector_entry_point: str | Callable[..., Any] | None = None
    solved_at: float | None = None
    recommended: Mapping[str, Any] = field(default_factory=dict)
    recommended_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pretrained: str | None = None
    scripts: Mapping[str, str | Callable[..., Any]] = field(default_factory=dict)
    summary: str = ""
    override: bool = False
    plugin: str | None = None
    lanes: InitVar[int | None] = None  # for older plugins; it has no effect

    def __post_init__(self, lanes: int | None) -> None:
        if lanes is not None:
            warnings.warn(
                f"{self.id}: lanes has no effect any more, since a worker plays one episode at a time; leave it out",
                DeprecationWarning,
                stacklevel=3,
            )
        if not isinstance(self.id, str) or not ID_PATTERN.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is not an environment id: expected 'Name-v0' or 'namespace/Name-v0'")
        self._set("entry_point", self._named("entry_point", self.entry_point))
        self._set("fitness", self._named("fitness", self.fitness, colon=False))
        self._set("behaviour", self._named("behaviour", self.behaviour))
        self._require_mappings()
        if not isinstance(self.summary, str):
            raise TypeError(f"{self.id}: summary must be a string, got {self.summary!r}")
        if not isinstance(self.override, bool):
            raise TypeError(f"{self.id}: override must be True or False, got {self.override!r}")
        self._set("fitnesses", {name: self._named(f"fitnesses[{name!r}]", value, colon=False)
                                for name, value in self.fitnesses.items()})  # fmt: skip
        own = short_name(str(self.fitness))
        if not is_same_fitness(str(self.fitnesses.get(own, self.fitness)), str(self.fitness)):
            raise ValueError(f"{self.id}: fitnesses[{own!r}] has the name of its fitness {self.fitness!r}: rename one")
        self._set("scripts", {name: self._named(f"scripts[{name!r}]", value) for name, value in self.scripts.items()})
        for attribute in ("initializer", "vector_entry_point"):
            if getattr(self, attribute) is not None:
                self._set(attribute, self._named(attribute, getattr(self, attribute)))
        if self.max_episode_steps is not None and not _is_positive_integer(self.max_episode_steps):
            raise ValueError(
                f"{self.id}: max_episode_steps must be a positive integer or None, got {self.max_episode_steps!r}"
            )
        if self.pretrained is not None and not (
            isinstance(self.pretrained, str) and _CHECKPOINT_PATTERN.fullmatch(self.pretrained)
        ):
            raise ValueError(
                f"{self.id}: pretrained must name a file in a package, 'package:file.safetensors', or be None; "
                f"got {self.pretrained!r}"
            )
        threshold = self.solved_at
        if threshold is not None:
            if not math.isfinite(as_float(threshold)):
                raise ValueError(f"{self.id}: solved_at must be a finite number or None, got {threshold!r}")
            self._set("solved_at", float(threshold))

    def _require_mappings(self) -> None:
        for attribute in _MAPPINGS:
            value = getattr(self, attribute)
            if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
                raise TypeError(f"{self.id}: {attribute} must be a dict with strings as keys, got {value!r}")
            self._set(attribute, dict(value))
        self._set("behaviours", {name: self._range(name, value) for name, value in self.behaviours.items()})
        for strategy, recommended in self.recommended_for.items():
            if not isinstance(recommended, Mapping):
                raise TypeError(f"{self.id}: recommended_for[{strategy!r}] must be a dict, got {recommended!r}")

    def _range(self, name: str, value: Any) -> tuple[float, float]:
        try:
            low, high = map(as_float, value)
        except (TypeError, ValueError):
            low = high = math.nan
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ValueError(
                f"{self.id}: behaviours[{name!r}] must be its lowest and highest value, such as (0, 1); got {value!r}"
            )
        return low, high

    def _set(self, attribute: str, value: Any) -> None:
        object.__setattr__(self, attribute, value)  # the dataclass is frozen; this runs only while it is made

    def _named(self, attribute: str, value: Any, *, colon: bool = True) -> str:
        if callable(value):
            try:
                return import_path.name_of(value)
            except ValueError as error:
                raise ValueError(f"{self.id}: {attribute}: {error}") from None
        if not isinstance(value, str) or not value or (colon and ":" not in value):
            raise ValueError(f"{self.id}: {attribute} must be a string 'module:name', got {value!r}")
        if value.startswith("__main__:") and not import_path.is_local(value):
            raise ValueError(f"{self.id}: {attribute} {value!r}: workers do not import the running script; "
                             "put it into its own module")  # fmt: skip
        return value

    @property
    def label(self) -> str:
        """The id and the plugin it comes from, for messages."""
        return f"{self.id} (plugin {self.plugin!r})" if self.plugin else self.id

    def fitness_names(self, chosen: str | None = None) -> dict[str, str]:
        """Fitness functions that are computed for this environment: short name -> name to load.

        The first entry drives selection: ``chosen``, or the definition's own.
        """
        table = {short_name(str(self.fitness)): str(self.fitness)}
        table.update({name: str(value) for name, value in self.fitnesses.items()})
        if chosen is None:
            return table
        return {chosen: table.get(chosen, chosen), **{name: value for name, value in table.items() if name != chosen}}

    def build(self, render_mode: str | None = None, **kwargs: Any) -> gymnasium.Env[Any, Any]:
        """Make the bare environment: no TimeLimit, no checking wrappers.

        The ``initializer`` runs first, once in each process.

        Args:
            render_mode: passed on only if it is not None.
            **kwargs: keyword arguments that override the definition's.

        Raises:
            PluginError: the entry point or the initializer cannot be imported, or it does not make an environment.
            RenderError: the entry point takes no render_mode.
            ValueError: the environment does not have this render mode.
            KeywordError: the entry point does not take an argument.
        """
        arguments = {**self.kwargs, **kwargs}
        if "rgb_array" in (render_mode, arguments.get("render_mode")):
            draw_unseen()  # before a simulator is imported, which may ask then
        self._initialize()
        factory = self._load(str(self.entry_point), "entry_point")
        if render_mode is not None:
            arguments["render_mode"] = render_mode
        env = called(factory, arguments, self.label)
        if not isinstance(env, gymnasium.Env):
            _refuse_old_gym(getattr(env, "unwrapped", env), self.label)
            raise PluginError(f"{self.label}: {self.entry_point} made {type(env).__name__}, not a gymnasium.Env")
        return env

    def build_vector(
        self, num_envs: int, *, optional: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
        """Make the environment's own vectorised form, which it must have.

        Args:
            num_envs: number of copies.
            optional: keyword arguments for a ``vector_entry_point`` that names them.
            **kwargs: keyword arguments that override the definition's.

        Raises:
            PluginError: the entry point or the initializer cannot be imported, or it does not make a VectorEnv.
            KeywordError: the entry point does not take an argument.
        """
        self._initialize()
        factory = self._load(str(self.vector_entry_point), "vector_entry_point")
        taken = {name: value for name, value in (optional or {}).items() if self.vector_takes(name)}
        env = called(factory, {"num_envs": num_envs, **self.kwargs, **taken, **kwargs}, self.label)
        if not isinstance(env, gymnasium.vector.VectorEnv):
            made = f"{self.vector_entry_point} made {type(env).__name__}"
            raise PluginError(f"{self.label}: {made}, not a gymnasium.vector.VectorEnv")
        return env

    def vector_takes(self, argument: str) -> bool:
        """Return True if ``vector_entry_point`` names this keyword argument."""
        factory = self._load(str(self.vector_entry_point), "vector_entry_point")
        return argument in signature(factory).parameters

    def script(self, name: str) -> Callable[[gymnasium.Env[Any, Any], int], Callable[[Any], Any]]:
        """Import a scripted policy, to be called with an environment and a seed.

        Raises:
            ValueError: the environment has no script of that name.
            PluginError: the script cannot be imported.
        """
        known = {**SCRIPTS, **self.scripts}
        if name not in known:
            raise ValueError(f"{self.label} has no scripted policy {name!r}: it has {', '.join(known)}")
        return self._load(str(known[name]), f"scripts[{name!r}]")

    def load_behaviour(self) -> Callable[[Any], Any]:
        """Import the function that describes an episode.

        Raises:
            PluginError: it cannot be imported.
        """
        return self._load(str(self.behaviour), "behaviour")

    def _initialize(self) -> None:
        if isinstance(self.initializer, str) and (os.getpid(), self.initializer) not in _initialized:
            initialize = self._load(self.initializer, "initializer")
            initialize(**_with_worker(initialize, {}))
            _initialized.add((os.getpid(), self.initializer))

    def _load(self, name: str, attribute: str) -> Callable[..., Any]:
        try:
            target = import_path.load(name)
        except (ImportError, ValueError) as error:
            raise PluginError(f"{self.label}: {attribute} {name!r} cannot be imported: {error}") from error
        if not callable(target):
            raise PluginError(f"{self.label}: {attribute} {name!r} must be callable, got {target!r}")
        return target  # type: ignore[no-any-return]


def accepts(function: Callable[..., Any], argument: str) -> bool:
    """Return True if ``function`` can be called with the keyword ``argument``."""
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):  # some built-in callables have no signature: the call itself decides
        return True
    return argument in parameters or any(p.kind is Parameter.VAR_KEYWORD for p in parameters.values())


def called(
    make: Callable[..., Any], arguments: Mapping[str, Any], label: str, factory: Callable[..., Any] | None = None
) -> Any:
    """Return ``make(**arguments)``; ``factory`` is the callable that it calls in turn, if that is another one.

    A factory that names an argument ``worker`` gets this process's number, unless one is given.

    Raises:
        KeywordError: there is no argument of that name, or a required one is missing.
        RenderError: there is no argument render_mode.
        PluginError: it is a class of the old gym.
    """
    factory = factory or make
    _refuse_old_gym(factory, label)
    if arguments.get("render_mode") is not None and not accepts(factory, "render_mode"):
        name = f"{factory.__module__}:{factory.__qualname__}" if hasattr(factory, "__qualname__") else repr(factory)
        raise RenderError(f"{label} cannot render: {name} takes no render_mode argument; add it to its constructor, "
                         "and 'rgb_array' to metadata['render_modes']")  # fmt: skip
    arguments = _with_worker(factory, arguments)
    try:
        return make(**arguments)
    except TypeError as error:
        where, known = "(env_kwargs, on the command line: --env-kwargs)", _keywords(factory)
        unknown = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if unknown is not None and unknown[1] in arguments:
            taken = ", ".join(name for name in known if name != "render_mode") or "none"
            raise KeywordError(
                f"{label} takes no keyword argument {unknown[1]!r} {where}; it takes: {taken}"
            ) from error
        # Without what Gymnasium appends.
        missing = re.search(rf"missing \d+ required (?:keyword-only|positional) arguments?: ({_NAMES})", str(error))
        if missing is not None and set(re.findall(r"'(\w+)'", missing[1])) <= {*known} - {*arguments}:
            raise KeywordError(f"{label} needs the keyword arguments {missing[1]} {where}") from error
        raise


def _with_worker(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The arguments, with this process's number if the function names ``worker`` and none is given."""
    number = worker_number()  # which is in the environment variable from now on
    return {"worker": number, **arguments} if "worker" in _keywords(function) else arguments


def _refuse_old_gym(made: Any, label: str) -> None:
    if is_old_gym(made):
        kind = made if isinstance(made, type) else type(made)
        way_out = describe_way_out(kind.__module__)
        raise PluginError(f"{label}: {kind.__name__} is an environment of the old gym: {way_out}")


def _keywords(factory: Callable[..., Any]) -> list[str]:
    """Names of keyword arguments, including those of base classes to which ``**kwargs`` may be passed on."""
    found: dict[str, None] = {}
    for each in getattr(factory, "__mro__", (factory,)):
        if isinstance(each, type) and "__init__" not in vars(each):
            continue
        try:
            parameters = signature(each).parameters.values()
        except (TypeError, ValueError):  # some built-in callables have none
            break
        found |= {
            p.name: None for p in parameters if p.kind in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        }
        if not any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters):
            break
    return list(found)


def _is_positive_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
