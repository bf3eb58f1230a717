"""Bench: how fast an environment steps, how fast it trains, and where the rest of the time goes."""

import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

import numpy as np

import es_envs
from es_core.config import TrainConfig
from es_core.policies import make_policy
from es_core.pools import make_pool
from es_core.pools.process import Child, ChildDiedError, end
from es_core.rollout import Lane, RolloutError, Rollouts
from es_core.seeding import Purpose, episode_seeds
from es_core.strategies import make_strategy
from es_envs import EnvDefinition

_ROUNDS = 5  # at least, of each measurement: the median of them is quoted
_LIGHT = 25.0  # [µs]: steps up to this long gain from lanes
_LANES = 3
_EPISODES = 8  # at least, of so many candidates, are timed at once


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the time of training goes, in one process for each worker at once.

    Attributes:
        env_id: of the environment.
        workers: processes.
        lanes: environments that each of them steps together.
        bare: environment steps per second of all processes, without a policy.
        training: environment steps per second of whole generations.
        environment: microseconds of a worker for one step of the environment, resets included.
        policy: likewise for the policy and the loop around the environment.
        noise: likewise for the candidates' parameters.
        update: likewise that workers wait while the main process updates the mean.
        waiting: likewise for all the rest: messages, and waiting for the last candidate of a generation.
    """

    env_id: str
    workers: int
    lanes: int
    bare: float
    training: float
    environment: float
    policy: float
    noise: float
    update: float
    waiting: float

    @property
    def share(self) -> float:
        """What training reaches of the bare environments' speed."""
        return self.training / self.bare

    @property
    def advice(self) -> str:
        """What would make it faster, or nothing."""
        total = self.workers * 1e6 / self.training
        if self.lanes == 1 and self.environment < _LIGHT and self.policy > 0.1 * total:
            return (
                f"Steps of this environment are so short that the policy's calls count: lanes={_LANES} in its "
                "EnvDefinition lets each worker step so many environments together."
            )
        if self.waiting > 0.2 * total:
            return (
                "Workers wait a fifth of the time or more: a larger population_size, or more episodes_per_candidate, "
                "shares the work out more evenly."
            )
        if self.update > 0.2 * total:
            return "The update takes a fifth of the time or more: more episodes_per_candidate would make it rarer."
        return ""


def bench(env: str | TrainConfig, *, workers: int | None = None, seconds: float = 4.0, **config_fields: Any) -> Bench:
    """Measure the speed of an environment, bare and in training.

    Args:
        env: id of an environment, whose recommended settings then apply; or a complete TrainConfig.
        workers: processes; None: the usable cores.
        seconds: for each of the two measurements, at least.
        **config_fields: fields of TrainConfig.

    Raises:
        UnknownEnvError: nobody knows the environment.
        ValueError, TypeError: a setting that cannot be.
        RolloutError: an episode failed.
    """
    if not (isinstance(seconds, int | float) and seconds > 0):
        raise ValueError(f"seconds must be positive, got {seconds!r}")
    config = env.resolved() if isinstance(env, TrainConfig) else TrainConfig.for_env(env, **config_fields)
    definition = es_envs.definition(config.env_id)
    with make_pool("local", definition, config, workers=workers) as pool:
        config, workers = pool.config, pool.workers
        mean = make_policy(config, pool.observation_space, pool.action_space).initial(config.seed)
        # A mean that stays where it is: what is measured is one kind of episode, from first to last.
        strategy = make_strategy(replace(config, learning_rate=1e-9), mean)
        generations: list[tuple[float, float, int]] = []  # seconds of all, of the update; steps
        started = time.perf_counter()
        while len(generations) <= _ROUNDS or time.perf_counter() - started < seconds:
            times = [time.perf_counter()]
            population = strategy.ask()
            times.append(time.perf_counter())
            seeds = episode_seeds(config.seed, Purpose.TRAINING, config.episodes_per_candidate, strategy.generation)
            results = pool.evaluate(population, np.array(seeds))
            times.append(time.perf_counter())
            strategy.tell(results.fitness)
            times.append(time.perf_counter())
            generations.append((times[3] - times[0], times[1] - times[0] + times[3] - times[2], results.steps))
    generations = generations[1:]  # the first warms up
    wall, update = (median(item[which] / item[2] for item in generations) for which in (0, 1))
    parts = _measure_processes(definition, config, workers, seconds)
    environment, policy, noise = (median(part[which] for part in parts) for which in range(3))
    per_step = 1e6 * wall * workers
    return Bench(
        env_id=config.env_id,
        workers=workers,
        lanes=int(parts[0][3]),
        bare=sum(1e6 / part[0] for part in parts),
        training=1 / wall,
        environment=environment,
        policy=policy,
        noise=noise,
        update=1e6 * update * workers,
        waiting=max(0.0, per_step - environment - policy - noise - 1e6 * update * workers),
    )


