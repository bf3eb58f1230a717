"""Pages about runs: the report of one run, the comparison of several."""
