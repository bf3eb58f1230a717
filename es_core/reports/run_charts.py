"""The charts of a report: a run's curves, first those that tell how good it is, then its diagnostics."""

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from es_core.config.choices import SIGN_SHAPINGS
from es_core.config.train_config import TrainConfig
from es_core.reports.pages import Chart, Column, Mark
from es_core.runs.metrics import GenerationStats
from es_core.runs.scores import Evaluation


def run_charts(config: TrainConfig, history: Sequence[GenerationStats]) -> list[Chart]:
    """Draw a run's curves over the places that ``run_places`` returns.

    Args:
        config: the run's config.
        history: the generations to draw; the first one has the baselines.
    """

    def of(value: Callable[[GenerationStats], float | None]) -> Column:
        return [value(stats) for stats in history]

    def of_centre(value: Callable[[Evaluation], float | None]) -> Column:
        return of(lambda stats: None if stats.evaluation is None else value(stats.evaluation))

    def curve(label: str, colour: str, values: Column, **more: Any) -> Mark:
        return Mark(label=label, colour=colour, grid="run", values=values, **more)

    def curves(columns: Mapping[str, Column]) -> tuple[Mark, ...]:
        """Curves that are not always 0."""
        colours = zip(columns.items(), ("population", "other", "centre"), strict=False)
        return tuple(curve(label, colour, values) for (label, values), colour in colours if any(values))

    def named(name: str) -> Chart:
        is_learnt_from = name == "sign_return" and config.shaping in SIGN_SHAPINGS
        use = "from which evolution learns, by its shaping" if is_learnt_from else "which evolution does not use"
        return Chart(
            name=f"fitness-{name}",
            title=name,
            note=f"Another measure of the same episodes, {use}.",
            marks=(
                curve("population, mean", "population", of(lambda stats: stats.fitnesses.get(name))),
                curve("centre", "centre", of_centre(lambda score: score.fitnesses.get(name))),
            ),
        )

    baselines = history[0].baselines if history else {}
    nothing = tuple(
        Mark(label=name, colour=f"baseline-{number}", rule=score.mean, distant=True)
        for number, (name, score) in enumerate(baselines.items(), 1)
    )
    goal = () if config.solved_at is None else (Mark(label="solved at", colour="goal", rule=config.solved_at),)
    others = sorted({name for stats in history for name in stats.fitnesses} - {config.fitness})
    sigma = of(lambda stats: stats.sigma)
    shares = {
        "tied pairs": of(lambda stats: stats.tied_pairs),
        "episodes at the limit": of(lambda stats: stats.capped_episodes),
    }
    failures = {
        "candidates that failed": of(lambda stats: len(stats.failed_candidates)),
        "repeated": of(lambda stats: stats.retried),
        "workers replaced": of(lambda stats: stats.workers_replaced),
    }
    return [
        Chart(
            name="fitness",
            title=f"Fitness: {config.fitness}",
            note="The population in training, and the centre, which is the policy you would use, on starts that "
            "training never sees, with the 95 % interval of its mean. Dots: the centre on a second set of starts. "
            "Grey: what needs no learning.",
            marks=(
                Mark(
                    label="population, worst to best",
                    colour="population",
                    grid="run",
                    low=of(lambda stats: stats.fitness_min),
                    high=of(lambda stats: stats.fitness_max),
                ),
                curve("population, median", "other", of(lambda stats: stats.fitness_median)),
                curve("population, mean", "population", of(lambda stats: stats.fitness_mean)),
                *nothing,
                *goal,
                curve(
                    "centre",
                    "centre",
                    of_centre(lambda score: score.mean),
                    low=of_centre(lambda score: score.interval[0] if score.interval else None),
                    high=of_centre(lambda score: score.interval[1] if score.interval else None),
                ),
                curve(
                    "centre, confirmed",
                    "centre",
                    of(lambda stats: None if stats.confirmation is None else stats.confirmation.mean),
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
                    of_centre(lambda score: score.success_rate),
                    low=of_centre(lambda score: score.success_interval[0] if score.success_interval else None),
                    high=of_centre(lambda score: score.success_interval[1] if score.success_interval else None),
                ),
            ),
            limits=(0, 1),
        ),
        Chart(
            name="length",
            title="Episode length",
            note="Mean environment steps of an episode.",
            marks=(
                curve("population", "population", of(lambda stats: stats.episode_length)),
                curve("centre", "centre", of_centre(lambda score: score.length)),
                curve("training cap", "other", of(lambda stats: stats.rules.get("episode_cap"))),
            ),
        ),
        *map(named, others),
        Chart(
            name="curriculum",
            is_diagnostic=True,
            title="Curriculum",
            note="Share of the ranges of randomize in which the population played.",
            marks=(curve("share of the ranges", "population", of(lambda stats: stats.rules.get("curriculum"))),),
            limits=(0, 1),
        ),
        Chart(
            name="step",
            is_diagnostic=True,
            title="Step against sigma",
            note="Step of the centre, in units of the noise around it. The gradient is measured about one sigma "
            "around the centre: a longer step leaves that region.",
            marks=(
                curve("step / sigma", "population", of(lambda stats: stats.step_to_sigma)),
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
                curve("two halves", "population", of(lambda stats: stats.half_agreement)),
                curve("two steps", "other", of(lambda stats: stats.step_cosine)),
                Mark(label="no agreement", colour="goal", rule=0.0),
            ),
            limits=(-1, 1),
        ),
        Chart(
            name="sigma",
            is_diagnostic=True,
            title="Sigma",
            note="Standard deviation of the candidates' noise.",
            marks=(curve("sigma", "population", sigma),) if len(set(sigma) - {None}) > 1 else (),
        ),
        Chart(
            name="ties",
            is_diagnostic=True,
            title="Ties and caps",
            note="Share of mirrored pairs whose two candidates have equal fitness, which teach nothing; share of "
            "episodes that a step limit ended.",
            marks=curves(shares),
            limits=(0, 1),
        ),
        Chart(
            name="norm",
            is_diagnostic=True,
            title="Length of the centre",
            note="Euclidean norm of the parameters.",
            marks=(curve("norm", "population", of(lambda stats: stats.parameter_norm)),),
        ),
        Chart(
            name="speed",
            is_diagnostic=True,
            title="Throughput",
            note="Environment steps per second, of all workers and all episodes together.",
            marks=(curve("steps / s", "population", of(lambda stats: stats.steps_per_second)),),
        ),
        Chart(
            name="failures",
            is_diagnostic=True,
            title="Failures",
            note="Candidates without a result, repeated episodes, and replaced worker processes.",
            marks=curves(failures),
        ),
    ]


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
