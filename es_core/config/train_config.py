"""Every number that changes the result of a run: the ``TrainConfig``."""

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import es_envs
from es_core.config.checks import (
    Check,
    bins,
    converted,
    finite,
    flag,
    json_object,
    maybe,
    number,
    one_of,
    share,
    sizes,
    text,
    whole,
    wrappers,
)
from es_core.config.choices import SCHEDULES, SIGN_SHAPINGS
from es_core.files import CheckpointError, read_whole
from es_core.formatting import lists, shown
from es_envs import EnvDefinition
from es_envs.code_hash import keep
from es_envs.fitness import fitness_names, load_fitness, short_name


def _option(default: Any, check: Check, help_text: str, group: str | None = None) -> Any:
    """A field; ``group`` names the part of the settings that begins with it."""
    metadata = {"check": check, "help": help_text, "group": group}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


BITS = 1
"""Which bits results have: runs of equal config and equal ``bits`` are equal to the last bit, on any x86-64 processor.

0: everything up to commit 9c9a60a: noise from NumPy's SFC64, policies computed by NumPy. 1: noise and policies are
compiled. Whoever changes a bit of any run's result adds one, and names what wrote the last one in ``_WRITTEN_BY``.
"""
_WRITTEN_BY = ("es-envs 0.1.0 (commit 9c9a60a)",)

MOST = 1_000_000
"""Candidates of a generation and episodes of one of them, at most: a config must not ask for more than memory holds."""

# Fields that bound a run: the only ones that may change when it is resumed, and only grow (None: no bound).
BOUNDS = ("generations", "max_steps", "max_episodes")

# Fields that a run chooses when it begins, and what leaves the choice to it.
_LEFT_OPEN: Mapping[str, Any] = {
    "fitness": None,
    "schedule_generations": None,
    "engine": "auto",
    "device": "auto",
    "vector_envs": None,
    "vector_starts": None,
}

# Fields that may be given as objects; the config has their names.
OBJECTS = ("fitness", "policy")

