"""The settings of a run once its environment's spaces are known: the ``Plan``."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from es_core.config.checks import AUTO, text
from es_core.config.train_config import TrainConfig


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Plan(TrainConfig):
    """The settings of a run of which none is "auto".

    A config becomes a plan when a run begins: ``policies/defaults.py`` chooses by the environment's spaces what the
    config leaves open, and ``strategies/defaults.py`` by the policy's size. ``decided`` names what they have chosen.
    Only the pool may still choose its engine and device, which say nothing about the search.

    Attributes:
        why: what the run has chosen, and why, in a line for people; empty if nothing of note, or if a file is read.

    Raises:
        ValueError: a field is "auto".
    """

    why: str = field(default="", metadata={"check": lambda value: value and text(value)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if left := auto_settings(self):
            raise ValueError(f"a run has chosen these settings before it begins, and here they are open: {left}")

    @classmethod
    def of(cls, config: TrainConfig, *, why: str = "") -> Self:
        """The plan with a config's settings, all of which are chosen."""
        return cls(**config.values(), why=why)

    def settings_of(self, contender: int) -> Mapping[str, Any]:
        """The settings in which a contender differs: 0 has the run's own, then each has its own, in turn."""
        return ({}, *self.contenders)[contender % (1 + len(self.contenders))]

    def of_contender(self, contender: int) -> Self:
        """The plan of a contender."""
        own = self.settings_of(contender)
        if not own:
            return self
        return replace(self, **own, contenders=(), decided=tuple(dict.fromkeys((*self.decided, *own))))


def auto_settings(config: TrainConfig) -> tuple[str, ...]:
    """Names of the settings that are "auto", except engine and device, which say nothing about the search."""
    ours = (option.name for option in fields(TrainConfig) if option.default == AUTO)
    return tuple(name for name in ours if name not in {"engine", "device"} and getattr(config, name) == AUTO)


def with_choices(config: TrainConfig, **chosen: Any) -> TrainConfig:
    """Return the config with those of these values that it leaves open; its ``decided`` has their names, too."""
    values = {name: chosen[name] for name in auto_settings(config) if name in chosen}
    return replace(config, **values, decided=(*config.decided, *values)) if values else config
