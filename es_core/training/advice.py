"""Advice: one plain sentence when the numbers of a run say that something is wrong with its settings."""

from collections.abc import Callable, Collection, Iterable, Sequence
from statistics import fmean
from typing import Any, Self

from es_core.formatting import percent
from es_core.runs.metrics import GenerationStats
from es_core.statistics import is_gain
from es_core.training.rules.generation_steps import STALL
from es_core.training.rules.plateau import PLATEAU, is_plateau
from es_core.training.rules.rule import SearchHistory, recent_generations
from es_core.training.rules.sigma_shrinking import FAILING_EARLY, SHRINK_FACTOR, fails_early, is_out_of_reach

_WINDOW = 10  # generations: single ones are noisy, and advice that comes later is of less use
_LONG_WINDOW = PLATEAU  # for what single generations hardly show

_PATIENCE = 25  # generations in which a run may become better than doing nothing
_FAR = 20  # times larger, or smaller, than another scale
_NOISY = 3  # times larger than another spread
_NEARLY_ALL = 0.95  # of a centre's actions
_STEP = 3  # times sigma, larger or smaller: what is advised where it does not suit
_FEWEST_SCORES = 5  # of centres, from which something can be said
_FEWEST = 3  # the same, beside a baseline
_SURELY = 2  # standard errors


class Advice(str):
    """A sentence on what is wrong with a run and what to do about it; empty if nothing is.

    Attributes:
        settings: the settings that it advises, by name; empty if it advises no definite value.
    """

    __slots__ = ("settings",)

    settings: dict[str, Any]

    def __new__(cls, sentence: str = "", **settings: float) -> Self:
        """Make it of its sentence; numbers are rounded as the sentence shows them."""
        advice = super().__new__(cls, sentence)
        advice.settings = {
            name: float(f"{value:.2g}") if isinstance(value, float) else value for name, value in settings.items()
        }
        return advice


History = Sequence[GenerationStats]
Rule = Callable[..., str]
"""A function of a search's latest metrics, and for those of ``_WITH_FIRST`` of the run's first, where baselines are."""


def advice(history: History, *, restarts: int = 0) -> Advice:
    """Return what is wrong according to the last generations, and what to do about it.

    Of a run that has ended it is the last that was true within a few generations.

    Args:
        history: a run's history; lines without a population are ignored.
        restarts: how often the run may begin again by itself.
    """
    looks = _WINDOW if history and history[-1].final is not None and not history[-1].solved else 1
    said = (_first(history[: len(history) - back], restarts)[1] for back in range(min(looks, len(history))))
    found = next(filter(None, said), "")
    return found if isinstance(found, Advice) else Advice(found)


class Adviser:
    """Gives each piece of advice once while it stays true; ``restarts`` as in ``advice``."""

    def __init__(self, *, restarts: int = 0) -> None:
        self._restarts = restarts
        self._last_true: dict[Rule, int] = {}

    def hear(self, history: History) -> str:
        """Return the advice to give after a generation, or nothing."""
        rule, sentence = _first(history, self._restarts)
        if rule is None:
            return ""
        # Advice that was true a moment ago, and is again, has been given.
        said = rule in self._last_true and len(history) - self._last_true[rule] <= _WINDOW
        self._last_true[rule] = len(history)
        return "" if said else sentence


def _first(history: History, restarts: int) -> tuple[Rule | None, str]:
    if not history:
        return None, ""
    begun = history[-1].rules.get("plateau", 0)
    recent = recent_generations(history, history[-1].search)
    if history[-1].solved:
        rules: Iterable[Rule] = [_asks_for_nothing]
    else:
        rules = (rule for rule in _RULES if rule is not _plateau or begun == restarts)  # the run knows what to do
    for rule in rules:
        if recent and (sentence := rule(recent, history[0]) if rule in _WITH_FIRST else rule(recent)):
            return rule, sentence
    return None, ""


def _asks_for_nothing(recent: History, first: GenerationStats) -> str:
    """Advise if a run is solved by a policy that is no better than none."""
    last = recent[-1]
    score = last.verdict
    if first.generation != 0 or not first.baselines or score is None:
        return ""
    name, baseline = max(first.baselines.items(), key=lambda item: item[1].mean)
    if baseline.mean < score.mean:
        return ""
    return (
        f"{name} scores {baseline.mean:.4g} in {baseline.episodes} episodes, no less than the policy, {score.mean:.4g}:"
        " either solved_at asks for too little, or actions do not move what they should; a film of both shows which"
    )


