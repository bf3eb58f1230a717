"""Virtual batch normalisation: hidden layers normalised by a candidate's own pre-activations on a reference batch.

Salimans et al. 2016 (arXiv 1606.03498), section 3.5, as Salimans et al. 2017 used it: mean and variance of a unit are
those that its pre-activations have on the reference batch alone. They are numbers of the candidate, so that they can be
folded into its parameters when it is loaded, and a forward pass is that of any other policy. A unit's bias is the
shift that follows the normalisation; there is no gain, which the next layer's weights can express.
"""

from collections.abc import Callable, Sequence

import numpy as np

from es_core.config.train_config import TrainConfig
from es_core.policies import kernels
from es_core.policies.compilation import kernel
from es_core.policies.layers import Cell, Convolution, Dense, ImageEncoder, Layer, matrices
from es_core.policies.network import Vector

_EPSILON = 1e-5  # small next to variances of about 1; a unit that never moves is not blown up without bounds


def require_fitting(config: TrainConfig, layers: Sequence[Layer]) -> None:
    """Refuse a policy that has nothing to normalise, or that is normalised already.

    Raises:
        ValueError: the policy cannot be normalised; the message says why.
    """
    if config.observation_normalization:
        raise ValueError(
            "virtual_batch_normalization and observation_normalization exclude each other: the first normalises the "
            "first layer's outputs, so the scale of its inputs does not matter; set one to False"
        )
    if any(isinstance(layer, Cell) for layer in layers):
        raise ValueError(
            f"virtual_batch_normalization is not for policy={config.policy!r}: a recurrent layer's outputs depend on "
            "an episode, and a reference batch has none"
        )
    if len(layers) == 1:
        raise ValueError("virtual_batch_normalization normalises hidden layers, and this policy has none")


def fold_in(layers: Sequence[Layer], parameters: Vector, observations: Vector) -> None:
    """Normalise all layers except the last by ``observations``, by changing ``parameters``.

    Args:
        layers: one after the other.
        parameters: ``(d,)``, changed in place.
        observations: ``(batch, n)``.
    """

    def normalized(matrix: Vector, units: tuple[int, ...], compute: Callable[[Vector, Vector], object]) -> Vector:
        """Normalise a matrix in place, and return its units' values ``(batch, ..., m)`` before their activation."""
        weights, values = np.ascontiguousarray(matrix.T), np.empty((len(observations), *units), np.float32)
        bias, weights[-1] = weights[-1].copy(), 0
        compute(weights, values)
        weights[-1] = bias
        kernel("normalize")(weights, values.reshape(-1, units[-1]), _EPSILON, *np.zeros((2, units[-1])))
        matrix[:] = weights.T
        return values

    def dense(layer: Dense, matrix: Vector, inputs: Vector) -> Vector:
        values = normalized(
            matrix, (layer.outputs,), lambda weights, out: kernel("products")(weights.ravel(), inputs, out)
        )
        kernel("activate")(kernels.TANH if layer.activation == "tanh" else kernels.RELU, values.ravel())
        return values

    def convolution(layer: Convolution, matrix: Vector, images: Vector) -> Vector:
        (_, width, channels), (rows, columns, filters) = layer.image, layer.output
        how = images.reshape(len(images), -1), width, channels, layer.size, layer.stride

        def compute(weights: Vector, out: Vector) -> None:
            kernel("convolutions")(*how, weights.ravel(), filters, out.reshape(len(out), -1))

        values = normalized(matrix, (rows * columns, filters), compute)
        kernel("activate")(kernels.RELU, values.ravel())
        return values

    def image_encoder(layer: ImageEncoder, own: Sequence[Vector], inputs: Vector) -> Vector:
        filters, features = iter(own), []
        for encoded in layer.images:
            pixels = inputs[:, encoded.place].reshape(-1, *encoded.shape)
            images = (np.moveaxis(pixels, 1, -1) if encoded.channels_first else pixels) * np.float32(1 / 255)
            for each in encoded.convolutions:
                images = convolution(each, next(filters), images)
            features.append(images.reshape(len(inputs), -1))
        return np.concatenate([*features, *(inputs[:, part] for part in layer.others)], 1)

    values = np.ascontiguousarray(observations)
    for layer, own in zip(layers[:-1], matrices(parameters, layers), strict=False):
        if isinstance(layer, ImageEncoder):
            values = image_encoder(layer, own, values)
        elif isinstance(layer, Dense):
            values = dense(layer, own[0], values)
