"""Copies of an environment that are stepped together: its own vectorised form, or one process per copy."""

import multiprocessing.connection
import signal
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import parent_process
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO, TypeVar, cast

import gymnasium
import numpy as np
from gymnasium import logger, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, VectorEnv
from gymnasium.vector.async_vector_env import _async_worker
from gymnasium.vector.utils import create_empty_array
from gymnasium.wrappers.vector import FlattenObservation
from numpy.typing import NDArray

from es_core.config.budgets import step_limit
from es_core.config.objects import pack_objects
from es_core.config.train_config import TrainConfig
from es_core.pools.messages import TIMED_OUT, WORKER_DIED, CannotStart, too_slow
from es_core.pools.pool import require_ready
from es_core.pools.worker import DescribedError, described
from es_core.processes.process import CLOSES_WITHIN, death_of, show_warning
from es_core.rollout.environment import make_env
from es_envs import EnvDefinition, import_path, interruption
from es_envs.closing import close_env
from es_envs.episode import NamedStop
from es_envs.return_values import Checked
from es_envs.spaces import parts, require_shape
from es_envs.streams import LastingStream, open_closed_streams

EACH, WHOLE, UNCONTROLLED = "each copy seeded", "seeded as a whole", "not controlled"
"""Ways in which seeds determine the starts of episodes."""

_ANSWERS_WITHIN = 1.0  # seconds in which a copy must end its step, before it closes

Space = gymnasium.Space[Any]
Returned = TypeVar("Returned", bound=tuple[Any, ...])


