"""Transfer: an evolved policy as one that gradients can go on with, the same function of observations."""

from dataclasses import replace
from itertools import pairwise

import numpy as np

from es_core.policies.by_name import make_policy
from es_core.policies.layers import matrices
from es_core.policies.normalization import ReferenceBatch
from es_core.runs.checkpoint import Checkpoint
from es_stable_baselines3.algorithms import dense_layers_of


def transferred(checkpoint: Checkpoint) -> Checkpoint:
    """Return the checkpoint's policy as a perceptron with biases that acts the same.

    A linear policy without bias gets one of zero. The normalisation by a reference batch is folded into the weights.
    Outputs that only vary actions in training are left out: the algorithm explores in its own way.

    Args:
        checkpoint: the policy.

    Raises:
        ValueError: it remembers, is for images or is a module: no algorithm of Stable-Baselines3 takes it over here.
    """
    policy = checkpoint.policy()
    dense = dense_layers_of(policy)
    config = replace(
        checkpoint.config,
        policy="mlp",
        hidden_sizes=tuple(after.inputs for _, after in pairwise(dense)),
        activation=dense[0].activation or checkpoint.config.activation,
        virtual_batch_normalization=False,
        sample_actions=False,
        action_noise=0.0,
    )
    plain = make_policy(config, checkpoint.observation_space, checkpoint.action_space)
    mean = np.zeros(plain.size, np.float32)
    own = matrices(policy.effective_parameters(checkpoint.mean, checkpoint.statistics), dense)
    for (new,), (old,) in zip(matrices(mean, dense_layers_of(plain)), own, strict=True):
        new[:, : old.shape[1]] = old[: len(new)]
    is_folded = isinstance(checkpoint.statistics, ReferenceBatch)
    return replace(
        checkpoint, config=config, mean=mean, strategy={}, statistics=None if is_folded else checkpoint.statistics
    )
