"""Compile the kernels once for each processor, into files that other processes load without numba.

numba compiles a kernel to LLVM's assembly, and LLVM compiles that to machine code, which is kept. Loading it takes
milliseconds. numba's own cache would need numba itself: a second and 60 MB in every process.
"""

import atexit
import ctypes
import os
import shutil
import stat
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from es_core.config.train_config import TrainConfig
from es_core.files import CheckpointError, open_plain
from es_core.policies.kernels import COLUMNS, EXPORTS, HELPERS
from es_envs.cache import user_cache

_DIGEST = 32  # bytes before the code
_SOURCE = Path(__file__).with_name("kernels.py")


class Kernel:
    """A compiled function of ``kernels``: call it with numbers and arrays, which it may change.

    Args:
        name: the function's name.

    Raises:
        ImportError: it must be compiled first, and numba cannot be imported.
    """

    def __init__(self, name: str) -> None:
        _, self._kinds, returns = EXPORTS[name]
        arguments: list[Any] = []
        for kind in self._kinds:
            arguments += [_SCALARS.get(kind, ctypes.c_void_p), *[ctypes.c_int64] * kind.count("*")]
        self._call = ctypes.CFUNCTYPE(_SCALARS[returns], *arguments)(_loaded(name))

    def __call__(self, *arguments: Any) -> Any:
        """Call it."""
        return self.bound(*arguments)()

    def bound(self, *arguments: Any) -> Callable[[], Any]:
        """A function that calls it with these arguments, and takes a microsecond less."""
        flat: list[Any] = []
        for kind, argument in zip(self._kinds, arguments, strict=True):
            if kind in _SCALARS:
                flat.append(_SCALARS[kind](argument))
                continue
            dtype, dimensions = ("int64", 1) if kind == "memory" else (kind.rstrip("*"), kind.count("*"))
            if argument.dtype != dtype or argument.ndim != dimensions or not argument.flags.c_contiguous:
                raise TypeError(f"a kernel takes C-contiguous {dtype} arrays of {dimensions} dimensions")
            flat += [ctypes.c_void_p(argument.ctypes.data), *map(ctypes.c_int64, argument.shape[: kind.count("*")])]
        call = partial(self._call, *flat)
        call.arrays = arguments  # type: ignore[attr-defined]  # which live as long as it does
        return call


_SCALARS: dict[str, Any] = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "void": None}
# The arrays as which a policy's memory is seen, of any length.
_MEMORY = {"float32": "(2**40,)", "float64": "(2**40,)", "int64": f"(2**40, {COLUMNS})"}
kernel = cache(Kernel)


def require_compiler(config: TrainConfig) -> None:
    """Refuse a policy whose kernels are not compiled yet and cannot be.

    Raises:
        ValueError: numba cannot be imported.
    """
    try:
        load_kernels(config)
    except ImportError as error:
        raise ValueError(
            f"policies are compiled by numba, which cannot be imported ({error}): `pip install numba`, or compute with "
            "torch: engine='torch' (on the command line: --engine torch)"
        ) from error


def is_compiled(config: TrainConfig) -> bool:
    """Return True if nothing is left to compile for a policy, or no compiler is installed."""
    try:
        if all(_read(_file(name)) for name in kernels_of(config)):
            return True
        import numba  # noqa: F401
    except ImportError:  # `require_compiler` reports it
        return True
    return False


def compile_kernels(config: TrainConfig, say: Callable[[str], None]) -> None:
    """Compile the kernels that a policy needs, so that workers need not do so one by one.

    Args:
        config: the policy's config.
        say: called with a message before, since it takes a while.
    """
    if lasting_folder() is not None:
        say("compiling the policy for this processor: once, it takes some seconds")
    else:
        say(
            "compiling the policy for this processor, which takes some seconds at every command, since no folder for "
            f"compiled code can be written (tried: {', '.join(map(str, bases()))}): set the environment variable "
            "NUMBA_CACHE_DIR to one that can"
        )
    load_kernels(config)


def load_kernels(config: TrainConfig) -> None:
    """Load or compile the kernels that a policy needs; processes forked from this one share them."""
    for name in kernels_of(config):
        kernel(name)


def kernels_of(config: TrainConfig) -> Iterator[str]:
    """Names of the kernels that a policy and its training need."""
    yield from ("fill_normals", "add_noise")
    if config.engine == "torch" or ":" in config.policy:
        return
    has_images = config.policy.startswith("cnn")
    yield from ("act", "transpose", *(["encode_images"] if has_images else []))
    if config.action_noise or config.sample_actions:
        yield "act_exploring"
    if config.virtual_batch_normalization:
        yield from ("activate", "products", "normalize", *(["convolutions"] if has_images else []))


def _loaded(name: str) -> int:
    """Address of a kernel, which is compiled unless its file exists."""
    from llvmlite import binding

    code = _read(_file(name))
    if code is None:
        code = _machine().emit_object(binding.parse_assembly(_assembly(name)))
        _write(_file(name), code)
    for unused in _UNUSED:
        if binding.address_of_symbol(unused) is None:  # numba is not loaded
            binding.add_symbol(unused, ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(_symbol(name)))


# numba's error functions: code that is never reached refers to them.
_UNUSED = ("NRT_MemInfo_call_dtor", "numba_gil_ensure", "numba_gil_release")
_engines: list[Any] = []  # which hold the code


def _symbol(name: str) -> str:
    return f"es_envs_{name}"


