"""The course of a run as a small picture for notebooks."""

from collections.abc import Sequence
from html import escape

from es_core.formatting import figures
from es_core.runs.metrics import GenerationStats

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 470, 200, 70, 12, 165  # of the drawing, and of its axes within it
_FRAME = (
    f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" style="max-width: 100%" fill="currentColor" '
    'font-size="13" font-family="sans-serif" role="img" aria-label="{label}">{content}</svg>'
)
_POPULATION, _CENTRE = "#3b82d6", "#e08a1e"
_MOST = 400  # points of a curve: a picture has no more columns


def course_picture(history: Sequence[GenerationStats]) -> str:
    """SVG of a run's generations: the populations' mean and range, and the scores of the best policy.

    The axis holds both curves; the range is cut where it goes beyond them by more than their height.
    """
    played = _thinned([stats for stats in history if stats.fitness_mean is not None])
    scored = _thinned([stats for stats in history if stats.evaluation is not None])
    means = [(stats.generation, stats.fitness_mean or 0.0) for stats in played]
    scores = [(stats.generation, stats.evaluation.mean) for stats in scored if stats.evaluation is not None]
    if not means and not scores:
        return _FRAME.format(label="no generation yet", content=f'<text x="{_LEFT}" y="60">no generation yet</text>')
    ranges = [(stats.generation, (stats.fitness_min or 0.0, stats.fitness_max or 0.0)) for stats in played]
    curves = [value for _, value in (*means, *scores)]
    room = max(curves) - min(curves) or abs(curves[0]) or 1.0
    low = max(min([*curves, *(least for _, (least, _) in ranges)]), min(curves) - room)
    high = min(max([*curves, *(most for _, (_, most) in ranges)]), max(curves) + room)
    last = max(1, history[-1].generation)

    def place(generation: int, value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low or 1.0)
        return f"{_LEFT + (_WIDTH - _LEFT - 8) * generation / last:.1f},{_BOTTOM - (_BOTTOM - _TOP) * share:.1f}"

    def curve(points: Sequence[tuple[int, float]], colour: str) -> str:
        line = " ".join(place(*point) for point in points)
        return f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'

    band = [place(at, most) for at, (_, most) in ranges] + [place(at, least) for at, (least, _) in ranges[::-1]]
    lines = "".join(f"M{_LEFT} {y}H{_WIDTH - 8}" for y in (_TOP, _BOTTOM))
    ends = "".join(
        f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{escape(figures(value, (low, high)))}</text>'
        for y, value in ((_TOP, high), (_BOTTOM, low))
    )
    names = (
        f'<text x="{_LEFT}" y="190"><tspan fill="{_POPULATION}">population</tspan>'
        f'<tspan dx="12" fill="{_CENTRE}">evaluated policy</tspan></text>'
        f'<text x="{_WIDTH - 8}" y="190" text-anchor="end">generation {history[-1].generation}</text>'
    )
    content = (
        f'<path d="{lines}" stroke="currentColor" opacity="0.25"/>{ends}'
        f'<polygon points="{" ".join(band)}" fill="{_POPULATION}" opacity="0.25"/>'
        f"{curve(means, _POPULATION)}{curve(scores, _CENTRE)}{names}"
    )
    return _FRAME.format(label=f"fitness over {history[-1].generation + 1} generations", content=content)


def _thinned(history: Sequence[GenerationStats]) -> Sequence[GenerationStats]:
    return history[:: -(-len(history) // _MOST) or 1]
