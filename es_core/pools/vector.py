"""The vector pool: one candidate in each copy of a vector environment, one forward pass for all. Imports torch."""

import math
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from es_core.config.budgets import largest_population, step_limit
from es_core.config.train_config import TrainConfig
from es_core.machine import usable_cores
from es_core.policies.by_name import make_policy
from es_core.policies.engines import has_cuda
from es_core.policies.normalization import ObservationStatistics
from es_core.policies.torch_actor import TorchActors
from es_core.pools.copies import UNCONTROLLED, Copies, has_native_form, row_of, starting, to_numpy
from es_core.pools.messages import TIMED_OUT, CandidateTask, CentreTask, Failed, ReferenceTask, Reply, Work
from es_core.pools.options import PoolOptions
from es_core.pools.pool import RolloutPool
from es_core.pools.worker import (
    ATTEMPTS,
    Answer,
    TaskResult,
    action_noise_seed,
    described,
    enters_statistics,
    played_alone,
)
from es_core.processes.memory import MemoryWatch
from es_core.rollout.bounds import BoundsCounter
from es_core.rollout.environment import prepare_env
from es_core.rollout.errors import RolloutError, SpaceError
from es_core.rollout.fitness import Fitnesses, fresh_fitnesses, load_fitnesses, observers_of, with_fitness
from es_core.rollout.rollout import Rollout
from es_core.strategies.defaults import make_plan
from es_core.strategies.population import Drawn
from es_envs import EnvDefinition, Episode, interruption
from es_envs.behaviour import BehaviourDescriber
from es_envs.closing import close_env
from es_envs.masks import KEY, allowed, require_choices
from es_envs.return_values import info_of

_PARAMETERS = 2**28  # of all candidates at once, if the number of copies is not set: 1 GB


