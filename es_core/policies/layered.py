"""Policies made of layers, and the table's entries: perceptrons, recurrent and convolutional networks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import gymnasium

from es_core.config.train_config import TrainConfig
from es_core.policies import virtual_batch
from es_core.policies.initialization import initialized
from es_core.policies.layers import (
    Activation,
    Cell,
    Convolution,
    Dense,
    EncodedImage,
    ImageEncoder,
    Layer,
    dense_layers,
    size_of,
)
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ReferenceBatch, Statistics
from es_envs.arguments import require_one_of
from es_envs.spaces import has_channels_first, image_size, input_size, is_image, leaves

if TYPE_CHECKING:
    import torch

    from es_core.policies.batched_layers import Rows


class Layered(Policy):
    """A policy made of layers, the last of which is linear.

    Args:
        config: see ``Policy``.
        observation_space: see ``Policy``.
        action_space: see ``Policy``.
        hidden: the layers between flattened observation and output layer.
        bias: True if the output layer has a bias.

    Attributes:
        layers: all layers, the output layer included.

    Raises:
        ValueError: a space is not supported, or virtual batch normalisation has nothing to normalise.
    """

    def __init__(
        self,
        config: TrainConfig,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        hidden: Sequence[Layer],
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(config, observation_space, action_space)
        last = hidden[-1].outputs if hidden else self.inputs
        self.layers: tuple[Layer, ...] = (*hidden, Dense(last, self.outputs, bias=bias))
        self.size = size_of(self.layers)
        if config.virtual_batch_normalization:
            virtual_batch.require_fitting(config, self.layers)

    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``, by the config's ``initialization`` and ``output_scale``."""
        return initialized(self.config.initialization, self.layers, seed, output_scale=self.config.output_scale)

    def batched(self, parameters: "torch.Tensor") -> "Rows":
        """The layers of all rows in torch."""
        from es_core.policies.batched_layers import BatchedLayers

        return BatchedLayers(self.layers, parameters)

    def effective_parameters(self, parameters: Vector, statistics: Statistics | None) -> Vector:
        """Parameters ``(d,)`` of the forward pass: a reference batch's normalisation, if any, is folded into them."""
        if not isinstance(statistics, ReferenceBatch):
            return parameters
        parameters = parameters.copy()
        virtual_batch.fold_in(self.layers, parameters, statistics.observations)
        return parameters

    def module(self, parameters: Vector, statistics: Statistics | None) -> "torch.nn.Module":
        """One candidate as a torch module of torch's own layers."""
        from es_core.policies.torch_module import LayeredModule

        parameters = self.effective_parameters(parameters, statistics)
        return LayeredModule(self.layers, self.actions.decisive, parameters, self.normalization(statistics))


