"""A probe of a machine's arithmetic: machines with equal probes compute the same run, to the last bit."""

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from es_core import seeding
from es_core.config.train_config import TrainConfig
from es_core.rollout.rollout import Rollout
from es_core.strategies.population import Population

_OBSERVATIONS, _STEPS = 100, 200
_SCALE = 0.1  # of the noise: about as far from the mean as candidates usually are


@dataclass(frozen=True)
class Probe:
    """SHA-256 hashes of what a worker computes before its first task.

    Attributes:
        candidate: parameters, rebuilt from their seed.
        outputs: raw outputs of that candidate for 100 seeded observations.
        episode: observations and rewards of its first 200 steps of an episode, up to an error if there is one.
    """

    candidate: str
    outputs: str
    episode: str


def take_probe(rollout: Rollout, config: TrainConfig) -> Probe:
    """Take the probe of this process, the same wherever arithmetic, environment and seeds are.

    Args:
        rollout: the rollout that plays its episode.
        config: the run's config.
    """
    policy, seed = rollout.policy, config.seed
    drawn = seeding.derive(seed, seeding.Purpose.PROBE)
    population = Population(
        generation=0,
        base=policy.initial(seed)[np.newaxis],
        parent=np.zeros(1, np.int64),
        scale=_SCALE,
        noise_seed=np.array([drawn]),
        sign=np.ones(1, np.int8),
    )
    parameters = population.candidate(0)
    rollout.use(parameters, None)
    space = deepcopy(policy.observation_space)
    space.seed(drawn % 2**32)
    outputs = hashlib.sha256()
    for _ in range(_OBSERVATIONS):
        outputs.update(rollout.actor.outputs(space.sample()).tobytes())
    episode, flat = hashlib.sha256(), np.empty(policy.inputs, np.float32)

    def observe(observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:  # noqa: ARG001
        policy.encode(observation, flat)
        episode.update(flat.tobytes() + np.float64(reward).tobytes())

    start = seeding.episode_seeds(seed, seeding.Purpose.TRAINING, 1)[0]
    try:
        rollout.episode(start, observers=[observe], max_steps=_STEPS)
    except Exception as error:  # noqa: BLE001  (which training may bear: a result like any other)
        episode.update(type(error).__name__.encode())
        rollout.close()  # the environment is broken: the next episode gets a fresh one
    return Probe(_sha256(parameters), outputs.hexdigest(), episode.hexdigest())


def _sha256(numbers: np.ndarray[Any, Any]) -> str:
    return hashlib.sha256(numbers.tobytes()).hexdigest()
