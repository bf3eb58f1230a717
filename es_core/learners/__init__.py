"""Policies that are, or were, learnt by gradients."""
