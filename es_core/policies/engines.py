"""Engines and devices: checks that a run may use them, and the actor of an engine."""

import importlib.util

from es_core.config.train_config import TrainConfig
from es_core.policies.actor import Actor
from es_core.policies.compilation import require_compiler
from es_core.policies.network import Policy, Vector
from es_core.policies.normalization import Statistics
from es_core.policies.scripted import ScriptedActor, ScriptedPolicy


def require_device(config: TrainConfig, pool: str) -> None:
    """Refuse a device that this machine does not have, or that the pool cannot use.

    Raises:
        ValueError: the device is refused; the message says why, and what to do instead.
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
    """Return True if torch is installed and sees a CUDA device. Imports torch."""
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


def require_engine(engine: str, policy: Policy) -> str:
    """Return the engine that computes a policy, chosen here if ``engine`` is "auto".

    Args:
        engine: a config's engine.
        policy: the policy.

    Raises:
        ValueError: the engine cannot compute the policy here.
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
    """Make an actor whose policy is computed on the CPU.

    Args:
        policy: the policy.
        parameters: ``(d,)``; None: load them later.
        statistics: see ``Actor.load``.
        engine: "compiled" or "torch"; "auto": the fastest engine for this policy.

    Raises:
        ValueError: that engine cannot compute the policy here.
    """
    if isinstance(policy, ScriptedPolicy):
        return ScriptedActor(policy)
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
