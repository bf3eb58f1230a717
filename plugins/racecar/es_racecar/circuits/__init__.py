"""Circuits: files of their middle lines and widths, which RaceTrack-v0 drives by name."""
