"""A policy for export: one torch module, from the environment's observation to the action it takes.

Imports torch.
"""

import re
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from es_core.config.train_config import TrainConfig
from es_core.policies.actions import Actions, bins, group_columns, typed, value_table
from es_core.policies.batched_modules import State, parts_of
from es_core.policies.network import Policy
from es_envs.spaces import leaves

MASK = "action_mask"
"""Name of the input for the mask of the actions."""


class Deployed(nn.Module):
    """A self-contained policy: it flattens and normalises observations and decodes actions.

    ``forward(*observations, *states) -> (*actions, *states)``, all with the batch as first dimension. There is an
    observation for each space in the observation space, in the shape and dtype that the environment returns, an action
    for each space in the action space, and a state for each tensor that the policy remembers, zero when an episode
    begins. If it is ``masked``, the mask of the actions comes after the observations: True for each choice, those of
    all entries in a row, that is allowed.

    Args:
        policy: the policy.
        module: module made by ``policy.module``: flattened observations to the raw outputs that decide an action.
        masked: True if the environment gives masks of actions.

    Attributes:
        inputs: names of the observations, the mask and the states.
        outputs: names of the actions and of the states that follow.
        examples: zeros for each observation and state, for a batch of 2, and a mask that allows all.
        action: module from raw outputs to actions; its ``margins`` are their distances from those of another action.

    Raises:
        ValueError: the states of a user's module do not grow with the batch.
    """

    def __init__(self, policy: Policy, module: nn.Module, *, masked: bool = False) -> None:
        super().__init__()
        parts = list(leaves(policy.observation_space, "observation"))
        self.observations = nn.ModuleList(observation_of(space) for _, _, space in parts)
        self.module = module.requires_grad_(requires_grad=False).eval()
        self.memory = _Memory(module) if module.is_recurrent else None
        self.action, self.masked = action_of(policy), masked
        actions = _identifiers([name for name, _, _ in leaves(policy.action_space, "action")])
        states = self.memory.names if self.memory else []
        mask = [MASK] if masked else []
        self.inputs = [*_identifiers([name for name, _, _ in parts]), *mask, *states]
        self.outputs = [*actions, *(f"next_{name}" for name in states)]
        examples = [torch.from_numpy(np.zeros((2, *(space.shape or ())), space.dtype)) for _, _, space in parts]
        choices = [torch.ones(2, policy.actions.decisive, dtype=torch.bool)] if masked else []
        self.examples = (*examples, *choices, *(self.memory.examples if self.memory else ()))

    def forward(self, *values: Tensor) -> tuple[Tensor, ...]:
        """Actions ``(batch, ...)`` as the environment takes them, and the states for the next step."""
        raw, *states = self.decide(*values)
        return *self.action(raw), *states

    def decide(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The raw outputs ``(batch, m)`` of which ``action`` makes actions, and the states for the next step."""
        count = len(self.observations)
        observations, mask, states = values[:count], values[count : count + self.masked], values[count + self.masked :]
        flat = [flatten(value) for flatten, value in zip(self.observations, observations, strict=True)]
        inputs = torch.cat(flat, 1)
        if self.memory is None:
            return (_masked(self.module(inputs), *mask),)
        raw, state = self.module(inputs, self.memory.recalled(states))
        return _masked(raw, *mask), *self.memory.kept(state)


def _masked(raw: Tensor, mask: Tensor | None = None) -> Tensor:
    return raw if mask is None else raw.masked_fill(~mask, -torch.inf)


def _identifiers(names: Sequence[str]) -> list[str]:
    """``observation['arm'][0]`` as ``observation_arm_0``: programs that read the file make variables of the names."""
    found = [re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_") for name in names]
    if len(set(found)) < len(found):
        return [f"{name}_{number}" for number, name in enumerate(found)]
    return found


def observation_of(space: gymnasium.Space[Any]) -> nn.Module:
    """Module that flattens ``(batch, *shape)`` to ``(batch, n)`` float32, as ``gymnasium.spaces.flatten`` does."""
    match space:
        case spaces.Discrete():
            return _OneHot([int(space.n)], [int(space.start)])
        case spaces.MultiDiscrete():
            return _OneHot(space.nvec.ravel().tolist(), space.start.ravel().tolist())
        case _:
            return _Numbers()


class _Numbers(nn.Module):
    def forward(self, values: Tensor) -> Tensor:
        return values.reshape(values.shape[0], -1).to(torch.float32)


class _OneHot(nn.Module):
    """One-hot encoding of each entry."""

    entry: Tensor
    value: Tensor

    def __init__(self, sizes: Sequence[int], starts: Sequence[int]) -> None:
        super().__init__()
        self.register_buffer("entry", torch.from_numpy(np.repeat(np.arange(len(sizes)), sizes)))
        values = [np.arange(start, start + size) for size, start in zip(sizes, starts, strict=True)]
        self.register_buffer("value", torch.from_numpy(np.concatenate(values)))

    def forward(self, values: Tensor) -> Tensor:
        entries = values.reshape(values.shape[0], -1).to(torch.int64)
        return (entries.index_select(1, self.entry) == self.value).to(torch.float32)


class _Memory:
    """States as an exported file has them: batch first, and zero when an episode begins, wherever the module begins.

    Attributes:
        names: the states' names.
        examples: zeros for each, for a batch of 2.
    """

    def __init__(self, module: nn.Module) -> None:
        begin: State = module.initial_state(1)  # type: ignore[operator]
        pairs = list(zip(parts_of(begin), parts_of(module.initial_state(2)), strict=True))  # type: ignore[operator]
        self._is_tuple = isinstance(begin, tuple)
        self._batch = [_differing(one.shape, two.shape) for one, two in pairs]
        starts = [one.detach().movedim(at, 0) for (one, _), at in zip(pairs, self._batch, strict=True)]
        self._starts = [start if start.any() else None for start in starts]
        self.names = ["state"] if len(pairs) == 1 else [f"state_{number}" for number in range(len(pairs))]
        self.examples = tuple(start.new_zeros(2, *start.shape[1:]) for start in starts)

    def recalled(self, states: Sequence[Tensor]) -> State:
        """Convert states to the module's own form."""
        parts = zip(states, self._starts, self._batch, strict=True)
        own = tuple((state if start is None else state + start).movedim(0, at) for state, start, at in parts)
        return own if self._is_tuple else own[0]

    def kept(self, state: State) -> list[Tensor]:
        """Convert the module's own state to states."""
        own = [part.movedim(at, 0) for part, at in zip(parts_of(state), self._batch, strict=True)]
        return [part if start is None else part - start for part, start in zip(own, self._starts, strict=True)]


def _differing(one: Sequence[int], two: Sequence[int]) -> int:
    for at, sizes in enumerate(zip(one, two, strict=False)):
        if sizes == (1, 2):
            return at
    raise ValueError(
        f"the policy's initial_state(batch) has the shape {tuple(one)} for a batch of 1 and {tuple(two)} for one of 2: "
        "one dimension must be the batch, since the user of the exported file chooses its size"
    )


def action_of(policy: Policy) -> "ActionParts":
    """Module from raw outputs ``(batch, m)`` to actions, as ``make_actions`` says."""
    actions = policy.actions
    return ActionParts(policy.config, policy.action_space, actions.parts or (actions,))


class ActionParts(nn.Module):
    """Raw outputs ``(batch, m)`` to an action ``(batch, *shape)`` for each leaf of the action space, in its order."""

    def __init__(self, config: TrainConfig, space: gymnasium.Space[Any], actions: Sequence[Actions]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(_decoder(config, leaf) for _, _, leaf in leaves(space))
        self._sizes = [part.decisive for part in actions]

    def forward(self, raw: Tensor) -> tuple[Tensor, ...]:
        """The actions."""
        return tuple(part(own) for part, own in zip(self.parts, self._split(raw), strict=True))

    def margins(self, raw: Tensor) -> list[Tensor]:
        """Distance of each from another action, in raw outputs."""
        own = zip(self.parts, self._split(raw), strict=True)
        return [part.margin(outputs) for part, outputs in own]  # type: ignore[operator]

    def _split(self, raw: Tensor) -> Sequence[Tensor]:
        return raw.split(self._sizes, 1)  # type: ignore[no-untyped-call,no-any-return]


def _decoder(config: TrainConfig, space: gymnasium.Space[Any]) -> nn.Module:
    match space:
        case spaces.Box() if config.action_bins is not None:
            return _Chosen(bins(space, config.action_bins)[1](), space)
        case spaces.Box():
            return _Bounded(space, squash=config.action_squash == "tanh")
        case spaces.Discrete():
            return _Chosen([np.arange(space.start, space.start + space.n)], space)
        case spaces.MultiDiscrete():
            values = zip(space.start.tolist(), space.nvec.tolist(), strict=True)
            return _Chosen([np.arange(start, start + size) for start, size in values], space)
        case _:
            return _Bits(space)


class _Bounded(nn.Module):
    """Numbers brought between the bounds of a Box, by clipping, or by tanh first."""

    low: Tensor
    high: Tensor
    stretch: Tensor

    def __init__(self, space: spaces.Box, *, squash: bool) -> None:
        super().__init__()
        exact = np.result_type(np.float32, space.dtype)  # in which NumPy clips
        low, high = space.low.reshape(1, -1), space.high.reshape(1, -1)
        self.register_buffer("low", torch.from_numpy(low.astype(exact)))
        self.register_buffer("high", torch.from_numpy(high.astype(exact)))
        self._shape, self._dtype, self._squash = space.shape, _torch_dtype(space), squash
        if squash:
            width = high.astype(exact) - low.astype(exact)
            self.register_buffer("stretch", torch.from_numpy(width * exact.type(0.5)))

    def _values(self, raw: Tensor) -> Tensor:
        return self.low + (torch.tanh(raw) + 1) * self.stretch if self._squash else raw.to(self.low.dtype)

    def forward(self, raw: Tensor) -> Tensor:
        values = torch.minimum(torch.maximum(self._values(raw), self.low), self.high)
        if not self._dtype.is_floating_point:
            values = values.round()
        return values.reshape(-1, *self._shape).to(self._dtype)

    def margin(self, raw: Tensor) -> Tensor:
        values = self._values(raw)
        if self._dtype.is_floating_point:
            return torch.full_like(values, torch.inf)
        return (values - values.floor() - 0.5).abs()  # they are rounded


class _Chosen(nn.Module):
    """The value that the largest output of each group stands for."""

    columns: Tensor
    is_output: Tensor
    table: Tensor
    row: Tensor

    def __init__(self, values: Sequence[NDArray[Any]], space: gymnasium.Space[Any]) -> None:
        super().__init__()
        sizes = [len(row) for row in values]
        table = typed(value_table(values), space.dtype)  # type: ignore[arg-type]
        self.register_buffer("columns", torch.from_numpy(group_columns(sizes).ravel()))
        self.register_buffer("is_output", torch.from_numpy(np.arange(max(sizes)) < np.array(sizes)[:, np.newaxis]))
        self.register_buffer("table", torch.from_numpy(table.ravel()))
        self.register_buffer("row", torch.arange(0, table.size, max(sizes)))
        self._groups, self._shape = table.shape, space.shape or ()

    def _grouped(self, raw: Tensor) -> Tensor:
        return raw.index_select(1, self.columns).reshape(-1, *self._groups)

    def forward(self, raw: Tensor) -> Tensor:
        chosen = self._grouped(raw).argmax(2) + self.row
        return self.table.index_select(0, chosen.reshape(-1)).reshape(-1, *self._shape)

    def margin(self, raw: Tensor) -> Tensor:
        outputs = self._grouped(raw).masked_fill(~self.is_output, -torch.inf)
        best = outputs.topk(min(2, self._groups[1])).values
        return best[..., 0] - best[..., -1] if best.shape[-1] == 2 else torch.full_like(best[..., 0], torch.inf)


class _Bits(nn.Module):
    """1 where an output is positive."""

    def __init__(self, space: gymnasium.Space[Any]) -> None:
        super().__init__()
        self._shape, self._dtype = space.shape or (), _torch_dtype(space)

    def forward(self, raw: Tensor) -> Tensor:
        return (raw > 0).reshape(-1, *self._shape).to(self._dtype)

    def margin(self, raw: Tensor) -> Tensor:
        return raw.abs()


def _torch_dtype(space: gymnasium.Space[Any]) -> torch.dtype:
    return torch.from_numpy(np.empty(0, space.dtype)).dtype
