"""The report: what is worth knowing about a run on one HTML page, which loads nothing from the network."""

import contextlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import es_envs
from es_core.config.commands import changed_settings, run_command, train_command, usual_settings
from es_core.config.train_config import BITS, TrainConfig, option_fields
from es_core.config.trust import require_trusted
from es_core.files import CheckpointError, read_whole, write_whole
from es_core.formatting import duration, figures, text_of
from es_core.reports.data_sheet import data_sheet, space_text
from es_core.reports.pages import Chart, Column, Mark, data_url, render, require_page
from es_core.runs.metrics import PLATEAU, GenerationStats
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation
from es_core.training.advice import advice
from es_envs import EnvDefinition

_MOST_POINTS = 1500  # of a curve: more than a screen has pixels for
_FILM_BYTES, _FILMS_BYTES = 12_000_000, 40_000_000  # a film, and all of them, that go into the page itself
_FILM_KINDS = {".mp4": "video/mp4", ".gif": "image/gif"}


def report(
    source: RunFolder | str | os.PathLike[str], path: str | os.PathLike[str] | None = None, *, trust: bool = False
) -> Path:
    """Write a page about a run: curves, films, settings, environment, machine, and the commands to repeat it.

    Films in the run's folder videos/ are part of the page; those too large for that are linked.

    Args:
        source: a Run, or its folder.
        path: path of the page; None: report.html in the run's folder. It is written under a temporary name first.
        trust: allow the run's files to name modules outside the installed plugins.

    Returns:
        Path of the page.

    Raises:
        FileNotFoundError: there is no such run, or no such folder for the page.
        CheckpointError: config.json or metrics.jsonl is damaged.
        ValueError: a name is not trusted, or the path does not end in .html.
        OSError: the page cannot be written.
    """
    run = source if isinstance(source, RunFolder) else RunFolder.open(source, trust=trust)
    path = require_page(run.directory / "report.html" if path is None else path)
    definition = _definition(run, trust=trust)
    films = list(_films(run.directory / "videos", path.parent))
    every = math.ceil(len(run.history) / _MOST_POINTS) or 1
    drawn = run.history[::every]
    if run.history and drawn[-1] is not run.history[-1]:
        drawn = [*drawn, run.history[-1]]
    page = render(
        "report.html",
        grids={"run": _places(run.history, drawn)},
        charts=_charts(run.config, drawn),
        linked=any(film["linked"] for film in films),
        run=run,
        summary=definition.summary if isinstance(definition, EnvDefinition) else "",
        facts_shown=list(_facts(run)),
        advice=advice(run.history),
        every=every,
        films=films,
        settings_shown=_settings(run.config),
        commands=list(_commands(run)),
        sheet=_sheet(run.config, definition),
        sessions=list(_sessions(run.directory / "sessions.jsonl")),
        hashes=list(_hashes(run)),
        version=version("es-envs"),
        made=f"{datetime.now().astimezone():%Y-%m-%d %H:%M}",
    )
    write_whole(path, page)
    return path


def _definition(run: RunFolder, *, trust: bool) -> EnvDefinition | str:
    """The environment's definition, or the reason why it is not installed: the page is useful without it."""
    try:
        return require_trusted(run.config, trust=trust or run.trusted, where=run.directory / "config.json")
    except es_envs.UnknownEnvError as error:
        return str(error)


def _facts(run: RunFolder) -> Iterator[dict[str, str]]:
    """The most important numbers."""
    best = run.best_score
    if best is not None:
        generation, score = best
        seen = "starts that no decision has seen" if run.history[-1].final else "starts that confirmed it"
        detail = f"{score.spread}; {score.episodes} {seen}; generation {generation}"
        yield _fact("Fitness of the best centre", figures(score.mean, score.interval), detail)
        if score.success_rate is not None and score.success_interval is not None:
            low, high = (f"{edge:.0%}" for edge in score.success_interval)
            yield _fact("Successful", f"{score.success_rate:.0%}", f"95 % interval {low} to {high}")
    without = run.history[0].baselines if run.history else {}
    if without:
        name, score = max(without.items(), key=lambda item: item[1].mean)
        others = (f"{other} {figures(scored.mean)}" for other, scored in without.items() if other != name)
        episodes = f"{score.episodes} episodes each"
        yield _fact(f"Fitness of {name}", figures(score.mean, score.interval), "; ".join([*others, episodes]))
    yield _fact("State", *_state(run))
    if run.history:
        last, seconds = run.history[-1], sum(stats.seconds for stats in run.history)
        populations = [stats for stats in run.history if stats.population_size is not None]
        yield _fact("Generations", figures(len(populations)), f"{run.config.population_size} candidates each")
        yield _fact("Environment steps", figures(last.total_steps), f"{figures(last.total_episodes)} training episodes")
        rate = f"{figures(round(last.total_steps / seconds))} steps a second" if seconds > 0 else ""
        yield _fact("Time", duration(seconds), rate)


