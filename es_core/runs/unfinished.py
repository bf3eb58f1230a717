"""Folders of what is being written: next to a film or dataset, which gets its name only when it is complete."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from es_core.files import naming_errors, remove
from es_core.runs.locks import LockedError, hold, is_held

_LOCK = ".lock"


class InProgressError(FileExistsError):
    """Another process is writing the same file or folder."""


def _folder_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.unfinished")


def is_being_written(path: Path) -> bool:
    """Return True if a process is writing the film of this path.

    Raises:
        CheckpointError: its lock is none.
    """
    return is_held(_folder_of(path) / _LOCK)


@contextmanager
def working_folder(path: Path) -> Iterator[Path]:
    """Provide the folder in which a film or dataset is written; meanwhile no other process writes one of this path.

    It is empty but for its lock: what a killed process left in it is removed. Afterwards it is gone, and an encoder
    that was interrupted while it started has no place for its file.

    Args:
        path: path of the film or dataset.

    Raises:
        InProgressError: another process is writing it.
        FileExistsError: something else has the folder's name.
        CheckpointError: the folder's lock is none.
        OSError: the folder cannot be made or emptied.
    """
    folder = _folder_of(path)
    if os.path.lexists(folder) and not _is_ours(folder):
        raise FileExistsError(
            f"{folder}, in which {path.name} would be written, exists and was not made for that: move it away, or "
            "choose another name"
        )
    with naming_errors(folder):
        folder.mkdir(mode=0o700, exist_ok=True)
    try:
        lock = hold(folder / _LOCK)
    except (LockedError, FileNotFoundError) as error:  # or it has just written it, and removed the folder
        holder = error if isinstance(error, LockedError) else "another process"
        raise InProgressError(f"{holder} is writing {path}: choose another name") from None
    with lock:
        try:
            with naming_errors(folder):
                for left in folder.iterdir():
                    if left.name != _LOCK:
                        remove(left)
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):  # Windows keeps a lock's file, and so its folder, as long as it is held
        folder.rmdir()


def _is_ours(folder: Path) -> bool:
    """Return True if it is empty, or holds a lock, which is the first that ``working_folder`` puts there."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return os.path.lexists(folder / _LOCK) or not any(folder.iterdir())
