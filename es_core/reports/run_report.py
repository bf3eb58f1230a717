"""The report: what is worth knowing about a run on one HTML page, which loads nothing from the network."""

import contextlib
import math
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import es_envs
from es_core.config.commands import changed_settings, default_settings, run_command, train_command
from es_core.config.keywords import keyword, to_keywords
from es_core.config.strategy_defaults import is_trainer, keeps_repertoire
from es_core.config.train_config import BITS, TrainConfig, option_fields
from es_core.config.trust import require_trusted
from es_core.files import CheckpointError, parse_json, read_whole, write_whole
from es_core.formatting import duration, figures, percent, text_of
from es_core.reports.data_sheet import data_sheet, space_text
from es_core.reports.next_step import next_step
from es_core.reports.pages import render, require_page
from es_core.reports.repertoire_map import repertoire_maps
from es_core.reports.run_charts import run_charts, run_places
from es_core.reports.run_films import BEST, films, make_films, starts
from es_core.runs.run_folder import RunFolder
from es_core.training.advice import advice
from es_core.training.race import Race
from es_core.training.rules.plateau import PLATEAU
from es_envs import EnvDefinition
from es_envs.closing import closing_env

_MOST_POINTS = 1500  # of a curve: more than a screen has pixels for
_REFRESH = 3  # seconds after which a browser loads the page of a run in progress again
_GLANCE = 1.0  # seconds between two looks whether there is a new generation


def report(
    source: RunFolder | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    film: bool = False,
    follow: bool = False,
    trust: bool = False,
    progress: bool = False,
) -> Path:
    """Write a page about a run: its score, what to do now, curves, films, settings, machine, commands to repeat it.

    Films in the run's folder videos/ are part of the page; those too large for that are linked.

    Args:
        source: a Run, or its folder.
        path: path of the page; None: report.html in the run's folder. It is written under a temporary name first.
        film: film the best centre first, and draw its worst and best start, into videos/; if the environment cannot
            be drawn, the page says why.
        follow: while another process trains in the folder, write the page again after each generation; a browser that
            shows it loads it again. With ``film``, films are made at the end.
        trust: allow the run's files to name modules outside the installed plugins.
        progress: show the progress of filming, if there is a terminal.

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
    sheet = _sheet(run.config, definition)
    fault = ""
    try:
        while follow and run.is_training:
            seen = _last_written(run)
            write_whole(path, _page(run, path, definition, sheet, is_followed=True))
            while run.is_training and _last_written(run) == seen:
                time.sleep(_GLANCE)
            run = RunFolder.open(run.directory, trust=trust or run.trusted)
        if film:
            if follow:  # the end of the run is not kept back until there are films of it
                write_whole(path, _page(run, path, definition, sheet, is_followed=True))
            fault = make_films(run, trust=trust, progress=progress)
            run = RunFolder.open(run.directory, trust=trust or run.trusted)  # it may have trained on, or ended
    finally:  # also if somebody is tired of following: the last page waits for no other
        write_whole(path, _page(run, path, definition, sheet, fault=fault))
    return path


def _last_written(run: RunFolder) -> int:
    """Size of the log, which grows with each generation."""
    metrics = run.directory / "metrics.jsonl"
    return metrics.stat().st_size if metrics.exists() else 0


def _page(
    run: RunFolder,
    path: Path,
    definition: EnvDefinition | str,
    sheet: dict[str, Any],
    *,
    is_followed: bool = False,
    fault: str = "",
) -> bytes:
    shown = list(films(run, path.parent))
    first = next((film for film in shown if film["name"] == BEST), shown[0] if shown else None)
    missing = "" if isinstance(definition, EnvDefinition) else definition
    fault = fault or missing
    every = math.ceil(len(run.history) / _MOST_POINTS) or 1
    drawn = run.history[::every]
    if run.history and drawn[-1] is not run.history[-1]:
        drawn = [*drawn, run.history[-1]]
    training = run.is_training
    advised = advice(run.history, restarts=run.config.restarts)
    return render(
        "report.html",
        grids={"run": run_places(run.history, drawn)},
        charts=run_charts(run.config, drawn),
        linked=any(film["linked"] for film in shown),
        refresh=_REFRESH if is_followed else None,
        run=run,
        summary=definition.summary if isinstance(definition, EnvDefinition) else "",
        verdict=list(_verdict(run, training=training)),
        costs=list(_costs(run)),
        next=next_step(
            run,
            training=training,
            followed=is_followed,
            filmed=bool(shown or fault),
            installed=not missing,
            advised=advised,
        ),
        every=every,
        film=first,
        films=[film for film in shown if film is not first],
        film_fault=fault,
        film_command=run_command("report", run.config, run.directory, trusted=run.trusted, film=True),
        starts=starts(run),
        **_repertoire(run),
        settings_shown=_settings(run.config),
        commands=list(_commands(run)),
        sheet=sheet,
        sessions=list(_sessions(run.directory / "sessions.jsonl")),
        hashes=list(_hashes(run)),
        version=version("es-envs"),
        made=f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}",
    )


def _repertoire(run: RunFolder) -> dict[str, Any]:
    """What the page says about a run's repertoire: nothing, if there is none."""
    found = None
    if keeps_repertoire(run.config.strategy):
        with contextlib.suppress(CheckpointError, FileNotFoundError, ValueError):  # no checkpoint, or a damaged one
            found = run.repertoire
    if found is None or not len(found):
        return {"maps": []}

    def command(**options: str | Sequence[int]) -> str:
        return run_command("record", run.config, run.directory, trusted=run.trusted, **options)

    return {
        "maps": list(repertoire_maps(found, lambda cell: command(cell=cell))),
        "repertoire": found,
        "coverage": percent(found.coverage),
        "lowest": float(found.fitness.min()),
        "highest": float(found.fitness.max()),
        "gallery_command": command(gallery="4x4"),
    }


