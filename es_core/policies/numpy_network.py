"""The NumPy engine, which CPU workers run: a forward pass is a list of calls on buffers that were made before.

Each layer reads a buffer that ends with a constant 1, and writes into that of the next one. Nothing is allocated, and
candidates in lockstep share the calls: ``(rows, outputs, inputs + 1)`` times ``(rows, inputs + 1)``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from es_core.policies.layers import Cell, Convolution, Dense, Eyes, Layer, matrices, size_of
from es_core.policies.network import Network, Vector

Call = Callable[[], object]

_ZERO, _HALF, _PER_PIXEL = np.float32(0), np.float32(1 / 2), np.float32(1 / 255)


class NumPyNetwork(Network):
    """The layers of ``rows`` candidates, in NumPy.

    Args:
        layers: one after the other, the first with the flattened observation as inputs.
        rows: candidates.
    """

    def __init__(self, layers: Sequence[Layer], rows: int) -> None:
        self.parameters = np.zeros((rows, size_of(layers)), np.float32)
        widths = [layers[0].inputs, *(layer.outputs for layer in layers)]
        buffers = [np.ones((rows, width + 1), np.float32) for width in widths[:-1]]
        buffers.append(np.empty((rows, widths[-1]), np.float32))
        self.inputs, self._outputs = buffers[0], buffers[-1]
        self._steps = [
            _STEPS[type(layer)](layer, own, source, target)
            for layer, own, (source, target) in zip(
                layers, matrices(self.parameters, layers), pairwise(buffers), strict=True
            )
        ]
        for row in range(rows):
            self.reset(row)
        self._passes: dict[int, tuple[list[Call], Vector]] = {}

    def forward(self, width: int) -> Vector:
        """Raw outputs ``(width, m)``."""
        calls, outputs = self._passes.get(width) or self._compile(width)
        for call in calls:
            call()
        return outputs

    def _compile(self, width: int) -> tuple[list[Call], Vector]:
        """The calls of a forward pass, with all their arguments: making views again at each step would cost more."""
        calls = [call for step in self._steps for call in step.calls(width)]
        self._passes[width] = calls, self._outputs[:width]
        return self._passes[width]

    def _memory(self) -> Sequence[Vector]:
        return [buffer for step in self._steps for buffer in step.memory]


@dataclass(frozen=True)
class _Step:
    """A layer of all rows: what to call for the first ``width`` of them, and what must last until the next pass.

    It is made of the layer, its matrices, the buffer ``(rows, inputs + 1)`` that it reads, whose last column is 1, and
    the one that it writes, whose first columns are its outputs: the next layer's to read.
    """

    calls: Callable[[int], Iterator[Call]]
    memory: Sequence[Vector] = ()


def _dense(layer: Dense, own: Sequence[Vector], source: Vector, target: Vector) -> _Step:
    def calls(width: int) -> Iterator[Call]:
        outputs = target[:width, : layer.outputs]
        yield _product(own[0][:width], source[:width, : own[0].shape[2]], outputs)
        match layer.activation:
            case "tanh":
                yield partial(np.tanh, outputs, outputs)
            case "relu":
                yield partial(np.maximum, outputs, _ZERO, out=outputs)

    return _Step(calls)


def _product(matrix: Vector, source: Vector, target: Vector) -> Call:
    if len(source) == 1:  # the same bits as from matvec, in half the time
        return partial(matrix[0].dot, source[0], target[0])
    return partial(np.matvec, matrix, source, target)


def _cell(layer: Cell, own: Sequence[Vector], source: Vector, target: Vector) -> _Step:
    """The state is what was written last, the next layer's inputs; an LSTM has a cell state besides."""
    gates, from_state = np.empty((2, len(source), layer.shapes[0][0]), np.float32)
    state, cell_state = target[:, : layer.outputs], np.zeros((len(source), layer.outputs), np.float32)
    equations = _EQUATIONS[layer.kind]

    def calls(width: int) -> Iterator[Call]:
        yield _product(own[0][:width], source[:width], gates[:width])
        yield _product(own[1][:width], target[:width], from_state[:width])
        yield from equations(gates[:width], from_state[:width], state[:width], cell_state[:width])

    return _Step(calls, [state, cell_state] if layer.kind == "lstm" else [state])


def _rnn(gates: Vector, from_state: Vector, h: Vector, _: Vector) -> Iterator[Call]:
    """Elman 1990: h' = tanh(x-part + h-part)."""
    yield partial(np.add, gates, from_state, gates)
    yield partial(np.tanh, gates, h)


