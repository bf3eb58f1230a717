"""Initial weights of a policy made of layers."""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from es_core import seeding
from es_core.machine import one_blas_thread
from es_core.policies.layers import Cell, Layer, matrices, size_of
from es_core.policies.network import Vector
from es_core.policies.noise import noise


def initialized(rule: str, layers: Sequence[Layer], seed: int, *, output_scale: float) -> Vector:
    """The initial parameters ``(d,)``; biases are 0, except with "torch".

    - "fan_in": weights N(0, 1/inputs) (LeCun et al. 1998).
    - "normc": N(0, 1), each unit's weights then scaled to length 1 (Salimans et al. 2017, their released code).
    - "orthogonal": rows, or columns if there are fewer, of length 1 at right angles (Saxe et al. 2014).
    - "torch": as torch's layers begin: weights and biases uniform within 1/sqrt(inputs), those of a recurrent layer
      within 1/sqrt(outputs).
    - "zeros": all 0 (Mania et al. 2018).

    Args:
        rule: one of these; recurrent and convolutional matrices are treated like any other.
        layers: one after the other.
        seed: the root seed of a run.
        output_scale: factor of the last layer's weights. Small first outputs (Salimans et al. 2017: 0.01) let the
            noise of the search choose the action.
    """
    parameters = np.zeros(size_of(layers), np.float32)
    by_layer = matrices(parameters, layers)
    seed = seeding.derive(seed, seeding.Purpose.INITIAL_MEAN)
    if rule == "torch":
        _fill_as_torch(parameters, layers, seed)
    elif rule != "zeros":
        noise(seed, parameters)
        for layer, own in zip(layers, by_layer, strict=True):
            for matrix in own:
                inputs = matrix.shape[1] - layer.bias
                _FROM_NOISE[rule](matrix[:, :inputs])
                matrix[:, inputs:] = 0
    by_layer[-1][0][:] *= output_scale
    return parameters


def _scale_by_inputs(weights: Vector) -> None:
    weights /= math.sqrt(max(1, weights.shape[1]))


def _scale_to_length_one(weights: Vector) -> None:
    weights /= np.sqrt(np.square(weights).sum(1, keepdims=True))


def _orthogonalize(weights: Vector) -> None:
    """Replace weights by the Q of their QR decomposition, made unique by the signs of R's diagonal.

    ``torch.nn.init.orthogonal_`` does the same.
    """
    tall = weights if len(weights) >= weights.shape[1] else weights.T
    with one_blas_thread():
        q, r = np.linalg.qr(tall)
    tall[:] = q * np.sign(np.diag(r))


_FROM_NOISE: Mapping[str, Callable[[Vector], None]] = {
    "fan_in": _scale_by_inputs,
    "normc": _scale_to_length_one,
    "orthogonal": _orthogonalize,
}


def _fill_as_torch(parameters: Vector, layers: Sequence[Layer], seed: int) -> None:
    parameters[:] = 2 * seeding.generator(seed).random(len(parameters), np.float32) - 1
    for layer, own in zip(layers, matrices(parameters, layers), strict=True):
        for matrix in own:
            matrix[:] /= math.sqrt(layer.outputs if isinstance(layer, Cell) else max(1, matrix.shape[1] - layer.bias))
