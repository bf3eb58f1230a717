"""The base class of policies: a layout of parameters for given spaces, and the meaning of the raw outputs."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.actions import make_actions
from es_core.policies.normalization import Normalization, ObservationStatistics, Statistics
from es_envs.spaces import encoder, input_size

if TYPE_CHECKING:
    import torch

    from es_core.policies.batched_layers import Rows

Vector = NDArray[np.float32]


class Policy(ABC):
    """A kind of network for given spaces: number and initial values of its parameters, and ways to compute it.

    Args:
        config: the run's config with the policy's settings.
        observation_space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict and Tuple of these, nested or not.
        action_space: of the environment.

    Attributes:
        inputs: length ``n`` of a flattened observation.
        actions: meaning of its raw outputs.
        outputs: number ``m`` of raw outputs.
        engines: names of the engines that can compute it.
        size: number ``d`` of parameters.
        encode: function that writes an observation into ``(n,)`` float32.

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
        """Normalisation of observations by ``statistics``; None if they are not normalised."""
        if not isinstance(statistics, ObservationStatistics):
            return None
        return statistics.normalization(std_floor=self.config.observation_std_floor, clip=self.config.observation_clip)

    def effective_parameters(self, parameters: Vector, statistics: Statistics | None) -> Vector:  # noqa: ARG002
        """Parameters ``(d,)`` of the forward pass: a reference batch's normalisation, if any, is folded into them."""
        return parameters

    @abstractmethod
    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``."""

    @abstractmethod
    def batched(self, parameters: "torch.Tensor") -> "Rows":
        """Forward passes of many candidates, whose parameters ``(rows, d)`` are on a device."""

    @abstractmethod
    def module(self, parameters: Vector, statistics: Statistics | None) -> "torch.nn.Module":
        """One candidate as a torch module: flattened observations ``(batch, n)`` to the decisive raw outputs.

        A recurrent policy's module takes the state that the last call returned, too (None at an episode's start), and
        returns raw outputs and state.
        """
