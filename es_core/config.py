"""Every number that changes the result of a run: the ``TrainConfig``."""

import difflib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from importlib.metadata import packages_distributions
from typing import Any, Self

import es_envs
from es_envs import EnvDefinition, names
from es_envs.fitness import FITNESSES, fitness_names, load_fitness, short_name

Check = Callable[[Any], str | None]


def _whole(minimum: int) -> Check:
    def check(value: Any) -> str | None:
        ok = isinstance(value, int) and not isinstance(value, bool) and value >= minimum
        return None if ok else f"a whole number of at least {minimum}"

    return check


def _number(minimum: float, *, above: bool = False) -> Check:
    def check(value: Any) -> str | None:
        ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        ok = ok and (value > minimum if above else value >= minimum)
        return None if ok else f"a finite number {'above' if above else 'of at least'} {minimum:g}"

    return check


def _maybe(check: Check) -> Check:
    def relaxed(value: Any) -> str | None:
        expected = None if value is None else check(value)
        return f"{expected}, or None" if expected else None

    return relaxed


def _finite(value: Any) -> str | None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return None if ok else "a finite number"


def _text(value: Any) -> str | None:
    return None if isinstance(value, str) and value else "a non-empty string"


def _flag(value: Any) -> str | None:
    return None if isinstance(value, bool) else "True or False"


def _one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"one of {', '.join(map(repr, choices))}"


def _sizes(value: Any) -> str | None:
    expected = "layer sizes, positive whole numbers such as (32, 32)"
    ok = isinstance(value, tuple) and all(_whole(1)(size) is None for size in value)
    return None if ok else expected


def _json(value: Any) -> str | None:
    expected = "a dict that JSON can hold (text, finite numbers, booleans, lists, dicts with text keys)"
    if not isinstance(value, Mapping):
        return expected
    try:
        return None if json.loads(json.dumps(value, allow_nan=False)) == _lists(value) else expected
    except (TypeError, ValueError):
        return expected


def _lists(value: Any) -> Any:
    """``value`` with tuples as lists, as JSON returns them."""
    if isinstance(value, Mapping):
        return {key: _lists(item) for key, item in value.items()}
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


