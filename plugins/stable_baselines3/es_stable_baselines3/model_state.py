"""The state of a model of Stable-Baselines3 as arrays and numbers by name, without pickle. Imports torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

_MOST_KEPT, _MOST_BYTES = 50_000, 64_000_000  # transitions of a replay buffer in a checkpoint, and their bytes
_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_n_calls", "exploration_rate")
_BUFFER = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def state_of(model: Any) -> dict[str, Any]:
    """Copies of what a model needs in order to go on with new episodes: networks, optimisers, counters, transitions.

    Of a large replay buffer there are the latest transitions alone; all else is complete. Randomness is not in it.
    """
    dicts, tensors = model._get_torch_save_params()  # noqa: SLF001  (what SB3's own ``save`` takes)
    state: dict[str, Any] = {}
    for name in dicts:
        part = _attribute(model, name).state_dict()
        if "param_groups" in part:  # an optimiser; its settings are the algorithm's
            for index, entries in part["state"].items():
                state |= {f"{name}/{index}/{key}": _array(value) for key, value in entries.items()}
        else:
            state |= {f"{name}/{key}": _array(value) for key, value in part.items()}
    state |= {name: _array(_attribute(model, name)) for name in tensors}
    state |= {name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)}
    buffer = getattr(model, "replay_buffer", None)
    return state if buffer is None else {**state, **_buffer_state(buffer)}


def load_state(model: Any, state: Mapping[str, Any]) -> None:
    """Let a model go on from ``state_of`` another one with the same hyperparameters.

    Raises:
        KeyError, ValueError, RuntimeError: the state is not that of such a model.
    """
    dicts, tensors = model._get_torch_save_params()  # noqa: SLF001
    with torch.no_grad():
        for name in dicts:
            target = _attribute(model, name)
            part = target.state_dict()
            if "param_groups" in part:
                part["state"] = _optimizer_state(name, state)
            else:
                part = {key: _tensor(state[f"{name}/{key}"], value) for key, value in part.items()}
            target.load_state_dict(part)
        for name in tensors:
            value = _attribute(model, name)
            value.copy_(_tensor(state[name], value))
    for name in _COUNTERS:
        if hasattr(model, name):
            setattr(model, name, type(getattr(model, name))(state[name]))
    if getattr(model, "replay_buffer", None) is not None:
        _load_buffer(model.replay_buffer, state)


def _optimizer_state(name: str, state: Mapping[str, Any]) -> dict[int, dict[str, torch.Tensor]]:
    found: dict[int, dict[str, torch.Tensor]] = {}
    for key, value in state.items():
        if key.startswith(f"{name}/"):
            index, _, entry = key.removeprefix(f"{name}/").partition("/")
            tensor = torch.from_numpy(np.array(value))
            found.setdefault(int(index), {})[entry] = tensor.reshape(()) if entry == "step" else tensor
    return found


def _buffer_state(buffer: Any) -> dict[str, Any]:
    """The buffer's latest transitions; if these are all of them, as they lie, so that the same are drawn again."""
    held = buffer.buffer_size if buffer.full else buffer.pos
    row_bytes = sum(getattr(buffer, name)[:1].nbytes for name in _BUFFER)
    kept = min(held, _MOST_KEPT, _MOST_BYTES // max(1, row_bytes))
    rows = np.arange(held) if kept == held else (buffer.pos - kept + np.arange(kept)) % buffer.buffer_size
    arrays = {f"replay_buffer/{name}": getattr(buffer, name)[rows] for name in _BUFFER}
    return {**arrays, "replay_position": int(buffer.pos if kept == held else kept)}


def _load_buffer(buffer: Any, state: Mapping[str, Any]) -> None:
    kept = min(len(state["replay_buffer/rewards"]), buffer.buffer_size)
    for name in _BUFFER:
        rows = state[f"replay_buffer/{name}"][-kept:] if kept else state[f"replay_buffer/{name}"][:0]
        getattr(buffer, name)[:kept] = rows
    buffer.full = kept == buffer.buffer_size
    buffer.pos = int(state["replay_position"]) % buffer.buffer_size if buffer.full else kept


def _attribute(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = getattr(model, part)
    return model


def _array(value: Any) -> NDArray[Any]:
    return np.atleast_1d(torch.as_tensor(value).detach().cpu().numpy()).copy()


def _tensor(value: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    if value.size != like.numel():
        raise ValueError(f"the state has {value.size} numbers where the model has {like.numel()}")
    return torch.from_numpy(np.array(value)).reshape(like.shape).to(like.dtype)
