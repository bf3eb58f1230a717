"""Child processes that run one function of an importable module and talk through one connection.

They are plain child processes, not ``multiprocessing`` ones: those import the user's script again, which never ends if
it is unguarded, and cannot work from a notebook or stdin.
"""

import faulthandler
import json
import mmap
import multiprocessing.connection
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, MutableSequence, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, Protocol, cast

from es_core.processes import printed
from es_envs import interruption
from es_envs.episode import EpisodeStopped
from es_envs.streams import open_closed_streams
from es_envs.text import warning_line

_BOOTSTRAP = (
    "import json, sys; from importlib import import_module; "
    "sys.path[:], module, function, arguments = json.loads(sys.argv.pop()); "
    "getattr(import_module(module), function)(*arguments)"
)
# Errors of a connection whose other end is closed, since its process has ended.
_CLOSED = (EOFError, BrokenPipeError, ConnectionResetError)
_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)

_STDERR = 2
_MARK = "ES_ENVS_PROCESS"  # environment variable of a child, and of what it starts

_GRACE = 2.0  # seconds in which a child may end by itself once the main process has closed its connection, or is gone
CLOSES_WITHIN = 10.0  # the same, for one that is closing its environment, whose simulator may take a while
BEAT_EVERY = 1.0  # seconds between two signs of life of a child, and between two checks of them
_LOOK_EVERY = 0.1  # seconds between two looks at a child that ends
_KILLED_WITHIN = 5.0  # seconds; one that waits for a broken disk cannot be killed

# Set while this process is a child: importing the user's module here must not start children in turn.
serving = False
# In a child: the open file that outlives it, for the traceback of a crash and its record.
report = _STDERR


RECORD = struct.Struct("=qqqqq")
STEP, STOP, TASK, SEED, DEADLINE = range(5)  # places in a record, the first two as in ``es_envs.episode``
CLOSING = -2  # as task: it closes its environment, and ends


class Record(NamedTuple):
    """Record of what a child is doing, at the head of its report.

    Attributes:
        step: the episode's step.
        stop: 1 once it must stop, since the main process has closed its connection, or is gone.
        task: number of the task that it plays, counted from 1; 0: none; below 0: it starts or ends.
        seed: the episode's seed.
        deadline: time when its watchdog ends it unless it makes progress, in nanoseconds of the monotonic clock.
    """

    step: int
    stop: int
    task: int
    seed: int
    deadline: int


class ChildDiedError(RuntimeError):
    """A child process ended unexpectedly; the message says how.

    Attributes:
        report: text in its report, such as the traceback of a crash.
        record: record of what it was doing; None: unknown.
        hung: True if its watchdog ended it.
    """

    def __init__(self, message: str, report: str, record: Record | None, *, hung: bool) -> None:
        super().__init__(message)
        self.report, self.record, self.hung = report, record, hung


