"""The options of ``record``: what a film shows, and how."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from es_core.cli.arguments import add_size


def add_film(sub: argparse.ArgumentParser) -> None:
    """Add the options about policies, camera and layout of a film."""
    sub.add_argument(
        "path", nargs="?", metavar="FILM", help="ends in .mp4 or .gif (default: a new .mp4 in the run's folder videos/)"
    )
    who = sub.add_argument_group("policies", "by default the best centre; several play the same start")
    who.add_argument("--seeds", type=_numbers, metavar="S,S", help="seeds of the episodes, instead of unseen starts")
    chosen = who.add_mutually_exclusive_group()
    chosen.add_argument(
        "--evolution", action="store_true", help="centres of a few generations that show the run's progress"
    )
    chosen.add_argument("--generations", type=_numbers, metavar="G,G", help="centres of these generations")
    chosen.add_argument("--every", type=int, metavar="K", help="centres of every K-th generation with a checkpoint")
    chosen.add_argument(
        "--beside", nargs="+", default=(), metavar="RUN", help="the policies of other runs, in the same environment"
    )
    who.add_argument(
        "--population", type=int, metavar="N", help="the first N candidates of the generation, or of each generation"
    )
    how = sub.add_argument_group("layout and camera", "by default one after the other")
    together = how.add_mutually_exclusive_group()
    together.add_argument("--grid", action="store_true", help="side by side: the generations, or 16 candidates")
    together.add_argument("--ghosts", action="store_true", help="in one picture: the generations, or all candidates")
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


def chosen_film(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of ``record`` for these options.

    Raises:
        ValueError: ``--every`` is given for something without checkpoints.
    """
    generations = "auto" if options.evolution else options.generations
    if options.every is not None:
        generations = _every(options.source, options.every, trust=options.trust_names)
    return {
        **{name: getattr(options, name) for name in ("seeds", "population", "beside", "camera", "speed", "fps")},
        **{name: getattr(options, name) for name in ("width", "height", "aspect", "workers")},
        "generations": generations,
        "layout": "grid" if options.grid else "ghosts" if options.ghosts else None,
    }


def _every(source: str, step: int, *, trust: bool) -> list[int]:
    from es_core.config.checks import require_positive
    from es_core.run import Run

    require_positive("every", step)
    return Run.open(source, trust=trust).checkpoint_generations()[::step]


def default_film(source: str) -> Path:
    """Path of a new file in the folder ``videos`` of a run, or beside a checkpoint."""
    folder = Path(source) / "videos" if Path(source).is_dir() else Path(source).resolve().parent
    number = 1
    while (folder / f"film-{number}.mp4").exists():
        number += 1
    return folder / f"film-{number}.mp4"


def _whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


# argparse says "invalid NAME value: '...'", with the function's name.
_whole_numbers.__name__ = "list of whole numbers (such as 0,5,20)"
_numbers: Callable[[str], list[int]] = _whole_numbers
