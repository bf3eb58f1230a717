"""The options of ``record``: what a film shows, and how; the name of a new film, and its scores."""

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import fields
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from es_core.cli.arguments import add_size, whole_numbers

if TYPE_CHECKING:
    from es_envs import Episode

_LISTED = 6  # episodes of which each one's fitness is written out


def add_film(sub: argparse.ArgumentParser) -> None:
    """Add the options about policies, camera and layout of a film."""
    sub.add_argument(
        "path", nargs="?", metavar="FILM", help="ends in .mp4 or .gif (default: a new .mp4 in the run's folder videos/)"
    )
    who = sub.add_argument_group("policies", "by default the best centre; several play the same start")
    who.add_argument(
        "--seeds", type=whole_numbers, metavar="S,S", help="seeds of the episodes, instead of unseen starts"
    )
    chosen = who.add_mutually_exclusive_group()
    chosen.add_argument(
        "--evolution",
        dest="generations",
        action="store_const",
        const="auto",
        help="centres of a few generations that show the run's progress",
    )
    chosen.add_argument("--generations", type=whole_numbers, metavar="G,G", help="centres of these generations")
    chosen.add_argument("--every", type=int, metavar="K", help="centres of every K-th generation with a checkpoint")
    chosen.add_argument(
        "--compare", nargs="+", default=(), metavar="RUN", help="the policies of other runs, in the same environment"
    )
    chosen.add_argument(
        "--gallery", metavar="4x4", help="so many rows and columns of policies of the run's repertoire, side by side"
    )
    who.add_argument(
        "--population", type=int, metavar="N", help="the first N candidates of the generation, or of each generation"
    )
    how = sub.add_argument_group("layout and camera", "by default one after the other")
    together = how.add_mutually_exclusive_group()
    for name, help_text in {
        "grid": "side by side: the generations, or 16 candidates",
        "ghosts": "in one picture: the generations, or all candidates",
    }.items():
        together.add_argument(f"--{name}", dest="layout", action="store_const", const=name, help=help_text)
    how.add_argument(
        "--camera",
        choices=("follow", "fixed", "orbit"),
        help="camera of a Bullet environment (default: fixed for ghosts, follow otherwise)",
    )
    how.add_argument("--speed", type=float, default=1.0, metavar="TIMES", help="speed relative to reality (default: 1)")
    how.add_argument(
        "--fps", type=float, metavar="RATE", help="maximum frames per second (default: 30; for a GIF 12.5)"
    )
    add_size(sub)


def film_options(options: argparse.Namespace) -> dict[str, Any]:
    """The fields of ``FilmOptions`` for these options.

    Raises:
        ValueError: options exclude each other, or ``--every`` is given for something without checkpoints.
    """
    from es_core.video.options import FilmOptions

    if options.compare and options.compare[-1].endswith((".mp4", ".gif")):
        raise ValueError(
            f"--compare takes all names that follow it: write the film's name, {options.compare[-1]}, before it"
        )
    several = {
        "--every": options.every,
        "--evolution": options.generations == "auto",
        "--generations": options.generations,
    }
    if chosen := [name for name, value in several.items() if value]:
        for name in ("generation", "candidate"):
            if getattr(options, name) is not None:
                raise ValueError(
                    f"--{name} films one generation, and {chosen[0]} films several: leave out one of the two"
                )
    given = {field.name: getattr(options, field.name) for field in fields(FilmOptions) if hasattr(options, field.name)}
    if options.every is not None:
        given["generations"] = _every(options.source, options.every, trust=options.trust_names)
    return {**given, "trust": options.trust_names, "progress": not options.quiet}


def _every(source: str, step: int, *, trust: bool) -> list[int]:
    from es_core.config.checks import require_positive
    from es_core.run import Run

    require_positive("every", step)
    return Run.open(source, trust=trust).checkpoint_generations()[::step]


def make_film(
    options: argparse.Namespace, make: Callable[[str | Path], list["Episode"]]
) -> tuple[str | Path, list["Episode"]]:
    """Make the film that the options name, or one with a new name; return its path and its episodes.

    Args:
        options: the options.
        make: makes the film at a path. It is called again if another process has just taken a new name.
    """
    from es_core.runs.unfinished import InProgressError

    if options.path:
        return options.path, make(options.path)
    while True:
        path = _default_film(options)
        with suppress(InProgressError):
            return path, make(path)


def _default_film(options: argparse.Namespace) -> Path:
    """Path of a new file: in the folder ``videos`` of a run, next to a checkpoint, or else in the current folder."""
    source = Path(options.source)
    if options.pretrained or options.script is not None:
        folder = Path.cwd()
    elif (source / "config.json").is_file():
        folder = source / "videos"
        folder.mkdir(exist_ok=True)  # tools that copy runs may leave out an empty folder
    else:
        folder = source.resolve().parent
    return next(path for number in count(1) if _is_new(path := folder / f"film-{number}.mp4"))


def _is_new(path: Path) -> bool:
    """Return True if no film has this name: neither an MP4 nor a GIF, nor one that is being written."""
    from es_core.runs.unfinished import is_being_written

    taken = any(path.with_suffix(ending).exists() for ending in (".mp4", ".gif", ".png", ".json"))
    return not (taken or is_being_written(path))


def scores(path: str | Path, episodes: Sequence["Episode"]) -> str:
    """Write out the fitness of each of a film's episodes: whose, if several policies play, and which, if they differ.

    Of many episodes it is the lowest, the median and the highest.

    Args:
        path: path of the film.
        episodes: its episodes.
    """
    from es_core.files import read_whole
    from es_core.video.filmed_policies import title_of

    described = json.loads(read_whole(Path(path).with_suffix(".json")))
    titles = [title_of(**player) for shot in described["shots"] for player in shot["players"]]
    names = [next(iter(episode.fitnesses)) for episode in episodes]
    values = [f"{episode.fitness:z.2f}" for episode in episodes]
    if len(values) > _LISTED:
        spread: dict[str, list[float]] = {}
        for name, episode in zip(names, episodes, strict=True):
            spread.setdefault(name, []).append(episode.fitness)
        parts = [
            f"{f'{name} ' if len(spread) > 1 else ''}{min(found):z.2f} at least, {median(found):z.2f} in the middle, "
            f"{max(found):z.2f} at most"
            for name, found in spread.items()
        ]
        return f"fitness of the {len(values)} filmed episodes: {'; '.join(parts)}"
    if len(set(names)) > 1:
        values = [f"{name} {value}" for name, value in zip(names, values, strict=True)]
    if len(set(titles)) > 1:
        values = [f"{title}: {value}" for title, value in zip(titles, values, strict=True)]
    return "fitness of the filmed episodes: " + ("; " if len(set(titles)) > 1 else ", ").join(values)
