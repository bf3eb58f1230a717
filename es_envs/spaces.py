"""Gymnasium's spaces: what a policy can see and do. Training and the conformance kit ask the same questions here."""

import math
import pickle
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_envs.old_gym import is_old_gym

Encoder = Callable[[Any, NDArray[np.float32]], None]

# Most bytes of a space's lower bounds: an image of 1920x1080 pixels in colour fits. A file must not decide how much
# memory it takes to read it.
_LARGEST = 2**23
# The table of actions has a row for each entry, all as long as the longest: a file must not decide its size either.
_LARGEST_TABLE = 1_000_000
_MOST_CHOICES = 1_000_000
_DTYPES = ("bool", *(f"float{bits}" for bits in (16, 32, 64)), *(f"{kind}{bits}" for kind in ("int", "uint")
           for bits in (8, 16, 32, 64)))  # fmt: skip


def require_supported(observation_space: gymnasium.Space[Any], action_space: gymnasium.Space[Any]) -> None:
    """Refuse spaces for which there is no policy, or which no file of a run could hold.

    Raises:
        ValueError: the message says which part, and what is expected.
    """
    seen, done = ([part for _, _, part in leaves(*space)]
                  for space in ((observation_space,), (action_space, "action space")))  # fmt: skip
    if not done:
        raise ValueError(f"action space {action_space} is empty: there is nothing to choose")
    if not seen:
        raise ValueError(f"observation space {observation_space} is empty: there is nothing to see")
    for part in done:
        _require_actions(part)
    for part in (*seen, *done):
        choices = 0 if isinstance(part, spaces.Box) else int(spaces.flatdim(part))
        if choices > _MOST_CHOICES:
            raise ValueError(
                f"{part} is too large: a policy has a number for each of its {choices} choices, and may have "
                f"{_MOST_CHOICES}. Let a Box hold what is a number rather than a choice"
            )
    for own in (seen, done):
        boxes = [part for part in own if isinstance(part, spaces.Box)]
        for box in boxes:
            if str(box.dtype) not in _DTYPES:
                raise ValueError(f"{box} is not supported: its numbers must be {', '.join(_DTYPES)}")
        require_modest(sum(math.prod(box.shape) * box.dtype.itemsize for box in boxes))


def require_portable(space: gymnasium.Space[Any]) -> None:
    """Refuse a space that cannot be sent to another process.

    Raises:
        ValueError: pickle does not take it.
    """
    try:
        pickle.dumps(space)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        raise ValueError(
            f"space {space} cannot be sent to another process: {error}. Use one of Gymnasium's own, or put the class "
            "of such a space into a module"
        ) from error


def require_modest(size: int) -> None:
    """Refuse a space whose bounds take more bytes than a file should decide about.

    Raises:
        ValueError: ``size`` is too large.
    """
    if size > _LARGEST:
        raise ValueError(
            f"a space whose bounds take {size} bytes is too large: {_LARGEST} are the most; make observations smaller "
            "(preprocessing, gymnasium.wrappers)"
        )


def require_small_table(sizes: Sequence[int]) -> None:
    """Refuse so many choices for each entry of an action that a table of them would be too large.

    Raises:
        ValueError: it would.
    """
    if len(sizes) * max(sizes, default=0) > max(_LARGEST_TABLE, sum(sizes)):
        raise ValueError(
            f"actions of {len(sizes)} entries with up to {max(sizes)} choices are too large: the product of these two "
            f"numbers may be at most {_LARGEST_TABLE}"
        )


def _require_actions(space: gymnasium.Space[Any]) -> None:
    match space:
        case spaces.Box() if space.dtype == np.bool_:
            raise ValueError(f"actions of {space} are bits: let the action space be MultiBinary({list(space.shape)})")
        case spaces.MultiDiscrete() if space.nvec.ndim == 1:
            require_small_table(space.nvec.tolist())
        case spaces.MultiDiscrete():
            raise ValueError(f"action space {space} is not supported: a MultiDiscrete of actions has one dimension")


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
        is_seen_part = name.startswith("observation") and name.endswith("]")
        without = ". gymnasium.wrappers.FilterObservation leaves a part of a Dict out" if is_seen_part else ""
        raise ValueError(f"{name} {space} is not supported: expected Box, Discrete, MultiDiscrete, MultiBinary, "
                         f"or a Dict or Tuple of these{without}")  # fmt: skip


def parts(space: gymnasium.Space[Any], observation: Any) -> list[Any]:
    """Parts of an observation, one for each of the ``leaves`` of its space."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [observation]
    return [leaf for part, value in _inner(space, observation) for leaf in parts(part, value)]


def require_shape(space: gymnasium.Space[Any], observation: Any) -> None:
    """Refuse an observation that lacks a part of its Dict or Tuple, or is no array of its Box's shape.

    Raises:
        ValueError: NumPy would silently broadcast a single number, say.
    """
    if isinstance(space, spaces.Box) and np.shape(observation) != space.shape:
        raise ValueError(f"observation has shape {np.shape(observation)}, its space says {space.shape}")
    parts(space, observation)


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


def nested(space: gymnasium.Space[Any], values: Iterator[Any]) -> Any:
    """An observation or action made of its ``parts``, one for each of the ``leaves`` of its space, in their order."""
    if isinstance(space, spaces.Dict):
        return {key: nested(part, values) for key, part in space.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(nested(part, values) for part in space)
    return next(values)


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
            if getattr(observation, "shape", None) != shape:  # of a list, say
                require_shape(space, observation)
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
