"""From an observation to an action: spaces, layers, compiled kernels, the torch engine."""
