"""A rival for repertoires.py: MAP-Elites by ribs' own scheduler and a pool of processes, as its documentation has it.

Usage: python benchmarks/ribs_script.py ID WORKERS GENERATIONS SEED SETTINGS

SETTINGS, as JSON, are those of repertoires.py. Each process makes its environment once. The policy is linear.
"""

import json
import multiprocessing
import sys
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ribs.archives import GridArchive
from ribs.emitters import IsoLineEmitter
from ribs.schedulers import Scheduler

import es_envs

worker: dict[str, Any] = {}


def start(env_id: str, limit: int) -> None:
    """Once in each worker."""
    worker.update(env=es_envs.make(env_id).unwrapped, limit=limit)


def play(task: tuple[NDArray[np.float64], int]) -> tuple[float, list[float], int]:
    """One episode of one candidate: its fitness, its behaviour (how long each foot is down), its steps."""
    parameters, seed = task
    env = worker["env"]
    space = env.action_space
    weights = parameters.reshape(space.shape[0], -1)
    observation, _ = env.reset(seed=seed)
    steps, terminated, info = 0, False, {}
    while steps < worker["limit"] and not terminated:
        action = weights[:, :-1] @ observation + weights[:, -1]
        observation, _, terminated, _, info = env.step(action.clip(space.low, space.high).astype(np.float32))
        steps += 1
    # Those of the plugin, es_locomotion.fitness, by hand.
    return info["progress"] + steps / 1000, list(info["down"]), steps


def main(env_id: str, workers: int, generations: int, seed: int, settings: Mapping[str, Any]) -> None:
    """Fill an archive, and print its QD score, its coverage, its best, the steps and the seconds."""
    definition, population = es_envs.definition(env_id), settings["population_size"]
    env: Any = es_envs.make(env_id)
    size = env.action_space.shape[0] * (env.observation_space.shape[0] + 1)
    env.close()
    archive = GridArchive(
        solution_dim=size,
        dims=settings["grid"],
        ranges=list(definition.behaviours.values()),
        qd_score_offset=settings["floor"],
        seed=seed,
    )
    first = settings["first_sigma"] * np.random.default_rng(seed).standard_normal((population, size))
    emitter = IsoLineEmitter(
        archive,
        iso_sigma=settings["sigma"],
        line_sigma=settings["line_sigma"],
        initial_solutions=first,
        batch_size=population,
        seed=seed,
    )
    scheduler = Scheduler(archive, [emitter])
    starts, steps = np.random.default_rng(seed), 0
    with multiprocessing.get_context("spawn").Pool(workers, start, (env_id, settings["max_episode_steps"])) as pool:
        pool.map(play, [(np.zeros(size), 0)] * workers)  # all have begun
        begun = time.perf_counter()
        for _ in range(generations):
            seeds = starts.integers(2**31, size=population).tolist()
            found = pool.map(play, list(zip(scheduler.ask(), seeds, strict=True)))
            fitness, behaviours, lengths = zip(*found, strict=True)
            scheduler.tell(fitness, behaviours)
            steps += sum(lengths)
        seconds = time.perf_counter() - begun
    stats = archive.stats
    print(json.dumps([float(stats.qd_score), float(stats.coverage), float(stats.obj_max), steps, seconds]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), json.loads(sys.argv[5]))
