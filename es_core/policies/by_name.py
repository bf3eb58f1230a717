"""Policies: from observations to actions. ``make_policy`` builds the one that a config names."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium

from es_core.config.choices import SCRIPTED
from es_core.config.train_config import TrainConfig
from es_core.policies.defaults import with_policy
from es_core.policies.layered import convolutional, linear, mlp, recurrent
from es_core.policies.network import Policy
from es_core.policies.scripted import ScriptedPolicy
from es_envs.arguments import require_one_of
from es_envs.spaces import is_image, leaves, require_supported

POLICIES: Mapping[str, Callable[..., Policy]] = {
    "linear": linear,
    "mlp": mlp,
    "rnn": partial(recurrent, "rnn"),
    "lstm": partial(recurrent, "lstm"),
    "gru": partial(recurrent, "gru"),
    "cnn_small": partial(convolutional, "cnn_small"),
    "cnn_nature": partial(convolutional, "cnn_nature"),
}


def make_policy(
    config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
) -> Policy:
    """The policy that ``config`` names, for these spaces.

    A name "module:Class" is imported, so it must be trusted; it needs torch.

    Raises:
        ValueError: the policy, one of its settings or a space is not supported, or torch is not installed.
    """
    require_supported(observation_space, action_space)
    config = with_policy(config, observation_space, action_space)
    if config.policy.startswith(SCRIPTED):
        return ScriptedPolicy(config, observation_space, action_space)
    if config.observation_normalization and any(is_image(part) for _, _, part in leaves(observation_space)):
        raise ValueError(
            "observation_normalization is for numbers, not for images, whose pixels a policy divides by 255: set it to "
            "False (on the command line: --no-observation-normalization)"
        )
    if ":" in config.policy:
        try:
            from es_core.policies.torch_policy import TorchPolicy
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            raise ValueError(f"policy={config.policy!r} needs torch: pip install 'es-envs[torch]'") from error
        return TorchPolicy(config, observation_space, action_space)
    require_one_of("policy", config.policy, [*POLICIES, "module:Class (a torch module)"])
    if config.policy_options:
        raise ValueError(f"policy_options are for a torch module, policy='module:Class'; {config.policy!r} has none")
    return POLICIES[config.policy](config, observation_space, action_space)
