"""Hashes of functions and classes by their source, which name those that are not in a module."""

import ast
import dataclasses
import dis
import enum
import hashlib
import linecache
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any

from es_envs import import_path

_VERSION = "s"  # begins each hash of source; those of older versions, of bytecode, are hexadecimal digits alone
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE; the interpreter's own types need not be in the module that they name
_TRACES_OF_USE = {"_np_random", "low_repr", "high_repr"}  # of Gymnasium's spaces, when they are drawn from or printed
_OF_PLACES = {"builtins", "collections", "_collections"}  # modules of descriptors of slots and named tuples' fields
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def code_hash(target: Any) -> str:
    """Hash of a function, class or other callable, the same in each process and Python that runs the same source.

    It covers the source of the function, or of the class's methods; values of attributes, arguments' defaults, closure
    variables and globals that are used; and so on through the functions and classes of the script among them. Comments,
    line numbers and the file do not matter. Objects in modules enter only by name: a change of theirs goes unnoticed.
    A file's source is read when it is first needed: a script that is edited while it runs may get another hash.
    Where no source is known (``python -c``, ``exec``), and of several lambdas on one line, it covers bytecode instead,
    which differs between versions of Python.

    Raises:
        ValueError: it uses a variable that cannot be copied to another process; the message names it.
    """
    described = _Reader([getattr(target, "__qualname__", type(target).__qualname__)]).parts(target)
    digest = hashlib.sha256(repr(described).encode(errors="surrogatepass")).hexdigest()
    return _VERSION + digest[:8]  # enough to notice a change, though not to resist an attack


def is_comparable(name: str) -> bool:
    """Return True if the hash in an object's name is one that ``code_hash`` makes, not one of an older version."""
    return re.search(rf"[#-]{_VERSION}[0-9a-f]{{8}}", name) is not None


def register_object(target: Any, name: str | None = None) -> str:
    """Name an object: by its ``module:name``, or else by a local name, under which this process keeps it.

    Args:
        target: a function, class or other callable.
        name: local name to keep it under, even if its hash is another.

    Raises:
        ValueError: the object cannot be copied to another process; the message names the variable that cannot.
    """
    if name is None:
        try:
            return import_path.name_of(target).removeprefix("es_envs.fitness:")  # ours need no module
        except (ValueError, ImportError):
            qualname = getattr(target, "__qualname__", type(target).__qualname__)
            name = f"{getattr(target, '__module__', None) or 'unknown'}:{qualname}#{code_hash(target)}"
    import_path.remember(target, name)
    return name


class _Reader:
    """Describes an object by nested lists of text.

    Args:
        path: the object's name, and the variables from there to what is read first, for messages.
        seen: by identity, the number of each object that was read before; and the object, so that it stays alive.
    """

    def __init__(self, path: list[str], seen: Mapping[int, tuple[int, object]] | None = None) -> None:
        self._path, self._seen = path, dict(seen or {})

    def read(self, value: Any) -> Any:
        """Describe plain values as they are, objects in modules by name, and all others by their parts."""
        if type(value) in _PLAIN:
            return repr(value)
        if type(value) is tuple:
            return ["tuple", *map(self.read, value)]
        if type(value) in (set, frozenset):  # in any order
            return ["set", *sorted(repr(_Reader(self._path, self._seen).read(item)) for item in value)]
        return _module_name(value) or self.parts(value)

    def parts(self, value: Any) -> Any:
        """Describe an object by its parts, unless it was read before."""
        if id(value) in self._seen:
            return f"seen {self._seen[id(value)][0]}"
        self._seen[id(value)] = len(self._seen), value
        if isinstance(value, FunctionType):
            return self._function(value)
        if isinstance(value, type):
            return self._class(value)
        if type(value) is dict:
            return ["dict", *self._items((key, item) for key, item in value.items() if key not in _TRACES_OF_USE)]
        if hasattr(value, "__wrapped__"):  # such as a cached or compiled function
            return ["wrapped", self.read(type(value)), self.read(value.__wrapped__)]
        is_tensor = hasattr(value, "detach") and hasattr(value, "dtype")  # its own pickle is another one each time
        return self._reduced(value.detach().cpu().double().numpy() if is_tensor else value)

    def _function(self, function: FunctionType) -> list[Any]:
        code, known = function.__code__, function.__globals__
        used = [(name, known[name]) for name in sorted(_global_names(code)) if name in known]
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        free = [(name, cell.cell_contents) for name, cell in cells if cell != CellType()]  # others have no value yet
        defaults = self.read(function.__defaults__), self.read(function.__kwdefaults__)
        return ["function", _source(code), *defaults, *self._items([*used, *free, *vars(function).items()])]

    def _class(self, kind: type) -> list[Any]:
        own = {name: item for name, item in sorted(vars(kind).items()) if _is_written(kind, name, item)}
        if dataclasses.is_dataclass(kind):
            own["fields"] = [(each.name, each.default, each.default_factory) for each in dataclasses.fields(kind)]
        bases = map(self.read, (type(kind), *kind.__bases__))
        return ["class", kind.__qualname__, *bases, *self._items(own.items())]

    def _reduced(self, value: Any) -> Any:
        """Describe the parts from which pickle would make the object again."""
        if isinstance(value, enum.Enum):  # which Python 3.11.2 takes for an attribute of its class
            return ["made", self.read(type(value)), self.read((value.value,))]
        from cloudpickle import Pickler

        reduce = Pickler.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:
            name, *variables = map(repr, self._path)
            raise ValueError(
                f"{' uses '.join([name, ', which uses '.join(variables)] if variables else [name])}, of {type(value)}, "
                f"which cannot be copied to a worker process ({error}): create it where it is used, in a function or "
                "method"
            ) from error
        if isinstance(reduced, str):
            return reduced
        return ["made", *(self.read(tuple(part) if isinstance(part, Iterator) else part) for part in reduced)]

    def _items(self, items: Iterable[tuple[Any, Any]]) -> Iterator[Any]:
        for name, item in items:
            self._path.append(str(name))
            yield [self.read(name), self.read(item)]
            self._path.pop()


