"""Numbers that change from generation to generation: the learning rate, sigma."""

import math
from collections.abc import Callable

from es_core.config.choices import SCHEDULES
from es_envs.arguments import require_one_of

Schedule = Callable[[int], float]


def as_schedule(value: float | Schedule) -> Schedule:
    """Return a schedule that returns floats; a number becomes a constant one."""
    return (lambda generation: float(value(generation))) if callable(value) else schedule(value, None)


def schedule(start: float, final: float | None, *, shape: str = "linear", generations: int = 1) -> Schedule:
    """Return a function from the generation to a value that goes from ``start`` to ``final`` in ``generations``.

    Args:
        start: value in generation 0.
        final: value in generation ``generations`` and all later ones; None: the value is always ``start``.
        shape: "linear"; "cosine" (half a period: flat at both ends; Loshchilov and Hutter 2017, arXiv 1608.03983,
            equation 5); or "exponential" (the same factor in each generation).
        generations: number of generations.

    Raises:
        ValueError: there is no such shape.
    """
    require_one_of("schedule", shape, SCHEDULES)
    start = float(start)  # an int would make arrays of ints, and a NumPy scalar arrays of its type
    if final is None:
        return lambda _: start

    def value(generation: int) -> float:
        part = min(1.0, generation / generations)
        match shape:
            case "linear":
                return start + (final - start) * part
            case "cosine":
                return final + (start - final) * (1 + math.cos(math.pi * part)) / 2
            case _:
                return start * math.exp(math.log(final / start) * part)

    return value
