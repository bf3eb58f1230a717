"""Worker processes: how they are started, watched, kept small and ended."""