def _module_name(value: Any) -> str | None:
    """Name under which any process finds ``value``, or None."""
    if isinstance(value, type) and not value.__flags__ & _MADE_BY_PYTHON:
        return f"{value.__module__}:{value.__qualname__}"
    if callable(value) and hasattr(value, "__qualname__"):
        with suppress(ValueError, ImportError):
            return import_path.name_of(value)
    return None


def _is_written(kind: type, name: str, value: Any) -> bool:
    """Return True if an attribute is in a class's source, not added by Python, which differs between its versions."""
    function = getattr(value, "__func__", value)  # of a static or class method
    if isinstance(function, FunctionType):
        is_made = dataclasses.is_dataclass(kind) and name.startswith("__") and _node(function.__code__) is None
        is_foreign = function.__globals__.get("__name__") != kind.__module__
        return not (is_made or is_foreign or name.startswith("__annotate"))
    is_place = hasattr(value, "__get__") and type(value).__module__ in _OF_PLACES and not isinstance(value, property)
    return not (is_place or name == "_abc_impl" or (name.startswith("_") and name.endswith("_")))


def _global_names(code: CodeType) -> set[str]:
    """Names of the globals that a function and functions within it use."""
    loads = {each.argval for each in dis.get_instructions(code) if each.opname in {"LOAD_GLOBAL", "LOAD_NAME"}}
    return loads.union(*(_global_names(each) for each in code.co_consts if isinstance(each, CodeType)))


def _source(code: CodeType) -> Any:
    """Source of a function, without comments; or, if it is not known, its bytecode."""
    node = _node(code)
    if node is not None:
        return ast.unparse(node).replace('"', "'")  # versions of Python choose different quotes for f-strings
    constants = [_source(each) if isinstance(each, CodeType) else _Reader([]).read(each) for each in code.co_consts]
    return [repr(code.co_code), repr(code.co_exceptiontable), repr(code.co_names), repr(code.co_varnames), constants]


def _node(code: CodeType) -> ast.AST | None:
    """The syntax tree of a function; None if its source is not known, or others of its name begin on its line."""
    source = "".join(linecache.getlines(code.co_filename))
    nodes = _definitions(source).get((code.co_firstlineno, code.co_name), [])
    return nodes[0] if len(nodes) == 1 else None


@lru_cache(maxsize=8)
def _definitions(source: str) -> Mapping[tuple[int, str], list[ast.AST]]:
    """All functions in a file or a notebook's cell, by first line and name."""
    found = defaultdict[tuple[int, str], list[ast.AST]](list)
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, _FUNCTIONS):
                first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
                found[first, getattr(node, "name", "<lambda>")].append(node)
    return found
