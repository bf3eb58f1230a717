"""What every kind of policy is: a layout of parameters for given spaces, and what its raw outputs mean."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.actions import make_actions
from es_core.policies.normalization import Normalization, ObservationStatistics, Statistics
from es_core.policies.spaces import encoder, input_size

if TYPE_CHECKING:
    import torch

    from es_core.policies.torch_rows import Rows

Vector = NDArray[np.float32]


class Policy(ABC):
    """A kind of network for given spaces: how many parameters it has, and how they begin.

    Args:
        config: of the run: its policy's settings.
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these, nested or not.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.

    Attributes:
        inputs: length ``n`` of a flattened observation.
        actions: what its raw outputs mean.
        outputs: number ``m`` of raw outputs.
        engines: what can compute it.
        size: number ``d`` of parameters.
        encode: writes an observation into ``(n,)`` float32.

    Raises:
        ValueError: a space is not supported, or not with the action settings.
    """

    engines: tuple[str, ...] = ("compiled", "torch")
    size: int

    def __init__(
        self, config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> None:
        self.config, self.observation_space, self.action_space = config, observation_space, action_space
        self.actions = make_actions(config, action_space)
        self.inputs, self.outputs = input_size(observation_space), self.actions.outputs
        self.encode = encoder(observation_space)

    def normalization(self, statistics: Statistics | None) -> Normalization | None:
        """How observations are normalised by ``statistics``; None: they are not."""
        if not isinstance(statistics, ObservationStatistics):
            return None
        return statistics.normalization(std_floor=self.config.observation_std_floor, clip=self.config.observation_clip)

    def settled(self, parameters: Vector, statistics: Statistics | None) -> Vector:  # noqa: ARG002
        """The parameters ``(d,)`` that compute: changed by a reference batch, if there is one."""
        return parameters

    @abstractmethod
    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``."""

    @abstractmethod
    def torch_rows(self, parameters: "torch.Tensor") -> "Rows":
        """What ``TorchNetwork`` computes candidates with, whose parameters ``(rows, d)`` are on a device."""

    @abstractmethod
    def module(self, parameters: Vector, statistics: Statistics | None) -> "torch.nn.Module":
        """One candidate as a torch module: flattened observations ``(batch, n)`` to the decisive raw outputs.

        Of a recurrent policy: observations and the state that the last call returned (None at an episode's start), to
        raw outputs and state.
        """
