"""The hooks that a plugin may implement.

A plugin is a module (or object) named by an entry point in the group ``es_envs``; mark its functions with
``es_envs.hookimpl``. A hook may take fewer arguments than its specification.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pluggy

from es_envs.definition import EnvDefinition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from es_core.config import TrainConfig
    from es_core.run import GenerationStats, Run

hookspec = pluggy.HookspecMarker("es_envs")
hookimpl = pluggy.HookimplMarker("es_envs")


@hookspec
def register_envs() -> Sequence[EnvDefinition]:  # type: ignore[empty-body]
    """Return the plugin's environments. Called while listing: import nothing heavy, build nothing."""


@hookspec
def register_strategies() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return strategies by name, each as ``module:Class``. Called when a name that is not built in is looked up."""


@hookspec
def run_started(run: "Run", config: "TrainConfig") -> None:
    """A run has its folder and its workers; the first generation comes next. Called in the main process."""


@hookspec
def generation_finished(run: "Run", stats: "GenerationStats", fitness: "NDArray[np.float64] | None") -> None:
    """A generation's line has been written to metrics.jsonl. Called in the main process; ``stats`` is frozen.

    ``fitness`` ``(N,)`` is that of each candidate, NaN where it failed; None in the line behind the last generation.
    """


@hookspec
def run_finished(run: "Run") -> None:
    """The run has ended, solved or not, interrupted or failed. Called in the main process."""


LIFECYCLE = ("run_started", "generation_finished", "run_finished")

__all__ = ["LIFECYCLE", "hookimpl", "hookspec"]