def _definition(run: RunFolder, *, trust: bool) -> EnvDefinition | str:
    """The environment's definition, or the reason why it is not installed: the page is useful without it."""
    try:
        return require_trusted(run.config, trust=trust or run.trusted, where=run.directory / "config.json")
    except es_envs.UnknownEnvError as error:
        return str(error)


def _verdict(run: RunFolder, *, training: bool) -> Iterator[dict[str, str]]:
    """Tell how good the run's best centre is, and whether that is enough."""
    best = run.best_score
    if best is not None:
        generation, score = best
        seen = "unseen starts" if run.history[-1].verdict else "starts that confirmed it"
        detail = f"{score.spread}; {score.episodes} {seen}; generation {generation}"
        yield _fact("Fitness of the best policy", figures(score.mean, score.interval), detail)
        if score.success_rate is not None and score.success_interval is not None:
            low, high = map(percent, score.success_interval)
            yield _fact("Successful", percent(score.success_rate), f"95 % interval {low} to {high}")
    yield _fact("State", *_state(run, training=training))
    if run.config.repeatable is False:
        yield _fact("Repeatable", "no", "an episode that was played twice was not the same one: run es-envs check")


def _costs(run: RunFolder) -> Iterator[dict[str, str]]:
    """Tell how far the run has come, and what it has to be compared with."""
    if run.history:
        last, seconds = run.history[-1], sum(stats.seconds for stats in run.history)
        populations = [stats for stats in run.history if stats.population_size is not None]
        done = "" if run.finished else f"{percent(run.share_done)} of the run; "
        sizes = [stats.population_size or 0 for stats in populations] or [run.config.population_size]
        each = f"{' to '.join(map(str, sorted({min(sizes), max(sizes)})))} candidates each"
        if is_trainer(run.config.strategy):
            each = f"{run.config.steps_per_generation} steps or more each"
        if restarts := last.rules.get("plateau"):
            each += f"; begun again {restarts:.0f} of {run.config.restarts} times, with twice as many"
        yield _fact("Generations", figures(len(populations)), f"{done}{each}")
        if contenders := len({stats.contender for stats in run.history}) - 1:
            leader = Race.of(run.plan, run.history, contender=last.contender, search=last.search).leader
            own = ", ".join(f"{name} {text_of(value)}" for name, value in run.plan.settings_of(leader).items())
            detail = f"contender {leader} leads, with {own or 'the settings of the run'}"
            yield _fact("Challengers", figures(contenders), detail)
        yield _fact("Environment steps", figures(last.total_steps), f"{figures(last.total_episodes)} training episodes")
        rate = f"{figures(round(last.total_steps / seconds))} steps a second" if seconds > 0 else ""
        yield _fact("Time", duration(seconds), rate)
    without = run.history[0].baselines if run.history else {}
    if without:
        name, score = max(without.items(), key=lambda item: item[1].mean)
        others = (f"{other} {figures(scored.mean)}" for other, scored in without.items() if other != name)
        episodes = f"{score.episodes} episodes each"
        yield _fact(f"Fitness of {name}", figures(score.mean, score.interval), "; ".join([*others, episodes]))