def linear(config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> Layered:
    """Outputs that are linear in the observation, without bias, whatever hidden_sizes is (Mania et al. 2018).

    Args:
        config: see ``Policy``.
        observation_space: see ``Policy``; no images.
        action_space: see ``Policy``.

    Raises:
        ValueError: a space is not supported.
    """
    _flat_inputs(observation_space)
    return Layered(config, observation_space, action_space, [], bias=False)


def mlp(config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> Layered:
    """A multi-layer perceptron.

    Args:
        config: see ``Policy``; no hidden_sizes make it linear.
        observation_space: see ``Policy``; no images.
        action_space: see ``Policy``.

    Raises:
        ValueError: a space or the activation is not supported.
    """
    inputs = _flat_inputs(observation_space)
    hidden = dense_layers(inputs, config.hidden_sizes, _activation(config.activation))
    return Layered(config, observation_space, action_space, hidden)


def recurrent(
    kind: Literal["rnn", "lstm", "gru"],
    config: TrainConfig,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
) -> Layered:
    """A network that remembers its episode: one recurrent layer, after dense ones, and a linear output layer.

    Args:
        kind: "rnn", "lstm" or "gru"; see ``Cell``.
        config: see ``Policy``; the last of its hidden_sizes is the recurrent layer's, activation the dense layers'.
        observation_space: see ``Policy``; no images.
        action_space: see ``Policy``.

    Raises:
        ValueError: a space or the activation is not supported, or there is no hidden layer.
    """
    sizes = config.hidden_sizes
    if not sizes:
        raise ValueError(
            f"policy={kind!r} needs hidden_sizes: the last is its recurrent layer's, such as (32,); got ()"
        )
    inputs = _flat_inputs(observation_space)
    dense = dense_layers(inputs, sizes[:-1], _activation(config.activation))
    cell = Cell(kind, dense[-1].outputs if dense else inputs, sizes[-1])
    return Layered(config, observation_space, action_space, [*dense, cell])


def _activation(name: str) -> Activation:
    require_one_of("activation", name, get_args(Activation))
    return cast("Activation", name)


def _flat_inputs(space: gymnasium.Space[Any]) -> int:
    """Length of a flattened observation without images."""
    size = input_size(space)
    for name, _, part in leaves(space, "observation space"):
        if is_image(part):
            raise ValueError(
                f"{name} {part} holds images: choose policy='cnn_nature' or 'cnn_small' (on the command line: --policy "
                "cnn_nature), or make each one row of numbers, if it is small: preprocessing with 'flatten': True, and "
                "'resize': 12 for a larger one"
            )
    return size


@dataclass(frozen=True)
class _Architecture:
    """A convolutional policy's layers: filters, size and stride of each convolution, and the dense layer's width."""

    convolutions: Sequence[tuple[int, int, int]]
    dense: int


_ARCHITECTURES: Mapping[str, _Architecture] = {
    "cnn_small": _Architecture([(16, 8, 4), (32, 4, 2)], 256),
    "cnn_nature": _Architecture([(32, 8, 4), (64, 4, 2), (64, 3, 1)], 512),
}


def smallest_image(kind: str) -> int:
    """Pixels that each side of a convolutional policy's images must have."""
    least = 1
    for _, size, stride in reversed(_ARCHITECTURES[kind].convolutions):
        least = (least - 1) * stride + size
    return least


def convolutional(
    kind: Literal["cnn_small", "cnn_nature"],
    config: TrainConfig,
    observation_space: gymnasium.Space[Any],
    action_space: gymnasium.Space[Any],
) -> Layered:
    """A convolutional network for images; its layers are its source's, whatever hidden_sizes and activation are.

    - "cnn_small": 16 filters 8x8 with stride 4, 32 filters 4x4 with stride 2, a dense layer of 256 (Mnih et al. 2013;
      the network with which Salimans et al. 2017 played Atari).
    - "cnn_nature": 32 filters 8x8 with stride 4, 64 filters 4x4 with stride 2, 64 filters 3x3, a dense layer of 512
      (Mnih et al. 2015).

    All have relu as activation. Pixels are divided by 255, and never normalised otherwise. An image is a Box of uint8
    with three dimensions, ``(height, width, channels)`` or, if the first dimension is smaller than the last,
    ``(channels, height, width)``, such as four frames of ``FrameStackObservation``. In a Dict or Tuple each image has
    its own convolutions; all other inputs, smaller pictures among them, enter the dense layer with their features.

    Args:
        kind: one of the two above.
        config: see ``Policy``.
        observation_space: an image, or a Dict or Tuple with one at least.
        action_space: see ``Policy``.

    Raises:
        ValueError: a space is not supported, there is no image, or one is too small.
    """
    architecture, inputs = _ARCHITECTURES[kind], input_size(observation_space)
    parts = list(leaves(observation_space, "observation space"))
    images = tuple(_encoded_image(kind, f"{name} {part}", place, part) for name, place, part in parts if is_image(part))
    if not images:
        raise ValueError(
            f"policy={kind!r} is for images (Box of uint8 with three dimensions, and 20x20 pixels or more), and "
            f"observation space {observation_space} has none: choose policy='mlp' (stacked frames are an image if they "
            "are grey)"
        )
    first = ImageEncoder(inputs, images, tuple(place for _, place, part in parts if not is_image(part)))
    return Layered(config, observation_space, action_space, [first, Dense(first.outputs, architecture.dense, "relu")])


def _encoded_image(kind: str, what: str, place: slice, space: gymnasium.Space[Any]) -> EncodedImage:
    height, width, channels = image_size(space)
    least = smallest_image(kind)
    if min(height, width) < least:
        raise ValueError(
            f"{what} holds images of {height}x{width} pixels, too small for policy={kind!r}, which needs at least "
            f"{least}x{least}: choose policy='cnn_small', or enlarge them (gymnasium.wrappers.ResizeObservation)"
        )
    image, convolutions = (height, width, channels), []
    for filters, size, stride in _ARCHITECTURES[kind].convolutions:
        convolutions.append(Convolution(image, filters, size, stride))
        image = convolutions[-1].output
    first, second, third = space.shape or ()
    return EncodedImage(place, (first, second, third), has_channels_first(space), tuple(convolutions))
