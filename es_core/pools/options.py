"""Options of a rollout pool, as one value that goes from the caller to the pool."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from es_core.config.checks import require_positive, require_seconds
from es_envs.arguments import require_one_of
from es_envs.episode import STEP_TIMEOUT

POOLS = ("local", "ray", "vector")


def _option(default: Any, help_text: str, **argument: Any) -> Any:
    """Make a field; ``argument``: what the parser of its command-line option takes more."""
    return field(default=default, metadata={"help": help_text, **argument})


@dataclass(frozen=True, kw_only=True)
class PoolOptions:
    """Options that say how the episodes of a run are played; its result depends on none of them.

    Each field carries its own sentence; the command line has an option for it.

    Raises:
        ValueError: there is no such pool, or an option is invalid or for another pool.
    """

    pool: str = _option(
        "local",
        "how to play episodes: local worker processes (local, the default), a Ray cluster (ray), or one vector "
        "environment with a candidate in each copy, on a GPU with --device cuda (vector)",
        choices=POOLS,
    )
    workers: int | None = _option(None, "worker processes (default: the usable cores)", type=int, metavar="N")
    ray_address: str | None = _option(
        None,
        "cluster of --pool ray: auto or HOST:PORT (default: what RAY_ADDRESS names, or this machine alone)",
        metavar="ADDRESS",
    )
    step_timeout: float = _option(
        STEP_TIMEOUT,
        f"time limit of a step or reset in seconds; then the worker is replaced (default: {STEP_TIMEOUT:g})",
        type=float,
        metavar="S",
    )
    episodes_per_worker: int | None = _option(
        None,
        "replace a worker after this many episodes, between generations, for simulators that leak (default: never)",
        type=int,
        metavar="N",
    )

    def __post_init__(self) -> None:
        if self.pool == "batched":  # up to version 0.1
            raise ValueError(
                "pool='batched' was removed: use pool='vector', which computes all candidates in one place"
            )
        require_one_of("pool", self.pool, POOLS)
        workers = self.workers
        if self.ray_address is not None and self.pool != "ray":
            raise ValueError(f"ray_address={self.ray_address!r} is for pool='ray' (--pool ray), not {self.pool!r}")
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ValueError(
                f"workers must be a whole number of at least 1, or None for all usable cores; got {workers!r}"
            )
        if workers is not None and self.pool == "vector":
            raise ValueError(
                f"workers={workers!r} is for the pools 'local' and 'ray': set the vector pool's number of copies with "
                "vector_envs (on the command line: --vector-envs), which changes the results of a run"
            )
        require_seconds("step_timeout", self.step_timeout)
        if self.episodes_per_worker is not None:
            require_positive("episodes_per_worker", self.episodes_per_worker)

    @classmethod
    def split(cls, settings: Mapping[str, Any]) -> tuple[Self, dict[str, Any]]:
        """The pool's options among ``settings``, and the others."""
        ours = {option.name for option in fields(cls)} & settings.keys()
        others = {name: value for name, value in settings.items() if name not in ours}
        return cls(**{name: settings[name] for name in ours}), others

    @property
    def words(self) -> list[str]:
        """The words of a command that has these options."""
        given = {option.name: getattr(self, option.name) for option in fields(self)}
        changed = {option.name for option in fields(self) if given[option.name] != option.default}
        return [word for name in sorted(changed) for word in (f"--{name.replace('_', '-')}", str(given[name]))]
