"""The one rollout loop: training, evaluation and recording all pass through it."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from es_core import seeding
from es_core.config import TrainConfig
from es_core.normalizer import ObservationStatistics
from es_core.policies import Policy, make_policy
from es_envs import EnvDefinition, Episode
from es_envs.fitness import StepFitness, fitness_names, load_fitness

Observer = Callable[[Any, Any, float, Mapping[str, Any]], object]


class RolloutError(RuntimeError):
    """An episode failed; the message names the environment, the seed, the candidate and the generation."""


class SpaceError(ValueError):
    """A policy cannot be made for the environment's spaces; the message says it all."""


class Rollouts:
    """An environment, a policy and a fitness that live for a whole run and play episodes.

    Args:
        definition: of the environment.
        config: of the run, resolved.
        render_mode: for the environment.
        **kwargs: for the environment, over the config's.

    Attributes:
        env: the bare environment.
        policy: its parameters and statistics are the caller's to set.
        action_noise: standard deviation of the noise on actions while exploring; 0 where actions are not Box.

    Raises:
        PluginError: the environment cannot be made.
        SpaceError: a space is not supported.
    """

    def __init__(
        self, definition: EnvDefinition, config: TrainConfig, *, render_mode: str | None = None, **kwargs: Any
    ) -> None:
        self.definition = definition
        limits = (definition.max_episode_steps, config.max_episode_steps)
        self.step_limit = min(limit for limit in limits if limit is not None)
        self._fitnesses: list[tuple[str, Any]] = [
            (name, load_fitness(target)) for name, target in fitness_names(definition, config.fitness).items()
        ]
        self.env: gymnasium.Env[Any, Any] = definition.build(render_mode, **{**config.env_kwargs, **kwargs})
        try:
            self.policy: Policy = make_policy(config, self.env.observation_space, self.env.action_space)
        except ValueError as error:
            self.env.close()
            raise SpaceError(f"{definition.label}: {error}") from error
        self.action_noise = config.action_noise if isinstance(self.env.action_space, gymnasium.spaces.Box) else 0.0

    def use(self, parameters: np.ndarray[Any, np.dtype[np.float32]], statistics: ObservationStatistics | None) -> None:
        """Play with these parameters ``(d,)`` and this normalisation from now on."""
        self.policy.parameters[:] = parameters
        self.policy.normalize(statistics)

    def episode(self, seed: int, *, noise_seed: int | None = None, observers: Sequence[Observer] = ()) -> Episode:
        """Play one episode with the policy's present parameters.

        Args:
            seed: for ``env.reset``.
            noise_seed: of the action noise; None: no noise.
            observers: called after every step with observation, action, reward and info.

        Raises:
            ValueError: an observation or the fitness is not finite, or of the wrong form.
            Exception: whatever the environment raises.
        """
        env, policy = self.env, self.policy
        measured = [
            (name, _PerStep(fitness) if inspect.isclass(fitness) else fitness) for name, fitness in self._fitnesses
        ]
        observers = [*observers, *(fitness.on_step for _, fitness in measured if isinstance(fitness, _PerStep))]
        act = policy.act if noise_seed is None else self._noisy_act(noise_seed)
        step = env.step

        policy.reset()
        observation, start_info = env.reset(seed=seed)
        first_observation, start_info = _kept(observation), _kept(start_info)
        total_reward, length, terminated, truncated = 0.0, 0, False, False
        info: Mapping[str, Any] = start_info
        for length in range(1, self.step_limit + 1):
            action = act(observation)
            observation, reward, terminated, truncated, info = step(action)
            try:
                total_reward += reward  # type: ignore[operator]  # Gymnasium says SupportsFloat
            except TypeError:
                raise ValueError(f"the reward of step {length} is {reward!r}, expected a number") from None
            for observe in observers:
                observe(observation, action, reward, info)  # type: ignore[arg-type]
            if terminated or truncated:
                break

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
        return replace(episode, fitnesses=self._judge(episode, measured))

    def _judge(self, episode: Episode, measured: Sequence[tuple[str, Any]]) -> dict[str, float | None]:
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

    def _noisy_act(self, noise_seed: int) -> Callable[[Any], Any]:
        generator = seeding.generator(noise_seed)
        size, scale = self.policy.outputs, np.float32(self.action_noise)

        def act(observation: Any) -> Any:
            return self.policy.act_with_noise(observation, scale * generator.standard_normal(size, np.float32))

        return act

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


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
