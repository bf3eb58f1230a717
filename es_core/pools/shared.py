"""Memory that processes share, in a file that never has a name: when the last of them ends, however, it is gone."""

import mmap
import os
import sys
import uuid
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core.pools.process import memory_file

_FLOAT32 = 4  # bytes


@dataclass(frozen=True)
class Slots:
    """The rows that a worker writes observations into and reads raw outputs from.

    Attributes:
        first: its first row.
        count: its number of rows.
        total: rows of all workers.
    """

    first: int
    count: int
    total: int


class Exchange:
    """Observations ``(total, n)`` and raw outputs ``(total, m)``, float32, in memory that processes share.

    Args:
        handle: of the memory: the main process makes it with ``create``, its workers inherit it.
    """

    def __init__(self, handle: int | str) -> None:
        self.handle = handle

    @property
    def descriptors(self) -> list[int]:
        """Open files that a child has to inherit."""
        return [self.handle] if isinstance(self.handle, int) else []

    @classmethod
    def create(cls) -> Self:
        """New memory, empty until it is mapped."""
        if sys.platform == "win32":
            return cls(f"es-envs-{uuid.uuid4().hex}")
        return cls(memory_file())

    def map(self, total: int, inputs: int, outputs: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Observations ``(total, inputs)`` and raw outputs ``(total, outputs)``."""
        size = max(1, total * (inputs + outputs) * _FLOAT32)
        memory: Any
        if isinstance(self.handle, str):
            memory = mmap.mmap(-1, size, tagname=self.handle)  # type: ignore[call-arg, unused-ignore]
        else:
            if os.fstat(self.handle).st_size < size:
                os.truncate(self.handle, size)
            memory = mmap.mmap(self.handle, size)
        numbers = np.frombuffer(memory, np.float32, total * (inputs + outputs))
        split = total * inputs
        return numbers[:split].reshape(total, inputs), numbers[split:].reshape(total, outputs)

    def close(self) -> None:
        """Let go of the memory; arrays that are mapped keep it."""
        if isinstance(self.handle, int):
            os.close(self.handle)