# What a strategy's paper uses, where that differs from the fields' defaults; below what an environment recommends.
STRATEGY_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "ars": {
        "sigma": 0.03,
        "learning_rate": 0.02,
        "policy": "linear",
        "initialization": "zeros",
        "observation_normalization": True,
        "observation_clip": None,
        "observation_std_floor": 1e-6,
    },
    "pgpe": {"sigma": 0.1, "learning_rate": None, "optimizer": "clipup"},
    "snes": {"sigma": 0.1, "learning_rate": 1.0, "shaping": "nes"},
    "cma_es": {"sigma": 0.1},
    "sep_cma_es": {"sigma": 0.1},
    "random_search": {"sigma": 0.5},
}
# What suits one strategy says little about another.
_SEARCH_FIELDS = frozenset({
    "strategy_options", "sigma", "sigma_final", "learning_rate", "learning_rate_final", "optimizer",
    "optimizer_options", "weight_decay", "shaping", "top_directions",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """What changes the numbers of a run; how a run is carried out (workers, folder, ...) is not in here.

    ``TrainConfig.for_env(id, **overrides)`` fills in what the environment's definition recommends.
    Each field carries its own sentence in its metadata; ``es-envs train --help`` prints them. Numbers take the type of
    their field, and what is within a dict becomes what JSON makes of it.

    Raises:
        ValueError: a field has a value it cannot have; the message says what it can.
    """

    env_id: str = field(metadata={"check": text, "help": "id of the environment", "group": "task"})
    env_kwargs: Mapping[str, Any] = _option({}, json_object, "keyword arguments of the environment, as JSON")
    preprocessing: Mapping[str, Any] = _option(
        {},
        wrappers,
        "Gymnasium's wrappers for images, as JSON: skip (frames), grey (true), resize (pixels), stack (frames)",
    )
    fitness: str | None = _option(None, maybe(text), "what is maximised (default: the environment's own fitness)")
    fitness_aggregation: str = _option(
        "mean", one_of("mean", "median", "min"), "how a candidate's episodes make its fitness: mean, median or min"
    )
    seed: int = _option(0, whole(0), "root of all randomness")
    generations: int = _option(300, whole(1), "generations at most")
    max_steps: int | None = _option(
        None,
        maybe(whole(1)),
        "environment steps; the generation that reaches them is the last, and goes a little beyond",
    )
    max_episodes: int | None = _option(
        None, maybe(whole(1)), "episodes of candidates; the generation that reaches them is the last"
    )

    strategy: str = _option("openai_es", text, "search strategy", "search")
    strategy_options: Mapping[str, Any] = _option({}, json_object, "further arguments of the strategy, as JSON")
    population_size: int = _option(
        64, whole(2, MOST), "candidates in each generation; strategies with mirrored pairs need an even number"
    )
    steps_per_generation: int | None = _option(
        None,
        maybe(whole(1)),
        "environment steps for which the size of each population is chosen, by the lengths of the last one's episodes",
    )
    sigma: float = _option(0.05, number(0, above=True), "standard deviation of the parameter noise")
    sigma_final: float | None = _option(None, maybe(number(0, above=True)), "sigma at the end of its schedule")
    learning_rate: float | None = _option(
        0.03, maybe(number(0, above=True)), "step size of the optimiser (none: by the rule of its own that pgpe has)"
    )
    learning_rate_final: float | None = _option(
        None, maybe(number(0, above=True)), "learning rate at the end of its schedule"
    )
    schedule: str = _option(
        "linear",
        one_of(*SCHEDULES),
        "how sigma and learning rate come to their final values: linear, cosine, exponential",
    )
    schedule_generations: int | None = _option(
        None, maybe(whole(1)), "generations until the final values are reached (default: all)"
    )
    optimizer: str = _option("adam", text, "optimiser of the mean: adam, adamw, sgd or clipup")
    optimizer_options: Mapping[str, Any] = _option({}, json_object, "further arguments of the optimiser, as JSON")
    weight_decay: float = _option(
        0.0,
        number(0),
        "pull of the parameters towards zero: l2 (openai_es: on the scale of the paper's 0.005), with adamw decoupled",
    )
    shaping: str = _option("centered_ranks", text, "how fitness becomes the weights of the gradient")
    top_directions: int | None = _option(
        None, maybe(whole(1)), "pairs that make the gradient, those with the best better half (default: all)"
    )

    policy: str = _option(
        "mlp",
        text,
        "linear (without bias); mlp; rnn, lstm or gru, which remember their episode; cnn_small or cnn_nature, for "
        "images; or a torch module of your own, as module:Class",
        "policy",
    )
    policy_options: Mapping[str, Any] = _option({}, json_object, "keyword arguments of a policy module:Class, as JSON")
    hidden_sizes: tuple[int, ...] = _option(
        (32, 32), sizes, "hidden layers of an mlp, or of an rnn, lstm or gru (the last remembers)"
    )
    activation: str = _option("tanh", text, "activation of the hidden layers: tanh or relu")
    initialization: str = _option(
        "fan_in",
        one_of("fan_in", "normc", "orthogonal", "torch", "zeros"),
        "initial weights: fan_in (variance 1/inputs), normc (the weights of each unit have length 1), orthogonal, "
        "torch (its default), zeros",
    )
    output_scale: float = _option(0.01, number(0, above=True), "factor of the output layer's initial weights")
    virtual_batch_normalization: bool = _option(
        False, flag, "normalise hidden layers by a reference batch of 128 observations"
    )
    observation_normalization: bool = _option(False, flag, "normalise observations by statistics of the run so far")
    statistics_fraction: float = _option(1.0, share, "share of the episodes whose observations enter the statistics")
    observation_clip: float | None = _option(
        5.0, maybe(number(0, above=True)), "bound of normalised observations (none: no bound)"
    )
    observation_std_floor: float = _option(
        0.1, number(0, above=True), "least standard deviation by which an observation is divided"
    )
    action_squash: str = _option(
        "clip", one_of("clip", "tanh"), "how a raw output comes between the bounds of a Box action: clip or tanh"
    )
    action_bins: int | tuple[float | tuple[float, ...], ...] | None = _option(
        None, maybe(bins), "a Box action as a choice among so many values from bound to bound, or among these, as JSON"
    )
    action_noise: float = _option(0.0, number(0), "standard deviation of noise on Box actions while training")
    sample_actions: bool = _option(
        False,
        flag,
        "while training, draw actions from a distribution: Box by a log-std that the policy puts out besides, "
        "others by their outputs as logits",
    )

    episodes_per_candidate: int = _option(1, whole(1, MOST), "episodes in each candidate's fitness", "episodes")
    on_candidate_error: str = _option(
        "raise",
        one_of("raise", "drop", "worst"),
        "when an episode fails, and fails again: raise (the run ends with the error), drop (nothing is learnt from "
        "that candidate) or worst (it gets the worst fitness of the others)",
    )
    episode_seeds: str = _option(
        "common", one_of("common", "independent"), "whether all candidates of a generation start alike"
    )
    survival_bonus: float = _option(
        0.0,
        number(0),
        "reward of each step that training leaves out, so that to stand still does not pay (ARS: 1 or 5)",
    )
    max_episode_steps: int | None = _option(None, maybe(whole(1)), "step limit below the environment's own")
    episode_cap: str | None = _option(
        None,
        maybe(one_of("twice_mean", "growing")),
        "step limit while training: twice_mean (of the last generation's lengths) or growing (doubled when half of the "
        "episodes reach it)",
    )
    episode_cap_start: int = _option(100, whole(1), "the first episode cap")

    eval_every: int = _option(1, whole(0), "generations between evaluations of the centre (0: never)", "evaluation")
    eval_episodes: int = _option(20, whole(1, MOST), "episodes in each evaluation of the centre")
    eval_share: float | None = _option(
        None, maybe(share), "episodes in each evaluation as a share of the population's, instead of eval_episodes"
    )
    confirm_episodes: int = _option(
        100, whole(1, MOST), "episodes that confirm a centre that looks best or solved, and those of the final score"
    )
    solved_at: float | None = _option(
        None,
        maybe(finite),
        "fitness at which the run stops: of the centre, confirmed beyond chance, all its episodes successful",
    )

    checkpoint_every: int = _option(10, whole(1), "generations between checkpoints", "computing")
    engine: str = _option(
        "auto",
        one_of("auto", "compiled", "torch"),
        "what computes the policy: compiled, torch, or auto, settled at the start",
    )
    device: str = _option(
        "cpu", one_of("auto", "cpu", "cuda"), "where the policy is computed: cpu, cuda, or auto (settled at once)"
    )
    vector_envs: int | None = _option(
        None,
        maybe(whole(1, MOST)),
        "copies of the environment that the vector pool steps (default, settled at the start: one for each candidate, "
        "or the usable cores where each copy is a process)",
    )
    vector_starts: str | None = _option(
        None, maybe(text), "how starts follow from seeds in the vector pool, which finds it out"
    )

    bits: int = field(default=BITS, metadata={"check": whole(0)})
    """Of the version that made it: see ``BITS``. No setting."""

    def __post_init__(self) -> None:
        if self.engine == "numpy":  # its name up to version 0.1
            object.__setattr__(self, "engine", "compiled")
        for option in fields(self):
            value = converted(getattr(self, option.name), option.type)
            expected = option.metadata["check"](value)
            if expected:
                raise ValueError(f"{option.name} must be {expected}, got {shown(value)}")
            object.__setattr__(self, option.name, value)

    def __repr__(self) -> str:
        """The environment, and what is not the default."""
        defaults = type(self)(env_id=self.env_id)
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        told = [f"{name}={value!r}" for name, value in values.items() if value != getattr(defaults, name)]
        return f"TrainConfig({', '.join([f'env_id={self.env_id!r}', *told])})"

    @classmethod
    def for_env(cls, env_id: str, **overrides: Any) -> Self:
        """Defaults, then the strategy's own, then what the definition recommends, then ``overrides``.

        What the definition recommends for another strategy than the chosen one is left out, as are sigma, optimiser and
        shaping if the chosen one is not the definition's usual; population and policy hold for all.

        Raises:
            UnknownEnvError: nobody knows the id.
            TypeError: there is no such field.
            ValueError: a field has a value it cannot have (if a plugin recommends it, the plugin is named), hidden
                layers are asked for of a linear policy, or an object cannot be copied to another process.
        """
        config = cls.unresolved(env_id, **overrides).resolved()
        if config.policy == "linear" and overrides.get("hidden_sizes"):
            raise ValueError(
                f"hidden_sizes={shown(config.hidden_sizes)}: policy='linear' has no hidden layers. Choose another, "
                "such as policy='mlp' (on the command line: --policy mlp), or leave hidden_sizes out"
            )
        return config

    @classmethod
    def unresolved(cls, env_id: str, **overrides: Any) -> Self:
        """The config of ``for_env`` before it is ``resolved``: nothing that it names has been imported."""
        definition = es_envs.definition(env_id)
        known = _settings(cls)
        for name in overrides:
            if name not in known:
                raise TypeError(unknown_field(name, known))
        cls(env_id=env_id, **{name: value for name, value in overrides.items() if not callable(value)})
        values: dict[str, Any] = {"env_id": env_id, "solved_at": definition.solved_at}
        usual = definition.recommended.get("strategy", cls.strategy)
        for strategy, recommended in {usual: {}, **definition.recommended_for}.items():
            cls._require_valid(definition, {**values, **definition.recommended, **recommended}, strategy)
        strategy = overrides.get("strategy", usual)
        of_strategy = STRATEGY_DEFAULTS.get(strategy, {})
        others = set() if strategy == usual else {"strategy", *_SEARCH_FIELDS, *of_strategy}
        values |= of_strategy
        values |= {name: value for name, value in definition.recommended.items() if name not in others}
        values |= definition.recommended_for.get(strategy, {})
        overrides |= {name: keep(overrides[name]) for name in OBJECTS if callable(overrides.get(name))}
        if overrides.get("fitness") is not None and "solved_at" not in overrides:
            values["solved_at"] = None  # the definition's threshold speaks of its own fitness
        return cls(**{**values, **overrides})

    @classmethod
    def _require_valid(cls, definition: EnvDefinition, values: Mapping[str, Any], strategy: str) -> None:
        known = _settings(cls)
        try:
            for name in {**definition.recommended, **definition.recommended_for.get(strategy, {})}:
                if name not in known:
                    raise TypeError(unknown_field(name, known))
            cls(**values)
        except (TypeError, ValueError) as error:
            raise es_envs.PluginError(f"{definition.label} recommends an invalid setting: {error}") from error

    def resolved(self) -> Self:
        """This config with the fitness named.

        Raises:
            ValueError: the fitness cannot be imported, no step limit is known, or a survival bonus does not fit.
        """
        definition = es_envs.definition(self.env_id)
        if self.fitness is None:
            fitness = short_name(str(definition.fitness))
        else:
            known = fitness_names(definition)
            fitness = next((name for name, target in known.items() if target == self.fitness), self.fitness)
        for name, target in fitness_names(definition, fitness).items():
            try:
                load_fitness(target, known=fitness_names(definition))
            except Exception as error:
                cause = str(error) if isinstance(error, ImportError | ValueError) else repr(error)
                raise ValueError(f"{definition.label}: fitness {name!r} cannot be used: {cause}") from error
        if self.max_episode_steps is None and definition.max_episode_steps is None:
            raise ValueError(
                f"{definition.label} has no step limit, and an episode might never end: pass max_episode_steps=1000 "
                "(on the command line: --max-episode-steps 1000), or set it in the definition"
            )
        if self.survival_bonus > 0 and (fitness != "episode_return" or self.shaping in SIGN_SHAPINGS):
            raise ValueError(
                "survival_bonus is left out of the sum of the rewards, and so needs fitness='episode_return' and a "
                f"shaping that looks at that sum; got fitness={fitness!r}, shaping={self.shaping!r}"
            )
        generations = self.schedule_generations
        if generations is None and not (self.sigma_final is None and self.learning_rate_final is None):
            generations = self.generations  # settled now: a resumed run may have more
        return replace(self, fitness=fitness, schedule_generations=generations)

    def continued(self, given: Mapping[str, Any]) -> Self:
        """This config of a run that has begun, with the bounds among ``given`` settings, which may have grown.

        Args:
            given: settings, as JSON holds them or as the fields are; what the run chose when it began may be left open.

        Raises:
            TypeError: there is no such setting.
            ValueError: a setting differs, or a bound is smaller.
        """
        stored, bounds = self.to_json(), {name: given.get(name, getattr(self, name)) for name in BOUNDS}
        for name, value in given.items():
            if name not in stored:
                raise TypeError(unknown_field(name, set(stored)))
            if name in {"bits", *BOUNDS} or (name in _LEFT_OPEN and value == _LEFT_OPEN[name]):
                continue
            wanted = replace(self, **{name: value}).to_json()[name]
            if wanted != stored[name]:
                raise ValueError(
                    f"{name} cannot change in a resumed run: it was {stored[name]!r}, now {wanted!r}. Only "
                    f"{', '.join(BOUNDS)} can, and only grow; a new run may begin with this one's policy (initial=... "
                    "or, on the command line, --initial RUN/best.safetensors)"
                )
        grown = replace(self, **bounds)
        for name, now in bounds.items():
            then = getattr(self, name)
            if now is not None and (then is None or now < then):
                raise ValueError(f"{name} can only grow in a resumed run: it was {then}, now {now}")
        return grown

    def to_json(self) -> dict[str, Any]:
        """The fields, as JSON holds them."""
        return {option.name: lists(getattr(self, option.name)) for option in fields(self)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a config.json, of this version or an earlier one.

        Raises:
            FileNotFoundError: there is no such file.
            CheckpointError: the file is damaged.
        """
        try:
            return cls.from_json(json.loads(read_whole(Path(path))))
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {path}: expected the config.json of a run") from None
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """The config that ``to_json`` described, in this version or an earlier one.

        A field that is not there is younger than the config. It has its default, which must therefore mean what was
        done before there was such a field; but for ``bits``, which is 0 then.

        Raises:
            ValueError: a field is unknown, or has a value it cannot have.
        """
        if not isinstance(values, dict):
            raise ValueError(f"a config must be a JSON object, got {type(values).__name__}")
        unknown = set(values) - {option.name for option in fields(cls)}
        if unknown:
            raise ValueError(f"this version has no such settings (a newer one may have): {shown(sorted(unknown))}")
        if "env_id" not in values:
            raise ValueError("a config must have an env_id")
        return cls(**{"bits": 0, **values})


def require_bits(config: TrainConfig, where: object) -> None:
    """Refuse to compute again what another version has computed: it would have other bits.

    Args:
        config: from a file.
        where: that file, or its run.

    Raises:
        CheckpointError: it says which version has those bits.
    """
    if config.bits > BITS:
        raise CheckpointError(
            f"{where}: a newer version of es-envs wrote it, whose noise and policies have other bits: upgrade with "
            "`pip install --upgrade es-envs` to go on with it, rebuild or replay it"
        )
    if config.bits < BITS:
        raise CheckpointError(
            f"{where}: {_WRITTEN_BY[config.bits]} wrote it, whose noise and policies have other bits: install that "
            "version to go on with it, rebuild or replay it; here its policies can be evaluated, recorded, exported "
            "and compared, and a new run can begin with one (initial=..., on the command line --initial)"
        )


def option_fields() -> list[Field[Any]]:
    """The fields of TrainConfig that a user sets, for the command line."""
    return [option for option in fields(TrainConfig) if option.name in _settings(TrainConfig)]


def _settings(config: type[TrainConfig]) -> set[str]:
    return {option.name for option in fields(config)} - {"env_id", "bits", "vector_starts"}


def unknown_field(name: str, known: set[str]) -> str:
    """What to say about a setting that TrainConfig does not have."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"no setting is called {name!r}: " + (
        f"did you mean {close[0]!r}?" if close else "`es-envs train --help` lists them"
    )
