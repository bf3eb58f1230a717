"""A policy in use: from observations to actions, one candidate at a time."""

import importlib.util
from abc import ABC, abstractmethod
from typing import Any

from es_core.normalizer import ObservationStatistics, Statistics
from es_core.policies.compilation import require_compiler
from es_core.policies.network import Policy, Vector


class NotFiniteError(ValueError):
    """An observation, or what a network makes of one, holds NaN or infinity."""


class Actor(ABC):
    """One candidate, ready to act: call it with an observation; ``reset`` it when an episode begins.

    Args:
        policy: its kind.

    Attributes:
        policy: its kind.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @abstractmethod
    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on, and begin an episode.

        Args:
            parameters: copied.
            statistics: by which observations or hidden layers are normalised, or None.
        """

    @abstractmethod
    def reset(self, *, noise_seed: int | None = None) -> None:
        """An episode begins: forget the last one.

        Args:
            noise_seed: explore as the policy's ``actions`` say, by random numbers that follow from it; None: do not.
        """

    @abstractmethod
    def __call__(self, observation: Any) -> Any:
        """The action for one observation: a new object, for keeps.

        Raises:
            ValueError: the observation has another shape than its space.
            NotFiniteError: it is not finite, or the policy's raw outputs are not.
        """

    @abstractmethod
    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)`` for one observation, without exploration; errors as of a call."""

    @abstractmethod
    def collect(self) -> None:
        """Add up the observations of each episode from now on."""

    @abstractmethod
    def statistics(self, count: int) -> ObservationStatistics:
        """Of the ``count`` observations since ``reset``, for which ``collect`` was called."""


def require_engine(engine: str, policy: Policy) -> str:
    """The engine that computes a policy, where "auto" leaves it open.

    Args:
        engine: a config's.
        policy: its kind.

    Raises:
        ValueError: it cannot compute the policy here.
    """
    chosen = policy.engines[0] if engine == "auto" else engine
    if chosen not in policy.engines:
        raise ValueError(
            f"engine={engine!r} cannot compute the policy {policy.config.policy!r}: use "
            f"engine={' or '.join(map(repr, policy.engines))}"
        )
    if chosen == "torch" and importlib.util.find_spec("torch") is None:
        raise ValueError("engine='torch' needs torch: pip install 'es-envs[torch]'")
    return chosen


def make_actor(
    policy: Policy, parameters: Vector | None = None, statistics: Statistics | None = None, *, engine: str = "auto"
) -> Actor:
    """An actor whose policy is computed on the CPU.

    Args:
        policy: its kind.
        parameters: ``(d,)``, which act; None: they are still to be loaded.
        statistics: see ``Actor.load``.
        engine: "compiled" or "torch"; "auto": what computes such a policy the fastest.

    Raises:
        ValueError: that engine cannot compute the policy here.
    """
    if require_engine(engine, policy) == "compiled":
        require_compiler(policy.config)
        from es_core.policies.compiled import CompiledActor

        actor: Actor = CompiledActor(policy)
    else:
        from es_core.policies.torch_actor import TorchActor

        actor = TorchActor(policy)
    if parameters is not None:
        actor.load(parameters, statistics)
    return actor