class Process(Protocol):
    """A started process: a ``subprocess.Popen``, or a fork with this part of its interface."""

    pid: int

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its exit code; a signal that killed it counts as negative.

        Raises:
            subprocess.TimeoutExpired: the process has not ended within ``timeout`` seconds.
        """

    def kill(self) -> None:
        """Kill it, if it has not ended."""


class Closable(Protocol):
    """Resources that a child closes at its end."""

    def close(self) -> None:
        """Close it."""


class Forks(Protocol):
    """A starter of children by forking, if it can."""

    def fork(self, target: str, descriptors: Sequence[int]) -> Process | None:
        """Start a child that calls ``target`` with these open files, under other numbers; None: it cannot."""


class Child:
    """A child process and this end of its connection.

    Args:
        target: "module:function" to run there; it is called with the other end of the connection. The child ends when
            the function returns, or when it uses a connection that this process, alive or dead, no longer holds.
        forker: forker that forks it, if it can; None: the child starts by itself.
        patience: seconds without a sign of life after which a child that is waited for is killed; None: never. Seconds
            in which this process did not run, because it was stopped, do not count.

    Attributes:
        process: the child.
        connection: connection to it; ``send`` and ``receive`` take what can be pickled.

    Raises:
        RuntimeError: this process is itself a child.
    """

    def __init__(
        self,
        target: str,
        *,
        forker: Forks | None = None,
        patience: float | None = None,
    ) -> None:
        require_main()
        open_closed_streams()
        ours, theirs = Pipe()
        handle = theirs.fileno()
        self._report = os.fdopen(memory_file(), "r+b")
        report = self._report.fileno()
        os.ftruncate(report, RECORD.size)
        os.lseek(report, 0, os.SEEK_END)  # of the child, too: what it appends comes after the record
        if sys.platform == "win32":
            report = _STDERR
        self.process: Process
        with theirs:
            descriptors = [handle, report]
            forked = forker.fork(target, descriptors) if forker is not None else None
            self.process = forked or interpreter(f"{__name__}:serve", [*descriptors, target], descriptors)
        self.connection: Any = ours
        self._has_message = poll(ours)
        self._is_silent, self._closed = False, 0.0
        self._beat, self._silence, self._looked = 0.0, 0.0, time.monotonic()
        self.patience = patience

    @property
    def patience(self) -> float | None:
        """Seconds without a sign of life after which it is killed; sending waits as long for it to read."""
        return self._patience

    @patience.setter
    def patience(self, seconds: float | None) -> None:
        self._patience = None if sys.platform == "win32" else seconds  # where nobody sees signs of life
        if self._patience is not None:
            with socket.socket(fileno=os.dup(self.connection.fileno())) as same:
                same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(self._patience) + 1, 0))

    def send(self, message: object) -> None:
        """Send a message.

        Raises:
            ChildDiedError: the child has ended.
        """
        try:
            self.connection.send(message)
        except BlockingIOError as error:
            self._give_up()
            raise self._death() from error
        except OSError as error:
            raise self._death() from error

    def receive(self) -> Any:
        """Wait for the next message.

        Raises:
            ChildDiedError: the child has ended.
        """
        while not self._is_silent and not self._has_message(BEAT_EVERY):
            interruption.check()
            if self.look() and not self._has_message(0):  # its own child may hold the connection open
                raise self._death()
        if self._is_silent:
            raise self._death()
        try:
            return self.connection.recv()
        except (EOFError, OSError) as error:  # the latter in the middle of a message
            raise self._death() from error

    @property
    def record(self) -> Record | None:
        """The child's last record, which survives it; None: it has no report file."""
        if sys.platform == "win32":
            return None
        return Record(*RECORD.unpack(os.pread(self._report.fileno(), RECORD.size, 0)))

    def look(self) -> bool:
        """Look for a sign of life, at most once a second; return True if the child has ended.

        A child that has given none too long is killed. Its watchdog ends it when its environment hangs. If the child is
        stopped, its watchdog is, too.
        """
        now = time.monotonic()
        if self._is_silent or self.patience is None or now < self._looked + BEAT_EVERY:
            return self._is_silent
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=0)
            return True
        beat = os.fstat(self._report.fileno()).st_mtime
        self._silence = self._silence + BEAT_EVERY if beat == self._beat else 0.0
        self._beat, self._looked = beat, now
        if self._silence > self.patience:
            self._give_up()
        return self._is_silent

    def _give_up(self) -> None:
        self._is_silent = True
        self._kill()

    def _kill(self) -> None:
        """Kill it, even if it is stopped, and what it has started, such as a simulator."""
        if sys.platform != "win32":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        kill_marked(mark(self._report.fileno()))

    def _death(self) -> ChildDiedError:
        record, hung = self.record, False
        if self._is_silent:
            how = f"the process gave no sign of life for {self.patience:g} seconds (was it stopped?) and was killed"
        else:
            code = self.process.wait()
            self._kill()  # what it has started, and not ended
            hung = code == 1 and record is not None and record.task != 0 and record.deadline <= time.monotonic_ns()
            how = death_of(code)
        printed.pass_on()
        self._report.seek(RECORD.size)
        return ChildDiedError(how, self._report.read().decode(errors="replace"), record, hung=hung)

    def close(self) -> None:
        """Close the connection, so that it ends. May be called twice."""
        self._closed = self._closed or time.monotonic()
        self.connection.close()

    def wait(self) -> None:
        """Wait for its end, and kill it if that takes too long after ``close``. May be called twice."""
        while not self._report.closed:
            try:
                if self.process.wait(timeout=_LOOK_EVERY):
                    self._kill()  # it has died: what it has started, and not ended
            except subprocess.TimeoutExpired:
                record = self.record
                is_closing = record is not None and record.task == CLOSING
                if time.monotonic() <= self._closed + (CLOSES_WITHIN if is_closing else _GRACE / 2):
                    continue
                if is_closing:
                    what = f"it has not closed its environment within {CLOSES_WITHIN:g} seconds, and is killed"
                    warnings.warn(f"process {self.process.pid}: {what}", RuntimeWarning, stacklevel=2)
                self._kill()
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(timeout=_KILLED_WITHIN)
            self._report.close()
            printed.pass_on()


