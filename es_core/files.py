"""Files: opened only if nothing but a regular file lies there, and written whole or not at all.

The folder of a run may be somebody else's: a link in it could lead anywhere, a named pipe would be waited for, a
sparse file would fill the memory. So what lies there is opened by this module alone, but for what other libraries open
by its path (locks, databases), at which ``require_plain`` looks before.

Files are there whole or not at all, whenever a process is killed, a disk is full or the power fails: a file is written
under a temporary name, flushed to the disk and then renamed; the folder is flushed after that, so that after a power
failure no file is there without those that were written before it. ``benchmarks/flush.py`` measures what that costs.
"""

import errno
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO

from filelock import FileLock

_REMEDIES = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room, your share of that disk is used up",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "make that disk writable, or choose a folder on another",
    errno.EACCES: "make the folder writable for you, or choose another",
    errno.EPERM: "make the folder writable for you, or choose another",
    errno.ENOENT: "its folder has been deleted or moved",
}
_MOST = 10_000_000  # bytes of a file, unless its reader says how many
_FOREIGN = "wandb"  # a folder in whose folders nothing of ours opens a file
_MOST_LINE = 16_000_000  # bytes: room for the log of a million candidates
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Not every system has them: without, a link or pipe that somebody puts there in this very moment is opened.
_FLAGS = sum({getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY")})


class CheckpointError(Exception):
    """A file of a run is damaged, comes from another version, or is something else; the message names it."""


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


def require_plain(folder: Path) -> None:
    """Refuse a folder that holds links which lead out of it, named pipes, sockets or devices, at any level.

    What is in the folders within ``wandb`` is left to Weights & Biases, who put links to their cache there.

    Raises:
        CheckpointError: it names the first one.
    """
    own = os.path.realpath(folder)
    for parent, folders, files in os.walk(folder):
        for entry in (Path(parent, name) for name in (*folders, *files)):
            try:
                mode = entry.lstat().st_mode
            except FileNotFoundError:  # whoever writes there has just renamed it
                continue
            target = os.path.realpath(entry) if stat.S_ISLNK(mode) else own
            if not Path(target).is_relative_to(own):
                raise CheckpointError(
                    f"{entry} is a link that leads out of {folder}, to {target}: what somebody else has put there must "
                    "not read or change files of yours. If the link is your own, put what it leads to in its place"
                )
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise CheckpointError(f"{entry} is {_kind(mode)}, which nothing of a run can be: remove it")
        if Path(parent).name == _FOREIGN:
            folders.clear()


def opened(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a regular file: never what a link leads to, and never something that makes one wait.

    Args:
        path: of the file.
        flags: as for ``os.open``.

    Raises:
        CheckpointError: there is something else.
        OSError: it cannot be opened.
    """
    with suppress(FileNotFoundError):
        _require_regular(path, path.lstat())
    descriptor = os.open(path, flags | _FLAGS, 0o666)
    try:
        _require_regular(path, os.fstat(descriptor))
        return os.fdopen(descriptor, "rb" if flags == os.O_RDONLY else "ab" if flags & os.O_APPEND else "wb")
    except BaseException:
        os.close(descriptor)
        raise


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} is {_kind(status.st_mode)}, expected a regular file")


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def read_whole(path: Path, most: int = _MOST) -> bytes:
    """The content of a regular file of ``most`` bytes at most.

    Raises:
        CheckpointError: it is larger, or no regular file.
        OSError: it cannot be read.
    """
    with opened(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise CheckpointError(f"{path} is too large: it has {size} bytes, expected at most {most}")
        return file.read(size)


def read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a regular file, one by one; none if there is no such file.

    Raises:
        CheckpointError: a line is too long, or it is no regular file.
        OSError: it cannot be read.
    """
    with suppress(FileNotFoundError), opened(path) as file:
        number = 0
        while line := file.readline(_MOST_LINE + 1):
            number += 1
            if len(line) > _MOST_LINE:
                raise CheckpointError(f"{path}, line {number} is damaged: it has more than {_MOST_LINE} bytes")
            yield line


def append(path: Path, content: bytes) -> None:
    """Write behind the end of a file, which is made if there is none.

    Raises:
        CheckpointError: it is no regular file.
        OSError: it cannot be written, or only the beginning of ``content``.
    """
    with explained(path), opened(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        file.write(content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file; whatever happens meanwhile, the old one stays, or the new one is complete.

    A link of that name is replaced, and what it leads to stays as it is.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial")
    try:
        with explained(path):
            with _new(partial) as file:
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


def _new(path: Path) -> IO[bytes]:
    """A file that was not there before; what a killed process left, or somebody else has put there, is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return opened(path, flags)
    except (FileExistsError, CheckpointError):
        with explained(path):
            path.unlink()
        return opened(path, flags)


def hold(path: Path) -> AbstractContextManager[object]:
    """Hold a lock of the operating system, which a crash releases; its file is empty.

    Raises:
        CheckpointError: the file holds something, which the lock would delete.
        OSError: it cannot be written.
        filelock.Timeout: another process holds it.
    """
    with suppress(FileNotFoundError):
        read_whole(path, most=0)
    with explained(path):
        return FileLock(path).acquire(timeout=0)


def remove(path: Path) -> None:
    """Remove a file, a folder with all that is in it, or a link, but never what a link leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove what processes left that were killed while they wrote to ``folder``; nobody may be writing there now."""
    for partial in folder.glob("*.partial"):
        with explained(partial):
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
