"""Registers HopperBullet-v0, Walker2DBullet-v0, HalfCheetahBullet-v0, AntBullet-v0, HumanoidBullet-v0, A1Bullet-v0."""

from collections.abc import Sequence
from typing import Any

from es_envs import EnvDefinition, hookimpl

__all__ = ["register_envs"]

ROBOTS = {
    "Hopper": "Hop forward on one leg",
    "Walker2D": "Walk forward on two legs, in a plane",
    "HalfCheetah": "Run forward with a half cheetah, in a plane",
    "Ant": "Run forward on four legs",
    "Humanoid": "Walk forward as a humanoid",
    "A1": "Trot forward with the quadruped A1",
}


# `es-envs train ID --seed 0 --max-steps 2000000` evolves their policies, for the walker --max-steps 8000000, for A1
# --hidden-sizes 16, for the ant --seed 1, for the half cheetah --seed 2 --sigma 0.1.
EVOLVED = ("Hopper", "Walker2D", "HalfCheetah", "Ant", "A1")

# With the rule's 0.1, two half cheetahs of three hardly move, and the ant runs a third less far.
RECOMMENDED = {"HalfCheetah": {"sigma": 0.5}, "Ant": {"sigma": 0.5}}

# Feet by which gaits differ, in the order of the robot's contacts.
FEET = {
    "Walker2D": ("right foot", "left foot"),
    "Ant": ("front left foot", "front right foot", "back left foot", "back right foot"),
    "A1": ("front right foot", "front left foot", "back right foot", "back left foot"),
}


@hookimpl
def register_envs() -> list[EnvDefinition]:
    """This plugin's environments."""
    return [
        EnvDefinition(
            id=f"{name}Bullet-v0",
            entry_point=f"es_locomotion.robots:{name}Env",
            fitness="es_locomotion.fitness:progress_and_survival",
            fitnesses={"progress": "final_info:progress", "episode_return": "episode_return"},
            **_gaits(FEET.get(name, ())),
            max_episode_steps=1000,
            pretrained=f"es_locomotion:{name}Bullet-v0.safetensors" if name in EVOLVED else None,
            summary=f"{summary} (Bullet physics)",
            recommended=RECOMMENDED.get(name, {}),
        )
        for name, summary in ROBOTS.items()
    ]


def _gaits(feet: Sequence[str]) -> dict[str, Any]:
    """How episodes of a robot with these feet are described, if it has some."""
    if not feet:
        return {}
    return {"behaviour": "es_locomotion.fitness:share_of_time_down", "behaviours": dict.fromkeys(feet, (0.0, 1.0))}
