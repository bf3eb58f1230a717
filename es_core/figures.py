"""Numbers for people: as many digits as say something."""

import math


def figures(value: float | None, interval: tuple[float, float] | None = None) -> str:
    """A number for people, thousands apart.

    Args:
        value: the number; None: "-".
        interval: in which it, or its like, lies: two digits of its width are shown. None: about four digits.
    """
    if value is None:
        return "-"
    edges = interval or (value, value)
    width, exponent = edges[1] - edges[0], _exponent(max(map(abs, (value, *edges))))
    if isinstance(value, int) or not math.isfinite(width):
        decimals = 0
    elif width > 0:
        # No more than a float64 holds, which is what an interval as wide as a rounding error would ask for.
        decimals = max(0, min(1 - _exponent(width), 15 - exponent))
    elif abs(value) >= 1000:
        decimals = 0
    elif abs(value) >= 1 or value == 0:
        decimals = 2
    else:
        return f"{value:.3g}"
    if exponent < -4:
        return f"{value:.{max(0, decimals + exponent)}e}"
    return f"{value:,.{decimals}f}".replace(",", "\u202f")


def _exponent(value: float) -> int:
    return math.floor(math.log10(abs(value))) if 0 < abs(value) < math.inf else 0