def _measure_processes(
    definition: EnvDefinition, config: TrainConfig, workers: int, seconds: float
) -> list[tuple[float, ...]]:
    """What ``measure`` returns, from as many processes at once."""
    children: list[Child] = []
    try:
        for _ in range(workers):  # one by one, so that those that were started are ended if one cannot be
            children.append(Child("es_core.bench:measure"))  # noqa: PERF401
        for child in children:
            child.send((definition, config, seconds))
        return [child.receive() for child in children]
    except ChildDiedError as error:
        raise RolloutError(f"{definition.label}: {error}") from None
    finally:
        end(children)


def measure(connection: Any) -> None:
    """In a process of its own: microseconds a step of environment, of policy and loop, and of noise; and the lanes."""
    definition, config, seconds = connection.recv()
    rollouts = Rollouts(definition, config, lanes=definition.lanes)
    actors, lanes = rollouts.actors, len(rollouts.actors.rows)
    population = make_strategy(config, rollouts.policy.initial(config.seed)).ask()
    seeds = episode_seeds(config.seed, Purpose.TRAINING, max(lanes, _EPISODES))
    actions: dict[int, list[Any]] = {}
    loading = 0.0

    def script(index: int, lane: Lane) -> Generator[Any, Any, int]:
        nonlocal loading
        started = time.perf_counter()
        actors.network.load(lane.row, lambda out: population.candidate(index % len(population), out))
        loading += time.perf_counter() - started
        actors.start(lane.row)
        record = actions.get(index) is None
        taken = actions.setdefault(index, [])
        observers = [lambda _observation, action, *_: taken.append(action)] if record else []
        return (yield from lane.episode(seeds[index], observers)).length

    def play() -> int:
        waiting = list(range(len(seeds)))
        lengths: list[int] = []

        def next_script() -> Any:
            index = waiting.pop() if waiting else None
            return None if index is None else lambda lane: script(index, lane)

        rollouts.play(next_script, lengths.append)
        return sum(lengths)

    def replay() -> None:
        """The same episodes, without a policy."""
        step, reset = rollouts.env.step, rollouts.env.reset
        for index, seed in enumerate(seeds):
            reset(seed=seed)
            for action in actions[index]:
                step(action)

    steps = play()  # which also records the actions, and makes all lanes
    bare: list[float] = []
    whole: list[float] = []
    noise: list[float] = []
    begun = time.perf_counter()
    while len(bare) < _ROUNDS or time.perf_counter() - begun < seconds:
        started, loading = time.perf_counter(), 0.0
        replay()
        middle = time.perf_counter()
        play()
        ended = time.perf_counter()
        bare.append(middle - started)
        whole.append(ended - middle - loading)
        noise.append(loading)
    environment, played, loaded = (1e6 * median(times) / steps for times in (bare, whole, noise))
    rollouts.close()
    connection.send((environment, max(0.0, played - environment), loaded, float(lanes)))