def _option(default: Any, check: Check, help_text: str) -> Any:
    metadata = {"check": check, "help": help_text}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What changes the numbers of a run; how a run is carried out (workers, folder, ...) is not in here.

    ``TrainConfig.for_env(id, **overrides)`` fills in what the environment's definition recommends.
    Each field carries its own sentence in its metadata; ``es-envs train --help`` prints them.

    Raises:
        ValueError: a field has a value it cannot have; the message says what it can.
    """

    env_id: str = field(metadata={"check": _text, "help": "id of the environment"})
    env_kwargs: Mapping[str, Any] = _option({}, _json, "keyword arguments of the environment, as JSON")
    fitness: str | None = _option(None, _maybe(_text), "what is maximised (default: the environment's own fitness)")
    fitness_aggregation: str = _option(
        "mean", _one_of("mean", "median", "min"), "how a candidate's episodes make its fitness: mean, median or min"
    )
    seed: int = _option(0, _whole(0), "root of all randomness")
    generations: int = _option(300, _whole(1), "generations at most")
    population_size: int = _option(64, _whole(2), "candidates in each generation, a multiple of two")
    episodes_per_candidate: int = _option(1, _whole(1), "episodes in each candidate's fitness")
    strategy: str = _option("openai_es", _text, "search strategy")
    strategy_options: Mapping[str, Any] = _option({}, _json, "further arguments of the strategy, as JSON")
    sigma: float = _option(0.05, _number(0, above=True), "standard deviation of the parameter noise")
    learning_rate: float = _option(0.03, _number(0, above=True), "step size of the optimiser")
    weight_decay: float = _option(0.0, _number(0), "l2 pull of the parameters towards zero (paper: 0.005)")
    optimizer: str = _option("adam", _text, "optimiser of the mean")
    shaping: str = _option("centered_ranks", _text, "how fitness becomes the weights of the gradient")
    policy: str = _option(
        "mlp",
        _text,
        "mlp; rnn, lstm or gru, which remember their episode; cnn_small or cnn_nature, for images; or a torch module "
        "of your own, as module:Class",
    )
    policy_options: Mapping[str, Any] = _option({}, _json, "keyword arguments of a policy module:Class, as JSON")
    hidden_sizes: tuple[int, ...] = _option(
        (32, 32),
        _sizes,
        "hidden layers of an mlp (none makes it linear), or of an rnn, lstm or gru (the last remembers)",
    )
    activation: str = _option("tanh", _text, "activation of the hidden layers: tanh or relu")
    observation_normalization: bool = _option(False, _flag, "normalise observations by statistics of the run so far")
    action_noise: float = _option(0.0, _number(0), "standard deviation of noise on Box actions while training")
    max_episode_steps: int | None = _option(None, _maybe(_whole(1)), "step limit below the environment's own")
    eval_every: int = _option(1, _whole(0), "generations between evaluations of the centre (0: never)")
    eval_episodes: int = _option(20, _whole(1), "episodes in each evaluation of the centre")
    confirm_episodes: int = _option(100, _whole(1), "episodes that confirm a centre that looks best or solved")
    solved_at: float | None = _option(
        None, _maybe(_finite), "fitness of the centre at which the run stops, if all its confirmed episodes succeed"
    )
    checkpoint_every: int = _option(10, _whole(1), "generations between checkpoints")
    engine: str = _option(
        "auto",
        _one_of("auto", "numpy", "torch"),
        "what computes the policy: numpy, torch, or auto, settled at the start",
    )
    device: str = _option(
        "cpu", _one_of("auto", "cpu", "cuda"), "where the policy is computed: cpu, cuda, or auto (settled at once)"
    )

    def __post_init__(self) -> None:
        if isinstance(self.hidden_sizes, list):
            object.__setattr__(self, "hidden_sizes", tuple(self.hidden_sizes))
        for option in fields(self):
            value = getattr(self, option.name)
            expected = option.metadata["check"](value)
            if expected:
                raise ValueError(f"{option.name} must be {expected}, got {value!r}")
            if isinstance(value, Mapping):
                object.__setattr__(self, option.name, dict(value))

    @classmethod
    def for_env(cls, env_id: str, **overrides: Any) -> Self:
        """Defaults, then what the definition recommends, then ``overrides``.

        Raises:
            UnknownEnvError: nobody knows the id.
            TypeError: there is no such field.
            ValueError: a field has a value it cannot have; if a plugin recommends it, the plugin is named.
        """
        definition = es_envs.definition(env_id)
        known = {option.name for option in fields(cls)}
        for name in overrides:
            if name not in known:
                raise TypeError(unknown_field(name, known))
        values: dict[str, Any] = {"env_id": env_id, "solved_at": definition.solved_at}
        try:
            for name in definition.recommended:
                if name not in known - {"env_id"}:
                    raise TypeError(unknown_field(name, known))
            cls(**{**values, **definition.recommended})
        except (TypeError, ValueError) as error:
            raise es_envs.PluginError(f"{definition.label} recommends an invalid setting: {error}") from error
        fitness = overrides.get("fitness")
        if callable(fitness):
            overrides["fitness"] = names.name_of(fitness)
        if fitness is not None and "solved_at" not in overrides:
            values["solved_at"] = None  # the definition's threshold speaks of its own fitness
        config = cls(**{**values, **definition.recommended, **overrides})
        return config.resolved()

    def resolved(self) -> Self:
        """This config with the fitness named.

        Raises:
            ValueError: the fitness cannot be imported, or no step limit is known.
        """
        definition = es_envs.definition(self.env_id)
        if self.fitness is None:
            fitness = short_name(str(definition.fitness))
        else:
            known = fitness_names(definition)
            fitness = next((name for name, target in known.items() if target == self.fitness), self.fitness)
        for name, target in fitness_names(definition, fitness).items():
            try:
                load_fitness(target)
            except Exception as error:
                cause = str(error) if isinstance(error, ImportError | ValueError) else repr(error)
                raise ValueError(f"{definition.label}: fitness {name!r} cannot be used: {cause}") from error
        if self.max_episode_steps is None and definition.max_episode_steps is None:
            raise ValueError(
                f"{definition.label} has no step limit, and an episode might never end: pass max_episode_steps=1000 "
                "(on the command line: --max-episode-steps 1000), or set it in the definition"
            )
        return replace(self, fitness=fitness)

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return {option.name: _lists(getattr(self, option.name)) for option in fields(self)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The config that ``to_json`` described.

        Raises:
            ValueError: a field is missing, unknown, or has a value it cannot have.
        """
        known = {option.name for option in fields(cls)}
        if not isinstance(values, dict):
            raise ValueError(f"a config must be a JSON object, got {type(values).__name__}")
        if set(values) != known:
            raise ValueError(f"a config's fields differ from this version's: {sorted(known ^ set(values))}")
        return cls(**values)


