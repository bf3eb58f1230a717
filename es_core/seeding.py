"""Randomness as a function: every seed is f(root seed, purpose, generation, index).

No generator lives longer than one use, so nothing about randomness has to be stored: a resumed run draws the same
numbers as an uninterrupted one, whichever worker draws them.
"""

from enum import IntEnum

import numpy as np

_EPISODE_SEEDS = 2**30  # seeds available to training; Gymnasium takes any plain non-negative int


class Purpose(IntEnum):
    """Purpose of a seed. The numbers enter the seeds: changing one changes every result."""

    INITIAL_MEAN = 1
    NOISE = 2
    TRAINING = 3
    EVALUATION = 4
    CONFIRMATION = 5
    TEST = 6
    ACTION_NOISE = 7
    PARENT = 9
    REFERENCE_BATCH = 10
    STATISTICS = 11
    TUNING = 12
    COMPARISON = 13
    PROBE = 14
    FINAL = 15
    ELITE = 16
    BASELINE = 17
    ACTOR = 18
    LEARNING = 19
    RESTART = 20
    EMITTER = 21
    TRIAL = 22


# Disjoint ranges, so that a score is never taken on a start that shaped the policy or chose the checkpoint.
_RANGES = {
    Purpose.TRAINING: (0, _EPISODE_SEEDS),
    Purpose.EVALUATION: (_EPISODE_SEEDS, _EPISODE_SEEDS // 2),
    Purpose.CONFIRMATION: (_EPISODE_SEEDS * 3 // 2, _EPISODE_SEEDS // 8),
    Purpose.FINAL: (_EPISODE_SEEDS * 13 // 8, _EPISODE_SEEDS // 8),
    Purpose.TEST: (_EPISODE_SEEDS * 7 // 4, _EPISODE_SEEDS // 4),
    Purpose.TRIAL: (_EPISODE_SEEDS * 3 // 2, _EPISODE_SEEDS // 8),  # they choose a policy, as confirmations do
    Purpose.REFERENCE_BATCH: (0, _EPISODE_SEEDS),  # a part of training
    Purpose.ELITE: (0, _EPISODE_SEEDS),  # a part of training, too
    Purpose.BASELINE: (0, _EPISODE_SEEDS),  # a part of training, too
}


def derive(seed: int, purpose: Purpose, generation: int = 0, index: int = 0) -> int:
    """Derive a 63-bit seed for one use.

    Args:
        seed: the root seed of a run, non-negative.
        purpose: the seed's purpose.
        generation: the generation, from 0.
        index: number among the generation's seeds of this purpose.

    Raises:
        ValueError: the root seed is negative.
    """
    if seed < 0:
        raise ValueError(f"seed must be a whole number of at least 0, got {seed}")
    sequence = np.random.SeedSequence((seed, int(purpose), generation, index))
    return int(sequence.generate_state(1, np.uint64)[0] >> np.uint64(1))


def episode_seeds(seed: int, purpose: Purpose, count: int, generation: int = 0, *, first: int = 0) -> tuple[int, ...]:
    """Derive ``count`` seeds for ``env.reset``, from the range that belongs to ``purpose``, starting at a number."""
    start, size = _RANGES[purpose]
    return tuple(start + derive(seed, purpose, generation, index) % size for index in range(first, first + count))


def generator(seed: int) -> np.random.Generator:
    """Make a generator for one use. SFC64 is NumPy's fastest; its seeding hashes all 63 bits."""
    return np.random.Generator(np.random.SFC64(seed))
