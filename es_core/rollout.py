"""The one rollout loop: training, evaluation and recording all pass through it."""

import inspect
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

import gymnasium
import numpy as np

from es_core.budget import step_limit
from es_core.config import TrainConfig
from es_core.machine import one_blas_thread
from es_core.normalizer import Statistics
from es_core.policies import Actors, Network, NotFiniteError, Policy, make_network, make_policy
from es_core.policies.engines import choices
from es_core.preprocessing import preprocessed
from es_core.shaping import SIGN_SHAPINGS
from es_envs import EnvDefinition, Episode
from es_envs.fitness import StepFitness, fitness_names, load_fitness
from es_envs.returned import of_reset, of_step

T = TypeVar("T")
Observer = Callable[[Any, Any, float, Mapping[str, Any]], object]


@dataclass(frozen=True)
class Failure:
    """An episode that failed twice, with the same seed.

    Attributes:
        candidate: index of the candidate; None: the centre.
        seed: of the episode.
        kind: type of what was raised; "WorkerDied" or "StepTimeout" of a process that ended.
        message: its first line, shortened.
    """

    candidate: int | None
    seed: int
    kind: str
    message: str


class RolloutError(RuntimeError):
    """An episode failed; the message names the environment, the seed, the candidate and the generation.

    Attributes:
        failure: which episode, where one is to blame.
    """

    def __init__(self, message: str, failure: Failure | None = None) -> None:
        super().__init__(message)
        self.failure = failure


class SpaceError(ValueError):
    """A policy cannot be made for the environment's spaces, or not be computed here; the message says it all."""


class Lane:
    """One environment for life, and the episodes that are played in it.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        **kwargs: for the environment, over the config's.

    Attributes:
        env: the bare environment, in the wrappers of the config's ``preprocessing``; another one after ``close``.
        row: of the policy's buffers, in which it is played at present.

    Raises:
        PluginError: the environment cannot be made.
    """

    def __init__(self, definition: EnvDefinition, config: TrainConfig, **kwargs: Any) -> None:
        self._step_limit = step_limit(definition, config)
        fitnesses = fitness_names(definition, config.fitness)
        if config.shaping in SIGN_SHAPINGS:
            fitnesses.setdefault("sign_return", "sign_return")
        self._fitnesses: list[tuple[str, Any]] = [(name, load_fitness(target)) for name, target in fitnesses.items()]
        self._make_env = partial(_make_env, definition, config, **kwargs)
        self.env = self._make_env()
        self._is_open = True
        self.row = 0

    def close(self) -> None:
        """Close the environment; a further episode is played in a new one. May be called twice."""
        if self._is_open:
            self._is_open = False
            self.env.close()

    def episode(
        self, seed: int, observers: Sequence[Observer] = (), *, max_steps: int | None = None
    ) -> Generator[Any, Any, Episode]:
        """Play one episode: yields each observation that needs an action, is sent the action, returns the episode.

        Args:
            seed: for ``env.reset``.
            observers: called after every step with observation, action, reward and info.
            max_steps: a step limit below that of the definition and the config, or None.

        Raises:
            ValueError: the fitness or the sum of rewards is not finite, a reward is no number, or ``reset`` or ``step``
                returns something else than it must.
            Exception: whatever the environment raises.
        """
        if not self._is_open:
            self.env, self._is_open = self._make_env(), True
        measured = [
            (name, _PerStep(fitness) if inspect.isclass(fitness) else fitness) for name, fitness in self._fitnesses
        ]
        observers = [*observers, *(fitness.on_step for _, fitness in measured if isinstance(fitness, _PerStep))]
        step = self.env.step
        limit = self._step_limit if max_steps is None else min(max_steps, self._step_limit)

        observation, start_info = of_reset(self.env, self.env.reset(seed=seed))
        first_observation, start_info = _kept(observation), _kept(start_info)
        total_reward, length, terminated, truncated = 0.0, 0, False, False
        info: Mapping[str, Any] = start_info
        for length in range(1, limit + 1):
            action = yield observation
            returned = step(action)
            try:
                observation, reward, terminated, truncated, info = returned
            except (TypeError, ValueError):
                of_step(self.env, returned)  # says what is wrong with it
                raise
            try:
                total_reward += reward  # type: ignore[operator]  # Gymnasium says SupportsFloat
            except TypeError:
                raise ValueError(f"the reward of step {length} is {reward!r}, expected a number") from None
            for observe in observers:
                observe(observation, action, reward, info)  # type: ignore[arg-type]
            if terminated or truncated:
                break

        of_step(self.env, (observation, 0.0, terminated, truncated, info))  # the info is what fitness functions see
        if not _is_finite(total_reward):
            raise ValueError(f"the rewards of {length} steps add up to {total_reward!r}, expected a finite number")
        episode = Episode(
            seed=seed,
            total_reward=float(total_reward),
            length=length,
            terminated=bool(terminated),
            truncated=not terminated,
            start_info=start_info,
            final_info=_kept(info),
            first_observation=first_observation,
            last_observation=_kept(observation),
        )
        return replace(episode, fitnesses=_judge(episode, measured))


