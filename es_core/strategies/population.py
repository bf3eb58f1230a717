"""A generation as a value: all that a worker must know to rebuild any candidate."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.normalizer import ObservationStatistics


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """Candidate i is ``base[parent[i]] + sign[i] * scale * noise(noise_seed[i])``.

    Attributes:
        generation: from 0.
        base: ``(m, d)`` float32; row 0 is the centre: the parameters that would be deployed.
        parent: ``(N,)``, rows of ``base``.
        scale: sigma, or ``(d,)`` float32 with one sigma for each parameter.
        noise_seed: ``(N,)``.
        sign: ``(N,)`` of +1, -1, or 0 (the parent as it is).
        statistics: by which observations are normalised in this generation, or None.
    """

    generation: int
    base: NDArray[np.float32]
    parent: NDArray[np.int64]
    scale: float | NDArray[np.float32]
    noise_seed: NDArray[np.int64]
    sign: NDArray[np.int8]
    statistics: ObservationStatistics | None = None

    def __len__(self) -> int:
        return len(self.parent)

    def candidate(self, index: int, out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Parameters ``(d,)`` of one candidate, written to ``out`` if given."""
        out = np.empty(self.base.shape[1], np.float32) if out is None else out
        parent, sign = self.base[self.parent[index]], int(self.sign[index])
        if sign == 0:
            out[:] = parent
            return out
        seeding.noise(int(self.noise_seed[index]), out)
        out *= self.scale
        move = np.add if sign > 0 else np.subtract
        move(parent, out, out=out)
        return out
