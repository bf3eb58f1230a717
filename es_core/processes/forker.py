"""The forker: one clean process, on Linux, that loads what workers need, and is forked for each of them.

They start at once and share its memory. It never has a simulator, a thread or torch; if loading alone brings one of
the first two, each worker starts by itself. ``clone(CLONE_PARENT)`` would make workers children of the main process,
but without the C library's knowledge; as children of the forker, their exit codes come by message.
"""

import ctypes
import gc
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Self

from es_core.processes import process
from es_envs import import_path
from es_envs.streams import open_closed_streams

START = "ES_ENVS_START"
"""The environment variable: "fork" (Linux; the default there) or "spawn", by which each worker starts by itself."""

_LOADED_WITHIN = 30.0  # seconds; and any other answer
_MESSAGE = 2**16  # bytes of the longest
_COMMON = ("es_core.pools.worker", "es_core.policies.compiled")  # modules that every worker needs
_PR_SET_PDEATHSIG = 1
_BULLET_CONNECTIONS = 1024  # at most, in one process


class Forker:
    """The main process's handle of a forker, which begins to load at once.

    Raises:
        RuntimeError: this process is itself a child.
        ValueError: ES_ENVS_START is neither "fork" nor "spawn".
    """

    def __init__(self) -> None:
        process.require_main()
        open_closed_streams()
        self._reason = _refusal()
        self._is_loading, self._is_lost = False, self._reason is not None
        self._codes: dict[int, int] = {}
        if self._reason is None:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = process.interpreter(f"{__name__}:run", [theirs.fileno()], [theirs.fileno()])

    def load(self, modules: Iterable[str], *calls: Sequence[object]) -> None:
        """Begin to load what its children need; a failure is left to them to report.

        Args:
            modules: modules to import there, in this order.
            *calls: calls to make there after that, each "module:function" and its arguments, which are JSON.
        """
        self._is_loading, self._deadline = True, time.monotonic() + _LOADED_WITHIN
        self._ask({"modules": list(modules), "calls": calls})

    @property
    def reason(self) -> str | None:
        """Reason why each child starts by itself; None: they are forked. Waits until everything is loaded."""
        if self._is_loading and not self._is_lost:
            self._is_loading = False
            reply = self._receive(max(0.0, self._deadline - time.monotonic()))
            if reply is None:
                self._lose(f"loading takes more than {_LOADED_WITHIN:g} seconds")
            elif reply["reason"] is not None:
                self._lose(reply["reason"])
        return self._reason

    def fork(self, target: str, descriptors: Sequence[int]) -> "Forked | None":
        """Fork a child that runs ``target`` with these open files, under other numbers; None: see ``reason``."""
        if self.reason is not None:
            return None
        self._ask({"target": target}, descriptors)
        while (reply := self._receive(_LOADED_WITHIN)) is not None:
            if "forked" in reply:
                return None if reply["forked"] is None else Forked(reply["forked"], self)
        self._lose("the process from which workers are forked does not answer")
        return None

    def exit_code(self, pid: int, seconds: float | None) -> int | None:
        """Exit code of a child, or None if it has not ended within ``seconds``; children end with the forker."""
        patience = _LOADED_WITHIN if seconds is None else seconds
        deadline = time.monotonic() + patience
        while pid not in self._codes and not self._is_lost:
            if self._receive(max(0.0, deadline - time.monotonic())) is None and not self._is_lost:
                if seconds is not None:
                    return None
                self._lose("the process from which workers are forked does not answer")
        return self._codes.get(pid, -signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, message: object, descriptors: Sequence[int] = ()) -> None:
        text = json.dumps(message).encode()
        if len(text) > _MESSAGE:
            self._lose("the settings are too long for a message")
        if not self._is_lost:
            with suppress(OSError):  # it has ended, which shows when its answer is missing
                socket.send_fds(self._socket, [text], descriptors)

    def _receive(self, seconds: float) -> dict[str, Any] | None:
        """Return its next message; None if none comes within ``seconds``, or ever."""
        if self._is_lost:
            return None
        self._socket.settimeout(seconds)
        try:
            message = self._socket.recv(_MESSAGE)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError:
            message = b""
        finally:
            self._socket.settimeout(None)
        if not message:
            self._lose(f"the process from which workers are forked has ended (exit code {self._process.wait()})")
            return None
        reply: dict[str, Any] = json.loads(message)
        if "ended" in reply:
            self._codes[reply["ended"]] = reply["code"]
        return reply

    def _lose(self, reason: str) -> None:
        """Give it up for this reason, with its children, which end with it."""
        if self._is_lost:
            return
        self._reason, self._is_lost = reason, True
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and its children if there are any left. May be called twice."""
        self._lose("it is closed")


_early: list[Forker] = []  # at most one, not yet taken by a pool


@contextmanager
def started_early(*, wanted: bool = True) -> Iterator[None]:
    """Start a forker that loads what every worker needs, while this process prepares what comes before its pool."""
    if wanted and not _early:
        _early.append(Forker())
    try:
        yield
    finally:
        while _early:
            _early.pop().close()


def take() -> Forker:
    """The forker that was started early, if there is one, or a new one."""
    return _early.pop() if _early else Forker()


class Forked:
    """A child of the forker, with the necessary part of ``subprocess.Popen``'s interface.

    Args:
        pid: its process id.
        forker: its parent.
    """

    def __init__(self, pid: int, forker: Forker) -> None:
        self.pid, self._forker = pid, forker

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code; a signal that killed it counts as negative.

        Raises:
            subprocess.TimeoutExpired: the process has not ended within ``timeout`` seconds.
        """
        code = self._forker.exit_code(self.pid, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout or 0.0)
        return code

    def kill(self) -> None:
        """Kill it, if it has not ended."""
        if self._forker.exit_code(self.pid, 0.0) is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _refusal() -> str | None:
    start = os.environ.get(START, "fork")
    if start not in {"fork", "spawn"}:
        raise ValueError(f"the environment variable {START} must be 'fork' or 'spawn', got {start!r}")
    if start == "spawn":
        return f"{START}=spawn asks for it"
    return None if sys.platform == "linux" else "workers are forked on Linux only"


