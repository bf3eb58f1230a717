"""Numbers that change from generation to generation: the learning rate, sigma."""

import math
from collections.abc import Callable

from es_core.config.choices import SCHEDULES
from es_envs.choice import require_one_of

Schedule = Callable[[int], float]


def as_schedule(value: float | Schedule) -> Schedule:
    """A number as a schedule that stays there; what a schedule returns as a float."""
    return (lambda generation: float(value(generation))) if callable(value) else schedule(value, None)


def schedule(start: float, final: float | None, *, shape: str = "linear", generations: int = 1) -> Schedule:
    """A function from the generation to a value that goes from ``start`` to ``final`` in so many generations.

    Args:
        start: in generation 0.
        final: in generation ``generations`` and all later ones; None: the value is always ``start``.
        shape: "linear"; "cosine" (half a period: flat at both ends; Loshchilov and Hutter 2017, arXiv 1608.03983,
            equation 5); or "exponential" (the same factor in each generation).
        generations: how many.

    Raises:
        ValueError: there is no such shape.
    """
    require_one_of("schedule", shape, SCHEDULES)
    start = float(start)  # a whole number would make arrays of whole numbers, one of NumPy's other bits
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
