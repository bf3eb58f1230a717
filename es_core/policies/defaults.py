"""The rule for the policy's settings that a config leaves at "auto": a function of the spaces alone."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from es_core.config.checks import AUTO
from es_core.config.plan import with_choices
from es_core.config.train_config import TrainConfig
from es_core.formatting import figures
from es_core.policies.layered import smallest_image
from es_core.policies.network import Policy
from es_envs.spaces import has_channels_first, image_size, input_size, is_image, leaves

# Linear outputs, with a bias, are learnt from the fewest episodes. But what is linear in two angles and a speed hardly
# swings a pendulum up, and where there are so few inputs, hidden units cost few parameters. (The last is for a policy
# that is given without its sizes.)
_FEW_INPUTS, _DEFAULT_HIDDEN = 5, (32, 32)
FEW_HIDDEN = (8,)
"""Sizes of the hidden layers behind few inputs."""
_MANY = 1_000_000  # parameters
PICTURE = 48
"""Pixels in height and width to which larger pictures are brought."""
_COMMON_BOUNDS = 0.25, 4.0  # of actions that outputs may be as they are

Space = gymnasium.Space[Any]


def with_preprocessing(config: TrainConfig, observation_space: Space) -> TrainConfig:
    """Return the config with small grey pictures, if it leaves the policy and ``preprocessing`` open.

    Each pixel of a picture costs parameters, and evolution needs more episodes the more of them there are.

    Args:
        config: the config.
        observation_space: that of the environment itself.
    """
    if config.policy != AUTO or config.preprocessing or find_spec("cv2") is None:
        return config
    try:
        images = [image_size(part) for _, _, part in leaves(observation_space) if is_image(part)]
        are_last = not any(has_channels_first(part) for _, _, part in leaves(observation_space) if is_image(part))
    except ValueError:  # which the policy tells
        return config
    chosen: dict[str, Any] = {}
    if any(channels == 3 for _, _, channels in images):
        chosen["grey"] = True
    if any(max(height, width) > PICTURE for height, width, _ in images):
        chosen["resize"] = PICTURE
    if not (chosen and are_last):
        return config
    return replace(config, preprocessing=chosen, decided=(*config.decided, "preprocessing"))


def with_policy(config: TrainConfig, observation_space: Space, action_space: Space) -> TrainConfig:
    """Return the config with a policy, and with what becomes of observations and outputs.

    Raises:
        ValueError: observations of this space have no fixed length.
    """
    images = [part for _, _, part in leaves(observation_space) if is_image(part)]
    hidden: tuple[int, ...] = _DEFAULT_HIDDEN
    if config.policy == AUTO and not images:
        hidden = FEW_HIDDEN if input_size(observation_space) <= _FEW_INPUTS else ()
    answers_itself = ":" in config.policy  # a user's module knows which actions there are
    # By its name, since workers decide this, too, and a node of a cluster need not have the strategy's plugin.
    has_learner = config.strategy == "erl" and isinstance(action_space, spaces.Box) and action_space.is_bounded()
    stretches = config.action_bins is None and not answers_itself and (has_learner or not _are_reachable(action_space))
    normalizes = not (images or config.virtual_batch_normalization) and _has_measures(observation_space)
    return with_choices(
        config,
        policy=_convolutional(images) if images else "mlp",
        hidden_sizes=hidden,
        observation_normalization=normalizes,
        action_squash="tanh" if stretches else "clip",
    )


def _has_measures(space: Space) -> bool:
    """Return True if some observations are numbers of a measure, whose unit says nothing: whole numbers are counts.

    What is rarely there, such as a door in a grid, is a large number once it is divided by its standard deviation.
    """
    boxes = [part for _, _, part in leaves(space) if isinstance(part, spaces.Box)]
    return any(np.issubdtype(box.dtype, np.floating) for box in boxes)


def _convolutional(images: Sequence[Space]) -> str:
    """The larger convolutional policy, if no image is too small for it."""
    pixels = min(min(image_size(image)[:2]) for image in images)
    return "cnn_nature" if pixels >= smallest_image("cnn_nature") else "cnn_small"


def _are_reachable(space: Space) -> bool:
    """Return True if outputs of the order of 1 reach most of the actions, or nobody knows which they reach."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        boxes = [leaf for _, _, leaf in leaves(space) if isinstance(leaf, spaces.Box)]
        return all(map(_are_reachable, boxes)) or not all(box.is_bounded() for box in boxes)
    if not isinstance(space, spaces.Box):
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        width = (space.high.astype(float) - space.low) / 2
        centre = (space.high.astype(float) + space.low) / 2
        if not (np.isfinite(width) & (width < np.finfo(np.float32).max / 2)).all():
            return True
    least, most = _COMMON_BOUNDS
    return bool(((least <= width) & (width <= most) & (np.abs(centre) <= width / 2)).all())


_NETWORK = {"policy", "policy_options", "hidden_sizes", "activation", "virtual_batch_normalization"}
_AROUND_IT = {
    "preprocessing",
    "observation_normalization",
    "observation_std_floor",
    "observation_clip",
    "action_squash",
}


def inherit_policy(config: TrainConfig, initial: TrainConfig, *, given: Collection[str]) -> TrainConfig:
    """Return the config with the policy of the checkpoint that the run starts from, as far as the user gave no other.

    Who gives another kind of policy gives all of it; of the same kind, what is not given is as it was.

    Args:
        config: the run's config.
        initial: the checkpoint's.
        given: names of the settings that the user gave; what an environment recommends is none of them.
    """
    given = {name for name in given if getattr(config, name, AUTO) != AUTO}
    is_other = config.policy not in {AUTO, initial.policy}
    left = (set() if is_other else _NETWORK - given) | (_AROUND_IT - given)
    return replace(config, **{name: getattr(initial, name) for name in left})


def advice_on_pictures(policy: Policy) -> str:
    """Say how to make a policy smaller whose many parameters are for large pictures; empty of any other."""
    images = [image_size(part) for _, _, part in leaves(policy.observation_space) if is_image(part)]
    if policy.size <= _MANY or not images:
        return ""
    height, width, channels = max(images, key=math.prod)
    install = "" if find_spec("cv2") else "; that needs OpenCV, pip install 'es-envs[image]'"
    return (
        f"the policy has {figures(policy.size)} parameters, for pictures of {height} by {width} pixels with {channels} "
        "channels, and evolution learns them slowly: make the pictures smaller, such as preprocessing="
        f"{{'grey': True, 'resize': {PICTURE}}} (on the command line: --preprocessing grey=true,resize={PICTURE})"
        f"{install}"
    )
