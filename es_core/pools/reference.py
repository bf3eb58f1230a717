"""A reference batch for virtual batch normalisation: observations that random actions come across."""

from collections.abc import Sequence
from copy import deepcopy

import numpy as np

from es_core import seeding
from es_core.normalizer import REFERENCE_SIZE, ReferenceBatch
from es_core.policies import Policy
from es_core.rollout import Lane, Observer


def play_reference(lane: Lane, policy: Policy, seeds: Sequence[int], observer: Observer) -> ReferenceBatch:
    """Play episodes, one after the other, until there are enough observations.

    Args:
        lane: where.
        policy: flattens the observations.
        seeds: of the episodes: as many as there are observations, since one may end at once.
        observer: called after every step.

    Raises:
        ValueError: an observation is not finite.
        Exception: whatever an episode raises.
    """
    observations = np.empty((REFERENCE_SIZE, policy.inputs), np.float32)
    actions = deepcopy(policy.action_space)
    seen = 0
    for seed in seeds:
        actions.seed(seeding.derive(seed, seeding.Purpose.REFERENCE_BATCH))
        episode = lane.episode(seed, [observer])
        observation = next(episode)
        try:
            while seen < REFERENCE_SIZE:
                policy.encode(observation, observations[seen])
                if not np.isfinite(observations[seen]).all():
                    raise ValueError(f"the observation is not finite: {observation!r}")
                seen += 1
                observation = episode.send(actions.sample())
        except StopIteration:  # its end
            continue
        break
    return ReferenceBatch(observations)
