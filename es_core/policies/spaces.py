"""Gymnasium's spaces: observations as flat inputs, and spaces as JSON."""

import math
import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.formatting import shown
from es_envs.old_gym import is_old_gym

Encoder = Callable[[Any, NDArray[np.float32]], None]

# Most bytes of a space's lower bounds: an image of 1920x1080 pixels in colour fits. A file must not decide how much
# memory it takes to read it.
_LARGEST = 2**23


def input_size(space: gymnasium.Space[Any]) -> int:
    """Length of a flattened observation.

    Raises:
        ValueError: observations of this space have no fixed length.
    """
    return sum(part.stop - part.start for _, part, _ in leaves(space))


def leaves(
    space: gymnasium.Space[Any], name: str = "observation space", start: int = 0
) -> Iterator[tuple[str, slice, gymnasium.Space[Any]]]:
    """The leaf spaces of a nested one: name, place in the flattened observation, and space of each.

    Raises:
        ValueError: observations of one have no fixed length.
    """
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in space.items() if isinstance(space, spaces.Dict) else enumerate(space):
            if isinstance(space, spaces.Dict) and not isinstance(key, str):  # which files could not tell apart
                raise ValueError(f"{name} has the key {key!r}: the keys of a Dict must be strings")
            for leaf in leaves(part, f"{name}[{key!r}]", start):
                yield leaf
                start = leaf[1].stop
    elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        yield name, slice(start, start + int(spaces.flatdim(space))), space
    else:
        if is_old_gym(space):
            raise ValueError(f"{name} {space} is one of the old gym: take it from gymnasium.spaces, with `import "
                             "gymnasium as gym` in the place of `import gym`")  # fmt: skip
        without = ". gymnasium.wrappers.FilterObservation leaves a part of a Dict out" if name.endswith("]") else ""
        raise ValueError(f"{name} {space} is not supported: expected Box, Discrete, MultiDiscrete, MultiBinary, "
                         f"or a Dict or Tuple of these{without}")  # fmt: skip


def parts(space: gymnasium.Space[Any], observation: Any) -> list[Any]:
    """Parts of an observation, one for each of the ``leaves`` of its space."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [observation]
    return [leaf for part, value in _inner(space, observation) for leaf in parts(part, value)]


def _inner(space: gymnasium.Space[Any], observation: Any) -> list[tuple[gymnasium.Space[Any], Any]]:
    """The spaces in a Dict or Tuple, each with its part of an observation.

    Raises:
        ValueError: the observation lacks a part, or has too many.
    """
    if isinstance(space, spaces.Tuple):
        if not isinstance(observation, tuple | list) or len(observation) != len(space):
            raise ValueError(f"observation {reprlib.repr(observation)} is not a tuple of {len(space)} parts")
        return list(zip(space, observation, strict=True))
    own = space.spaces if isinstance(space, spaces.Dict) else {}
    try:
        return [(part, observation[key]) for key, part in own.items()]
    except (KeyError, IndexError, TypeError):
        found = f"the keys {[*observation]}" if isinstance(observation, Mapping) else reprlib.repr(observation)
        raise ValueError(f"observation has {found}, its space says {[*own]}") from None


_SMALLEST_IMAGE = 20  # of its sides, which "cnn_small" needs; a smaller one, such as a map of tiles, is numbers


def is_image(space: gymnasium.Space[Any]) -> bool:
    """Return True if observations are images: a Box of uint8 with three dimensions, and not too small for a network."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or space.dtype != np.uint8:
        return False
    return min(image_size(space)[:2]) >= _SMALLEST_IMAGE


def image_size(space: gymnasium.Space[Any]) -> tuple[int, int, int]:
    """Height, width and channels of an image, whose channels come last or, if they are fewer than columns, first."""
    first, second, third = space.shape or ()
    return (second, third, first) if has_channels_first(space) else (first, second, third)


def has_channels_first(space: gymnasium.Space[Any]) -> bool:
    """Return True if an image is ``(channels, height, width)``."""
    first, _, third = space.shape or ()
    return bool(first < third)


def encoder(space: gymnasium.Space[Any]) -> Encoder:
    """Return a function that flattens an observation like ``gymnasium.spaces.flatten`` into ``(n,)`` float32."""
    if isinstance(space, spaces.Box):
        shape = space.shape
        is_vector = len(shape) == 1

        def encode_box(observation: Any, out: NDArray[np.float32]) -> None:
            try:
                fits = observation.shape == shape
            except AttributeError:  # a list, say
                fits = np.shape(observation) == shape
            if not fits:  # NumPy would silently broadcast a single number
                raise ValueError(f"observation has shape {np.shape(observation)}, its space says {shape}")
            out[:] = observation if is_vector else np.ravel(observation)

        return encode_box

    def encode(observation: Any, out: NDArray[np.float32]) -> None:
        _require_choices(space, observation)
        out[:] = np.asarray(spaces.flatten(space, observation), np.float32)

    return encode


def _require_choices(space: gymnasium.Space[Any], observation: Any) -> None:
    """Refuse a choice that the space does not have, and that would be read as another one."""
    match space:
        case spaces.Dict() | spaces.Tuple():
            for part, value in _inner(space, observation):
                _require_choices(part, value)
            return
        case spaces.Discrete():
            is_one = 0 <= observation - space.start < space.n
        case spaces.MultiDiscrete():
            from_zero = np.asarray(observation) - space.start
            is_one = bool(((from_zero >= 0) & (from_zero < space.nvec)).all())
        case spaces.MultiBinary():
            is_one = bool(np.isin(observation, (0, 1)).all())
        case _:
            return
    if not is_one:
        raise ValueError(f"observation {observation!r} is not in its space, {space}")


def is_same_space(one: gymnasium.Space[Any], other: gymnasium.Space[Any]) -> bool:
    """Return True if a policy reads and answers both alike; Gymnasium overlooks the order of a Dict's keys."""
    return one == other and [name for name, _, _ in leaves(one)] == [name for name, _, _ in leaves(other)]


def space_to_json(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """A space as JSON, so that a checkpoint can act where its environment is not installed.

    Raises:
        ValueError: the space is not supported, or too large.
    """
    described = _described(space)
    _require_modest(described)
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
    _require_modest(described)
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


def _require_modest(described: Mapping[str, Any]) -> None:
    size = _bytes(described)
    if size > _LARGEST:
        raise ValueError(
            f"a space whose bounds take {shown(size)} bytes is too large: {_LARGEST} are the most; make observations "
            "smaller (preprocessing, gymnasium.wrappers)"
        )


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
