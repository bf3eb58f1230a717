"""A generation as a value: everything that a worker needs to rebuild any candidate."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.machine import usable_cores
from es_core.policies.noise import NOISE_BLOCK, add_noise, noise_block, noise_blocks
from es_core.policies.normalization import Statistics
from es_core.strategies.optimizers import cosine


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
        statistics: statistics that normalise observations or hidden layers in this generation, or None.
        max_episode_steps: step limit of the candidates' episodes, below the run's own; None: only the run's.
        range_share: share of the ranges of ``randomize`` in which the candidates play.
        explores: ``(N,)``, False for a candidate that training does not explore by ``action_noise`` or
            ``sample_actions``; None: all are explored.
        records: True if the strategy wants the transitions of the candidates' episodes: ``Strategy.observe``.
        describes: True if it wants their behaviours: ``Strategy.observe_behaviours``.
    """

    generation: int
    base: NDArray[np.float32]
    parent: NDArray[np.int64]
    scale: float | NDArray[np.float32]
    noise_seed: NDArray[np.int64]
    sign: NDArray[np.int8]
    statistics: Statistics | None = None
    max_episode_steps: int | None = None
    range_share: float = 1.0
    explores: NDArray[np.bool_] | None = None
    records: bool = False
    describes: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.scale, np.ndarray):
            object.__setattr__(self, "scale", float(self.scale))

    @classmethod
    def explicit(
        cls, generation: int, centre: NDArray[np.float32], candidates: NDArray[np.floating[Any]]
    ) -> "Population":
        """The population of given candidates ``(N, d)``, which may be none."""
        count = len(candidates)
        return cls(
            generation=generation,
            base=np.concatenate([centre[np.newaxis], candidates.astype(np.float32)]),
            parent=np.arange(1, count + 1),
            scale=0.0,
            noise_seed=np.zeros(count, np.int64),
            sign=np.zeros(count, np.int8),
        )

    def __len__(self) -> int:
        return len(self.parent)

    def candidate(
        self, index: int, out: NDArray[np.float32] | None = None, drawn: "Drawn | None" = None
    ) -> NDArray[np.float32]:
        """Parameters ``(d,)`` of one candidate; ``len(self)`` stands for the centre.

        Args:
            index: the candidate's index.
            out: array to write them to.
            drawn: noise drawn for the last candidate: its mirror image has the same noise.
        """
        size = self.base.shape[1]
        out = np.empty(size, np.float32) if out is None else out
        parent, sign = (
            (self.base[self.parent[index]], int(self.sign[index])) if index < len(self) else (self.base[0], 0)
        )
        if sign == 0:
            out[:] = parent
            return out
        drawn = drawn or Drawn(size)
        seed, move = int(self.noise_seed[index]), np.add if sign > 0 else np.subtract
        is_new, drawn.seed = drawn.seed != seed, None  # until all of it is drawn
        for block, part in noise_blocks(size):
            if is_new:
                noise_block(seed, block, drawn.numbers[part])
            np.multiply(
                drawn.numbers[part], self.scale if isinstance(self.scale, float) else self.scale[part], out[part]
            )
            move(parent[part], out[part], out[part])
        drawn.seed = seed
        return out


class Drawn:
    """The noise ``(size,)`` that was drawn last.

    Attributes:
        seed: its seed; None: nothing was drawn.
        numbers: the noise.
    """

    def __init__(self, size: int) -> None:
        self.seed: int | None = None
        self.numbers = np.empty(size, np.float32)


def gradient(
    seeds: Sequence[int], weights: Sequence[float], square_weights: Sequence[float] | None, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], float | None]:
    """The sums of ``noise_moments``, and the agreement of the population's two halves about the first sum.

    The halves are the noise with even and with odd index.
    """
    (slope, squares), (other_slope, other_squares) = (
        noise_moments(
            seeds[half::2], weights[half::2], None if square_weights is None else square_weights[half::2], size
        )
        for half in (0, 1)
    )
    agreement = cosine(slope, other_slope)
    slope += other_slope
    squares += other_squares
    return slope, squares, agreement


def noise_moments(
    seeds: Sequence[int], weights: Sequence[float], square_weights: Sequence[float] | None, size: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Sums of ``weights[i] * noise(seeds[i])`` and of ``square_weights[i] * noise(seeds[i])**2``, ``(size,)`` each.

    They are summed in the order of the seeds, block by block and without BLAS: the bits are the same for any number of
    threads, which share the blocks. Without ``square_weights`` the second sum is empty.
    """
    total, squares = np.zeros(size), np.zeros(0 if square_weights is None else size)
    each = np.array(seeds, np.int64), np.array(weights, float), np.array(square_weights or (), float)

    def add_up(place: tuple[int, slice]) -> None:
        block, part = place
        add_noise(*each, block, total[part], squares[part])

    if size <= NOISE_BLOCK:
        add_up((0, slice(0, size)))
    else:  # noise is added up without the interpreter's lock
        with ThreadPoolExecutor(usable_cores()) as threads:
            list(threads.map(add_up, noise_blocks(size)))
    return total, squares
