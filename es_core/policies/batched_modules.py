"""Users' modules in use: many candidates in one module, and one candidate behind flattened observations.

Imports torch.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from es_core.policies.batched_layers import Rows
from es_core.policies.network import Vector
from es_core.policies.normalization import Normalization
from es_core.policies.torch_module import Normalized

State = Tensor | tuple[Tensor, ...]


class BatchedModule(Rows):
    """A user's module that computes many candidates, each with its own parameters.

    Args:
        module: the module, used by this object alone.
        observation_shape: shape of one observation.
        parameters: ``(rows, d)`` on the device that computes; others write to it.
        together: all rows in one pass by ``torch.vmap``, as far as torch can; else one after the other, which gives
            the same bits whatever the number of rows (``vmap`` takes other kernels, and knows no ``nn.LSTM``).
    """

    def __init__(
        self, module: nn.Module, observation_shape: tuple[int, ...], parameters: Tensor, *, together: bool
    ) -> None:
        self._module, self._shape = module.to(parameters.device), observation_shape
        self._own = list(module.parameters())
        stacked = split(parameters, self._own)
        self._views = [list(views) for views in zip(*stacked, strict=True)]
        self._stacked = dict(zip(dict(module.named_parameters()), stacked, strict=True))
        self._has_state = has_state(module)
        begin = self._initial_state(0)
        self._is_tuple = isinstance(begin, tuple)
        # On the device of the parameters, wherever a module makes its initial state.
        self.memory = [
            torch.zeros(len(parameters), *part.shape, dtype=part.dtype, device=parameters.device)
            for part in parts_of(begin)
        ]
        for row in range(len(parameters)):
            self.reset(row)
        self.together = together and self._can_vmap()

    def forward(self, inputs: Tensor) -> Tensor:
        """Compute the raw outputs ``(width, m)`` of the first rows from their inputs ``(width, n)``."""
        observations = inputs.view(len(inputs), 1, *self._shape)
        # Convolutions in TF32, or by an algorithm that is chosen by timing, would not be those of the CPU.
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            return (self._vmapped if self.together else self._one_by_one)(observations)

    def _one_by_one(self, observations: Tensor) -> Tensor:
        outputs = []
        for row, observation in enumerate(observations):
            self._use(row)
            if self._has_state:
                output, state = self._module(observation, self._state(row))
                for buffer, part in zip(self.memory, parts_of(state), strict=True):
                    buffer[row].copy_(part)
            else:
                output = self._module(observation)
            outputs.append(output)
        return torch.cat(outputs)

    def _vmapped(self, observations: Tensor) -> Tensor:
        width = len(observations)
        parameters = {name: values[:width] for name, values in self._stacked.items()}
        if not self._has_state:
            outputs: Tensor = torch.vmap(self._call)(parameters, observations)
            return outputs.squeeze(1)
        outputs, after = torch.vmap(self._call)(parameters, observations, self._state(slice(width)))
        for buffer, part in zip(self.memory, parts_of(after), strict=True):
            buffer[:width].copy_(part)
        return outputs.squeeze(1)

    def _call(self, parameters: dict[str, Tensor], *arguments: Any) -> Any:
        return torch.func.functional_call(self._module, parameters, arguments)

    def _can_vmap(self) -> bool:
        try:
            with torch.inference_mode():
                self._vmapped(torch.zeros(len(self._views), 1, *self._shape, device=self._own[0].device))
        except RuntimeError:
            return False
        finally:
            for row in range(len(self._views)):
                self.reset(row)
        return True

    def _use(self, row: int) -> None:
        """Let the module's parameters be those of ``row``."""
        for parameter, view in zip(self._own, self._views[row], strict=True):
            parameter.data = view

    def _state(self, rows: int | slice) -> State:
        parts = tuple(buffer[rows] for buffer in self.memory)
        return parts if self._is_tuple else parts[0]

    def _initial_state(self, row: int) -> State:
        self._use(row)  # the initial state may be evolved, too
        return self._module.initial_state(1) if self._has_state else ()  # type: ignore[operator]

    def reset(self, row: int) -> None:
        """Let ``row`` begin as its module's ``initial_state`` says."""
        for buffer, part in zip(self.memory, parts_of(self._initial_state(row)), strict=True):
            buffer[row].copy_(part)


class Flattened(nn.Module):
    """A user's module that takes flattened observations ``(batch, n)``, and normalises them.

    Args:
        module: the user's module.
        observation_shape: shape of one observation, as the module takes it.
        parameters: ``(d,)`` float32; copied.
        normalization: normalisation of observations, or None.
        decisive: number of raw outputs to return, from the first on.

    Attributes:
        module: the user's module with these parameters.
        is_recurrent: True if it has a state.
    """

    def __init__(
        self,
        module: nn.Module,
        observation_shape: tuple[int, ...],
        parameters: Vector,
        normalization: Normalization | None,
        decisive: int,
    ) -> None:
        super().__init__()
        self.normalized, self.module, self._shape = Normalized(normalization), module, observation_shape
        self._decisive = decisive
        self.is_recurrent = has_state(module)
        own = list(module.parameters())
        for parameter, values in zip(own, split(torch.from_numpy(parameters), own), strict=True):
            parameter.copy_(values)
            parameter.requires_grad_(True)

    def forward(self, observations: Tensor, state: State | None = None) -> Tensor | tuple[Tensor, State]:
        """The decisive raw outputs; with a state, those and the state for the next step.

        Args:
            observations: flattened, ``(batch, n)``.
            state: the state that the last step returned; None at the episodes' start.
        """
        shaped = self.normalized(observations).reshape(observations.shape[0], *self._shape)  # len() is fixed by export
        if not self.is_recurrent:
            return self.module(shaped)[:, : self._decisive]  # type: ignore[no-any-return]
        begin = self.initial_state(len(shaped)) if state is None else state
        outputs, after = self.module(shaped, begin)
        return outputs[:, : self._decisive], after

    def initial_state(self, batch: int) -> State:
        """State at an episode's start, for a module with a state."""
        return self.module.initial_state(batch)  # type: ignore[no-any-return, operator]


def split(parameters: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """Views ``(..., *shape)`` of ``parameters`` ``(..., d)``, one for each tensor in ``like``."""
    ends = np.cumsum([0, *(each.numel() for each in like)]).tolist()
    return [
        parameters[..., start:end].view(*parameters.shape[:-1], *each.shape)
        for each, (start, end) in zip(like, pairwise(ends), strict=True)
    ]


def has_state(module: nn.Module) -> bool:
    """Return True if a module takes and returns a state."""
    return callable(getattr(module, "initial_state", None))


def parts_of(state: State) -> Sequence[Tensor]:
    """The tensors of a state.

    Raises:
        ValueError: the state is neither a tensor nor a tuple of tensors.
    """
    parts: tuple[Any, ...] = (state,)
    if type(state) is tuple:  # a namedtuple's names would be lost
        parts = state
    if not all(isinstance(part, Tensor) for part in parts):
        raise ValueError(f"a state must be a tensor or a plain tuple of tensors, got {described(state)}")
    return parts


def described(value: Any) -> str:
    """Describe what a forward pass returned, for a message."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)}"
    if isinstance(value, tuple):
        name = "" if type(value) is tuple else type(value).__name__
        return f"{name}({', '.join(map(described, value))})"
    return repr(value)
