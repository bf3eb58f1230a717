"""From a policy's raw outputs to actions, and how training draws actions instead of taking the best."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.config import TrainConfig

Raw = NDArray[np.float32]
Decoder = Callable[[Raw], list[Any]]
Explorer = Callable[[Raw, np.random.Generator], None]

# What chooses among values has a row for each entry, all as long as the longest: a file must not choose its size.
_LARGEST_TABLE = 1_000_000
_LOG_STD = np.float32(-5), np.float32(2)  # bounds as in common implementations of SAC (pytorch_sac, CleanRL)


@dataclass(frozen=True)
class Actions:
    """What raw outputs mean.

    Attributes:
        outputs: number ``m`` of raw outputs.
        decisive: how many of them, the first, say what the action is; the others how it varies while training.
        decoder: makes a function from raw outputs ``(rows, m)``, or from the decisive ones, to a list of actions, each
            a new object, which the environment may keep. Not before it is asked to: a file may describe a huge space.
        explore: changes the raw outputs ``(m,)`` of one row at random, before they are decoded while training; None:
            training takes them as they are.
        meaning: of the outputs, for people.
    """

    outputs: int
    decisive: int
    decoder: Callable[[], Decoder]
    explore: Explorer | None
    meaning: str


def make_actions(config: TrainConfig, space: gymnasium.Space[Any]) -> Actions:
    """What raw outputs mean in ``space``, by the config's action settings.

    - Box: an output for each entry, brought between the bounds by ``action_squash``. With ``action_bins`` one for each
      value that an entry can have: the largest wins. With ``sample_actions`` a mean for each entry, and then a log-std
      for each.
    - Discrete: an output for each choice, of which the largest wins. MultiDiscrete: likewise in each group.
    - MultiBinary: an output for each bit, which is 1 if the output is positive.

    Raises:
        ValueError: actions of this space are not supported, or not with these settings.
    """
    _require_fitting(config, space)
    sampled = config.sample_actions
    match space:
        case spaces.Box() if config.action_bins is not None:
            size, values = bins(space, config.action_bins)
            explore = _draw_choice if sampled else None
            meaning = f"an output for each of the values that action_bins gives the entries of {space}"
            return Actions(size, size, lambda: _values_decoder(space, values()), explore, meaning)
        case spaces.Box():
            size = math.prod(space.shape)
            decoder = partial(_tanh_decoder if config.action_squash == "tanh" else _clip_decoder, space)
            if sampled:
                meaning = f"with sample_actions the means of the entries of {space}, then their log-stds"
                return Actions(2 * size, size, partial(_first, size, decoder), partial(_draw_normal, size), meaning)
            noise = partial(_add_noise, np.float32(config.action_noise)) if config.action_noise else None
            return Actions(size, size, decoder, noise, f"an output for each entry of {space}")
        case spaces.Discrete():
            size, explore = int(space.n), _draw_choice if sampled else None
            return Actions(
                size, size, partial(_choice_decoder, space), explore, f"an output for each choice of {space}"
            )
        case spaces.MultiDiscrete() if space.nvec.ndim == 1:
            _require_modest(space.nvec.tolist())
            size, explore = int(space.nvec.sum()), _draw_choice if sampled else None
            meaning = f"an output for each choice of each entry of {space}"
            return Actions(size, size, partial(_choices_decoder, space), explore, meaning)
        case spaces.MultiBinary():
            size, explore = math.prod(space.shape), _draw_bits if sampled else None
            return Actions(size, size, partial(_bits_decoder, space), explore, f"an output for each bit of {space}")
        case _:
            raise ValueError(
                f"action space {space} is not supported: expected Box, Discrete, MultiDiscrete or MultiBinary"
            )


def _require_fitting(config: TrainConfig, space: gymnasium.Space[Any]) -> None:
    is_box, bins = isinstance(space, spaces.Box), config.action_bins is not None
    if bins and not is_box:
        raise ValueError(f"action_bins are for Box actions, and {space} has none: leave it None")
    if config.action_squash == "tanh":
        if not is_box:
            raise ValueError(f"action_squash='tanh' is for Box actions, and {space} has none: leave it 'clip'")
        if bins:
            raise ValueError(
                "action_squash='tanh' and action_bins exclude each other: bins lie between the bounds as they are"
            )
        if not _is_bounded(space):
            raise ValueError(
                f"action_squash='tanh' stretches actions from bound to bound, and not all entries of {space} have two: "
                "use action_squash='clip'"
            )
    if config.action_noise and config.sample_actions:
        raise ValueError("sample_actions and action_noise exclude each other: set action_noise to 0")
    if config.action_noise and bins:
        raise ValueError(
            "action_noise is added to outputs that are actions, and with action_bins they are a choice: set "
            "action_noise to 0 (sample_actions=True draws instead)"
        )


def _require_modest(sizes: Sequence[int]) -> None:
    if len(sizes) * max(sizes, default=0) > max(_LARGEST_TABLE, sum(sizes)):
        raise ValueError(
            f"actions of {len(sizes)} entries with up to {max(sizes)} choices are too large: the product of these two "
            f"numbers may be {_LARGEST_TABLE}"
        )


def _is_bounded(space: Any) -> bool:
    with np.errstate(over="ignore"):  # float32's own limits are bounds that nobody means
        return bool(np.isfinite(space.high - space.low).all())


def _clip_decoder(space: spaces.Box) -> Decoder:
    shape, dtype = space.shape, space.dtype
    low, high = space.low.reshape(1, -1), space.high.reshape(1, -1)

    def clip(raw: Raw) -> list[Any]:
        actions = np.minimum(np.maximum(raw, low), high)
        if len(shape) != 1 or actions.dtype != dtype:
            actions = _shaped(actions, shape, dtype)
        return [actions[row] for row in range(len(actions))]  # NumPy's own iterator takes ten times as long

    return clip


def _tanh_decoder(space: spaces.Box) -> Decoder:
    clip = _clip_decoder(space)  # rounding may take an action a bit beyond its bound
    low = space.low.reshape(1, -1)
    half = (space.high.reshape(1, -1) - low) * np.float32(0.5)
    return lambda raw: clip(low + (np.tanh(raw) + 1) * half)


def _first(size: int, decoder: Callable[[], Decoder]) -> Decoder:
    """Decode the first outputs alone."""
    decode = decoder()
    return lambda raw: decode(raw[:, :size])


def bins(space: spaces.Box, given: int | tuple[Any, ...]) -> tuple[int, Callable[[], list[NDArray[Any]]]]:
    """Number of values of all entries, and a function that makes them, an array for each entry.

    Args:
        space: of the actions.
        given: a config's ``action_bins``.

    Raises:
        ValueError: they do not fit the space.
    """
    low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
    if isinstance(given, int):
        if not _is_bounded(space):
            raise ValueError(
                f"action_bins={given} are uniform from bound to bound, and not all entries of {space} have two: give "
                "the values instead, such as [-1, 0, 1]"
            )
        return given * len(low), lambda: list(np.linspace(low, high, given, axis=1))
    rows = given if isinstance(given[0], tuple) else (given,) * len(low)
    if len(rows) != len(low):
        raise ValueError(f"action_bins has {len(rows)} rows of values, and {space} has {len(low)} entries")
    for entry, row in enumerate(rows):
        for value in row:
            # 0.7 is within a bound of 0.7 that float32 has rounded.
            rounded = space.dtype.type(value) if space.dtype.kind == "f" else value
            if not low[entry] <= rounded <= high[entry]:
                raise ValueError(
                    f"action_bins: {value!r} is outside the bounds {low[entry]:g} and {high[entry]:g} of entry {entry} "
                    f"of {space}"
                )
    _require_modest([len(row) for row in rows])
    return sum(map(len, rows)), lambda: [np.array(row, float) for row in rows]


def _values_decoder(space: spaces.Box, values: Sequence[NDArray[Any]]) -> Decoder:
    table, entries, shape = value_table(values).astype(space.dtype), np.arange(len(values)), space.shape
    choose = _chooser([len(row) for row in values])
    return lambda raw: list(table[entries, choose(raw)].reshape(len(raw), *shape))


def value_table(values: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """``(groups, most)``: a row for each group of ``values``, as long as the longest."""
    most = max(map(len, values))
    return np.array([np.pad(row, (0, most - len(row))) for row in values])


def group_columns(sizes: Sequence[int]) -> NDArray[np.intp]:
    """``(groups, most)``: which of the raw outputs ``(rows, sum of sizes)`` belong to each group, in its order.

    A group that is shorter than others repeats its first output, which as a later one never wins.
    """
    sizes_column, order = np.array(sizes)[:, np.newaxis], np.arange(max(sizes))
    starts = np.cumsum(sizes_column, axis=0) - sizes_column
    columns: NDArray[np.intp] = starts + np.where(order < sizes_column, order, 0)
    return columns


def _chooser(sizes: Sequence[int]) -> Callable[[Raw], NDArray[np.intp]]:
    """A function from raw outputs ``(rows, sum of sizes)`` to the largest in each group ``(rows, groups)``."""
    columns = group_columns(sizes)
    return lambda raw: raw[:, columns].argmax(2)


def _choice_decoder(space: spaces.Discrete) -> Decoder:
    start = int(space.start)
    if start == 0:
        return lambda raw: raw.argmax(1).tolist()
    return lambda raw: [start + choice for choice in raw.argmax(1).tolist()]


def _choices_decoder(space: spaces.MultiDiscrete) -> Decoder:
    choose, starts, dtype = _chooser(space.nvec.tolist()), space.start, space.dtype
    return lambda raw: list(choose(raw).astype(dtype) + starts)


def _bits_decoder(space: spaces.MultiBinary) -> Decoder:
    return lambda raw: list(_shaped(raw > 0, space.shape, np.dtype(np.int8)))


def _shaped(rows: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    return rows.reshape(len(rows), *shape).astype(dtype)


def _add_noise(std: np.float32, raw: Raw, generator: np.random.Generator) -> None:
    raw += std * generator.standard_normal(len(raw), np.float32)


def _draw_normal(size: int, raw: Raw, generator: np.random.Generator) -> None:
    """Means and log-stds: the means become a draw."""
    std = np.exp(np.clip(raw[size:], *_LOG_STD))
    raw[:size] += std * generator.standard_normal(size, np.float32)


def _draw_choice(raw: Raw, generator: np.random.Generator) -> None:
    """The largest of logits with Gumbel noise is a draw from their softmax (Gumbel 1954)."""
    raw += generator.gumbel(size=len(raw))


def _draw_bits(raw: Raw, generator: np.random.Generator) -> None:
    """A logit with logistic noise is positive with the probability that its sigmoid is."""
    raw += generator.logistic(size=len(raw))
