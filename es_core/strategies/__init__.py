"""Strategies, which turn fitness into the next population: one file a strategy."""