def _assembly(name: str) -> str:
    """LLVM's assembly of a C function that takes an address and sizes for each array."""
    import numba
    from numba.extending import register_jitable

    for helper in HELPERS:
        if not hasattr(helper, "is_registered"):
            register_jitable(error_model="numpy", forceinline=True)(helper)
            helper.is_registered = True  # type: ignore[attr-defined]
    function, kinds, returns = EXPORTS[name]
    types: list[Any] = []
    parameters: list[str] = []
    arguments: list[str] = []
    for number, kind in enumerate(kinds):
        sizes = [f"a{number}_{at}" for at in range(kind.count("*"))]
        parameters += [f"a{number}", *sizes]
        if kind == "memory":
            types.append(numba.types.voidptr)
            arguments += [f"carray(a{number}, {shape}, {dtype})" for dtype, shape in _MEMORY.items()]
            continue
        scalar = getattr(numba.types, kind.rstrip("*"))
        types += [numba.types.CPointer(scalar) if sizes else scalar, *[numba.int64] * len(sizes)]
        arguments.append(f"carray(a{number}, ({', '.join(sizes)},))" if sizes else f"a{number}")
    scope = {name: getattr(np, name) for name in _MEMORY}
    scope |= {"carray": numba.carray, "function": numba.njit(function, error_model="numpy", forceinline=True)}
    entry = eval(f"lambda {', '.join(parameters)}: function({', '.join(arguments)})", scope)  # noqa: S307  (our own text)
    compiled = numba.cfunc(getattr(numba.types, returns)(*types), error_model="numpy")(entry)
    return str(compiled.inspect_llvm()).replace(compiled.native_name, _symbol(name))


def _machine() -> Any:
    """LLVM's target machine: this processor, or the one that numba is set to compile for."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    target = binding.Target.from_default_triple()
    processor, features = _processor()
    return target.create_target_machine(cpu=processor, features=features, opt=3, codemodel="jitdefault", jit=True)


def _processor() -> tuple[str, str]:
    from llvmlite import binding

    features = os.environ.get("NUMBA_CPU_FEATURES") or binding.get_host_cpu_features().flatten()
    return os.environ.get("NUMBA_CPU_NAME") or binding.get_host_cpu_name(), features


def _file(name: str) -> Path:
    return cache_folder() / f"{name}-{_version()}.o"


@cache
def _version() -> str:
    """Digest of everything that determines the machine code, except the processor."""
    compiler = f"numba {version('numba')}, llvmlite {version('llvmlite')}\n"
    return sha256(compiler.encode() + _SOURCE.read_bytes() + Path(__file__).read_bytes()).hexdigest()[:16]


def _read(file: Path) -> bytes | None:
    """Return what ``_write`` wrote; None if there is no file, a damaged one, which would crash LLVM, or another's."""
    with suppress(OSError, CheckpointError):
        if not _is_own(file, file.lstat()):  # a link, too
            return None
        with open_plain(file) as source:
            data = source.read() if _is_own(file, os.fstat(source.fileno())) else b""
        if data[:_DIGEST] == sha256(data[_DIGEST:]).digest():
            return data[_DIGEST:]
    return None


def _write(file: Path, code: bytes) -> None:
    """Write code and its digest atomically, whatever other processes write."""
    with suppress(OSError):  # the next process will compile it again
        handle, path = tempfile.mkstemp(dir=file.parent)
        try:
            with os.fdopen(handle, "wb") as temporary:
                temporary.write(sha256(code).digest() + code)
            Path(path).replace(file)
        finally:
            Path(path).unlink(missing_ok=True)


def _is_own(path: Path, status: os.stat_result) -> bool:
    """Return True if nobody but this user and root can change a file or folder: its machine code runs as this user."""
    if sys.platform == "win32":
        return True  # where others may write nowhere by default, and the mode tells nothing
    is_strange = not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode))
    if status.st_uid in {0, os.getuid()} and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not is_strange:
        return True
    kind = "a link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    why = f"is {kind}" if is_strange else f"belongs to user {status.st_uid}, with mode {stat.S_IMODE(status.st_mode):o}"
    warnings.warn(
        f"{path} {why}: somebody else could change the machine code in it, so it is compiled again elsewhere. Remove "
        "it, or let the environment variable NUMBA_CACHE_DIR name a folder that you alone can write to",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def cache_folder() -> Path:
    """Folder of the compiled kernels for this processor: a lasting one, or else of this process and its children."""
    return lasting_folder() or _passing_folder()


@cache
def lasting_folder() -> Path | None:
    """Folder in which kernels are kept; None if none of ``bases`` can be written, and by nobody else."""
    for base in bases():
        with suppress(OSError):
            folder = base / _of_processor()
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                if _is_own(folder, folder.lstat()):
                    return folder
    return None


@cache
def _passing_folder() -> Path:
    base = Path(tempfile.mkdtemp(prefix="es-envs-"))
    atexit.register(_remove_own, base, os.getpid())
    os.environ["NUMBA_CACHE_DIR"] = str(base)  # for the processes that this one starts
    folder = base / _of_processor()
    folder.mkdir(mode=0o755)
    return folder


def _of_processor() -> str:
    name, features = _processor()
    return f"es-envs-{name}-{sha256(features.encode()).hexdigest()[:8]}"


@cache  # a passing folder changes the variable
def bases() -> list[Path]:
    """Folders that may hold it: NUMBA_CACHE_DIR alone, or else next to the package's source and in the user's cache."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    if given:
        return [Path(given)]
    own = user_cache()
    return [_SOURCE.parent / "__pycache__", *([] if own is None else [own])]


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a forked one
        shutil.rmtree(folder, ignore_errors=True)
