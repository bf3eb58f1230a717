"""Bench: how fast an environment is trained by more and more workers, and what a step takes its time for."""

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

import es_envs
from es_core.config.budgets import step_limit
from es_core.config.checks import require_seconds
from es_core.config.keywords import accepts_old_names
from es_core.config.objects import resolved
from es_core.config.train_config import TrainConfig
from es_core.machine import one_blas_thread, usable_cores
from es_core.policies.by_name import make_policy
from es_core.pools.by_name import make_pool
from es_core.pools.options import PoolOptions
from es_core.pools.pool import Results, RolloutPool
from es_core.pools.worker import action_noise_seed
from es_core.rollout.rollout import Rollout
from es_core.strategies.by_name import make_strategy
from es_core.strategies.population import Population
from es_core.training.progress import prepare_policy, search_progress
from es_core.training.selection import training_seeds
from es_core.training.state import first_statistics
from es_envs import EnvDefinition

_FIRST_CAP = 16  # steps of the first, shortest episodes
_NEARLY = 0.95  # of the highest speed: more workers are not worth their memory
_MUCH = 0.2  # of the time


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Speed of training, and what a step takes its time for.

    Attributes:
        env_id: the environment's id.
        speeds: environment steps per second of whole generations, by the number of workers.
        environment: microseconds of one worker for a step of the environment, resets included.
        policy: microseconds for the policy and the loop around the environment.
        population_size: candidates of a generation.
        candidates: number of candidates that were played; fewer if there was no time for all.
        episode_cap: steps after which their episodes were cut off, since there was no time for whole ones; or None.
    """

    env_id: str
    speeds: Mapping[int, float]
    environment: float
    policy: float
    population_size: int
    candidates: int
    episode_cap: int | None

    @property
    def workers(self) -> int:
        """Recommended number of workers: the smallest that is nearly as fast as the fastest."""
        return min(workers for workers, speed in self.speeds.items() if speed >= _NEARLY * max(self.speeds.values()))

    @property
    def rest(self) -> float:
        """Microseconds of one worker for all the rest of a step: noise, messages, and the update of the mean."""
        return max(0.0, 1e6 / self.speeds[1] - self.environment - self.policy)

    @property
    def advice(self) -> str:
        """Advice that would make it faster, or nothing."""
        if self.candidates < self.population_size or self.episode_cap is not None:
            return ""  # in this case the rest is too large
        if self.rest > _MUCH * 1e6 / self.speeds[1]:
            return "The rest takes a fifth of the time or more: more episodes_per_candidate would make updates rarer."
        if self.policy > self.environment:
            return "The policy takes longer than the environment: smaller hidden_sizes would be faster."
        most = max(self.speeds)
        if self.speeds[most] < (1 - _MUCH) * most * self.speeds[1]:
            return (
                f"{most} workers lose a fifth of their time or more. Unless something else uses the cores: a larger "
                "population_size, or more episodes_per_candidate, distributes the work more evenly."
            )
        return ""


@accepts_old_names
def bench(
    env: str | TrainConfig | Callable[..., gymnasium.Env[Any, Any]],
    *,
    workers: int | None = None,
    seconds: float = 10.0,
    progress: bool = False,
    **config_fields: Any,
) -> Bench:
    """Measure how fast an environment is trained, with 1, 2, 4, ... workers.

    All play the same episodes, those of generation 0. If a generation would take too long, only some of its candidates
    are played, or the beginnings of their episodes.

    Args:
        env: id of an environment, whose recommended settings then apply; or a complete TrainConfig; or a class or
            function that makes an environment.
        workers: largest number of processes; None: the usable cores.
        seconds: total time; at least as long as it takes to start the processes and play a few steps in each.
        progress: show a progress bar, if there is a terminal.
        **config_fields: fields of TrainConfig.

    Raises:
        UnknownEnvError: no such environment is registered.
        ValueError, TypeError: a setting is invalid.
        RolloutError: an episode failed.
    """
    require_seconds("seconds", seconds)
    PoolOptions(workers=workers)  # refuses what cannot be
    config = resolved(env, config_fields)
    definition = es_envs.definition(config.env_id)
    prepare_policy(config, definition, shown=progress)
    ends, most = time.perf_counter() + seconds, workers or usable_cores()
    numbers = sorted({*(2**power for power in range(most.bit_length())), most})
    speeds: dict[int, float] = {}
    with search_progress(shown=progress) as display:
        task = display.add_task(config.env_id, total=len(numbers) + 1)
        for done, number in enumerate(numbers):
            with make_pool(definition, config, PoolOptions(workers=number)) as pool:
                share = (ends - time.perf_counter()) / (len(numbers) + 1 - done)
                generation = _Generation(pool)
                if not speeds:
                    population, cap = generation.part(2 * most, step_limit(definition, pool.config), share / 4)
                speeds[pool.workers] = generation.speed(population, share)
            display.advance(task)
        environment, policy = _step_times(definition, pool.config, population, generation.seeds, ends)
        display.advance(task)
    return Bench(
        env_id=config.env_id,
        speeds=speeds,
        environment=environment,
        policy=policy,
        population_size=pool.config.population_size,
        candidates=len(population),
        episode_cap=cap,
    )


class _Generation:
    """Generation 0 in a pool, played repeatedly, and the updates of a strategy that continues."""

    def __init__(self, pool: RolloutPool) -> None:
        self._pool = pool
        policy = make_policy(pool.config, pool.observation_space, pool.action_space)
        self._strategy = make_strategy(pool.config, policy.initial(pool.config.seed))
        self._whole = replace(self._strategy.ask(), statistics=first_statistics(pool.config, policy, pool))
        self.seeds = training_seeds(pool.config, len(self._whole), 0)

    def part(self, fewest: int, limit: int, seconds: float) -> tuple[Population, int | None]:
        """Return the largest part that takes about so long, longer episodes first, and the step limit that cuts it.

        Args:
            fewest: candidates, if there are so many.
            limit: steps of a whole episode.
            seconds: for playing it once.
        """
        whole, cap, count = self._whole, min(_FIRST_CAP, limit), fewest
        while True:
            part = replace(
                whole,
                parent=whole.parent[:count],
                noise_seed=whole.noise_seed[:count],
                sign=whole.sign[:count],
                max_episode_steps=cap if cap < limit else None,
            )
            self._play(part)  # which warms up
            began = time.perf_counter()
            is_cut = part.max_episode_steps is not None and int(self._play(part).lengths.max(initial=0)) >= cap
            if 2 * (time.perf_counter() - began) > seconds or not (is_cut or count < len(whole)):
                return part, cap if is_cut else None
            cap, count = (min(2 * cap, limit), count) if is_cut else (limit, 2 * count)

    def _play(self, part: Population) -> Results:
        return self._pool.evaluate(part, self.seeds[: len(part)])

    def speed(self, part: Population, seconds: float) -> float:
        """Measure environment steps per second, over whole generations with their share of an update."""
        self._play(part)  # workers have just started
        steps, spent, ends = 0, 0.0, time.perf_counter() + seconds
        while not steps or time.perf_counter() < ends:
            began = time.perf_counter()
            results = self._play(part)
            played = time.perf_counter()
            total = len(self._strategy.ask())
            # Whatever fitness: it shall take as long as ever.
            self._strategy.tell(np.resize(results.fitness[results.valid], total))
            spent += played - began + (time.perf_counter() - played) * len(part) / total
            steps += results.steps
        return steps / spent


def _step_times(
    definition: EnvDefinition, config: TrainConfig, population: Population, seeds: NDArray[np.int64], ends: float
) -> tuple[float, float]:
    """Measure microseconds of a step of the environment, and of the policy and the loop: here, where nothing waits."""
    bare, whole, steps = 0.0, 0.0, 0
    with closing(Rollout(definition, config)) as rollout, one_blas_thread():
        if config.observation_normalization:
            rollout.actor.collect()
        parameters = np.empty(rollout.policy.size, np.float32)
        for index in cycle(range(len(population))):
            rollout.use(population.candidate(index, parameters), population.statistics)
            seed = int(seeds[index, 0])
            noise_seed = action_noise_seed(rollout.policy, population, index, seed)
            actions: list[Any] = []
            observers = [lambda _observation, action, *_, actions=actions: actions.append(action)]
            began = time.perf_counter()
            rollout.episode(seed, observers=observers, noise_seed=noise_seed, max_steps=population.max_episode_steps)
            played = time.perf_counter()
            rollout.env.reset(seed=seed)
            for action in actions:
                rollout.env.step(action)
            replayed = time.perf_counter()
            bare, whole, steps = bare + replayed - played, whole + played - began, steps + len(actions)
            if replayed > ends:
                break
    return 1e6 * bare / steps, 1e6 * max(0.0, whole - bare) / steps
