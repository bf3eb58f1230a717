"""Settings that nobody gives, and that older versions did not have: what they mean, in one place."""

from collections.abc import Collection, Mapping
from typing import Any

from es_core.config.checks import AUTO

# Fields that bound a run: the only ones that may change when it is resumed, and only grow (None: no bound).
BOUNDS = ("generations", "max_steps", "max_episodes")

# Fields that say how another setting works, and are of no use without it, or one of two.
ONLY_WITH: Mapping[str, Collection[str]] = {
    "schedule": ("sigma_final", "learning_rate_final"),
    "schedule_generations": ("sigma_final", "learning_rate_final"),
    "episode_cap_start": ("episode_cap",),
    "statistics_fraction": ("observation_normalization",),
}

# Fields that a run chooses when it begins, and the values that leave the choice to it, where that is not "auto".
_LEFT_OPEN: Mapping[str, Any] = {
    "fitness": None,
    "max_episode_steps": None,
    "schedule_generations": None,
    "strategy_options": {},
    "vector_envs": None,
    "vector_starts": None,
    "repeatable": None,
}

# What it means that an older config lacks a field, where that is not the field's default.
BEFORE: Mapping[str, Any] = {
    "bits": 0,
    "device": "cpu",
    "generations": 300,
    "strategy": "openai_es",
    "population_size": 64,
    "steps_per_generation": None,
    "steps_limit": None,
    "sigma": 0.05,
    "policy": "mlp",
    "hidden_sizes": (32, 32),
    "observation_normalization": False,
    "observation_std_floor": 0.1,
    "action_squash": "clip",
    "action_masks": False,
    "episode_seeds": "common",
    "eval_budget": None,
}

# Fields in which the contenders of a run may differ: its task, its budgets and its episodes are the same for all.
OF_A_CONTENDER = frozenset({
    "strategy", "strategy_options", "population_size", "steps_per_generation", "steps_limit", "sigma", "learning_rate",
    "optimizer", "optimizer_options", "weight_decay", "shaping", "top_directions", "policy", "hidden_sizes",
    "activation", "initialization", "output_scale", "observation_normalization", "observation_clip",
    "observation_std_floor", "action_squash", "action_noise", "sample_actions", "episode_seeds",
})  # fmt: skip

# Fields that may be given as objects; the config has their names.
OBJECTS = ("fitness", "policy")

# Settings that say which strategy or policy is meant, if none is named.
IMPLIED: Mapping[str, tuple[str, frozenset[str]]] = {
    "strategy": (
        "openai_es",
        frozenset({
            "learning_rate", "learning_rate_final", "sigma_final", "optimizer", "optimizer_options", "weight_decay",
            "shaping", "top_directions",
        }),
    ),
    "policy": ("mlp", frozenset({"hidden_sizes", "activation"})),
}  # fmt: skip
# Values that suit one strategy say little about another.
OF_ONE_STRATEGY = frozenset({
    "strategy_options", "sigma", "sigma_final", "learning_rate", "learning_rate_final", "optimizer",
    "optimizer_options", "weight_decay", "shaping", "top_directions",
})  # fmt: skip


def implied(name: str, settings: Mapping[str, Any]) -> Any:
    """The strategy or policy that ``settings`` name, or imply: a learning rate is openai_es's, hidden_sizes an mlp's.

    Args:
        name: "strategy" or "policy".
        settings: fields of TrainConfig that are given.
    """
    default, signs = IMPLIED[name]
    return settings.get(name, default if signs & settings.keys() else AUTO)


def is_left_open(name: str, value: object) -> bool:
    """Return True if a setting's value, as JSON holds it, leaves the choice to the run."""
    return bool(value == _LEFT_OPEN.get(name, AUTO))
