"""Bullet itself, its output, and its ends: the only module that imports pybullet, the extra ``es-envs[bullet]``."""

import ctypes
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path

from es_envs.requirements import bullet_distributions
from es_envs.wheels import BULLET, how_to_get_bullet

_MOST_OUTPUT = 100_000  # bytes that are read of what Bullet prints


@contextmanager
def redirected(number: int, target: int) -> Iterator[None]:
    """Redirect file descriptor ``number``, for C code too, to ``target`` for a while."""
    c_library = ctypes.CDLL(None) if os.name == "posix" else None
    stream = sys.stdout if number == 1 else sys.stderr
    if stream is None:  # a program without a console: there is nothing to redirect
        yield
        return
    stream.flush()
    if c_library is not None:
        c_library.fflush(None)
    try:
        saved = os.dup(number)
    except OSError:  # it is closed, so that nothing can be printed there
        yield
        return
    os.dup2(target, number)
    try:
        yield
    finally:
        if c_library is not None:
            c_library.fflush(None)
        os.dup2(saved, number)
        os.close(saved)


@contextmanager
def captured_output() -> Iterator[list[str]]:
    """Keep what Bullet prints off the terminal; the list that this yields has its lines in the end."""
    lines: list[str] = []
    with tempfile.TemporaryFile() as file:
        try:
            with redirected(1, file.fileno()):
                yield lines
        finally:
            file.seek(0)
            text = file.read(_MOST_OUTPUT).decode(errors="replace")
            # Bullet writes the place in its own source before each message, and no line break behind it.
            text = re.sub(r"b3(Warning|Error|Printf)?\[[^\]\n]*\]:\n?", "\n", text)
            lines += [line.strip() for line in text.splitlines() if line.strip()]


def _explained(error: ImportError) -> str:
    """Say what is wrong with this installation of Bullet, and what mends it."""
    found = " and ".join(f"{name} {version(name)}" for name in bullet_distributions())
    if not found:
        return f"es_envs.bullet needs Bullet, the module pybullet, which is not installed. {how_to_get_bullet()}"
    return (
        f"es_envs.bullet needs Bullet, the module pybullet. {found} should contain it, but importing it "
        f"fails ({error}). Remove what is there, `pip uninstall -y {' '.join(BULLET)}`; then {how_to_get_bullet()}"
    )


try:
    with Path(os.devnull).open("wb") as nowhere, redirected(2, nowhere.fileno()):
        import pybullet
        import pybullet_data
except ImportError as error:
    raise ImportError(_explained(error)) from error

__all__ = ["captured_output", "disconnect", "load_egl", "pybullet", "pybullet_data", "redirected"]

_egl_clients: set[int] = set()


def load_egl(client: int) -> None:
    """Let OpenGL draw a world's pictures without a display.

    Raises:
        RuntimeError: it cannot, or another world of this process does.
    """
    found = importlib.util.find_spec("eglRenderer")
    if found is None or found.origin is None:
        raise RuntimeError("renderer 'egl': this build of pybullet has no eglRenderer; use renderer='tiny'")
    if _egl_clients:
        raise RuntimeError(
            "renderer 'egl': another environment of this process uses it, and closing one would end the process when "
            "the other draws; close the other one first, or use renderer='tiny'"
        )
    if pybullet.loadPlugin(found.origin, "_eglRendererPlugin", physicsClientId=client) < 0:
        raise RuntimeError("renderer 'egl': Bullet cannot use EGL on this machine; use renderer='tiny'")
    _egl_clients.add(client)


def disconnect(client: int, opengl: bool, pid: int) -> None:
    """End a world, unless that has happened, or another process (``pid``) made it."""
    # A forked child has the object but not the world. A window may have been closed by its user.
    if os.getpid() == pid and pybullet.isConnected(client):
        _egl_clients.discard(client)
        with redirected(1, 2) if opengl else nullcontext():
            pybullet.disconnect(client)
