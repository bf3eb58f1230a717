"""Virtual batch normalisation: hidden layers normalised by what a candidate makes of a reference batch.

Salimans et al. 2016 (arXiv 1606.03498), section 3.5, as Salimans et al. 2017 used it: mean and variance of a unit are
those that its pre-activations have on the reference batch alone. They are numbers of the candidate, so that they can be
folded into its parameters when it is loaded, and a forward pass is that of any other policy. A unit's bias is the
shift that follows the normalisation; there is no gain, which the next layer's weights can express.
"""

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from es_core.config import TrainConfig
from es_core.machine import one_blas_thread
from es_core.policies.layers import Cell, Convolution, Dense, Eyes, Layer, matrices
from es_core.policies.network import Vector

_EPSILON = np.float32(1e-5)  # beside variances of about 1; a unit that never moves is not blown up without bounds


def require_fitting(config: TrainConfig, layers: Sequence[Layer]) -> None:
    """Refuse what there is nothing to normalise in, or what is normalised already.

    Raises:
        ValueError: it says why.
    """
    if config.observation_normalization:
        raise ValueError(
            "virtual_batch_normalization and observation_normalization exclude each other: the first normalises the "
            "first layer's outputs, whatever scale its inputs have; set one to False"
        )
    if any(isinstance(layer, Cell) for layer in layers):
        raise ValueError(
            f"virtual_batch_normalization is not for policy={config.policy!r}: what a recurrent layer puts out depends "
            "on an episode, and a reference batch has none"
        )
    if len(layers) == 1:
        raise ValueError("virtual_batch_normalization normalises hidden layers, and this policy has none")


def fold_in(layers: Sequence[Layer], parameters: Vector, observations: Vector) -> None:
    """Normalise all layers but the last by ``observations``, by changing ``parameters``.

    Args:
        layers: one after the other.
        parameters: ``(d,)``, changed in place.
        observations: ``(batch, n)``.
    """
    values = observations
    with one_blas_thread():
        for layer, own in zip(layers[:-1], matrices(parameters, layers), strict=False):
            if isinstance(layer, Eyes):
                values = _see(layer, own, values)
            elif isinstance(layer, Dense):
                values = _normalize(own[0], values @ own[0][:, :-1].T)
                np.maximum(values, 0, out=values) if layer.activation == "relu" else np.tanh(values, out=values)


def _normalize(matrix: Vector, products: Vector) -> Vector:
    """``products`` ``(..., outputs)`` of weights and inputs, normalised; outputs of ``matrix`` are, from now on."""
    weights, bias = matrix[:, :-1], matrix[:, -1]
    units = products.reshape(-1, len(matrix))
    mean = units.mean(0, dtype=float).astype(np.float32)
    scale = 1 / np.sqrt(units.var(0, dtype=float).astype(np.float32) + _EPSILON)
    normalized: Vector = (products - mean) * scale + bias
    weights *= scale[:, np.newaxis]
    bias -= mean * scale
    return normalized


def _see(layer: Eyes, own: Sequence[Vector], inputs: Vector) -> Vector:
    filters, batch = iter(own), len(inputs)
    features = []
    for eye in layer.eyes:
        pixels = inputs[:, eye.place].reshape(batch, *eye.shape)
        images = (np.moveaxis(pixels, 1, -1) if eye.channels_first else pixels) * np.float32(1 / 255)
        for convolution in eye.convolutions:
            matrix = next(filters)
            # Image by image: the patches of all would take a hundred megabytes.
            products = np.stack([_patches(convolution, image) @ matrix[:, :-1].T for image in images])
            images = np.maximum(_normalize(matrix, products), 0).reshape(batch, *convolution.output)
        features.append(images.reshape(batch, -1))
    return np.concatenate([*features, *(inputs[:, part] for part in layer.others)], 1)


def _patches(convolution: Convolution, image: Vector) -> Vector:
    """``(height * width, size * size * channels)``."""
    size, stride = convolution.size, convolution.stride
    windows = sliding_window_view(image, (size, size), axis=(0, 1))[::stride, ::stride]
    return windows.transpose(0, 1, 3, 4, 2).reshape(windows.shape[0] * windows.shape[1], -1)
