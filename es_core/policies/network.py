"""What every kind of policy is made of: a layout of parameters for given spaces, and networks that compute with it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.normalizer import Normalization, ObservationStatistics, Statistics
from es_core.policies.actions import Decoder, make_actions
from es_core.policies.spaces import encoder, input_size

if TYPE_CHECKING:
    import torch

    from es_core.policies.torch_rows import Rows

Vector = NDArray[np.float32]


class Network(ABC):
    """Forward passes for several candidates at once, each with parameters of its own in a row of the buffers.

    What a row computes does not depend, to the last bit, on how many rows there are or what is in the others.

    Attributes:
        parameters: ``(rows, d)`` float32.
        inputs: ``(rows, at least n)`` float32, C-contiguous: write observations into the first ``n`` columns. Further
            columns are the network's own, finite.
    """

    parameters: Vector
    inputs: Vector

    @abstractmethod
    def forward(self, width: int) -> Vector:
        """Raw outputs ``(width, m)`` of the first ``width`` rows, in a buffer that the next call overwrites."""

    def load(self, row: int, write: Callable[[Vector], object]) -> None:
        """Let ``write`` put a candidate's parameters into ``row``, a buffer ``(d,)``."""
        write(self.parameters[row])

    def reset(self, row: int) -> None:
        """Forget what ``row`` remembers of its episode."""
        for buffer in self._memory():
            buffer[row] = 0

    def keep(self, rows: Sequence[int]) -> None:
        """Move these rows, in ascending order, to the front; the others are free."""
        for buffer in (self.parameters, self.inputs, *self._memory()):
            for row, old in enumerate(rows):
                if row != old:
                    buffer[row] = buffer[old]

    def _memory(self) -> Sequence[Vector]:
        """What rows remember of their episodes, ``(rows, ...)`` each."""
        return ()


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

    engines: tuple[str, ...] = ("numpy", "torch")
    size: int

    def __init__(
        self, config: TrainConfig, observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]
    ) -> None:
        self.config, self.observation_space, self.action_space = config, observation_space, action_space
        self.actions = make_actions(config, action_space)
        self.inputs, self.outputs = input_size(observation_space), self.actions.outputs
        self.encode = encoder(observation_space)

    @cached_property
    def decode(self) -> Decoder:
        """Makes a list of actions from raw outputs ``(rows, m)``."""
        return self.actions.decoder()

    def normalization(self, statistics: Statistics | None) -> Normalization | None:
        """How observations are normalised by ``statistics``; None: they are not."""
        if not isinstance(statistics, ObservationStatistics):
            return None
        return statistics.normalization(std_floor=self.config.observation_std_floor, clip=self.config.observation_clip)

    def settle(self, parameters: Vector, statistics: Statistics | None) -> None:  # noqa: B027  (often nothing to do)
        """Change ``parameters`` ``(d,)`` in place into those that compute: by a reference batch, if there is one."""

    @abstractmethod
    def initial(self, seed: int) -> Vector:
        """The initial mean ``(d,)``."""

    @abstractmethod
    def network(self, rows: int) -> Network:
        """A network of ``rows`` candidates in NumPy."""

    @abstractmethod
    def torch_rows(self, parameters: "torch.Tensor") -> "Rows":
        """What ``TorchNetwork`` computes candidates with, whose parameters ``(rows, d)`` are on a device."""

    @abstractmethod
    def module(self, parameters: Vector, statistics: Statistics | None) -> "torch.nn.Module":
        """One candidate as a torch module: flattened observations ``(batch, n)`` to the decisive raw outputs.

        Of a recurrent policy: observations and the state that the last call returned (None at an episode's start), to
        raw outputs and state.
        """