def require_main() -> None:
    """Refuse to start children in a child.

    Raises:
        RuntimeError: this process is a child.
    """
    if serving:
        raise RuntimeError(
            "a child process tried to start children: the module of your environment or fitness calls train(), "
            'evaluate() or record() while it is imported; put that call under `if __name__ == "__main__":`'
        )


def interpreter(target: str, arguments: Sequence[object], descriptors: Sequence[int]) -> "subprocess.Popen[bytes]":
    """Start an interpreter like this one, whose libraries use one thread and which imports no script.

    Args:
        target: "module:function" to call there.
        arguments: its arguments, which are JSON.
        descriptors: open files that it inherits, under the same numbers.
    """
    pipe, output = printed.descriptors()
    # In its own process group: Ctrl-C is for the main process, which then ends its children in order.
    options: dict[str, Any] = {"pass_fds": [*descriptors, pipe], "process_group": 0}
    if sys.platform == "win32":
        handles = [handle for handle in descriptors if handle != _STDERR]
        for handle in handles:
            os.set_handle_inheritable(handle, True)
        options = {
            "startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": handles}),
            "creationflags": subprocess.CREATE_NEW_PROCESS_GROUP,
        }
    call = json.dumps([[str(entry) for entry in sys.path], *target.split(":"), arguments])
    return subprocess.Popen(  # noqa: S603  (our own code, by our own interpreter)
        [sys.executable, "-P", "-c", _BOOTSTRAP, call],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env={**os.environ, **dict.fromkeys(_ONE_THREAD, "1")},
        **options,
    )


def death_of(code: int | None) -> str:
    """Say how a process died, by its exit code; None: it is not known."""
    signal = "; killed by a signal: a crash, or the system lacked memory" if code is not None and code < 0 else ""
    known = "" if code is None else f" (exit code {code}{signal})"
    return f"the process died{known}; its output on stderr is above"


def end(children: Iterable[Child]) -> None:
    """End children: first by closing their connections, then by killing them. May be called twice."""
    children = list(children)
    for child in children:
        child.close()
    for child in children:
        child.wait()


def mark(report: int) -> str:
    """Return the mark of a child, by its report: no other open file of this machine has these numbers."""
    status = os.fstat(report)
    return f"{status.st_dev}-{status.st_ino}"


def kill_marked(value: str) -> None:
    """Kill what a child has started and left behind, also in a session of its own; on Linux alone.

    Simulators inherit the child's mark. Their parents do not tell: a launcher, say, has ended long ago.
    """
    wanted = f"{_MARK}={value}".encode()
    for folder in Path("/proc").glob("[1-9]*"):
        with suppress(OSError):  # it has ended, or is somebody else's
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                os.kill(int(folder.name), signal.SIGKILL)


