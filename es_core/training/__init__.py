"""The loop of generations, its state, its hooks and what it shows."""
