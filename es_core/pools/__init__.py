"""Rollout pools: a scheduler over worker processes or a Ray cluster, and a vector environment."""
