"""What is compiled: noise, and a step of a policy. Plain loops, which numba turns into machine code.

Sums are taken in one order, whatever the processor: inner loops run over outputs, so that they vectorise without
changing the order of a sum, nothing is contracted into fused operations, and no function of a mathematics library is
called. So equal arguments give equal bits on every x86-64 processor.

Nobody but the typed wrappers beside this file calls what is in it.
"""

from typing import Any

import numpy as np

try:
    from numba import njit
except ImportError:  # noise.py does without, and refuses what cannot
    njit = None

HAS_NUMBA = njit is not None


def compiled(function: Any) -> Any:
    """Compile a function when it is first called; the machine code is kept on disk for the next process."""
    return njit(function, cache=True, nogil=True, error_model="numpy") if HAS_NUMBA else function


def inlined(function: Any) -> Any:
    """Compile a function into those that call it: a loop with a call inside does not vectorise."""
    if not HAS_NUMBA:
        return function
    return njit(function, error_model="numpy", forceinline=True)


# ---- Noise ----

# The functions that are inlined take numbers in the compiled loops, and arrays of them in NumPy, with the same bits.
# Every constant and every result has its type written out: numba would compute in 64 bits, half as many at once.

_u32, _i32, _f32, _f64 = np.uint32, np.int32, np.float32, np.float64


@inlined
def _mix(a: Any, b: Any, by: int) -> Any:
    a = _u32(a + b)
    return a, _u32((_u32(b << _u32(by)) | _u32(b >> _u32(32 - by))) ^ a)


@inlined
def bits(seed: Any, block: Any, index: Any) -> Any:
    """Two uint32 of random bits: Threefry-2x32 with 13 rounds (Salmon et al. 2011, "Parallel random numbers: as easy
    as 1, 2, 3", section 4: the fewest that pass BigCrush, of additions and rotations alone).

    Args:
        seed: two uint32, its low and high bits.
        block: uint32, or an array of it.
        index: uint32, or an array of it.
    """  # noqa: D205
    low, high = seed
    third = _u32(_u32(low ^ high) ^ _u32(0x1BD11BDA))
    a, b = _u32(index + low), _u32(block + high)
    a, b = _mix(a, b, 13)
    a, b = _mix(a, b, 15)
    a, b = _mix(a, b, 26)
    a, b = _mix(a, b, 6)
    a, b = _u32(a + high), _u32(_u32(b + third) + _u32(1))
    a, b = _mix(a, b, 17)
    a, b = _mix(a, b, 29)
    a, b = _mix(a, b, 16)
    a, b = _mix(a, b, 24)
    a, b = _u32(a + third), _u32(_u32(b + low) + _u32(2))
    a, b = _mix(a, b, 13)
    a, b = _mix(a, b, 15)
    a, b = _mix(a, b, 26)
    a, b = _mix(a, b, 6)
    a, b = _u32(a + low), _u32(_u32(b + high) + _u32(3))
    return _mix(a, b, 17)


# log(1 + f) = f - f^2/2 + f^3 P(f) for 1 + f from sqrt(1/2) to sqrt(2) (Moshier, Cephes, logf), within 1e-7 of it.
_LOG = tuple(
    map(
        _f32,
        (
            7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1,
            2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1,
        ),
    )
)  # fmt: skip
_SIN = tuple(map(_f32, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)))  # Cephes, sinf, to pi/4
_COS = tuple(map(_f32, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)))  # Cephes, cosf
_LN2, _HALF, _ONE = _f32(np.log(2)), _f32(0.5), _f32(1)
_ROOT_HALF = _i32(0x3F3504F3)  # the bits of sqrt(1/2)
_TO_ONE, _TO_EIGHTH_TURN = _f32(2**-31), _f32(np.pi / 4 * 2**-31)
_SIGN, _FRACTION, _LARGEST = _u32(0x80000000), _i32(0x7FFFFF), _i32(0x7FFFFFFF)


@inlined
def _split(x: Any) -> Any:
    """``e`` and ``f`` of ``x = 2^e (1 + f)``, 1 + f from sqrt(1/2) to sqrt(2), for a positive float32."""
    shifted = _i32(_f32(x).view(_i32) - _ROOT_HALF)
    mantissa = _i32(_i32(shifted & _FRACTION) + _ROOT_HALF)
    return _i32(shifted >> _i32(23)), _f32(mantissa.view(_f32) - _ONE)


