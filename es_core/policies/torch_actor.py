"""The torch engine: one candidate, computed by torch on the CPU. Imports torch."""

import math
from typing import Any

import numpy as np
import torch

from es_core.normalizer import Normalization, ObservationStatistics, Statistics
from es_core.policies.actor import Actor, NotFiniteError
from es_core.policies.deployed import action_of
from es_core.policies.network import Policy, Vector
from es_core.policies.noise import fill
from es_core.policies.torch_rows import aligned


class TorchActor(Actor):
    """One candidate, in torch on the CPU, with one thread.

    Args:
        policy: its kind.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self._parameters = torch.zeros(1, aligned(policy.size))[:, : policy.size]
        self._inputs = np.zeros(policy.inputs, np.float32)
        self._rows, self._decode = policy.torch_rows(self._parameters), action_of(policy)
        self._normalization: Normalization | None = None
        self._sums = np.zeros((2, policy.inputs))
        self._collects = False
        self._noise_seed: int | None = None
        self._step = 0

    def load(self, parameters: Vector, statistics: Statistics | None = None) -> None:
        """Let ``parameters`` ``(d,)`` act from now on; see ``Actor``."""
        self._parameters[0] = torch.from_numpy(self.policy.settled(parameters, statistics))
        self._normalization = self.policy.normalization(statistics)
        self.reset()

    def reset(self, *, noise_seed: int | None = None) -> None:
        """Begin an episode; see ``Actor``."""
        with torch.inference_mode():
            self._rows.reset(0)
        self._sums[:] = 0
        self._noise_seed, self._step = noise_seed, 0

    def __call__(self, observation: Any) -> Any:
        """The action for one observation; see ``Actor``."""
        raw = self.outputs(observation)
        if self._noise_seed is not None:
            self._explore(raw, self._noise_seed)
        action = self._decode(torch.from_numpy(raw[np.newaxis, : self.policy.actions.decisive]))[0].numpy()
        return action if self.policy.actions.decoding != "choice" else int(action)

    def outputs(self, observation: Any) -> Vector:
        """The raw outputs ``(m,)``; see ``Actor``."""
        inputs = self._inputs
        self.policy.encode(observation, inputs)
        if not np.isfinite(inputs).all():
            raise NotFiniteError(f"the observation is not finite: {inputs!r}")
        if self._collects:
            self._sums += inputs, np.square(inputs, dtype=float)
        if self._normalization is not None:
            inputs -= self._normalization.center
            inputs *= self._normalization.scale
            clip = math.inf if self._normalization.clip is None else self._normalization.clip
            np.clip(inputs, -clip, clip, out=inputs)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # the last bits of a product depend on their number
        try:
            with torch.inference_mode():
                raw: Vector = self._rows.forward(torch.from_numpy(inputs)[None])[0].numpy().copy()
        finally:
            torch.set_num_threads(threads)
        if not np.isfinite(raw).all():
            raise NotFiniteError(f"the policy's outputs are not finite: {raw!r}")
        return raw

    def _explore(self, raw: Vector, seed: int) -> None:
        """Change raw outputs by the numbers that the compiled engine draws."""
        actions, drawn = self.policy.actions, np.empty_like(raw)
        match actions.exploration:
            case "add_noise":
                raw += np.float32(self.policy.config.action_noise) * fill("normal", seed, self._step, drawn)
            case "draw_normal":
                means, log_stds = np.split(raw, 2)
                means += np.exp(np.clip(log_stds, -5, 2)) * fill("normal", seed, self._step, drawn[: len(means)])
            case "draw_choice":
                raw += fill("gumbel", seed, self._step, drawn)
            case "draw_bits":
                raw += fill("logistic", seed, self._step, drawn)
        self._step += 1

    def collect(self) -> None:
        """Add up the observations of each episode from now on."""
        self._collects = True

    def statistics(self, count: int) -> ObservationStatistics:
        """Of the ``count`` observations since ``reset``; see ``Actor``."""
        return ObservationStatistics(count, *self._sums.copy())
