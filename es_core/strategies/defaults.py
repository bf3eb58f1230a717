"""The rule for the strategy and its settings that a config leaves at "auto", by the policy's size and the run's bounds.

docs/results/defaults.md tells on which tasks it was chosen, and what it reaches on others.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from es_core.config.budgets import candidates_within, largest_population
from es_core.config.checks import AUTO
from es_core.config.given import OF_A_CONTENDER
from es_core.config.plan import Plan, auto_settings, with_choices
from es_core.config.strategy_defaults import defaults_of
from es_core.config.train_config import TrainConfig
from es_core.formatting import figures
from es_core.policies.by_name import make_policy
from es_core.policies.defaults import FEW_HIDDEN
from es_core.policies.network import Policy

_REASONS = {
    "cma_es": "few enough for a full covariance matrix",
    "sep_cma_es": "too many for a full covariance matrix",
    "openai_es": "too many to learn a variance for each, or candidates too few",
}

# Where a covariance is learnt, a generation is worth so many steps. Short episodes are cheap, and say little: many of
# them outweigh the luck of starts. Of long ones few candidates have to do, or there would be few generations.
_STEPS = 16_000
_FEWEST_GENERATIONS = 100  # in which the run's steps are spent
_GROWTH = 16  # times as many when nothing is gained: near the end, what few candidates gain is lost in noise
_FIRST = 16  # candidates, whose episodes tell how long they are
_CANDIDATES = 64  # candidates of strategies without a covariance
_SIGMA = 0.05  # of strategies that have no other
_FIRST_SIGMA = dict.fromkeys(("cma_es", "sep_cma_es", "snes", "pgpe"), 0.1)  # of those that adapt it
_SIGMA_OF_FEW = 1.0  # where a covariance is learnt
# Early on every larger step gains something, and the step size grows until most actions are at their bounds. There luck
# decides, and nothing is balanced finely any more.
_STEP_SIZE_GROWTH = 3
_COVARIANCE = 200  # parameters up to which a full covariance matrix is learnt: its decomposition takes d^3 operations
_DIAGONAL = 20_000  # parameters up to which a variance is learnt for each
_FEWEST = 4  # candidates from which a covariance can be learnt


def _with_strategy(config: TrainConfig, size: int) -> TrainConfig:
    """Return the config with a strategy, its population and sigma, for a policy of ``size`` parameters."""
    chooses, config = config.strategy == AUTO, with_choices(config, strategy=_strategy(config, size))
    has_covariance = config.strategy in {"cma_es", "sep_cma_es"}
    config = with_choices(
        config,
        population_size=_FIRST if has_covariance else _CANDIDATES,
        **_steps(config, has_covariance=has_covariance),
        episode_seeds="grouped" if has_covariance else "common",
        sigma=_sigma(config, has_covariance=has_covariance),
    )
    if not (chooses and has_covariance) or config.strategy_options:
        return config
    bound = {"max_step_size": float(f"{_STEP_SIZE_GROWTH * config.sigma:.3g}")}
    return replace(config, strategy_options=bound, decided=(*config.decided, "strategy_options"))


def _sigma(config: TrainConfig, *, has_covariance: bool) -> float:
    """The first sigma: with the few hidden units of the rule, candidates must differ as much as their weights do.

    With less they all begin nearly linear, and swing a pendulum up without ever catching it.
    """
    if has_covariance and "hidden_sizes" in config.decided and config.hidden_sizes == FEW_HIDDEN:
        return _SIGMA_OF_FEW
    return _FIRST_SIGMA.get(config.strategy) or float(defaults_of(config.strategy).get("sigma", _SIGMA))


def _strategy(config: TrainConfig, size: int) -> str:
    is_tiny = "population_size" not in auto_settings(config) and config.population_size < _FEWEST
    if is_tiny or size > _DIAGONAL:
        return "openai_es"
    return "cma_es" if size <= _COVARIANCE else "sep_cma_es"


def _steps(config: TrainConfig, *, has_covariance: bool) -> dict[str, int | None]:
    """Steps of a generation, and how far they may double; none if they or the population are given.

    Nor are there any if the run counts its episodes.
    """
    left = {"population_size", "steps_per_generation"} <= set(auto_settings(config))
    if not (has_covariance and left) or config.max_episodes is not None:
        return {"steps_per_generation": None, "steps_limit": None}
    bound = config.max_steps or _FEWEST_GENERATIONS * _STEPS
    steps = min(_STEPS, max(1, bound // _FEWEST_GENERATIONS))
    return {"steps_per_generation": steps, "steps_limit": _GROWTH * steps}


def first_bound(plan: Plan) -> float:
    """Environment steps to which a run was bound when it began; infinite if it was not, or if they are many."""
    steps = plan.steps_per_generation
    return math.inf if steps is None or steps >= _STEPS else _FEWEST_GENERATIONS * steps


def make_plan(policy: Policy) -> Plan:
    """The plan of a run with this policy, whose config has the policy's settings: the others are chosen by its size."""
    plan = Plan.of(_with_strategy(policy.config, policy.size))
    why = ", ".join(_words(plan))
    if "strategy" in plan.decided and plan.strategy in _REASONS:
        why += f", since {policy.size} parameters are {_REASONS[plan.strategy]}"
    return replace(plan, why=why, contenders=_contenders(policy, plan))


