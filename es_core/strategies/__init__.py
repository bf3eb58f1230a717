"""Search strategies: ask for a population, tell its fitness."""

import difflib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.population import Population
from es_envs import PluginError, names, registry

__all__ = ["STRATEGIES", "OpenAIES", "Population", "Strategy", "make_strategy"]


class Strategy(Protocol):
    """What every strategy offers.

    Attributes:
        mean: ``(d,)`` float32, what would be deployed.
        generation: how often ``tell`` was called.
    """

    mean: NDArray[np.float32]
    generation: int

    def ask(self) -> Population:
        """The population of this generation; changes nothing that ``state_dict`` shows."""

    def tell(self, fitness: NDArray[np.float64], valid: NDArray[np.bool_] | None = None) -> None:
        """Move on by one generation, by ``fitness`` ``(N,)``; False in ``valid`` ``(N,)`` leaves a candidate out."""

    def state_dict(self) -> dict[str, Any]:
        """Arrays and numbers by name, from which a strategy of the same arguments continues."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``."""


STRATEGIES: Mapping[str, type[Strategy]] = {"openai_es": OpenAIES}


def make_strategy(config: TrainConfig, mean: NDArray[np.float32]) -> Strategy:
    """The strategy that ``config`` names, built in or registered by a plugin, starting at ``mean`` ``(d,)``.

    Raises:
        ValueError: nobody registers it, or it refuses its arguments.
        PluginError: it cannot be imported.
    """
    strategy = STRATEGIES.get(config.strategy)
    if strategy is None:
        registered = registry.strategies()
        if config.strategy not in registered:
            choices = [*STRATEGIES, *registered]
            close = difflib.get_close_matches(config.strategy, choices, n=1)
            hint = f": did you mean {close[0]!r}?" if close else f": there are {', '.join(choices)}"
            raise ValueError(f"no strategy is called {config.strategy!r}{hint}")
        target = registered[config.strategy]
        try:
            strategy = names.load(target)
        except (ImportError, ValueError) as error:
            raise PluginError(f"strategy {config.strategy!r} ({target}) cannot be imported: {error}") from error
    return strategy(  # type: ignore[call-arg]
        mean,
        population_size=config.population_size,
        sigma=config.sigma,
        seed=config.seed,
        learning_rate=config.learning_rate,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        shaping=config.shaping,
        options=config.strategy_options,
    )
