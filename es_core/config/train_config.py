"""Every number that changes the result of a run: the ``TrainConfig``."""

import difflib
import os
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

import es_envs
from es_core.config.checks import (
    AUTO,
    LARGEST_PARAMETER,
    Check,
    auto,
    bins,
    converted,
    finite,
    flag,
    json_object,
    json_objects,
    maybe,
    names,
    number,
    one_of,
    share,
    sizes,
    text,
    whole,
    wrappers,
)
from es_core.config.choices import SCHEDULES, SCRIPTED, SIGN_SHAPINGS
from es_core.config.given import (
    BEFORE,
    BOUNDS,
    IMPLIED,
    OBJECTS,
    OF_A_CONTENDER,
    OF_ONE_STRATEGY,
    ONLY_WITH,
    implied,
    is_left_open,
)
from es_core.config.keywords import field_name, keyword, to_fields
from es_core.config.strategy_defaults import defaults_of, is_trainer, keeps_repertoire, unused_by
from es_core.files import MOST_CONFIG, CheckpointError, parse_json, read_whole
from es_core.formatting import lists, shell_line, shown
from es_envs import EnvDefinition
from es_envs.code_hash import register_object
from es_envs.fitness import is_same_fitness, load_fitness, short_name


def _option(default: Any, check: Check, help_text: str, group: str | None = None) -> Any:
    """Make a field; ``group`` names the group of settings that begins with it."""
    metadata = {"check": check, "help": help_text, "group": group}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


BITS = 1
"""Version of the results' bits: runs with equal config and ``bits`` are equal to the last bit, on any x86-64 processor.

0: everything up to commit 9c9a60a: noise from NumPy's SFC64, policies computed by NumPy. 1: noise and policies are
compiled. A change of any bit of a run's result adds one, and names the version of the last one in ``_WRITTEN_BY``.
"""
_WRITTEN_BY = ("es-envs 0.1.0 (commit 9c9a60a)",)

MOST = 1_000_000
"""Maximum of candidates in a generation and of episodes of one: a config must not ask for more than memory holds."""
_DEFAULT_LIMIT = 1000  # steps of an episode, where neither the environment nor the user sets a limit


