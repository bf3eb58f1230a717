"""What computes a policy: which engine and device a run may use, and which of them is the fastest here."""

import importlib.util
import time
from collections.abc import Mapping
from statistics import median

import numpy as np

from es_core.config import TrainConfig
from es_core.policies import Policy, make_network

_SECONDS = 0.2  # of measuring each engine
_SPAN = 5  # measurements at least


def require_device(config: TrainConfig, *, batched: bool) -> None:
    """Refuse a device that this machine does not have, or that the pool has no use for.

    Raises:
        ValueError: it says why, and what to do instead.
    """
    if config.device != "cuda":
        return
    if not has_cuda():
        raise ValueError(
            'device="cuda": this machine has no usable CUDA device (or no torch that sees it); use device="cpu"'
        )
    if not batched:
        raise ValueError(
            'device="cuda": the local pool computes on CPU workers; use pool="batched" (on the command line: '
            '--pool batched), or device="cpu"'
        )


def has_cuda() -> bool:
    """Whether torch is installed and sees a CUDA device. Imports torch."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def choices(config: TrainConfig, policy: Policy) -> list[tuple[str, str]]:
    """The engines and devices, as pairs, that ``config`` leaves open for ``policy`` on this machine.

    Raises:
        ValueError: there is none.
    """
    engines = [engine for engine in policy.engines if config.engine in ("auto", engine)]
    found = []
    if "numpy" in engines and config.device != "cuda":
        found.append(("numpy", "cpu"))
    if "torch" in engines and importlib.util.find_spec("torch") is not None:
        if config.device != "cuda":
            found.append(("torch", "cpu"))
        if config.device != "cpu" and has_cuda():
            found.append(("torch", "cuda"))
    if not found:
        raise ValueError(
            f"engine={config.engine!r} on device={config.device!r} cannot compute the policy {config.policy!r} here: "
            f"it needs one of {', '.join(policy.engines)}; torch comes with `pip install es-envs[torch]`"
        )
    return found


def measure(policy: Policy, rows: int, options: list[tuple[str, str]]) -> Mapping[tuple[str, str], float]:
    """Seconds that a step of ``rows`` candidates takes with each engine and device: the median of a moment."""
    generator = np.random.default_rng(0)
    seconds = {}
    for engine, device in options:
        network = make_network(policy, rows, engine=engine, device=device)
        mean = policy.initial(0)
        for row in range(rows):
            network.load(row, lambda out, mean=mean: np.copyto(out, mean))  # type: ignore[misc]
            network.reset(row)
        network.inputs[:, : policy.inputs] = generator.random((rows, policy.inputs), np.float32)
        network.forward(rows)  # what is done once only
        taken: list[float] = []
        while sum(taken) < _SECONDS or len(taken) < _SPAN:
            started = time.perf_counter()
            network.forward(rows)
            taken.append(time.perf_counter() - started)
        seconds[engine, device] = median(taken)
    return seconds
