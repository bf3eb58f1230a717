"""The environment as algorithms of Stable-Baselines3 see it: flat normalised observations, raw actions, one block."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from numpy.typing import NDArray

from es_core.config.budgets import step_limit
from es_core.config.train_config import TrainConfig
from es_core.policies.actions import bins, typed
from es_core.policies.network import Policy
from es_core.policies.normalization import Normalization, ObservationStatistics
from es_core.rollout.environment import make_env
from es_core.rollout.errors import RolloutError
from es_core.rollout.fitness import fresh_fitnesses, load_fitnesses, observers_of, with_fitness
from es_core.rollout.transition_recorder import require_storable
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition, Episode, interruption
from es_envs.closing import close_env
from es_envs.masks import KEY
from es_envs.return_values import Checked

_FAR = 1e6  # a bound that no raw output reaches: the algorithms want one


class LearnerEnv(gymnasium.Env[NDArray[np.float32], Any]):
    """An environment that notes the episodes which an algorithm plays in it, and ends them at the step limit.

    Its actions are the policy's raw outputs, as far as an algorithm can draw them. An episode that the step limit ends
    is truncated, not terminated: the algorithm still counts what would have come.

    Args:
        definition: the environment's definition.
        config: the run's config.
        policy: the run's policy.
        bounded: True for algorithms whose actions lie between -1 and 1.
        number: its number among ``count`` copies, each with starts of its own.
        count: number of copies.

    Attributes:
        episodes: the episodes of this block that have ended, and, as a number, the steps of each that has not.
        seen: sums over the observations of this block, before they were normalised.
    """

    def __init__(
        self, definition: EnvDefinition, config: TrainConfig, policy: Policy, *, bounded: bool, number: int, count: int
    ) -> None:
        self._definition, self._config, self._policy = definition, config, policy
        self._env = TimeLimit(Checked(make_env(definition, config)), step_limit(definition, config))
        weakref.finalize(self, close_env, self._env, definition.label)
        self._fitnesses = load_fitnesses(definition, config)
        self._number, self._count = number, count
        self.observation_space = spaces.Box(-np.inf, np.inf, (policy.inputs,), np.float32)
        self.action_space, self._decode = raw_actions(policy, bounded=bounded)
        self._normalization: Normalization | None = None
        self.begin(0, None)

    def begin(self, generation: int, normalization: Normalization | None) -> None:
        """Begin the block of a generation, in which observations are normalised like this."""
        self._generation, self._normalization = generation, normalization
        self.episodes: list[Episode | int] = []
        self.seen = ObservationStatistics.empty(self._policy.inputs)
        self._length, self._seed = 0, 0

    def cut(self) -> None:
        """End the episode that is being played, since the block has ended."""
        if self._length:
            self.episodes.append(self._length)
        self._length = 0

    def reset(
        self,
        *,
        seed: int | None = None,  # noqa: ARG002  (starts are the run's)
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start the block's next episode, whose seed is a function of its number."""
        self.cut()
        first = len(self.episodes) * self._count + self._number
        (self._seed,) = episode_seeds(self._config.seed, Purpose.TRAINING, 1, self._generation, first=first)
        with self._explained():
            observation, info = self._env.reset(seed=self._seed)
            if self._config.action_masks and info.get(KEY) is not None:
                raise ValueError(
                    f"info['{KEY}'] is nothing that algorithms of Stable-Baselines3 obey here: choose a strategy that "
                    "evolves, such as 'openai_es', or set action_masks=False to ignore it"
                )
            self._first, self._start_info, self._total = deepcopy(observation), deepcopy(info), 0.0
            self._measured = fresh_fitnesses(self._fitnesses)
            self._observers = observers_of(self._measured)
            return self._encoded(observation), {}

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take a step, and note the episode if it ends."""
        interruption.check()
        action = self._decode(action)
        with self._explained():
            observation, reward, terminated, truncated, info = self._env.step(action)
            require_storable(float(reward))
            self._length, self._total = self._length + 1, self._total + float(reward)
            for observe in self._observers:
                observe(observation, action, float(reward), info)
            if terminated or truncated:
                episode = Episode(
                    seed=self._seed,
                    total_reward=self._total,
                    length=self._length,
                    terminated=bool(terminated),
                    truncated=not terminated,
                    start_info=self._start_info,
                    final_info=deepcopy(info),
                    first_observation=self._first,
                    last_observation=deepcopy(observation),
                )
                self.episodes.append(with_fitness(episode, self._measured))
                self._length = 0
            return self._encoded(observation), float(reward), bool(terminated), bool(truncated), {}

    def _encoded(self, observation: Any) -> NDArray[np.float32]:
        values = np.empty(self._policy.inputs, np.float32)
        self._policy.encode(observation, values)
        if not np.isfinite(values).all():
            raise ValueError(f"the observation is not finite: {observation!r}")
        if self._normalization is None:
            return values
        exact = values.astype(np.float64)
        self.seen = self.seen.merged([ObservationStatistics(1, exact, exact**2)])
        return normalized(values, self._normalization)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except RolloutError:
            raise
        except Exception as error:
            raise RolloutError(
                f"{self._definition.label}: an episode of the learner in generation {self._generation} (episode seed "
                f"{self._seed}, run seed {self._config.seed}) failed: {type(error).__name__}: {error}"
            ) from error


def normalized(observation: NDArray[np.float32], normalization: Normalization) -> NDArray[np.float32]:
    """A flat observation ``(n,)`` as the policy's inputs."""
    values = (observation - normalization.center) * normalization.scale
    return values if normalization.clip is None else np.clip(values, -normalization.clip, normalization.clip)


