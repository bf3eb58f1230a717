"""The multi-layer perceptron: its parameter layout, and the NumPy engine that CPU workers run.

One flat vector holds the layers one after the other, each as a matrix ``(outputs, inputs + 1)`` whose last column is
the bias; the layers are views of that vector, and every layer's input ends with a constant 1. A step is then one
product and one activation per layer, without an allocation.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core import seeding
from es_core.normalizer import CLIP, ObservationStatistics, StatisticsCollector
from es_core.policies.spaces import decoder, encoder, input_size, output_size

Vector = NDArray[np.float32]

ACTIVATIONS: Mapping[str, Callable[[Vector, Vector], object]] = {
    "tanh": np.tanh,
    "relu": lambda values, out: np.maximum(values, 0, out=out),
}

_OUTPUT_SCALE = 0.01  # small first outputs (Salimans et al. 2017, their released code) let the noise choose the action


def layer_shapes(inputs: int, hidden_sizes: Sequence[int], outputs: int) -> list[tuple[int, int]]:
    """Shape of each layer's matrix, bias column included."""
    widths = [inputs, *hidden_sizes, outputs]
    return [(after, before + 1) for before, after in pairwise(widths)]


class MLP:
    """A policy on flat inputs.

    Args:
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these, nested or not.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        hidden_sizes: widths of the hidden layers; none makes the policy linear.
        activation: "tanh" or "relu".

    Attributes:
        size: number of parameters ``d``.
        parameters: ``(d,)``, the buffer that the layers are views of: write a candidate into it.

    Raises:
        ValueError: a space or the activation is not supported.
    """

    def __init__(
        self,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        *,
        hidden_sizes: Sequence[int] = (32, 32),
        activation: str = "tanh",
    ) -> None:
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.observation_space, self.action_space = observation_space, action_space
        self.hidden_sizes, self.activation = tuple(hidden_sizes), activation
        self.inputs, self.outputs = input_size(observation_space), output_size(action_space)
        self.shapes = layer_shapes(self.inputs, self.hidden_sizes, self.outputs)
        self.size = sum(math.prod(shape) for shape in self.shapes)
        self.parameters: Vector = np.zeros(self.size, np.float32)
        self._encode, self._decode = encoder(observation_space), decoder(action_space)
        self._activate = ACTIVATIONS[activation]
        self._center: Vector | None = None
        self._scale: Vector = np.ones(self.inputs, np.float32)
        self._collector: StatisticsCollector | None = None

        extended = [np.ones(shape[1], np.float32) for shape in self.shapes]
        self._observation = extended[0][:-1]
        self._raw = np.empty(self.outputs, np.float32)
        matrices = split(self.parameters, self.shapes)
        self._hidden = [
            (matrix.dot, source, target[:-1])
            for matrix, source, target in zip(matrices, extended, extended[1:], strict=False)
        ]
        self._last, self._last_input = matrices[-1].dot, extended[-1]

    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``: weights N(0, 1/inputs), biases 0, the output layer 100 times smaller."""
        initial = seeding.noise(seeding.derive(seed, seeding.Purpose.INITIAL_MEAN), np.empty(self.size, np.float32))
        matrices = split(initial, self.shapes)
        for matrix in matrices:
            matrix[:, :-1] /= math.sqrt(max(1, matrix.shape[1] - 1))
            matrix[:, -1] = 0
        matrices[-1][:] *= _OUTPUT_SCALE
        return initial

    def normalize(self, statistics: ObservationStatistics | None) -> None:
        """Normalise observations by ``statistics`` from now on (None: leave them as they are)."""
        if statistics is None:
            self._center = None
        else:
            self._center, self._scale = statistics.mean_and_scale()

    def collect(self, collector: StatisticsCollector | None) -> None:
        """Count every observation in ``collector`` from now on (None: stop counting)."""
        self._collector = collector

    def reset(self) -> None:
        """Forget the last episode; an MLP has nothing to forget."""

    def raw(self, observation: Any) -> Vector:
        """Raw outputs ``(outputs,)`` for one observation, in a buffer that the next call overwrites.

        Raises:
            ValueError: the observation has another shape than its space, or is not finite.
        """
        flat = self._observation
        self._encode(observation, flat)
        if not math.isfinite(flat.dot(flat)) and not np.isfinite(flat).all():
            raise ValueError(f"the observation is not finite: {observation!r}")
        if self._collector is not None:
            self._collector.add(flat)
        if self._center is not None:
            flat -= self._center
            flat *= self._scale
            np.maximum(flat, -CLIP, out=flat)
            np.minimum(flat, CLIP, out=flat)
        activate = self._activate
        for product, source, target in self._hidden:
            product(source, target)
            activate(target, target)
        return self._last(self._last_input, self._raw)

    def act(self, observation: Any) -> Any:
        """The action for one observation: a new object that the environment may keep."""
        return self._decode(self.raw(observation))

    def act_with_noise(self, observation: Any, noise: Vector) -> Any:
        """``act``, with ``noise`` ``(outputs,)`` added to the raw outputs."""
        return self._decode(self.raw(observation) + noise)


def split(parameters: Vector, shapes: Sequence[tuple[int, int]]) -> list[Vector]:
    """The layers' matrices, as views of ``parameters`` ``(d,)``."""
    matrices, start = [], 0
    for shape in shapes:
        matrices.append(parameters[start : start + math.prod(shape)].reshape(shape))
        start += math.prod(shape)
    return matrices
