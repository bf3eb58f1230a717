"""The layers of many candidates at once, in torch, for ``TorchActors``. Imports torch.

The same rows in the same places give the same bits. Beside others, or alone, a row may change by rounding: which
instructions a product takes is the library's choice. On the processors that were tried no row depends on the others, to
the last bit, on a CPU. That decides how things are computed: a product as vector times transposed matrix (``bmm`` of
matrix times vector takes another kernel for one row), of matrices and vectors that begin at 64 bytes in every row (from
elsewhere some processors add in another order), a sigmoid as a tanh (torch's own computes the last few numbers of a
tensor, whosever they are, with another exponential).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import pad

from es_core.policies.layers import Cell, Convolution, Dense, ImageEncoder, Layer, matrices

_ALIGNED = 16  # numbers: 64 bytes, a vector register or a line of the cache

Tensor = torch.Tensor
Call = Callable[[Tensor], Tensor]


def aligned(size: int) -> int:
    """Length of a row that holds ``size`` numbers and keeps the next one aligned to 64 bytes."""
    return -(-size // _ALIGNED) * _ALIGNED


class Rows(ABC):
    """Forward passes of all rows on a device.

    Attributes:
        memory: tensors ``(rows, ...)`` that must last from one pass to the next.
    """

    memory: Sequence[Tensor]

    @abstractmethod
    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the raw outputs ``(width, m)`` of the first rows from their inputs ``(width, n)``."""

    def reset(self, row: int) -> None:
        """Clear the memory of ``row``."""
        for buffer in self.memory:
            buffer[row] = 0


class BatchedLayers(Rows):
    """The layers of all rows.

    Args:
        layers: one after the other.
        parameters: ``(rows, d)`` on the device that computes; others write to it.
    """

    def __init__(self, layers: Sequence[Layer], parameters: Tensor) -> None:
        self._steps = [
            _STEPS[type(layer)](layer, own) for layer, own in zip(layers, matrices(parameters, layers), strict=True)
        ]
        self.memory = [buffer for step in self._steps for buffer in step.memory]
        self._passes: dict[int, list[Call]] = {}

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the raw outputs ``(width, m)`` of the first rows from their inputs ``(width, n)``."""
        width = len(inputs)
        if width not in self._passes:
            self._passes[width] = [step.at(width) for step in self._steps]
        for call in self._passes[width]:
            inputs = call(inputs)
        return inputs


@dataclass(frozen=True)
class _Step:
    """A layer of all rows: its forward pass for a number of rows, and the tensors that last from pass to pass."""

    at: Callable[[int], Call]
    memory: Sequence[Tensor] = ()


def _product(own: Tensor, width: int) -> Call:
    """``(width, inputs)`` to ``(width, outputs)``; a matrix with one column more has a bias in it."""
    transposed, columns = own[:width].mT, own.shape[-1]
    room = aligned(columns)

    def product(inputs: Tensor) -> Tensor:
        vectors = pad(inputs, (0, room - inputs.shape[1]), value=1.0)[:, :columns]
        return torch.bmm(vectors.unsqueeze(1), transposed).squeeze(1)

    return product


_ACTIVATIONS: Mapping[str | None, Call] = {"tanh": torch.tanh_, "relu": torch.relu_, None: lambda values: values}


def _dense(layer: Dense, own: Sequence[Tensor]) -> _Step:
    activate = _ACTIVATIONS[layer.activation]

    def at(width: int) -> Call:
        product = _product(own[0], width)
        return lambda inputs: activate(product(inputs))

    return _Step(at)


def _cell(layer: Cell, own: Sequence[Tensor]) -> _Step:
    memory = [own[0].new_zeros(len(own[0]), layer.outputs) for _ in range(2 if layer.kind == "lstm" else 1)]
    equations = _EQUATIONS[layer.kind]

    def at(width: int) -> Call:
        from_inputs, from_state = (_product(matrix, width) for matrix in own)
        state = [buffer[:width] for buffer in memory]

        def step(inputs: Tensor) -> Tensor:
            return equations(from_inputs(inputs), from_state(state[0]), *state)

        return step

    return _Step(at, memory)


def _sigmoid(values: Tensor) -> Tensor:
    return torch.tanh(values * 0.5) * 0.5 + 0.5


def _rnn(from_inputs: Tensor, from_state: Tensor, h: Tensor) -> Tensor:
    return h.copy_(torch.tanh(from_inputs + from_state))


def _lstm(from_inputs: Tensor, from_state: Tensor, h: Tensor, c: Tensor) -> Tensor:
    i, f, g, o = (from_inputs + from_state).chunk(4, 1)
    c.mul_(_sigmoid(f)).add_(_sigmoid(i) * torch.tanh(g))
    return h.copy_(_sigmoid(o) * torch.tanh(c))


def _gru(from_inputs: Tensor, from_state: Tensor, h: Tensor) -> Tensor:
    size = h.shape[1]
    r, z = _sigmoid(from_inputs[:, : 2 * size] + from_state[:, : 2 * size]).chunk(2, 1)
    n = torch.tanh(from_inputs[:, 2 * size :] + r * from_state[:, 2 * size :])
    return h.sub_(n).mul_(z).add_(n)


_EQUATIONS: Mapping[str, Callable[..., Tensor]] = {"rnn": _rnn, "lstm": _lstm, "gru": _gru}


def _image_encoder(layer: ImageEncoder, own: Sequence[Tensor]) -> _Step:
    filters = iter(own)
    convolutions = [[_convolution(each, next(filters)) for each in encoded.convolutions] for encoded in layer.images]

    def at(width: int) -> Call:
        passes = [[convolution(width) for convolution in own] for own in convolutions]

        def encode(inputs: Tensor) -> Tensor:
            parts = []
            for encoded, convolve_all in zip(layer.images, passes, strict=True):
                pixels = inputs[:, encoded.place].view(width, *encoded.shape)
                images = (pixels.permute(0, 2, 3, 1) if encoded.channels_first else pixels) * (1 / 255)
                for convolve in convolve_all:
                    images = convolve(images)
                parts.append(images.flatten(1))
            return torch.cat([*parts, *(inputs[:, part] for part in layer.others)], 1)

        return encode

    return _Step(at)


def _convolution(convolution: Convolution, own: Tensor) -> Callable[[int], Call]:
    """Convolution by im2col: cuDNN's would round products to TF32 and sum in an order of its choice."""
    size, stride = convolution.size, convolution.stride
    height, width, depth = convolution.output
    columns = own.shape[2]  # of a patch, which ends with a constant 1
    all_patches = own.new_ones(len(own), height * width, aligned(columns))[:, :, :columns]

    def at(rows: int) -> Call:
        patches, transposed = all_patches[:rows], own[:rows].mT
        places = patches[:, :, :-1].view(rows, height, width, size, size, convolution.image[2])

        def convolve(images: Tensor) -> Tensor:
            windows = images.unfold(1, size, stride).unfold(2, size, stride)
            places.copy_(windows.permute(0, 1, 2, 4, 5, 3))
            return torch.bmm(patches, transposed).relu_().view(rows, height, width, depth)

        return convolve

    return at


_STEPS: Mapping[type, Callable[..., _Step]] = {Dense: _dense, Cell: _cell, ImageEncoder: _image_encoder}
