"""Files that are there whole or not at all, whenever a process is killed, a disk is full or the power fails.

A file is written under a temporary name, flushed to the disk and then renamed; the folder is flushed after that, so
that after a power failure no file is there without those that were written before it. ``benchmarks/flush.py`` measures
what that costs.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room, your share of that disk is used up",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "make that disk writable, or choose a folder on another",
    errno.EACCES: "make the folder writable for you, or choose another",
    errno.EPERM: "make the folder writable for you, or choose another",
    errno.ENOENT: "its folder has been deleted or moved",
}


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Let what the system says about writing ``path`` name the path, the cause and the remedy.

    Raises:
        OSError: of the kind that was raised within.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # not the system's own
        remedy = _REMEDIES.get(error.errno)
        said = f"cannot write {path}: {error.strerror or error}"
        raise type(error)(f"{said}; {remedy}" if remedy else said) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; whatever happens meanwhile, the old one stays, or the new one is complete.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with explained(path):
            with partial.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every file system can flush a folder
        _flush_folder(path.parent)


def remove_partial(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote to ``folder``; nobody may be writing there now."""
    for partial in folder.glob("*.partial"):
        partial.unlink()


def _flush_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # where a folder cannot be opened
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_name(env_id: str) -> str:
    """An environment's id as a name that every file system takes."""
    return re.sub(r"[^\w.-]+", "-", env_id)