def _fact(name: str, value: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _state(run: RunFolder) -> tuple[str, str]:
    if not run.history:
        return "not begun", "no generation is finished"
    last = run.history[-1].generation
    if run.end == "solved":
        return "solved", f"in generation {last}"
    if run.end == "plateau":
        return "finished", f"a plateau: nothing was gained in {PLATEAU} generations"
    if run.end is None:
        return "unfinished", f"generation {last} was the last"
    return "finished", f"{run.end.replace('_', ' ')}: {figures(getattr(run.config, run.end))} reached"


def _places(history: Sequence[GenerationStats], drawn: Sequence[GenerationStats]) -> dict[str, Column]:
    """Places of the drawn generations on each axis."""
    seconds, passed = 0.0, {}
    for stats in history:
        seconds += stats.seconds
        passed[stats.generation] = seconds
    return {
        "generations": [stats.generation for stats in drawn],
        "steps": [stats.total_steps for stats in drawn],
        "seconds": [passed[stats.generation] for stats in drawn],
    }


def _charts(config: TrainConfig, history: Sequence[GenerationStats]) -> list[Chart]:
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
        return Chart(
            name=f"fitness-{name}",
            title=name,
            note="Another measure of the same episodes, which evolution does not use.",
            marks=(
                curve("population, mean", "population", of(lambda stats: stats.fitnesses.get(name))),
                curve("centre", "centre", of_centre(lambda score: score.fitnesses.get(name))),
            ),
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
            "training never sees, with the 95 % interval of its mean. Dots: the centre on a second set of starts.",
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
                curve("training cap", "other", of(lambda stats: stats.episode_cap)),
            ),
        ),
        Chart(
            name="curriculum",
            title="Curriculum",
            note="Share of the ranges of randomize in which the population played.",
            marks=(curve("share of the ranges", "population", of(lambda stats: stats.range_share)),),
            limits=(0, 1),
        ),
        *map(named, others),
        Chart(
            name="step",
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
            title="Sigma",
            note="Standard deviation of the candidates' noise.",
            marks=(curve("sigma", "population", sigma),) if len(set(sigma) - {None}) > 1 else (),
        ),
        Chart(
            name="ties",
            title="Ties and caps",
            note="Share of mirrored pairs whose two candidates have equal fitness, which teach nothing; share of "
            "episodes that a step limit ended.",
            marks=curves(shares),
            limits=(0, 1),
        ),
        Chart(
            name="norm",
            title="Length of the centre",
            note="Euclidean norm of the parameters.",
            marks=(curve("norm", "population", of(lambda stats: stats.parameter_norm)),),
        ),
        Chart(
            name="speed",
            title="Throughput",
            note="Environment steps per second, of all workers and all episodes together.",
            marks=(
                curve("steps / s", "population", of(lambda stats: stats.steps_per_second if stats.seconds else None)),
            ),
        ),
        Chart(
            name="failures",
            title="Failures",
            note="Candidates without a result, repeated episodes, and replaced worker processes.",
            marks=curves(failures),
        ),
    ]


def _films(folder: Path, beside: Path) -> Iterator[dict[str, Any]]:
    """Films of a run, the newest first: in the page, or linked from ``beside`` if they are too large."""
    # A link could name any file of this machine, which would then be in a page that is sent to others.
    own = [] if folder.is_symlink() else [file for file in folder.glob("*.*") if not file.is_symlink()]
    files = [file for file in own if file.is_file()]
    films = [file for file in files if file.suffix in _FILM_KINDS]
    left = _FILMS_BYTES
    for file in sorted(films, key=lambda film: (-film.stat().st_mtime, film.name)):
        size = file.stat().st_size
        linked = size > min(left, _FILM_BYTES)
        left -= 0 if linked else size
        beside_it = quote(os.path.relpath(file, beside))
        poster = file.with_suffix(".png")
        has_poster = poster in files and poster.stat().st_size <= _FILM_BYTES
        yield {
            "name": file.name,
            "address": beside_it if linked else data_url(read_whole(file, size), _FILM_KINDS[file.suffix]),
            "linked": linked,
            "poster": data_url(read_whole(poster, _FILM_BYTES), "image/png") if has_poster else None,
            "moving": file.suffix == ".mp4",
        }


