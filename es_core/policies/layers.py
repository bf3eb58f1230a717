"""Layers of networks, each with the shapes of its matrices; both engines compute them.

Every matrix is ``(outputs, inputs + 1)``: its last column is the bias, as if each input ended with a constant 1. (Of a
layer without bias it is ``(outputs, inputs)``.) A layer's parameters are its matrices, one after the other; a network's
are its layers', one after the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Literal, Protocol

Activation = Literal["tanh", "relu"]

# Number of products, each with as many rows as the layer is wide, that a cell computes from its inputs and its state.
GATES: Mapping[str, int] = {"rnn": 1, "lstm": 4, "gru": 3}


class Layer(Protocol):
    """A step from ``inputs`` numbers to ``outputs`` numbers."""

    @property
    def inputs(self) -> int:
        """Number of inputs."""

    @property
    def outputs(self) -> int:
        """Number of outputs."""

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Shapes of its matrices, bias columns included."""

    @property
    def bias(self) -> bool:
        """True if its matrices have a bias column."""


@dataclass(frozen=True)
class Dense:
    """``activation(weights @ x + bias)``; no activation makes it linear."""

    inputs: int
    outputs: int
    activation: Activation | None = None
    bias: bool = True

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Shape of its matrix."""
        return [(self.outputs, self.inputs + self.bias)]


@dataclass(frozen=True)
class Cell:
    """A recurrent layer: ``torch.nn.RNNCell``, ``LSTMCell`` or ``GRUCell``, parameter by parameter and gate by gate.

    Its outputs are its state, which is zero when an episode begins (an LSTM's cell state, too).
    """

    kind: Literal["rnn", "lstm", "gru"]
    inputs: int
    outputs: int
    bias: ClassVar[bool] = True

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Shapes of the matrix for its inputs and the one for its state."""
        rows = GATES[self.kind] * self.outputs
        return [(rows, self.inputs + 1), (rows, self.outputs + 1)]


@dataclass(frozen=True)
class Convolution:
    """Square filters moved over an image ``(height, width, channels)``, without padding, and a relu.

    A row of its matrix is a filter, ``(size, size, channels)`` flattened, and its bias.
    """

    image: tuple[int, int, int]
    filters: int
    size: int
    stride: int

    @property
    def output(self) -> tuple[int, int, int]:
        """Height, width and channels of its output."""
        height, width = (1 + (side - self.size) // self.stride for side in self.image[:2])
        return height, width, self.filters

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of its matrix."""
        return self.filters, self.size**2 * self.image[2] + 1


@dataclass(frozen=True)
class EncodedImage:
    """An image among the flattened inputs, and the convolutions that it goes through.

    Attributes:
        place: its pixels' place among the inputs.
        shape: its shape in the observation, ``(height, width, channels)`` or ``(channels, height, width)``.
        channels_first: True for the latter.
        convolutions: one after the other.
    """

    place: slice
    shape: tuple[int, int, int]
    channels_first: bool
    convolutions: tuple[Convolution, ...]


@dataclass(frozen=True)
class ImageEncoder:
    """The first layer of a convolutional network: features of each image, then all other inputs unchanged.

    Attributes:
        inputs: length of the flattened observation, images included.
        images: its images.
        others: places of all other inputs.
    """

    inputs: int
    images: tuple[EncodedImage, ...]
    others: tuple[slice, ...]
    bias: ClassVar[bool] = True

    @cached_property
    def outputs(self) -> int:
        """Number of features and other inputs."""
        features = sum(math.prod(encoded.convolutions[-1].output) for encoded in self.images)
        return features + sum(int(part.stop - part.start) for part in self.others)

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Shapes of all convolutions' matrices, image by image."""
        return [convolution.shape for encoded in self.images for convolution in encoded.convolutions]


def size_of(layers: Sequence[Layer]) -> int:
    """Number ``d`` of parameters."""
    return sum(math.prod(shape) for layer in layers for shape in layer.shapes)


def dense_layers(inputs: int, sizes: Sequence[int], activation: Activation) -> list[Dense]:
    """A layer for each of ``sizes``, one after the other."""
    return [Dense(before, after, activation) for before, after in pairwise([inputs, *sizes])]


def matrices(parameters: Any, layers: Sequence[Layer]) -> list[list[Any]]:
    """Each layer's matrices ``(..., outputs, columns)``, as views of ``parameters`` ``(..., d)``, NumPy or torch."""
    found: list[list[Any]] = []
    start = 0
    for layer in layers:
        found.append([])
        for shape in layer.shapes:
            end = start + math.prod(shape)
            found[-1].append(parameters[..., start:end].reshape(*parameters.shape[:-1], *shape))
            start = end
    return found
