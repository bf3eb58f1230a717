"""Rollout pools by name. ``make_pool`` builds the one of a run."""

import importlib.util
from typing import Any

from es_core.config.objects import require_importable
from es_core.config.train_config import TrainConfig
from es_core.pools.pool import RolloutPool, require_no_workers, require_workers
from es_core.strategies.defaults import most_candidates
from es_envs import EnvDefinition
from es_envs.choice import require_one_of
from es_envs.episode import STEP_TIMEOUT

POOLS = ("local", "ray", "vector")


def require_pool(name: str, ray_address: str | None = None, workers: int | None = None) -> None:
    """Refuse a pool that does not exist, or a cluster's address or number of workers that is not for it.

    Raises:
        ValueError: the message says what is possible.
    """
    if name == "batched":  # up to version 0.1
        raise ValueError("pool='batched' was removed: use pool='vector', which computes all candidates in one place")
    require_one_of("pool", name, POOLS)
    if ray_address is not None and name != "ray":
        raise ValueError(f"ray_address={ray_address!r} is for pool='ray' (--pool ray), not {name!r}")
    require_workers(workers)
    if name == "vector":
        require_no_workers(workers)


def make_pool(
    name: str,
    definition: EnvDefinition,
    config: TrainConfig,
    *,
    workers: int | None,
    step_timeout: float = STEP_TIMEOUT,
    recycle_after: int | None = None,
    ray_address: str | None = None,
) -> RolloutPool:
    """Make the pool of a run.

    Args:
        name: one of ``POOLS``.
        definition: the environment's definition.
        config: the run's config.
        workers: number of processes; None: the usable cores.
        step_timeout: seconds that a step or reset may take; a worker in which it takes longer is ended and replaced.
        recycle_after: episodes after which a worker is replaced, between two generations; None: never.
        ray_address: the cluster's address, for the ray pool; None: RAY_ADDRESS, or this machine alone.

    Raises:
        ValueError: there is no such pool, the address is for another one, or objects cannot go to other machines; for
            other reasons see the pools themselves.
    """
    require_pool(name, ray_address)
    if name != "vector" and config.vector_envs is not None:
        raise ValueError(
            f"vector_envs={config.vector_envs} is for pool='vector' (on the command line: --pool vector), not "
            f"{name!r}; a run that began with it can only be resumed with it"
        )
    how: Any = {"workers": workers, "step_timeout": step_timeout, "recycle_after": recycle_after}
    if name == "ray":
        require_importable(definition, config)
    if name == "local":
        from es_core.pools.local import LocalPool

        return LocalPool(definition, config, most=most_candidates(config), **how)
    if name == "vector":
        if importlib.util.find_spec("torch") is None:
            raise ImportError("pool='vector' needs torch: pip install 'es-envs[torch]'")
        from es_core.pools.vector import VectorPool

        return VectorPool(definition, config, **how)
    from es_core.pools.cluster import RayPool

    return RayPool(definition, config, ray_address=ray_address, **how)
