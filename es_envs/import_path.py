"""``module:name`` strings: importing what they name, and naming a given object.

Environments, fitness functions, policies and initializers go into files by name, never as objects. An object that a
script or notebook defines, not a module, has a local name, ``module:name#hash``: the process that was given it keeps
it under that name, and passes it to its children.
"""

import importlib
import pickle
import re
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

_ADVICE = "put it into a module of its own (a .py file next to your script) and import it from there"
_LOCAL = re.compile(r"(?!final_info:)[^:#]+:[^:#]+#s?[0-9a-f]{8}")

_objects: dict[str, Any] = {}  # by local name
_packed: dict[tuple[str, ...], bytes] = {}  # pickles of several objects in one piece, by their local names
_received: list[bytes] = []  # in a child: at most one such piece, until one of its objects is used


def load(name: str) -> Any:
    """Import what a ``module:name`` string names.

    Raises:
        ValueError: the string has no ``:``; the module is ``__main__``, or has nothing of that name, or only within a
            module that it imports; or it is a local name, and this process was not given the object.
        ImportError: the module cannot be imported.
    """
    if is_local(name):
        return _kept(name)
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
            raise ValueError(f"{part!r} in {name!r} is the module {target.__name__}: name its contents by its own name")
    return target


def name_of(target: Callable[..., Any]) -> str:
    """Return the ``module:name`` under which another process can import ``target``.

    Raises:
        ValueError: no other process can import it: a lambda, a function inside a function, or one defined in the
            script or notebook itself.
    """
    advice = f"{_ADVICE}, or give it to train() as it is"
    module, qualname = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    if not module or not qualname:
        raise ValueError(f"{target!r} has no name that a worker process could import: {advice}")
    if "<" in qualname:
        kind = "a lambda" if qualname.endswith("<lambda>") else "defined inside a function"
        raise ValueError(f"{qualname!r} is {kind}, which no worker process can import: {advice}")
    if module == "__main__":
        raise ValueError(
            f"{qualname!r} is defined in the running script or notebook, which no worker imports: {advice}"
        )
    name = f"{module}:{qualname}"
    if load(name) != target:  # a class method is another object each time, but equal
        raise ValueError(f"{name!r} names another object than the given one: {advice}")
    return name


def is_local(name: str) -> bool:
    """Return True if ``name`` is a local name, of an object that is not in a module."""
    return _LOCAL.fullmatch(name) is not None


def remember(target: Any, name: str) -> None:
    """Keep an object under a local name.

    Raises:
        ValueError: the object cannot be copied to another process; the message names the variable that cannot.
    """
    import cloudpickle

    try:
        cloudpickle.dumps(target)
    except Exception as error:
        raise ValueError(f"{name!r} cannot be copied to a worker process: {error}") from error
    _objects[name] = target
    for names in [names for names in _packed if name in names]:
        del _packed[names]


def pack(named: Iterable[str]) -> bytes:
    """Pickle those of these objects that have local names, only for a child of this process; empty: there are none.

    They are pickled in one piece, since they may share globals. All children get them as they were the first time.

    Raises:
        ValueError: this process was not given one of them.
    """
    import cloudpickle

    names = tuple(sorted({name for name in named if is_local(name)}))
    if names and names not in _packed:
        _packed[names] = cloudpickle.dumps({name: _kept(name) for name in names})
    return _packed.get(names, b"")


def receive(objects: bytes) -> None:
    """Keep, in a child, the objects that its parent has ``packed``; they are made when one is first used."""
    _received[:] = [objects] if objects else []


def _kept(name: str) -> Any:
    if name not in _objects and _received:
        _objects.update(pickle.loads(_received.pop()))  # noqa: S301  (by the process that started this one)
    if name not in _objects:
        raise ValueError(
            f"{name!r} was given to train() as an object by a script or notebook, and is in no file: give the same "
            "one again, as fitness=... or policy=... of Run.open() or of train(resume=True). For commands and "
            "other machines, put it into a module (a .py file), import it from there, and train again"
        )
    return _objects[name]
