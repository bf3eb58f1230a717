"""Searching settings, training with several seeds, measuring throughput."""
