"""Kernels: noise and a policy's step as plain loops, which ``compilation`` turns into machine code with numba.

Sums are taken in one order, whatever the processor: inner loops run over outputs, so that they vectorise without
changing the order of a sum, nothing is contracted into fused operations, and no function of a mathematics library is
called. So equal arguments give equal bits on every x86-64 processor. Nothing in here allocates memory or raises.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

HELPERS: list[Callable[..., Any]] = []
"""Functions that are compiled into their callers: a loop with a call inside does not vectorise."""

EXPORTS: dict[str, tuple[Callable[..., Any], tuple[str, ...], str]] = {}
"""Functions that are compiled, with the types of their arguments and result: a star for each dimension of an array.

"memory" stands for three arguments: the memory of an actor.
"""


def inlined(function: Any) -> Any:
    """Mark a function to be compiled into its callers."""
    HELPERS.append(function)
    return function


def exported(*arguments: str, returns: str = "void") -> Callable[[Any], Any]:
    """Mark a function to be compiled for arguments of these types."""

    def export(function: Any) -> Any:
        EXPORTS[function.__name__] = function, arguments, returns
        return function

    return export


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


@inlined
@exported("int64", "int64", "float32*")
def fill_normals(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first standard normal numbers of a block."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out) // 2):
        out[2 * index], out[2 * index + 1] = normals(key, _u32(block), _u32(index))
    if len(out) % 2:
        out[-1] = normals(key, _u32(block), _u32(len(out) // 2))[0]


@inlined
@exported("int64", "int64", "float32*")
def fill_gumbels(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first numbers of a block, of the Gumbel distribution."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out)):
        first, second = gumbels(key, _u32(block), _u32(index // 2))
        out[index] = second if index % 2 else first


@inlined
@exported("int64", "int64", "float32*")
def fill_logistics(seed: int, block: int, out: Any) -> None:
    """Fill ``out`` with the first numbers of a block, of the logistic distribution."""
    key = _u32(seed), _u32(seed >> 32)
    for index in range(len(out)):
        first, second = logistics(key, _u32(block), _u32(index // 2))
        out[index] = second if index % 2 else first


@exported("int64*", "float64*", "float64*", "int64", "float64*", "float64*", "float32*")
def add_noise(seeds: Any, weights: Any, square_weights: Any, block: int, total: Any, squares: Any, noise: Any) -> None:
    """Add ``weights[i] * z`` to ``total``, and ``square_weights[i] * z^2`` to ``squares`` if that is not empty.

    z is the noise of ``seeds[i]`` in this block, written to ``noise``. All but it in float64.
    """
    for i in range(len(seeds)):
        fill_normals(seeds[i], block, noise)
        for j in range(len(total)):
            total[j] += weights[i] * noise[j]
        for j in range(len(squares)):
            squares[j] += square_weights[i] * (_f64(noise[j]) * noise[j])


# ---- Policies ----


# An actor is a piece of memory, seen as three arrays. As ``numbers`` (float32) it holds all that its network computes
# with: parameters, with transposed matrices, inputs, outputs of each operation, recurrent state. As ``exact`` (float64)
# it holds sums of observations, the action, and what actions are made of; as ``table`` (int64), the place of
# everything. The table comes first: its first row describes the step as a whole, each further one an operation of the
# network, in the columns named here. Another network needs no other compilation.

# Columns of the first row.
STEP_INPUTS, STEP_OUTPUTS, STEP_SOURCE, STEP_RAW = 0, 1, 2, 3  # numbers of inputs and raw outputs; where they are
COLLECTS, SUMS = 4, 5  # whether observations are added up; where
NORMALIZES, CENTER, SCALE, CLIP = 6, 7, 8, 9  # whether inputs are normalised; where by which numbers
EXPLORES, SEED, STEPS, NOISE = 10, 11, 12, 13  # how an episode is explored, its seed, steps so far; where the std is
DECODES, ACTION, ACTIONS, LOW, HIGH, GROUPS = 14, 15, 16, 17, 18, 19  # how raw outputs become an action
ROWS = 20  # of the table
DECODINGS = 21  # where that of each entry is, if they differ

# Columns of an operation's row.
KIND, SOURCE, INPUTS, TARGET, OUTPUTS, WEIGHTS, ACTIVATION = 0, 1, 2, 3, 4, 5, 6
FROM_STATE, GATES, CELL = 7, 8, 9  # of a recurrent layer: weights of its state, room for gates, an LSTM's cell state
HEIGHT, WIDTH, CHANNELS, SIZE, STRIDE, CHANNELS_FIRST = 7, 8, 9, 10, 11, 12  # of an image
COLUMNS = 22

DENSE, RNN, LSTM, GRU, CONVOLUTION, IMAGE, COPY = 0, 1, 2, 3, 4, 5, 6  # kinds, those on images last
LINEAR, TANH, RELU = 0, 1, 2  # activations
AS_IT_IS, ADD_NOISE, DRAW_NORMAL, DRAW_CHOICE, DRAW_BITS = 0, 1, 2, 3, 4  # explorations
CHOICE, CHOICES, BITS, CLIPPED, SQUASHED, MIXED = 0, 1, 2, 3, 4, 5  # decodings
BAD_OBSERVATION, BAD_OUTPUT = -1, -2  # what a step returns instead of a choice

_ZERO, _PER_PIXEL = _f32(0), _f32(1 / 255)

# tanh(x) as x P(x^2) / Q(x^2) on [-8, 8], of least error (4e-7), fitted by iterated weighted least squares; beyond 8
# it is 1 for float32. A comparison that NaN fails leaves NaN as it is.
_LIMIT = _f32(8)
_P = tuple(map(_f32, (0.99999997, 0.134381883, 0.00356415278, 2.17731914e-05, 1.50617352e-08)))
_Q = tuple(map(_f32, (1.0, 0.467715091, 0.0261360029, 0.000339917395, 8.45363116e-07)))


@inlined
def tanh(x: Any) -> Any:
    """tanh, within 4e-7."""
    x = max(x, -_LIMIT)
    x = min(x, _LIMIT)
    s = x * x
    p = _P[0] + s * (_P[1] + s * (_P[2] + s * (_P[3] + s * _P[4])))
    q = _Q[0] + s * (_Q[1] + s * (_Q[2] + s * (_Q[3] + s * _Q[4])))
    y = x * p / q
    y = -_ONE if x == -_LIMIT else y
    return _ONE if x == _LIMIT else y


@inlined
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), within 2e-7."""
    return tanh(x * _HALF) * _HALF + _HALF


