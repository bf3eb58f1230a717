"""Every number that changes a run's result, its checks, and the trust in names read from files."""
