"""Compiling the kernels, once for each kind of policy and processor, into a folder where other processes find them."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path

import numpy as np
from gymnasium import spaces

from es_core.config import TrainConfig
from es_core.normalizer import REFERENCE_SIZE, ReferenceBatch

_SOURCE = Path(__file__).with_name("kernels.py")


def require_numba() -> None:
    """Refuse to go on without numba, which compiles policies.

    Raises:
        ValueError: it cannot be imported.
    """
    try:
        import numba  # noqa: F401
    except ImportError as error:
        raise ValueError(
            f"policies are compiled by numba, which cannot be imported ({error}): `pip install numba`, or let torch "
            "compute with engine='torch' (on the command line: --engine torch)"
        ) from error


@cache
def cache_folder() -> Path:
    """Where compiled kernels are kept for this processor.

    Beside the package's source if that can be written, else in the user's cache, else in a folder of this process and
    those that it starts. NUMBA_CACHE_DIR names another. Each kind of processor has a folder of its own: two that share
    a disk and compile at once would mix up their files.
    """
    import llvmlite.binding
    import numba

    name = numba.config.CPU_NAME or llvmlite.binding.get_host_cpu_name()
    features = numba.config.CPU_FEATURES or llvmlite.binding.get_host_cpu_features().flatten()
    processor = f"{name}-{sha256(features.encode()).hexdigest()[:8]}"
    given = os.environ.get("NUMBA_CACHE_DIR")
    for base in [Path(given)] if given else _usual_bases():
        with suppress(OSError):
            folder = base / f"es-envs-{processor}"
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return folder
    folder = Path(tempfile.mkdtemp(prefix="es-envs-"))
    atexit.register(_remove_own, folder, os.getpid())
    os.environ["NUMBA_CACHE_DIR"] = str(folder)  # for the processes that this one starts
    return folder


def _usual_bases() -> Iterator[Path]:
    yield _SOURCE.parent / "__pycache__"
    with suppress(RuntimeError):  # nobody's home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "es-envs"


def _remove_own(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not a forked one
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def kept_in_cache() -> Iterator[None]:
    """What numba is told to compile within it is kept in ``cache_folder()``; a user's own functions where they were."""
    import numba

    before, numba.config.CACHE_DIR = numba.config.CACHE_DIR, str(cache_folder())
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before


def prepare(config: TrainConfig, say: Callable[[str], None]) -> None:
    """Compile what a policy needs, unless that has been done here before, so that workers need not do so one by one.

    Args:
        config: of the policy.
        say: is told in a sentence that this takes a moment.
    """
    with suppress(ImportError):  # who needs numba says so
        import numba

        kind = "-".join(_kind(config)) if _is_compiled(config) else "noise"
        source = f"numba {numba.__version__}\n{sha256(_SOURCE.read_bytes()).hexdigest()}\n"
        mark = cache_folder() / f"{kind}.ready"
        if mark.is_file() and mark.read_text(encoding="ascii") == source:
            return
        say("compiling the policy for this processor: once, it takes a few seconds")
        load_kernels(config)
        with suppress(OSError):  # the next process will say it again
            mark.write_text(source, encoding="ascii")


def load_kernels(config: TrainConfig) -> None:
    """Compile what a policy needs, or load it from the cache; processes that are forked from this one share it."""
    _compile_noise()
    if _is_compiled(config):
        _compile_policy(config)


def _is_compiled(config: TrainConfig) -> bool:
    return config.engine != "torch" and ":" not in config.policy


def _kind(config: TrainConfig) -> Iterator[str]:
    """What decides which kernels a policy needs."""
    yield "images" if _sees(config) else "numbers"
    if config.action_noise or config.sample_actions:
        yield "exploring"
    if config.virtual_batch_normalization:
        yield "batch"


def _sees(config: TrainConfig) -> bool:
    return config.policy.startswith("cnn")


def _compile_noise() -> None:
    from es_core.policies.noise import add_noise, noise

    noise(0, np.empty(2, np.float32))
    add_noise(np.zeros(1, np.int64), np.ones(1), np.ones(1), 0, np.zeros(2), np.zeros(2))


def _compile_policy(config: TrainConfig) -> None:
    """By a step of a small one."""
    from es_core.policies import make_actor, make_policy

    pixels = spaces.Box(0, 255, (84, 84, 1), np.uint8)
    space = pixels if _sees(config) else spaces.Box(-1, 1, (2,), np.float32)
    bins = None if config.action_bins is None else 2
    small = replace(config, hidden_sizes=(2,), action_bins=bins, observation_normalization=False)
    policy = make_policy(small, space, spaces.Box(-1, 1, (1,), np.float32))
    batch = ReferenceBatch(np.zeros((REFERENCE_SIZE, policy.inputs), np.float32))
    statistics = batch if config.virtual_batch_normalization else None
    actor = make_actor(policy, policy.initial(0), statistics)
    actor.reset(noise_seed=0)
    actor(np.zeros(space.shape, space.dtype))