def _lstm(gates: Vector, from_state: Vector, h: Vector, c: Vector) -> Iterator[Call]:
    """Hochreiter and Schmidhuber 1997, with forget gate: c' = f c + i g; h' = o tanh(c')."""
    i, f, g, o = np.split(gates, 4, axis=1)
    is_gate = np.repeat(np.array([1, 1, 0, 1], np.float32), h.shape[1])
    scale, shift = 1 - is_gate / 2, is_gate / 2
    yield partial(np.add, gates, from_state, gates)
    # i, f and o pass through a sigmoid, g through tanh; as sigmoid(x) = tanh(x / 2) / 2 + 1 / 2, all in one go.
    yield partial(np.multiply, gates, scale, gates)
    yield partial(np.tanh, gates, gates)
    yield partial(np.multiply, gates, scale, gates)
    yield partial(np.add, gates, shift, gates)
    yield partial(np.multiply, c, f, c)
    yield partial(np.multiply, i, g, i)
    yield partial(np.add, c, i, c)
    yield partial(np.tanh, c, h)
    yield partial(np.multiply, h, o, h)


def _gru(gates: Vector, from_state: Vector, h: Vector, _: Vector) -> Iterator[Call]:
    """Cho et al. 2014, as cuDNN has it: n = tanh(x-part + r (h-part)); h' = n + z (h - n)."""
    size = h.shape[1]
    both, n = gates[:, : 2 * size], gates[:, 2 * size :]
    r, z = both[:, :size], both[:, size:]
    n_from_state = from_state[:, 2 * size :]
    yield partial(np.add, both, from_state[:, : 2 * size], both)
    yield partial(np.multiply, both, _HALF, both)  # a sigmoid, as above
    yield partial(np.tanh, both, both)
    yield partial(np.multiply, both, _HALF, both)
    yield partial(np.add, both, _HALF, both)
    yield partial(np.multiply, n_from_state, r, n_from_state)
    yield partial(np.add, n, n_from_state, n)
    yield partial(np.tanh, n, n)
    yield partial(np.subtract, h, n, h)
    yield partial(np.multiply, h, z, h)
    yield partial(np.add, h, n, h)


_EQUATIONS: Mapping[str, Callable[[Vector, Vector, Vector, Vector], Iterator[Call]]] = {
    "rnn": _rnn,
    "lstm": _lstm,
    "gru": _gru,
}


def _eyes(layer: Eyes, own: Sequence[Vector], source: Vector, target: Vector) -> _Step:
    """Convolution by im2col: patches of the image as rows of a matrix, and one product for each candidate and layer."""
    rows, filters, column = len(source), iter(own), 0
    steps: list[Callable[[int], Iterator[Call]]] = []

    def place(size: int) -> Vector:
        nonlocal column
        column += size
        return target[:, column - size : column]

    for eye in layer.eyes:
        pixels = source[:, eye.place].reshape(rows, *eye.shape)
        pixels = np.moveaxis(pixels, 1, -1) if eye.channels_first else pixels
        images = np.empty(pixels.shape, np.float32)
        steps.append(partial(_scale, pixels, images))
        for convolution in eye.convolutions:
            height, width, depth = convolution.output
            size = height * width * depth
            is_last = convolution is eye.convolutions[-1]
            features = place(size) if is_last else np.empty((rows, size), np.float32)
            features = features.reshape(rows, height * width, depth)
            patches = np.ones((height * width, convolution.shape[1]), np.float32)  # each ends with a constant 1
            steps.append(partial(_convolve, convolution, next(filters), images, patches, features))
            images = features.reshape(rows, height, width, depth)
    steps += [partial(_copy, source[:, part], place(part.stop - part.start)) for part in layer.others]
    return _Step(lambda width: (call for step in steps for call in step(width)))


def _scale(pixels: Vector, images: Vector, width: int) -> Iterator[Call]:
    yield partial(np.multiply, pixels[:width], _PER_PIXEL, images[:width])


def _copy(source: Vector, target: Vector, width: int) -> Iterator[Call]:
    yield partial(np.copyto, target[:width], source[:width])


def _convolve(
    convolution: Convolution, own: Vector, images: Vector, patches: Vector, features: Vector, width: int
) -> Iterator[Call]:
    size, stride = convolution.size, convolution.stride
    windows = sliding_window_view(images, (size, size), axis=(1, 2))[:, ::stride, ::stride]
    windows = windows.transpose(0, 1, 2, 4, 5, 3)  # (rows, height, width, size, size, channels)
    places = patches[:, :-1].reshape(windows.shape[1:])
    for row in range(width):
        yield partial(np.copyto, places, windows[row])
        yield partial(np.matmul, patches, own[row].T, features[row])
    yield partial(np.maximum, features[:width], _ZERO, out=features[:width])


_STEPS: Mapping[type, Callable[..., _Step]] = {Dense: _dense, Cell: _cell, Eyes: _eyes}
