"""OpenAI-ES (Salimans et al. 2017, "Evolution Strategies as a Scalable Alternative to Reinforcement Learning",
arXiv 1703.03864): algorithm 2 with mirrored noise, centred ranks, Adam and l2 weight decay (section 2).
"""  # noqa: D205

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.optimizers import OPTIMIZERS
from es_core.shaping import SHAPINGS
from es_core.strategies.population import Population, weighted_noise


class OpenAIES:
    """Ascends the gradient of the expected fitness under N(mean, sigma^2 I).

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation, an even number: they come in pairs mean +- sigma * noise.
        sigma: standard deviation of the noise.
        seed: root seed; the noise of generation g is a function of the two.
        learning_rate: of the optimiser.
        optimizer: a name from ``OPTIMIZERS``.
        weight_decay: l2 coefficient; its gradient is subtracted before the optimiser's step, as in the paper's code.
        shaping: a name from ``SHAPINGS``.
        options: further arguments of the optimiser (``beta1``, ``beta2``, ``epsilon``).

    Attributes:
        mean: ``(d,)`` float32, what would be deployed.
        generation: how often ``tell`` was called.

    Raises:
        ValueError: an odd population, or a name or option that does not exist.
    """

    def __init__(
        self,
        mean: NDArray[np.float32],
        *,
        population_size: int,
        sigma: float,
        seed: int = 0,
        learning_rate: float = 0.01,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
        shaping: str = "centered_ranks",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if population_size < 2 or population_size % 2:
            raise ValueError(
                f"population_size must be even, since candidates come in mirrored pairs; got {population_size}"
            )
        if optimizer not in OPTIMIZERS:
            raise ValueError(f"optimizer must be one of {', '.join(OPTIMIZERS)}, got {optimizer!r}")
        if shaping not in SHAPINGS:
            raise ValueError(f"shaping must be one of {', '.join(SHAPINGS)}, got {shaping!r}")
        self.mean = np.array(mean, np.float32)
        self.generation = 0
        self.population_size, self.sigma, self.seed, self.weight_decay = population_size, sigma, seed, weight_decay
        self._shape = SHAPINGS[shaping]
        try:
            self._optimizer = OPTIMIZERS[optimizer](self.mean.size, learning_rate=learning_rate, **(options or {}))
        except TypeError as error:
            raise ValueError(
                f"strategy_options {dict(options or {})!r} do not suit optimizer {optimizer!r}: {error}"
            ) from error
        self._asked = False

    def ask(self) -> Population:
        """The population of this generation. Asking again gives an equal one."""
        seeds = [self._noise_seed(pair) for pair in range(self.population_size // 2)]
        self._asked = True
        return Population(
            generation=self.generation,
            base=self.mean[np.newaxis].copy(),
            parent=np.zeros(self.population_size, np.int64),
            scale=self.sigma,
            noise_seed=np.repeat(np.array(seeds, np.int64), 2),
            sign=np.tile(np.array([1, -1], np.int8), self.population_size // 2),
        )

    def tell(self, fitness: NDArray[np.float64], valid: NDArray[np.bool_] | None = None) -> None:
        """Move the mean by what the population's fitness says.

        Args:
            fitness: ``(N,)`` in the population's order, higher is better.
            valid: ``(N,)``, False where a candidate has no fitness: its whole pair is left out. None: all are valid.

        Raises:
            RuntimeError: called without ``ask``.
            ValueError: a wrong number of values, a valid one that is not finite, or no valid pair.
        """
        if not self._asked:
            raise RuntimeError("tell() was called without ask(): call ask(), evaluate its candidates, then tell()")
        fitness = np.asarray(fitness, np.float64)
        if fitness.shape != (self.population_size,):
            raise ValueError(f"fitness must have shape ({self.population_size},), got {fitness.shape}")
        valid = np.ones(self.population_size, bool) if valid is None else np.asarray(valid, bool)
        pair_valid = valid[0::2] & valid[1::2]
        used = np.repeat(pair_valid, 2)
        if not used.any():
            raise ValueError("no pair of candidates has a valid fitness")
        if not np.isfinite(fitness[used]).all():
            raise ValueError(f"fitness must be finite, got {fitness[used][~np.isfinite(fitness[used])][0]}")
        gradient = self._gradient(self._shape(fitness[used]), np.flatnonzero(pair_valid))
        self.mean = self.mean + self._optimizer.step(gradient - np.float32(self.weight_decay) * self.mean)
        self.generation += 1
        self._asked = False

    def _gradient(self, utilities: NDArray[np.float64], pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """1/(n sigma) sum_i utility_i noise_i (equation 1 of section 2), over pairs."""
        weights = (utilities[0::2] - utilities[1::2]) / (len(utilities) * self.sigma)
        seeds = [self._noise_seed(int(pair)) for pair in pairs]
        return weighted_noise(seeds, weights.tolist(), self.mean.size).astype(np.float32)

    def _noise_seed(self, pair: int) -> int:
        return seeding.derive(self.seed, seeding.Purpose.NOISE, self.generation, pair)

    def state_dict(self) -> dict[str, Any]:
        """All that a strategy of the same arguments needs to continue: arrays and numbers by name."""
        optimizer = {f"optimizer.{name}": value for name, value in self._optimizer.state_dict().items()}
        return {"mean": self.mean.copy(), "generation": self.generation, **optimizer}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            KeyError: something is missing.
            ValueError: the state belongs to a mean of another size.
        """
        if state["mean"].shape != self.mean.shape:
            raise ValueError(f"the state's mean has shape {state['mean'].shape}, expected {self.mean.shape}")
        prefix = "optimizer."
        self._optimizer.load_state_dict(
            {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        )
        self.mean, self.generation, self._asked = state["mean"].copy(), int(state["generation"]), False
