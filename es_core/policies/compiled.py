"""The compiled engine: the memory layout of a policy made of layers, and an actor whose steps are kernel calls."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from es_core.policies import kernels
from es_core.policies.actions import Actions
from es_core.policies.actor import Actor, NotFiniteError
from es_core.policies.compilation import kernel
from es_core.policies.layered import Layered
from es_core.policies.layers import GATES, Cell, Dense, ImageEncoder, Layer, matrices
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_envs.masks import allowed
from es_envs.spaces import leaves, nested

_ALIGNED = 16  # numbers: 64 bytes, a line of the cache
_KINDS: Mapping[str, int] = {"rnn": kernels.RNN, "lstm": kernels.LSTM, "gru": kernels.GRU}
_ACTIVATIONS: Mapping[str | None, int] = {None: kernels.LINEAR, "tanh": kernels.TANH, "relu": kernels.RELU}
_EXPLORATIONS: Mapping[str | None, int] = {
    None: kernels.AS_IT_IS,
    "add_noise": kernels.ADD_NOISE,
    "draw_normal": kernels.DRAW_NORMAL,
    "draw_choice": kernels.DRAW_CHOICE,
    "draw_bits": kernels.DRAW_BITS,
}
_DECODINGS: Mapping[str, int] = {
    "choice": kernels.CHOICE,
    "choices": kernels.CHOICES,
    "bits": kernels.BITS,
    "clip": kernels.CLIPPED,
    "tanh": kernels.SQUASHED,
    "mixed": kernels.MIXED,
}


class CompiledActor(Actor):
    """One candidate, whose every step is one call of a kernel.

    Args:
        policy: its policy, made of layers.

    Raises:
        TypeError: the policy is not made of layers.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        if not isinstance(policy, Layered):
            raise TypeError(f"only policies made of layers are compiled, not {policy.config.policy!r}")
        plan = _Plan(policy, rows=len(_Plan(policy, rows=0).rows))
        memory = np.zeros(plan.end, np.int64)
        self._numbers, self._exact = memory.view(np.float32), memory.view(np.float64)
        self._table = memory[: kernels.COLUMNS * len(plan.rows)].reshape(-1, kernels.COLUMNS)
        self._table[:] = plan.rows
        self._exact[plan.constants] = plan.values
        self._step = self._table[0]
        self._layers, self._encode = policy.layers, policy.encode
        self._weights = [self._numbers[start : start + rows * columns].reshape(rows, columns)
                         for start, (rows, columns) in plan.weights]  # fmt: skip
        self._source: Vector | None = None  # of what was loaded last
        self._transposes: list[Callable[[], object]] = []
        self._memory = [self._numbers[place] for place in plan.memory]
        first = plan.rows[0]
        self._inputs = self._part(first[kernels.STEP_SOURCE], policy.inputs)
        self._raw = self._part(first[kernels.STEP_RAW], policy.outputs)
        self._normalization = [self._part(first[at], policy.inputs) for at in (kernels.CENTER, kernels.SCALE)]
        self._sums = self._exact[first[kernels.SUMS] :][: 2 * policy.inputs].reshape(2, policy.inputs)
        self._numbers[first[kernels.NOISE]] = policy.config.action_noise
        self._act = self._kernel = kernel("act").bound(memory)
        explores = policy.actions.exploration is not None
        self._act_exploring = kernel("act_exploring").bound(memory) if explores else self._act
        has_images = isinstance(policy.layers[0], ImageEncoder)
        self._encode_images = kernel("encode_images").bound(memory) if has_images else None
        self._action = self._exact[first[kernels.ACTION] :][: first[kernels.ACTIONS]]
        self._finish = _finisher(policy, self._action)

    def _part(self, start: int, size: int) -> Vector:
        return self._numbers[start : start + size]

    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on, and begin an episode; see ``Actor.load``."""
        parameters = self.policy.effective_parameters(parameters, statistics)
        if parameters is not self._source:
            own = (matrix for layer in matrices(parameters, self._layers) for matrix in layer)
            pairs = zip(own, self._weights, strict=True)
            self._source, self._transposes = parameters, [kernel("transpose").bound(*pair) for pair in pairs]
        for transpose in self._transposes:
            transpose()
        normalization = self.policy.normalization(statistics)
        self._step[kernels.NORMALIZES] = normalization is not None
        if normalization is not None:
            self._normalization[0][:], self._normalization[1][:] = normalization.center, normalization.scale
            clip = math.inf if normalization.clip is None else normalization.clip
            self._numbers[self._step[kernels.CLIP]] = clip
        self.reset()

    def reset(self, *, noise_seed: int | None = None) -> None:
        """Begin an episode; see ``Actor.reset``."""
        for memory in self._memory:
            memory[:] = 0
        self._sums[:] = 0
        self._kernel = self._act
        if noise_seed is not None:
            self._kernel = self._act_exploring
            self._step[kernels.SEED], self._step[kernels.STEPS] = noise_seed, 0

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        """The action for one observation; see ``Actor``."""
        self._encode(observation, self._inputs)
        if self._encode_images is not None:
            self._encode_images()
        choice = self._kernel()
        if choice < 0:
            raise self._not_finite(choice)
        return self._finish(choice if mask is None else self._choice_within(mask))

    def _choice_within(self, mask: Any) -> int:
        """Choose again, among the raw outputs of choices that are allowed; write a MultiDiscrete action."""
        space: Any = self.policy.action_space
        raw = np.where(allowed(space, mask), self._raw, -np.inf)
        if isinstance(space, spaces.MultiDiscrete):
            self._action[:] = [part.argmax() for part in np.split(raw, np.cumsum(space.nvec)[:-1])] + space.start
        return int(raw.argmax())

    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)`` for one observation; see ``Actor``."""
        kernel, self._kernel = self._kernel, self._act
        self(observation)
        self._kernel = kernel
        return self._raw.copy()

    def _not_finite(self, what: int) -> NotFiniteError:
        if what == kernels.BAD_OBSERVATION:
            return NotFiniteError(f"the observation is not finite: {self._inputs!r}")
        return NotFiniteError(f"the policy's outputs are not finite: {self._raw!r}")

    def collect(self) -> None:
        """Add up the observations of each episode from now on."""
        self._step[kernels.COLLECTS] = 1

    def statistics(self, count: int) -> ObservationStatistics:
        """Statistics of the ``count`` observations since ``reset``; see ``Actor``."""
        if not self._step[kernels.COLLECTS]:
            raise RuntimeError("statistics() was called without collect()")
        return ObservationStatistics(count, self._sums[0].copy(), self._sums[1].copy())


