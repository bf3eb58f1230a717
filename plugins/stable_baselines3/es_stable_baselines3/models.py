"""Models of Stable-Baselines3 that learn a run's policy in blocks of steps. Imports torch."""

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv
from torch import nn

import es_envs
from es_core.config.train_config import TrainConfig
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_core.seeding import Purpose, derive
from es_envs import Episode
from es_stable_baselines3 import actors
from es_stable_baselines3.algorithms import OWN_OPTIONS, Algorithm
from es_stable_baselines3.environment import LearnerEnv
from es_stable_baselines3.model_state import load_state, state_of

_LOOKED_AT = 500  # observations by which the outputs of a policy that is handed over are scaled to logits
_UNKNOWN = 1_000_000  # steps of a run that only episodes bound, for a learner that plans with them
_ODDS = 9.0  # of the best choice against the second one, at half of them: it explores, and mostly does what it did


class Model:
    """A model of Stable-Baselines3, and the copies of the environment in which it learns.

    Args:
        config: the run's config.
        policy: the run's policy.
        algorithm: the algorithm.
        handed_over: True if it takes over a policy, and leaves that as it is while its critic learns.
    """

    def __init__(self, config: TrainConfig, policy: Policy, algorithm: Algorithm, *, handed_over: bool) -> None:
        self._config, self._policy, self._handed_over = config, policy, handed_over
        self._algorithm = algorithm
        self._options = {**OWN_OPTIONS, **config.strategy_options}
        definition, count = es_envs.definition(config.env_id), self._options["n_envs"]
        self._envs = [
            LearnerEnv(definition, config, policy, bounded=self._algorithm.is_bounded, number=number, count=count)
            for number in range(count)
        ]
        with alone():
            self._sb3 = self._made()

    @contextmanager
    def block(self, generation: int, statistics: Statistics | None) -> Iterator[None]:
        """Learn and read within the block of a generation, in which observations are normalised by ``statistics``."""
        for env in self._envs:
            env.begin(generation, self._policy.normalization(statistics))
        with alone():
            self._sb3.set_random_seed(derive(self._config.seed, Purpose.LEARNING, generation) % 2**31)
            yield
        for env in self._envs:
            env.cut()

    def start_from(self, mean: Vector) -> NDArray[np.float64]:
        """Let the actor act like the policy with these parameters ``(d,)``.

        Returns:
            The factors ``(m,)`` by which its outputs are greater than the policy's; ones where outputs are not choices.
        """
        gain = np.ones(self._policy.outputs)
        actors.write(self._sb3, self._policy, mean, self._scale(gain))
        if self._policy.actions.decoding in {"choice", "choices", "bits"}:
            gain *= self._default_gain()
            actors.write(self._sb3, self._policy, mean, self._scale(gain))
        actors.explore(self._sb3, self._options["exploration_std"], self._policy, bounded=self._algorithm.is_bounded)
        return gain

    def learn(self) -> bool:
        """Learn from a block of steps; return False if the actor had to stay as it is."""
        model, temperature = self._sb3, getattr(self._sb3, "log_ent_coef", None)
        is_frozen = self._handed_over and model.num_timesteps < self._options["warmup_steps"]
        before = None if temperature is None else temperature.detach().clone()
        actors.freeze(model, frozen=is_frozen)
        model._last_obs = None  # noqa: SLF001  (new episodes)
        model.learn(self._config.steps_per_generation, reset_num_timesteps=False, log_interval=None)
        self._end_episodes()
        if is_frozen and temperature is not None:  # the entropy of a frozen actor does not answer
            temperature.data.copy_(before)
        return not is_frozen

    def _end_episodes(self) -> None:
        """Let the replay buffer know that the block's end cuts its episodes, which n-step returns would go beyond."""
        buffer = getattr(self._sb3, "replay_buffer", None)
        if buffer is not None and buffer.handle_timeout_termination:
            buffer.timeouts[buffer.pos - 1] = np.maximum(
                buffer.timeouts[buffer.pos - 1], 1 - buffer.dones[buffer.pos - 1]
            )

    def read(self, gain: NDArray[np.float64]) -> Vector:
        """The parameters ``(d,)`` with which the policy acts like the actor without exploration."""
        return actors.read(self._sb3, self._policy, self._scale(gain))

    def state(self) -> dict[str, Any]:
        """Arrays and numbers from which it continues; see ``state_of``."""
        return state_of(self._sb3)

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from a ``state``.

        Raises:
            KeyError, ValueError, RuntimeError: it is not that of such a model.
        """
        load_state(self._sb3, state)

    @property
    def episodes(self) -> list[Episode | int]:
        """The block's episodes; as a number, the steps of one that its end has cut off."""
        return [episode for env in self._envs for episode in env.episodes]

    @property
    def statistics(self) -> list[ObservationStatistics]:
        """Statistics of the block's observations, unless its normalisation is a part of a policy handed over."""
        return [] if self._handed_over else [env.seen for env in self._envs]

    def _made(self) -> Any:
        config, policy, algorithm = self._config, self._policy, self._algorithm
        given = {name: value for name, value in config.strategy_options.items() if name not in OWN_OPTIONS}
        taking_over = algorithm.takes_over if self._handed_over else None
        options = {"device": "cpu", **algorithm.defaults, **(taking_over or {}), **given}
        if isinstance(options.get("train_freq"), list):  # JSON has no tuples
            options["train_freq"] = tuple(options["train_freq"])
        if algorithm.acts != "sampled":
            options["buffer_size"] = min(options.get("buffer_size", 1_000_000), self._planned_steps())
        if isinstance(noise := options.get("action_noise"), int | float):
            options["action_noise"] = NormalActionNoise(np.zeros(policy.outputs), np.full(policy.outputs, noise))
        inner = dict(options.pop("policy_kwargs", {}))
        inner |= network(config, {**algorithm.critic, **inner.get("net_arch", {})})
        try:
            model = algorithm.load()(
                actors.TakenOverDQN if self._handed_over and algorithm.acts == "greedy" else "MlpPolicy",
                DummyVecEnv([lambda env=env: env for env in self._envs]),  # type: ignore[misc]
                seed=derive(config.seed, Purpose.INITIAL_MEAN) % 2**31,
                policy_kwargs=inner,
                **options,
            )
        except (AssertionError, AttributeError, TypeError, ValueError) as error:  # each option has its own
            raise ValueError(f"strategy_options: {config.strategy} refuses {given}: {error}") from error
        if algorithm.is_bounded and policy.actions.decoding == "clip":
            actors.clip_instead_of_squash(model)
        model.set_logger(Logger(folder=None, output_formats=[]))
        planned = self._planned_steps()

        def progress(steps: int, _: int) -> None:  # of the run, not of the block
            model._current_progress_remaining = max(0.0, 1 - steps / planned)  # noqa: SLF001

        model._update_current_progress_remaining = progress  # noqa: SLF001
        return model

    def _planned_steps(self) -> int:
        """Steps that the run's bounds allow, and a block beyond."""
        config, block = self._config, self._config.steps_per_generation or 1
        all_steps = None if config.generations is None else config.generations * block
        return min((bound for bound in (all_steps, config.max_steps) if bound is not None), default=_UNKNOWN) + block

    def _default_gain(self) -> float:
        """Play the policy as it is, and see how far apart the outputs of the best two choices are."""
        env, network = self._envs[0], torch.nn.Sequential(*actors.actor_modules(self._sb3))
        sizes = _choices(env.action_space)
        gaps, observation = [], None
        for _ in range(_LOOKED_AT):
            if observation is None:
                observation, _ = env.reset()
            with torch.no_grad():
                outputs = network(torch.from_numpy(observation))
            for part in outputs.split(sizes):
                best = part.sort().values[-2:] if len(part) > 1 else part.abs()  # a bit's other choice is 0
                gaps.append(float(best[-1] - best[0] if len(part) > 1 else best))
            action, _ = self._sb3.predict(observation, deterministic=True)
            observation, _, terminated, truncated, _ = env.step(action)
            observation = None if terminated or truncated else observation
        median_gap = float(np.median(gaps))
        return float(np.log(_ODDS)) / median_gap if median_gap > 0 else 1.0

    def _scale(self, gain: NDArray[np.float64]) -> actors.Scale:
        scale = actors.scale_of(self._policy, bounded=self._algorithm.is_bounded)
        return replace(scale, gain=scale.gain * gain)


def _choices(space: Any) -> list[int]:
    """Numbers of outputs among which the greatest wins; ones for bits."""
    match space:
        case spaces.Discrete():
            return [int(space.n)]
        case spaces.MultiDiscrete():
            return [int(size) for size in space.nvec]
        case _:
            return [1] * int(space.n)


def network(config: TrainConfig, critic: Mapping[str, Sequence[int]]) -> dict[str, Any]:
    """Arguments of a policy of Stable-Baselines3 that make an actor of the config's layers, and a critic of these."""
    hidden, sizes = list(config.hidden_sizes), {name: list(layers) for name, layers in critic.items()}
    return {
        "net_arch": {"pi": hidden, **sizes} if sizes else hidden,
        "activation_fn": {"tanh": nn.Tanh, "relu": nn.ReLU}[config.activation],
    }


@contextmanager
def alone() -> Iterator[None]:
    """Compute in one thread, and give the process its random states back.

    In one thread a block that is learnt again leads to the same bits, and small networks gain.
    """
    threads = torch.get_num_threads()
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002  (SB3 uses it)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002
        torch.set_rng_state(states[2])
