"""The charts of a report: a run's curves, first those that tell how good it is, then its diagnostics."""

from collections.abc import Callable, Sequence
from itertools import accumulate, cycle
from typing import Any

from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.train_config import TrainConfig
from es_core.reports.pages import Chart, Column, Mark
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Evaluation

_COLOURS = ("population", "other", "centre", "goal", "baseline-1", "baseline-2")  # of contenders


def run_charts(config: TrainConfig, history: Sequence[GenerationStats]) -> list[Chart]:
    """Draw a run's curves over the places that ``run_places`` returns.

    Args:
        config: the run's config.
        history: the generations to draw; the first one has the baselines.
    """

    def curve(
        label: str,
        colour: str,
        value: Callable[[GenerationStats], Any] | None,
        interval: Callable[[GenerationStats], Any] | None = None,
        *,
        is_shown: Callable[[Column], bool] = lambda _: True,
        dots: bool = False,
    ) -> Mark:
        """A number of each generation, and an interval around it, or that alone; no points if they show nothing."""
        values = value and [value(stats) for stats in history]
        ends: list[tuple[float | None, float | None]] | None = None
        if interval is not None:
            ends = [interval(stats) or (None, None) for stats in history]
        return Mark(
            label=label,
            colour=colour,
            grid="run",
            values=values if values is None or is_shown(values) else [],
            low=[low for low, _ in ends] if ends else None,
            high=[high for _, high in ends] if ends else None,
            dots=dots,
        )

    def other_fitness(name: str) -> Chart:
        is_learnt_from = name == "sign_return" and config.shaping in SIGN_SHAPINGS
        use = "from which evolution learns, by its shaping" if is_learnt_from else "which evolution does not use"
        return Chart(
            name=f"fitness-{name}",
            title=name,
            note=f"Another measure of the same episodes, {use}.",
            marks=(
                curve("population, mean", "population", lambda stats: stats.fitnesses.get(name)),
                curve("centre", "centre", _centre(lambda score: score.fitnesses.get(name))),
            ),
        )

    baselines = history[0].baselines if history else {}
    nothing = tuple(
        Mark(label=name, colour=f"baseline-{number}", rule=score.mean, distant=True)
        for number, (name, score) in enumerate(baselines.items(), 1)
    )
    goal = () if config.solved_at is None else (Mark(label="solved at", colour="goal", rule=config.solved_at),)
    contenders = sorted({stats.contender for stats in history})
    others = sorted({name for stats in history for name in stats.fitnesses} - {config.fitness})
    return [
        Chart(
            name="fitness",
            title=f"Fitness: {config.fitness}",
            note="The population in training, and the centre, which is the policy you would use, on starts that "
            "training never sees, with the 95 % interval of its mean. Dots: the centre on a second set of starts. "
            "Grey: what needs no learning.",
            marks=(
                curve(
                    "population, worst to best",
                    "population",
                    None,
                    lambda stats: (stats.fitness_min, stats.fitness_max),
                ),
                curve("population, median", "other", lambda stats: stats.fitness_median),
                curve("population, mean", "population", lambda stats: stats.fitness_mean),
                *nothing,
                *goal,
                curve("centre", "centre", _centre(lambda score: score.mean), _centre(lambda score: score.interval)),
                curve(
                    "centre, confirmed",
                    "centre",
                    lambda stats: None if stats.confirmation is None else stats.confirmation.mean,
                    dots=True,
                ),
            ),
        ),
        Chart(
            name="success",
            title="Success",
            note="Share of the centre's episodes that the environment reports as successful, with its 95 % interval.",
            marks=(
                curve(
                    "centre",
                    "centre",
                    _centre(lambda score: score.success_rate),
                    _centre(lambda score: score.success_interval),
                ),
            ),
            limits=(0, 1),
            percent=True,
        ),
        Chart(
            name="length",
            title="Episode length",
            note="Mean environment steps of an episode.",
            marks=(
                curve("population", "population", lambda stats: stats.episode_length),
                curve("centre", "centre", _centre(lambda score: score.length)),
                curve("training cap", "other", lambda stats: stats.rules.get("episode_cap")),
            ),
        ),
        Chart(
            name="coverage",
            title="Repertoire: coverage",
            note="Share of the cells that have a policy.",
            marks=(curve("filled", "population", lambda stats: stats.coverage),),
            limits=(0, 1),
            percent=True,
        ),
        Chart(
            name="qd-score",
            title="Repertoire: QD score",
            note="Sum over the cells of what their policies' fitness is above the strategy's floor.",
            marks=(curve("QD score", "population", lambda stats: stats.qd_score),),
        ),
        *map(other_fitness, others),
        Chart(
            name="contenders",
            title="Contenders",
            note="Mean fitness of the populations of each search: others, with other settings, challenge the leader.",
            marks=tuple(
                curve(f"contender {number}", colour, _of_contender(number))
                for number, colour in zip(contenders, cycle(_COLOURS), strict=False)
                if len(contenders) > 1
            ),
        ),
        Chart(
            name="curriculum",
            is_diagnostic=True,
            title="Curriculum",
            note="Share of the ranges of randomize in which the population played.",
            marks=(curve("share of the ranges", "population", lambda stats: stats.rules.get("curriculum")),),
            limits=(0, 1),
            percent=True,
        ),
        Chart(
            name="step",
            is_diagnostic=True,
            title="Step against sigma",
            note="Step of the centre, in units of the noise around it. The gradient is measured about one sigma "
            "around the centre: a longer step leaves that region.",
            marks=(
                curve("step / sigma", "population", lambda stats: stats.step_to_sigma),
                Mark(label="as long as sigma", colour="goal", rule=1.0),
            ),
        ),
        Chart(
            name="agreement",
            is_diagnostic=True,
            title="Agreement of gradients",
            note="Cosine between the gradients of the two halves of a population: around 0 if they are only noise, and "
            "hardly above 0 otherwise if there are far more parameters than candidates; and between a step and the one "
            "before it: below 0 the centre turns back.",
            marks=(
                curve("two halves", "population", lambda stats: stats.half_agreement),
                curve("two steps", "other", lambda stats: stats.step_cosine),
                Mark(label="no agreement", colour="goal", rule=0.0),
            ),
            limits=(-1, 1),
        ),
        Chart(
            name="sigma",
            is_diagnostic=True,
            title="Sigma",
            note="Standard deviation of the candidates' noise.",
            marks=(curve("sigma", "population", lambda stats: stats.sigma, is_shown=_varies),),
        ),
        Chart(
            name="ties",
            is_diagnostic=True,
            title="Ties and caps",
            note="Share of mirrored pairs whose two candidates have equal fitness, which teach nothing; share of "
            "episodes that a step limit ended.",
            marks=(
                curve("tied pairs", "population", lambda stats: stats.tied_pairs, is_shown=any),
                curve("episodes at the limit", "other", lambda stats: stats.capped_episodes, is_shown=any),
            ),
            limits=(0, 1),
            percent=True,
        ),
        Chart(
            name="norm",
            is_diagnostic=True,
            title="Length of the centre",
            note="Euclidean norm of the parameters.",
            marks=(curve("norm", "population", lambda stats: stats.parameter_norm),),
        ),
        Chart(
            name="speed",
            is_diagnostic=True,
            title="Throughput",
            note="Environment steps per second, of all workers and all episodes together.",
            marks=(curve("steps / s", "population", lambda stats: stats.steps_per_second),),
        ),
        Chart(
            name="failures",
            is_diagnostic=True,
            title="Failures",
            note="Candidates without a result, repeated episodes, and replaced worker processes.",
            marks=(
                curve("candidates that failed", "population", lambda stats: len(stats.failed_candidates), is_shown=any),
                curve("repeated", "other", lambda stats: stats.retried, is_shown=any),
                curve("workers replaced", "centre", lambda stats: stats.workers_replaced, is_shown=any),
            ),
        ),
    ]


def _centre(value: Callable[[Evaluation], Any]) -> Callable[[GenerationStats], Any]:
    """Read a number of the centre's evaluation, or None where there was none."""
    return lambda stats: None if stats.evaluation is None else value(stats.evaluation)


def _of_contender(number: int) -> Callable[[GenerationStats], float | None]:
    return lambda stats: stats.fitness_mean if stats.contender == number else None


def _varies(values: Column) -> bool:
    return len({*values} - {None}) > 1


def run_places(history: Sequence[GenerationStats], drawn: Sequence[GenerationStats]) -> dict[str, Column]:
    """Return the places of the drawn generations on each axis.

    Args:
        history: all generations.
        drawn: those to draw.
    """
    ends = accumulate(stats.seconds for stats in history)
    passed = dict(zip((stats.generation for stats in history), ends, strict=True))
    return {
        "generations": [stats.generation for stats in drawn],
        "steps": [stats.total_steps for stats in drawn],
        "seconds": [passed[stats.generation] for stats in drawn],
    }