def _fails_early(recent: History, first: GenerationStats) -> str:
    """Advise if what an early end saves outweighs what each step costs, and the run goes on like that."""
    nothing = first.baselines.get("doing nothing") if first.generation == 0 else None
    if nothing is None or not all(fails_early(SearchHistory.of(part), nothing) for part in (recent, recent[:-1])):
        return ""
    lasts = nothing.length
    length = next(stats.evaluation.length for stats in reversed(recent) if stats.evaluation is not None)
    sigma, settings = "", {}
    if first.sigma and recent[-1].rules.get("sigma_shrinking") != FAILING_EARLY:  # else it has been tried
        sigma, settings = (
            f", or try a tenth of sigma, {first.sigma / SHRINK_FACTOR:.2g}",
            {"sigma": first.sigma / SHRINK_FACTOR},
        )
    return Advice(
        f"episodes end after {length:.0f} steps, and after {lasts:.0f} if nothing is done: each step costs more, but "
        f"there are fewer. If such an end is a failure, make it cost more than going on would{sigma}",
        **settings,
    )


def _at_bounds(recent: History) -> str:
    """Advise if nothing is gained by actions at their bounds: the policy chooses among few, and noise changes none."""
    scores = [stats.evaluation for stats in recent[-_PATIENCE:] if stats.evaluation is not None]
    shares = [score.at_bounds for score in scores if score.at_bounds is not None]
    half = len(scores) // 2
    if len(recent) < _PATIENCE or len(shares) < _FEWEST_SCORES or min(shares) < _NEARLY_ALL:
        return ""
    if fmean(score.mean for score in scores[half:]) > fmean(score.mean for score in scores[:half]):
        return ""
    settings = {"sigma": recent[-1].sigma / _STEP} if recent[-1].sigma else {}
    smaller = "".join(f", such as {sigma:.2g}" for sigma in settings.values())
    return Advice(
        f"{percent(fmean(shares))} of the centres' actions are at a bound, and nothing is gained: if better is "
        f"possible, choose a smaller sigma{smaller}, or stretch actions to their bounds if they are cut off there "
        "(action_squash='tanh')",
        **settings,
    )


def _no_difference(recent: History) -> str:
    """Advise that all candidates are alike, so that nothing can be learnt, whatever the strategy and its settings."""
    last = recent[-_WINDOW:]
    if len(last) < _WINDOW or any(stats.fitness_std != 0 or stats.tied_pairs not in {None, 1} for stats in last):
        return ""
    sigma = f", or sigma, {last[-1].sigma:.2g}, is too small to change them" if last[-1].sigma else ""
    return (
        f"in the last {_WINDOW} generations all candidates had the same fitness as others with their start, "
        f"{last[-1].fitness_mean:.4g} on average: either it is the best possible one, or all miss what it pays for, and"
        f" it must tell nearly from not at all, or it does not depend on the policy's actions{sigma}"
    )


def _ties(recent: History) -> str:
    """Advise if most pairs tie: such a pair says nothing about its direction, so that its episodes are wasted."""
    ties = _mean("tied_pairs", recent)
    if ties is None or ties <= 0.5:
        return ""
    last = recent[-1]
    said = f"{percent(ties)} of the pairs tie:"
    if last.fitness_median == last.fitness_max:  # at the top of the scale pairs tie however large sigma is
        same = f"most candidates reach the same fitness, {last.fitness_max:g}"
        return f"{said} {same}; if none is better, the task is solved"
    if not last.sigma:
        return f"{said} sigma is too small or the episodes too short"
    sigma = _STEP * last.sigma
    return Advice(f"{said} sigma is too small or the episodes too short; try sigma {sigma:.2g}", sigma=sigma)


def _capped(recent: History) -> str:
    """Advise if a cap cut off three generations: it at most doubles, so it began at an eighth of what is needed."""
    last = recent[-3:]
    if len(last) < 3 or any(
        _cap(stats) is None or stats.capped_episodes is None or stats.capped_episodes < 0.9 for stats in last
    ):
        return ""
    cap = int(_cap(last[-1]) or 1)
    return Advice(
        f"nearly all episodes end at the training cap, now {cap} steps: raise episode_cap_start, to {2 * cap}",
        episode_cap_start=2 * cap,
    )


def _long_steps(recent: History) -> str:
    """Advise if steps are longer than sigma: the gradient is measured that far from the centre, and not further."""
    length = _mean("step_to_sigma", _with_gradient(recent))
    if length is None or length <= 1:
        return ""
    said = f"each step is {length:.1f} times as long as sigma: lower the learning rate or raise sigma"
    sigma = recent[-1].sigma
    return said if sigma is None else Advice(f"{said}, to {length * sigma:.2g}", sigma=length * sigma)


def _turning_back(recent: History) -> str:
    """Advise if steps turn back: those up a slope agree, those of pure noise point anywhere; overshooting turns back.

    The mean cosine of ten steps of pure noise has the standard deviation 0.3 / sqrt(d): it is this low in a policy of
    d = 10 parameters once in a thousand times.
    """
    cosine = _mean("step_cosine", _with_gradient(recent))
    if cosine is None or cosine >= -0.3:
        return ""
    return f"each step turns back on the one before it (cosine {cosine:.2f}): lower the learning rate"


