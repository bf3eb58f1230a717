"""Registration with Gymnasium on import: ``gymnasium.make("es_envs.gym:RaceCar-v0")``."""

from es_envs.registry import register_with_gymnasium

register_with_gymnasium()
