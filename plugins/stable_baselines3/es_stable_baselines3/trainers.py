"""Trainers: algorithms of Stable-Baselines3, with a block of environment steps in the place of a population."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from es_core import Results, Trainer
from es_core.config.checks import alike
from es_core.config.train_config import TrainConfig
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import Statistics
from es_core.pools.pool import RolloutPool
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.generation_log import GenerationLog
from es_core.strategies.optimizers import cosine, norm
from es_core.strategies.transitions import Transitions
from es_core.training.rules.rules import Rules
from es_stable_baselines3.algorithms import ALGORITHMS, Algorithm, require_algorithm
from es_stable_baselines3.transfer import transferred

if TYPE_CHECKING:
    from es_stable_baselines3.models import Model

_STATE = ("mean", "generation", "population_size", "last_step", "gain", "handed_over")


class GradientTrainer(Trainer):
    """An algorithm of Stable-Baselines3 that learns the run's policy, a block of steps a generation.

    The mean is its actor without exploration. Each block begins with new episodes, and with randomness that is a
    function of the run's seed and the generation: so a block that was interrupted can be learnt again.

    Args:
        config: the run's config.
        policy: the run's policy.
        mean: ``(d,)``, a policy that is handed over: it stays as it is while the critic learns. None: the actor begins
            as the algorithm draws it.
    """

    algorithm: ClassVar[Algorithm]

    def __init_subclass__(cls) -> None:
        network: Mapping[str, Mapping[str, Any]] = {
            "sampled": {"hidden_sizes": (64, 64), "activation": "tanh", "action_squash": "clip"},
            "bounded": {
                "hidden_sizes": (256, 256),
                "activation": "relu",
                "action_squash": "tanh",
                "action_bins": None,  # whatever an environment recommends
            },
            "greedy": {"hidden_sizes": (64, 64), "activation": "relu", "action_squash": "clip"},
        }
        own = {"steps_per_generation": 4096, "policy": "mlp", "observation_normalization": False}
        cls.defaults = {**Trainer.defaults, **own, **network[cls.algorithm.acts]}

    def __init__(self, config: TrainConfig, policy: Policy, mean: Vector | None) -> None:
        self._config, self._policy = config, policy
        self.handed_over = mean is not None
        self.gain = np.ones(policy.outputs)
        self.mean = np.array(self._model.read(self.gain) if mean is None else mean, np.float32)
        self.generation, self.population_size, self.diagnostics = 0, config.population_size, {}
        self.last_step, self._learnt = np.zeros_like(self.mean), self.mean

    @classmethod
    def require_fit(cls, config: TrainConfig, *, from_policy: bool) -> None:
        """See ``require_algorithm``."""
        require_algorithm(config, cls.algorithm, from_policy=from_policy)

    @classmethod
    def convert_initial(cls, checkpoint: Checkpoint) -> Checkpoint:
        """See ``transferred``."""
        return transferred(checkpoint)

    @cached_property
    def _model(self) -> "Model":
        """The model, made when it is needed, since it is another one if it takes over a policy."""
        from es_stable_baselines3.models import Model

        return Model(self._config, self._policy, self.algorithm, handed_over=self.handed_over)

    def play(
        self,
        pool: RolloutPool,
        rules: Rules,  # noqa: ARG002
        statistics: Statistics | None,
        centre_seeds: Sequence[int],
    ) -> Results:
        """Play the centre's episodes in the pool, then a block of steps, from which the algorithm learns meanwhile.

        Returns:
            The episodes with exploration in the place of candidates'; those that the block's end cut off are not valid.

        Raises:
            RolloutError: an episode failed.
            FloatingPointError: the actor's parameters are no longer finite.
        """
        centre, model = pool.rollouts(self.mean, statistics, centre_seeds), self._model
        with model.block(self.generation, statistics):
            if self.handed_over and self.generation == 0:
                self.gain = model.start_from(self.mean)
            if model.learn():
                self._learnt = model.read(self.gain)
        if not np.isfinite(self._learnt).all():
            raise FloatingPointError(
                f"strategy {self._config.strategy!r} has diverged in generation {self.generation}: its actor is not "
                "finite. Start again with a smaller learning_rate (strategy_options)"
            )
        return Results.from_episodes(self.generation, self.mean, model.episodes, centre, model.statistics)

    def learn(
        self,
        log: GenerationLog,
        rules: Rules,  # noqa: ARG002
        transitions: Sequence[Transitions] = (),  # noqa: ARG002
    ) -> None:
        """Go on to the next generation, with the actor that the block has led to."""
        step, self.mean = self._learnt - self.mean, self._learnt
        self.diagnostics = {
            "step_norm": norm(step),
            "step_cosine": cosine(step, self.last_step),
            "parameter_norm": norm(self.mean),
        }
        self.last_step, self.generation = step, self.generation + 1
        self.population_size = log.population_size or self.population_size

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that the next block follows from, but for the older part of a large replay buffer."""
        values = {name: getattr(self, name) for name in _STATE}
        own = {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in values.items()}
        return own | {f"model/{name}": value for name, value in self._model.state().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            KeyError: an entry is missing.
            ValueError: the shape or type of an entry is not this trainer's.
        """
        self.handed_over = bool(state["handed_over"])
        self.__dict__.pop("_model", None)
        self._model.load({name.removeprefix("model/"): value for name, value in state.items() if "/" in name})
        for name in _STATE:
            setattr(self, name, alike(f"the state's {name}", getattr(self, name), state[name]))
        self._learnt = self.mean


class A2C(GradientTrainer):
    """Advantage actor-critic (Mnih et al. 2016), synchronous."""

    algorithm = ALGORITHMS["a2c"]


class CrossQ(GradientTrainer):
    """CrossQ (Bhatt et al. 2024)."""

    algorithm = ALGORITHMS["crossq"]


class DDPG(GradientTrainer):
    """Deep deterministic policy gradient (Lillicrap et al. 2015)."""

    algorithm = ALGORITHMS["ddpg"]


class DQN(GradientTrainer):
    """Deep Q-network (Mnih et al. 2015)."""

    algorithm = ALGORITHMS["dqn"]


class PPO(GradientTrainer):
    """Proximal policy optimization (Schulman et al. 2017)."""

    algorithm = ALGORITHMS["ppo"]


class QRDQN(GradientTrainer):
    """Quantile regression DQN (Dabney et al. 2017)."""

    algorithm = ALGORITHMS["qrdqn"]


class SAC(GradientTrainer):
    """Soft actor-critic (Haarnoja et al. 2018)."""

    algorithm = ALGORITHMS["sac"]


class TD3(GradientTrainer):
    """Twin delayed DDPG (Fujimoto et al. 2018)."""

    algorithm = ALGORITHMS["td3"]


class TQC(GradientTrainer):
    """Truncated quantile critics (Kuznetsov et al. 2020)."""

    algorithm = ALGORITHMS["tqc"]


class TRPO(GradientTrainer):
    """Trust region policy optimization (Schulman et al. 2015)."""

    algorithm = ALGORITHMS["trpo"]


class Unfit(Trainer):
    """An algorithm of Stable-Baselines3 that cannot train here, and says why."""

    _REASONS: ClassVar[Mapping[str, str]] = {
        "sb3:ars": "it is evolution: use the strategy 'ars'",
        "sb3:maskableppo": "its masks of actions would be unknown to the policy that it produces: use 'sb3:ppo'",
        "sb3:recurrentppo": "it remembers, and its network is none of the policies here: use 'sb3:ppo' with "
        'preprocessing {"stack": 4}, or evolve a policy "lstm"',
    }

    @classmethod
    def require_fit(cls, config: TrainConfig, *, from_policy: bool) -> None:  # noqa: ARG003
        """Refuse it."""
        raise ValueError(f"strategy {config.strategy!r} cannot be used: {cls._REASONS[config.strategy]}")
