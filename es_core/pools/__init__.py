"""Who plays what: a scheduler, and worker processes, a vector environment or a Ray cluster."""
