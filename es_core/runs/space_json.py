"""Spaces as JSON, so that a checkpoint can act where its environment is not installed."""

import math
import re
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.formatting import shown
from es_envs.spaces import require_modest


def space_to_json(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """A space as JSON.

    Raises:
        ValueError: the space is not supported, or too large.
    """
    described = _described(space)
    require_modest(_bytes(described))
    return described


def _described(space: gymnasium.Space[Any]) -> dict[str, Any]:
    match space:
        case spaces.Box():
            bounds = {"low": _bound_to_json(space.low), "high": _bound_to_json(space.high)}
            return {"type": "Box", "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
        case spaces.Discrete():
            return {"type": "Discrete", "n": int(space.n), "start": int(space.start), **_unusual_dtype(space)}
        case spaces.MultiDiscrete():
            counts = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
            return {"type": "MultiDiscrete", **counts, **_unusual_dtype(space)}
        case spaces.MultiBinary():
            return {"type": "MultiBinary", "shape": list(space.shape)}
        case spaces.Dict():
            keys = list(space.keys())  # Gymnasium sorts those of a plain dict alone, and files sort all
            order = {} if keys == sorted(keys) else {"order": keys}
            return {"type": "Dict", "spaces": {key: _described(part) for key, part in space.items()}, **order}
        case spaces.Tuple():
            return {"type": "Tuple", "spaces": [_described(part) for part in space]}
        case _:
            raise ValueError(f"space {space} is not supported")


def _unusual_dtype(space: gymnasium.Space[Any]) -> dict[str, str]:
    return {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}


def space_from_json(described: Mapping[str, Any]) -> gymnasium.Space[Any]:
    """The space that ``space_to_json`` described.

    Raises:
        ValueError, KeyError, TypeError, AttributeError, OverflowError: ``described`` is not a space, or too large.
    """
    require_modest(_bytes(described))
    return _space(described)


def _space(described: Mapping[str, Any]) -> gymnasium.Space[Any]:
    match described["type"]:
        case "Box":
            shape, dtype = _shape(described["shape"]), _dtype(described["dtype"])
            low = _bound_from_json(described["low"], shape, dtype, -math.inf)
            high = _bound_from_json(described["high"], shape, dtype, math.inf)
            return spaces.Box(low, high, shape, dtype.type)
        case "Discrete":
            # Gymnasium before 1.2.2 knows no other type.
            given: Any = {"dtype": _dtype(described["dtype"], "integer").type} if "dtype" in described else {}
            return spaces.Discrete(int(described["n"]), start=int(described["start"]), **given)
        case "MultiDiscrete":
            dtype = _dtype(described.get("dtype", "int64"), "integer")
            counts, start = (np.array(described[name], dtype) for name in ("nvec", "start"))
            return spaces.MultiDiscrete(counts, dtype=dtype.type, start=start)
        case "MultiBinary":
            shape = _shape(described["shape"])
            return spaces.MultiBinary(shape[0] if len(shape) == 1 else list(shape))
        case "Dict":
            keys = described.get("order", list(described["spaces"]))
            if sorted(keys) != sorted(described["spaces"]):
                raise ValueError(f"order {shown(keys)} of a Dict's keys")
            return spaces.Dict([(key, _space(described["spaces"][key])) for key in keys])
        case "Tuple":
            return spaces.Tuple([_space(part) for part in described["spaces"]])
        case other:
            raise ValueError(f"no space is called {shown(other)}")


def _bytes(described: Mapping[str, Any]) -> int:
    match described["type"]:
        case "Box":
            return math.prod(_shape(described["shape"])) * _dtype(described["dtype"]).itemsize
        case "Dict":
            return sum(map(_bytes, described["spaces"].values()))
        case "Tuple":
            return sum(map(_bytes, described["spaces"]))
    return 0


def _shape(value: Any) -> tuple[int, ...]:
    shape = tuple(int(size) for size in value)
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shown(shape)}")
    return shape


_DTYPES = {"integer": r"u?int(8|16|32|64)", "number": r"bool|float(16|32|64)|u?int(8|16|32|64)"}


def _dtype(value: Any, kind: str = "number") -> np.dtype[Any]:
    if not (isinstance(value, str) and re.fullmatch(_DTYPES[kind], value)):
        raise ValueError(f"a space of {shown(value)}")
    return np.dtype(value)


def _bound_to_json(bound: NDArray[Any]) -> Any:
    # One number if all entries agree (an image's bounds), and None for an infinite one: JSON has no infinity.
    entries = [None if math.isinf(value) else value for value in bound.ravel().tolist()]
    return entries[0] if entries and len(set(entries)) == 1 else entries


def _bound_from_json(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], infinite: float) -> Any:
    if not isinstance(value, list):
        return infinite if value is None else int(value) if isinstance(value, bool) else value
    return np.array([infinite if entry is None else entry for entry in value], dtype).reshape(shape)
