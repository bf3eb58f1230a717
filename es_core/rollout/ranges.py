"""Ranges within which an environment's properties vary, narrower or wider than they are declared."""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium


def scaled_ranges(ranges: Mapping[str, Any], factor: float, env: gymnasium.Env[Any, Any]) -> dict[str, list[float]]:
    """Ranges that are narrower or wider by a factor.

    Args:
        ranges: (low, high), or a number, by name.
        factor: 0: nothing varies; 1: the ranges themselves.
        env: the environment; if it has ``variations``, as a BulletEnv has, ranges are stretched about their nominal
            values and kept within their bounds; else about their middles.
    """
    known = getattr(env.unwrapped, "variations", {})
    return {name: _stretched(ends, factor, known.get(name)) for name, ends in ranges.items()}


def _stretched(ends: Any, factor: float, variation: Any) -> list[float]:
    low, high = (ends, ends) if isinstance(ends, int | float) else ends
    middle = (low + high) / 2 if variation is None else variation.nominal
    low, high = middle + factor * (low - middle), middle + factor * (high - middle)
    if variation is None:
        return [low, high]
    if variation.is_whole:
        least, most = math.ceil(low), math.floor(high)
        low, high = (least, most) if least <= most else (round((low + high) / 2),) * 2
    return [min(max(variation.least, end), variation.most) for end in (low, high)]
