"""Calls of the lifecycle hooks, in plugins and loggers."""

import importlib.util
import warnings
from collections.abc import Iterable
from typing import Any

import pluggy

from es_core.training import hookspecs
from es_core.training.loggers import SessionLogger, TensorBoardLogger, find_logger
from es_envs import registry


class Lifecycle:
    """Calls the lifecycle hooks, implementation by implementation; one that raises is reported once and switched off.

    Args:
        loggers: objects with methods marked ``es_envs.hookimpl``, or names of ``LOGGERS``.

    Raises:
        ValueError: no logger has this name, or an object implements no lifecycle hook.
        ImportError: a package that a named logger needs is not installed.
    """

    def __init__(self, loggers: Iterable[object] = ()) -> None:
        self._manager = pluggy.PluginManager("es_envs")
        self._manager.add_hookspecs(hookspecs)
        for name, plugin in registry.active_plugins().items():
            self._manager.register(plugin, name)
        chosen = [SessionLogger(), *map(find_logger, loggers)]
        if importlib.util.find_spec("tensorboard") and not any(
            isinstance(logger, TensorBoardLogger) for logger in chosen
        ):
            chosen.append(TensorBoardLogger())
        for number, logger in enumerate(chosen):  # the user's first one is 1
            self._manager.register(logger, f"{type(logger).__name__} (logger {number})")
        self._switched_off: set[str] = set()

    def call(self, hook: str, **values: Any) -> None:
        """Call a hook in each implementation."""
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            name = implementation.plugin_name
            if name in self._switched_off:
                continue
            try:
                implementation.function(*[values[argument] for argument in implementation.argnames])
            except (Exception, SystemExit) as error:  # noqa: BLE001  (a logger must not end a run; Ctrl-C may)
                self._switched_off.add(name)
                message = f"{name}: {hook} raised {type(error).__name__}: {error}; it is switched off for this run"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
