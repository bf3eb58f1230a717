"""``module:name`` strings: what they name, and the name of a given object.

Environments, fitness functions and initializers travel between processes and into files by name, never as objects.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

_ADVICE = "put it into a module of its own (a .py file beside your script) and import it from there"


def load(name: str) -> Any:
    """Import what a ``module:name`` string names.

    Raises:
        ValueError: the string has no ``:``, the module has nothing of that name, or only another module that it has
            imported has it, or it is ``__main__``.
        ImportError: the module cannot be imported.
    """
    module_name, separator, attribute = name.partition(":")
    if not (separator and module_name and attribute):
        raise ValueError(f"expected a string 'module:name', got {name!r}")
    if module_name == "__main__":
        raise ValueError(f"{name!r} is in the running script, which no worker imports: {_ADVICE}")
    target = importlib.import_module(module_name)
    for part in attribute.split("."):
        try:
            target = getattr(target, part)
        except AttributeError:
            raise ValueError(f"module {module_name!r} has no {attribute!r} (asked for by {name!r})") from None
        if isinstance(target, ModuleType):  # else a name would reach all that its module has imported
            raise ValueError(
                f"{part!r} in {name!r} is the module {target.__name__}: name what is in it by its own name"
            )
    return target


def name_of(target: Callable[..., Any]) -> str:
    """The ``module:name`` under which another process can import ``target``.

    Raises:
        ValueError: no other process can import it: a lambda, a function inside a function, or one defined in the
            script or notebook itself.
    """
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not module or not qualname:
        raise ValueError(f"{target!r} has no name that a worker process could import: {_ADVICE}")
    if "<" in qualname:
        kind = "a lambda" if qualname.endswith("<lambda>") else "defined inside a function"
        raise ValueError(f"{qualname!r} is {kind}, which no worker process can import: {_ADVICE}")
    if module == "__main__":
        raise ValueError(
            f"{qualname!r} is defined in the running script or notebook, which no worker imports: {_ADVICE}"
        )
    name = f"{module}:{qualname}"
    if load(name) is not target:
        raise ValueError(f"{name!r} names something else than the given object: {_ADVICE}")
    return name
