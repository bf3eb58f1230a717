"""The fitness of an episode, and of a candidate over its episodes."""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.train_config import TrainConfig
from es_envs import EnvDefinition, Episode
from es_envs.episode import Observer, StepFitness
from es_envs.fitness import load_fitness

_AGGREGATIONS: Mapping[str, Callable[..., NDArray[np.float64]]] = {"mean": np.mean, "median": np.median, "min": np.min}


def aggregated(values: NDArray[np.float64], aggregation: str) -> NDArray[np.float64]:
    """Aggregate the numbers of candidates' episodes ``(N, k)`` to one each ``(N,)``, by "mean", "median" or "min"."""
    return _AGGREGATIONS[aggregation](values, axis=1)


_LARGEST = 1e150  # the variance of many is a finite number, too

Fitnesses = Sequence[tuple[str, Any]]


def load_fitnesses(definition: EnvDefinition, config: TrainConfig) -> Fitnesses:
    """Load all fitness functions and classes of a run by name, the one that drives selection first."""
    fitnesses = definition.fitness_names(config.fitness)
    if config.shaping in SIGN_SHAPINGS:
        fitnesses.setdefault("sign_return", "sign_return")
    return [(name, load_fitness(target)) for name, target in fitnesses.items()]


def fresh_fitnesses(fitnesses: Fitnesses) -> Fitnesses:
    """Fitnesses for a new episode: those that see every step are fresh objects."""
    return [(name, _PerStep(fitness) if inspect.isclass(fitness) else fitness) for name, fitness in fitnesses]


def observers_of(measured: Fitnesses) -> list[Observer]:
    """Fitnesses to call after every step."""
    return [fitness.on_step for _, fitness in measured if isinstance(fitness, _PerStep)]


def with_fitness(episode: Episode, measured: Fitnesses) -> Episode:
    """Return an episode with all fitness values; the first drives selection and must be a number, others may fail.

    Raises:
        ValueError: the first one, or the sum of the rewards, is not finite, or so large that its square is not.
    """
    if fault := _fault(episode.total_reward):
        raise ValueError(f"the rewards of {episode.length} steps add up to {episode.total_reward!r}, {fault}")
    episode = replace(episode, total_reward=float(episode.total_reward))
    values: dict[str, float | None] = {}
    for position, (name, fitness) in enumerate(measured):
        try:
            value = fitness.result(episode) if isinstance(fitness, _PerStep) else fitness(episode)
            if fault := _fault(value):
                raise ValueError(f"it returned {value!r}, {fault}")
            values[name] = float(value)
        except Exception as error:
            if position == 0:
                raise ValueError(f"fitness {name!r} failed: {type(error).__name__}: {error}") from error
            values[name] = None
    return replace(episode, fitnesses=values)


def so_far(episode: Episode, fitnesses: Fitnesses) -> float | None:
    """Value of the fitness that drives selection, for an episode that continues.

    None if it is known only at the end: it is a class, whose result is asked for once, or it fails.
    """
    _, fitness = fitnesses[0]
    if inspect.isclass(fitness):
        return None
    try:
        value = fitness(episode)
    except Exception:  # noqa: BLE001  (it may need what only the end brings)
        return None
    return float(value) if _is_finite(value) else None


class _PerStep:
    """A per-step fitness in use: its error is kept until its value is read.

    A secondary fitness must not end the episode, and the first one's error must name it.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._error: Exception | None = None
        try:
            self._fitness: StepFitness = make()
        except Exception as error:  # noqa: BLE001  (raised by result)
            self._error = error

    def on_step(self, observation: Any, action: Any, reward: float, info: Mapping[str, Any]) -> None:
        if self._error is None:
            try:
                self._fitness.on_step(observation, action, reward, info)
            except Exception as error:  # noqa: BLE001  (raised by result)
                self._error = error

    def result(self, episode: Episode) -> float:
        if self._error is not None:
            raise self._error
        return self._fitness.result(episode)


def _fault(value: Any) -> str:
    """Say what is wrong with a fitness; empty if nothing is."""
    if not _is_finite(value):
        return "expected a finite number"
    return f"expected a size of at most {_LARGEST:g}: divide it" if abs(value) > _LARGEST else ""


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except TypeError:
        return False
