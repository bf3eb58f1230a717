"""Hashes of functions and classes by what they compute, which name those that are not in a module."""

import builtins
import dis
import hashlib
from collections.abc import Iterable, Iterator
from types import CellType, CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, ModuleType
from typing import Any

import gymnasium

from es_envs import import_path

LENGTH = 8
"""Hexadecimal digits of a hash: enough to notice a change, though not to resist an attack."""

# Attributes that say where a class was defined, or that Python derives from the others.
_PASSED_OVER = frozenset({
    "__abstractmethods__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__firstlineno__",
    "__module__", "__orig_bases__", "__parameters__", "__static_attributes__", "_abc_impl",
})  # fmt: skip
_MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE; the interpreter's own types need not be in the module that they name
# Attributes of a Gymnasium space that change when it is printed, or drawn from.
_OF_USE = frozenset({"_np_random", "low_repr", "high_repr"})
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))


def code_hash(target: Any) -> str:
    """Hash of a function, class or other callable, the same in each process that runs the same source.

    It covers bytecode, constants, default values, and the current values of closure variables and globals that are
    used; and so on through the functions and classes of the script among them. Comments, line numbers, annotations and
    the file do not matter. Objects in modules enter only by name: a change of theirs goes unnoticed. Another minor
    version of Python compiles other bytecode, and gives another hash; from 3.13 on, the line where a class within a
    function begins is part of that function.

    Raises:
        ValueError: it uses a variable that cannot be copied to another process; the message names it.
    """
    walk = _Walk(getattr(target, "__qualname__", type(target).__qualname__))
    walk.add(target, by_name=False)
    return walk.digest()[:LENGTH]


def keep(target: Any, name: str | None = None) -> str:
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


class _Walk:
    """Feeds a hash with all parts of an object.

    Args:
        name: the object's name, for messages.
    """

    def __init__(self, name: str) -> None:
        self._hash = hashlib.sha256()
        self._seen: dict[int, tuple[int, object]] = {}  # by identity: when, and the object, so that it stays alive
        self._way = [name]  # variables, from the object to where the walk is

    def digest(self) -> str:
        return self._hash.hexdigest()

    def add(self, value: Any, *, by_name: bool = True) -> None:
        """Add an object: plain values as they are, objects in modules by name, all others by their parts."""
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            self._feed(f"{type(value).__name__} {value!r}")
        elif isinstance(value, CodeType):
            self._add_code(value)
        elif type(value) is tuple:
            self._add_all("tuple", value)
        elif type(value) in (set, frozenset):
            self._add_all("set", sorted(self._digest_of(item) for item in value))
        elif (name := _module_name(value) if by_name else None) is not None:
            self._feed(f"name {name}")
        elif id(value) in self._seen:
            self._feed(f"seen {self._seen[id(value)][0]}")
        else:
            self._seen[id(value)] = len(self._seen), value
            self._add_parts(value)

    def _add_parts(self, value: Any) -> None:
        if isinstance(value, FunctionType):
            self._add_function(value)
        elif isinstance(value, type):
            self._add_all(f"class {value.__qualname__}", (type(value), *value.__bases__))
            self._add_named(sorted(_own(value)))
        elif type(value) is list:
            self._add_all("list", value)
        elif type(value) is dict:
            self._feed("dict")
            for key, item in value.items():
                self.add(key)
                self._add_named([(str(key), item)])
        elif isinstance(value, CellType):
            self._add_all("cell", _content(value))
        elif hasattr(value, "__wrapped__"):  # such as a cached or compiled function
            self._add_all("wrapped", (type(value), value.__wrapped__))
        elif isinstance(value, gymnasium.Space):
            state = vars(value).items()
            self._add_all("space", [type(value), {name: item for name, item in state if name not in _OF_USE}])
        elif hasattr(value, "detach") and hasattr(value, "dtype"):  # a tensor, whose pickle is another one each time
            self._add_all("tensor", (type(value), str(value.dtype), value.detach().cpu().double().numpy()))
        else:
            self._add_reduced(value)

    def _add_function(self, function: FunctionType) -> None:
        self._add_all("function", (function.__code__, function.__defaults__, function.__kwdefaults__))
        used = [(name, function.__globals__[name]) for name in _global_names(function.__code__, function.__globals__)]
        free = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        self._add_named([*used, *free, *vars(function).items()])

    def _add_code(self, code: CodeType) -> None:
        arguments = code.co_argcount + code.co_kwonlyargcount
        counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        named = (code.co_names, code.co_varnames[:arguments], code.co_freevars)
        self._add_all("code", (code.co_code, code.co_exceptiontable, code.co_consts, counts, named))

    def _add_reduced(self, value: Any) -> None:
        """Add the parts from which pickle would rebuild the object."""
        from cloudpickle import Pickler

        reduce = Pickler.dispatch_table.get(type(value))
        try:
            reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        except Exception as error:
            used = ", which uses ".join(map(repr, self._way[1:]))
            raise ValueError(
                f"{self._way[0]!r}{' uses ' if used else ''}{used}, of {type(value)}, which cannot be copied to a "
                f"worker process ({error}): create it where it is used, in a function or method"
            ) from error
        if isinstance(reduced, str):
            self._feed(f"object {reduced}")
            return
        make, arguments, *others = reduced
        self._add_all("made", (make, arguments))
        for other in others:
            self.add(list(other) if isinstance(other, Iterator) else other)

    def _add_named(self, items: Iterable[tuple[str, Any]]) -> None:
        for name, item in items:
            self._feed(f"variable {name}")
            self._way.append(name)
            self.add(item)
            self._way.pop()

    def _add_all(self, kind: str, items: Iterable[Any]) -> None:
        items = list(items)
        self._feed(f"{kind} {len(items)}")
        for item in items:
            self.add(item)

    def _feed(self, text: str) -> None:
        self._hash.update(f"{len(text)} {text}".encode(errors="surrogatepass"))

    def _digest_of(self, item: Any) -> str:
        walk = _Walk(self._way[0])
        walk._way = [*self._way]
        walk.add(item)
        return walk.digest()


def _module_name(value: Any) -> str | None:
    """Name under which any process finds ``value``, or None."""
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(value, type) and not value.__flags__ & _MADE_BY_PYTHON:
        return f"{value.__module__}:{value.__qualname__}"
    if not callable(value) or not hasattr(value, "__qualname__"):
        return None
    try:
        return import_path.name_of(value)
    except (ValueError, ImportError):
        return None


def _own(kind: type) -> Iterator[tuple[str, Any]]:
    """Attributes that a class itself defines."""
    for name, value in vars(kind).items():
        if name not in _PASSED_OVER and not isinstance(value, GetSetDescriptorType | MemberDescriptorType):
            yield name, value


def _global_names(code: CodeType, known: dict[str, Any]) -> list[str]:
    """Names of the globals that a function and functions within it use, without builtins."""
    found = {
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}
    }
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= {*_global_names(constant, known)}
    return sorted(name for name in found if name in known and known[name] is not vars(builtins).get(name, known))


def _content(cell: CellType) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # nothing has been assigned to the variable yet
        return ()
