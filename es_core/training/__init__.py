"""The loop of generations: its state, hooks, loggers and progress display."""
