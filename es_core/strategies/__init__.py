"""From fitness to the next population: one file a strategy."""
