"""Learners: algorithms of Stable-Baselines3 in the place of a strategy, a block of steps in that of a population."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import Statistics
from es_core.pools.pool import Results
from es_core.strategies.population import Population
from es_core.strategies.strategy import Diagnostics, Strategy
from es_envs import Episode

if TYPE_CHECKING:
    from es_core.learners.models import Model


class Learner(Strategy):
    """An algorithm of Stable-Baselines3 that learns the run's policy, a block of steps a generation.

    The mean is its actor without exploration. Each block begins with new episodes, and with randomness that is a
    function of the run's seed and the generation: so a block that was interrupted can be learnt again.

    Args:
        config: the run's config.
        policy: the run's policy.
        mean: ``(d,)``, a policy that is handed over: it stays as it is while the critic learns. None: the actor begins
            as the algorithm draws it.
    """

    resizable = False
    rebuildable = False
    state: ClassVar[tuple[str, ...]] = ("gain", "handed_over")

    def __init__(self, config: TrainConfig, policy: Policy, mean: Vector | None) -> None:
        self.handed_over = mean is not None
        self.gain = np.ones(policy.outputs)
        self._config, self._policy = config, policy
        first = self._model.read(self.gain) if mean is None else mean
        super().__init__(first, population_size=2, sigma=1.0, seed=config.seed)
        self._learnt = self.mean

    @cached_property
    def _model(self) -> "Model":
        """The model, made when it is needed, since it is another one if it takes over a policy."""
        from es_core.learners.models import Model

        return Model(self._config, self._policy, handed_over=self.handed_over)

    def draw(self) -> Population:
        """A population without candidates."""
        return self.explicit(np.empty((0, self.mean.size)))

    def practise(self, statistics: Statistics | None, centre: list[Episode]) -> Results:
        """Learn from the generation's block of steps.

        Args:
            statistics: statistics that normalise observations, or None.
            centre: the centre's episodes, for the results.

        Returns:
            The episodes with exploration in the place of candidates'; those that the block's end cut off are not valid.

        Raises:
            RolloutError: an episode failed.
            FloatingPointError: the actor's parameters are no longer finite.
        """
        model = self._model
        with model.block(self.generation, statistics):
            if self.handed_over and self.generation == 0:
                self.gain = model.take_over(self.mean)
            if model.learn():
                self._learnt = model.read(self.gain)
        self._require_finite({"the actor": self._learnt})
        return model.results(centre)

    def tell(self, fitness: NDArray[np.float64], valid: NDArray[np.bool_] | None = None) -> None:  # noqa: ARG002
        """Go on to the next generation, with the actor that the block has led to."""
        before, self.mean = self.mean, self._learnt
        self._diagnose(self.mean - before, 0.0, {"sigma": None})
        self.generation += 1

    def learn(self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]) -> Diagnostics:
        """Not used: ``practise`` learns."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Copies of all that the next block follows from, but for the older part of a large replay buffer."""
        return super().state_dict() | {f"model/{name}": value for name, value in self._model.state().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            KeyError: an entry is missing.
            ValueError: the shape or type of an entry is not this learner's.
        """
        self.handed_over = bool(state["handed_over"])
        self.__dict__.pop("_model", None)
        self._model.load({name.removeprefix("model/"): value for name, value in state.items() if "/" in name})
        super().load_state_dict(state)
        self._learnt = self.mean