@inlined
def add_up(weights: Any, values: Any, out: Any) -> None:
    """Add ``values`` ``(n,)`` times ``weights`` ``(n, m)``, in a row, to ``out`` ``(m,)``, value by value."""
    inputs, outputs = len(values), len(out)
    for four in range(inputs // 4):  # at a time, in order: it saves reading and writing ``out``
        c = 4 * four
        w0, w1 = weights[c * outputs :][:outputs], weights[(c + 1) * outputs :][:outputs]
        w2, w3 = weights[(c + 2) * outputs :][:outputs], weights[(c + 3) * outputs :][:outputs]
        x0, x1, x2, x3 = values[c], values[c + 1], values[c + 2], values[c + 3]
        for r in range(outputs):
            two = (out[r] + w0[r] * x0) + w1[r] * x1
            out[r] = (two + w2[r] * x2) + w3[r] * x3
    for c in range(inputs // 4 * 4, inputs):
        w0, x0 = weights[c * outputs :][:outputs], values[c]
        for r in range(outputs):
            out[r] += w0[r] * x0


@inlined
def add_up_two(weights: Any, first: Any, second: Any, out: Any, other: Any) -> None:
    """``add_up`` for two rows of values at once, which share what is read of the weights: the sums are the same."""
    inputs, outputs = len(first), len(out)
    for four in range(inputs // 4):
        c = 4 * four
        w0, w1 = weights[c * outputs :][:outputs], weights[(c + 1) * outputs :][:outputs]
        w2, w3 = weights[(c + 2) * outputs :][:outputs], weights[(c + 3) * outputs :][:outputs]
        x0, x1, x2, x3 = first[c], first[c + 1], first[c + 2], first[c + 3]
        y0, y1, y2, y3 = second[c], second[c + 1], second[c + 2], second[c + 3]
        for r in range(outputs):
            of_first = (out[r] + w0[r] * x0) + w1[r] * x1
            of_second = (other[r] + w0[r] * y0) + w1[r] * y1
            out[r] = (of_first + w2[r] * x2) + w3[r] * x3
            other[r] = (of_second + w2[r] * y2) + w3[r] * y3
    rest = inputs // 4 * 4
    add_up(weights[rest * outputs :], first[rest:], out)
    add_up(weights[rest * outputs :], second[rest:], other)


@inlined
def product(weights: Any, values: Any, out: Any) -> None:
    """Write ``values`` ``(n,)`` times ``weights`` ``(n + 1, m)``, in a row, the bias last, to ``out`` ``(m,)``."""
    bias = weights[len(values) * len(out) :]
    for r in range(len(out)):
        out[r] = bias[r]
    add_up(weights, values, out)


@inlined
@exported("int64", "float32*")
def activate(kind: Any, values: Any) -> None:
    """Apply an activation in place; NaN stays NaN."""
    if kind == TANH:
        for r in range(len(values)):
            values[r] = tanh(values[r])
    elif kind == RELU:
        for r in range(len(values)):
            values[r] = max(values[r], _ZERO)


@inlined
def forward(numbers: Any, table: Any) -> None:
    """Dense and recurrent operations, one after the other; ``encode_images`` runs those on images."""
    for row in range(1, table[0, ROWS]):
        op = table[row]
        kind, inputs, outputs = op[KIND], op[INPUTS], op[OUTPUTS]
        if kind >= CONVOLUTION:
            continue
        source = numbers[op[SOURCE] : op[SOURCE] + inputs]
        target = numbers[op[TARGET] : op[TARGET] + outputs]
        if kind == DENSE:
            product(numbers[op[WEIGHTS] :], source, target)
            activate(op[ACTIVATION], target)
            continue
        width = outputs * (1 if kind == RNN else (4 if kind == LSTM else 3))
        gates = numbers[op[GATES] : op[GATES] + width]
        from_state = numbers[op[GATES] + width : op[GATES] + 2 * width]
        product(numbers[op[WEIGHTS] :], source, gates)
        product(numbers[op[FROM_STATE] :], target, from_state)
        if kind == RNN:  # Elman 1990
            for r in range(outputs):
                target[r] = tanh(gates[r] + from_state[r])
        elif kind == LSTM:  # Hochreiter and Schmidhuber 1997, with forget gate: c' = f c + i g; h' = o tanh(c')
            cell = numbers[op[CELL] : op[CELL] + outputs]
            for r in range(width):
                gates[r] += from_state[r]
            for r in range(outputs):
                i, f, o = sigmoid(gates[r]), sigmoid(gates[outputs + r]), sigmoid(gates[3 * outputs + r])
                cell[r] = f * cell[r] + i * tanh(gates[2 * outputs + r])
                target[r] = o * tanh(cell[r])
        else:  # Cho et al. 2014, as cuDNN has it: n = tanh(x-part + r (h-part)); h' = n + z (h - n)
            for r in range(outputs):
                reset, update = sigmoid(gates[r] + from_state[r]), sigmoid(gates[outputs + r] + from_state[outputs + r])
                new = tanh(gates[2 * outputs + r] + reset * from_state[2 * outputs + r])
                target[r] = new + update * (target[r] - new)


@inlined
def convolve(
    image: Any, width: Any, channels: Any, size: Any, stride: Any, weights: Any, filters: Any, out: Any
) -> None:
    """A convolution without padding, channels last.

    Args:
        image: ``(height, width, channels)`` in a row.
        width: width of the image.
        channels: its number of channels.
        size: side of the square filters.
        stride: from patch to patch.
        weights: ``(size * size * channels + 1, filters)`` in a row, the last being the bias.
        filters: number of filters.
        out: ``(patches, filters)`` in a row. A sum goes over a patch's rows, columns and channels, in this order.
    """
    row, patches = size * channels, len(out) // filters
    across = 1 + (width - size) // stride
    bias = weights[size * row * filters :]
    for place in range(patches):
        for f in range(filters):
            out[place * filters + f] = bias[f]
    for place in range(0, patches, 2):
        start = (place // across * width + place % across) * stride * channels
        target = out[place * filters :][:filters]
        if place + 1 == patches:
            for dy in range(size):
                patch = image[start + dy * width * channels :][:row]
                add_up(weights[dy * row * filters :], patch, target)
            return
        after = ((place + 1) // across * width + (place + 1) % across) * stride * channels
        for dy in range(size):
            down = dy * width * channels
            first, second = image[start + down :][:row], image[after + down :][:row]
            add_up_two(weights[dy * row * filters :], first, second, target, out[(place + 1) * filters :][:filters])


@exported("memory")
def encode_images(numbers: Any, exact: Any, table: Any) -> None:  # noqa: ARG001
    """Run the operations on the images among the inputs, one after the other: a convolutional network's first ones."""
    for row in range(1, table[0, ROWS]):
        op = table[row]
        kind = op[KIND]
        if kind == IMAGE:
            height, width, channels = op[HEIGHT], op[WIDTH], op[CHANNELS]
            pixels = numbers[op[SOURCE] : op[SOURCE] + op[INPUTS]]
            image = numbers[op[TARGET] : op[TARGET] + op[INPUTS]]
            if op[CHANNELS_FIRST]:
                for c in range(channels):
                    for place in range(height * width):
                        image[place * channels + c] = pixels[c * height * width + place] * _PER_PIXEL
            else:
                for place in range(op[INPUTS]):
                    image[place] = pixels[place] * _PER_PIXEL
        elif kind == CONVOLUTION:
            size, stride, filters = op[SIZE], op[STRIDE], op[OUTPUTS]
            patches = (1 + (op[HEIGHT] - size) // stride) * (1 + (op[WIDTH] - size) // stride)
            image, weights = numbers[op[SOURCE] :], numbers[op[WEIGHTS] :]
            features = numbers[op[TARGET] : op[TARGET] + patches * filters]
            convolve(image, op[WIDTH], op[CHANNELS], size, stride, weights, filters, features)
            activate(RELU, features)
        elif kind == COPY:
            for c in range(op[INPUTS]):
                numbers[op[TARGET] + c] = numbers[op[SOURCE] + c]


@inlined
def prepare(numbers: Any, exact: Any, step: Any) -> Any:
    """Add up the observation and normalise it; return True if it is finite."""
    count = step[STEP_INPUTS]
    inputs = numbers[step[STEP_SOURCE] : step[STEP_SOURCE] + count]
    if not is_finite(inputs):
        return False
    if step[COLLECTS]:
        total = exact[step[SUMS] : step[SUMS] + count]
        squares = exact[step[SUMS] + count : step[SUMS] + 2 * count]
        for c in range(count):
            value = np.float64(inputs[c])
            total[c] += value
            squares[c] += value * value
    if step[NORMALIZES]:
        center, scale = (
            numbers[step[CENTER] : step[CENTER] + count],
            numbers[step[SCALE] : step[SCALE] + count],
        )
        clip = numbers[step[CLIP]]
        for c in range(count):
            value = (inputs[c] - center[c]) * scale[c]
            value = max(value, -clip)
            inputs[c] = min(value, clip)
    return True


@inlined
def is_finite(values: Any) -> Any:
    """Return True if there is neither NaN nor infinity among float32 numbers."""
    bad = 0
    for c in range(len(values)):
        bad |= values[c] - values[c] != _ZERO
    return bad == 0


@inlined
def decide(numbers: Any, exact: Any, step: Any) -> Any:
    """Make an action from the raw outputs; return the choice, if the action is one, or an error code."""
    kind = step[DECODES]
    raw = numbers[step[STEP_RAW] : step[STEP_RAW] + step[STEP_OUTPUTS]]
    if not is_finite(raw):
        return BAD_OUTPUT
    if kind == CHOICE:
        return largest(raw, 0, len(raw))
    action = exact[step[ACTION] : step[ACTION] + step[ACTIONS]]
    low = exact[step[LOW] :]
    for r in range(len(action)):
        entry, at = kind, r
        if kind == MIXED:
            entry, at = int(exact[step[DECODINGS] + r]), int(exact[step[GROUPS] + r])
        if entry == CHOICES:
            first, end = exact[step[GROUPS] + r], exact[step[GROUPS] + r + 1]
            action[r] = low[largest(raw, int(first), int(end))]
        elif entry == BITS:
            action[r] = raw[at] > _ZERO
        else:
            high, value = exact[step[HIGH] + at], np.float64(raw[at])
            if entry == SQUASHED:
                value = low[at] + (np.float64(tanh(raw[at])) + 1.0) * ((high - low[at]) * 0.5)
            action[r] = min(max(value, low[at]), high)
    return 0


@inlined
def largest(values: Any, first: Any, end: Any) -> Any:
    """Index of the largest of ``values[first:end]``, the first of equal ones."""
    best = first
    for r in range(first + 1, end):
        if values[r] > values[best]:
            best = r
    return best


@inlined
def exp(x: Any) -> Any:
    """The exponential function, float64, from -5 to 2: the sixteenth power of a Taylor polynomial."""
    y, term, total = x / 16.0, 1.0, 1.0
    for k in range(1, 14):
        term *= y / k
        total += term
    for _ in range(4):
        total *= total
    return total


@exported("memory", returns="int64")
def act(numbers: Any, exact: Any, table: Any) -> Any:
    """Compute a step of a policy, from flattened observation to action; return a choice, or an error code."""
    if not prepare(numbers, exact, table[0]):
        return BAD_OBSERVATION
    forward(numbers, table)
    return decide(numbers, exact, table[0])


@exported("memory", returns="int64")
def act_exploring(numbers: Any, exact: Any, table: Any) -> Any:
    """``act``, with raw outputs that are changed at random before they become an action.

    The random numbers follow from the episode's seed and the number of the step.
    """
    step = table[0]
    if not prepare(numbers, exact, step):
        return BAD_OBSERVATION
    forward(numbers, table)
    kind, outputs = step[EXPLORES], step[STEP_OUTPUTS]
    raw = numbers[step[STEP_RAW] : step[STEP_RAW] + outputs]
    size = step[ACTIONS] if kind == DRAW_NORMAL else outputs
    drawn = numbers[step[STEP_RAW] + outputs : step[STEP_RAW] + outputs + size]
    if kind == DRAW_CHOICE:
        fill_gumbels(step[SEED], step[STEPS], drawn)
    elif kind == DRAW_BITS:
        fill_logistics(step[SEED], step[STEPS], drawn)
    else:
        fill_normals(step[SEED], step[STEPS], drawn)
    step[STEPS] += 1
    for r in range(size):
        if kind == ADD_NOISE:
            drawn[r] *= numbers[step[NOISE]]
        elif kind == DRAW_NORMAL:  # means, then log-stds
            drawn[r] *= _f32(exp(min(max(np.float64(raw[size + r]), -5.0), 2.0)))
        raw[r] += drawn[r]
    return decide(numbers, exact, step)


@exported("float32**", "float32**")
def transpose(matrix: Any, out: Any) -> None:
    """Write the columns of ``matrix`` ``(m, n)`` into the rows of ``out`` ``(at least n, m)``, tile by tile."""
    rows, columns = matrix.shape
    for first_row in range(0, rows, 32):
        for first_column in range(0, columns, 32):
            for c in range(first_column, min(first_column + 32, columns)):
                for r in range(first_row, min(first_row + 32, rows)):
                    out[c, r] = matrix[r, c]


@exported("float32*", "float32**", "float32**")
def products(weights: Any, values: Any, out: Any) -> None:
    """``product`` for each row of a batch."""
    for b in range(len(values)):
        product(weights, values[b], out[b])


@exported("float32**", "int64", "int64", "int64", "int64", "float32*", "int64", "float32**")
def convolutions(
    images: Any, width: Any, channels: Any, size: Any, stride: Any, weights: Any, filters: Any, out: Any
) -> None:
    """``convolve`` for each image of a batch."""
    for b in range(len(images)):
        convolve(images[b], width, channels, size, stride, weights, filters, out[b])


@exported("float32**", "float32**", "float64", "float64*", "float64*")
def normalize(weights: Any, units: Any, epsilon: Any, mean: Any, variance: Any) -> None:
    """Change ``weights`` ``(n + 1, m)`` so that units have mean 0 and variance 1 before their bias is added.

    Args:
        weights: the last row is the bias.
        units: their values on a batch without their bias, ``(batch, m)``; afterwards with the new weights.
        epsilon: added to variances.
        mean: zeros ``(m,)``; changed.
        variance: likewise.
    """
    count, outputs = units.shape
    for b in range(count):
        for r in range(outputs):
            mean[r] += units[b, r]
    for r in range(outputs):
        mean[r] /= count
    for b in range(count):
        for r in range(outputs):
            away = np.float64(units[b, r]) - mean[r]
            variance[r] += away * away
    inputs = len(weights) - 1
    for r in range(outputs):
        center, scale = _f32(mean[r]), _f32(1.0 / np.sqrt(variance[r] / count + epsilon))
        for b in range(count):
            units[b, r] = (units[b, r] - center) * scale + weights[inputs, r]
        for c in range(inputs):
            weights[c, r] *= scale
        weights[inputs, r] -= center * scale