class Copies:
    """A vector environment whose episodes begin at given seeds, as far as it can be seeded.

    Args:
        definition: the environment's definition.
        config: the run's config, resolved.
        width: number of copies.
        single: observation and action space of the environment itself.
        step_timeout: seconds that a step or reset of processes may take.

    Attributes:
        starts: EACH, WHOLE or UNCONTROLLED.
        mode: autoreset mode: what it does with copies whose episode has ended.

    Raises:
        ValueError: the vector environment does not fit; the message says what is wrong with it.
    """

    def __init__(
        self,
        definition: EnvDefinition,
        config: TrainConfig,
        width: int,
        single: tuple[Space, Space],
        *,
        step_timeout: float,
    ) -> None:
        self._definition, self._config, self._width = definition, config, width
        self._step_timeout = step_timeout
        self.is_native = has_native_form(definition, config)
        self._env = self._make(width)
        try:
            self.mode: AutoresetMode = self._require_fitting(single)
            self._seeds_at_construction = False
            self.starts = self._find_starts()
            self._env.action_space.seed(0)
            self._idle = self._env.action_space.sample()
        except BaseException:
            self.close()
            raise

    @property
    def restarts(self) -> bool:
        """True if a copy whose episode has ended can begin another one while others play on."""
        return not self.is_native or self.starts != EACH

    @property
    def compiles(self) -> bool:
        """True if it is Gymnasium's form in JAX, which compiles a restart for each number of copies that restart."""
        return any("FunctionalJaxVectorEnv" in kind.__name__ for kind in type(self._env.unwrapped).__mro__)

    def reset(self, seeds: Sequence[int]) -> tuple[Any, Mapping[str, Any]]:
        """Begin episodes in the first copies, and return observations and infos.

        Args:
            seeds: of these episodes; if only the whole can be seeded, the first one is used.
        """
        if self._seeds_at_construction:  # then no copy is made that plays nothing
            self.close()
            self._env = self._make(len(seeds), seed=list(seeds))
            return self._rows(self._env.reset())
        count = len(seeds)
        seeds = [*seeds, *[seeds[0]] * (self._width - len(seeds))]
        if isinstance(self._env, AsyncVectorEnv):  # copies that have nothing to play rest
            return self.restart(np.arange(self._width) < count, seeds)
        if self.starts == WHOLE and self.mode == AutoresetMode.NEXT_STEP:
            # Some (phys2d's of Gymnasium 1.4.0) remember across a reset which copies must restart.
            self._env.reset(seed=seeds[0])
            self._env.step(self._idle)
        seed: Any = {EACH: list(seeds), WHOLE: seeds[0], UNCONTROLLED: None}[self.starts]
        return self._rows(self._env.reset(seed=seed))

    def restart(self, mask: NDArray[np.bool_], seeds: Sequence[int | None]) -> tuple[Any, Mapping[str, Any]]:
        """Begin an episode in some copies, each of which is a process; the observations are all copies'."""
        env: AsyncVectorEnv = self._env  # type: ignore[assignment]
        with self._calling():
            env.reset_async(seed=list(seeds), options={"reset_mask": mask})
            return self._rows(env.reset_wait(timeout=self._step_timeout))

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Mapping[str, Any]]:
        """Step all copies with torch's actions ``(width, ...)``, which become arrays of the observations' library."""
        given = to_env_type(actions, self._last, self._env.num_envs)
        if not isinstance(self._env, AsyncVectorEnv):
            return self._rows(self._env.step(given))
        with self._calling():
            self._env.step_async(given)
            return self._rows(self._env.step_wait(timeout=self._step_timeout))

    @contextmanager
    def _calling(self) -> Iterator[None]:
        """Call copies that are processes.

        Raises:
            DescribedError: one has failed, or died, or takes too long.
        """
        try:
            with _quiet():
                yield
        except multiprocessing.TimeoutError as error:
            raise DescribedError((TIMED_OUT, too_slow(self._step_timeout), "")) from error
        except (EOFError, ConnectionError) as error:
            processes = cast("AsyncVectorEnv", self._env).processes
            ended = multiprocessing.connection.wait([process.sentinel for process in processes], CLOSES_WITHIN)
            for process in processes:
                if process.sentinel in ended:
                    process.join(CLOSES_WITHIN)  # it may have no exit code yet
            codes = filter(None, (process.exitcode for process in processes))
            raise DescribedError((WORKER_DIED, death_of(next(codes, None)), "")) from error

    def _rows(self, returned: Returned) -> Returned:
        """Give what ``reset`` or ``step`` returned a row for each copy, also for those that have not been made."""
        *arrays, infos = returned
        self._last = arrays[0]
        return (*self._padded(tuple(arrays)), infos)  # type: ignore[return-value]

    def _padded(self, values: Any) -> Any:
        """Add a row of zeros for each copy that has not been made."""
        missing = self._width - self._env.num_envs
        if not missing:
            return values
        if isinstance(values, Mapping):
            return {key: self._padded(value) for key, value in values.items()}
        if isinstance(values, tuple):
            return tuple(map(self._padded, values))
        made = to_numpy(values)
        return np.concatenate([made, np.zeros((missing, *made.shape[1:]), made.dtype)])

    @property
    def pids(self) -> list[int]:
        """Numbers of the copies' processes; empty if they have none."""
        processes = self._env.processes if isinstance(self._env, AsyncVectorEnv) else []
        return [process.pid for process in processes if process.pid is not None]

    def renew(self) -> None:
        """Replace all copies by fresh ones."""
        self.close()
        if not self._seeds_at_construction:  # else the next reset makes them
            self._env = self._make(self._width)

    def close(self) -> None:
        """Close the copies; processes that hang are killed. May be called twice."""
        env, label = self._env, self._definition.label
        if not isinstance(env, AsyncVectorEnv):
            close_env(env, label)
            return
        if env.closed:
            return
        for pipe in filter(None, env.parent_pipes):  # there is none to a copy that has failed, which closes by itself
            with suppress(OSError):  # its process has died
                pipe.send(("close", None))
        soon, late = (time.monotonic() + seconds for seconds in (_ANSWERS_WITHIN, CLOSES_WITHIN))
        for pipe, process in zip(env.parent_pipes, env.processes, strict=True):
            if pipe is None or pipe.poll(max(0.0, soon - time.monotonic())):  # it has ended its step, and closes
                process.join(max(0.0, late - time.monotonic()))
            process.kill()
            process.join()
        env.closed = True

    def _make(self, count: int, **seed: Any) -> VectorEnv[Any, Any, Any]:
        definition, config = self._definition, self._config
        if self.is_native:
            # If its own episodes are no longer than ours, it begins another one when ours has ended.
            limit = {"max_episode_steps": step_limit(definition, config)}
            env = definition.build_vector(count, optional={**limit, **seed}, **config.env_kwargs)
            return self._flattened(env) if config.preprocessing.get("flatten") else env
        open_closed_streams()
        copies = [partial(_resting, definition, config, pack_objects(definition, config))] * count
        # Not forked: this process has made an environment, and what it may have started (threads of JAX, say, or a
        # connection to Bullet) does not work in a fork.
        with starting(definition.label), _quiet(), _without_script():
            mode = AutoresetMode.DISABLED
            try:
                return AsyncVectorEnv(copies, context="spawn", worker=_serve_copy, autoreset_mode=mode)
            except (EOFError, ConnectionError) as error:
                raise DescribedError((WORKER_DIED, death_of(None), "")) from error

    def are_silent(self, rows: Sequence[int]) -> bool:
        """Return True if these copies are processes, and none of them has answered."""
        if not isinstance(self._env, AsyncVectorEnv):
            return False
        return not any(self._env.parent_pipes[row].poll(0) for row in rows)

    def _flattened(self, env: VectorEnv[Any, Any, Any]) -> VectorEnv[Any, Any, Any]:
        try:
            return FlattenObservation(env)
        except ValueError as error:  # of SAME_STEP
            close_env(env, self._definition.label)
            raise ValueError(
                f"{self._definition.label}: preprocessing 'flatten' is not for its vector environment: {error}; use "
                "pool='local' (on the command line: --pool local)"
            ) from error

    def _require_fitting(self, single: tuple[Space, Space]) -> AutoresetMode:
        env, who = self._env, f"{self._definition.label}: its vector environment {type(self._env).__name__}"
        if env.num_envs != self._width:
            raise ValueError(f"{who} has {env.num_envs} copies, expected {self._width} (num_envs)")
        for what, own, expected in zip(
            ("observation", "action"), (env.single_observation_space, env.single_action_space), single, strict=True
        ):
            if own != expected:
                raise ValueError(
                    f"{who} has the {what} space {own}, the environment itself {expected}: they must agree"
                )
        mode = env.metadata.get("autoreset_mode")
        known = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP] if self.is_native else [AutoresetMode.DISABLED]
        if mode not in known:
            raise ValueError(
                f"{who} has metadata['autoreset_mode']={mode!r}, which the vector pool does not support: it needs "
                "gymnasium.vector.AutoresetMode.NEXT_STEP, or SAME_STEP with final_obs and final_info"
            )
        return AutoresetMode(mode)

    def _find_starts(self) -> str:
        """Find out by trying how seeds determine the starts: each copy's, all copies' together, or not at all."""
        if not self.is_native:
            return EACH
        many = [1] * self._width
        env: Any = self._env
        tries: list[Any] = [lambda: env.reset(seed=many), lambda: env.reset(seed=1)]
        for attempt in tries:
            with suppress(Exception), _quiet():
                first, second = self._flat(attempt()), self._flat(attempt())
                if np.array_equal(first, second):
                    return EACH if attempt is tries[0] and (first == first[0]).all() else WHOLE
        if self._definition.vector_takes("seed"):
            self._seeds_at_construction = True
            two = many[:2]
            first, second = (self._flat(self.reset(two))[:2] for _ in range(2))
            if np.array_equal(first, second):
                return EACH if (first == first[0]).all() else WHOLE
            self._seeds_at_construction = False
            self.renew()
        return UNCONTROLLED

    def _flat(self, returned: tuple[Any, Any]) -> NDArray[Any]:
        leaves = parts(self._env.single_observation_space, returned[0])
        return np.concatenate([np.reshape(np.array(leaf), (self._width, -1)) for leaf in leaves], 1)