def _fact(name: str, value: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "value": value, "detail": detail}


def _state(run: RunFolder, *, training: bool) -> tuple[str, str]:
    goal = "" if run.config.solved_at is None else f"; it is solved at {run.config.solved_at:g}"
    last = f"generation {run.history[-1].generation} was the last" if run.history else "no generation is finished"
    if training:
        return "training", last + goal
    if run.end == "solved":
        return "solved", f"in generation {run.history[-1].generation}{goal}"
    if run.failure is not None:
        return "failed", f"{run.failure}; {last}{goal}"
    if run.end is None:
        return "interrupted", last + goal
    ended = f"nothing was gained in {PLATEAU} generations, a plateau"
    if run.end != "plateau":
        ended = f"{run.end.replace('_', ' ')}: {figures(getattr(run.config, run.end))} reached"
    return "not solved" if goal else "finished", ended + goal


def _settings(config: TrainConfig) -> list[tuple[str, list[dict[str, str]], bool]]:
    """All settings: those that the user chose, those recommended by environment or strategy, and the rest.

    If the environment is not installed, the first are those that differ from the defaults.
    """
    here, default = config.to_json(), TrainConfig(env_id=config.env_id).to_json()
    try:
        defaults, chosen = default_settings(config).to_json(), set(changed_settings(config))
    except (es_envs.UnknownEnvError, es_envs.PluginError, ValueError, ImportError):
        defaults, chosen = default, {name for name, value in here.items() if value != default[name]}
        chosen -= {*config.decided}
    given, plain, given_defaults = map(to_keywords, (here, default, defaults))
    groups: tuple[list[dict[str, str]], ...] = ([], [], [])
    by_run = [field for field in fields(TrainConfig) if field.name == "vector_starts"]
    for field in [*option_fields(), *by_run]:
        place = 0 if field.name in chosen else 1 if here[field.name] != default[field.name] else 2
        name, others = keyword(field.name), given_defaults if place == 0 else plain
        shown = {"value": _text(given[name]), "usual": _text(others[name])}
        groups[place].append({"name": name, "help": field.metadata["help"], **shown})
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
            "Repeat the run: the same numbers, to the last bit, with the same versions"
            if run.config.repeatable is None
            else "Train once more: with other numbers, since the environment is not repeatable",
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
        ("fitness", ", ".join(definition.fitness_names(config.fitness))),
        ("step limit", definition.max_episode_steps),
    ]
    docstring = ""
    try:
        with closing_env(definition.build(**config.env_kwargs), definition.label) as env:
            rows[2:2] = [("observations", space_text(env.observation_space)), ("actions", space_text(env.action_space))]
            docstring = data_sheet(env)
    except Exception as error:  # noqa: BLE001  (whatever a plugin raises: the page is about the run)
        rows.append(("cannot be made here", f"{type(error).__name__}: {error}"))
    return {"rows": rows, "docstring": docstring}


def _sessions(path: Path) -> Iterator[dict[str, Any]]:
    """Lines that ``SessionLogger`` wrote; others are ignored."""
    with contextlib.suppress(OSError, CheckpointError):
        for line in read_whole(path).splitlines():
            with contextlib.suppress(ValueError, RecursionError, LookupError, TypeError, AttributeError):
                session = parse_json(line)
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
