"""What a seeded reset costs, right after another one and after episodes.

Usage: python benchmarks/reset.py [--quick]

Microseconds of `env.reset(seed=...)` on the bare environment, one by one; the median of each round. Before it: another
reset, or random actions, at most that many and at most until the episode ends, which is what training pays: the
episode has filled the processor's caches with other things. Beside it what a reset would cost that
empties the world and builds it again.
"""

import time
from contextlib import closing
from functools import partial
from statistics import median

import gymnasium
from report import Report, alternate, options

import es_envs
from es_envs.bullet import pybullet

TARGETS = {"CartPoleBullet-v0": "", "BalancingPlate-v0": "", "RaceCar-v0": "at most 100"}  # [µs], back to back
LENGTHS = (0, 1, 10, 100, 1000)  # steps before the reset


def reset_microseconds(env: gymnasium.Env, steps: int, repeats: int) -> float:
    """A reset after an episode of at most ``steps`` random actions."""
    times = []
    for seed in range(repeats):
        for _ in range(steps):
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                break
        started = time.perf_counter()
        env.reset(seed=seed)
        times.append(time.perf_counter() - started)
    return median(times) * 1e6


def reload_microseconds(env_id: str, repeats: int) -> float:
    """Emptying the world and building it again."""
    with closing(es_envs.make(env_id).unwrapped) as env:
        times = []
        for _ in range(repeats):
            started = time.perf_counter()
            pybullet.resetSimulation(physicsClientId=env.client)
            env.build()
            times.append(time.perf_counter() - started)
    return median(times) * 1e6


def main() -> None:
    """Measure every environment."""
    given = options(__doc__)
    resets, episodes, reloads = (3, 2, 1) if given.quick else (1000, 30, 10)
    report = Report("reset", given.out)
    report.head(
        "reset [µs]",
        *(f"after {steps} steps" if steps else "back to back" for steps in LENGTHS),
        "target",
        "building the world again",
    )
    results = {}
    for env_id, target in TARGETS.items():
        env = es_envs.make(env_id).unwrapped
        env.action_space.seed(0)
        env.reset(seed=0)
        costs = alternate(
            {
                **{
                    f"after {steps} steps": partial(reset_microseconds, env, steps, episodes if steps else resets)
                    for steps in LENGTHS
                },
                "reload": partial(reload_microseconds, env_id, reloads),
            },
            given.rounds,
        )
        env.close()
        *before, reload = costs.values()
        report.row(env_id, *(f"{spread:.0f}" for spread in before), target, f"{reload:,.0f}")
        results[env_id] = costs
    report.save({"microseconds": results})


if __name__ == "__main__":
    main()
