"""The learner with an evolving population: an algorithm of Stable-Baselines3, fed with others' episodes."""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.config.checks import AUTO, require_positive
from es_core.policies.actions import widths
from es_core.policies.network import Policy, Vector
from es_core.seeding import Purpose, derive
from es_core.strategies.transitions import Transitions
from es_stable_baselines3.algorithms import ALGORITHMS, Algorithm, dense_layers_of

# Arguments of the algorithms that say how to learn; the others say who plays, and with which network.
_OPTIONS = (
    "learning_rate", "buffer_size", "batch_size", "gamma", "tau", "ent_coef", "target_entropy",
    "target_update_interval", "policy_delay", "target_policy_noise", "target_noise_clip",
    "top_quantiles_to_drop_per_net", "max_grad_norm", "device",
)  # fmt: skip
# DQN's own are for millions of images: here it learns faster, and moves its target network a little in each step. The
# others take the paper's batches, half of their own: the critics' arithmetic is most of a gradient step.
_DQN: Mapping[str, Any] = {"learning_rate": 0.001, "tau": 0.005, "target_update_interval": 1}
_OTHERS: Mapping[str, Any] = {"batch_size": 128}
_BUFFER_SIZE = 100_000


class OffPolicyLearner:
    """An algorithm whose episodes are played by others; its actor is a network like theirs.

    On the CPU it computes in one thread, and draws from generators whose seed is a function of the generation: equal
    transitions give equal bits.

    Args:
        policy: the run's policy: the actor's layers, and the spaces.
        mean: ``(d,)``, the actor's first parameters.
        algorithm: name of the algorithm; "auto": the first that fits the actions.
        options: arguments of its class.
        seed: the run's root seed.

    Raises:
        ValueError: policy, actions or an option do not fit the algorithm.
        ImportError: Stable-Baselines3 is not installed.
    """

    def __init__(self, policy: Policy, mean: Vector, *, algorithm: str, options: Mapping[str, Any], seed: int) -> None:
        self._name = _chosen(algorithm, policy)
        found = ALGORITHMS[self._name]
        _require_plain(policy)
        arguments = _arguments(self._name, found, options)

        from stable_baselines3.common.logger import Logger

        from es_stable_baselines3 import actors
        from es_stable_baselines3.models import alone, network

        with alone():
            made, seed = network(policy.config, found.critic), derive(seed, Purpose.INITIAL_MEAN) % 2**31
            try:
                self._model = found.load()("MlpPolicy", _Spaces(policy), policy_kwargs=made, seed=seed, **arguments)
            except (AssertionError, AttributeError, TypeError, ValueError) as error:  # each option has its own
                raise ValueError(f"learner_options: {self._name} refuses {dict(options)}: {error}") from error
        if found.is_bounded and policy.actions.decoding == "clip":
            actors.clip_instead_of_squash(self._model)
        self._model.set_logger(Logger(folder=None, output_formats=[]))
        self._policy, self._scale = policy, actors.scale_of(policy, bounded=found.is_bounded)
        actors.write(self._model, policy, mean, self._scale)

    @property
    def actor(self) -> Vector:
        """Parameters ``(d,)`` of a policy that acts like its actor, without exploration."""
        from es_stable_baselines3.actors import read

        return read(self._model, self._policy, self._scale)

    def __len__(self) -> int:
        """Number of transitions in the replay buffer."""
        return self._model.replay_buffer.size()  # type: ignore[no-any-return]

    @property
    def capacity(self) -> int:
        """Number of transitions that the replay buffer can hold."""
        return int(self._model.replay_buffer.buffer_size)

    def add(self, episodes: Sequence[Transitions]) -> None:
        """Add transitions to the replay buffer, in this order; the oldest make room."""
        buffer = self._model.replay_buffer
        for episode in episodes:
            count = len(episode)
            ended = np.zeros(count, np.float32)
            ended[-1] = episode.terminated  # a step limit is no end of the task: what follows still counts
            parts = {
                "observations": episode.observations[:-1],
                "next_observations": episode.observations[1:],
                "actions": self._scaled(episode.actions),
                "rewards": episode.rewards,
                "dones": ended,
            }
            places = (buffer.pos + np.arange(count)) % buffer.buffer_size
            for name, part in parts.items():
                stored = getattr(buffer, name)
                stored[places] = part.reshape(count, *stored.shape[1:])
            buffer.full = buffer.full or buffer.pos + count >= buffer.buffer_size
            buffer.pos = (buffer.pos + count) % buffer.buffer_size

    def _scaled(self, actions: NDArray[np.float32]) -> NDArray[Any]:
        """Actions as the algorithms have them: from -1 to 1, or counted from 0."""
        space: Any = self._policy.action_space
        if isinstance(space, spaces.Discrete):
            return actions.astype(np.int64) - int(space.start)
        width = widths(space).astype(np.result_type(np.float32, space.dtype))
        scaled: NDArray[np.float32] = 2 * (actions - space.low.ravel()) / width - 1
        return scaled

    def learn(self, steps: int, seed: int) -> None:
        """Take gradient steps on batches of the replay buffer.

        Args:
            steps: their number.
            seed: seed of everything that is drawn.
        """
        from es_stable_baselines3.models import alone

        model = self._model
        with alone():
            model.set_random_seed(seed % 2**31)
            if self._name == "dqn":  # which moves its target network when it steps its environment
                for _ in range(steps):
                    model.train(gradient_steps=1, batch_size=model.batch_size)
                    model._on_step()  # noqa: SLF001
            elif steps:
                model.train(gradient_steps=steps, batch_size=model.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """Copies of networks, optimisers and the replay buffer's latest transitions, by name."""
        from es_stable_baselines3.model_state import state_of

        return state_of(self._model)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            KeyError, ValueError: the state is not that of such a learner.
        """
        from es_stable_baselines3.model_state import load_state

        load_state(self._model, state)


class _Spaces(gymnasium.Env[Any, Any]):
    """An environment that nobody steps: flat observations, and actions as the algorithms have them."""

    def __init__(self, policy: Policy) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (policy.inputs,), np.float32)
        is_discrete = isinstance(policy.action_space, spaces.Discrete)
        self.action_space: Any = (
            spaces.Discrete(policy.outputs) if is_discrete else spaces.Box(-1, 1, (policy.outputs,), np.float32)
        )


def _chosen(algorithm: str, policy: Policy) -> str:
    """The algorithm for a policy's actions; refuse it if it is not for them, or if none is."""
    space = policy.action_space
    is_box = isinstance(space, spaces.Box) and space.is_bounded() and policy.actions.decoding != "choices"
    acts = "bounded" if is_box else "greedy" if isinstance(space, spaces.Discrete) else ""
    fitting = [name for name in _PREFERRED if ALGORITHMS[name].acts == acts]
    if not fitting:
        raise ValueError(
            f"no learner is for actions {space} here: it needs Box actions with bounds and without action_bins, or "
            "Discrete ones; choose a strategy without a learner, such as 'ga'"
        )
    if algorithm not in {AUTO, *fitting}:
        raise ValueError(f"algorithm={algorithm!r} is not for actions {space}: choose among {', '.join(fitting)}")
    return fitting[0] if algorithm == AUTO else algorithm


_PREFERRED = ("sac", "td3", "ddpg", "tqc", "dqn")


def _require_plain(policy: Policy) -> None:
    """Refuse a policy that no actor can equal, or that means something else in each generation."""
    config = policy.config
    if not dense_layers_of(policy)[-1].bias:
        raise ValueError("a policy without bias cannot learn with a population: use policy='mlp', hidden_sizes=()")
    for name, why in (
        ("observation_normalization", "observations are stored, and would be normalised otherwise in each generation"),
        ("virtual_batch_normalization", "its networks have no such layers"),
        ("sample_actions", "its actor has no log-stds; action_noise explores Box actions"),
    ):
        if getattr(config, name):
            raise ValueError(f"a learner with a population cannot take {name}=True, since {why}: set it to False")


def _arguments(name: str, algorithm: Algorithm, options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of an algorithm's class, with the user's options."""
    known = [option for option in _OPTIONS if option in signature(algorithm.load()).parameters]
    unknown = [option for option in options if option not in known]
    if unknown:
        raise ValueError(f"learner_options: {name} has no option {unknown[0]!r} here; it has {', '.join(known)}")
    for option in ("buffer_size", "batch_size"):
        if option in options:
            require_positive(f"learner_options: {option}", options[option])
    defaults = _DQN if name == "dqn" else _OTHERS
    return {"buffer_size": _BUFFER_SIZE, "device": "cpu", **defaults, **options}
