"""Pictures of environments in Bullet: processor time of a film's frame, and of what a policy sees that acts on pixels.

Usage: python benchmarks/pictures.py [--quick]

Run it with each distribution of Bullet: one that is built without numpy returns every pixel as a Python number.
"""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

from report import Report, alternate, options

from es_envs import definition, env_ids

PICTURES = 20


def main() -> None:
    """Measure both kinds of pictures in turn, round after round."""
    given = options(__doc__)
    report = Report("pictures", given.out)
    report.head("", "640x480 [ms]", "84x84, for a policy [ms]")
    results = {}
    for env_id in env_ids()[: 1 if given.quick else None]:
        with closing(definition(env_id).build("rgb_array")) as env:
            ways = {"film": env.render, "policy": partial(env.unwrapped.seen, 84)}  # type: ignore[attr-defined]
            spreads = alternate({name: partial(milliseconds, env, draw) for name, draw in ways.items()}, given.rounds)
        report.row(env_id, *(f"{spread:.1f}" for spread in spreads.values()))
        results[env_id] = spreads
    report.save(results)


def milliseconds(env: Any, draw: Callable[[], Any]) -> float:
    """Processor time of a picture, of those along an episode of random actions."""
    env.action_space.seed(0)
    env.reset(seed=0)
    spent = 0.0
    for _ in range(PICTURES):
        _, _, terminated, _, _ = env.step(env.action_space.sample())
        if terminated:
            env.reset(seed=0)
        started = time.process_time()
        draw()
        spent += time.process_time() - started
    return 1e3 * spent / PICTURES


if __name__ == "__main__":
    main()
