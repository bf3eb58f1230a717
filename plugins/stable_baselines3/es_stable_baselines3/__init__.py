"""Registers algorithms of Stable-Baselines3 as trainers, sb3:ppo and others, and the strategy erl, which uses them."""

from es_envs import hookimpl

__all__ = ["register_strategies", "register_trainers"]


@hookimpl
def register_trainers() -> dict[str, str]:
    """The algorithms, and names of Stable-Baselines3 for which there is a reason why they are none."""
    classes = ("A2C", "CrossQ", "DDPG", "DQN", "PPO", "QRDQN", "SAC", "TD3", "TQC", "TRPO")
    trainers = {f"sb3:{name.lower()}": f"es_stable_baselines3.trainers:{name}" for name in classes}
    others = dict.fromkeys(("sb3:ars", "sb3:maskableppo", "sb3:recurrentppo"), "es_stable_baselines3.trainers:Unfit")
    return trainers | others


@hookimpl
def register_strategies() -> dict[str, str]:
    """Evolution with a learner."""
    return {"erl": "es_stable_baselines3.erl:ERL"}
