"""The files of a run: folder, config, metrics, checkpoints, generation log."""