class _Plan:
    """Memory layout of a policy, as the kernels' table describes it.

    Args:
        policy: the policy.
        rows: number of rows to reserve for the table.

    Attributes:
        end: length of the memory, in numbers of 64 bits.
        rows: the table's rows.
        weights: start and shape of each of the layers' matrices, transposed.
        memory: slices that keep a recurrent layer's state from step to step.
        constants: slice of the exact numbers that holds ``values``, which do not change.
    """

    def __init__(self, policy: Layered, rows: int) -> None:
        self.size = 2 * kernels.COLUMNS * rows
        self.rows: list[list[int]] = [[0] * kernels.COLUMNS]
        self.weights: list[tuple[int, tuple[int, int]]] = []
        self.memory: list[slice] = []
        source = begin = self._place(policy.inputs)
        for layer in policy.layers:
            source = self._layer(layer, source)
        center, scale, clip, noise = (self._place(size) for size in (policy.inputs, policy.inputs, 1, 1))
        raw = self._place(2 * policy.outputs)  # and room for the numbers that explore
        self.rows[-1][kernels.TARGET] = raw
        start = self._place(0) // 2
        self.values, decoding = _decoding(policy, start)
        self.end = start + len(self.values)
        self.constants = slice(start, self.end)
        self._say(self.rows[0], {
            kernels.ROWS: len(self.rows),
            kernels.STEP_INPUTS: policy.inputs, kernels.STEP_SOURCE: begin,
            kernels.STEP_OUTPUTS: policy.outputs, kernels.STEP_RAW: raw,
            kernels.EXPLORES: _EXPLORATIONS[policy.actions.exploration],
            kernels.CENTER: center, kernels.SCALE: scale, kernels.CLIP: clip, kernels.NOISE: noise,
            kernels.SUMS: start, **decoding,
        })  # fmt: skip

    def _place(self, size: int) -> int:
        start = -(-self.size // _ALIGNED) * _ALIGNED
        self.size = start + size
        return start

    @staticmethod
    def _say(row: list[int], columns: Mapping[int, int]) -> None:
        for column, value in columns.items():
            row[column] = value

    def _operation(
        self, kind: int, source: int, inputs: int, target: int, outputs: int, more: Mapping[int, int]
    ) -> None:
        row = [kind, source, inputs, target, outputs] + [0] * (kernels.COLUMNS - 5)
        self._say(row, more)
        self.rows.append(row)

    def _matrix(self, inputs: int, outputs: int) -> int:
        """Reserve memory for a transposed matrix and its bias, and return its start."""
        self.weights.append((self._place((inputs + 1) * outputs), (inputs + 1, outputs)))
        return self.weights[-1][0]

    def _layer(self, layer: Layer, source: int) -> int:
        """Add the operations of a layer, and return the start of its outputs."""
        match layer:
            case Dense():
                target = self._place(layer.outputs)
                weights = self._matrix(layer.inputs, layer.outputs)
                more = {kernels.WEIGHTS: weights, kernels.ACTIVATION: _ACTIVATIONS[layer.activation]}
                self._operation(kernels.DENSE, source, layer.inputs, target, layer.outputs, more)
            case Cell():
                target, cell = self._place(layer.outputs), self._place(layer.outputs)
                self.memory += [slice(start, start + layer.outputs) for start in (target, cell)]
                width = GATES[layer.kind] * layer.outputs
                more = {
                    kernels.WEIGHTS: self._matrix(layer.inputs, width),
                    kernels.FROM_STATE: self._matrix(layer.outputs, width),
                    kernels.GATES: self._place(2 * width),
                    kernels.CELL: cell,
                }
                self._operation(_KINDS[layer.kind], source, layer.inputs, target, layer.outputs, more)
            case ImageEncoder():
                target = self._place(layer.outputs)
                self._image_encoder(layer, source, target)
        return target

    def _image_encoder(self, layer: ImageEncoder, source: int, features: int) -> None:
        for encoded in layer.images:
            image, pixels = encoded.convolutions[0].image, math.prod(encoded.shape)
            place = self._place(pixels)
            more = {**_image(image), kernels.CHANNELS_FIRST: int(encoded.channels_first)}
            self._operation(kernels.IMAGE, source + encoded.place.start, pixels, place, pixels, more)
            for convolution in encoded.convolutions:
                size = math.prod(convolution.output)
                target = features if convolution is encoded.convolutions[-1] else self._place(size)
                patch = convolution.shape[1] - 1
                more = _image(convolution.image) | {
                    kernels.WEIGHTS: self._matrix(patch, convolution.filters),
                    kernels.SIZE: convolution.size,
                    kernels.STRIDE: convolution.stride,
                }
                self._operation(kernels.CONVOLUTION, place, patch, target, convolution.filters, more)
                place = target
            features += size
        for part in layer.others:
            count = part.stop - part.start
            self._operation(kernels.COPY, source + part.start, count, features, count, {})
            features += count


def _image(shape: tuple[int, int, int]) -> dict[int, int]:
    return dict(zip((kernels.HEIGHT, kernels.WIDTH, kernels.CHANNELS), shape, strict=True))


def _decoding(policy: Policy, start: int) -> tuple[NDArray[np.float64], dict[int, int]]:
    """Exact numbers from ``start`` on that actions are made of, and the first row's columns about them."""
    actions = policy.actions
    if actions.decoding == "mixed":
        tables = [_tables(part, leaf) for part, leaf in _parts(policy)]
        decodings, lows, highs, sizes = (np.concatenate(column) for column in zip(*tables, strict=True))
    elif actions.decoding == "choice":  # the kernel returns it
        decodings, lows, highs, sizes = np.zeros((4, 0))
    else:
        decodings, lows, highs, sizes = _tables(actions, policy.action_space)
    size = len(sizes)
    groups = np.cumsum([0, *sizes])
    sums = np.zeros(2 * policy.inputs)
    parts: list[NDArray[Any]] = [sums, np.zeros(size), lows, highs, groups, decodings]
    _, action, low_at, high_at, groups_at, decodings_at = np.cumsum([start, *map(len, parts[:-1])]).tolist()
    columns = {
        kernels.DECODES: _DECODINGS[actions.decoding], kernels.ACTION: action, kernels.ACTIONS: size,
        kernels.LOW: low_at, kernels.HIGH: high_at, kernels.GROUPS: groups_at, kernels.DECODINGS: decodings_at,
    }  # fmt: skip
    return np.concatenate(parts).astype(np.float64), columns


def _parts(policy: Policy) -> Iterator[tuple[Actions, Any]]:
    """Actions and space of each part of a Dict or Tuple of actions."""
    return zip(policy.actions.parts, (leaf for _, _, leaf in leaves(policy.action_space)), strict=True)


def _tables(actions: Actions, space: Any) -> tuple[NDArray[Any], ...]:
    """Decoding of each entry of an action; low and high bound, or value, of each output; outputs of each entry."""
    zeros = np.zeros(actions.decisive)
    if actions.decoding in {"choice", "choices"}:
        values = actions.values() or [np.arange(actions.decisive) + int(space.start)]
        return np.full(len(values), kernels.CHOICES), np.concatenate(values), zeros, np.array([*map(len, values)])
    lows, highs = (zeros, zeros) if actions.decoding == "bits" else (space.low.ravel(), space.high.ravel())
    ones = np.ones(actions.decisive, int)
    return _DECODINGS[actions.decoding] * ones, lows, highs, ones


def _finisher(policy: Policy, action: NDArray[np.float64]) -> Any:
    """Return a function from a kernel's choice to the action that the environment takes."""
    if policy.actions.decoding != "mixed":
        return _finisher_of(policy.action_space, action)
    finishers, start = [], 0
    for part, leaf in _parts(policy):
        own = action[start:][: len(_tables(part, leaf)[0])]
        start += len(own)
        finishers.append(_finisher_of(leaf, own, chosen=own if part.decoding == "choice" else None))
    return lambda choice: nested(policy.action_space, (finish(choice) for finish in finishers))


def _finisher_of(space: Any, action: NDArray[np.float64], *, chosen: NDArray[np.float64] | None = None) -> Any:
    """Return that function for a space that is no Dict or Tuple; ``chosen``: where a Discrete part's value is."""
    if chosen is not None:
        return lambda _: int(chosen[0])
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return (lambda choice: choice) if start == 0 else (lambda choice: start + choice)
    shape, dtype = space.shape or (), space.dtype
    if isinstance(space, spaces.Box) and np.issubdtype(dtype, np.integer):
        return lambda _: np.rint(action).reshape(shape).astype(dtype)
    if len(shape) == 1:
        return lambda _: action.astype(dtype)
    return lambda _: action.reshape(shape).astype(dtype)
