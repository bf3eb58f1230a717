"""Files: only regular ones are opened, and they are written completely or not at all.

The folder of a run may be somebody else's: a link in it could lead anywhere, a named pipe would block, a sparse file
would fill the memory. So only this module opens files in it, except those that other libraries open by path
(databases), which ``require_plain`` checks before.

A file is complete or absent, even if a process is killed, a disk is full or the power fails: it is written under a
temporary name, flushed to the disk and then renamed; then the folder is flushed, so that after a power failure no file
exists without those that were written before it. ``benchmarks/flush.py`` measures the cost.
"""

import errno
import json
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

_REMEDIES = {
    errno.ENOSPC: "make room on that disk",
    errno.EDQUOT: "make room, your share of that disk is used up",
    errno.EFBIG: "raise the limit on the size of files (ulimit -f)",
    errno.EROFS: "make that disk writable, or choose a folder on another",
    errno.EACCES: "make the folder writable for you, or choose another",
    errno.EPERM: "make the folder writable for you, or choose another",
    errno.ENOENT: "its folder has been deleted or moved",
}
_MOST = 10_000_000  # bytes of a file, unless its reader says otherwise
_IN_THE_WAY = 2.0  # seconds
_FOREIGN = "wandb"  # a folder in whose subfolders we open no file
MOST_LINE = 16_000_000  # bytes: room for the log of a million candidates
MOST_CONFIG = 1_000_000  # bytes of a config.json
# A part of a JSON document takes a hundred bytes in memory, however few in the file.
_FEW_PARTS, _BYTES_OF_A_PART, _MOST_PARTS = 70_000, 20, 400_000
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# Not every system has them: without them a link or pipe that somebody puts there at this very moment is opened.
_FLAGS = sum({getattr(os, f"O_{name}", 0) for name in ("NOFOLLOW", "NONBLOCK", "BINARY")})


class CheckpointError(Exception):
    """A file of a run is damaged, from another version, or something else; the message names it."""


@contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Make the system's errors about writing ``path`` name the path, the cause and the remedy.

    Raises:
        OSError: the error raised within, of the same type.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise  # not the system's own
        remedy = _REMEDIES.get(error.errno)
        message = f"cannot write {path}: {error.strerror or error}"
        raise type(error)(f"{message}; {remedy}" if remedy else message) from error


def require_plain(folder: Path) -> None:
    """Refuse a folder that contains, at any level, links which lead out of it, named pipes, sockets or devices.

    The folders within ``wandb`` are left to Weights & Biases, which puts links to its cache there.

    Raises:
        CheckpointError: there is one; the message names the first.
    """
    own = os.path.realpath(folder)
    for parent, folders, files in walk(folder):
        for entry in (Path(parent, name) for name in (*folders, *files)):
            try:
                mode = entry.lstat().st_mode
            except FileNotFoundError:  # another process has just renamed it
                continue
            target = os.path.realpath(entry) if stat.S_ISLNK(mode) else own
            if not Path(target).is_relative_to(own):
                raise CheckpointError(
                    f"{entry} is a link that leads out of {folder}, to {target}: a link from somebody else must not "
                    "make you read or change your own files. If the link is yours, replace it by its target"
                )
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
                raise CheckpointError(f"{entry} is {_kind(mode)}, which does not belong to a run: remove it")
        if parent.name == _FOREIGN:
            folders.clear()