@inlined
def _log(e: Any, f: Any) -> Any:
    """log(2^e (1 + f))."""
    z = f * f
    p = _LOG[0] * f + _LOG[1]
    p = p * f + _LOG[2]
    p = p * f + _LOG[3]
    p = p * f + _LOG[4]
    p = p * f + _LOG[5]
    p = p * f + _LOG[6]
    p = p * f + _LOG[7]
    p = p * f + _LOG[8]
    return (f + (p * f * z - _HALF * z)) + _f32(e) * _LN2


@inlined
def _log_uniform(x: Any) -> Any:
    """log(u), u = (k + 1/2) / 2^31 from the upper 31 bits of a uint32: exact near u = 0 and near u = 1."""
    k = _i32(_u32(x >> _u32(1)))
    e, f = _split(_f32(k) + _HALF)
    e = _i32(e - _i32(31))  # 0 or less
    exact = _f32((_f32(_i32(_LARGEST - k)) + _HALF) * -_TO_ONE)  # u - 1, which is f if e is 0
    less = _i32(e >> _i32(31))  # all bits, unless e is 0
    return _log(e, _i32((_f32(f).view(_i32) & less) | (exact.view(_i32) & ~less)).view(_f32))


@inlined
def normals(seed: Any, block: Any, index: Any) -> Any:
    """Two standard normal numbers, up to 6.6 in size (Box and Muller 1958).

    The angle is a quarter turn's a + pi/4, |a| < pi/4, and a sign of each coordinate of its own; the root of 2 in the
    radius and that in sin(a + pi/4) = (sin a + cos a) / sqrt(2) cancel.
    """
    x, y = bits(seed, block, index)
    radius = np.sqrt(-_log_uniform(x))
    a = _f32(_u32(y << _u32(2)).view(_i32)) * _TO_EIGHTH_TURN
    z = a * a
    sine = ((_SIN[0] * z + _SIN[1]) * z + _SIN[2]) * z * a + a
    cosine = ((_COS[0] * z + _COS[1]) * z + _COS[2]) * z * z - _HALF * z + _ONE
    first, second = _f32(radius * (cosine + sine)), _f32(radius * (cosine - sine))
    return (
        _u32(first.view(_u32) ^ _u32(y & _SIGN)).view(_f32),
        _u32(second.view(_u32) ^ _u32(_u32(y << _u32(1)) & _SIGN)).view(_f32),
    )


@inlined
def gumbels(seed: Any, block: Any, index: Any) -> Any:
    """Two numbers of the Gumbel distribution: -log(-log u)."""
    x, y = bits(seed, block, index)
    e, f = _split(-_log_uniform(x))
    other_e, other_f = _split(-_log_uniform(y))
    return -_log(e, f), -_log(other_e, other_f)


@inlined
def logistics(seed: Any, block: Any, index: Any) -> Any:
    """Two numbers of the logistic distribution: log u - log(1 - u)."""
    x, y = bits(seed, block, index)
    return _log_uniform(x) - _log_uniform(_u32(~x)), _log_uniform(y) - _log_uniform(_u32(~y))


@compiled
def fill_normals(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first standard normal numbers of a block."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out) // 2):
        out[2 * index], out[2 * index + 1] = normals(key, _u32(block), _u32(index))
    if len(out) % 2:
        out[-1] = normals(key, _u32(block), _u32(len(out) // 2))[0]


@compiled
def fill_gumbels(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first numbers of a block, of the Gumbel distribution."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out)):
        first, second = gumbels(key, _u32(block), _u32(index // 2))
        out[index] = second if index % 2 else first


@compiled
def fill_logistics(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first numbers of a block, of the logistic distribution."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out)):
        first, second = logistics(key, _u32(block), _u32(index // 2))
        out[index] = second if index % 2 else first


@compiled
def add_noise(seeds: Any, weights: Any, square_weights: Any, block: int, total: Any, squares: Any) -> None:
    """Add ``weights[i] * z`` to ``total``, and ``square_weights[i] * z^2`` to ``squares`` if that is not empty.

    z is the noise of ``seeds[i]`` in this block. All but it in float64.
    """
    noise = np.empty(len(total), _f32)
    for i in range(len(seeds)):
        fill_normals(seeds[i], block, noise)
        for j in range(len(total)):
            total[j] += weights[i] * noise[j]
        for j in range(len(squares)):
            squares[j] += square_weights[i] * (_f64(noise[j]) * noise[j])


# ---- Policies ----
