"""Meaning of raw outputs: how they become an action, and how training draws actions instead of taking the best.

Each engine computes this itself: the compiled one in ``kernels.decide``, torch in ``deployed``.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_envs.spaces import leaves, require_small_table

Decoding = Literal["choice", "choices", "bits", "clip", "tanh", "mixed"]
Exploration = Literal["add_noise", "draw_normal", "draw_choice", "draw_bits"]


@dataclass(frozen=True)
class Actions:
    """Meaning of a policy's raw outputs.

    Attributes:
        outputs: number ``m`` of raw outputs.
        decisive: number of outputs, from the first on, that decide the action; the others vary it in training.
        decoding: "choice": the largest output wins, and its index is the action (from the space's start). "choices":
            the largest of each group wins, and each output stands for a value. "bits": 1 where an output is positive.
            "clip" and "tanh": an output for each entry, brought between the bounds. "mixed": each of the ``parts``
            has its own, and its outputs follow those of the part before it.
        exploration: how the raw outputs of an episode are changed before they are decoded while training. "add_noise":
            by normal noise of the config's ``action_noise``. "draw_normal": means, each followed by a draw from
            N(0, std), where the other outputs are log-stds, between -5 and 2 (as in common implementations of SAC:
            pytorch_sac, CleanRL). "draw_choice": logits; with Gumbel noise the largest is a draw from their softmax
            (Gumbel 1954). "draw_bits": logits; with logistic noise one is positive with the probability that its
            sigmoid is. None: training takes them as they are.
        values: for "choices": function that makes an array of values for each group; called only when needed, since a
            file may describe a huge space.
        meaning: the outputs' meaning in words.
        parts: for "mixed": the actions of each leaf of a Dict or Tuple, in its order.
    """

    outputs: int
    decisive: int
    decoding: Decoding
    exploration: Exploration | None
    meaning: str
    values: Callable[[], list[NDArray[Any]]] = list
    parts: tuple["Actions", ...] = ()


def make_actions(config: TrainConfig, space: gymnasium.Space[Any]) -> Actions:
    """Meaning of raw outputs in ``space``, which ``require_supported`` takes, by the config's action settings.

    - Box: an output for each entry, brought between the bounds by ``action_squash``. With ``action_bins`` one for each
      value that an entry can have: the largest wins. With ``sample_actions`` a mean for each entry, and then a log-std
      for each.
    - Discrete: an output for each choice, of which the largest wins. MultiDiscrete: the same in each group.
    - MultiBinary: an output for each bit, which is 1 if the output is positive.
    - Dict and Tuple: the outputs of their parts, one after the other.

    Raises:
        ValueError: actions of this space are not supported with these settings.
    """
    return (_of_parts if isinstance(space, spaces.Dict | spaces.Tuple) else _of_leaf)(config, space)


def _of_leaf(config: TrainConfig, space: gymnasium.Space[Any]) -> Actions:
    """Actions that are no Dict or Tuple."""
    _require_fitting(config, space)
    sampled = config.sample_actions
    choice: Exploration | None = "draw_choice" if sampled else None
    match space:
        case spaces.Box() if config.action_bins is not None:
            size, values = bins(space, config.action_bins)
            meaning = f"an output for each of the values that action_bins gives the entries of {space}"
            return Actions(size, size, "choices", choice, meaning, values)
        case spaces.Box():
            size = math.prod(space.shape)
            decoding: Decoding = "tanh" if config.action_squash == "tanh" else "clip"
            if sampled:
                meaning = f"with sample_actions the means of the entries of {space}, then their log-stds"
                return Actions(2 * size, size, decoding, "draw_normal", meaning)
            noise: Exploration | None = "add_noise" if config.action_noise else None
            return Actions(size, size, decoding, noise, f"an output for each entry of {space}")
        case spaces.Discrete():
            size = int(space.n)
            return Actions(size, size, "choice", choice, f"an output for each choice of {space}")
        case spaces.MultiDiscrete():
            size, meaning = int(space.nvec.sum()), f"an output for each choice of each entry of {space}"
            starts = list(zip(space.start.tolist(), space.nvec.tolist(), strict=True))
            return Actions(
                size, size, "choices", choice, meaning, lambda: [np.arange(low, low + count) for low, count in starts]
            )
        case _:  # MultiBinary
            size = math.prod(space.shape or ())
            return Actions(size, size, "bits", "draw_bits" if sampled else None, f"an output for each bit of {space}")


def _of_parts(config: TrainConfig, space: gymnasium.Space[Any]) -> Actions:
    """Actions of a Dict or Tuple; ``action_squash`` concerns those of its parts that are a Box."""
    leaf_spaces = [leaf for _, _, leaf in leaves(space)]
    if not any(isinstance(leaf, spaces.Box) for leaf in leaf_spaces):
        _require_fitting(config, space)
    others = replace(config, action_squash="clip")
    parts = tuple(_of_leaf(config if isinstance(leaf, spaces.Box) else others, leaf) for leaf in leaf_spaces)
    explorations = {part.exploration for part in parts}
    if len(explorations) > 1 or "draw_normal" in explorations:
        setting, without = ("sample_actions", "False") if config.sample_actions else ("action_noise", "0")
        raise ValueError(
            f"{setting} is for actions of one kind, and {space} has several parts, of which it would explore each in "
            f"another way: set it to {without}"
        )
    size = sum(part.outputs for part in parts)
    meaning = f"an output for each entry and choice of {space}, part by part"
    return Actions(size, size, "mixed", explorations.pop(), meaning, parts=parts)


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
                f"action_squash='tanh' stretches actions from bound to bound, and not all entries of {space} have two "
                "bounds: use action_squash='clip'"
            )
    if config.action_noise and config.sample_actions:
        raise ValueError("sample_actions and action_noise exclude each other: set action_noise to 0")
    if config.action_noise and bins:
        raise ValueError(
            "action_noise is added to outputs that are actions, and with action_bins they are choices: set "
            "action_noise to 0 (sample_actions=True draws a choice instead)"
        )


def _is_bounded(space: Any) -> bool:
    with np.errstate(over="ignore"):  # float32's own limits are bounds that nobody means
        return bool(np.isfinite(space.high - space.low).all())


def typed(values: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Actions as their space has them: whole numbers are rounded."""
    return (np.rint(values) if np.issubdtype(dtype, np.integer) else values).astype(dtype)


def widths(space: spaces.Box) -> NDArray[np.float64]:
    """Distances ``(n,)`` between the bounds of the entries, 1 where an entry has one value, so that they can divide."""
    distance = space.high.astype(float).ravel() - space.low.astype(float).ravel()
    return np.where(distance == 0, 1.0, distance)


def bins(space: spaces.Box, given: int | tuple[Any, ...]) -> tuple[int, Callable[[], list[NDArray[Any]]]]:
    """Number of values of all entries, and a function that makes them, an array for each entry.

    Args:
        space: the action space.
        given: a config's ``action_bins``.

    Raises:
        ValueError: the bins do not fit the space.
    """
    low, high = space.low.ravel().astype(float), space.high.ravel().astype(float)
    if isinstance(given, int):
        if not _is_bounded(space):
            raise ValueError(
                f"action_bins={given} are uniform from bound to bound, and not all entries of {space} have two "
                "bounds: give the values instead, such as [-1, 0, 1]"
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
    require_small_table([len(row) for row in rows])
    return sum(map(len, rows)), lambda: [np.array(row, float) for row in rows]


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
