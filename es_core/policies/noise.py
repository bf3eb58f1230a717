"""Noise: random numbers that are a function of a seed and their place.

They come in blocks, so that one block of a long vector can be made alone, in the processor's cache. The bits are the
same on every processor, with or without numba.
"""

from collections.abc import Iterator
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from es_core.policies import kernels
from es_core.policies.compilation import kernel

NOISE_BLOCK = 2**14
"""Numbers in a block of ``noise``. Changing it changes every result of a large policy."""

Exact = NDArray[np.float64]
Distribution = Literal["normal", "gumbel", "logistic"]


@cache
def _is_compiled() -> bool:
    """Return True if kernels are available; without them NumPy computes the same, ten times slower."""
    try:
        kernel("fill_normals")
    except ImportError:
        return False
    return True


def fill(distribution: Distribution, seed: int, block: int, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill ``out`` ``(n,)`` with the first numbers of a block, and return it.

    Args:
        distribution: the standard distribution to draw from.
        seed: 63 bits.
        block: 0 to 2**32 - 1.
        out: where to write them.
    """
    if not _is_compiled():
        pair = {"normal": kernels.normals, "gumbel": kernels.gumbels, "logistic": kernels.logistics}[distribution]
        index = np.arange((len(out) + 1) // 2, dtype=np.uint32)
        key = np.uint32(seed & 0xFFFFFFFF), np.uint32(seed >> 32)
        first, second = pair(key, np.full(len(index), block, np.uint32), index)
        out[0::2], out[1::2] = first, second[: len(out) // 2]
    else:
        kernel(f"fill_{distribution}s")(seed, block, out)
    return out


def noise_blocks(size: int) -> Iterator[tuple[int, slice]]:
    """The blocks of a noise vector of ``size`` numbers, each with its place in it."""
    for block, start in enumerate(range(0, size, NOISE_BLOCK)):
        yield block, slice(start, min(start + NOISE_BLOCK, size))


def noise_block(seed: int, block: int, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill ``out`` with one block of ``noise(seed)``, from its beginning, and return it."""
    return fill("normal", seed, block, out)


def noise(seed: int, out: NDArray[np.float32]) -> NDArray[np.float32]:
    """Fill ``out`` ``(d,)`` with the standard normal numbers that ``seed`` stands for, and return it."""
    for block, place in noise_blocks(len(out)):
        noise_block(seed, block, out[place])
    return out


def add_noise(
    seeds: NDArray[np.int64], weights: Exact, square_weights: Exact, block: int, total: Exact, squares: Exact
) -> None:
    """Add up weighted noise, in the order of the seeds, and its weighted squares.

    Args:
        seeds: ``(n,)``.
        weights: ``(n,)``.
        square_weights: ``(n,)``, or empty.
        block: index of the noise block.
        total: ``(m,)``, to which ``weights[i] * noise(seeds[i])`` is added.
        squares: ``(m,)``, to which ``square_weights[i] * noise(seeds[i])**2`` is added, or empty.
    """
    drawn = np.empty(len(total), np.float32)
    if _is_compiled():
        kernel("add_noise")(seeds, weights, square_weights, block, total, squares, drawn)
        return
    for i, seed in enumerate(seeds.tolist()):
        exact = noise_block(seed, block, drawn).astype(np.float64)
        total += weights[i] * exact
        if len(squares):
            squares += square_weights[i] * (exact * exact)
