"""Registers CartPoleBullet-v0, CartPoleSwingUp-v0 and DoublePole-v0: poles on a cart, in Bullet physics."""

from es_envs import EnvDefinition, hookimpl

__all__ = ["register_envs"]


@hookimpl
def register_envs() -> list[EnvDefinition]:
    """This plugin's environments."""
    return [
        EnvDefinition(
            id="CartPoleBullet-v0",
            entry_point="es_cartpole_bullet.env:CartPoleBulletEnv",
            fitness="episode_length",
            max_episode_steps=500,
            solved_at=500.0,
            pretrained="es_cartpole_bullet:CartPoleBullet-v0.safetensors",
            summary="Balance a pole on a cart (Bullet physics)",
            recommended={
                "policy": "linear",
                "observation_normalization": False,  # its observations are of the order of 1
                "strategy": "openai_es",
                "sigma": 0.1,
                "optimizer": "sgd",  # Adam takes about twice the steps
                "learning_rate": 0.1,
                "population_size": 32,
            },
        ),
        EnvDefinition(
            id="CartPoleSwingUp-v0",
            entry_point="es_cartpole_bullet.poles:CartPoleSwingUpEnv",
            fitness="episode_return",
            max_episode_steps=250,
            solved_at=200.0,
            summary="Swing up a pole on a cart, and keep it there",
            # Its observations are of the order of 1. Normalised, some searches swing the pole and never balance it.
            recommended={"observation_normalization": False},
        ),
        EnvDefinition(
            id="DoublePole-v0",
            entry_point="es_cartpole_bullet.poles:DoublePoleEnv",
            fitness="episode_length",
            max_episode_steps=1000,
            solved_at=1000.0,
            summary="Balance two poles on one cart",
        ),
    ]
