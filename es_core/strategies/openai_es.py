"""OpenAI-ES (Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement Learning",
arXiv 1703.03864): algorithm 2 with mirrored noise, centred ranks, Adam and l2 weight decay (section 2).
"""  # noqa: D205

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.optimizers import OPTIMIZERS, norm
from es_core.strategies.pairs import MirroredStrategy, Pairs
from es_core.strategies.population import gradient
from es_core.strategies.schedules import Schedule, as_schedule
from es_core.strategies.shaping import find_shaping
from es_core.strategies.strategy import Diagnostics
from es_envs.arguments import require_one_of


class OpenAIES(MirroredStrategy):
    """Ascends the gradient of the expected fitness under N(mean, sigma^2 I).

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, an even number: they come in pairs mean +- sigma * noise.
        sigma: standard deviation of the noise, or a function of the generation.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: the optimiser's learning rate, or a function of the generation.
        optimizer: a name from ``OPTIMIZERS``.
        optimizer_options: further arguments of the optimiser (``beta1``, ``momentum``, ...).
        weight_decay: l2, on the scale of the paper's code (there 0.005): weight_decay * mean is subtracted from the
            weighted noise before both are divided by sigma. With adamw the optimiser's own.
        shaping: a name from ``SHAPINGS``.
        top_directions: use only the pairs whose better candidate scored highest, so many (Mania et al. 2018); None:
            all.

    Raises:
        ValueError: the population is odd, or a name or option does not exist.
    """

    _OPTIMIZER = "optimizer."  # prefix of its part of the state

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        learning_rate: float | Schedule = 0.01,
        optimizer: str = "adam",
        optimizer_options: Mapping[str, Any] | None = None,
        weight_decay: float = 0.0,
        shaping: str = "centered_ranks",
        top_directions: int | None = None,
    ) -> None:
        super().__init__(mean, population_size=population_size, sigma=sigma, seed=seed)
        require_one_of("optimizer", optimizer, OPTIMIZERS)
        self._shape = find_shaping(shaping)
        if top_directions is not None and not 1 <= top_directions <= population_size // 2:
            raise ValueError(
                f"top_directions must be from 1 to {population_size // 2}, the pairs of a population of "
                f"{population_size}; got {top_directions}"
            )
        self._learning_rate, self._top = as_schedule(learning_rate), top_directions
        options = optimizer_options or {}
        if "weight_decay" in options:
            raise ValueError(
                f"optimizer_options: weight_decay is a setting of its own, weight_decay={options['weight_decay']!r} "
                "(on the command line: --weight-decay)"
            )
        try:
            self.optimizer = OPTIMIZERS[optimizer](self.mean.size, weight_decay=weight_decay, **options)
        except TypeError as error:
            raise ValueError(
                f"optimizer_options {dict(options)!r} do not fit optimizer {optimizer!r}: {error}"
            ) from error

    def _best(self, scores: NDArray[np.float64]) -> NDArray[np.int64]:
        if self._top is None:
            return super()._best(scores)
        return np.sort(np.argsort(-scores, kind="stable")[: self._top])

    def utilities(self, fitness: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shaped fitness ``(n,)``."""
        return self._shape(fitness)

    def climb(self, pairs: Pairs) -> Diagnostics | None:
        """Step along the estimated gradient with the optimiser."""
        uphill, _, agreement = gradient(pairs.seeds, pairs.slopes(), None, self.mean.size)
        uphill /= self.divisor
        self._ascend(uphill, scale=1 / self.divisor)
        return {"gradient_norm": norm(uphill), "half_agreement": agreement}

    @property
    def divisor(self) -> float:
        """Divisor of the weighted noise (Salimans et al. 2017, equation 1)."""
        return self.sigma

    def _ascend(self, uphill: NDArray[np.float64], scale: float = 1.0) -> None:
        rate = self._learning_rate(self.generation)
        self.mean = self.mean + self.optimizer.step(uphill.astype(np.float32), self.mean, rate, scale=scale)

    def _parts(self) -> dict[str, Any]:
        optimizer = {f"{self._OPTIMIZER}{name}": value for name, value in self.optimizer.state_dict().items()}
        return {**super()._parts(), **optimizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``; for errors see ``Strategy``."""
        own = {name: value for name, value in state.items() if name.startswith(self._OPTIMIZER)}
        self.optimizer.load_state_dict({name.removeprefix(self._OPTIMIZER): value for name, value in own.items()})
        super().load_state_dict(state)
