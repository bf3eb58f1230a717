"""The one loop that steps an environment, and the fitness of an episode."""
