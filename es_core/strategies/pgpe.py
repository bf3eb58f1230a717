"""PGPE, policy gradients with parameter-based exploration (Sehnke et al. 2010, "Parameter-exploring policy gradients",
Neural Networks 23), with symmetric sampling (section 3.2) and, by default, ClipUp (Toklu et al. 2020).
"""  # noqa: D205

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import decay, number, require_real
from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.optimizers import norm
from es_core.strategies.pairs import Pairs
from es_core.strategies.population import gradient
from es_core.strategies.schedules import Schedule, as_schedule
from es_core.strategies.strategy import Diagnostics


class PGPE(OpenAIES):
    """Ascends the gradient of the expected fitness with respect to the mean and to one sigma for each parameter.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, an even number.
        sigma: initial standard deviation of every parameter.
        radius: radius of the initial distribution, sigma sqrt(d), instead of sigma.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: learning rate of the mean's optimiser, or a function of the generation; None: with ClipUp half
            its max_speed, which is a fifteenth of the radius (Toklu et al. 2020), with other optimisers 0.1.
        optimizer: a name from ``OPTIMIZERS``.
        optimizer_options: further arguments of the optimiser.
        weight_decay: the optimiser's; weight_decay * mean is subtracted from the gradient, which is in sigmas (our own
            choice, from no paper).
        shaping: a name from ``SHAPINGS``.
        sigma_learning_rate: step size of the sigmas.
        sigma_max_change: maximum relative change of a sigma in a generation.

    Raises:
        ValueError: the population is odd, or a name or option does not exist.
    """

    adapts_sigma = True
    state = ("sigmas",)

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        learning_rate: float | Schedule | None = None,
        optimizer: str = "clipup",
        optimizer_options: Mapping[str, Any] | None = None,
        weight_decay: float = 0.0,
        shaping: str = "centered_ranks",
        sigma_learning_rate: float = 0.1,
        sigma_max_change: float = 0.2,
        radius: float | None = None,
    ) -> None:
        if radius is not None:
            sigma = require_real("radius", radius, number(0, above=True)) / math.sqrt(np.size(mean))
        if learning_rate is None:
            widest = as_schedule(sigma)(0) * math.sqrt(np.size(mean)) / 15
            speed = (optimizer_options or {}).get("max_speed")
            learning_rate = (widest if speed is None else speed) / 2 if optimizer == "clipup" else 0.1
        super().__init__(
            mean,
            population_size=population_size,
            sigma=sigma,
            seed=seed,
            learning_rate=learning_rate,
            optimizer=optimizer,
            optimizer_options=optimizer_options,
            weight_decay=weight_decay,
            shaping=shaping,
        )
        self.sigmas = np.full(self.mean.size, self._sigma(0))
        self.sigma_learning_rate = float(sigma_learning_rate)
        self.sigma_max_change = require_real("sigma_max_change", sigma_max_change, decay)  # else a sigma may become 0

    @property
    def sigma(self) -> float:
        """Root mean square of the sigmas."""
        return float(np.sqrt(np.square(self.sigmas).mean()))

    def scale(self) -> NDArray[np.float32]:
        """One sigma for each parameter ``(d,)``."""
        return self.sigmas.astype(np.float32)

    def climb(self, pairs: Pairs) -> Diagnostics | None:
        """Equations 10 and 11 of the paper, averaged over the pairs."""
        # For each pair (plus - minus) / 2 noise sigma, and ((plus + minus) / 2 - baseline) (noise^2 - 1) sigma.
        heights = (pairs.plus + pairs.minus) / 2
        heights = (heights - heights.mean()) / len(pairs)
        uphill, squares, agreement = gradient(pairs.seeds, pairs.slopes(), heights.tolist(), self.mean.size)
        length = norm(uphill)
        uphill *= self.sigmas
        self._ascend(uphill)
        change = self.sigma_learning_rate * squares  # the heights sum to zero: squares need no - 1
        self.sigmas = self.sigmas * (1 + np.clip(change, -self.sigma_max_change, self.sigma_max_change))
        return {"gradient_norm": length, "half_agreement": agreement}
