"""The lifecycle hooks of a run, which a plugin or a logger may implement.

Mark functions or methods with ``es_envs.hookimpl``; each may take fewer arguments than its specification. They are
called in the main process, get frozen values and cannot change a number. One that raises is switched off for the run.
"""

import numpy as np
import pluggy
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder

hookspec = pluggy.HookspecMarker("es_envs")


@hookspec
def run_started(run: RunFolder, config: TrainConfig) -> None:
    """Called when a run begins or continues, and has its folder and its workers; ``run`` is a ``Run``."""


@hookspec
def generation_finished(run: RunFolder, stats: GenerationStats, fitness: NDArray[np.float64] | None) -> None:
    """Called when a generation's line is written to metrics.jsonl.

    ``fitness`` ``(N,)`` is the candidates', NaN where one failed; None if none counts, as after the last generation.
    """


@hookspec
def run_finished(run: RunFolder) -> None:
    """Called when the run has ended: solved or not, interrupted or failed."""
