"""Advice: one plain sentence when the numbers of a run show that something is wrong."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any, Self

from es_core.formatting import percent
from es_core.runs.metrics import GenerationStats
from es_core.training.rules.plateau import PLATEAU, is_plateau
from es_core.training.rules.rule import SearchHistory, recent_generations
from es_core.training.rules.sigma_shrinking import FAILING_EARLY, SHRINK_FACTOR, fails_early, is_out_of_reach

_WINDOW = 10  # generations: single ones are noisy, and advice that comes later is of less use
_PATIENCE = 25  # generations in which a run may become better than doing nothing
_NOISY = 3  # times larger than another spread
_NEARLY_ALL = 0.95  # of a centre's actions
_STEP = 3  # times sigma, larger or smaller: what is advised where it does not suit
_FEWEST_SCORES = 5  # of centres, from which a trend is visible
_FEWEST = 3  # the same, compared with a baseline


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
Rule = Callable[[History, GenerationStats], str]
"""A function of a search's latest metrics, and of the run's first line, which has the baselines."""


def advice(history: History, *, restarts: int = 0) -> Advice:
    """Return what is wrong according to the last generations, and what to do about it.

    Of a run that has ended it is the last that was true within a few generations.

    Args:
        history: a run's history; lines without a population are ignored.
        restarts: how often the search may restart.
    """
    window = _WINDOW if history and history[-1].final is not None and not history[-1].solved else 1
    sentences = (_first_true(history[: len(history) - back], restarts)[1] for back in range(min(window, len(history))))
    found = next(filter(None, sentences), "")
    return found if isinstance(found, Advice) else Advice(found)


class Adviser:
    """Gives each piece of advice once while it stays true; ``restarts`` as in ``advice``."""

    def __init__(self, *, restarts: int = 0) -> None:
        self._restarts = restarts
        self._last_true: dict[Rule, int] = {}

    def advise(self, history: History) -> str:
        """Return the advice to give after a generation, or nothing."""
        rule, sentence = _first_true(history, self._restarts)
        if rule is None:
            return ""
        # Advice that was true a moment ago, and is again, has been given.
        is_known = rule in self._last_true and len(history) - self._last_true[rule] <= _WINDOW
        self._last_true[rule] = len(history)
        return "" if is_known else sentence


def _first_true(history: History, restarts: int) -> tuple[Rule | None, str]:
    if not history:
        return None, ""
    last = history[-1]
    recent = recent_generations(history, last.search)
    # Where a restart is left, the run knows itself what to do at a plateau.
    rules = [rule for rule in _RULES if rule is not _plateau or last.rules.get("plateau", 0) == restarts]
    if any(stats.coverage is not None for stats in history[-2:]):  # a repertoire grows where no fitness rises
        rules = [_no_difference]
    for rule in [_goal_too_easy] if last.solved else rules:
        if recent and (sentence := rule(recent, history[0])):
            return rule, sentence
    return None, ""


def _goal_too_easy(recent: History, first: GenerationStats) -> str:
    """Advise if a run is solved by a policy that is no better than none."""
    score = recent[-1].verdict
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
    """Advise if what an early end saves outweighs what each step costs, and the run continues like that."""
    nothing = first.baselines.get("doing nothing") if first.generation == 0 else None
    if nothing is None or not all(fails_early(SearchHistory.of(part), nothing) for part in (recent, recent[:-1])):
        return ""
    length = next(stats.evaluation.length for stats in reversed(recent) if stats.evaluation is not None)
    sigma, settings = "", {}
    if first.sigma and recent[-1].rules.get("sigma_shrinking") != FAILING_EARLY:  # else it has been tried
        settings = {"sigma": first.sigma / SHRINK_FACTOR}
        sigma = f", or try a tenth of sigma, {settings['sigma']:.2g}"
    return Advice(
        f"episodes end after {length:.0f} steps, and after {nothing.length:.0f} if nothing is done: each step costs "
        "more, but there are fewer. If such an end is a failure, make it cost more than continuing would"
        f"{sigma}",
        **settings,
    )


def _no_difference(recent: History, first: GenerationStats) -> str:  # noqa: ARG001 - one signature for all
    """Advise that all candidates are alike, so that nothing can be learnt, whatever the strategy and its settings."""
    last = recent[-_WINDOW:]
    if len(last) < _WINDOW or any(stats.fitness_std != 0 or stats.tied_pairs not in {None, 1} for stats in last):
        return ""
    sigma = f", or sigma, {last[-1].sigma:.2g}, is too small to change them" if last[-1].sigma else ""
    return (
        f"in the last {_WINDOW} generations all candidates had the same fitness as others with their start, "
        f"{last[-1].fitness_mean:.4g} on average: it is the maximum, or the fitness gives no credit for near misses, "
        f"or actions have no effect{sigma}"
    )


def _at_bounds(recent: History, first: GenerationStats) -> str:  # noqa: ARG001
    """Advise if nothing is gained by actions at their bounds: the policy chooses among few, and noise changes none."""
    scores = SearchHistory.of(recent[-_PATIENCE:]).known_scores
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


def _no_better_than_nothing(recent: History, first: GenerationStats) -> str:
    """Advise if the latest centres do not beat what no learning gives."""
    baselines = first.baselines if first.generation == 0 else {}
    scores = [score.mean for score in SearchHistory.of(recent[-_PATIENCE:]).known_scores]
    if len(recent) <= _PATIENCE or len(scores) < _FEWEST or not baselines:
        return ""
    name, score = max(baselines.items(), key=lambda item: item[1].mean)
    if fmean(scores) > score.mean or _rises(recent):
        return ""
    settings = _suggest_settings(recent, first)
    return Advice(
        f"the centres of the last {_PATIENCE} generations score {fmean(scores):.4g}, no better than {name}, "
        f"{score.mean:.4g} in {score.episodes} episodes: {settings}",
        **settings.settings,
    )


def _no_progress(recent: History, first: GenerationStats) -> str:
    """Advise if no centre has scored higher than the first one: by chance alone, one run in six would look so at first.

    But populations would mostly have become better.
    """
    scores = [score.mean for score in SearchHistory.of(recent).known_scores]
    if len(recent) <= _WINDOW or len(scores) <= _FEWEST_SCORES or recent[0].generation != 0:
        return ""
    if max(scores[1:]) > scores[0] or _rises(recent):
        return ""
    settings = _suggest_settings(recent, first)
    return Advice(
        f"no centre of the first {len(recent)} generations scored higher than the first one, {scores[0]:.4g}: "
        f"{settings}",
        **settings.settings,
    )


def _suggest_settings(recent: History, first: GenerationStats) -> Advice:
    """Suggest what to try where nothing was learnt from the first generation on."""
    is_capped = first.rules.get("episode_cap") is not None  # which ends candidates' episodes alone
    centre = None if is_capped else first.evaluation
    if first.sigma and centre is not None and is_out_of_reach(centre, first.fitness_max, first.fitness_std):
        return Advice(
            f"no candidate of generation 0 came near what its centre does ({first.fitness_max:.4g}, {centre.mean:.4g}):"
            f" try a tenth of its sigma, {first.sigma / SHRINK_FACTOR:.2g}",
            sigma=first.sigma / SHRINK_FACTOR,
        )
    sigma = recent[-1].sigma
    if sigma is None:  # a learner makes the run: it has no candidates that noise makes different
        return Advice("try another learning_rate (strategy_options), or evolution (strategy='auto')")
    has_gradient = any(stats.gradient_norm is not None for stats in recent)
    others = "'cma_es' with policy='linear', or 'ars'" if has_gradient else "'openai_es' or 'ars'"
    larger = f"try a larger sigma, such as {_STEP * sigma:.2g}, or another strategy ({others})"
    return Advice(larger, sigma=_STEP * sigma)


def _plateau(recent: History, first: GenerationStats) -> str:  # noqa: ARG001
    """Advise if neither centres nor populations have gained anything for long."""
    search = SearchHistory.of(recent)
    if not is_plateau(search):
        return ""
    starts = [score.std for score in search.known_scores]
    spreads = [stats.fitness_std for stats in recent if stats.fitness_std is not None]
    candidates = fmean(spreads) if spreads else 0.0
    by_gradients, size = recent[-1].sigma is None, recent[-1].population_size
    twice = {} if size is None or by_gradients else {"population_size": 2 * size}
    if starts and fmean(starts) > _NOISY * candidates and not by_gradients:
        return Advice(
            f"nothing was gained in {PLATEAU} generations, and one policy's scores differ more between starts "
            f"({fmean(starts):.3g}) than candidates on one start ({candidates:.3g}): start again with a larger "
            "population_size, or more episodes_per_candidate",
            **twice,
        )
    about = f", at about {search.known_fitness[-1]:.4g}" if search.known_fitness else ""
    larger = "another learning_rate (strategy_options)" if by_gradients else "a larger population_size or sigma"
    return Advice(
        f"nothing was gained in {PLATEAU} generations{about}: if better is possible, start again with another seed, "
        f"{larger}, or a larger policy (hidden_sizes)",
        **twice,
    )


# The first that is true is given: causes before their consequences.
_RULES: tuple[Rule, ...] = (
    _fails_early, _at_bounds, _no_difference, _no_better_than_nothing, _no_progress, _plateau,
)  # fmt: skip


def _rises(recent: History) -> bool:
    """Return True if populations have become better, beyond chance, from the first half to the second."""
    return SearchHistory.of(recent).gained(errors=2)
