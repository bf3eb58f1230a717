"""One candidate as a torch module of torch's own layers: differentiable, exportable, in batches. Imports torch."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from es_core.policies.layers import Cell, Convolution, Dense, ImageEncoder, Layer, matrices
from es_core.policies.network import Vector
from es_core.policies.normalization import Normalization

_ACTIVATIONS: Mapping[str | None, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, None: nn.Identity}
_CELLS: Mapping[str, Callable[[int, int], nn.Module]] = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}
State = Tensor | tuple[Tensor, Tensor]


class Normalized(nn.Module):
    """Normalisation of observations ``(batch, n)``.

    Args:
        normalization: how they are normalised, or None.
    """

    center: Tensor
    scale: Tensor

    def __init__(self, normalization: Normalization | None) -> None:
        super().__init__()
        self.is_active = normalization is not None
        if normalization is not None:
            self.register_buffer("center", torch.from_numpy(normalization.center))
            self.register_buffer("scale", torch.from_numpy(normalization.scale))
            self.clip = normalization.clip

    def forward(self, observations: Tensor) -> Tensor:
        """Centre, scale and clip ``observations``, if they are normalised."""
        if not self.is_active:
            return observations
        inputs = (observations - self.center) * self.scale
        return inputs if self.clip is None else inputs.clamp(-self.clip, self.clip)


class LayeredModule(nn.Module):
    """A built-in policy: raw outputs within 1e-5 of the compiled engine's.

    Args:
        layers: the policy's layers.
        decisive: number of outputs that decide the action.
        parameters: ``(d,)`` float32; copied.
        normalization: normalisation of observations, or None.

    Attributes:
        is_recurrent: True if it has a state.
    """

    def __init__(
        self, layers: Sequence[Layer], decisive: int, parameters: Vector, normalization: Normalization | None
    ) -> None:
        super().__init__()
        self.normalized, self._decisive = Normalized(normalization), decisive
        own = matrices(torch.from_numpy(parameters.copy()), layers)
        self.layers = nn.ModuleList(_MODULES[type(layer)](layer, own) for layer, own in zip(layers, own, strict=True))
        self.is_recurrent = any(isinstance(layer, Cell) for layer in layers)

    def forward(self, observations: Tensor, state: State | None = None) -> Tensor | tuple[Tensor, State]:
        """The decisive raw outputs; a recurrent policy's with the state for the next step.

        Args:
            observations: flattened, ``(batch, n)``.
            state: a recurrent policy's state as the last step returned it; None at the episodes' start.
        """
        values = self.normalized(observations)
        for layer in self.layers:
            if isinstance(layer, nn.RNNCellBase):
                state = layer(values, state)
                values = state[0] if isinstance(state, tuple) else state
            else:
                values = layer(values)
        values = values[:, : self._decisive]
        return (values, state) if self.is_recurrent else values  # type: ignore[return-value]

    def initial_state(self, batch: int) -> State:
        """A recurrent policy's first state: zeros ``(batch, outputs)`` for each of its layer's states."""
        [cell] = [layer for layer in self.layers if isinstance(layer, nn.RNNCellBase)]
        zeros = torch.zeros(batch, cell.hidden_size)
        return (zeros, zeros.clone()) if isinstance(cell, nn.LSTMCell) else zeros


def _dense(layer: Dense, own: Sequence[Tensor]) -> nn.Module:
    linear = nn.Linear(layer.inputs, layer.outputs, bias=layer.bias)
    _fill(linear.weight, own[0][:, : layer.inputs])
    if layer.bias:
        _fill(linear.bias, own[0][:, -1])
    return nn.Sequential(linear, _ACTIVATIONS[layer.activation]())


def _cell(layer: Cell, own: Sequence[Tensor]) -> nn.Module:
    cell = _CELLS[layer.kind](layer.inputs, layer.outputs)
    for matrix, name in zip(own, ("ih", "hh"), strict=True):
        _fill(cell.get_parameter(f"weight_{name}"), matrix[:, :-1])
        _fill(cell.get_parameter(f"bias_{name}"), matrix[:, -1])
    return cell


class _ImageEncoder(nn.Module):
    def __init__(self, layer: ImageEncoder, own: Sequence[Tensor]) -> None:
        super().__init__()
        self.layer, filters = layer, iter(own)
        self.eyes = nn.ModuleList(  # a name in the parameters' names, which exported files and saved states have
            nn.Sequential(*(part for each in encoded.convolutions for part in _convolution(each, next(filters))))
            for encoded in layer.images
        )

    def forward(self, inputs: Tensor) -> Tensor:
        features = []
        for encoded, convolutions in zip(self.layer.images, self.eyes, strict=True):
            images = inputs[:, encoded.place].reshape(-1, *encoded.shape) / 255
            images = images if encoded.channels_first else images.permute(0, 3, 1, 2)
            features.append(convolutions(images).permute(0, 2, 3, 1).flatten(1))
        return torch.cat([*features, *(inputs[:, part] for part in self.layer.others)], 1)


def _convolution(convolution: Convolution, own: Tensor) -> Sequence[nn.Module]:
    size, channels = convolution.size, convolution.image[2]
    module = nn.Conv2d(channels, convolution.filters, size, convolution.stride)
    _fill(module.weight, own[:, :-1].view(-1, size, size, channels).permute(0, 3, 1, 2))
    _fill(module.get_parameter("bias"), own[:, -1])
    return module, nn.ReLU()


def _fill(parameter: Tensor, values: Tensor) -> None:
    with torch.no_grad():
        parameter.copy_(values)


_MODULES: Mapping[type, Callable[..., nn.Module]] = {Dense: _dense, Cell: _cell, ImageEncoder: _ImageEncoder}
