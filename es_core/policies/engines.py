"""Devices: which of them this machine has, and a run may use."""

import importlib.util

from es_core.config import TrainConfig


def require_device(config: TrainConfig, pool: str) -> None:
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
    if pool != "vector":
        raise ValueError(
            'device="cuda": workers compute on the CPU; use pool="vector" (on the command line: --pool vector), or '
            'device="cpu"'
        )


def has_cuda() -> bool:
    """Whether torch is installed and sees a CUDA device. Imports torch."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()
