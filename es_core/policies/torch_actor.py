"""The torch engine: many candidates that act at once, on the CPU or a CUDA device, or one alone. Imports torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Discrete
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.dlpack import from_dlpack

from es_core.policies import noise
from es_core.policies.actor import Actor, NotFiniteError
from es_core.policies.batched_layers import aligned
from es_core.policies.deployed import action_of, observation_of
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import ObservationStatistics, Statistics
from es_core.policies.torch_module import Normalized
from es_envs.masks import allowed
from es_envs.spaces import leaves, nested, parts

# Rows computed together on the CPU, by one thread: the last bits of a product depend on the numbers of rows and of
# threads. A block without an acting row is skipped. One thread per block was tried: handing them out cost more.
_BLOCK = 128

_DISTRIBUTIONS: Mapping[str, noise.Distribution] = {"draw_choice": "gumbel", "draw_bits": "logistic"}


class TorchActors:
    """Candidates side by side, one per row, that turn a vector environment's observations into actions.

    A pass computes rows in blocks of a fixed size (all at once on a CUDA device), whichever rows act: the choice of
    kernels, and so the last bits, may depend on the number of rows.

    Args:
        policy: the candidates' policy.
        rows: number of rows.
        device: "cpu" or "cuda".

    Raises:
        ValueError: there is no such device.
    """

    def __init__(self, policy: Policy, rows: int, device: str = "cpu") -> None:
        if device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda': torch sees no CUDA device on this machine; use device='cpu'")
        self.policy, self._device = policy, device
        self._parameters = torch.zeros(rows, aligned(policy.size), device=device)[:, : policy.size]
        size = rows if device == "cuda" else _BLOCK
        self._blocks = [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
        self._rows = [policy.batched(self._parameters[block]) for block in self._blocks]
        self._raw = torch.zeros(rows, policy.outputs, device=device)
        self._leaves = [
            ((rows, *(space.shape or ())), observation_of(space).to(device))
            for _, _, space in leaves(policy.observation_space)
        ]
        self._normalized, self._decode = Normalized(None), action_of(policy).to(device)
        self._statistics: Statistics | None = None
        self._sums = torch.zeros(2, rows, policy.inputs, dtype=torch.float64, device=device)
        self._collects = False
        self._noise_seeds: list[int | None] = [None] * rows
        self._steps = [0] * rows

    def __len__(self) -> int:
        return len(self._raw)

    def normalize(self, statistics: Statistics | None) -> None:
        """Normalise by ``statistics`` from now on: observations, or hidden layers of candidates loaded afterwards."""
        self._statistics = statistics
        self._normalized = Normalized(self.policy.normalization(statistics)).to(self._device)

    def load(self, row: int, parameters: Vector) -> None:
        """Let ``parameters`` ``(d,)`` act in ``row`` from now on; they are copied."""
        self._parameters[row] = torch.from_numpy(self.policy.effective_parameters(parameters, self._statistics))

    def reset(self, row: int, *, noise_seed: int | None = None) -> None:
        """Begin an episode in ``row``; see ``Actor.reset``."""
        size = self._blocks[0].stop
        with torch.inference_mode():
            self._rows[row // size].reset(row % size)
        if self._collects:
            self._sums[:, row] = 0
        self._noise_seeds[row], self._steps[row] = noise_seed, 0

    def collect(self) -> None:
        """Add up the observations of each row's episode from now on."""
        self._collects = True

    def statistics(self, row: int, count: int) -> ObservationStatistics:
        """Statistics of the ``count`` observations since ``reset``; needs ``collect``."""
        if not self._collects:
            raise RuntimeError("statistics() was called without collect()")
        return ObservationStatistics(count, *self._sums[:, row].cpu().numpy().copy())

    def flattened(self, observations: Any) -> Tensor:
        """A vector environment's observations as ``(rows, n)`` float32, on the device.

        Raises:
            ValueError: a part's shape is not that of its space.
        """
        values = parts(self.policy.observation_space, observations)
        flat = [
            flatten(_tensor(value, shape).to(self._device))
            for value, (shape, flatten) in zip(values, self._leaves, strict=True)
        ]
        return flat[0] if len(flat) == 1 else torch.cat(flat, 1)

    def act(
        self, inputs: Tensor, live: NDArray[np.bool_], allowed: NDArray[np.bool_] | None = None
    ) -> tuple[Any, dict[int, NotFiniteError]]:
        """Actions ``(rows, ...)``, nested as their space is, and errors of rows that are not finite.

        Args:
            inputs: ``flattened`` observations.
            live: ``(rows,)``, True for rows that act; the other rows' actions are meaningless.
            allowed: ``(rows, m)``, True for choices that the masks of actions allow; None: all.
        """
        with torch.inference_mode():
            raw, wrong = self.outputs(inputs, live)
            size = self.policy.actions.decisive
            self._explore(raw, live, size)
            raw = raw[:, :size]
            if allowed is not None:
                raw = raw.where(torch.from_numpy(allowed).to(self._device), -torch.inf)
            return nested(self.policy.action_space, iter(self._decode(raw))), wrong

    @torch.inference_mode()
    def outputs(self, inputs: Tensor, live: NDArray[np.bool_]) -> tuple[Tensor, dict[int, NotFiniteError]]:
        """The raw outputs ``(rows, m)``, in a buffer that the next call overwrites; see ``act``."""
        if not live.all():
            inputs = inputs.where(torch.from_numpy(live).to(self._device)[:, None], 0.0)
        wrong = _not_finite("the observation is", inputs)
        if self._collects:
            exact = inputs.double()
            self._sums[0] += exact
            self._sums[1] += exact.square_()
        normalized = self._normalized(inputs)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for block, rows in zip(self._blocks, self._rows, strict=True):
                if live[block].any():
                    self._raw[block] = rows.forward(normalized[block].contiguous())
        finally:
            torch.set_num_threads(threads)
        if not live.all():
            self._raw[torch.from_numpy(~live).to(self._device)] = 0
        return self._raw, _not_finite("the policy's outputs are", self._raw) | wrong

    def _explore(self, raw: Tensor, live: NDArray[np.bool_], size: int) -> None:
        """Change the raw outputs of exploring rows, as the policy's ``actions`` say."""
        kind = self.policy.actions.exploration
        who = [row for row in np.flatnonzero(live) if self._noise_seeds[row] is not None] if kind else []
        if not who:
            return
        drawn = np.zeros((len(raw), size), np.float32)
        for row in who:
            seed = self._noise_seeds[row]
            noise.fill(_DISTRIBUTIONS.get(str(kind), "normal"), int(seed or 0), self._steps[row], drawn[row])
            self._steps[row] += 1
        numbers = torch.from_numpy(drawn).to(self._device)
        if kind == "add_noise":
            numbers *= self.policy.config.action_noise
        elif kind == "draw_normal":  # means, then log-stds
            numbers *= raw[:, size:].clamp(-5, 2).exp()
        raw[:, :size] += numbers


