"""Strategies by name. ``make_strategy`` builds the one that a config names."""

import difflib
from collections.abc import Mapping
from dataclasses import fields
from inspect import Parameter, signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.budgets import largest_population
from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.plan import Plan
from es_core.config.strategy_defaults import STABLE_BASELINES3, is_trainer, keeps_repertoire, plugin_class
from es_core.config.train_config import MOST, TrainConfig
from es_core.policies.network import Policy
from es_core.strategies.ars import ARS
from es_core.strategies.cma_es import CMAES
from es_core.strategies.cma_mae import CMAMAE
from es_core.strategies.defaults import plan_for
from es_core.strategies.ga import GA
from es_core.strategies.map_elites import MAPElites
from es_core.strategies.nsra_es import NSRAES
from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.pgpe import PGPE
from es_core.strategies.random_search import RandomSearch
from es_core.strategies.schedules import schedule
from es_core.strategies.sep_cma_es import SepCMAES
from es_core.strategies.snes import SNES
from es_core.strategies.strategy import Strategy
from es_envs import PluginError, registry

STRATEGIES: Mapping[str, type[Strategy]] = {
    "openai_es": OpenAIES,
    "ars": ARS,
    "pgpe": PGPE,
    "snes": SNES,
    "cma_es": CMAES,
    "sep_cma_es": SepCMAES,
    "ga": GA,
    "random_search": RandomSearch,
    "nsra_es": NSRAES,
    "map_elites": MAPElites,
    "cma_mae": CMAMAE,
}

# Settings that a strategy gets if its constructor has an argument of that name.
_SETTINGS = ("learning_rate", "optimizer", "optimizer_options", "weight_decay", "shaping", "top_directions")


def make_strategy(config: Plan, mean: NDArray[np.float32], policy: Policy | None = None) -> Strategy:
    """The strategy that ``config`` names, built in or registered by a plugin, starting at ``mean`` ``(d,)``.

    Its class is called with ``mean``, ``population_size``, ``sigma`` and ``seed``; with those of ``learning_rate``,
    ``optimizer``, ``optimizer_options``, ``weight_decay``, ``shaping`` and ``top_directions`` that its constructor has;
    and with ``strategy_options``. With ``sigma_final`` or ``learning_rate_final``, that number is a function of the
    generation. A constructor with an argument ``policy`` gets the run's policy, or None where there is none yet.

    Raises:
        ValueError: no such strategy is registered, it refuses its arguments, or it does not use a setting.
        PluginError: the strategy cannot be imported.
    """
    strategy = find_strategy(config.strategy)
    parameters = signature(strategy).parameters
    takes_all = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    arguments: dict[str, Any] = {name: getattr(config, name) for name in ("population_size", "sigma", "seed")}
    default = {field.name: field.default for field in fields(TrainConfig)}
    if "policy" in parameters:
        arguments["policy"] = policy
    rate = parameters.get("learning_rate")
    if config.learning_rate is None and rate and (rate.default is not None or config.learning_rate_final is not None):
        raise ValueError(f"strategy {config.strategy!r} needs a learning_rate here: it has no rule that chooses one")
    for name in _SETTINGS:
        value = getattr(config, name)
        if name in parameters or takes_all:
            arguments[name] = value
        elif value and value != default[name]:
            raise ValueError(f"strategy {config.strategy!r} does not use {name}={value!r}: leave it out")
    _require_comparable(config, strategy)
    _require_sizes(config, strategy)
    for name in ("sigma", "learning_rate"):
        final = getattr(config, f"{name}_final")
        if final is None:
            continue
        if name not in arguments or (name == "sigma" and strategy.adapts_sigma):
            why = "adapts sigma itself" if name == "sigma" else "has no learning rate"
            raise ValueError(f"strategy {config.strategy!r} {why}, so it does not use {name}_final: leave it out")
        generations = config.schedule_generations or config.generations or 1  # a resolved config has one of the two
        arguments[name] = schedule(arguments[name], final, shape=config.schedule, generations=generations)
    for name in config.strategy_options:
        if name in arguments or (name not in parameters and not takes_all):
            own = [known for known in parameters if known not in {"mean", *arguments}]
            has = f"its options are {', '.join(own)}" if own else "it has no options"
            raise ValueError(f"strategy_options: strategy {config.strategy!r} has no option {name!r}; {has}")
    try:
        return strategy(mean, **arguments, **config.strategy_options)
    except TypeError as error:
        given = {**config.optimizer_options, **config.strategy_options}
        if not given:
            raise
        raise ValueError(f"strategy {config.strategy!r} refuses the options {given}: {error}") from error