class _Fork(NamedTuple):
    """Arguments of a child: its target, its end of the connection and its report."""

    target: str
    connection: int
    report: int


def run(handle: int) -> None:
    """Run the forker; each child continues here, too, from its fork on."""
    process.become_child()
    with socket.socket(fileno=handle) as main:
        for name in _COMMON:
            with suppress(Exception):  # a child that needs it reports the error
                import_module(name)
        child = _serve(main)
    if child is not None:
        process.serve(child.connection, child.report, child.target)


def _load(modules: Iterable[str], calls: Iterable[Sequence[Any]]) -> str | None:
    """Import modules and make calls; return the reason why children cannot be forked after that, or None."""
    signal.alarm(int(_LOADED_WITHIN) + 5)  # ends it even if loading hangs when the main process is gone
    for name in modules:
        with suppress(Exception, SystemExit):  # a child that needs it imports it again, and reports the error
            import_module(name)
        if (obstacle := _why_not_forkable()) is not None:
            return f"importing {name} {obstacle}"
    for target, *arguments in calls:
        with suppress(Exception, SystemExit):  # as above
            import_path.load(target)(*arguments)
        if (obstacle := _why_not_forkable()) is not None:
            return f"{target} {obstacle}"
    signal.alarm(0)
    gc.collect()
    gc.freeze()  # garbage collection in children would write to shared memory
    return None


def _why_not_forkable() -> str | None:
    """Return what this process has done that forbids forking it, or None."""
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        return "starts a thread"
    bullet = sys.modules.get("pybullet")
    if bullet is not None and any(bullet.getConnectionInfo(n)["isConnected"] for n in range(_BULLET_CONNECTIONS)):
        return "opens a connection to Bullet"
    return None


def _send(main: socket.socket, **message: object) -> None:
    with suppress(OSError):  # the main process is gone, which shows at the next receive
        main.send(json.dumps(message).encode())


def _serve(main: socket.socket) -> _Fork | None:
    """Load, fork and reap on request until the main process closes its end. Return in each child, and at the end."""
    me, running = os.getpid(), dict[int, str]()  # the mark of each child
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    poller = select.poll()
    poller.register(main, select.POLLIN)
    poller.register(woken, select.POLLIN)

    def reap() -> None:
        with suppress(BlockingIOError):
            os.read(woken, _MESSAGE)
        for pid in list(running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                _send(main, ended=pid, code=os.waitstatus_to_exitcode(status))

    while True:
        ready = {descriptor for descriptor, _ in poller.poll()}
        reap()
        if main.fileno() not in ready:
            continue
        try:
            received, descriptors, *_ = socket.recv_fds(main, _MESSAGE, 2, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            received = b""
        if not received:
            break
        message = json.loads(received)
        if "modules" in message:
            _send(main, reason=_load(message["modules"], message["calls"]))
            continue
        try:
            pid: int | None = os.fork()
        except OSError:  # the system lacks memory or processes
            pid = None
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(woken)
            os.close(wake)
            _begin(me)
            return _Fork(message["target"], *descriptors)
        if pid is not None:
            running[pid] = process.mark(descriptors[1])
        for descriptor in descriptors:
            os.close(descriptor)
        _send(main, forked=pid)
    # Children notice that the main process is gone; those that cannot are killed.
    poller.unregister(main)
    deadline = time.monotonic() + process.CLOSES_WITHIN + 2.0
    while running and time.monotonic() < deadline:
        poller.poll(1000 * max(0.0, deadline - time.monotonic()))
        reap()
    _kill(running)
    return None


def _kill(running: Mapping[int, str]) -> None:
    """Kill children, and what each of them has started, which has its mark."""
    for pid, mark in running.items():
        os.kill(pid, signal.SIGKILL)
        process.kill_marked(mark)


def _begin(forker: int) -> None:
    """Make a fork equal to a process that starts by itself."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != forker:
        os._exit(1)
    os.setpgid(0, 0)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
