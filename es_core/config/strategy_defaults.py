"""Settings by strategy: what each has in the place of the fields' defaults, and which it does not use.

The setting ``strategy`` names a strategy of ours, or a strategy or trainer of a plugin, whose class then says this.
"""

from collections.abc import Collection, Mapping
from typing import Any

from es_core.config.checks import AUTO
from es_envs import PluginError, import_path, registry

STRATEGY_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "openai_es": {},
    "ars": {
        "sigma": 0.03,
        "learning_rate": 0.02,
        "policy": "linear",
        "initialization": "zeros",
        "observation_normalization": True,
        "observation_clip": None,
        "observation_std_floor": 1e-6,
    },
    # Where a strategy adapts sigma, the rule chooses the first one.
    "pgpe": {"learning_rate": None, "optimizer": "clipup"},
    "snes": {"learning_rate": 1.0, "shaping": "nes"},
    "cma_es": {},
    "sep_cma_es": {},
    "ga": {},
    "random_search": {"sigma": 0.5},
    "nsra_es": {},
    # A goal for one policy does not end a search for many.
    "map_elites": {"sigma": 0.02, "observation_normalization": False, "solved_at": None},
    "cma_mae": {"sigma": 0.5, "observation_normalization": False, "solved_at": None},
}
"""Values of all strategies of ours, from their papers, that differ from the fields' defaults."""

STABLE_BASELINES3 = "the plugin es-stable-baselines3: pip install 'es-envs[rl]'"
"""The plugin that is missing where nothing registers "sb3:ppo" and other names like it."""


def plugin_class(name: str) -> Any:
    """Import the class of a strategy or trainer that a plugin registers; None if none registers this name.

    Raises:
        PluginError: it cannot be imported.
    """
    if name in {AUTO, *STRATEGY_DEFAULTS}:
        return None
    target = {**registry.strategies(), **registry.trainers()}.get(name)
    if target is None:
        return None
    try:
        return import_path.load(target)
    except (ImportError, ValueError) as error:
        raise PluginError(f"strategy {name!r} ({target}) cannot be imported: {error}") from error


def is_trainer(name: str) -> bool:
    """Return True if a plugin registers a trainer of this name, which trains without a strategy."""
    return name not in {AUTO, *STRATEGY_DEFAULTS} and name in registry.trainers()


def defaults_of(name: str) -> Mapping[str, Any]:
    """Values that a strategy or trainer has in the place of the fields' defaults; those of an unknown one are empty."""
    defaults: Mapping[str, Any] = getattr(plugin_class(name), "defaults", {})
    return STRATEGY_DEFAULTS.get(name, defaults)


def keeps_repertoire(name: str) -> bool:
    """Return True if a strategy fills a repertoire, and so needs names and ranges of behaviours."""
    return name in {"map_elites", "cma_mae"} or bool(getattr(plugin_class(name), "keeps_repertoire", False))


def unused_by(name: str) -> Collection[str]:
    """Names of the settings that a trainer does not use."""
    unused: Collection[str] = getattr(plugin_class(name), "unused", ())
    return unused
