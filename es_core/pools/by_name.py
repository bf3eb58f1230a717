"""Rollout pools by name. ``make_pool`` builds the one of a run."""

import importlib.util

from es_core.config.objects import require_importable
from es_core.config.train_config import TrainConfig
from es_core.pools.options import PoolOptions
from es_core.pools.pool import RolloutPool
from es_core.strategies.defaults import most_candidates
from es_envs import EnvDefinition


def make_pool(definition: EnvDefinition, config: TrainConfig, options: PoolOptions) -> RolloutPool:
    """Make the pool of a run.

    Args:
        definition: the environment's definition.
        config: the run's config.
        options: which pool, and how it plays.

    Raises:
        ValueError: a setting is for another pool, or objects cannot go to other machines; for other reasons see the
            pools themselves.
        ImportError: the pool needs a package that is not installed.
    """
    if options.pool != "vector" and config.vector_envs is not None:
        raise ValueError(
            f"vector_envs={config.vector_envs} is for pool='vector' (on the command line: --pool vector), not "
            f"{options.pool!r}; a run that began with it can only be resumed with it"
        )
    if options.pool == "local":
        from es_core.pools.local import LocalPool

        return LocalPool(definition, config, options, most=most_candidates(config))
    if options.pool == "vector":
        if importlib.util.find_spec("torch") is None:
            raise ImportError("pool='vector' needs torch: pip install 'es-envs[torch]'")
        from es_core.pools.vector import VectorPool

        return VectorPool(definition, config, options)
    require_importable(definition, config)
    from es_core.pools.cluster import RayPool

    return RayPool(definition, config, options)