@contextmanager
def starting(label: str) -> Iterator[None]:
    """Report what making an environment here raises, whatever it is, as if a worker had made it.

    Raises:
        PluginError, ValueError, RolloutError: it cannot be made.
    """
    try:
        yield
    except BaseException as error:
        if interruption.is_from_signal(error):
            raise
        require_ready(label, CannotStart(*described(error)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress warnings of Gymnasium and EnvPool: about ignored seeds, and about errors that are raised anyway."""
    level, logger.min_level = logger.min_level, logger.ERROR + 1  # or a % in such an error's text would be another one
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.min_level = level


@contextmanager
def _without_script() -> Iterator[None]:
    """Keep processes that are started meanwhile from importing the user's script, which might never end."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


def has_native_form(definition: EnvDefinition, config: TrainConfig) -> bool:
    """Return True if an environment's own vectorised form is used, whose observations can only be flattened."""
    is_plain = not any(on for name, on in config.preprocessing.items() if name != "flatten") and not config.randomize
    return definition.vector_entry_point is not None and is_plain


class _IdleWhenDone(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A copy that waits before and after its episode: what ``step`` returns until ``reset`` is meaningless."""

    def __init__(self, env: gymnasium.Env[Any, Any], limit: int, label: str) -> None:
        super().__init__(env)
        self._limit, self._label, self._steps = limit, label, 0
        self._space = space = env.observation_space
        self._last: Any = (row_of(space, create_empty_array(space), 0), 0.0, False, False, {})

    def reset(self, **options: Any) -> Any:
        self._last, self._steps = None, 0
        with NamedStop():
            observation, info = self.env.reset(**options)
        require_shape(self._space, observation)
        return observation, info

    def step(self, action: Any) -> Any:
        if self._last is not None:
            return self._last
        with NamedStop():
            observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if terminated or truncated or self._steps == self._limit:
            self._last = observation, 0.0, False, False, {}
        else:
            require_shape(self._space, observation)
        return observation, reward, terminated, truncated, info

    def close(self) -> None:
        close_env(self.env, self._label)


def _resting(definition: EnvDefinition, config: TrainConfig, objects: bytes) -> gymnasium.Env[Any, Any]:
    if parent_process() is not None:  # the first copy is also made here, for its spaces
        sys.stdout = sys.stderr = cast("TextIO", LastingStream(sys.stderr))  # no failure to print may fail an episode
        warnings.showwarning = show_warning
        for name in {"SIGTERM", "SIGHUP"} & {*dir(signal)}:  # as Ctrl-C does, they end a copy, which closes
            signal.signal(getattr(signal, name), signal.default_int_handler)
    import_path.receive(objects)
    return _IdleWhenDone(Checked(make_env(definition, config)), step_limit(definition, config), definition.label)


def _serve_copy(index: int, make: Any, pipe: Any, parent_pipe: Any, memory: Any, errors: Any, *others: Any) -> None:
    """Serve a copy as Gymnasium does, but put all its errors into words here, where their lines are known."""

    def put(error: BaseException) -> None:
        errors.put((index, DescribedError, described(error), ""))

    caught: Any = SimpleNamespace(put=lambda failure: put(failure[2]))
    try:
        _async_worker(index, make, pipe, parent_pipe, memory, caught, *others)
    except BaseException as error:  # noqa: BLE001  (the main process raises it)
        put(error)
        with suppress(OSError):  # the main process is gone
            pipe.send((None, False))


def to_env_type(actions: Any, like: Any, count: int) -> Any:
    """Convert the first ``count`` rows of torch's actions to arrays of the library of ``like``, on its device."""
    if isinstance(actions, Mapping):
        return {key: to_env_type(part, like, count) for key, part in actions.items()}
    if isinstance(actions, tuple):
        return tuple(to_env_type(part, like, count) for part in actions)
    actions = actions[:count]
    while isinstance(like, Mapping | tuple):
        like = next(iter(like.values() if isinstance(like, Mapping) else like))
    if type(like).__module__.partition(".")[0] == "torch":
        return actions.to(like.device)
    if type(like).__module__.partition(".")[0].startswith("jax"):
        import jax

        return jax.dlpack.from_dlpack(actions.contiguous())
    return actions.cpu().numpy()


def to_numpy(observations: Any) -> Any:
    """Convert observations to NumPy arrays."""
    if isinstance(observations, Mapping):
        return {key: to_numpy(value) for key, value in observations.items()}
    if isinstance(observations, tuple):
        return tuple(map(to_numpy, observations))
    if hasattr(observations, "cpu"):
        observations = observations.cpu()
    return np.asarray(observations)


def row_of(space: Space, observations: Any, row: int) -> Any:
    """One copy's observation, as a separate array."""
    if isinstance(space, spaces.Dict):
        return {key: row_of(part, observations[key], row) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(row_of(part, value, row) for part, value in zip(space, observations, strict=True))
    return observations[row].copy()
