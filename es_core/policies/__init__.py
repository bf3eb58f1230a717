"""Policies, which turn an observation into an action: spaces, layers, compiled kernels, the torch engine."""
