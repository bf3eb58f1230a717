"""Search domains: the values of a setting among which a search chooses, and the default ones."""

import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from es_core.config.checks import finite
from es_core.config.given import BOUNDS
from es_core.config.train_config import TrainConfig, option_fields, unknown_field
from es_core.formatting import text_of

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

# Settings that must be equal in all trials: else one trial's score says nothing about another's.
_EQUAL_FOR_ALL = frozenset({
    "env_kwargs", "randomize", "fitness", "seed", "max_episode_steps", "eval_every", "eval_episodes", "eval_share",
    "confirm_episodes", "solved_at", *BOUNDS,
})  # fmt: skip

# Default domains. The noise and the step decide whether anything is learnt at all; the numbers of candidates and
# episodes in a generation decide how well it knows where to go, and how rarely it goes.
_DEFAULTS: Mapping[str, Any] = {
    "sigma": (0.01, 0.5),
    "population_size": (16, 256),
    "episodes_per_candidate": [1, 2, 4],
    "observation_normalization": [False, True],
}
_DEFAULTS_FOR: Mapping[str, Mapping[str, Any]] = {
    "openai_es": {"learning_rate": (0.003, 0.3)},
    "nsra_es": {"learning_rate": (0.003, 0.3)},
    "ars": {"sigma": (0.003, 0.3), "learning_rate": (0.003, 0.3)},
    "pgpe": {"sigma": (0.02, 1.0), "learning_rate": (0.02, 1.0)},
    "snes": {"sigma": (0.02, 1.0), "learning_rate": (0.1, 3.0)},
    "cma_es": {"sigma": (0.02, 2.0), "population_size": (8, 128)},
    "sep_cma_es": {"sigma": (0.02, 2.0), "population_size": (8, 128)},
    "ga": {"sigma": (0.003, 0.3)},
    "random_search": {"sigma": (0.05, 3.0)},
    "map_elites": {"sigma": (0.003, 0.3), "observation_normalization": [False]},
    "cma_mae": {"sigma": (0.02, 2.0), "observation_normalization": [False]},
    "erl": {"sigma": (0.02, 0.5), "population_size": (6, 32)},
}


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included: any, or whole multiples of ``unit``, which then is their unit.

    Optuna draws whole numbers in that unit, since it has no steps on a logarithmic scale.
    """

    low: float
    high: float
    unit: int | None

    @property
    def size(self) -> float:
        """Number of values; infinite of numbers that are not whole."""
        return math.inf if self.unit is None else self.high - self.low + 1

    @property
    def distribution(self) -> "BaseDistribution":
        """Where Optuna draws from."""
        from optuna.distributions import FloatDistribution, IntDistribution

        kind = FloatDistribution if self.unit is None else IntDistribution
        return kind(self.low, self.high, log=self.low > 0 and self.high >= 10 * self.low)  # type: ignore[arg-type]

    def setting(self, drawn: Any) -> float:
        """The setting for a number that Optuna has drawn."""
        if self.unit is not None:
            return int(drawn) * self.unit
        return min(max(float(f"{drawn:.3g}"), self.low), self.high)  # three digits are easy to read and type

    def drawn(self, value: Any) -> float | None:
        """The value that Optuna would draw for a setting; None if that is not in the range."""
        number = value if value is None or self.unit is None else value // self.unit
        return number if number is not None and self.low <= number <= self.high else None


@dataclass(frozen=True)
class Choice:
    """One of a few values; Optuna draws their text."""

    values: tuple[Any, ...]

    @property
    def size(self) -> float:
        """Number of values."""
        return len(self._texts)

    @property
    def distribution(self) -> "BaseDistribution":
        """Where Optuna draws from."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(list(self._texts))

    def setting(self, drawn: str) -> Any:
        """The setting for a text that Optuna has drawn."""
        return self._texts[drawn]

    def drawn(self, value: Any) -> str | None:
        """The value that Optuna would draw for a setting; None if that is not among the values."""
        return text_of(value) if value in self.values else None

    @property
    def _texts(self) -> dict[str, Any]:
        return {text_of(value): value for value in self.values}


def default_search(base: TrainConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """Default domains for the strategy of ``base``, without those settings that are ``given``."""
    search = {**_DEFAULTS, **_DEFAULTS_FOR.get(base.strategy, {})}
    if base.policy.startswith("cnn") or base.virtual_batch_normalization or base.strategy == "erl":
        del search["observation_normalization"]
    if base.steps_per_generation is not None:
        del search["population_size"]  # it follows from that
    return {name: _including(getattr(base, name), values) for name, values in search.items() if name not in given}


def _including(value: Any, values: Any) -> Any:
    """``values``, extended to ``value``: a search's result is compared with the settings before it."""
    if value is None:  # the strategy has a rule
        return values
    if isinstance(values, tuple):
        return (min(*values, value), max(*values, value))
    return values if value in values else [*values, value]


def domain(base: TrainConfig, name: str, wanted: Any) -> Range | Choice:
    """Return the domain of a setting.

    Raises:
        TypeError: there is no such setting.
        ValueError: the range or a value is invalid.
    """
    options = {option.name: option for option in option_fields()}
    if name not in options:
        raise TypeError(unknown_field(name, set(options)))
    flag = f"--{name.replace('_', '-')}"
    if name in _EQUAL_FOR_ALL:
        raise ValueError(f"{name} must be the same in all trials, to compare them: give it one value ({flag})")
    kind = options[name].type
    kinds = set(typing.get_args(kind) if isinstance(kind, types.UnionType) else [kind]) - {types.NoneType}
    if not isinstance(wanted, tuple):
        if isinstance(wanted, str) or not isinstance(wanted, Sequence) or not wanted:
            raise ValueError(f"the search domain of {name} must be a range (low, high) or a list, got {wanted!r}")
        values = tuple(getattr(TrainConfig(env_id=base.env_id, **{name: value}), name) for value in wanted)
        if len({text_of(value) for value in values}) < 2:
            raise ValueError(f"{name} has only one value to choose from, {wanted[0]!r}: set it with {flag} instead")
        return Choice(values)
    if not kinds <= {int, float}:
        raise ValueError(f"{name} is not a number, so it has no range {wanted!r}: list the values to choose from")
    if len(wanted) != 2 or any(finite(end) for end in wanted) or not wanted[0] < wanted[1]:
        raise ValueError(f"a range is (low, high), two numbers, the lower one first; for {name} got {wanted!r}")
    for end in wanted:
        TrainConfig(env_id=base.env_id, **{name: end})
    if kinds != {int}:
        return Range(*wanted, unit=None)
    unit = 2 if name == "population_size" and base.population_size % 2 == 0 else 1  # most strategies need pairs
    low, high = math.ceil(wanted[0] / unit), math.floor(wanted[1] / unit)
    if low > high:
        raise ValueError(f"{name} must be even, and there is no even number in {wanted!r}")
    return Range(low, high, unit)