def require_positive(name: str, value: Any) -> None:
    """Refuse an argument that is no whole number of at least 1.

    Raises:
        ValueError: it names the argument.
    """
    expected = _whole(1)(value)
    if expected:
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def option_fields() -> list[Field[Any]]:
    """The fields of TrainConfig that a user sets, for the command line."""
    return [option for option in fields(TrainConfig) if option.name != "env_id"]


def require_trusted(config: TrainConfig, *, trust: bool, where: object, vouched: Collection[str] = ()) -> EnvDefinition:
    """Refuse names from a file that would import a module nobody installed as a plugin.

    A file must not choose what code runs: it may name registered environments, fitness functions of theirs or of
    ``es_envs.fitness``, and modules of distributions that register a plugin.

    Args:
        config: as read from the file.
        trust: the caller vouches for the file.
        where: the file, for the message.
        vouched: fields whose values the caller has named himself.

    Returns:
        The definition of the config's environment.

    Raises:
        ValueError: an untrusted name.
        UnknownEnvError: the environment is not installed.
    """
    if not trust and "env_id" not in vouched and ":" in config.env_id:  # before it is looked up, which imports it
        raise _untrusted("env_id", config.env_id, where)
    definition = es_envs.definition(config.env_id)
    fitness = config.fitness or ""
    known = {*fitness_names(definition), *fitness_names(definition).values(), *FITNESSES}
    # An environment may import what an argument names, as Gymnasium's make does.
    keys = ["policy", "policy_options", "strategy", "env_kwargs", "strategy_options"]
    if fitness not in known and not fitness.startswith("final_info:"):
        keys.insert(0, "fitness")
    if not trust:
        _require_of_plugins(config, [key for key in keys if key not in vouched], where)
    return definition


def require_trusted_policy(config: TrainConfig, *, where: object) -> None:
    """Refuse a policy from a file that is a module which nobody installed as a plugin.

    Raises:
        ValueError: it names the policy.
    """
    _require_of_plugins(config, ["policy", "policy_options"], where)


def _require_of_plugins(config: TrainConfig, keys: Collection[str], where: object) -> None:
    for key in keys:
        for name in _texts(getattr(config, key)):
            if ":" in name and not _of_a_plugin(name):
                raise _untrusted(key, name, where)


def _untrusted(key: str, name: str, where: object) -> ValueError:
    return ValueError(
        f"{where} names {key}={name!r}, a module outside the installed plugins; reading a file must not choose what "
        "code runs. If you trust the file, pass trust=True (on the command line: --trust-names)"
    )


def _texts(value: Any) -> Iterator[str]:
    """All text in a JSON value, keys of dicts excepted."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _of_a_plugin(name: str) -> bool:
    plugins = {plugin.distribution for plugin in es_envs.plugins()}
    return bool(plugins & set(packages_distributions().get(name.partition(".")[0].partition(":")[0], [])))


def unknown_field(name: str, known: set[str]) -> str:
    """What to say about a setting that TrainConfig does not have."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"no setting is called {name!r}" + (f": did you mean {close[0]!r}?" if close else "")