@dataclass(frozen=True, kw_only=True)
class TrainConfig:  # noqa: PLW1641  (dataclass makes its __hash__)
    """Settings that change the results of a run; settings of its execution (workers, folder, ...) are not part of it.

    ``TrainConfig.for_env(id, **overrides)`` fills in what the environment's definition recommends.
    A field that is "auto" is chosen when the run begins, and the config becomes a ``Plan``.
    Each field carries its own sentence in its metadata; ``es-envs train --help-all`` prints them. Numbers are converted
    to their field's type, and the contents of dicts to JSON's types.

    Raises:
        ValueError: a field has an invalid value; the message says which are valid.
    """

    env_id: str = field(metadata={"check": text, "help": "id of the environment", "group": "task"})
    env_kwargs: Mapping[str, Any] = _option(
        {}, json_object, "keyword arguments of the environment, such as track=mine.csv,mirror=false"
    )
    randomize: Mapping[str, Any] = _option(
        {},
        json_object,
        "ranges of what differs from episode to episode, such as friction=[0.6,1.4],latency=[0,3], "
        "for environments that take them",
    )
    curriculum: float | None = _option(
        None,
        maybe(finite),
        "begin without randomisation; each time that the population's mean fitness reaches this, widen the ranges by a "
        "tenth (default: full ranges)",
    )
    preprocessing: Mapping[str, Any] = _option(
        {},
        wrappers,
        "Gymnasium's wrappers for images, such as skip=4,grey=true: skip (frames), pixels (so many of a picture, "
        "instead of the observation), grey (true), resize (pixels), stack (frames), flatten (true: a row of numbers); "
        "with policy auto and nothing given, pictures become grey and at most 48 by 48 (grey=false: as they are)",
    )
    fitness: str | None = _option(None, maybe(text), "fitness to maximise (default: the environment's own)")
    fitness_aggregation: str = _option(
        "mean",
        one_of("mean", "median", "min"),
        "aggregation of a candidate's episodes to its fitness: mean, median or min",
    )
    seed: int = _option(0, whole(0, 2**128 - 1), "root seed of all randomness")
    generations: int | None = _option(
        1000, maybe(whole(1)), "maximum number of generations (none, or max_steps or max_episodes alone: no maximum)"
    )
    max_steps: int | None = _option(
        None,
        maybe(whole(1)),
        "environment steps after which the run ends, those of evaluation and proofs included; the generation that "
        "reaches it is finished, and the scores at the end come after it",
    )
    max_episodes: int | None = _option(
        None, maybe(whole(1)), "candidates' episodes after which the run ends, with the generation that reaches them"
    )

    stop_when: str | None = _option(
        None,
        maybe(one_of("plateau")),
        "also end the run at a plateau: 100 generations in which neither the populations' fitness nor the centres' "
        "scores have risen, after the last of its restarts",
    )

    strategy: str = _option(
        AUTO,
        text,
        "search strategy; auto: by the number of parameters; erl: evolution with a learner; sb3:ppo and others: "
        "algorithms of Stable-Baselines3",
        "search",
    )
    strategy_options: Mapping[str, Any] = _option({}, json_object, "additional arguments of the strategy")
    population_size: int = _option(
        AUTO,
        auto(whole(2, MOST)),
        "candidates in each generation, an even number for strategies with mirrored pairs; auto: by strategy and "
        "number of parameters",
    )
    steps_per_generation: int | None = _option(
        AUTO,
        maybe(auto(whole(1))),
        "environment steps of each generation: as many candidates as reach them, by the last episodes' lengths; auto: "
        "16000, or a hundredth of max_steps if that is less, where the population size is auto, too, and a covariance "
        "is learnt (none: the population size stays)",
    )
    steps_limit: int | None = _option(
        AUTO,
        maybe(auto(whole(1))),
        "double steps_per_generation after every 20 generations without gain, up to this many (auto: 16 times what the "
        "run chose itself; none: no doubling)",
    )
    restarts: int = _option(
        0,
        whole(0, 9),
        "number of times that the search restarts at a plateau, from other initial parameters, each time with "
        "twice the candidates",
    )
    sigma: float = _option(
        AUTO,
        auto(number(0, above=True, most=LARGEST_PARAMETER)),
        "standard deviation of the parameter noise; auto: the strategy's own",
    )
    contenders: tuple[Mapping[str, Any], ...] = _option(
        (),
        json_objects,
        "searches that challenge the run's own, and take its place where they do better, each as the settings in which "
        'it differs, such as [{"sigma": 1.0}, {"hidden_sizes": [16]}, {}], where {} is another seed (default: none)',
    )
    sigma_final: float | None = _option(None, maybe(number(0, above=True)), "sigma at the end of its schedule")
    learning_rate: float | None = _option(
        0.03, maybe(number(0, above=True)), "step size of the optimiser (none: pgpe's own rule)"
    )
    learning_rate_final: float | None = _option(
        None, maybe(number(0, above=True)), "learning rate at the end of its schedule"
    )
    schedule: str = _option(
        "linear",
        one_of(*SCHEDULES),
        "schedule of sigma and learning rate to their final values: linear, cosine or exponential",
    )
    schedule_generations: int | None = _option(
        None, maybe(whole(1)), "generations until the final values are reached (default: all)"
    )
    optimizer: str = _option("adam", text, "optimiser of the mean: adam, adamw, sgd or clipup")
    optimizer_options: Mapping[str, Any] = _option({}, json_object, "additional arguments of the optimiser")
    weight_decay: float = _option(
        0.0,
        number(0),
        "strength of the pull towards zero: l2 (openai_es: on the scale of the paper's 0.005); decoupled with adamw",
    )
    shaping: str = _option("centered_ranks", text, "conversion of fitness to the weights of the gradient")
    top_directions: int | None = _option(
        None, maybe(whole(1)), "use only the N pairs whose better candidate scored highest (default: all)"
    )

    policy: str = _option(
        AUTO,
        text,
        "auto: by the spaces; linear (without bias); mlp; rnn, lstm or gru, with a memory of the episode; cnn_small "
        "or cnn_nature, for images; or your own torch module, as module:Class",
        "policy",
    )
    policy_options: Mapping[str, Any] = _option({}, json_object, "keyword arguments of a policy module:Class")
    hidden_sizes: tuple[int, ...] = _option(
        AUTO,
        auto(sizes),
        "sizes of the hidden layers of an mlp, rnn, lstm or gru (the last one is recurrent); auto: 32,32, or by the "
        "spaces if the policy is auto, too",
    )
    activation: str = _option("tanh", text, "activation of the hidden layers: tanh or relu")
    initialization: str = _option(
        "fan_in",
        one_of("fan_in", "normc", "orthogonal", "torch", "zeros"),
        "initial weights: fan_in (variance 1/inputs), normc (each unit's weights have length 1), orthogonal, torch "
        "(torch's default) or zeros",
    )
    output_scale: float = _option(
        0.01, number(0, above=True, most=LARGEST_PARAMETER), "factor of the output layer's initial weights"
    )
    virtual_batch_normalization: bool = _option(
        False, flag, "normalise hidden layers by a reference batch of 128 observations"
    )
    observation_normalization: bool = _option(
        AUTO, auto(flag), "normalise observations by statistics of the run so far; auto: unless they are images"
    )
    statistics_fraction: float = _option(1.0, share, "share of the episodes whose observations enter the statistics")
    observation_clip: float | None = _option(
        5.0, maybe(number(0, above=True)), "bound of normalised observations (none: no bound)"
    )
    observation_std_floor: float = _option(
        1e-6, number(0, above=True), "minimum standard deviation by which an observation is divided"
    )
    action_squash: str = _option(
        AUTO,
        one_of(AUTO, "clip", "tanh"),
        "bring raw outputs between the bounds of a Box action by clip, or by tanh, stretched from bound to bound; "
        "auto: clip where bounds are of the order of 1, and where there are none",
    )
    action_bins: int | tuple[float | tuple[float, ...], ...] | None = _option(
        None,
        maybe(bins),
        "choose each entry of a Box action among N values from bound to bound, or among given values, as JSON",
    )
    action_masks: bool = _option(
        True, flag, 'never take a choice that info["action_mask"] of Discrete and MultiDiscrete actions forbids'
    )
    action_noise: float = _option(0.0, number(0), "standard deviation of noise on Box actions in training")
    sample_actions: bool = _option(
        False,
        flag,
        "in training, draw actions from a distribution: Box actions with a log-std that the policy also outputs, "
        "others with its outputs as logits",
    )

    episodes_per_candidate: int = _option(1, whole(1, MOST), "episodes in each candidate's fitness", "episodes")
    on_candidate_error: str = _option(
        "raise",
        one_of("raise", "drop", "worst"),
        "if an episode fails twice: raise (the run ends with the error), drop (the candidate is ignored) or worst (it "
        "gets the worst fitness of the others); one of the centre always ends the run",
    )
    episode_seeds: str = _option(
        AUTO,
        one_of(AUTO, "common", "grouped", "independent"),
        "start states of a generation's candidates: common (the same for all), grouped (the same within each of "
        "several groups, whose candidates are compared with each other) or independent; auto: grouped where a "
        "covariance is learnt",
    )
    survival_bonus: float = _option(
        0.0,
        number(0),
        "reward per step that training subtracts, so that standing still does not pay (ARS: 1 or 5)",
    )
    max_episode_steps: int | None = _option(
        None, maybe(whole(1)), "truncate episodes after N steps (default: the environment's limit, else 1000)"
    )
    episode_cap: str | None = _option(
        None,
        maybe(one_of("twice_mean", "growing")),
        "step limit in training: twice_mean (twice the last generation's mean length) or growing (doubled when half of "
        "the episodes reach it)",
    )
    episode_cap_start: int = _option(100, whole(1), "the first episode cap")

    eval_every: int = _option(1, whole(0), "generations between evaluations of the centre (0: never)", "evaluation")
    eval_episodes: int = _option(20, whole(1, MOST), "episodes in each evaluation of the centre")
    eval_share: float | None = _option(
        None, maybe(share), "episodes in each evaluation as a share of the population's, instead of eval_episodes"
    )
    eval_budget: float | None = _option(
        0.2,
        maybe(share),
        "share of all steps that may go to evaluation (none: no maximum; see docs/how-it-works)",
    )
    confirm_episodes: int = _option(
        100,
        whole(1, MOST),
        "episodes that a policy must pass to have solved the task, and at most so many of a confirmation and of the "
        "final score",
    )
    solved_at: float | None = _option(
        None,
        maybe(finite),
        "fitness of the centre at which the run stops (proved beyond chance, with all episodes successful)",
    )

    checkpoint_every: int = _option(10, whole(1), "generations between checkpoints", "computing")
    engine: str = _option(
        "auto",
        one_of("auto", "compiled", "torch"),
        "engine that computes the policy: compiled, torch, or auto (chosen at the start)",
    )
    device: str = _option(
        "auto",
        one_of("auto", "cpu", "cuda"),
        "device that computes the policy: cpu, cuda, or auto (chosen at the start: in the vector pool cuda where there "
        "is such a device, else cpu)",
    )
    vector_envs: int | None = _option(
        None,
        maybe(whole(1, MOST)),
        "copies of the environment that the vector pool steps (default, chosen at the start: one per candidate, or one "
        "per usable core if each copy is a process)",
    )
    vector_starts: str | None = _option(
        None, maybe(text), "way in which seeds determine starts in the vector pool, which finds it out"
    )

    decided: tuple[str, ...] = field(default=(), metadata={"check": names})
    """Settings that were "auto", and that the run has decided when it began. Not a setting."""
    repeatable: bool | None = field(default=None, metadata={"check": maybe(flag)})
    """False: the run has found that an episode which is played twice continues differently. Not a setting."""
    bits: int = field(default=BITS, metadata={"check": whole(0)})
    """Value of ``BITS`` in the version that made it. Not a setting."""

    def __post_init__(self) -> None:
        if isinstance(self.engine, str) and self.engine == "numpy":  # its name up to version 0.1
            object.__setattr__(self, "engine", "compiled")
        for option in fields(self):
            value = converted(getattr(self, option.name), option.type)
            expected = option.metadata["check"](value)
            if expected:
                given = keyword(option.name)
                name = given if given == option.name else f"{given} (the field {option.name})"
                raise ValueError(f"{name} must be {expected}, got {shown(value)}")
            object.__setattr__(self, option.name, value)
        if AUTO in {self.strategy, self.policy}:
            changed = {option.name: None for option in fields(self) if getattr(self, option.name) != _default(option)}
            for name in IMPLIED:
                if getattr(self, name) == AUTO:
                    object.__setattr__(self, name, implied(name, changed))

    def __eq__(self, other: object) -> bool:
        """True if all settings are equal; a config may be equal to a plan."""
        return self.to_json() == other.to_json() if isinstance(other, TrainConfig) else NotImplemented

    def __repr__(self) -> str:
        """The environment, and settings that differ from their defaults."""
        defaults = TrainConfig(env_id=self.env_id)
        changed = [f"{name}={value!r}" for name, value in self.values().items() if value != getattr(defaults, name)]
        return f"TrainConfig({', '.join([f'env_id={self.env_id!r}', *changed])})"

    @classmethod
    def for_env(cls, env_id: str, **overrides: Any) -> Self:
        """Combine defaults, then the strategy's own, then the definition's recommendations, then ``overrides``.

        The definition's recommendations for other strategies are left out, as are sigma, optimiser and shaping if the
        strategy is not the definition's default; population and policy hold for all.

        Raises:
            UnknownEnvError: no such environment is registered.
            TypeError: there is no such field.
            ValueError: a field has an invalid value (if a plugin recommends it, the message names the plugin),
                hidden_sizes are given for a linear policy, or an object cannot be copied to another process.
        """
        definition = es_envs.definition(env_id)
        config = cls.unresolved(env_id, definition, **overrides).resolved(definition)
        if config.policy == "linear" and overrides.get("hidden_sizes"):
            raise ValueError(
                f"hidden_sizes={shown(config.hidden_sizes)}: policy='linear' has no hidden layers. Choose another, "
                "such as policy='mlp' (on the command line: --policy mlp), or leave hidden_sizes out"
            )
        return config

    @classmethod
    def unresolved(cls, env_id: str, definition: EnvDefinition, **overrides: Any) -> Self:
        """The config of ``for_env`` before it is ``resolved``: a plugin's strategy is imported, but nothing else."""
        known, overrides = _settings(cls), to_fields(overrides)
        recommended = to_fields(definition.recommended)
        recommended_for = {name: to_fields(values) for name, values in definition.recommended_for.items()}
        for name in overrides:
            if name not in known:
                raise TypeError(unknown_field(name, known))
        cls(env_id=env_id, **{name: value for name, value in overrides.items() if not callable(value)})
        values: dict[str, Any] = {
            "env_id": env_id,
            "randomize": definition.randomize,
            "solved_at": definition.solved_at,
        }
        own_strategy = implied("strategy", recommended)
        for strategy, own in {own_strategy: {}, **recommended_for}.items():
            cls._require_valid(definition, {**values, **recommended, **own}, strategy)
        strategy = overrides.get("strategy", implied("strategy", overrides) if own_strategy == AUTO else own_strategy)
        of_strategy = defaults_of(strategy)
        others = (
            set() if strategy == own_strategy else {"strategy", *OF_ONE_STRATEGY, *of_strategy, *unused_by(strategy)}
        )
        values |= of_strategy
        values |= {name: value for name, value in recommended.items() if name not in others}
        values |= recommended_for.get(strategy, {})
        values |= {name: implied(name, {**values, **overrides}) for name in IMPLIED}
        overrides |= {name: register_object(overrides[name]) for name in OBJECTS if callable(overrides.get(name))}
        fitness = overrides.get("fitness")
        if fitness is not None and not is_same_fitness(
            definition.fitness_names().get(fitness, fitness), str(definition.fitness)
        ):
            values["solved_at"] = None  # the definition's threshold is for its own fitness
        if any(overrides.get(name) is not None for name in BOUNDS):  # who says how long a run lasts means just that
            values["generations"] = None
        return cls(**{**values, **overrides})

    @classmethod
    def _require_valid(cls, definition: EnvDefinition, values: Mapping[str, Any], strategy: str) -> None:
        known = _settings(cls)
        try:
            for name in {**definition.recommended, **definition.recommended_for.get(strategy, {})}:
                if field_name(name) not in known:
                    raise TypeError(unknown_field(name, known))
            cls(**values)
        except (TypeError, ValueError) as error:
            raise es_envs.PluginError(f"{definition.label} recommends an invalid setting: {error}") from error

    @property
    def keyword_arguments(self) -> dict[str, Any]:
        """Keyword arguments of the environment: ``env_kwargs``, and ``randomize`` if it has ranges."""
        return {**({"randomize": dict(self.randomize)} if self.randomize else {}), **self.env_kwargs}

    def resolved(self, definition: EnvDefinition | None = None) -> Self:
        """Return this config with its fitness's name filled in, and the step limit where the environment has none.

        Raises:
            ValueError: the fitness cannot be imported, a survival bonus, a curriculum or a schedule does not fit,
                the strategy does not use a setting, or the policy is scripted.
        """
        definition = definition or es_envs.definition(self.env_id)
        if self.policy.startswith(SCRIPTED):
            raise ValueError(
                f"policy={self.policy!r}: a scripted policy has no parameters to evolve; to score it, "
                f"{shell_line(['es-envs', 'evaluate', self.env_id, '--policy', self.policy.removeprefix(SCRIPTED)])}"
            )
        known = definition.fitness_names()
        if self.fitness is None:
            fitness = short_name(str(definition.fitness))
        else:
            fitness = next((name for name, target in known.items() if target == self.fitness), self.fitness)
        for name, target in definition.fitness_names(fitness).items():
            try:
                load_fitness(target, known=known)
            except Exception as error:
                cause = str(error) if isinstance(error, ImportError | ValueError) else repr(error)
                raise ValueError(f"{definition.label}: fitness {name!r} cannot be used: {cause}") from error
        if self.survival_bonus > 0 and (fitness != "episode_return" or self.shaping in SIGN_SHAPINGS):
            raise ValueError(
                "survival_bonus is subtracted from the sum of the rewards, so it needs fitness='episode_return' and a "
                f"shaping that uses that sum; got fitness={fitness!r}, shaping={self.shaping!r}"
            )
        if self.curriculum is not None and not self.randomize:
            raise ValueError(
                f"curriculum={self.curriculum:g}: there are no ranges that could grow; give some, such as "
                'randomize={"friction": [0.6, 1.4]}'
            )
        self._require_useful()
        self._require_contenders()
        generations = self.schedule_generations
        if generations is None and not (self.sigma_final is None and self.learning_rate_final is None):
            if self.generations is None:
                raise ValueError(
                    "sigma_final and learning_rate_final are reached after all generations, and how many there will be "
                    "is not known: set schedule_generations, or generations"
                )
            generations = self.generations  # fixed now: a resumed run may have more
        limit, decided = self.max_episode_steps, self.decided
        if limit is None and definition.max_episode_steps is None:  # an episode might never end
            limit, decided = _DEFAULT_LIMIT, (*decided, "max_episode_steps")
        options = self.strategy_options
        if keeps_repertoire(self.strategy):
            options = {**options, "ranges": self._ranges(definition)}
        return replace(
            self,
            fitness=fitness,
            strategy_options=options,
            max_episode_steps=limit,
            schedule_generations=generations,
            decided=decided,
        )

    def _ranges(self, definition: EnvDefinition) -> list[list[Any]]:
        """Names and ranges of a behaviour's numbers, in their order: the definition's, unless the options have others.

        Raises:
            ValueError: there are none, or the options name others than the definition.
        """
        given, own = self.strategy_options.get("ranges"), definition.behaviours
        if given is None and not own:
            raise ValueError(
                f"strategy {self.strategy!r} fills a grid over ranges of behaviour, and {definition.label} names none: "
                'give its EnvDefinition a function behaviour and behaviours={"name": (lowest, highest), ...}, or the '
                'run strategy_options={"ranges": [["name", lowest, highest], ...]}'
            )
        if isinstance(given, Mapping):  # some of them; a dict loses its order in a file
            if unknown := sorted(given.keys() - own.keys()):
                raise ValueError(
                    f"ranges: {definition.label} has no behaviour {unknown[0]!r}, it names {', '.join(own) or 'none'}"
                )
            own, given = {**own, **given}, None
        ranges: list[list[Any]] = lists([[name, *values] for name, values in own.items()] if given is None else given)
        return ranges

    def _require_useful(self) -> None:
        """Refuse a setting that changes nothing, with this strategy or without another setting."""
        unused = sorted(unused_by(self.strategy))
        default = TrainConfig(env_id=self.env_id, **defaults_of(self.strategy)) if unused else self
        for name in unused:
            if getattr(self, name) != getattr(default, name):
                raise ValueError(
                    f"strategy {self.strategy!r} does not use {name}={getattr(self, name)!r}: leave it out. "
                    'Hyperparameters of its own are strategy_options, such as {"learning_rate": 0.001}'
                )
        for name, others in ONLY_WITH.items():
            if getattr(self, name) != getattr(TrainConfig, name) and not any(getattr(self, other) for other in others):
                raise ValueError(
                    f"{name}={getattr(self, name)!r} changes nothing without {' or '.join(others)}: set that, too, or "
                    f"leave {name} out"
                )

    def _require_contenders(self) -> None:
        """Refuse contenders with settings that do not exist, that all contenders share, or that are wrong."""
        for place, own in enumerate(self.contenders, 1):
            where = f"contender {place} of contenders={shown(list(self.contenders))}"
            if others := sorted(own.keys() - OF_A_CONTENDER):
                raise ValueError(f"{where} has {', '.join(others)}; it may have {', '.join(sorted(OF_A_CONTENDER))}")
            if is_trainer(own.get("strategy", self.strategy)):
                raise ValueError(f"{where}: a trainer such as {own.get('strategy', self.strategy)!r} takes no turns")
            try:
                replace(self, **own)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None

    def continued(self, given: Mapping[str, Any]) -> Self:
        """Return this config of a run that has begun with the bounds in ``given``, which may have grown.

        Args:
            given: settings, as in JSON or as in the fields; choices that the run made when it began may be left open.

        Raises:
            TypeError: there is no such setting.
            ValueError: a setting differs, or a bound is smaller.
        """
        given = to_fields(given)
        stored, bounds = self.to_json(), {name: given.get(name, getattr(self, name)) for name in BOUNDS}
        for name, value in given.items():
            if name not in stored:
                raise TypeError(unknown_field(name, set(stored)))
            if name in {"bits", "decided", *BOUNDS} or is_left_open(name, value):
                continue
            wanted = replace(self, **{name: value}).to_json()[name]
            if name == "strategy_options" and "ranges" not in wanted:  # the environment's, as the run began with them
                wanted |= {own: each for own, each in stored[name].items() if own == "ranges"}
            if wanted != stored[name]:
                raise ValueError(
                    f"{keyword(name)} cannot change in a resumed run: it was {stored[name]!r}, now {wanted!r}. Only "
                    f"{', '.join(BOUNDS)} can, and only grow; a new run can begin with this one's policy (initial=... "
                    "or, on the command line, --initial RUN/best.safetensors)"
                )
        grown = replace(self, **bounds)
        for name, now in bounds.items():
            then = getattr(self, name)
            if now is not None and (then is None or now < then):
                before = "without a bound" if then is None else f"{then}, given or not"
                raise ValueError(f"{name} can only grow in a resumed run: it was {before}, now {now}")
        return grown

    def reopened(self) -> "TrainConfig":
        """Return this config without what the run chose when it began."""
        left = {option.name: _default(option) for option in fields(TrainConfig) if option.name in self.decided}
        return TrainConfig(**{**self.values(), **left, "decided": ()})

    def values(self) -> dict[str, Any]:
        """The fields by name; what a subclass adds is none of them."""
        return {option.name: getattr(self, option.name) for option in fields(TrainConfig)}

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return {name: lists(value) for name, value in self.values().items()}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a config.json, of this version or an earlier one.

        Raises:
            FileNotFoundError: there is no such file.
            CheckpointError: the file is damaged.
        """
        try:
            return cls.from_json(parse_json(read_whole(Path(path), MOST_CONFIG)))
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {path}: expected the config.json of a run") from None
        except (ValueError, RecursionError) as error:
            raise CheckpointError(f"{path} is damaged: {error}") from error

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Read what ``to_json`` returned in this version or an earlier one.

        A missing field is newer than the config. It gets its default, which must therefore mean the same as before the
        field existed, or what ``BEFORE`` says.

        Raises:
            ValueError: a field is unknown, or has an invalid value.
        """
        if not isinstance(values, dict):
            raise ValueError(f"a config must be a JSON object, got {type(values).__name__}")
        unknown = set(values) - {option.name for option in fields(cls)}
        if unknown:
            raise ValueError(f"this version has no such settings (a newer one may have): {shown(sorted(unknown))}")
        if "env_id" not in values:
            raise ValueError("a config must have an env_id")
        return cls(**{**BEFORE, **values})


