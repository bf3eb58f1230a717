"""An environment in JAX, for tests: importing this module imports JAX."""

from typing import ClassVar

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np


class Pushed(gymnasium.Env):
    """A point that is pushed; it has no vectorised form."""

    observation_space: ClassVar = gymnasium.spaces.Box(-10, 10, (2,), np.float32)
    action_space: ClassVar = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.key = jax.random.PRNGKey(0)  # JAX starts its threads here
        self.move = jax.jit(lambda s, a: jnp.clip(jnp.stack([s[0] + 0.1 * s[1], s[1] + 0.1 * a[0]]), -10, 10))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.state, {}

    def step(self, action):
        self.state = np.asarray(self.move(self.state, action))
        return self.state, -float(abs(self.state[0])), False, False, {}