def _noise(recent: History) -> str:
    """Advise if the two halves of the population disagree: the gradient that both estimate is mostly noise.

    On average their cosine is above 0 as soon as there is any signal. But a population that learns well may have such a
    small one (a hundredth, with many more parameters than pairs) that it alone proves nothing, even over a long time:
    it only explains why nothing is gained.
    """
    agreement = _mean("half_agreement", recent, _LONG_WINDOW)
    if agreement is None or agreement > 0:
        return ""
    if _rises(recent):
        return ""
    return Advice(
        f"nothing was gained in {_LONG_WINDOW} generations, and the two halves of the population disagree about the "
        "gradient: it is mostly noise; use more candidates or more episodes_per_candidate",
        **_twice_the_candidates(recent),
    )


def _scales(recent: History, first: GenerationStats) -> str:
    """Advise if observations differ much in scale: the same noise then changes some inputs' effect far more."""
    spread = first.observation_spread
    if first.fitness_std == 0:  # candidates are alike for another reason
        return ""
    if spread is None or (spread[1] < _FAR * spread[0] and 1 / _FAR < spread[1] < _FAR) or _rises(recent):
        return ""
    return Advice(
        f"the observations' standard deviations reach from {spread[0]:.2g} to {spread[1]:.2g}: normalise them "
        "(observation_normalization=True)",
        observation_normalization=True,
    )


def _too_wide(recent: History) -> str:
    """Advise if all candidates are worse than their centre: they are too far away from it."""
    scored = [
        (stats.evaluation.mean, stats.fitness_max)
        for stats in recent[-_WINDOW:]
        if stats.evaluation is not None and stats.fitness_max is not None
    ]
    sigma = recent[-1].sigma  # None: candidates do not differ by noise
    some_reach_it = any(centre <= best for centre, best in scored)
    if sigma is None or _cap(recent[-1]) is not None or some_reach_it or _rises(recent):
        return ""
    if len(recent) <= _WINDOW or len(scored) < _WINDOW // 2:
        return ""
    return Advice(
        f"no candidate reaches what its centre does ({scored[-1][1]:.4g}, {scored[-1][0]:.4g}): sigma is too large, "
        f"{sigma:.2g}; try {sigma / _STEP:.2g}",
        sigma=sigma / _STEP,
    )


def _rare_failures(recent: History) -> str:
    """Advise if the populations' mean falls while their median does not: some starts set candidates back more and more.

    An episode for each candidate hardly shows it.
    """
    scored = [
        (stats.fitness_mean, stats.fitness_median)
        for stats in recent
        if stats.fitness_mean is not None and stats.fitness_median is not None
    ]
    blocks = [scored[end - STALL : end] for end in range(len(scored), STALL - 1, -STALL)]
    if len(blocks) < 2:
        return ""
    (now, median), *earlier = [([mean for mean, _ in block], fmean(middle for _, middle in block)) for block in blocks]
    before, median_before = max(earlier, key=lambda block: fmean(block[0]))
    if not is_gain(now, before, errors=3) or median < median_before:
        return ""
    rose = f"rose from {median_before:.4g} to {median:.4g}" if median > median_before else f"stayed at {median:.4g}"
    return Advice(
        f"the populations' mean fitness fell from {fmean(before):.4g} to {fmean(now):.4g}, while their median {rose}: "
        "rare failures become more frequent or worse, which few episodes hardly tell; use more "
        "episodes_per_candidate, such as 4",
        episodes_per_candidate=4,
    )


def _no_better_than_nothing(recent: History, first: GenerationStats) -> str:
    """Advise if the latest centres do not beat what no learning gives."""
    baselines = first.baselines if first.generation == 0 else {}
    scores = [stats.evaluation.mean for stats in recent[-_PATIENCE:] if stats.evaluation is not None]
    if len(recent) <= _PATIENCE or len(scores) < _FEWEST or not baselines:
        return ""
    name, score = max(baselines.items(), key=lambda item: item[1].mean)
    if fmean(scores) > score.mean or _rises(recent):
        return ""
    way = _another_way(recent, first)
    return Advice(
        f"the centres of the last {_PATIENCE} generations score {fmean(scores):.4g}, no better than {name}, "
        f"{score.mean:.4g} in {score.episodes} episodes: {way}",
        **way.settings,
    )


def _no_progress(recent: History) -> str:
    """Advise if no centre has scored higher than the first one: by chance alone, one run in six would look so at first.

    But populations would mostly have become better.
    """
    scores = [stats.evaluation.mean for stats in recent if stats.evaluation is not None]
    if len(recent) <= _WINDOW or len(scores) <= _FEWEST_SCORES or recent[0].generation != 0:
        return ""
    if max(scores[1:]) > scores[0] or _rises(recent):
        return ""
    way = _another_way(recent, recent[0])
    return Advice(
        f"no centre of the first {len(recent)} generations scored higher than the first one, {scores[0]:.4g}: {way}",
        **way.settings,
    )


