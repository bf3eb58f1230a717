"""The same multi-layer perceptron as a torch module: batched, differentiable, exportable. Imports torch."""

import numpy as np
import torch
from numpy.typing import NDArray

from es_core.normalizer import CLIP, ObservationStatistics
from es_core.policies.mlp import MLP, split

_ACTIVATIONS = {"tanh": torch.nn.Tanh, "relu": torch.nn.ReLU}


class TorchMLP(torch.nn.Module):
    """Flattened observations ``(batch, inputs)`` to raw outputs ``(batch, outputs)``, within 1e-5 of the NumPy engine.

    Args:
        policy: gives the layout.
        parameters: ``(d,)`` float32; copied.
        statistics: by which observations are normalised, or None.
    """

    center: torch.Tensor
    scale: torch.Tensor

    def __init__(
        self, policy: MLP, parameters: NDArray[np.float32], statistics: ObservationStatistics | None = None
    ) -> None:
        super().__init__()
        self.normalized = statistics is not None
        center, scale = (statistics or ObservationStatistics.empty(policy.inputs)).mean_and_scale()
        self.register_buffer("center", torch.from_numpy(center))
        self.register_buffer("scale", torch.from_numpy(scale))
        layers: list[torch.nn.Module] = []
        for matrix in split(parameters, policy.shapes):
            layer = torch.nn.Linear(matrix.shape[1] - 1, matrix.shape[0])
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(matrix[:, :-1].copy()))
                layer.bias.copy_(torch.from_numpy(matrix[:, -1].copy()))
            layers += [layer, _ACTIVATIONS[policy.activation]()]
        self.layers = torch.nn.Sequential(*layers[:-1])

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Raw outputs ``(batch, outputs)``."""
        if self.normalized:
            observations = ((observations - self.center) * self.scale).clamp(-CLIP, CLIP)
        return self.layers(observations)  # type: ignore[no-any-return]