def _contenders(policy: Policy, plan: Plan) -> tuple[dict[str, Any], ...]:
    """The contenders of a config, completed by the rule, as the settings in which each differs from the plan."""
    ours, found = plan.to_json(), list[dict[str, Any]]()
    for settings in plan.contenders:
        config = replace(policy.config, **settings)
        size = make_policy(config, policy.observation_space, policy.action_space).size
        theirs = _with_strategy(config, size).to_json()
        found.append({name: theirs[name] for name in ours if name in OF_A_CONTENDER and theirs[name] != ours[name]})
    return tuple(found)


def plan_for(config: TrainConfig, size: int) -> Plan:
    """The plan of a run with some policy of ``size`` parameters, before the spaces are known."""
    linear = with_choices(config, policy="mlp", hidden_sizes=(), observation_normalization=False, action_squash="clip")
    return Plan.of(_with_strategy(linear, size))


def most_candidates(config: TrainConfig) -> int:
    """Number of candidates that no generation exceeds, whatever the policy will be."""
    return max(largest_population(plan_for(config, size)) for size in (2, _DIAGONAL + 1))


def _pictures(config: TrainConfig) -> str:
    if "preprocessing" not in config.decided:
        return ""
    size = config.preprocessing.get("resize")
    words = ["grey"] * bool(config.preprocessing.get("grey")) + ([f"{size} by {size} pixels"] if size else [])
    return f"pictures {', '.join(words)}"


def _policy(config: TrainConfig) -> str:
    if config.policy != "mlp":
        return f"policy {config.policy}"
    hidden = " and ".join(map(str, config.hidden_sizes))
    return (
        f"policy mlp with {hidden} hidden units" if hidden else "policy mlp without hidden layers (linear, with bias)"
    )


def _bound(config: TrainConfig) -> str:
    if "strategy_options" not in config.decided:
        return ""
    return f"step size at most {config.strategy_options['max_step_size']:g}"


def _words(config: Plan) -> Iterator[str]:
    steps = config.steps_per_generation
    more = ""
    if steps is not None:
        least, most = candidates_within(config)
        more = f" at first, then as many as {figures(steps)} steps allow, {least} to {most}"
    words = {
        "max_episode_steps": f"at most {config.max_episode_steps} steps an episode",
        "preprocessing": _pictures(config),
        "policy": _policy(config),
        "observation_normalization": "observations normalised" if config.observation_normalization else "",
        "action_squash": "actions stretched to their bounds" if config.action_squash == "tanh" else "",
        "strategy": f"strategy {config.strategy}",
        "population_size": f"{config.population_size} candidates{more}",
        "sigma": f"sigma {config.sigma:g}",
        "strategy_options": _bound(config),
    }
    for name, text in words.items():
        if name in config.decided and text:
            yield text
