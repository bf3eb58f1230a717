"""Bench: the speed of an environment, bare and in training, and where the rest of the time goes."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Self

import gymnasium
import numpy as np

import es_envs
from es_core.config.budgets import step_limit
from es_core.config.checks import require_seconds
from es_core.config.objects import packed, resolved
from es_core.config.train_config import TrainConfig
from es_core.policies.by_name import make_policy
from es_core.pools.by_name import make_pool
from es_core.pools.forker import Forker
from es_core.pools.pool import Results, RolloutPool
from es_core.pools.process import Child, ChildDiedError, closing_at_the_end, end
from es_core.pools.worker import action_noise_seed
from es_core.rollout.errors import RolloutError
from es_core.rollout.rollout import Rollout
from es_core.strategies.by_name import make_strategy
from es_core.strategies.population import Population
from es_core.training.progress import prepare_policy, search_progress
from es_core.training.selection import training_seeds
from es_core.training.state import first_statistics
from es_envs import EnvDefinition, import_path, registry

_ROUNDS = 5  # of both measurements, one after the other, if there is time for so many: their median is reported
_FIRST_CAP = 16  # steps of the first, shortest episodes
_PARTS = 12  # one part of the time is the maximum for playing once, since it is repeated a few times


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Breakdown of training time, measured in one process for each worker at once.

    Attributes:
        env_id: the environment's id.
        workers: number of processes.
        population_size: candidates of a generation.
        candidates: number of candidates that were played; fewer if there was no time for all.
        episode_cap: steps after which their episodes were cut off, since there was no time for whole ones; or None.
        bare: environment steps per second of all processes, without a policy.
        training: environment steps per second of whole generations.
        shares: the lowest and the highest ratio of the two in one round of measurements.
        environment: microseconds of a worker for one step of the environment, resets included.
        policy: likewise for the policy and the loop around the environment.
        noise: likewise for the candidates' parameters.
        update: likewise for waiting while the main process updates the mean.
        waiting: likewise for all the rest: messages, and waiting for the last candidate of a generation.
        not_forked: reason why each worker starts by itself instead of being forked; or None.
    """

    env_id: str
    workers: int
    population_size: int
    candidates: int
    episode_cap: int | None
    bare: float
    training: float
    shares: tuple[float, float]
    environment: float
    policy: float
    noise: float
    update: float
    waiting: float
    not_forked: str | None

    @property
    def share(self) -> float:
        """Training's share of the bare environments' speed, at most 1: it does all that they do, so more is noise."""
        return min(1.0, self.training / self.bare)

    @property
    def advice(self) -> str:
        """Advice that would make it faster, or nothing."""
        total = self.workers * 1e6 / self.training
        if self.candidates < self.population_size or self.episode_cap is not None:
            return ""  # in this case both of these are too large
        if self.waiting > 0.2 * total:
            return (
                "Workers wait a fifth of the time or more: a larger population_size, or more episodes_per_candidate, "
                "distributes the work more evenly."
            )
        if self.update > 0.2 * total:
            return "The update takes a fifth of the time or more: more episodes_per_candidate would make it rarer."
        return ""


def bench(
    env: str | TrainConfig | Callable[..., gymnasium.Env[Any, Any]],
    *,
    workers: int | None = None,
    seconds: float = 10.0,
    progress: bool = False,
    **config_fields: Any,
) -> Bench:
    """Measure the speed of an environment, bare and in training.

    Both play the same episodes, those of generation 0, and take turns, so that other load on the machine slows both
    alike. If a generation would take too long, only some of its candidates are played, or the beginnings of their
    episodes.

    Args:
        env: id of an environment, whose recommended settings then apply; or a complete TrainConfig; or a class or
            function that makes an environment.
        workers: number of processes; None: the usable cores.
        seconds: total time; at least as long as it takes to start the processes and play a few steps in each, twice.
        progress: show a progress bar, if there is a terminal.
        **config_fields: fields of TrainConfig.

    Raises:
        UnknownEnvError: no such environment is registered.
        ValueError, TypeError: a setting is invalid.
        RolloutError: an episode failed.
    """
    require_seconds("seconds", seconds)
    config = resolved(env, config_fields)
    definition = es_envs.definition(config.env_id)
    prepare_policy(config, definition, shown=progress)
    started = time.perf_counter()
    with (
        make_pool("local", definition, config, workers=workers) as pool,
        search_progress(shown=progress) as display,
    ):
        task = display.add_task(config.env_id, total=seconds)

        def left() -> float:
            spent = time.perf_counter() - started
            display.update(task, completed=min(spent, seconds))
            return seconds - spent

        training = _Training(pool)
        training.grow(definition, seconds / _PARTS, left)
        with Forker() as forker, _Bare(forker, definition, pool.config, training.share_out()) as bare:
            rounds: list[_Round] = []
            longest = 0.0
            while not rounds or (len(rounds) < 10 * _ROUNDS and left() > longest):
                began = time.perf_counter()
                turn = max(0.0, left()) / (2 * max(1, _ROUNDS - len(rounds)))
                wall, update = training.measure(turn)
                rounds.append(_Round(wall, update, *bare.measure(turn)))
                longest = max(longest, time.perf_counter() - began)
            not_forked = forker.reason
        return _summary(training, rounds, not_forked)