def raw_actions(policy: Policy, *, bounded: bool) -> tuple[gymnasium.Space[Any], Callable[[Any], Any]]:
    """The space in which an algorithm acts, and the function that makes the environment's action of one in it.

    Args:
        policy: the policy whose raw outputs are meant.
        bounded: True for algorithms whose actions lie between -1 and 1, and reach from bound to bound.
    """
    space, size = policy.action_space, policy.outputs
    match space:
        case spaces.Box() if policy.actions.decoding == "choices":
            _, values = bins(space, policy.config.action_bins or ())
            rows, dtype, shape = values(), space.dtype, space.shape

            def chosen(action: Any) -> Any:
                return typed(np.array([row[k] for row, k in zip(rows, action, strict=True)]), dtype).reshape(shape)

            return spaces.MultiDiscrete([len(row) for row in rows]), chosen
        case spaces.Box():
            low, high = space.low.ravel().astype(np.float64), space.high.ravel().astype(np.float64)
            squashes = policy.actions.decoding == "tanh"

            def scaled(action: Any) -> Any:
                action = np.asarray(action, np.float64)
                if bounded or squashes:
                    action = low + ((action if bounded else np.tanh(action)) + 1) / 2 * (high - low)
                return typed(np.clip(action, low, high).reshape(space.shape), space.dtype)

            if bounded:
                return spaces.Box(-1, 1, (size,), np.float32), scaled
            edge = np.full(size, _FAR) if squashes else np.minimum(high, _FAR)
            start = np.full(size, -_FAR) if squashes else np.maximum(low, -_FAR)
            return spaces.Box(start.astype(np.float32), edge.astype(np.float32)), scaled
        case spaces.Discrete():
            return spaces.Discrete(int(space.n)), lambda action: space.start + int(action)
        case spaces.MultiDiscrete():
            return spaces.MultiDiscrete(space.nvec), lambda action: (space.start + action).astype(space.dtype)
        case spaces.MultiBinary():
            return spaces.MultiBinary(size), lambda action: np.asarray(action, space.dtype).reshape(space.shape)
        case _:
            raise ValueError(
                f"action space {space} is not supported: expected Box, Discrete, MultiDiscrete or MultiBinary"
            )
