"""Optimisers that ascend on the flat parameter vector, in NumPy, so that a CPU run needs no torch.

They follow torch.optim to the letter, except for the gradient's sign.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import alike, decay, number, require_real

Vector = NDArray[np.float32]

_BLOCK = 2**13  # numbers: intermediate results stay in the processor's cache


class Optimizer(ABC):
    """An optimiser, which turns gradients into steps.

    Args:
        size: number of parameters ``d``.
        weight_decay: factor of the l2 penalty, whose gradient is subtracted (AdamW decays the parameters directly).
    """

    buffers: ClassVar[tuple[str, ...]] = ()
    """Names of the attributes ``(d,)`` that last from one step to the next."""
    decoupled: ClassVar[bool] = False
    """True if weight decay is not part of the gradient: the optimiser decays the parameters directly."""

    def __init__(self, size: int, *, weight_decay: float = 0.0) -> None:
        self.weight_decay = float(weight_decay)
        self._steps = 0
        for name in self.buffers:
            setattr(self, name, np.zeros(size, np.float32))

    def step(self, gradient: Vector, parameters: Vector, learning_rate: float, *, scale: float = 1.0) -> Vector:
        """Step to add to ``parameters`` ``(d,)`` to go uphill along ``gradient`` ``(d,)``.

        Args:
            gradient: direction of ascent.
            parameters: current parameters.
            learning_rate: this step's learning rate.
            scale: factor that ``gradient`` includes already; the l2 penalty is multiplied by it, too.
        """
        self._steps += 1
        rate, decay = float(learning_rate), self.weight_decay
        if decay and not self.decoupled:
            gradient = gradient - np.float32(decay * scale) * parameters
        increment = self._increment(gradient, rate)
        if decay and self.decoupled:
            increment = increment - np.float32(rate * decay) * parameters
        return np.asarray(increment, np.float32)

    @abstractmethod
    def _increment(self, gradient: Vector, learning_rate: float) -> Vector:
        """The step; ``self._steps`` counts it already, and the gradient includes l2."""

    def state_dict(self) -> dict[str, Any]:
        """The buffers, which the next step changes, and the number of steps taken."""
        return {name: getattr(self, name) for name in self.buffers} | {"steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``, which is copied.

        Raises:
            KeyError: an entry is missing.
            ValueError: a buffer has another size or type.
        """
        steps = alike("the optimiser's steps", self._steps, state["steps"])
        buffers = {name: alike(f"the optimiser's {name}", getattr(self, name), state[name]) for name in self.buffers}
        for name, buffer in buffers.items():
            setattr(self, name, buffer)
        self._steps = steps


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1).

    Args:
        size: see ``Optimizer``; weight_decay, too.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: added to the root of the second moment.
    """

    buffers = ("first", "second")
    first: Vector
    second: Vector

    def __init__(
        self,
        size: int,
        *,
        weight_decay: float = 0.0,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        super().__init__(size, weight_decay=weight_decay)
        self.beta1, self.beta2 = require_real("beta1", beta1, decay), require_real("beta2", beta2, decay)
        self.epsilon = require_real("epsilon", epsilon, number(0))

    def _increment(self, gradient: Vector, learning_rate: float) -> Vector:
        increment = np.empty_like(gradient)
        for start in range(0, len(gradient), _BLOCK):
            part = slice(start, start + _BLOCK)
            first, second, slope = self.first[part], self.second[part], gradient[part]
            first += (1 - self.beta1) * (slope - first)
            second += (1 - self.beta2) * (slope * slope - second)
            root = np.sqrt(second / (1 - self.beta2**self._steps))
            increment[part] = learning_rate * (first / (1 - self.beta1**self._steps)) / (root + self.epsilon)
        return increment


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2)."""

    decoupled = True


class SGD(Optimizer):
    """Gradient ascent with optional momentum (Sutskever et al. 2013).

    Args:
        size: see ``Optimizer``; weight_decay, too.
        momentum: share of the last step that is kept.
        nesterov: evaluate the step ahead along the momentum.
    """

    buffers = ("velocity",)
    velocity: Vector

    def __init__(self, size: int, *, weight_decay: float = 0.0, momentum: float = 0.0, nesterov: bool = False) -> None:
        super().__init__(size, weight_decay=weight_decay)
        self.momentum, self.nesterov = require_real("momentum", momentum, decay), nesterov

    def _increment(self, gradient: Vector, learning_rate: float) -> Vector:
        self.velocity = np.float32(self.momentum) * self.velocity + gradient
        ahead = gradient + np.float32(self.momentum) * self.velocity if self.nesterov else self.velocity
        return np.float32(learning_rate) * ahead


class ClipUp(Optimizer):
    """ClipUp (Toklu et al. 2020, arXiv 2008.02387, algorithm 1): the gradient's direction, momentum, a speed limit.

    Args:
        size: see ``Optimizer``; weight_decay, too.
        momentum: share of the last step that is kept.
        max_speed: maximum length of a step; None: twice the learning rate. The authors set it to a fifteenth of the
            radius (sigma times the root of d), and the learning rate to half of it or more.
    """

    buffers = ("velocity",)
    velocity: Vector

    def __init__(
        self, size: int, *, weight_decay: float = 0.0, momentum: float = 0.9, max_speed: float | None = None
    ) -> None:
        super().__init__(size, weight_decay=weight_decay)
        self.momentum = require_real("momentum", momentum, decay)
        self.max_speed = None if max_speed is None else require_real("max_speed", max_speed, number(0, above=True))

    def _increment(self, gradient: Vector, learning_rate: float) -> Vector:
        length = norm(gradient)
        direction = gradient / np.float32(length) if length > 0 else gradient
        velocity = np.float32(self.momentum) * self.velocity + np.float32(learning_rate) * direction
        limit = 2 * learning_rate if self.max_speed is None else self.max_speed
        speed = norm(velocity)
        self.velocity = velocity * np.float32(limit / speed) if speed > limit else velocity
        return self.velocity


def norm(vector: NDArray[Any]) -> float:
    """Euclidean length."""
    return math.sqrt(_dot(vector, vector))


def cosine(first: NDArray[Any], second: NDArray[Any]) -> float | None:
    """Cosine of the angle between two vectors, or None if one is zero."""
    lengths = norm(first) * norm(second)
    return _dot(first, second) / lengths if lengths > 0 else None


def _dot(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Scalar product; without BLAS, whose threads would sum in an order of their own."""
    parts = (slice(start, start + _BLOCK) for start in range(0, len(first), _BLOCK))
    return sum(float(np.multiply(first[part], second[part], dtype=np.float64).sum()) for part in parts)


OPTIMIZERS: Mapping[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW, "sgd": SGD, "clipup": ClipUp}