class VectorPool(RolloutPool):
    """One vector environment, and a policy that is computed for all of its copies at once; see ``RolloutPool``.

    Args:
        definition: the environment's definition.
        config: the run's config, resolved.
        options: of the pool; the number of copies is the setting ``vector_envs``.

    Attributes:
        plan: the run's settings with the number of copies, and the way in which their starts are seeded.

    Raises:
        ValueError: an argument or a space is not supported, or the vector environment does not fit.
        PluginError: the environment cannot be made.
    """

    can_record = False

    def __init__(self, definition: EnvDefinition, config: TrainConfig, options: PoolOptions) -> None:
        if config.engine == "compiled":
            raise ValueError(
                "engine='compiled' computes one candidate, but the vector pool all of them at once: leave engine at "
                "'auto', or use pool='local' (on the command line: --pool local)"
            )
        if config.curriculum is not None:
            raise ValueError(
                "curriculum is for the pools 'local' and 'ray', which pass the environment its ranges at each reset"
            )
        self.definition = definition
        with starting(definition.label):
            env, config = prepare_env(definition, config)
        self.observation_space, self.action_space = env.observation_space, env.action_space
        close_env(env, definition.label)
        try:
            self.policy = make_policy(config, self.observation_space, self.action_space)
        except ValueError as error:
            raise SpaceError(f"{definition.label}: {error}") from error
        is_native = has_native_form(definition, config)
        plan = make_plan(self.policy)
        most = largest_population(replace(plan, steps_limit=None, restarts=0))  # what grows later plays in turns
        together = min(most, _PARAMETERS // self.policy.size) if is_native else min(most, usable_cores())
        width = max(1, together) if config.vector_envs is None else config.vector_envs
        spaces = self.observation_space, self.action_space
        self.copies = Copies(definition, config, width, spaces, step_timeout=options.step_timeout)
        device = ("cuda" if has_cuda() else "cpu") if config.device == "auto" else config.device
        chosen: dict[str, Any] = {"device": device, "vector_envs": width, "vector_starts": self.copies.starts}
        self.plan = self.config = replace(plan, engine="torch", **chosen)
        self.workers = 1 if is_native else width
        self._episodes_per_worker, self._played = options.episodes_per_worker, 0
        self._memory = MemoryWatch[int](definition.label)
        self._step_timeout, self._has_played = options.step_timeout, False
        self._settings: Mapping[str, Any] = {}
        self._adopt({})
        self.fitnesses = load_fitnesses(definition, config)
        self.behaviours = BehaviourDescriber(definition)
        self.choice = f"{width} copies, starts {self.copies.starts}"
        if self.copies.compiles:
            self.choice += "; JAX compiles anew for each number of copies that end at once, so it is slow at first"

    def _adopt(self, settings: Mapping[str, Any]) -> None:
        """Play with the policy of a contender from now on."""
        self._settings = settings
        self.policy = make_policy(self.config, self.observation_space, self.action_space)
        self.actors = TorchActors(self.policy, self.config.vector_envs or 1, self.config.device)
        if self.config.observation_normalization:
            self.actors.collect()

    def play(self, work: Work) -> Iterator[Reply]:
        """Play the tasks of ``work``, and yield the candidates' reply, then the others'."""
        if work.settings != self._settings:
            self._adopt(work.settings)
        if self._episodes_per_worker is not None and self._played >= self._episodes_per_worker * len(self.actors):
            self.copies.renew()
            self._played = 0
            self._memory = MemoryWatch[int](self.definition.label)
        candidates = len(work.seeds)
        if candidates:
            yield self._reply(work, range(candidates))
        has_policy = all(isinstance(task, CentreTask) for task in work.others)
        if has_policy and self.copies.starts != UNCONTROLLED:
            yield self._reply(work, range(candidates, len(work)))
        else:
            for number in range(candidates, len(work)):
                yield self._alone(work, number)

    def _reply(self, work: Work, numbers: Sequence[int]) -> Reply:
        """Play tasks in the copies; those that fail are played once more, in fresh copies."""
        plays = [_Play(number, place, seed) for number in numbers for place, seed in enumerate(work.task(number).seeds)]
        self.actors.normalize(work.population.statistics)
        done: dict[tuple[int, int], _Done] = {}
        suspects = self._attempt(work, plays, done)
        lost: dict[int, tuple[_Play, BaseException]] = {}
        if suspects:
            self.copies.renew()
            again = [replace(play) for play, _ in suspects]
            # With few copies, each in a process, the guilty one can be found.
            for group in [again] if self.copies.is_native else [[play] for play in again]:
                for play, error in self._attempt(work, group, done):
                    lost.setdefault(play.number, (play, error))
        answer, empty = Answer(), ObservationStatistics.empty(self.policy.inputs)
        retried = {play.number for play, _ in suspects}
        for number in numbers:
            task = work.task(number)
            if number in lost:
                play, error = lost[number]
                answer.fail(Failed(number, play.seed, *described(error)))
                continue
            played = [done[number, place] for place in range(len(task.seeds))]
            observed = [each.observed for each in played if each.observed is not None]
            merged = empty.merged(observed) if self.config.observation_normalization else None
            answer.add(number, task, TaskResult([each.episode for each in played], merged), retried=number in retried)
        self._played += len(plays)
        for number, pid in enumerate(self.copies.pids):
            self._memory.add(number, pid, math.ceil(len(plays) / len(self.actors)))
        self.retried += len(retried - lost.keys())
        return answer.reply(0.0)

    def _attempt(
        self, work: Work, plays: Sequence["_Play"], done: dict[tuple[int, int], "_Done"]
    ) -> list[tuple["_Play", BaseException]]:
        """Play episodes; return those that failed, and why. If a step fails as a whole, all current ones fail."""
        queue, lost = deque(plays), list[tuple[_Play, BaseException]]()
        while queue:
            wave = _Wave(self, work, queue, done)
            try:
                wave.run()
            except BaseException as error:
                if interruption.is_from_signal(error):
                    raise
                kind, message, _ = described(error)
                seated = [row for row, play in enumerate(wave.seats) if play is not None]
                timed_out = kind == TIMED_OUT and self.copies.are_silent(seated)
                if timed_out and not self._has_played:
                    raise RolloutError(
                        f"{self.definition.label}: no copy has ever answered, though each had {self._step_timeout:g} "
                        "seconds (step_timeout), so the run stops. A simulator that is slow at first needs more; one "
                        "that cannot run in several processes at once needs vector_envs=1; or use pool='local'"
                    ) from error
                lost += [(play, error) for play in wave.seats if play is not None]
                what = f"{self.definition.label}: a step failed, so all copies are replaced"
                warnings.warn(f"{what}: {kind}: {message}", RuntimeWarning, stacklevel=2)
                self.copies.renew()
                self.workers_replaced += 1
            lost += wave.lost
            self._has_played = self._has_played or bool(done)
        return lost

    @cached_property
    def _single(self) -> Rollout:
        """A single environment, for tasks that the copies cannot play."""
        return Rollout(self.definition, replace(self.plan, device="cpu"))

    def _alone(self, work: Work, number: int) -> Reply:
        """Play a task in the single environment; if it fails, once more in a fresh one."""
        task, single, answer = work.others[number - len(work.seeds)], self._single, Answer()
        single.adopt(work.settings)
        for attempt in range(ATTEMPTS):
            try:
                played = played_alone(single, task, work.population)
            except BaseException as error:
                if interruption.is_from_signal(error):
                    raise
                failed = Failed(number, None if isinstance(task, ReferenceTask) else task.seed, *described(error))
                single.close()
            else:
                answer.add(number, task, played, retried=attempt > 0)
                self.retried += attempt > 0
                return answer.reply(0.0)
        answer.fail(failed)
        return answer.reply(0.0)

    def close(self) -> None:
        """Close all environments. May be called twice."""
        self.copies.close()
        if "_single" in vars(self):
            self._single.close()


@dataclass
class _Play:
    """An episode that waits for a copy, or that a copy plays.

    Attributes:
        number: its task's number.
        place: its place among the task's episodes.
        seed: its seed.
        start_info: the info that ``reset`` returned.
        first_observation: the observation that ``reset`` returned.
        measured: its fitnesses.
        bounds: counts its actions at bounds, if the centre plays it.
    """

    number: int
    place: int
    seed: int
    start_info: Mapping[str, Any] = field(default_factory=dict)
    first_observation: Any = None
    measured: Fitnesses = ()
    bounds: BoundsCounter | None = None


@dataclass(frozen=True)
class _Done:
    """An episode that was played, and its observations' statistics."""

    episode: Episode
    observed: ObservationStatistics | None


class _Wave:
    """Episodes from one reset of all copies until the last has ended.

    Args:
        pool: the pool whose copies and actors play.
        work: the work that the episodes belong to.
        queue: episodes to play, from which a copy that can begin another one takes the next.
        done: dict for the episodes that have ended.

    Attributes:
        seats: the episode that each copy plays, or None.
        lost: episodes that failed, and their errors.
    """

    def __init__(self, pool: VectorPool, work: Work, queue: deque[_Play], done: dict[tuple[int, int], _Done]) -> None:
        self._pool, self._work, self._queue, self._done = pool, work, queue, done
        self._copies, self._actors = pool.copies, pool.actors
        width, size = len(self._actors), pool.policy.size
        self._parameters, self._drawn = np.empty(size, np.float32), Drawn(size)
        self.seats: list[_Play | None] = [None] * width
        self.lost: list[tuple[_Play, BaseException]] = []
        self._live = np.zeros(width, np.bool_)  # True for copies whose episode has begun and not ended
        self._totals, self._lengths = np.zeros(width), np.zeros(width, np.int64)
        self._limits = np.zeros(width, np.int64)
        self._observed = any(observers_of(fresh_fitnesses(pool.fitnesses)))
        self._allowed: NDArray[np.bool_] | None = None  # choices of each row, once there is a mask of actions
        self._counted = False  # True as soon as the centre plays

    def run(self) -> None:
        """Play until all episodes have ended."""
        rows = self._seat(range(len(self.seats)))
        observations, infos = self._copies.reset([play.seed for play in self.seats if play])
        self._take_masks(infos, rows)
        while True:
            self._begin(rows, observations, infos)
            if not any(self.seats):
                return
            observations, infos, rows = self._step(observations)

    def _step(self, observations: Any) -> tuple[Any, Mapping[str, Any], list[int]]:
        """Step all copies; return observations, infos, and the rows in which an episode begins with these."""
        interruption.check()
        copies, live = self._copies, self._live
        # For this step, which is their reset.
        waiting = [row for row, play in enumerate(self.seats) if play and not live[row]]
        actions, wrong = self._actors.act(self._actors.flattened(observations), live, self._allowed)
        for row, error in wrong.items():
            self._lose(row, error)
        observations, rewards, terminated, truncated, infos = copies.step(actions)
        self._take_masks(infos, [row for row, play in enumerate(self.seats) if play])
        terminated, over = np.asarray(terminated), np.asarray(terminated) | np.asarray(truncated)
        self._totals[live] += np.asarray(rewards, float)[live]
        self._lengths += live
        if self._observed:
            self._observe(observations, actions, rewards, infos, over)
        if self._counted:
            self._count(actions)
        for row in np.flatnonzero(live & (over | (self._lengths >= self._limits))).tolist():
            self._end(row, observations, infos, over=over[row], terminated=terminated[row])
        if not (self._queue and copies.restarts):
            return observations, infos, waiting
        free = [row for row, play in enumerate(self.seats) if not play and (over[row] or not copies.is_native)]
        rows = self._seat(free)
        if rows and not copies.is_native:
            mask = np.isin(np.arange(len(self.seats)), rows)
            observations, infos = copies.restart(mask, [play.seed if play else None for play in self.seats])
            self._take_masks(infos, rows)
        return observations, infos, waiting if copies.mode == AutoresetMode.NEXT_STEP else rows

    def _take_masks(self, infos: Mapping[str, Any], rows: Sequence[int]) -> None:
        """Note which choices the infos allow in these rows' next step."""
        space = self._pool.action_space
        if not self._pool.config.action_masks or (self._allowed is None and KEY not in infos):
            return
        require_choices(space)
        if self._allowed is None:
            self._allowed = np.ones((len(self.seats), self._pool.policy.actions.decisive), np.bool_)
        masks = {name: infos[name] for name in (KEY, f"_{KEY}") if name in infos}
        for row in rows:
            mask = info_of(masks, row).get(KEY)
            try:
                self._allowed[row] = True if mask is None else allowed(space, mask)
            except ValueError as error:
                self._lose(row, error)

    def _seat(self, rows: Sequence[int]) -> list[int]:
        """Give free rows the next episodes; return the rows that got one."""
        population, taken = self._work.population, []
        for row in rows:
            if not self._queue:
                break
            play = self.seats[row] = self._queue.popleft()
            candidate = min(play.number, len(population))
            self._actors.load(row, population.candidate(candidate, self._parameters, self._drawn))
            limit = step_limit(self._pool.definition, self._pool.config)
            if candidate < len(population) and population.max_episode_steps is not None:
                limit = min(limit, population.max_episode_steps)
            self._limits[row] = limit
            taken.append(row)
        return taken

    def _begin(self, rows: Sequence[int], observations: Any, infos: Mapping[str, Any]) -> None:
        population, pool = self._work.population, self._pool
        observations = to_numpy(observations) if rows else None
        for row in rows:
            play = self.seats[row]
            if play is None:  # it failed before its first step
                continue
            play.start_info = info_of(infos, row)
            play.first_observation = row_of(pool.observation_space, observations, row)
            play.measured = fresh_fitnesses(pool.fitnesses)
            task = self._work.task(play.number)
            noise_seed = None
            if isinstance(task, CandidateTask):
                noise_seed = action_noise_seed(pool.policy, population, task.candidate, play.seed)
            elif isinstance(task, CentreTask):
                play.bounds, self._counted = BoundsCounter(pool.policy), True
                if task.explore:
                    noise_seed = action_noise_seed(pool.policy, population, None, play.seed)
            self._actors.reset(row, noise_seed=noise_seed)
            self._live[row], self._totals[row], self._lengths[row] = True, 0, 0

    def _observe(self, observations: Any, actions: Any, rewards: Any, infos: Mapping[str, Any], over: Any) -> None:
        """Pass the step to the fitnesses that see every step."""
        actions = to_numpy(actions)
        for row in np.flatnonzero(self._live).tolist():
            play = self.seats[row]
            for observe in observers_of(play.measured if play else ()):
                info, observation = self._outcome(row, observations, infos, over=over[row])
                observe(observation, row_of(self._pool.action_space, actions, row), float(rewards[row]), info)

    def _count(self, actions: Any) -> None:
        """Count the centre's actions at bounds."""
        actions = to_numpy(actions)
        for row in np.flatnonzero(self._live).tolist():
            play = self.seats[row]
            if play and play.bounds and play.bounds.observers:
                play.bounds.count(actions[row])

    def _end(self, row: int, observations: Any, infos: Mapping[str, Any], *, over: bool, terminated: bool) -> None:
        """Compute the fitness of the episode in ``row``, and free the row."""
        play, pool = self.seats[row], self._pool
        if play is None:
            return
        info, last = self._outcome(row, observations, infos, over=over)
        length = int(self._lengths[row])
        episode = Episode(
            seed=play.seed,
            total_reward=self._totals[row],
            length=length,
            terminated=bool(terminated),
            truncated=not terminated,
            start_info=play.start_info,
            final_info=info,
            first_observation=play.first_observation,
            last_observation=last,
        )
        if play.bounds is not None:
            episode = play.bounds.with_bounds_share(episode)
        is_candidate = play.number < len(self._work.seeds)
        try:
            episode = with_fitness(episode, play.measured)
            if is_candidate and self._work.population.describes:
                episode = pool.behaviours.with_behaviour(episode)
        except ValueError as error:
            self._lose(row, error)
            return
        observed = None
        k = self._work.seeds.shape[1]
        if is_candidate and enters_statistics(pool.config, self._work.population, play.number * k + play.place):
            observed = self._actors.statistics(row, length)
        self._done[play.number, play.place] = _Done(episode, observed)
        self._free(row)

    def _outcome(self, row: int, observations: Any, infos: Mapping[str, Any], *, over: bool) -> tuple[Any, Any]:
        """Last info and observation of the episode in ``row``, whose copy may have begun another one at once."""
        space = self._pool.observation_space
        if not (over and self._copies.mode == AutoresetMode.SAME_STEP):
            return info_of(infos, row), row_of(space, to_numpy(observations), row)
        try:
            last, final_infos = infos["final_obs"], infos["final_info"]
        except KeyError as error:
            raise ValueError(
                f"{self._pool.definition.label}: its vector environment begins an episode in the step in which the "
                f"last one ends (AutoresetMode.SAME_STEP), and its infos lack {error}: it must give final_obs and "
                "final_info"
            ) from None
        if isinstance(last, np.ndarray) and last.dtype == object:
            return info_of(final_infos, row), last[row]
        return info_of(final_infos, row), row_of(space, to_numpy(last), row)

    def _lose(self, row: int, error: BaseException) -> None:
        play = self.seats[row]
        if play is not None:
            self.lost.append((play, error))
        self._free(row)

    def _free(self, row: int) -> None:
        self.seats[row], self._live[row] = None, False
