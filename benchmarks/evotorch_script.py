"""A rival for rivals.py: EvoTorch, PGPE on GymNE or VecGymNE.

Usage: python benchmarks/evotorch_script.py gymne|vecgymne ID WORKERS SECONDS [POPULATION]

Its fastest settings of those tried: torch's own Sequential rather than EvoTorch's network string, the population split
evenly among the actors (their default; sub-batches cost more than they balance, with episodes of one length), sampled
by the main process (``distributed=True`` was slower), one thread for each actor (Ray's default). GymNE plays one
candidate after the other; VecGymNE plays all candidates of an actor in lockstep, with one batched forward pass.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import ray
import torch
from evotorch.algorithms import PGPE
from evotorch.decorators import pass_info
from evotorch.neuroevolution import GymNE, VecGymNE
from evotorch.neuroevolution.net.vecrl import SyncVectorEnv
from loops import HIDDEN, LEARNING_RATE, SIGMA
from torch import nn

import es_envs


def make_env(env_id: str) -> gymnasium.Env:
    """The bare environment."""
    return es_envs.make(env_id).unwrapped


def make_vector_env(env_id: str, num_envs: int, **_: Any) -> gymnasium.vector.VectorEnv:
    """Environments with their step limit, which VecGymNE does not count itself."""
    return SyncVectorEnv([partial(es_envs.make, env_id)] * num_envs)


@pass_info
def make_policy(obs_length: int, act_length: int, **_: Any) -> nn.Module:
    """The MLP."""
    first, second = HIDDEN
    return nn.Sequential(
        nn.Linear(obs_length, first), nn.Tanh(), nn.Linear(first, second), nn.Tanh(), nn.Linear(second, act_length)
    )


def main(kind: str, env_id: str, workers: int, seconds: float, population: int = 64) -> None:
    """Train for whole generations and print the steps/s of all but the first."""
    torch.set_num_threads(1)
    # Ray's processes inherit it: they must find the modules of this folder.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    logging.getLogger("evotorch.core").setLevel(logging.WARNING)
    ray.init(num_cpus=workers, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    length = es_envs.definition(env_id).max_episode_steps
    problems: dict[str, Callable[[], Any]] = {
        "gymne": lambda: GymNE(partial(make_env, env_id), make_policy, num_actors=workers, episode_length=length),
        "vecgymne": lambda: VecGymNE(partial(make_vector_env, env_id), make_policy, num_actors=workers),
    }
    search = PGPE(
        problems[kind](),
        popsize=population,
        center_learning_rate=LEARNING_RATE,
        stdev_learning_rate=LEARNING_RATE,
        stdev_init=SIGMA,
        optimizer="adam",
        ranking_method="centered",
    )
    search.step()  # warms up
    before = search.status["total_interaction_count"]
    started = time.perf_counter()
    while time.perf_counter() < started + seconds:
        search.step()
    print((search.status["total_interaction_count"] - before) / (time.perf_counter() - started))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), *map(int, sys.argv[5:]))
