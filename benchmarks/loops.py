"""The two sides of a comparison: a loop that only steps the environment, and training on it.

``python benchmarks/loops.py ID SECONDS`` is a process of ``bare``.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import es_envs
from es_core import TrainConfig, train
from es_core.policies.by_name import make_policy
from es_core.policies.engines import make_actor
from es_core.strategies.by_name import make_strategy
from es_core.strategies.defaults import make_plan

CART_POLE, RACE_CAR, HUMANOID, IMAGES = (
    f"fixed_length:Fixed{name}-v0" for name in ("CartPole", "RaceCar", "Humanoid", "Images")
)
HIDDEN = (64, 64)
SIGMA = 0.05
CANDIDATES = 8  # whose actions the bare loop repeats
# So small that nobody's policy learns anything, and all episodes are of the same kind from first to last; the whole
# update is computed all the same.
LEARNING_RATE = 1e-6
# Settings that a run would otherwise choose itself: the same work in all versions.
PLAIN: dict[str, Any] = {"strategy": "openai_es", "observation_normalization": False, "action_squash": "clip"}


def bare(env_id: str, workers: int, seconds: float) -> float:
    """Steps/s of all ``workers`` processes together, each stepping an environment of its own at the same time."""
    command = [sys.executable, __file__, env_id, str(seconds)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(workers)
    ]
    for process in processes:  # until each has made its environment
        process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return sum(float(process.communicate()[0]) for process in processes)


def candidates_actions(env_id: str) -> tuple[Any, list[list[Any]]]:
    """An environment without wrappers, and the actions of training's own candidates in an episode each.

    Under random actions, a simulator may have more or less to compute. A candidate's number is its episode's seed.
    """
    env = es_envs.make(env_id).unwrapped
    length = es_envs.definition(env_id).max_episode_steps or 0
    config = TrainConfig.for_env(env_id, hidden_sizes=HIDDEN, sigma=SIGMA, **PLAIN)
    policy = make_policy(config, env.observation_space, env.action_space)
    population = make_strategy(make_plan(policy), policy.initial(config.seed)).ask()
    actions: list[list[Any]] = []
    for candidate in range(CANDIDATES):
        act, taken = make_actor(policy, population.candidate(candidate)), []
        observation, _info = env.reset(seed=candidate)
        for _ in range(length):
            taken.append(act(observation))
            observation, *_rest = env.step(taken[-1])
        actions.append(taken)
    return env, actions


def _bare(env_id: str, seconds: float) -> None:
    """The plain loop: whole episodes, each begun by a seeded reset, with actions that were recorded beforehand."""
    env, actions = candidates_actions(env_id)
    length = len(actions[0])

    def play(episode: int) -> None:
        env.reset(seed=episode % CANDIDATES)
        for action in actions[episode % CANDIDATES]:
            _observation, _reward, terminated, truncated, _info = env.step(action)
            if terminated or truncated:
                break

    play(0)
    print("ready", flush=True)
    sys.stdin.readline()
    episodes, started = 0, time.perf_counter()
    while time.perf_counter() < started + seconds:
        play(episodes)
        episodes += 1
    print(episodes * length / (time.perf_counter() - started))


@dataclass(frozen=True)
class Training:
    """What whole generations took, the first left out: it still warms up.

    Attributes:
        generations: how many.
        steps: environment steps.
        seconds: inside the generations, as metrics.jsonl says.
        wall_seconds: from the first generation's end to the last one's: with metrics, loggers and checkpoints.
        metered: what ``meter`` returned at these two moments.
    """

    generations: int
    steps: int
    seconds: float
    wall_seconds: float
    metered: tuple[Any, Any]


def trained(
    env_id: str, *, workers: int | None, seconds: float, meter: Callable[[], Any] = time.perf_counter, **fields: Any
) -> Training:
    """Train for as many whole generations as begin within ``seconds``."""
    marks, metered = [], []

    def time_is_left(_stats: object) -> bool:
        marks.append(time.perf_counter())
        more = marks[-1] < marks[0] + seconds
        if len(marks) == 1 or not more:
            metered.append(meter())
        return more

    settings: dict[str, Any] = {
        "population_size": 64,
        "hidden_sizes": HIDDEN,
        "sigma": SIGMA,
        "learning_rate": LEARNING_RATE,
        **PLAIN,
        "eval_every": 0,
        "generations": 10**6,
    }
    with TemporaryDirectory() as folder:
        run = train(
            env_id,
            run_dir=Path(folder) / "run",
            workers=workers,
            progress=False,
            on_generation=time_is_left,
            **{**settings, **fields},
        )
    measured = run.history[1:]
    return Training(
        generations=len(measured),
        steps=sum(stats.steps for stats in measured),
        seconds=sum(stats.seconds for stats in measured),
        wall_seconds=marks[-1] - marks[0],
        metered=(metered[0], metered[1]),
    )


def training_rate(env_id: str, **arguments: Any) -> float:
    """Steps/s of ``trained``, inside the generations."""
    training = trained(env_id, **arguments)
    return training.steps / training.seconds


if __name__ == "__main__":
    _bare(sys.argv[1], float(sys.argv[2]))
