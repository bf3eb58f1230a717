"""Films of policies, and a window to watch them in."""
