"""The base class of trainers: what gives a generation's results, and learns from them."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.plan import Plan
from es_core.config.train_config import TrainConfig
from es_core.policies.network import Policy
from es_core.policies.normalization import Statistics
from es_core.pools.pool import Results, RolloutPool
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.generation_log import GenerationLog
from es_core.strategies.population import Population
from es_core.strategies.transitions import Transitions
from es_core.training.rules.rules import Rules
from es_envs import Episode


class Trainer(ABC):
    """Trains the policy of a run, generation by generation: ``play``, then ``learn``.

    The setting ``strategy`` names it, if a plugin registers it, with ``register_trainers``. Evolution is the trainer of
    ours, for all names of strategies. A subclass is called with ``config``, ``policy`` and ``mean``:

    - ``config``: the run's settings.
    - ``policy``: what parameters mean.
    - ``mean``: ``(d,)`` float32, where it starts; None: it starts where it likes.

    All randomness must follow from ``config.seed`` and ``generation``: then a generation that was interrupted can be
    played again, and a resumed run is equal to an uninterrupted one.

    Attributes:
        generation: number of calls of ``learn``.
        mean: ``(d,)`` float32, the parameters that would be deployed.
        population_size: candidates, or whatever is played for them, that the next generation is expected to have: the
            number of episodes in an evaluation depends on it.
        diagnostics: of the last ``learn``, some of ``step_norm``, ``step_to_sigma``, ``step_cosine``,
            ``parameter_norm``, ``sigma``, ``gradient_norm``, ``half_agreement``; see ``Strategy``.
    """

    rebuildable: bool = False
    """True if a generation follows from the one before and its log, so that it can ``learn`` without ``play``."""
    defaults: ClassVar[Mapping[str, Any]] = {
        "population_size": 2,
        "steps_limit": None,
        "sigma": 1.0,
        "episode_seeds": "common",
    }
    """Settings that differ from the fields' defaults; those of a subclass must have these, too."""
    unused: ClassVar[Collection[str]] = frozenset({
        "population_size", "steps_limit", "restarts", "sigma", "sigma_final", "learning_rate", "learning_rate_final",
        "schedule", "schedule_generations", "optimizer", "optimizer_options", "weight_decay", "shaping",
        "top_directions", "sample_actions", "action_noise", "survival_bonus", "curriculum", "episode_cap",
        "episode_cap_start", "virtual_batch_normalization", "initialization", "output_scale", "statistics_fraction",
        "episodes_per_candidate", "on_candidate_error", "episode_seeds",
    })  # fmt: skip
    """Settings that it does not use: other values than the defaults are refused. These are evolution's alone."""

    generation: int
    mean: NDArray[np.float32]
    population_size: int
    diagnostics: Mapping[str, float | None]

    @abstractmethod
    def __init__(self, config: Plan, policy: Policy, mean: NDArray[np.float32] | None) -> None: ...

    @classmethod  # noqa: B027  (not all refuse something)
    def require_fit(cls, config: TrainConfig, *, from_policy: bool) -> None:
        """Refuse, before anything starts, settings or an environment that do not fit.

        Args:
            config: the run's settings.
            from_policy: True if the run starts from a policy.

        Raises:
            ValueError: the message says what does not fit.
            ImportError: a package is not installed.
        """

    @classmethod
    def convert_initial(cls, checkpoint: Checkpoint) -> Checkpoint:
        """Return a policy from which a run is to start as one with which this trainer can go on.

        Raises:
            ValueError: it cannot.
        """
        return checkpoint

    def require_pool(self, pool: RolloutPool) -> None:  # noqa: B027  (most need nothing of it)
        """Refuse a pool that does not give what it learns from.

        Raises:
            ValueError: the message says which pool does.
        """

    @abstractmethod
    def play(
        self, pool: RolloutPool, rules: Rules, statistics: Statistics | None, centre_seeds: Sequence[int]
    ) -> Results:
        """Play a generation's episodes, and those that evaluate its centre.

        Args:
            pool: where episodes can be played.
            rules: the rules that limit this generation's episodes.
            statistics: statistics that normalise observations or hidden layers.
            centre_seeds: seeds of the centre's episodes, which ``Results.centre`` must hold in this order.

        Returns:
            The results; those of a trainer without candidates have a population without any, and its training episodes
            in their place.

        Raises:
            RolloutError: an episode failed.
        """

    def choose_elite(
        self,
        population: Population,  # noqa: ARG002
        fitness: NDArray[np.float64],  # noqa: ARG002
        pool: RolloutPool,  # noqa: ARG002
    ) -> list[Episode]:
        """Play further episodes before it learns, and return them; they may raise a candidate's fitness ``(N,)``."""
        return []

    @abstractmethod
    def learn(self, log: GenerationLog, rules: Rules, transitions: Sequence[Transitions] = ()) -> None:
        """Learn from a generation, and go on to the next one.

        Args:
            log: the fitness to learn from, and what else determines the next generation.
            rules: the rules in their states of the next generation.
            transitions: those of its episodes, if its population records them.

        Raises:
            ValueError: the log does not fit.
            FloatingPointError: the parameters are no longer finite.
        """

    def take_turn(self, generation: int) -> None:
        """Let the next generation have this number: other contenders have played since its last one."""
        self.generation = generation

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Copies of arrays and numbers by name, ``mean`` among them, from which ``load_state_dict`` continues."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict`` of a trainer with the same settings.

        Raises:
            KeyError, ValueError: an entry is missing, or is not this trainer's.
        """