@dataclass(frozen=True)
class _Round:
    """Results of one round: seconds per step of training, and of its update; microseconds per step of the parts."""

    wall: float
    update: float
    environment: float
    policy: float
    noise: float
    bare: float  # steps a second of all processes


def _summary(training: "_Training", rounds: Sequence[_Round], not_forked: str | None) -> Bench:
    def middle(name: str) -> float:
        return float(median(getattr(each, name) for each in rounds))

    pool, played = training.pool, training.population
    shares = [1 / (each.wall * each.bare) for each in rounds]
    per_step, update = (1e6 * pool.workers * middle(name) for name in ("wall", "update"))
    environment, policy, noise = (middle(name) for name in ("environment", "policy", "noise"))
    return Bench(
        env_id=pool.config.env_id,
        workers=pool.workers,
        population_size=pool.config.population_size,
        candidates=len(played),
        episode_cap=played.max_episode_steps,
        bare=middle("bare"),
        training=1 / middle("wall"),
        shares=(min(shares), max(shares)),
        environment=environment,
        policy=policy,
        noise=noise,
        update=update,
        waiting=max(0.0, per_step - environment - policy - noise - update),
        not_forked=not_forked,
    )


class _Training:
    """Generation 0, played repeatedly, and the updates of a strategy that continues.

    Attributes:
        pool: the pool that plays it.
        population: the part of it for which there is time.
        seeds: ``(N, k)``, seeds of its episodes.
    """

    def __init__(self, pool: RolloutPool) -> None:
        self.pool = pool
        config = pool.config
        policy = make_policy(config, pool.observation_space, pool.action_space)
        self._strategy = make_strategy(config, policy.initial(config.seed))
        self._whole = replace(self._strategy.ask(), statistics=first_statistics(config, policy, pool))
        self.seeds = training_seeds(config, len(self._whole), 0)
        self.population = self._whole

    def grow(self, definition: EnvDefinition, most: float, left: Callable[[], float]) -> None:
        """Choose the largest part that takes about ``most`` seconds: longer episodes first, then more candidates."""
        limit = step_limit(definition, self.pool.config)
        cap, count, total = min(_FIRST_CAP, limit), min(2 * self.pool.workers, len(self._whole)), len(self._whole)
        self._choose(count, cap, limit)
        self._play()  # as a warm-up, too
        while True:
            began = time.perf_counter()
            results = self._play()
            took = time.perf_counter() - began
            cut = cap < limit and int(results.lengths.max(initial=0)) >= cap
            left()
            if 2 * took > most or not (cut or count < total):
                break
            cap, count = (min(2 * cap, limit), count) if cut else (limit, min(2 * count, total))
            self._choose(count, cap, limit)
        if not cut:
            self._choose(count, limit, limit)

    def _choose(self, count: int, cap: int, limit: int) -> None:
        whole = self._whole
        self.population = replace(
            whole,
            parent=whole.parent[:count],
            noise_seed=whole.noise_seed[:count],
            sign=whole.sign[:count],
            max_episode_steps=cap if cap < limit else None,
        )

    def _play(self) -> Results:
        return self.pool.evaluate(self.population, self.seeds[: len(self.population)])

    def share_out(self) -> list[tuple[Population, list[tuple[int, list[int]]]]]:
        """The population, and for each worker the candidates and episodes that a process plays in its place."""
        indices = range(len(self.population))
        return [
            (self.population, [(index, self.seeds[index].tolist()) for index in indices[worker :: self.pool.workers]])
            for worker in range(min(self.pool.workers, len(self.population)))
        ]

    def measure(self, seconds: float) -> tuple[float, float]:
        """Measure seconds per step, over whole generations, and the part of them in which the mean is updated."""
        played, updated, steps = 0.0, 0.0, 0.0
        ends = time.perf_counter() + seconds
        while not steps or time.perf_counter() < ends:
            times = [time.perf_counter()]
            results = self._play()
            times.append(time.perf_counter())
            total = len(self._strategy.ask())
            # Whatever fitness: it shall take as long as ever.
            self._strategy.tell(np.resize(results.fitness[results.valid], total))
            times.append(time.perf_counter())
            played += times[1] - times[0]
            updated += (times[2] - times[1]) * len(self.population) / total
            steps += results.steps
        return (played + updated) / steps, updated / steps