def require_bits(config: TrainConfig, where: object) -> None:
    """Refuse to recompute what another version has computed: it would have other bits.

    Args:
        config: config from a file.
        where: that file, or its run.

    Raises:
        CheckpointError: the message says which version has those bits.
    """
    if config.bits > BITS:
        raise CheckpointError(
            f"{where}: a newer version of es-envs wrote it, whose noise and policies have other bits: upgrade with "
            "`pip install --upgrade es-envs` to continue, rebuild or replay it"
        )
    if config.bits < BITS:
        raise CheckpointError(
            f"{where}: {_WRITTEN_BY[config.bits]} wrote it, whose noise and policies have other bits: install that "
            "version to continue, rebuild or replay it; here its policies can be evaluated, recorded, exported "
            "and compared, and a new run can begin with one (initial=..., on the command line --initial)"
        )


def option_fields() -> list[Field[Any]]:
    """The fields of TrainConfig that a user sets, for the command line."""
    return [option for option in fields(TrainConfig) if option.name in _settings(TrainConfig)]


def _default(option: Field[Any]) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def _settings(config: type[TrainConfig]) -> set[str]:
    return {option.name for option in fields(config)} - {"env_id", "decided", "bits", "repeatable", "vector_starts"}


def unknown_field(name: str, known: set[str]) -> str:
    """Return a message about a setting that TrainConfig does not have."""
    close = difflib.get_close_matches(name, map(keyword, known), n=1)
    return f"no setting is called {name!r}: " + (
        f"did you mean {close[0]!r}?" if close else "`es-envs train --help-all` lists them"
    )
