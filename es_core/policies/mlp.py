"""The multi-layer perceptron: its parameter layout, and the NumPy engine that CPU workers run.

One flat vector holds the layers one after the other, each as a matrix ``(outputs, inputs + 1)`` whose last column is
the bias; every layer's input ends with a constant 1. A layer is then one product and one activation, without an
allocation, and candidates in lockstep share the calls: ``(rows, outputs, inputs + 1)`` times ``(rows, inputs + 1)``.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from es_core import seeding
from es_core.normalizer import ObservationStatistics
from es_core.policies.network import Network, Policy, Vector

if TYPE_CHECKING:
    import torch

ACTIVATIONS: Mapping[str, Callable[[Vector, Vector], object]] = {
    "tanh": np.tanh,
    "relu": lambda values, out: np.maximum(values, 0, out=out),
}

_OUTPUT_SCALE = 0.01  # small first outputs (Salimans et al. 2017, their released code) let the noise choose the action


def layer_shapes(inputs: int, hidden_sizes: Sequence[int], outputs: int) -> list[tuple[int, int]]:
    """Shape of each layer's matrix, bias column included."""
    widths = [inputs, *hidden_sizes, outputs]
    return [(after, before + 1) for before, after in pairwise(widths)]


class MLP(Policy):
    """A policy on flat inputs.

    Args:
        observation_space: see ``Policy``.
        action_space: see ``Policy``.
        hidden_sizes: widths of the hidden layers; none makes the policy linear.
        activation: "tanh" or "relu".

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
        super().__init__(observation_space, action_space)
        if activation not in ACTIVATIONS:
            raise ValueError(f"activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}")
        self.activation = activation
        self.shapes = layer_shapes(self.inputs, hidden_sizes, self.outputs)
        self.size = sum(math.prod(shape) for shape in self.shapes)

    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``: weights N(0, 1/inputs), biases 0, the output layer 100 times smaller."""
        initial = seeding.noise(seeding.derive(seed, seeding.Purpose.INITIAL_MEAN), np.empty(self.size, np.float32))
        matrices = split(initial, self.shapes)
        for matrix in matrices:
            matrix[:, :-1] /= math.sqrt(max(1, matrix.shape[1] - 1))
            matrix[:, -1] = 0
        matrices[-1][:] *= _OUTPUT_SCALE
        return initial

    def network(self, rows: int) -> "MLPNetwork":
        """A network of ``rows`` candidates in NumPy."""
        return MLPNetwork(self, rows)

    def module(self, parameters: Vector, statistics: ObservationStatistics | None) -> "torch.nn.Module":
        """One candidate as a torch module of linear layers."""
        from es_core.policies.torch_mlp import TorchMLP

        return TorchMLP(self, parameters, statistics)


class MLPNetwork(Network):
    """The perceptrons of ``rows`` candidates, in NumPy."""

    def __init__(self, policy: MLP, rows: int) -> None:
        self.parameters = np.zeros((rows, policy.size), np.float32)
        self._layers = split(self.parameters, policy.shapes)
        self._extended = [np.ones((rows, shape[1]), np.float32) for shape in policy.shapes]
        self._raw = np.empty((rows, policy.outputs), np.float32)
        self._activate = ACTIVATIONS[policy.activation]
        self.inputs = self._extended[0]
        self._passes: dict[int, tuple[list[Callable[[], object]], Vector]] = {}

    def forward(self, width: int) -> Vector:
        """Raw outputs ``(width, m)``."""
        calls, raw = self._passes.get(width) or self._compile(width)
        for call in calls:
            call()
        return raw

    def _compile(self, width: int) -> tuple[list[Callable[[], object]], Vector]:
        """The calls of a forward pass, with all their arguments: making views again at each step would cost more."""
        calls: list[Callable[[], object]] = []
        raw = self._raw[:width]
        targets = [*(extended[:width, :-1] for extended in self._extended[1:]), raw]
        for layer, source, target in zip(self._layers, self._extended, targets, strict=True):
            if width == 1:  # the same bits as from matvec, in half the time
                calls.append(partial(layer[0].dot, source[0], target[0]))
            else:
                calls.append(partial(np.matvec, layer[:width], source[:width], target))
            calls.append(partial(self._activate, target, target))
        self._passes[width] = calls[:-1], raw
        return self._passes[width]


def split(parameters: Vector, shapes: Sequence[tuple[int, int]]) -> list[Vector]:
    """The layers' matrices ``(..., outputs, inputs + 1)``, as views of ``parameters`` ``(..., d)``."""
    matrices, start = [], 0
    for shape in shapes:
        matrices.append(parameters[..., start : start + math.prod(shape)].reshape(*parameters.shape[:-1], *shape))
        start += math.prod(shape)
    return matrices