def _another_way(recent: History, first: GenerationStats) -> Advice:
    """Say what to try where nothing was learnt from the first generation on."""
    centre = None if _cap(first) is not None else first.evaluation  # a cap ends candidates' episodes alone
    if first.sigma and centre is not None and is_out_of_reach(centre, first.fitness_max, first.fitness_std):
        return Advice(
            f"no candidate of generation 0 came near what its centre does ({first.fitness_max:.4g}, {centre.mean:.4g}):"
            f" try a tenth of its sigma, {first.sigma / SHRINK_FACTOR:.2g}",
            sigma=first.sigma / SHRINK_FACTOR,
        )
    others = "'cma_es' with policy='linear', or 'ars'" if _with_gradient(recent) else "'openai_es' or 'ars'"
    normalise = ""
    settings: dict[str, float] = {}
    if first.observation_spread is not None:
        normalise = "if its observations differ in scale, normalise them (observation_normalization=True); else "
        settings = {"observation_normalization": True}
    if _learns_by_gradients(recent):
        return Advice(
            f"{normalise}try another learning_rate (strategy_options), or evolution (strategy='auto')", **settings
        )
    larger = ""
    if sigma := recent[-1].sigma:
        larger = f", such as {_STEP * sigma:.2g}"
        settings = settings or {"sigma": _STEP * sigma}
    return Advice(f"{normalise}try a larger sigma{larger}, or another strategy ({others})", **settings)


def _plateau(recent: History) -> str:
    """Advise if neither centres nor populations have gained anything for long."""
    if not is_plateau(SearchHistory.of(recent)):
        return ""
    starts = [stats.evaluation.std for stats in recent if stats.evaluation is not None]
    spreads = [stats.fitness_std for stats in recent if stats.fitness_std is not None]
    candidates = fmean(spreads) if spreads else 0.0
    learner = _learns_by_gradients(recent)
    if starts and fmean(starts) > _NOISY * candidates and not learner:
        return Advice(
            f"nothing was gained in {PLATEAU} generations, and one policy's scores differ more between starts "
            f"({fmean(starts):.3g}) than candidates on one start ({candidates:.3g}): start again with a larger "
            "population_size, or more episodes_per_candidate",
            **_twice_the_candidates(recent),
        )
    fitness = [stats.fitness_mean for stats in recent if stats.fitness_mean is not None]
    about = f", at about {fitness[-1]:.4g}" if fitness else ""
    larger = "another learning_rate (strategy_options)" if learner else "a larger population_size or sigma"
    return Advice(
        f"nothing was gained in {PLATEAU} generations{about}: if better is possible, start again with another seed, "
        f"{larger}, or a larger policy (hidden_sizes)",
        **({} if learner else _twice_the_candidates(recent)),
    )


def _twice_the_candidates(recent: History) -> dict[str, int]:
    size = recent[-1].population_size
    return {} if size is None else {"population_size": 2 * size}


# The first that is true is given: causes before their consequences.
_RULES: tuple[Rule, ...] = (
    _fails_early, _scales, _at_bounds, _no_difference, _ties, _capped, _long_steps, _turning_back, _rare_failures,
    _noise, _no_better_than_nothing, _no_progress, _too_wide, _plateau,
)  # fmt: skip


_WITH_FIRST: Collection[Rule] = {_asks_for_nothing, _fails_early, _scales, _no_better_than_nothing}


def _rises(recent: History) -> bool:
    """Tell whether populations have become better, beyond chance, from the first half of generations to the second."""
    fitness = [stats.fitness_mean for stats in recent if stats.fitness_mean is not None]
    half = len(fitness) // 2
    return half > 1 and is_gain(fitness[:half], fitness[half:], errors=_SURELY)


def _cap(stats: GenerationStats) -> float | None:
    """Step limit of candidates' episodes below that of whole ones, or None."""
    return stats.rules.get("episode_cap")


def _learns_by_gradients(recent: History) -> bool:
    """Tell whether a learner makes the run: it has no candidates that noise makes different."""
    return recent[-1].sigma is None


def _with_gradient(recent: History) -> History:
    """Generations with a gradient: only they have a learning rate; elsewhere a long step is not a fault."""
    return [stats for stats in recent if stats.gradient_norm is not None]


def _mean(name: str, recent: History, window: int = _WINDOW) -> float | None:
    """Mean over a whole window, or None."""
    values = [value for value in (getattr(stats, name) for stats in recent[-window:]) if value is not None]
    return fmean(values) if len(values) == window else None