class TorchActor(Actor):
    """One candidate, in torch on the CPU, with one thread.

    Args:
        policy: its policy.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._actors, self._alone = TorchActors(policy, 1), np.ones(1, np.bool_)
        self._inputs = np.zeros((1, policy.inputs), np.float32)

    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on; see ``Actor``."""
        self._actors.normalize(statistics)
        self._actors.load(0, parameters)
        self.reset()

    def reset(self, *, noise_seed: int | None = None) -> None:
        """Begin an episode; see ``Actor``."""
        self._actors.reset(0, noise_seed=noise_seed)

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        """The action for one observation; see ``Actor``."""
        space = self.policy.action_space
        within = None if mask is None else allowed(space, mask)[np.newaxis]
        actions, wrong = self._actors.act(self._flat(observation), self._alone, within)
        if wrong:
            raise wrong[0]
        own = zip(parts(space, actions), leaves(space), strict=True)
        return nested(space, (int(values[0]) if isinstance(leaf, Discrete) else values[0].numpy()
                              for values, (_, _, leaf) in own))  # fmt: skip

    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)``; see ``Actor``."""
        raw, wrong = self._actors.outputs(self._flat(observation), self._alone)
        if wrong:
            raise wrong[0]
        return raw[0].numpy().copy()

    def _flat(self, observation: Any) -> Tensor:
        self.policy.encode(observation, self._inputs[0])
        return torch.from_numpy(self._inputs)

    def collect(self) -> None:
        """Add up the observations of each episode from now on."""
        self._actors.collect()

    def statistics(self, count: int) -> ObservationStatistics:
        """Statistics of the ``count`` observations since ``reset``; see ``Actor``."""
        return self._actors.statistics(0, count)


def _tensor(values: Any, shape: tuple[int, ...]) -> Tensor:
    """``values`` as a tensor on the device where they are: JAX's and torch's arrays may be on a GPU."""
    if not isinstance(values, Tensor | np.ndarray) and hasattr(values, "__dlpack__"):
        values = from_dlpack(values)
    if tuple(np.shape(values)) != shape:
        raise ValueError(f"observations have shape {tuple(np.shape(values))}, their space says {shape}")
    return values if isinstance(values, Tensor) else torch.from_numpy(np.require(values, requirements=["C", "W"]))


def _not_finite(what: str, values: Tensor) -> dict[int, NotFiniteError]:
    if torch.isfinite(values).all():
        return {}
    rows = torch.nonzero(~torch.isfinite(values).all(1))[:, 0].tolist()
    return {row: NotFiniteError(f"{what} not finite: {values[row].cpu().numpy()!r}") for row in rows}
