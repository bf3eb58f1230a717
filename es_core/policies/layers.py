"""What networks are made of: layers, each with the shapes of its matrices, which both engines compute.

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

# Products, of as many rows each as the layer is wide, that a cell makes of its inputs and of its state.
GATES: Mapping[str, int] = {"rnn": 1, "lstm": 4, "gru": 3}


class Layer(Protocol):
    """A step from ``inputs`` numbers to ``outputs`` numbers."""

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""

    @property
    def outputs(self) -> int:
        """How many it gives."""

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Of its matrices, bias columns included."""

    @property
    def bias(self) -> bool:
        """Whether its matrices have a bias column."""


@dataclass(frozen=True)
class Dense:
    """``activation(weights @ x + bias)``; no activation makes it linear."""

    inputs: int
    outputs: int
    activation: Activation | None = None
    bias: bool = True

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Of its matrix."""
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
        """Of the matrix for its inputs, and the one for its state."""
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
        """Height, width and channels of the image that it gives."""
        height, width = (1 + (side - self.size) // self.stride for side in self.image[:2])
        return height, width, self.filters

    @property
    def shape(self) -> tuple[int, int]:
        """Of its matrix."""
        return self.filters, self.size**2 * self.image[2] + 1


@dataclass(frozen=True)
class Eye:
    """An image among the flattened inputs, and the convolutions that it goes through.

    Attributes:
        place: where its pixels stand.
        shape: the image as it comes, ``(height, width, channels)`` or ``(channels, height, width)``.
        channels_first: which of the two.
        convolutions: one after the other.
    """

    place: slice
    shape: tuple[int, int, int]
    channels_first: bool
    convolutions: tuple[Convolution, ...]


@dataclass(frozen=True)
class Eyes:
    """The first layer of a network that sees: features of each image, then all other inputs as they are.

    Attributes:
        inputs: flattened observation, images included.
        eyes: one for each image.
        others: where all other inputs stand.
    """

    inputs: int
    eyes: tuple[Eye, ...]
    others: tuple[slice, ...]
    bias: ClassVar[bool] = True

    @cached_property
    def outputs(self) -> int:
        """Features and other inputs."""
        features = sum(math.prod(eye.convolutions[-1].output) for eye in self.eyes)
        return features + sum(int(part.stop - part.start) for part in self.others)

    @property
    def shapes(self) -> Sequence[tuple[int, int]]:
        """Of all filters' matrices, eye by eye."""
        return [convolution.shape for eye in self.eyes for convolution in eye.convolutions]


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
