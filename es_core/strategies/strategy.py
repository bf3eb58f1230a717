"""The base class of strategies: ``ask`` for a population, ``tell`` its fitness."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.config.checks import alike
from es_core.strategies.optimizers import cosine, norm
from es_core.strategies.population import Population
from es_core.strategies.schedules import Schedule, as_schedule
from es_core.strategies.transitions import Transitions

Diagnostics = Mapping[str, float | None]

# Overflow is found in the result, and reported in a sentence.
_quiet = np.errstate(over="ignore", invalid="ignore")


class Strategy(ABC):
    """A search over parameter vectors. A subclass answers two questions: ``draw`` and ``learn``.

    Args:
        mean: initial mean ``(d,)``.
        population_size: candidates in a generation.
        sigma: standard deviation of the noise, or a function of the generation.
        seed: root seed; the noise of generation g is a function of the two.

    Attributes:
        mean: ``(d,)`` float32, the parameters that would be deployed.
        generation: number of calls of ``tell``.
        population_size: may be changed before ``ask`` if the strategy is resizable.
        diagnostics: diagnostics of the last ``tell``: ``step_norm``; ``step_to_sigma``, root mean square of the step
            divided by that of the noise; ``step_cosine`` with the step before; ``parameter_norm``; ``sigma``, root mean
            square of the noise; and, where there is a gradient, ``gradient_norm`` and ``half_agreement``, the cosine
            between the gradients of the two halves of the population. None where it is not defined.

    Raises:
        ValueError: a setting is out of range.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}
    """Settings of a plugin's strategy that differ from the fields' defaults."""
    mirrored: ClassVar[bool] = False
    """True if candidates 2k and 2k + 1 are mean +- the same noise, and lose their fitness together."""
    resizable: ClassVar[bool] = True
    """True if the population may have another size in each generation."""
    adapts_sigma: ClassVar[bool] = False
    """True if the strategy learns sigma, which then cannot follow a schedule."""
    rebuildable: ClassVar[bool] = True
    """True if a generation follows from the one before and its fitness, so that a log of fitness is enough."""
    compares_generations: ClassVar[bool] = False
    """True if fitness is compared from one generation to the next, and so cannot be a rank within a generation."""
    keeps_repertoire: ClassVar[bool] = False
    """True if its result is a repertoire of policies, one for each cell of a grid of behaviours."""
    state: ClassVar[tuple[str, ...]] = ()
    """Names of further attributes, arrays and numbers, that determine the next generation."""

    elite_episodes: int = 0
    """Number of additional episodes that compare the ``contenders``."""

    _STATE = ("mean", "generation", "population_size", "last_step")

    def __init__(
        self, mean: NDArray[np.float32], *, population_size: int, sigma: float | Schedule, seed: int = 0
    ) -> None:
        self.mean = np.array(mean, np.float32)
        if self.mean.ndim != 1 or self.mean.size == 0:
            raise ValueError(f"mean must be a vector (d,), got shape {self.mean.shape}")
        if not np.isfinite(self.mean).all():
            raise ValueError(f"mean must be finite, got {self.mean[~np.isfinite(self.mean)][0]} among its parameters")
        self.generation, self.seed = 0, seed
        self._sigma = as_schedule(sigma)
        self.population_size = population_size
        self.last_step = np.zeros_like(self.mean)
        self.diagnostics: Diagnostics = {}
        self._asked: Population | None = None

    @property
    def population_size(self) -> int:
        """Candidates in a generation."""
        return self._population_size

    @population_size.setter
    def population_size(self, size: int) -> None:
        if size < 2:
            raise ValueError(f"population_size must be at least 2, got {size}")
        if self.mirrored and size % 2:
            raise ValueError(f"population_size must be even, since candidates come in mirrored pairs; got {size}")
        self._population_size = int(size)

    @property
    def sigma(self) -> float:
        """Standard deviation of the noise in this generation (root mean square over the parameters)."""
        return self._sigma(self.generation)

    @abstractmethod
    def draw(self) -> Population:
        """The population of this generation, a function of the state. Must not change the state."""

    @abstractmethod
    def learn(
        self, population: Population, fitness: NDArray[np.float64], valid: NDArray[np.bool_]
    ) -> Diagnostics | None:
        """Update the mean, and whatever else the strategy learns, by one generation.

        Args:
            population: the population that ``draw`` returned.
            fitness: ``(N,)``; finite where valid.
            valid: ``(N,)``, at least one True; in a mirrored strategy both of a pair or neither.

        Returns:
            ``gradient_norm`` and ``half_agreement``, if there is a gradient.
        """

    def contenders(self, fitness: NDArray[np.float64]) -> list[int]:  # noqa: ARG002
        """Candidates, more than one, among whom additional episodes choose the one with the highest fitness.

        Args:
            fitness: ``(N,)``, from this generation's episodes; NaN for a candidate that is left out.
        """
        return []

    def observe(self, episodes: Sequence[Transitions]) -> None:  # noqa: B027  (most strategies ask for none)
        """Take a generation's transitions, before ``tell``, if its population ``records`` them.

        Args:
            episodes: all episodes of all valid candidates, in the order of candidates, whoever played them.
        """

    def observe_behaviours(self, behaviours: NDArray[np.float64]) -> None:  # noqa: B027  (most strategies need none)
        """Take a generation's behaviours, before ``tell``, if its population ``describes`` them.

        Args:
            behaviours: ``(N, b)``, each candidate's mean over its episodes; NaN for one that has failed.
        """

    @_quiet
    def ask(self) -> Population:
        """Return the population of this generation; another call returns an equal one.

        Raises:
            FloatingPointError: its candidates would not be finite.
        """
        population = self.draw()
        self._require_finite({"sigma": np.float32(population.scale), "a parent": population.base})
        self._asked = population
        return population

    @_quiet
    def tell(self, fitness: NDArray[np.float64], valid: NDArray[np.bool_] | None = None) -> None:
        """Learn from a population's fitness, and go on to the next generation.

        Args:
            fitness: ``(N,)`` in the population's order, higher is better.
            valid: ``(N,)``, False where a candidate has no fitness: it is left out, in a mirrored strategy with its
                pair. None: all are valid.

        Raises:
            RuntimeError: called without ``ask``.
            ValueError: the number of values is wrong, a valid one is not finite, or none is valid.
            FloatingPointError: the mean, or another part of the state, is no longer finite; go back to the last
                ``state_dict``.
        """
        population = self._asked
        if population is None:
            raise RuntimeError("tell() was called without ask(): call ask(), evaluate its candidates, then tell()")
        count = len(population)
        fitness = np.asarray(fitness, np.float64)
        if fitness.shape != (count,):
            raise ValueError(f"fitness must have shape ({count},), got {fitness.shape}")
        valid = np.ones(count, bool) if valid is None else np.asarray(valid, bool)
        if self.mirrored:
            valid = np.repeat(valid[0::2] & valid[1::2], 2)
        if not valid.any():
            raise ValueError(f"no {'pair of candidates' if self.mirrored else 'candidate'} has a valid fitness")
        if not np.isfinite(fitness[valid]).all():
            raise ValueError(f"fitness must be finite, got {fitness[valid][~np.isfinite(fitness[valid])][0]}")

        self._asked = None
        before, sigma = self.mean, self.sigma
        try:
            found = self.learn(population, fitness, valid)
        except (OverflowError, np.linalg.LinAlgError) as error:
            raise self._diverged(str(error)) from error
        self._require_finite(self._parts())
        self._diagnose(self.mean - before, sigma, found or {})
        self.generation += 1

    def _require_finite(self, parts: Mapping[str, Any]) -> None:
        for name, part in parts.items():
            if not np.isfinite(part).all():
                raise self._diverged(f"{name} is not finite")

    def _diverged(self, what: str) -> FloatingPointError:
        common = ("learning_rate", "weight_decay", "sigma", "sigma_learning_rate")
        known = signature(type(self)).parameters
        settings = ", ".join(name for name in common if name in known) or "settings of the strategy"
        return FloatingPointError(
            f"strategy {type(self).__name__} has diverged in generation {self.generation}: {what}. Its steps are too "
            f"long, or its fitness too large: start again with smaller values of {settings}, or another shaping"
        )

    def _diagnose(self, step: NDArray[np.float32], sigma: float, found: Diagnostics) -> None:
        length, root = norm(step), math.sqrt(step.size)
        self.diagnostics = {
            "sigma": sigma,
            "gradient_norm": None,
            "half_agreement": None,
            "step_norm": length,
            "step_to_sigma": length / root / sigma if sigma > 0 else None,
            "step_cosine": cosine(step, self.last_step),
            "parameter_norm": norm(self.mean),
            **found,
        }
        self.last_step = step

    def independent(
        self,
        scale: float | NDArray[np.float32],
        *,
        base: NDArray[np.float32] | None = None,
        parent: NDArray[np.int64] | None = None,
        sign: NDArray[np.int8] | None = None,
    ) -> Population:
        """A population in which each candidate has its own noise, for ``draw`` to return.

        Args:
            scale: sigma, or one sigma for each parameter ``(d,)``.
            base: ``(m, d)``; None: the mean.
            parent: ``(N,)``, rows of ``base``; None: the first row.
            sign: ``(N,)``, 0 for a candidate that equals its parent; None: all are noisy.
        """
        count = self.population_size
        return Population(
            generation=self.generation,
            base=self.mean[np.newaxis].copy() if base is None else base,
            parent=np.zeros(count, np.int64) if parent is None else parent,
            scale=scale,
            noise_seed=np.array(self.noise_seeds(count), np.int64),
            sign=np.ones(count, np.int8) if sign is None else sign,
        )

    def explicit(self, candidates: NDArray[np.floating[Any]]) -> Population:
        """A population of given vectors ``(N, d)``, for ``draw`` to return."""
        return Population.explicit(self.generation, self.mean, candidates)

    def noise_seeds(self, count: int) -> list[int]:
        """Seeds of this generation's noise."""
        return [seeding.derive(self.seed, seeding.Purpose.NOISE, self.generation, index) for index in range(count)]

    def state_dict(self) -> dict[str, Any]:
        """Copies of arrays and numbers by name, from which a strategy with the same arguments continues."""
        return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in self._parts().items()}

    def _parts(self) -> dict[str, Any]:
        """Entries of ``state_dict``, not copied."""
        return {name: getattr(self, name) for name in (*self._STATE, *self.state)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            KeyError: an entry is missing.
            ValueError: the shape or type of an array or number is not this strategy's.
        """
        values = {
            name: alike(f"the state's {name}", getattr(self, name), state[name]) for name in (*self._STATE, *self.state)
        }
        for name, value in values.items():
            setattr(self, name, value)
        self._asked = None
