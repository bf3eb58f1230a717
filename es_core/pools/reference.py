"""A reference batch for virtual batch normalisation: observations from episodes of random actions."""

from collections.abc import MutableSequence, Sequence
from typing import Any

import numpy as np

from es_core import seeding
from es_core.policies.normalization import REFERENCE_SIZE, ReferenceBatch
from es_core.processes import process
from es_core.rollout.rollout import Rollout
from es_envs.scripts import RandomActions


def play_reference(
    rollout: Rollout, seeds: Sequence[int], record: MutableSequence[int] | None = None
) -> ReferenceBatch:
    """Play episodes with random actions, one after the other, until there are enough observations.

    Args:
        rollout: the rollout that plays them.
        seeds: the episodes' seeds, as many as observations, since an episode may end at once.
        record: this process's record of what it plays, or None.

    Raises:
        ValueError: an observation is not finite.
        Exception: an episode raises it.
    """
    policy = rollout.policy
    observations = np.empty((REFERENCE_SIZE, policy.inputs), np.float32)
    seen = 0

    class Watching(RandomActions):
        def __call__(self, observation: Any, mask: Any = None) -> Any:
            nonlocal seen
            policy.encode(observation, observations[seen])
            if not np.isfinite(observations[seen]).all():
                raise ValueError(f"the observation is not finite: {observation!r}")
            seen += 1
            return super().__call__(observation, mask)

    for seed in seeds:
        if record is not None:
            record[process.SEED] = seed
        drawn = seeding.derive(seed, seeding.Purpose.REFERENCE_BATCH)
        for _ in rollout.steps(seed, Watching(rollout.env, drawn, masked=policy.config.action_masks)):
            if seen == REFERENCE_SIZE:
                return ReferenceBatch(observations)
    raise RuntimeError(f"{len(seeds)} episodes had fewer than {REFERENCE_SIZE} observations")
