"""The rule for the strategy and its settings that a config leaves at "auto": a function of the policy's size alone.

docs/results/defaults.md tells on which tasks it was chosen, and what it reaches on others.
"""

from collections.abc import Iterator

from es_core.config.train_config import STRATEGY_DEFAULTS, TrainConfig
from es_core.policies.defaults import FEW_HIDDEN, decided, open_settings
from es_core.policies.network import Policy

_REASONS = {
    "cma_es": "few enough for a full covariance matrix",
    "sep_cma_es": "too many for a full covariance matrix",
    "openai_es": "too many to learn a variance for each, or candidates too few",
}

LARGEST = 64
"""Largest population that the rule chooses, and that of strategies without a covariance."""

_SMALLEST = 16  # population that it begins with: many generations, as long as all of them gain something
_SIGMA = 0.05  # of strategies that have no other
_SIGMA_OF_FEW = 1.0  # where a covariance is learnt
_COVARIANCE = 200  # parameters up to which a full covariance matrix is learnt: its decomposition takes d^3 operations
_DIAGONAL = 20_000  # parameters up to which a variance is learnt for each
_FEWEST = 4  # candidates from which a covariance can be learnt


def with_strategy(config: TrainConfig, size: int) -> TrainConfig:
    """Return the config with a strategy, its population and sigma, for a policy of ``size`` parameters."""
    config = decided(config, strategy=_strategy(config, size))
    has_covariance = config.strategy in {"cma_es", "sep_cma_es"}
    grows = has_covariance and "population_size" in open_settings(config) and config.steps_per_generation is None
    return decided(
        config,
        population_size=_SMALLEST if has_covariance else LARGEST,
        population_limit=_limit(size) if grows else None,
        episode_seeds="grouped" if has_covariance else "common",
        sigma=_sigma(config) if has_covariance else STRATEGY_DEFAULTS.get(config.strategy, {}).get("sigma", _SIGMA),
    )


def _sigma(config: TrainConfig) -> float:
    """Where the rule has chosen a few hidden units, candidates must differ as much as these units' weights do.

    With less they all begin nearly linear, and swing a pendulum up without ever catching it.
    """
    has_few = "hidden_sizes" in config.decided and config.hidden_sizes == FEW_HIDDEN
    return _SIGMA_OF_FEW if has_few else float(STRATEGY_DEFAULTS[config.strategy]["sigma"])


def _strategy(config: TrainConfig, size: int) -> str:
    is_tiny = "population_size" not in open_settings(config) and config.population_size < _FEWEST
    if is_tiny or size > _DIAGONAL:
        return "openai_es"
    return "cma_es" if size <= _COVARIANCE else "sep_cma_es"


def _limit(size: int) -> int:
    """Two candidates for each parameter: fitness is noisy, and near the end the steps of fewer wander off."""
    limit = _SMALLEST
    while limit < min(2 * size, LARGEST):
        limit *= 2
    return limit


def settled(policy: Policy) -> TrainConfig:
    """The config of a run with this policy: nothing that the rule decides is "auto"."""
    return with_strategy(policy.config, policy.size)


def explained(policy: Policy) -> str:
    """Return in one line what the rule decides for a policy, and why; empty if it decides nothing of note."""
    config = settled(policy)
    words = ", ".join(_words(config))
    if "strategy" not in config.decided or config.strategy not in _REASONS:
        return words
    return f"{words}, since {policy.size} parameters are {_REASONS[config.strategy]}"


def _policy(config: TrainConfig) -> str:
    if config.policy != "mlp":
        return f"policy {config.policy}"
    hidden = " and ".join(map(str, config.hidden_sizes))
    return (
        f"policy mlp with {hidden} hidden units" if hidden else "policy mlp without hidden layers (linear, with bias)"
    )


def _words(config: TrainConfig) -> Iterator[str]:
    limit = config.population_limit
    more = "" if limit in {None, config.population_size} else f", up to {limit} when they gain nothing"
    words = {
        "policy": _policy(config),
        "observation_normalization": "observations normalised" if config.observation_normalization else "",
        "action_squash": "actions stretched to their bounds" if config.action_squash == "tanh" else "",
        "strategy": f"strategy {config.strategy}",
        "population_size": f"{config.population_size} candidates{more}",
        "sigma": f"sigma {config.sigma:g}",
    }
    for name, text in words.items():
        if name in config.decided and text:
            yield text
