"""Listing: the run folders below a folder, the state of each run, and the command that continues it."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from es_core.config.commands import run_command
from es_core.files import walk
from es_core.runs.run_folder import RunFolder
from es_core.runs.scores import Evaluation


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A run folder, and the state of its run.

    Attributes:
        directory: the folder, as it was reached.
        state: "running", while a process trains in it; "interrupted", "failed", "finished", "solved", or "damaged".
        age: seconds since the run last wrote a generation.
        next: the command to go on with, of a failed run that which shows the episode that failed, if one did; for a
            damaged folder, what is wrong with it.
        error: the error that ended a failed run, in a line; else None.
        env_id: id of the environment; this and all below are None for a damaged folder.
        generation: the last finished generation; None before the first.
        generations: the number of generations at which the run ends; None if only other bounds end it.
        steps: environment steps up to now.
        score: score of the best centre; None if none was evaluated.
    """

    directory: Path
    state: str
    age: float
    next: str
    error: str | None = None
    env_id: str | None = None
    generation: int | None = None
    generations: int | None = None
    steps: int | None = None
    score: Evaluation | None = None


def list_runs(folder: str | os.PathLike[str]) -> list[ListedRun]:
    """Return the run folders in a folder, at any depth, the latest first; links are not followed.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"there is no folder {folder}: training makes runs/ where it is started")
    return sorted(map(_list_run, run_folders(Path(folder))), key=lambda run: (run.age, run.directory))


def run_folders(folder: Path) -> Iterator[Path]:
    """Yield the run folders in a folder, at any depth."""
    for parent, folders, files in walk(folder):
        # Other programs have files config.json, too; a run that has lost its own is listed as damaged.
        if "metrics.jsonl" in files or ("config.json" in files and "checkpoints" in folders):
            folders.clear()
            yield parent


def _list_run(folder: Path) -> ListedRun:
    age = time.time() - max((file.lstat().st_mtime for file in _written_files(folder)), default=0.0)
    try:
        run = RunFolder.open(folder)
        is_training, best, end = run.is_training, run.best_score, run.end
        failure = None if is_training else run.failure
    except Exception as error:  # noqa: BLE001  (whatever a folder holds: it must not hide the others)
        return ListedRun(directory=folder, state="damaged", age=age, next=str(error) or repr(error))
    last = run.history[-1] if run.history else None
    stopped = "interrupted" if failure is None else "failed"
    ended = stopped if end is None else "solved" if end == "solved" else "finished"
    state = "running" if is_training else ended
    verb = {"running": "watch", "interrupted": "resume", "failed": "resume"}.get(state, "report")
    options: dict[str, int] = {"live": True} if verb == "watch" else {}
    if failure is not None and failure.replay:
        verb, options = "replay", failure.replay
    return ListedRun(
        directory=folder,
        state=state,
        age=age,
        next=run_command(verb, run.config, folder, trusted=False, **options),
        error=None if failure is None else str(failure),
        env_id=run.config.env_id,
        generation=last.generation if last is not None else None,
        generations=run.config.generations,
        steps=last.total_steps if last is not None else 0,
        score=best[1] if best is not None else None,
    )


def _written_files(folder: Path) -> Iterator[Path]:
    """Files that tell when the run last went on: config.json alone before its first generation."""
    for name in ("metrics.jsonl", "config.json"):
        if os.path.lexists(folder / name):
            yield folder / name
            return