def _make_env(definition: EnvDefinition, config: TrainConfig, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    env = definition.build(**{**config.env_kwargs, **kwargs})
    try:
        return preprocessed(env, config.preprocessing)
    except ValueError as error:
        env.close()
        raise SpaceError(f"{definition.label}: {error}") from error


Script = Callable[[Lane], Generator[Any, Any, T]]

# Parameters (1 MB of them) that the rows of a network may have together: beyond, they leave the processor's cache at
# each step, and lockstep gains nothing.
_TOGETHER_AT_MOST = 2**18


class Rollouts:
    """Lanes, and a policy that acts in all of them at once.

    Lanes are stepped in lockstep, so that candidates share the calls of a forward pass: where a step of the environment
    takes a few microseconds, those calls cost as much as the step. No episode depends on the number of lanes.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        lanes: environments at most; the first is made at once, each other one when there is work for it.
        network: makes what computes, from the policy and the number of lanes; None: the config's engine on
            the CPU, with as many lanes as pay.
        **kwargs: for the environment, over the config's; ``render_mode`` too.

    Attributes:
        policy: its kind.
        engine: what computes it here; the config's, if ``network`` does.
        actors: the policy in use.
        progress: a number that grows with each step and each reset.

    Raises:
        PluginError: the environment cannot be made.
        SpaceError: a space is not supported, or the config's engine cannot compute the policy.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        *,
        lanes: int = 1,
        network: Callable[[Policy, int], Network] | None = None,
        **kwargs: Any,
    ) -> None:
        self.definition = definition
        self._make_lane = partial(Lane, definition, config, **kwargs)
        self._lanes = [self._make_lane()]
        self.progress = 0
        try:
            self.policy = make_policy(config, self.env.observation_space, self.env.action_space)
            self.engine = config.engine
            if network is None:
                self.engine, _ = choices(replace(config, device="cpu"), self.policy)[0]
        except ValueError as error:
            self.close()
            raise SpaceError(f"{definition.label}: {error}") from error
        if network is None:
            rows = max(1, min(lanes, _TOGETHER_AT_MOST // self.policy.size))
            computes = make_network(self.policy, rows, self.engine)
        else:
            computes = network(self.policy, lanes)
        self.actors = Actors(self.policy, computes)

    @property
    def env(self) -> gymnasium.Env[Any, Any]:
        """Of the first lane."""
        return self._lanes[0].env

    def use(self, parameters: np.ndarray[Any, np.dtype[np.float32]], statistics: Statistics | None) -> None:
        """Play ``episode`` with these parameters ``(d,)`` and this normalisation from now on."""
        self.actors.normalize(statistics)
        self.actors.load(0, parameters)

    def episode(
        self,
        seed: int,
        *,
        observers: Sequence[Observer] = (),
        noise_seed: int | None = None,
        max_steps: int | None = None,
    ) -> Episode:
        """Play one episode as ``use`` said; see ``Lane.episode``, and ``Actors.start`` for ``noise_seed``."""
        episodes: list[Episode] = []
        self.play(self._script(seed, observers, noise_seed, max_steps), episodes.append)
        return episodes[0]

    def steps(self, seed: int) -> Generator[None, None, Episode]:
        """Play one episode as ``use`` said, step by step: yields after each step, and returns the episode.

        Several of these may take turns, each in ``Rollouts`` of its own. The caller sees to it that products have one
        thread.
        """
        episodes: list[Episode] = []
        lockstep = _Lockstep(self, self._script(seed), episodes.append)
        while lockstep.fill():
            lockstep.step()
            yield
        return episodes[0]

    def _script(
        self,
        seed: int,
        observers: Sequence[Observer] = (),
        noise_seed: int | None = None,
        max_steps: int | None = None,
    ) -> Callable[[], Script[Episode] | None]:
        """What ``play`` takes for one episode: a function that gives its script, and then None."""

        def script(lane: Lane) -> Generator[Any, Any, Episode]:
            self.actors.start(lane.row, noise_seed=noise_seed)
            return (yield from lane.episode(seed, observers, max_steps=max_steps))

        waiting: list[Script[Episode]] = [script]
        return lambda: waiting.pop() if waiting else None

    def play(self, next_script: Callable[[], Script[T] | None], done: Callable[[T], object]) -> None:
        """Play scripts, as many at once as there are lanes, until there are no more.

        A script plays in the lane that it is given: it yields observations and is sent actions, as ``Lane.episode``
        does. Its candidate is in row ``lane.row`` of the actors, which may change between two yields. Products have one
        thread, in whatever process they are computed.

        Args:
            next_script: called whenever a lane is free; None: there is none at present.
            done: called with what a script returns.

        Raises:
            Exception: what a script raises.
        """
        with one_blas_thread():
            _Lockstep(self, next_script, done).run()

    def idle_lane(self, busy: Sequence[Lane]) -> Lane:
        """A lane that is not among ``busy``, a new one if need be."""
        for lane in self._lanes:
            if lane not in busy:
                return lane
        self._lanes.append(self._make_lane())
        return self._lanes[-1]

    def close(self) -> None:
        """Close the environments."""
        for lane in self._lanes:
            lane.close()


class _Lockstep(Generic[T]):
    """Scripts in play, one in each row; ``vacant`` are the rows whose script has ended."""

    def __init__(
        self, rollouts: Rollouts, next_script: Callable[[], Script[T] | None], done: Callable[[T], object]
    ) -> None:
        self._rollouts, self._actors = rollouts, rollouts.actors
        self._next_script, self._done = next_script, done
        self._lanes: list[Lane] = []
        self._scripts: list[Generator[Any, Any, T]] = []
        self._sends: list[Callable[[Any], Any]] = []
        self._vacant: list[int] = []

    def run(self) -> None:
        while self.fill():
            self.step()

    def fill(self) -> bool:
        """Begin what there is to begin; whether anything is in play."""
        if self._vacant or len(self._lanes) < len(self._actors.rows):
            self._begin()
            self._close_up()
        return bool(self._lanes)

    def step(self) -> None:
        """One step of every lane."""
        self._rollouts.progress += 1
        try:
            actions = self._actors.act(len(self._lanes))
        except NotFiniteError as error:
            self._advance(error.row, self._scripts[error.row].throw, error)
            return
        encode = self._actors.encode
        # `_advance`, written out: these are the lines that every step of every environment passes through.
        for row, send, action, out in zip(count(), self._sends, actions, self._actors.rows, strict=False):
            try:
                encode(send(action), out)
            except StopIteration as stop:
                self._end(row, stop)
            except Exception as error:  # noqa: BLE001  (of the encoder; one of the script's own is raised again)
                self._advance(row, self._scripts[row].throw, error)

    def _advance(self, row: int, resume: Callable[[Any], Any], value: Any) -> None:
        """Run a script up to its next observation, which goes into its row, or to its end."""
        self._rollouts.progress += 1
        try:
            observation = resume(value)
        except StopIteration as stop:
            self._end(row, stop)
            return
        try:
            self._actors.encode(observation, self._actors.rows[row])
        except Exception as error:  # noqa: BLE001  (the script's to answer for)
            self._advance(row, self._scripts[row].throw, error)

    def _end(self, row: int, stop: StopIteration) -> None:
        self._vacant.append(row)
        self._done(stop.value)

    def _begin(self) -> None:
        """Begin scripts in vacant rows, and in new ones, as long as there are any."""
        while self._vacant or len(self._lanes) < len(self._actors.rows):
            script = self._next_script()
            if script is None:
                return
            row = self._vacant.pop() if self._vacant else len(self._lanes)
            if row == len(self._lanes):
                self._lanes.append(self._rollouts.idle_lane(self._lanes))
            self._lanes[row].row = row
            generator = script(self._lanes[row])
            self._scripts[row : row + 1], self._sends[row : row + 1] = [generator], [generator.send]
            self._advance(row, generator.send, None)

    def _close_up(self) -> None:
        """Move the rows behind vacant ones up."""
        if not self._vacant:
            return
        stay = [row for row in range(len(self._lanes)) if row not in self._vacant]
        self._lanes = [self._lanes[row] for row in stay]
        self._scripts = [self._scripts[row] for row in stay]
        self._sends = [self._sends[row] for row in stay]
        self._actors.keep(stay)
        for row, lane in enumerate(self._lanes):
            lane.row = row
        self._vacant.clear()


def _judge(episode: Episode, measured: Sequence[tuple[str, Any]]) -> dict[str, float | None]:
    """All fitness values; the first drives selection and must be a number, the others may fail."""
    values: dict[str, float | None] = {}
    for position, (name, fitness) in enumerate(measured):
        try:
            value = fitness.result(episode) if isinstance(fitness, _PerStep) else fitness(episode)
            if not _is_finite(value):
                raise ValueError(f"it returned {value!r}, expected a finite number")
            values[name] = float(value)
        except Exception as error:
            if position == 0:
                raise ValueError(f"fitness {name!r} failed: {type(error).__name__}: {error}") from error
            values[name] = None
    return values


class _PerStep:
    """A per-step fitness in use: what it raises is kept until its value is asked for.

    A secondary one must not end the episode, and of the first one the error shall say which it was.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._error: Exception | None = None
        try:
            self._fitness: StepFitness = make()
        except Exception as error:  # noqa: BLE001  (raised by result)
            self._error = error

    def on_step(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:
        if self._error is None:
            try:
                self._fitness.on_step(observation, action, reward, info)
            except Exception as error:  # noqa: BLE001  (raised by result)
                self._error = error

    def result(self, episode: Episode) -> float:
        if self._error is not None:
            raise self._error
        return self._fitness.result(episode)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False


def _kept(value: Any) -> Any:
    """An observation or info with copies of its arrays, since an environment may write into its own again."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, Mapping):
        return {key: _kept(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        items = [_kept(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    return value
