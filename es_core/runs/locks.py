"""Locks: one process writes to a run, a study or a film, and its death frees them.

A lock is the operating system's where the file system has such locks. Where it has none (Lustre by default, some NFS
and FUSE), it is what the file says: who holds it, renewed every few seconds. Then a process that is gone from this
computer holds nothing, and one that has been silent for two minutes, here or elsewhere, is thought to be gone.
"""

import errno
import os
import re
import secrets
import socket
import sys
import tempfile
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from es_core.files import CheckpointError, naming_errors, open_plain, write_whole

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

SILENCE = 120.0
"""Seconds without renewal after which a lock that is only a file counts as left behind."""
_RENEWAL = 10.0  # seconds
_GLANCE = 0.2  # seconds: ``is_held`` takes a lock for a moment, which must not stop a run
_PAUSE = 0.02  # seconds
_MOST = 1000  # bytes
_HOLDER = re.compile(rb"[1-9]\d{0,8}\n[^\n]+\n([^\n]*\n)*")  # number of a process, and the computer that it runs on
_NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP}
_IN_USE = {errno.EACCES, errno.EAGAIN}


class LockedError(RuntimeError):
    """Another process holds the lock; the message names it, such as "another process"."""


class LockLostError(RuntimeError):
    """The lock's file was deleted or replaced, or another process has written to what it guards."""


class Lock:
    """A lock on a file, held from its making until it is closed or its process ends; a context manager.

    Args:
        path: the lock's file, which is made if there is none, and stays, empty.

    Raises:
        LockedError: another process holds it.
        CheckpointError: the file is not a lock, and would lose its content.
        OSError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._released = threading.Event()
        with naming_errors(path):
            self._file = open_plain(path, os.O_RDWR | os.O_CREAT)
            try:
                self.is_of_system = _lock(self._file)
                self._require_free()
                if not self.is_of_system:
                    self._write_holder()
                elif not self._is_in_place():  # its holder has just deleted it
                    raise LockedError("another process")
            except BaseException:
                self._file.close()
                raise
        if hasattr(os, "register_at_fork"):  # a child that outlives this process would hold it
            os.register_at_fork(after_in_child=self._file.close)
        if not self.is_of_system:
            threading.Thread(target=self._renew, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        with suppress(OSError, ValueError):  # closed, in a child
            self._file.truncate(0)
        self._file.close()

    def require_held(self) -> None:
        """Make sure that the file is still in its place.

        Raises:
            LockLostError: it was deleted or replaced, or its folder was, and another process may hold it now.
        """
        if not self._is_in_place():
            raise LockLostError(
                f"{self._path} was deleted or replaced while this process held it, or its folder was: another process "
                "may write there now, so this one stops and leaves all files as they are"
            )

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self._path.lstat())
        except FileNotFoundError:
            return False

    def _require_free(self) -> None:
        if not (content := _read(self._file)):
            return
        with tempfile.TemporaryFile(dir=self._path.parent) as new:  # whose time is by the clock of the same disk
            silent = os.fstat(new.fileno()).st_mtime - os.fstat(self._file.fileno()).st_mtime
        if (holder := _holder(content, silent)) is not None:
            raise LockedError(holder)

    def _write_holder(self) -> None:
        """Put this process's name into the lock's place; of several that do so at once, the last one has it."""
        content = f"{os.getpid()}\n{socket.gethostname()}\n{_place()}\n{secrets.token_hex(8)}\n".encode()
        self._file.close()
        write_whole(self._path, content)
        time.sleep(_GLANCE)  # all that found it free have written by then
        self._file = open_plain(self._path, os.O_RDWR)
        if _read(self._file) != content:
            raise LockedError("another process")

    def _renew(self) -> None:
        while not self._released.wait(_RENEWAL):
            with suppress(OSError, ValueError):  # the disk does not answer for once; the file was closed just now
                os.utime(self._file.fileno())


def hold(path: Path) -> Lock:
    """Hold a lock; while somebody only looks at it, wait.

    Raises:
        LockedError, CheckpointError, OSError: see ``Lock``.
    """
    deadline = time.monotonic() + _GLANCE
    while True:
        try:
            return Lock(path)
        except LockedError:
            if time.monotonic() > deadline:
                raise
        time.sleep(_PAUSE)


def is_held(path: Path) -> bool:
    """Return True if a process holds the lock; asking makes no file, and where nothing can be written, nobody does.

    Raises:
        CheckpointError: the file is not a lock.
    """
    try:
        with open_plain(path, os.O_RDWR) as file:
            _lock(file)
            content = _read(file)
            return bool(content) and _holder(content, time.time() - os.fstat(file.fileno()).st_mtime) is not None
    except LockedError:
        return True
    except OSError:
        return False


def _lock(file: IO[bytes]) -> bool:
    """Take the system's lock of an open file, which closing it releases; False where the file system has none.

    Raises:
        LockedError: another process holds it.
    """
    try:
        if sys.platform == "win32":
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _IN_USE:
            raise LockedError("another process") from None
        if error.errno in _NO_LOCKS:
            return False
        raise
    return True


def _read(file: IO[bytes]) -> bytes:
    """Content of a lock's file: empty, or who holds it.

    Raises:
        CheckpointError: it is something else.
    """
    file.seek(0)
    content = file.read(_MOST)
    if content and not _HOLDER.fullmatch(content):
        raise CheckpointError(
            f"{file.name} is not a lock, which is empty or names a process: remove it if nobody needs it"
        )
    return content


def _holder(content: bytes, silent: float) -> str | None:
    """Name the process that holds a lock, for a message; None if it is gone.

    Args:
        content: content of the lock's file.
        silent: seconds since it was renewed.
    """
    pid, host, place, *_ = (*content.decode(errors="replace").split("\n"), "")
    is_near = place == _place()
    if silent > SILENCE or (is_near and not _is_alive(int(pid))):
        return None
    remedy = "" if is_near else f" (if that has ended, try again in {SILENCE:.0f} seconds)"
    return f"process {pid} on {host}{remedy}"


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # where asking would end it
    try:
        os.kill(pid, 0)
    except OSError as error:
        return error.errno != errno.ESRCH
    return True


def _place() -> str:
    """Name of what numbers processes: computers may share a name, and containers number their own."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').stat().st_ino}"
    return f"{uuid.getnode():x}"
