"""A rival for rivals.py: EvoTorch, PGPE on GymNE or VecGymNE.

Usage: python benchmarks/evotorch_script.py gymne|distributed|vecgymne ID WORKERS SECONDS [POPULATION]

GymNE plays one candidate after the other; "distributed" is GymNE with a PGPE whose actors draw their own share of the
population and send back gradients; VecGymNE plays all candidates of an actor in lockstep, with one batched forward
pass. The policy is torch's own Sequential, which is faster than EvoTorch's network string. Actors have one thread each
(Ray's default) and equal shares of the population (EvoTorch's; there is nothing to balance, with episodes of one
length).
"""

import logging
import os
import sys
import time
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
    length = es_envs.definition(env_id).max_episode_steps or 0
    if kind == "vecgymne":
        problem = VecGymNE(partial(make_vector_env, env_id), make_policy, num_actors=workers)
    else:
        problem = GymNE(partial(make_env, env_id), make_policy, num_actors=workers, episode_length=length)
    search = PGPE(
        problem,
        popsize=population,
        center_learning_rate=LEARNING_RATE,
        stdev_learning_rate=LEARNING_RATE,
        stdev_init=SIGMA,
        optimizer="adam",
        ranking_method="centered",
        distributed=kind == "distributed",
    )
    search.step()  # warms up
    generations, started = 0, time.perf_counter()
    while time.perf_counter() < started + seconds:
        search.step()
        generations += 1
    print(generations * population * length / (time.perf_counter() - started))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), *map(int, sys.argv[5:]))