def _settings(config: TrainConfig) -> list[tuple[str, list[dict[str, str]], bool]]:
    """All settings: those that the user chose, those recommended by environment or strategy, and the rest.

    If the environment is not installed, the first are those that differ from the defaults.
    """
    default = TrainConfig(env_id=config.env_id).to_json()
    try:
        usual, chosen = usual_settings(config).to_json(), set(changed_settings(config))
    except (es_envs.UnknownEnvError, es_envs.PluginError, ValueError, ImportError):
        usual, chosen = default, {name for name, value in config.to_json().items() if value != default[name]}
        chosen -= {*config.decided}
    groups: tuple[list[dict[str, str]], ...] = ([], [], [])
    by_run = [field for field in fields(TrainConfig) if field.name == "vector_starts"]
    for field in [*option_fields(), *by_run]:
        value = config.to_json()[field.name]
        place = 0 if field.name in chosen else 1 if value != default[field.name] else 2
        shown = {"value": _text(value), "usual": _text((usual if place == 0 else default)[field.name])}
        groups[place].append({"name": field.name, "help": field.metadata["help"], **shown})
    titles = ("Chosen for this run", "Recommended by the environment or the strategy, or chosen by the run")
    return [
        (titles[0], groups[0], True),
        (titles[1], groups[1], True),
        (f"Defaults ({len(groups[2])} settings)", groups[2], False),
    ]


def _text(value: Any) -> str:
    return "none" if value is None else text_of(value)


def _commands(run: RunFolder) -> Iterator[tuple[str, str]]:
    def command(verb: str) -> str:
        return run_command(verb, run.config, run.directory, trusted=run.trusted)

    with contextlib.suppress(es_envs.UnknownEnvError, es_envs.PluginError, ValueError, ImportError):
        yield (
            "Repeat the run: the same numbers, to the last bit, with the same versions",
            train_command(run.config, run.directory, trusted=run.trusted),
        )
    if not run.finished and run.config.bits == BITS:
        yield "Continue where it stopped", command("resume")
    yield (
        "Score its best policy on 100 unseen starts",
        command("evaluate"),
    )
    yield "Film it", command("record")


def _sheet(config: TrainConfig, definition: EnvDefinition | str) -> dict[str, Any]:
    """The environment's data sheet, or the reason why there is none."""
    if isinstance(definition, str):
        return {"rows": [("not installed", definition)], "docstring": ""}
    rows: list[tuple[str, object]] = [
        ("plugin", definition.plugin or "(none)"),
        ("entry point", definition.entry_point),
        ("fitness", ", ".join(es_envs.fitness.fitness_names(definition, config.fitness))),
        ("step limit", definition.max_episode_steps),
    ]
    docstring = ""
    try:
        with contextlib.closing(definition.build(**config.env_kwargs)) as env:
            rows[2:2] = [("observations", space_text(env.observation_space)), ("actions", space_text(env.action_space))]
            docstring = data_sheet(env)
    except Exception as error:  # noqa: BLE001  (whatever a plugin raises: the page is about the run)
        rows.append(("cannot be made here", f"{type(error).__name__}: {error}"))
    return {"rows": rows, "docstring": docstring}


def _sessions(path: Path) -> Iterator[dict[str, Any]]:
    """Lines that ``SessionLogger`` wrote; others are ignored."""
    with contextlib.suppress(OSError, UnicodeDecodeError, CheckpointError):
        for line in read_whole(path).decode().splitlines():
            with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
                session = json.loads(line)
                versions = ", ".join(f"{name} {number}" for name, number in session["versions"].items())
                rows = [(name, session[name]) for name in ("system", "processor", "cores", "python")]
                yield {
                    "generation": session["generation"],
                    "started": session["started"],
                    "rows": [*rows, ("versions", versions)],
                }


def _hashes(run: RunFolder) -> Iterator[tuple[str, str]]:
    """SHA-256 hashes of the parameters: runs with equal ones have the same policy."""
    best = run.best_score
    if best is not None:
        yield f"best centre, of generation {best[0]}", run.history[best[0]].parameter_hash
    if run.history:
        last = run.history[-1]
        yield f"centre of generation {last.generation}", last.parameter_hash