def memory_file() -> int:
    """Open a file without a name, in memory if possible: it vanishes when the last process that has it open ends."""
    if hasattr(os, "memfd_create"):  # Linux
        return os.memfd_create("es-envs")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def wait(connections: Collection[Any], seconds: float) -> Collection[Any]:
    """Return the connections that have a message or are closed; wait for one, at most ``seconds``.

    The main process needs this for each answer; it takes a tenth of ``multiprocessing.connection.wait``'s time.
    """
    if sys.platform == "win32":
        return multiprocessing.connection.wait(connections, seconds)
    by_handle = {connection.fileno(): connection for connection in connections}
    poller = select.poll()
    for handle in by_handle:
        poller.register(handle, select.POLLIN)
    return [by_handle[handle] for handle, _ in poller.poll(1000 * seconds)]


def poll(connection: Any) -> Callable[[float], object]:
    """Return a function that waits up to a number of seconds for a message (ten times faster than ``poll``)."""
    if sys.platform == "win32":
        return connection.poll  # type: ignore[no-any-return]
    poller = select.poll()
    poller.register(connection.fileno(), select.POLLIN)
    return lambda seconds: poller.poll(1000 * seconds)


def open_record() -> MutableSequence[int]:
    """Open the child's ``Record``, whose numbers the main process sees as soon as they are written."""
    memory = bytearray(RECORD.size) if sys.platform == "win32" else mmap.mmap(report, RECORD.size)
    return cast("MutableSequence[int]", memoryview(memory).cast("q"))


def become_child(report_handle: int = _STDERR) -> None:
    """Make this process a child: it starts no children, and ignores signals to the main process."""
    global serving, report
    serving, report = True, report_handle
    # Batch systems send these to every process of a job; the main process then ends its children in order.
    for number in interruption.SIGNALS:
        # Unlike SIG_IGN, this is not inherited by processes started from here.
        signal.signal(number, lambda *_: None)
    warnings.showwarning = show_warning
    if sys.platform != "win32":  # a simulator that an environment forks must end by terminate()
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show a warning of a child as commands show their own."""
    sys.stderr.write(warning_line(message) + "\n")


def serve(handle: int, report_handle: int, target: str) -> None:
    """Run a child."""
    become_child(report_handle)
    os.environ[_MARK] = mark(report)
    faulthandler.enable(report, all_threads=False)
    if sys.platform != "win32":
        Thread(target=_exit_with_parent, args=(handle,), daemon=True).start()
    module, _, function = target.partition(":")
    try:
        with _connection(handle) as connection:
            getattr(import_module(module), function)(connection)
    except (*_CLOSED, EpisodeStopped):
        pass  # the main process has closed the connection, or is gone


@contextmanager
def closing_at_the_end(thing: Closable) -> Iterator[None]:
    """Close a child's environment when it ends, for which it has ``CLOSES_WITHIN`` seconds."""
    try:
        yield
    finally:
        _write(TASK, CLOSING)
        thing.close()


def _write(place: int, number: int) -> None:
    """Write a number into the child's record."""
    if sys.platform != "win32":
        os.pwrite(report, struct.pack("=q", number), 8 * place)


def _exit_with_parent(handle: int) -> None:
    """Give signs of life until the main process has closed its end or died; then end, even within an episode.

    The connection itself is read only between episodes, which may take hours. A sign of life is a new modification
    time of the report, which the main process sees, too.
    """
    hang_up = select.poll()
    hang_up.register(handle, 0)
    beats = 0
    while not hang_up.poll(1000 * BEAT_EVERY):
        beats += 1
        with suppress(OSError):
            os.utime(report, (beats, beats))
    _write(STOP, 1)
    time.sleep(_GRACE)
    if Record(*RECORD.unpack(os.pread(report, RECORD.size, 0))).task == CLOSING:
        time.sleep(CLOSES_WITHIN - _GRACE + 1.0)  # the main process comes first, and says so
    kill_marked(mark(report))
    os.killpg(0, signal.SIGKILL)  # with what else it has started


def _connection(handle: int) -> Any:
    if sys.platform == "win32":
        from multiprocessing.connection import PipeConnection

        return PipeConnection(handle)
    return Connection(handle)
