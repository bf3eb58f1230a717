"""Steps of an environment and of training on it, beside the calls of Bullet that they make.

Usage: python benchmarks/pace.py [--quick]

All play the same episodes of one length, with actions of training's own candidates, recorded beforehand. The raw calls
are those that the environment makes of Bullet, recorded as it makes them, and repeated in the same world with nothing
between them. Training is whole generations (ask, candidates, episodes, update) of 64 candidates with an MLP 64-64 tanh
in one worker. Figures are processor time of all processes per step; what others do on the machine counts less in it
than in time by the clock, but does count.
"""

import cProfile
import pstats
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from itertools import cycle
from typing import Any

import psutil
from loops import candidates_actions, trained
from report import Report, alternate, options

from es_envs.bullet import BulletEnv, pybullet

TARGETS = {
    "FixedCartPole": "0.55",
    "FixedPlate": "0.60",
    "FixedFigureEight": "",
    "FixedRaceCar": "0.95",
    "FixedRaceTrack": "0.85",
    "FixedAnt": "0.90",
    "FixedA1": "",
}
SHOWN = 5  # functions of the profile

Call = Callable[[], object]


@contextmanager
def recorded(calls: list[Call]) -> Iterator[None]:
    """Append each call of Bullet that is made meanwhile."""

    def recording(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def record(*args: Any, **kwargs: Any) -> Any:
            calls.append(partial(function, *args, **kwargs))
            return function(*args, **kwargs)

        return record

    functions = {name: value for name, value in vars(pybullet).items() if callable(value) and name != "error"}
    try:
        for name, function in functions.items():
            setattr(pybullet, name, recording(function))
        yield
    finally:
        for name, function in functions.items():
            setattr(pybullet, name, function)


@dataclass
class Played:
    """An environment whose world goes through the same episodes again and again.

    Attributes:
        env: the environment.
        actions: of each episode; its number is its seed.
        calls: what the steps of each episode call.
    """

    env: BulletEnv
    actions: list[list[Any]]
    calls: list[list[Call]]

    def step(self, episode: int) -> None:
        """Play an episode's steps."""
        step = self.env.step
        for action in self.actions[episode]:
            step(action)

    def call(self, episode: int) -> None:
        """Make an episode's calls of Bullet."""
        for call in self.calls[episode]:
            call()

    def seconds(self, play: Callable[[int], None], least: float) -> float:
        """Processor time per step over as many episodes as begin within ``least`` seconds."""
        total, steps, ends = 0.0, 0, time.perf_counter() + least
        for episode in cycle(range(len(self.actions))):
            self.env.reset(seed=episode)
            started = time.process_time()
            play(episode)
            total += time.process_time() - started
            steps += len(self.actions[episode])
            if time.perf_counter() > ends:
                return total / steps
        raise AssertionError

    def shares(self) -> list[tuple[str, float]]:
        """Functions that take most of what is not Bullet's, each with its share, by a profile."""
        profile = cProfile.Profile()
        for episode in range(len(self.actions)):
            self.env.reset(seed=episode)
            profile.runcall(self.step, episode)
        own: dict[str, float] = {}
        for (_file, _line, name), (_, _, seconds, _, _) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
            if "pybullet." not in name:
                short = name.rpartition(".")[2].strip("<>").split(" ")[0]
                own[short] = own.get(short, 0.0) + seconds
        total = sum(own.values())
        return sorted(((name, value / total) for name, value in own.items()), key=lambda each: -each[1])[:SHOWN]


def prepared(env_id: str) -> Played:
    """Record what candidates do, and what their steps call."""
    env, actions = candidates_actions(env_id)
    played = Played(env, actions, [])
    for episode in range(len(actions)):
        calls: list[Call] = []
        env.reset(seed=episode)
        with recorded(calls):
            played.step(episode)
        played.calls.append(calls)
    return played


def training(env_id: str, seconds: float, population: int) -> float:
    """Processor time per step of training, of all processes."""
    measured = trained(env_id, workers=1, seconds=seconds, population_size=population, meter=_processor_time)
    before, after = measured.metered
    return (after - before) / measured.steps


def _processor_time() -> float:
    main = psutil.Process()
    times = [process.cpu_times() for process in (main, *main.children(recursive=True))]
    return sum(each.user + each.system for each in times)


def main() -> None:
    """Measure all in turn, round after round."""
    given = options(__doc__, seconds=2.0)
    report = Report("pace", given.out)
    report.head(
        "", "raw calls [µs]", "step [µs]", "training [µs]", "raw calls / step", "raw calls / training", "target"
    )
    results, profiles = {}, {}
    for name, target in TARGETS.items():
        env_id = f"fixed_length:{name}-v0"
        played = prepared(env_id)
        times = alternate(
            {
                "raw": lambda played=played: 1e6 * played.seconds(played.call, given.seconds),
                "step": lambda played=played: 1e6 * played.seconds(played.step, given.seconds),
                "training": lambda env_id=env_id: 1e6 * training(env_id, given.seconds, given.population),
            },
            given.rounds,
        )
        shares = {of: times["raw"] / times[of] for of in ("step", "training")}
        report.row(
            f"{name}-v0",
            *(f"{time:.1f}" for time in times.values()),
            *(f"{share:.2f}" for share in shares.values()),
            target,
        )
        profiles[name] = played.shares()
        results[env_id] = {"microseconds": times, "raw_share": shares, "python": profiles[name]}
        played.env.close()
    report.head("", "where the time between Bullet's calls goes, by a profile")
    for name, shares_of_python in profiles.items():
        report.row(f"{name}-v0", ", ".join(f"{function} {share:.0%}" for function, share in shares_of_python))
    report.save(results)


if __name__ == "__main__":
    main()
