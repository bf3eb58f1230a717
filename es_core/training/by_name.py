"""Trainers by name: those of plugins, and evolution for every name of a strategy."""

from es_core.config.strategy_defaults import is_trainer, plugin_class
from es_core.training.evolution import Evolution
from es_core.training.trainer import Trainer
from es_envs import PluginError, registry


def find_trainer(strategy: str) -> type[Trainer]:
    """The class of the trainer that the setting ``strategy`` names.

    Raises:
        PluginError: it cannot be imported, or is none.
    """
    if not is_trainer(strategy):
        return Evolution
    trainer = plugin_class(strategy)
    if not (isinstance(trainer, type) and issubclass(trainer, Trainer)):
        raise PluginError(
            f"trainer {strategy!r} ({registry.trainers()[strategy]}) must be a subclass of es_core.Trainer"
        )
    return trainer
