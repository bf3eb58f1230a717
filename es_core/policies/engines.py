"""Devices: which of them this machine has, and a run may use."""

import importlib.util

from es_core.config.train_config import TrainConfig
from es_core.policies.actor import Actor
from es_core.policies.compilation import require_compiler
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import Statistics


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


def require_engine(engine: str, policy: Policy) -> str:
    """The engine that computes a policy, where "auto" leaves it open.

    Args:
        engine: a config's.
        policy: its kind.

    Raises:
        ValueError: it cannot compute the policy here.
    """
    chosen = policy.engines[0] if engine == "auto" else engine
    if chosen not in policy.engines:
        raise ValueError(
            f"engine={engine!r} cannot compute the policy {policy.config.policy!r}: use "
            f"engine={' or '.join(map(repr, policy.engines))}"
        )
    if chosen == "torch" and importlib.util.find_spec("torch") is None:
        raise ValueError("engine='torch' needs torch: pip install 'es-envs[torch]'")
    return chosen


def make_actor(
    policy: Policy, parameters: Vector | None = None, statistics: Statistics | None = None, *, engine: str = "auto"
) -> Actor:
    """An actor whose policy is computed on the CPU.

    Args:
        policy: its kind.
        parameters: ``(d,)``, which act; None: they are still to be loaded.
        statistics: see ``Actor.load``.
        engine: "compiled" or "torch"; "auto": what computes such a policy the fastest.

    Raises:
        ValueError: that engine cannot compute the policy here.
    """
    if require_engine(engine, policy) == "compiled":
        require_compiler(policy.config)
        from es_core.policies.compiled import CompiledActor

        actor: Actor = CompiledActor(policy)
    else:
        from es_core.policies.torch_actor import TorchActor

        actor = TorchActor(policy)
    if parameters is not None:
        actor.load(parameters, statistics)
    return actor