class _Bare:
    """Processes, as many as the pool's workers, that play its episodes alone, with and without the policy."""

    def __init__(
        self,
        forker: Forker,
        definition: EnvDefinition,
        config: TrainConfig,
        parts: Sequence[tuple[Population, list[tuple[int, list[int]]]]],
    ) -> None:
        self._label = definition.label
        self._children: list[Child] = []
        forker.load([__name__, *registry.modules(definition)])
        try:
            for _ in parts:  # one by one, so that the others are ended if one cannot start
                self._children.append(Child(f"{__name__}:measure", forker=forker))
            self._ask([(definition, config, packed(definition, config), *part) for part in parts])
        except BaseException:
            end(self._children)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end(self._children)

    def measure(self, seconds: float) -> tuple[float, float, float, float]:
        """Measure medians of environment, policy and noise, and steps per second of all environments at once."""
        answers = self._ask([seconds] * len(self._children))
        environment, policy, noise = (median(answer[which] for answer in answers) for which in range(3))
        return environment, policy, noise, sum(1e6 / answer[0] for answer in answers)

    def _ask(self, messages: Sequence[object]) -> list[Any]:
        try:
            for child, message in zip(self._children, messages, strict=True):
                child.send(message)
            return [child.receive() for child in self._children]
        except ChildDiedError as error:
            raise RolloutError(f"{self._label}: {error}") from None


def measure(connection: Any) -> None:
    """Measure, on request, microseconds per step of environment, policy and noise in a separate process.

    The first message contains the episodes; it is answered when they have been played once. Each later one contains
    the seconds that the measurement may take.
    """
    definition, config, objects, population, work = connection.recv()
    import_path.receive(objects)
    rollout = Rollout(definition, config)
    with closing_at_the_end(rollout):
        _measure(rollout, population, work, connection)


def _measure(rollout: Rollout, population: Population, work: Any, connection: Any) -> None:
    if rollout.policy.config.observation_normalization:
        rollout.actor.collect()
    parameters = np.empty(rollout.policy.size, np.float32)
    recorded: list[tuple[int, list[Any]]] = []  # the seed of each episode, and its actions
    loading = 0.0

    def play(*, record: bool = False) -> int:
        nonlocal loading
        steps = 0
        for index, seeds in work:
            started = time.perf_counter()
            rollout.use(population.candidate(index, parameters), population.statistics)
            loading += time.perf_counter() - started
            for seed in seeds:
                noise_seed = action_noise_seed(rollout.policy, population, index, seed)
                taken: list[Any] = []
                observers = [lambda _o, action, *_, taken=taken: taken.append(action)] if record else []
                episode = rollout.episode(
                    seed, observers=observers, noise_seed=noise_seed, max_steps=population.max_episode_steps
                )
                steps += episode.length
                if record:
                    recorded.append((seed, taken))
        return steps

    def replay() -> None:
        """Play the same episodes without a policy."""
        step, reset = rollout.env.step, rollout.env.reset
        for seed, taken in recorded:
            reset(seed=seed)
            for action in taken:
                step(action)

    steps = play(record=True)
    connection.send(steps)
    while True:
        ends = time.perf_counter() + connection.recv()
        bare, whole, noise, times = 0.0, 0.0, 0.0, 0
        while not times or time.perf_counter() < ends:
            started, loading = time.perf_counter(), 0.0
            replay()
            middle = time.perf_counter()
            play()
            whole += time.perf_counter() - middle - loading
            bare += middle - started
            noise += loading
            times += 1
        environment, played, loaded = (1e6 * total / (times * steps) for total in (bare, whole, noise))
        connection.send((environment, max(0.0, played - environment), loaded))
