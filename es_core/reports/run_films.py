"""Films of a report: those in the run's folder videos/, and pictures of the worst and the best start."""

import math
import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from es_core.config.commands import run_command
from es_core.files import read_whole, write_whole
from es_core.formatting import figures
from es_core.reports.pages import data_url
from es_core.runs.run_folder import RunFolder

_FILM_BYTES, _FILMS_BYTES = 12_000_000, 40_000_000  # a film, and all of them, that go into the page itself
BEST = "best.mp4"
"""The film that ``make_films`` makes, which is next to the score."""

_FILM_KINDS = {".mp4": "video/mp4", ".gif": "image/gif"}


def films(run: RunFolder, beside: Path) -> Iterator[dict[str, Any]]:
    """Films of a run, the newest first: in the page, or linked from ``beside`` if they are too large."""
    files = _own_files(run)
    films = [file for file in files if file.suffix.lower() in _FILM_KINDS]
    left = _FILMS_BYTES
    for file in sorted(films, key=lambda film: (-film.stat().st_mtime, film.name)):
        size = file.stat().st_size
        linked = size > min(left, _FILM_BYTES)
        left -= 0 if linked else size
        kind = _FILM_KINDS[file.suffix.lower()]
        beside_it = quote(os.fsencode(os.path.relpath(file, beside)))
        poster = file.with_suffix(".png")
        has_poster = poster in files and poster.stat().st_size <= _FILM_BYTES
        yield {
            "name": file.name,
            "address": beside_it if linked else data_url(read_whole(file, size), kind),
            "linked": linked,
            "poster": data_url(read_whole(poster, _FILM_BYTES), "image/png") if has_poster else None,
            "moving": kind.startswith("video"),
        }


@dataclass(frozen=True, kw_only=True)
class Start:
    """One of the starts of the final score.

    Attributes:
        name: "worst" or "best".
        seed: the episode's seed.
        fitness: the score from this start.
        command: command that films the episode.
        picture: four moments of it, as a data URL; None if nobody has drawn them.
    """

    name: str
    seed: int
    fitness: float
    command: str
    picture: str | None


def starts(run: RunFolder) -> list[Start]:
    """The worst and the best start of the final score, the first of equals; none if single scores are not known.

    Vector environments may seed their starts in another way than the one in which a film plays.
    """
    scores = run.history[-1].final_fitness if run.history else []
    if not scores or run.config.vector_starts is not None:
        return []
    seeds, pictures = run.final_seeds, {file.name: file for file in _own_files(run)}
    places = {"worst": scores.index(min(scores)), "best": scores.index(max(scores))}
    found = []
    for name, place in places.items():
        picture = pictures.get(_picture_name(run, seeds[place]))
        if picture is not None and picture.stat().st_size > _FILM_BYTES:
            picture = None
        found.append(
            Start(
                name=name,
                seed=seeds[place],
                fitness=scores[place],
                command=run_command("record", run.config, run.directory, trusted=run.trusted, seeds=[seeds[place]]),
                picture=data_url(read_whole(picture, _FILM_BYTES), "image/jpeg") if picture else None,
            )
        )
    return found[:1] if min(scores) == max(scores) else found


def make_films(run: RunFolder, *, trust: bool, progress: bool) -> str:
    """Film the best centre into the run's folder, and draw its worst and best start.

    Returns:
        A sentence that says why something is missing, since that must not spoil a page about the run; or nothing.
    """
    from es_core.video.moments import moments
    from es_core.video.recording import record

    folder = run.directory / "videos"
    try:
        folder.mkdir(exist_ok=True)
        record(run, folder / BEST, trust=trust, progress=progress)
        drawn = starts(run)
        for start, (episode, picture) in zip(
            drawn, moments(run, [start.seed for start in drawn], trust=trust), strict=True
        ):
            if not math.isclose(episode.fitness, start.fitness, rel_tol=1e-6):
                return (
                    f"On this machine, the {start.name} start scores {figures(episode.fitness)}, where the run has "
                    f"measured {figures(start.fitness)}: a picture would show another episode."
                )
            write_whole(folder / _picture_name(run, start.seed), picture)
    except Exception as error:  # noqa: BLE001  (whatever an environment, its renderer or the encoder raises)
        warnings.warn(f"nothing is filmed: {error}", RuntimeWarning, stacklevel=3)
        return f"Nothing was filmed: {type(error).__name__}: {error}"
    return ""


def _picture_name(run: RunFolder, seed: int) -> str:
    """Name of the picture of a start: a run that continues may have another best centre, from the same starts."""
    best = run.best_score
    return f"start-{seed}-generation-{best[0] if best else None}.jpg"


def _own_files(run: RunFolder) -> list[Path]:
    """Files in the run's folder videos/."""
    folder = run.directory / "videos"
    # A link could name any file of this machine, which would then be in a page that is sent to others.
    own = [] if folder.is_symlink() else [file for file in folder.glob("*.*") if not file.is_symlink()]
    return [file for file in own if file.is_file()]
