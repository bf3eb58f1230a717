"""Rollout pools: they evaluate populations, and never change a bit of the result."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.budget import evaluation_episodes, largest_population
from es_core.callables import require_importable
from es_core.config import TrainConfig
from es_core.normalizer import ObservationStatistics, ReferenceBatch, Statistics
from es_core.rollout import Failure
from es_core.strategies.population import Population
from es_envs import EnvDefinition, Episode

__all__ = ["POOLS", "STEP_TIMEOUT", "PolicyState", "Results", "RolloutPool", "make_pool", "require_pool"]

PolicyState = tuple[NDArray[np.float32], Statistics | None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Results:
    """What a generation measured, in candidate order whichever worker measured it.

    Attributes:
        valid: ``(N,)``, False where an episode of the candidate has failed for good.
        fitness: ``(N,)`` float64, aggregated over each candidate's episodes; NaN where not valid.
        fitnesses: every named fitness, ``(N, k)`` float64; NaN where a secondary one failed, or not valid.
        lengths: ``(N, k)`` steps; 0 where not valid.
        capped: ``(N, k)``, whether a step limit ended the episode; False where not valid.
        statistics: of the valid candidates' observations, one after the other; None if they are not collected.
        centre: the centre's episodes, in the order of their seeds.
        failures: of the candidates that are not valid, in their order.
    """

    valid: NDArray[np.bool_]
    fitness: NDArray[np.float64]
    fitnesses: dict[str, NDArray[np.float64]]
    lengths: NDArray[np.int64]
    capped: NDArray[np.bool_]
    statistics: list[ObservationStatistics] | None
    centre: list[Episode]
    failures: list[Failure]

    @property
    def steps(self) -> int:
        """Environment steps of the valid candidates' episodes."""
        return int(self.lengths.sum())


class RolloutPool(Protocol):
    """Workers that play episodes. Leaving the context ends them.

    A worker that dies is replaced, with a warning, and what it had to play is played again; so is an episode that
    fails, once. ``workers_replaced`` and ``retried`` count that, tasks in the latter case, since the pool was made.
    """

    config: TrainConfig
    choice: str
    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    workers_replaced: int
    retried: int

    @property
    def workers(self) -> int:
        """That play now."""

    def evaluate(
        self, population: Population, episode_seeds: NDArray[np.int64], *, centre_seeds: Sequence[int] = ()
    ) -> Results:
        """Play every candidate's episodes, and the centre's in the same queue.

        Args:
            population: of ``N`` candidates.
            episode_seeds: ``(k,)``, shared by all candidates, or ``(N, k)``.
            centre_seeds: of the centre's evaluation.

        Raises:
            RolloutError: the centre failed, or a candidate and the config says "raise", or more than a tenth of them;
                or a worker cannot be replaced.
        """

    def rollouts(self, policy_state: PolicyState, seeds: Sequence[int], *, explore: bool = False) -> list[Episode]:
        """Episodes of one policy, in the order of ``seeds``; ``explore`` plays as training does, with action noise."""

    def reference_batch(self) -> ReferenceBatch:
        """Observations of random actions, the same for every run with the config's seed."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


POOLS = ("local", "ray", "vector")
STEP_TIMEOUT = 300.0  # seconds


def require_pool(name: str, ray_address: str | None = None) -> None:
    """Refuse a pool that does not exist, or the address of a cluster that it would not use.

    Raises:
        ValueError: it says what there is.
    """
    if name == "batched":  # up to version 0.1
        raise ValueError("pool='batched' is gone: pool='vector' computes all candidates in one place")
    if name not in POOLS:
        raise ValueError(f"pool must be one of {', '.join(map(repr, POOLS))}, got {name!r}")
    if ray_address is not None and name != "ray":
        raise ValueError(f"ray_address={ray_address!r} is for pool='ray' (--pool ray), not {name!r}")


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
    """The pool of a run.

    Args:
        name: one of ``POOLS``.
        definition: of the environment.
        config: of the run.
        workers: processes; None: the usable cores.
        step_timeout: seconds that a step or reset may take; a worker in which it takes longer is ended and replaced.
        recycle_after: episodes of a worker, after which it is replaced between two generations; None: never.
        ray_address: of the cluster, for the ray pool; None: what RAY_ADDRESS names, or this machine alone.

    Raises:
        ValueError: there is no such pool, the address is for another one, or objects cannot go to other machines; for
            others see the pools themselves.
    """
    require_pool(name, ray_address)
    if name != "vector" and config.vector_envs is not None:
        raise ValueError(
            f"vector_envs={config.vector_envs} is for pool='vector' (on the command line: --pool vector), not "
            f"{name!r}; a run that has begun with it can be resumed with no other"
        )
    how: Any = {"workers": workers, "step_timeout": step_timeout, "recycle_after": recycle_after}
    if name == "ray":
        require_importable(definition, config)
    most = largest_population(config)
    if name == "local":
        from es_core.pools.local import LocalPool

        return LocalPool(definition, config, most=most, **how)
    if name == "vector":
        from es_core.pools.vector import VectorPool

        return VectorPool(definition, config, most=most, **how)
    from es_core.pools.cluster import RayPool

    together = most + (evaluation_episodes(config, most) if config.eval_every else 0)
    return RayPool(definition, config, most=together, ray_address=ray_address, **how)
