"""Augmented random search (Mania et al. 2018, "Simple random search provides a competitive approach to reinforcement
learning", arXiv 1803.07055, algorithm 2).

V1 is without ``observation_normalization``, V2 with it; ``top_directions`` makes them V1-t and V2-t. Linear policies,
zero initial weights and V2 are the settings that ``strategy="ars"`` chooses unless others are given.
"""  # noqa: D205

import numpy as np
from numpy.typing import NDArray

from es_core.strategies.openai_es import OpenAIES
from es_core.strategies.schedules import Schedule


class ARS(OpenAIES):
    """Steps along the fitness differences of the best directions, in units of their standard deviation.

    It is OpenAI-ES with z-scores, plain ascent and a step length that does not depend on sigma.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation: twice the paper's N.
        sigma: the paper's nu.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: the paper's alpha.
        top_directions: the paper's b; None: all N.

    Raises:
        ValueError: a number is out of range.
    """

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float | Schedule,
        seed: int = 0,
        learning_rate: float | Schedule = 0.02,
        top_directions: int | None = None,
    ) -> None:
        super().__init__(
            mean,
            population_size=population_size,
            sigma=sigma,
            seed=seed,
            learning_rate=learning_rate,
            optimizer="sgd",
            shaping="z_score",
            top_directions=top_directions,
        )

    @property
    def divisor(self) -> float:
        """Divisor of the weighted noise: the step is alpha / (b sigma_R) sum (plus - minus) noise over the best b."""
        return 1 / 2
