"""Policies in use: from observations to actions, for several candidates at once or for one."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.machine import one_blas_thread
from es_core.normalizer import Normalization, ObservationStatistics, Statistics
from es_core.policies.network import Network, Policy

# Parameters from which on BLAS may share a product among threads; below, one thread need not be asked for.
_SHARED_BY_THREADS = 2**13


class NotFiniteError(ValueError):
    """The observation in ``row`` holds NaN or infinity."""

    def __init__(self, row: int, observation: NDArray[np.float32]) -> None:
        super().__init__(f"the observation is not finite: {observation!r}")
        self.row = row


class Actors:
    """Candidates that act side by side, each in a row of the network's buffers.

    Args:
        policy: encodes observations and decodes actions.
        network: computes.

    Attributes:
        rows: views ``(n,)``, one for each row: ``encode`` an observation into it before ``act``.
        encode: the policy's.
    """

    def __init__(self, policy: Policy, network: Network) -> None:
        self.policy, self.network, self.encode = policy, network, policy.encode
        inputs = network.inputs
        self.rows = [row[: policy.inputs] for row in inputs]
        # By width: everything at once, own columns of the network included, to ask whether it is finite; the inputs.
        self._views = [
            (inputs[:width].reshape(-1), inputs[:width, : policy.inputs]) for width in range(len(inputs) + 1)
        ]
        self._decode, self._explore = policy.decode, policy.actions.explore
        self._noise: list[np.random.Generator | None] = [None] * len(inputs)
        self._noisy = False
        self._statistics: Statistics | None = None
        self._normalization: Normalization | None = None
        # By width: sums and sums of squares, and a buffer in double precision.
        self._sums: list[tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]] = []

    def normalize(self, statistics: Statistics | None) -> None:
        """Normalise by ``statistics`` from now on: observations, or hidden layers of what is loaded afterwards."""
        self._statistics, self._normalization = statistics, self.policy.normalization(statistics)

    def collect(self) -> None:
        """Add up the observations of every row from now on."""
        shape = len(self.rows), self.policy.inputs
        total, squares, exact = np.zeros(shape), np.zeros(shape), np.empty(shape)
        self._sums = [(total[:width], squares[:width], exact[:width]) for width in range(len(self.rows) + 1)]

    def load(self, row: int, parameters: NDArray[np.float32]) -> None:
        """Let ``parameters`` ``(d,)`` act in ``row``."""

        def write(out: NDArray[np.float32]) -> None:
            out[:] = parameters
            self.policy.settle(out, self._statistics)

        self.network.load(row, write)

    def start(self, row: int, *, noise_seed: int | None = None) -> None:
        """An episode begins in ``row``; with a seed, it is explored as the policy's ``actions`` say."""
        self.network.reset(row)
        if self._sums:
            for sums in self._sums[-1][:2]:
                sums[row] = 0
        self._noise[row] = None if noise_seed is None else seeding.generator(noise_seed)
        self._noisy = any(self._noise)

    def act(self, width: int) -> list[Any]:
        """The actions of the first ``width`` rows, for the observations in them: new objects, for keeps.

        Raises:
            NotFiniteError: an observation is not finite.
        """
        everything, inputs = self._views[width]
        if not math.isfinite(everything.dot(everything)):  # or too large for the product, which is no error
            self._require_finite(inputs)
        if self._sums:
            total, squares, exact = self._sums[width]
            exact[:] = inputs
            total += exact
            exact *= exact
            squares += exact
        if self._normalization is not None:
            inputs -= self._normalization.center
            inputs *= self._normalization.scale
            clip = self._normalization.clip
            if clip is not None:
                np.maximum(inputs, -clip, out=inputs)
                np.minimum(inputs, clip, out=inputs)
        raw = self.network.forward(width)
        if self._noisy and self._explore is not None:
            for row, generator in enumerate(self._noise[:width]):
                if generator is not None:
                    self._explore(raw[row], generator)
        return self._decode(raw)

    def _require_finite(self, inputs: NDArray[np.float32]) -> None:
        for row, observation in enumerate(inputs):
            if not np.isfinite(observation).all():
                raise NotFiniteError(row, observation)

    def statistics(self, row: int, count: int) -> ObservationStatistics:
        """Of the ``count`` observations of the episode in ``row``, for which ``collect`` was called."""
        if not self._sums:
            raise RuntimeError("statistics() was called without collect()")
        total, squares, _ = self._sums[-1]
        return ObservationStatistics(count, total[row].copy(), squares[row].copy())

    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows, in ascending order, to the front; the others are free."""
        self.network.keep(rows)
        self._noise = [self._noise[row] for row in rows] + [None] * (len(self.rows) - len(rows))
        if self._sums:
            for sums in self._sums[-1][:2]:
                sums[: len(rows)] = sums[rows]


class Actor:
    """One policy, ready to act: call it with an observation; ``reset`` it at the start of an episode.

    Args:
        policy: its kind.
        parameters: ``(d,)``.
        statistics: by which observations or hidden layers are normalised, or None.
    """

    def __init__(self, policy: Policy, parameters: NDArray[np.float32], statistics: Statistics | None = None) -> None:
        self._one_thread: Callable[[], AbstractContextManager[object]] = nullcontext
        if policy.size > _SHARED_BY_THREADS:
            self._one_thread = one_blas_thread
        self._actors = Actors(policy, policy.network(1))
        self._actors.normalize(statistics)
        self._actors.load(0, parameters)
        self.reset()

    def reset(self) -> None:
        """Forget the last episode."""
        self._actors.start(0)

    def __call__(self, observation: Any) -> Any:
        """The action for one observation.

        Raises:
            ValueError: the observation has another shape than its space, or is not finite.
        """
        self._actors.encode(observation, self._actors.rows[0])
        with self._one_thread():
            return self._actors.act(1)[0]
