"""Rollouts: an environment and a policy that play episodes together, and the fitness of an episode."""
