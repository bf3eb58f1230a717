"""Optimisers on the flat parameter vector, in NumPy, so that a CPU run needs no torch."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Adam:
    """Adam (Kingma and Ba 2015, arXiv 1412.6980, algorithm 1), ascending.

    Args:
        size: number of parameters ``d``.
        learning_rate: step size.
        beta1: decay of the first moment.
        beta2: decay of the second moment.
        epsilon: added to the root of the second moment.
    """

    def __init__(
        self, size: int, *, learning_rate: float, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-8
    ) -> None:
        self.learning_rate, self.beta1, self.beta2, self.epsilon = learning_rate, beta1, beta2, epsilon
        self._first = np.zeros(size, np.float32)
        self._second = np.zeros(size, np.float32)
        self._steps = 0

    def step(self, gradient: NDArray[np.float32]) -> NDArray[np.float32]:
        """The increment ``(d,)`` that goes uphill along ``gradient`` ``(d,)``."""
        self._steps += 1
        self._first += (1 - self.beta1) * (gradient - self._first)
        self._second += (1 - self.beta2) * (gradient * gradient - self._second)
        first = self._first / (1 - self.beta1**self._steps)
        second = self._second / (1 - self.beta2**self._steps)
        return np.asarray(self.learning_rate * first / (np.sqrt(second) + self.epsilon), np.float32)

    def state_dict(self) -> dict[str, Any]:
        """Copies of the moments, and the number of steps taken."""
        return {"first": self._first.copy(), "second": self._second.copy(), "steps": self._steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state_dict``.

        Raises:
            ValueError: the moments have another size.
        """
        for name in ("first", "second"):
            if state[name].shape != self._first.shape:
                raise ValueError(f"Adam's {name} moment has shape {state[name].shape}, expected {self._first.shape}")
        self._first, self._second = state["first"].copy(), state["second"].copy()
        self._steps = int(state["steps"])


OPTIMIZERS: Mapping[str, type[Adam]] = {"adam": Adam}
