"""The files that ``es-envs new`` writes."""