def _require_comparable(config: Plan, strategy: type[Strategy]) -> None:
    """Refuse fitness that does not compare what the strategy compares."""
    if config.shaping in SIGN_SHAPINGS and not strategy.mirrored:
        raise ValueError(
            f"shaping={config.shaping!r} compares signs of rewards within mirrored pairs, and strategy "
            f"{config.strategy!r} has none: choose another shaping"
        )
    names = {config.strategy, *(own.get("strategy", config.strategy) for own in config.contenders)}
    if config.contenders and any(keeps_repertoire(name) for name in names):
        raise ValueError(
            "map_elites and cma_mae keep a repertoire, which no other search can take over: leave contenders out"
        )
    if config.observation_normalization and strategy.keeps_repertoire:
        raise ValueError(
            f"strategy {config.strategy!r} keeps policies of many generations, and observation_normalization changes "
            "what they see from one generation to the next: they would no longer do what they are kept for. Leave it "
            "out, and let the environment scale its observations"
        )
    if config.episode_seeds == "grouped" and strategy.compares_generations:
        raise ValueError(
            f"strategy {config.strategy!r} compares fitness between generations, and episode_seeds='grouped' leaves "
            "only ranks within each: choose 'common' or 'independent'"
        )


def _require_sizes(config: Plan, strategy: type[Strategy]) -> None:
    """Refuse other populations in later generations where the strategy cannot have them."""
    if config.steps_per_generation is not None and not strategy.resizable:
        raise ValueError(
            f"strategy {config.strategy!r} keeps its population_size, and steps_per_generation would change it: leave "
            "it out, or choose another strategy"
        )
    limit, steps = config.steps_limit, config.steps_per_generation
    if limit is not None and steps is None:
        raise ValueError(
            f"max_steps_per_generation={limit} changes nothing without steps_per_generation: set it, too, or leave out "
            "both"
        )
    if limit is not None and steps is not None and limit < steps:
        raise ValueError(
            f"max_steps_per_generation={limit} is less than steps_per_generation={steps}: raise it, or leave it out"
        )
    if not config.restarts:
        return
    if not (config.sigma_final is None and config.learning_rate_final is None):
        raise ValueError(
            f"restarts={config.restarts}: sigma_final and learning_rate_final fall over the whole run, so a search "
            "that restarts late would hardly explore: leave restarts or the final values out"
        )
    why = ""
    if strategy.keeps_repertoire:
        why = "its repertoire would be lost"
    elif not strategy.rebuildable:
        why = "its learner would be lost"
    elif largest_population(config) > MOST:
        why = f"the last population would have more than {MOST}"
    if why:
        raise ValueError(
            f"restarts={config.restarts}: strategy {config.strategy!r} cannot restart with twice the "
            f"{config.population_size} candidates, since {why}: leave restarts out"
        )


def require_strategy(config: TrainConfig) -> None:
    """Refuse, before anything starts, strategy settings that are wrong for every policy; see ``make_strategy``."""
    make_strategy(plan_for(config, 2), np.zeros(2, np.float32))  # some are not for one parameter


def find_strategy(name: str) -> type[Strategy]:
    """The class of a strategy, built in or registered by a plugin.

    Raises:
        ValueError: there is none of this name.
        PluginError: it cannot be imported.
    """
    if name in STRATEGIES:
        return STRATEGIES[name]
    if is_trainer(name):
        raise ValueError(f"strategy {name!r} has no population: it is for `es-envs train` and finetune")
    strategy = plugin_class(name)
    if strategy is None:
        raise ValueError(f"no strategy is called {name!r}: {_suggestion(name)}")
    if not (isinstance(strategy, type) and issubclass(strategy, Strategy)):
        raise PluginError(f"strategy {name!r} ({registry.strategies()[name]}) must be a subclass of es_core.Strategy")
    return strategy


def _suggestion(name: str) -> str:
    choices = [*STRATEGIES, *registry.strategies(), *registry.trainers()]
    ends = {choice.rpartition(":")[2]: choice for choice in reversed(choices)}  # who writes "ppo" means "sb3:ppo"
    close = difflib.get_close_matches(name.rpartition(":")[2].lower(), ends, n=1)
    if close:
        return f"did you mean {ends[close[0]]!r}?"
    more = "" if "erl" in choices else f"; erl and sb3:ppo, sb3:sac, ... need {STABLE_BASELINES3}"
    return f"there are {', '.join(choices)}{more}"
