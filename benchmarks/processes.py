"""What the processes of a command use while it runs, seen from outside. For Linux: it reads /proc."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile

import psutil

MEGABYTE = 1e6
# Worker processes look where the main one does: here, too. Modules are compiled once, as for everybody.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]),
}


def es_envs_command(*words: object) -> list[str]:
    """The command ``es-envs`` of this Python."""
    installed = Path(sys.executable).with_name("es-envs")
    command = [str(installed)] if installed.exists() else [sys.executable, "-m", "es_core"]
    return [*command, *map(str, words)]


def run(command: Sequence[str]) -> float:
    """Seconds that a command takes, from start to exit."""
    started = time.perf_counter()
    with _started(command):
        pass
    return time.perf_counter() - started


@contextlib.contextmanager
def _started(command: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A running command, which has ended, and well, when the context is left."""
    with TemporaryFile() as output:
        with subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=ENVIRONMENT) as popen:
            yield popen
        if popen.returncode:
            output.seek(0)
            raise RuntimeError(f"{' '.join(command)} exited with {popen.returncode}:\n{output.read().decode()}")


@dataclass
class Use:
    """The most that was seen at any moment.

    Attributes:
        rss: of a worker [bytes]: all its pages.
        pss: of a worker [bytes]: pages that processes share are divided among them.
        total_pss: of the main process and all workers together [bytes].
        processes: ids of all that were seen.
        with_torch: ids of those that had loaded torch.
    """

    rss: float = 0.0
    pss: float = 0.0
    total_pss: float = 0.0
    processes: set[int] = field(default_factory=set)
    with_torch: set[int] = field(default_factory=set)


def watch(command: Sequence[str], *, every: float = 0.02) -> Use:
    """Run a command and look at its processes ``every`` so many seconds."""
    use = Use()
    with _started(command) as popen:
        main = psutil.Process(popen.pid)
        while popen.poll() is None:
            _look(main, use)
            time.sleep(every)
    return use


def _look(main: psutil.Process, use: Use) -> None:
    total = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (main, *main.children(recursive=True)):
            # It may end at any moment: then what was seen so far counts.
            with contextlib.suppress(psutil.Error, OSError):
                memory = process.memory_full_info()
                use.processes.add(process.pid)
                if "/torch/" in Path(f"/proc/{process.pid}/maps").read_text(encoding="utf-8"):
                    use.with_torch.add(process.pid)
                total += memory.pss
                if process != main:
                    use.rss, use.pss = max(use.rss, memory.rss), max(use.pss, memory.pss)
    use.total_pss = max(use.total_pss, total)