def walk(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Walk like ``os.walk``, which before Python 3.12 fails where folders are nested a thousand deep."""
    left = [folder]
    while left:
        parent = left.pop()
        for _, folders, files in islice(os.walk(parent), 1):
            yield parent, folders, files
            left += [path for name in reversed(folders) if not (path := parent / name).is_symlink()]


def open_plain(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a regular file: never the target of a link, and never something that blocks.

    Args:
        path: the file's path.
        flags: see ``os.open``.

    Raises:
        CheckpointError: the path is not a regular file.
        OSError: the file cannot be opened.
    """
    with suppress(FileNotFoundError):
        _require_regular(path, path.lstat())

    def descriptor(name: str, _: int) -> int:  # from here on, it is the file's to close: a signal may come at any time
        handle = os.open(name, flags | _FLAGS, 0o666)
        try:
            _require_regular(path, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle

    mode = "rb" if flags == os.O_RDONLY else "r+b" if flags & os.O_RDWR else "ab" if flags & os.O_APPEND else "wb"
    return open(path, mode, opener=descriptor)


def _require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise CheckpointError(f"{path} is {_kind(status.st_mode)}, expected a regular file")


def _kind(mode: int) -> str:
    return _KINDS.get(stat.S_IFMT(mode), "something else")


def relative_path(path: Path) -> str:
    """A path as people need it here: from the working folder, if it lies in there."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def read_whole(path: Path, most: int = _MOST) -> bytes:
    """Read a regular file of at most ``most`` bytes.

    Raises:
        CheckpointError: the file is larger, or not a regular file.
        OSError: the file cannot be read.
    """
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise CheckpointError(f"{path} is too large: it has {size} bytes, expected at most {most}")
        return file.read(size)


def parse_json(content: bytes) -> Any:
    """Parse JSON that somebody else may have written.

    Raises:
        ValueError: it is not JSON, or ``require_modest`` refuses it.
        RecursionError: it is nested too deep.
    """
    require_modest(content)
    return json.loads(content)


def require_modest(content: bytes) -> None:
    """Refuse JSON that would take many times its size in memory, such as a million empty lists.

    Raises:
        ValueError: it has too many parts; the message says how many are allowed.
    """
    parts, most = sum(map(content.count, b"[{,")), min(_FEW_PARTS + len(content) // _BYTES_OF_A_PART, _MOST_PARTS)
    if parts > most:
        raise ValueError(f"it has {parts} entries, lists and objects in {len(content)} bytes: at most {most} are read")


def read_lines(path: Path) -> Iterator[bytes]:
    """Read the lines of a regular file, one by one; none if there is no such file.

    Raises:
        CheckpointError: a line is too long, or the path is not a regular file.
        OSError: the file cannot be read.
    """
    with suppress(FileNotFoundError), open_plain(path) as file:
        number = 0
        while line := file.readline(MOST_LINE + 1):
            number += 1
            if len(line) > MOST_LINE:
                raise CheckpointError(f"{path}, line {number} is damaged: it has more than {MOST_LINE} bytes")
            yield line


def append(path: Path, content: bytes) -> None:
    """Append to a file, which is made if there is none.

    Raises:
        CheckpointError: the path is not a regular file.
        OSError: the file cannot be written, or only the beginning of ``content``.
    """
    with naming_errors(path), open_plain(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) as file:
        file.write(content)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: whatever happens, there is either the old one or the complete new one.

    A link of that name is replaced, and its target stays unchanged.

    Raises:
        OSError: the file cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")  # another process may write a file of this name
    try:
        with naming_errors(path):
            with _new(partial) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _put(partial, path)
    except BaseException:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
    with suppress(OSError):  # not every file system can flush a folder
        _flush_folder(path.parent)


def _put(partial: Path, path: Path) -> None:
    """Rename a file; on Windows a reader of the old one, such as a virus scanner, may be in the way for a moment."""
    deadline = time.monotonic() + _IN_THE_WAY
    while True:
        try:
            partial.replace(path)
        except PermissionError:
            if sys.platform != "win32" or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _new(path: Path) -> IO[bytes]:
    """Open a new file; what somebody has put there is removed first."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return open_plain(path, flags)
    except (FileExistsError, CheckpointError):
        with naming_errors(path):
            path.unlink()
        return open_plain(path, flags)


def require_folder(path: Path, what: str) -> None:
    """Refuse to write a file into a folder that does not exist, before the work for it.

    Raises:
        FileNotFoundError: the folder does not exist; the message says ``what`` the file would be.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the {what}")


def remove(path: Path) -> None:
    """Remove a file, a folder with its contents, or a link, but never a link's target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def remove_partial(folder: Path) -> None:
    """Remove the partial files of processes killed while they wrote to ``folder``; nothing may be writing there now."""
    for partial in folder.glob("*.partial"):
        with naming_errors(partial):
            partial.unlink()


def _flush_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return  # where a folder cannot be opened
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
