"""The hooks by which a plugin registers environments, strategies and trainers.

A plugin is a module (or object) named by an entry point in the group ``es_envs``; mark its functions with
``es_envs.hookimpl``. A hook may take fewer arguments than its specification. A plugin may also implement the lifecycle
hooks of a run, which ``es_core.training.hookspecs`` specifies.
"""

from collections.abc import Mapping, Sequence

import pluggy

from es_envs.definition import EnvDefinition

hookspec = pluggy.HookspecMarker("es_envs")
hookimpl = pluggy.HookimplMarker("es_envs")


@hookspec
def register_envs() -> Sequence[EnvDefinition]:  # type: ignore[empty-body]
    """Return the plugin's environments. Called while listing: import nothing heavy, build nothing."""


@hookspec
def register_strategies() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return strategies by name, each as ``module:Class``. Called when a name that is not built in is looked up."""


@hookspec
def register_trainers() -> Mapping[str, str]:  # type: ignore[empty-body]
    """Return trainers by name, each as ``module:Class``. The setting ``strategy`` names them; called as above."""


LIFECYCLE: Mapping[str, Sequence[str]] = {
    "run_started": ("run", "config"),
    "generation_finished": ("run", "stats", "fitness"),
    "run_finished": ("run",),
}
"""The lifecycle hooks and their arguments, as text: a misspelt one is reported when its plugin is loaded."""
