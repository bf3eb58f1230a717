"""A1 with a behaviour of two numbers: how long its front and its back feet are down.

``gaits:A1Pairs-v0``: the module in the id registers it, and worker processes find it, since they look where the main
process does.
"""

from dataclasses import replace

import es_envs
from es_envs import Episode


def front_and_back(episode: Episode) -> list[float]:
    """Share of the steps after which a foot was down, mean of the two front feet and of the two back feet."""
    front_right, front_left, back_right, back_left = episode.final_info["down"]
    return [(front_right + front_left) / 2, (back_right + back_left) / 2]


es_envs.register(
    replace(
        es_envs.definition("A1Bullet-v0"),
        id="A1Pairs-v0",
        plugin=None,
        pretrained=None,
        behaviour="gaits:front_and_back",
        behaviours={"front feet": (0.0, 1.0), "back feet": (0.0, 1.0)},
    )
)
