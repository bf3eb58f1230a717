"""A rival for rivals.py: evolution strategies in one file, as a competent user writes it for a task of his own.

Usage: python benchmarks/plain_script.py ID WORKERS SECONDS [POPULATION]

A pool of processes that each make their environment and torch policy once, parameter vectors handed out as workers
become free, mirrored noise, centred ranks, Adam.
"""

import multiprocessing
import sys
import time
from itertools import pairwise

import gymnasium
import numpy as np
import torch
from loops import HIDDEN, LEARNING_RATE, SIGMA
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import es_envs

worker = {}


def make_policy(env: gymnasium.Env) -> nn.Module:
    """The MLP."""
    space = env.action_space
    outputs = int(space.n) if isinstance(space, gymnasium.spaces.Discrete) else space.shape[0]
    widths = [env.observation_space.shape[0], *HIDDEN]
    layers = []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], outputs))


def start(env_id: str) -> None:
    """Once in each worker."""
    torch.set_num_threads(1)
    env = es_envs.make(env_id).unwrapped
    worker.update(env=env, policy=make_policy(env), limit=es_envs.definition(env_id).max_episode_steps)


@torch.inference_mode()
def play(task: tuple[int, np.ndarray, int]) -> tuple[int, float, int]:
    """One episode of one candidate."""
    index, parameters, seed = task
    env, policy = worker["env"], worker["policy"]
    vector_to_parameters(torch.from_numpy(parameters), policy.parameters())
    space = env.action_space
    discrete = isinstance(space, gymnasium.spaces.Discrete)
    observation, _ = env.reset(seed=seed)
    total, steps = 0.0, 0
    while steps < worker["limit"]:
        output = policy(torch.from_numpy(observation))
        action = int(output.argmax()) if discrete else output.numpy().clip(space.low, space.high)
        observation, reward, terminated, truncated, _ = env.step(action)
        total += reward
        steps += 1
        if terminated or truncated:
            break
    return index, total, steps


def main(env_id: str, workers: int, seconds: float, population: int = 64) -> None:
    """Train for whole generations and print the steps/s of all but the first."""
    torch.set_num_threads(1)
    env = es_envs.make(env_id).unwrapped
    mean = nn.Parameter(parameters_to_vector(make_policy(env).parameters()).detach())
    env.close()
    optimizer = torch.optim.Adam([mean], lr=LEARNING_RATE)
    steps, seed, started = 0, 0, None
    with multiprocessing.get_context("spawn").Pool(workers, start, (env_id,)) as pool:
        while started is None or time.perf_counter() < started + seconds:
            half = torch.randn(population // 2, mean.numel())
            noise = torch.cat([half, -half])
            candidates = (mean.detach() + SIGMA * noise).numpy()
            seed += 1
            tasks = [(index, candidate, seed) for index, candidate in enumerate(candidates)]
            returns = torch.empty(population)
            for index, total, length in pool.imap_unordered(play, tasks):
                returns[index] = total
                steps += length
            ranks = returns.argsort().argsort() / (population - 1) - 0.5
            mean.grad = -(ranks @ noise) / (population * SIGMA)
            optimizer.step()
            if started is None:  # the first generation warms up
                steps, started = 0, time.perf_counter()
        print(steps / (time.perf_counter() - started))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), *map(int, sys.argv[4:]))
