"""What it costs that a checkpoint survives a power failure: written, flushed to the disk with its folder, and renamed.

Usage: python benchmarks/flush.py [--quick]

Beside it, a file that is only written and renamed, which a power failure may leave empty. The disk is that of the
present folder.
"""

import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from report import Report, alternate, options

from es_core.files import write_whole

SIZES = {"10 kB": 10_000, "1 MB": 1_000_000}


def write(path: Path, content: bytes) -> None:
    """Write a file without flushing it."""
    partial_path = path.with_suffix(".partial")
    partial_path.write_bytes(content)
    partial_path.replace(path)


def milliseconds(writer: Callable[[Path, bytes], None], path: Path, content: bytes, times: int) -> float:
    """The median of some calls."""
    taken = []
    for _ in range(times):
        started = time.perf_counter()
        writer(path, content)
        taken.append(time.perf_counter() - started)
    return 1e3 * median(taken)


def main() -> None:
    """Write files of both sizes, both ways."""
    given = options(__doc__)
    report = Report("flush", given.out)
    report.head("size", "written and renamed [ms]", "flushed, too [ms]")
    results = {}
    times = 3 if given.quick else 30
    with TemporaryDirectory(dir=".") as folder:
        for label, size in SIZES.items():
            timed = partial(milliseconds, path=Path(folder, "file"), content=os.urandom(size), times=times)
            writers = {"plain": partial(timed, write), "flushed": partial(timed, write_whole)}
            results[label] = alternate(writers, given.rounds)
            report.row(label, f"{results[label]['plain']:.2f}", f"{results[label]['flushed']:.2f}")
    report.save(results)


if __name__ == "__main__":
    main()
