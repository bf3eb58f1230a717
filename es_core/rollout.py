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
from es_envs.fitness import fitness_names, load_fitness

Observer = Callable[[Any, Any, float, Mapping[str, Any]], object]


class RolloutError(RuntimeError):
    """An episode failed; the message names the environment, the seed, the candidate and the generation."""


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

    Raises:
        PluginError: the environment cannot be made.
        ValueError: a space is not supported.
    """

    def __init__(
        self, definition: EnvDefinition, config: TrainConfig, *, render_mode: str | None = None, **kwargs: Any
    ) -> None:
        self.definition = definition
        limits = (definition.max_episode_steps, config.max_episode_steps)
        self.step_limit = min(limit for limit in limits if limit is not None)
        self._fitnesses = [
            (name, load_fitness(target)) for name, target in fitness_names(definition, config.fitness).items()
        ]
        self.env: gymnasium.Env[Any, Any] = definition.build(render_mode, **{**config.env_kwargs, **kwargs})
        try:
            self.policy: Policy = make_policy(config, self.env.observation_space, self.env.action_space)
        except ValueError as error:
            raise ValueError(f"{definition.label}: {error}") from error
        self._action_noise = config.action_noise if isinstance(self.env.action_space, gymnasium.spaces.Box) else 0.0

    def use(self, parameters: np.ndarray[Any, np.dtype[np.float32]], statistics: ObservationStatistics | None) -> None:
        """Play with these parameters ``(d,)`` and this normalisation from now on."""
        self.policy.parameters[:] = parameters
        self.policy.normalize(statistics)

    def episode(self, seed: int, *, noise_seed: int | None = None, observers: Sequence[Observer] = ()) -> Episode:
        """Play one episode with the policy's present parameters.

        Args:
            seed: for ``env.reset``.
            noise_seed: of the action noise, where the config asks for some; None: no noise.
            observers: called after every step with observation, action, reward and info.

        Raises:
            ValueError: an observation or the fitness is not finite, or of the wrong form.
            Exception: whatever the environment raises.
        """
        env, policy = self.env, self.policy
        measured = [(name, fitness() if inspect.isclass(fitness) else fitness) for name, fitness in self._fitnesses]
        observers = [*observers, *(fitness.on_step for _, fitness in measured if hasattr(fitness, "on_step"))]
        act = policy.act if noise_seed is None or not self._action_noise else self._noisy_act(noise_seed)
        step = env.step

        policy.reset()
        observation, start_info = env.reset(seed=seed)
        first_observation, start_info = _kept(observation), dict(start_info)
        total_reward, length, terminated, truncated = 0.0, 0, False, False
        info: Mapping[str, Any] = start_info
        for length in range(1, self.step_limit + 1):  # noqa: B007  (its last value is the episode's length)
            action = act(observation)
            observation, reward, terminated, truncated, info = step(action)
            total_reward += reward  # type: ignore[operator]  # Gymnasium says SupportsFloat
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
            final_info=dict(info),
            first_observation=first_observation,
            last_observation=_kept(observation),
        )
        return replace(episode, fitnesses=self._judge(episode, measured))

    def _judge(self, episode: Episode, measured: Sequence[tuple[str, Any]]) -> dict[str, float | None]:
        """All fitness values; the first drives selection and must be a number, the others may fail."""
        values: dict[str, float | None] = {}
        for position, (name, fitness) in enumerate(measured):
            try:
                value = fitness.result(episode) if hasattr(fitness, "on_step") else fitness(episode)
                if isinstance(value, str) or not math.isfinite(value):
                    raise ValueError(f"it returned {value!r}, expected a finite number")
                values[name] = float(value)
            except Exception as error:
                if position == 0:
                    raise ValueError(f"fitness {name!r} failed: {type(error).__name__}: {error}") from error
                values[name] = None
        return values

    def _noisy_act(self, noise_seed: int) -> Callable[[Any], Any]:
        generator = seeding.generator(noise_seed)
        size, scale = self.policy.outputs, np.float32(self._action_noise)

        def act(observation: Any) -> Any:
            return self.policy.act_with_noise(observation, scale * generator.standard_normal(size, np.float32))

        return act

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def _kept(observation: Any) -> Any:
    """A copy where the environment may write into its observation again."""
    return observation.copy() if isinstance(observation, np.ndarray) else observation
