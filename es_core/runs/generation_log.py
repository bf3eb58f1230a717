"""The generation log: together with the seeds it determines the next generation.

Training writes it to each line of metrics.jsonl, and ``es_core.rebuild`` reads it. Arrays are stored as the
little-endian bytes of their float64 numbers in base64, since every bit counts.
"""

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from es_core.config.checks import Check, flag, maybe, number, whole
from es_core.formatting import shown
from es_core.policies.normalization import ObservationStatistics

_FLOAT64 = np.dtype("<f8")
_CHECKS: Mapping[str, Check] = {
    "population_size": maybe(whole(2)),
    "doublings": whole(0, 63),
    "restart": flag,
    "narrower": flag,
    "fails_early": flag,
    "episode_cap": maybe(whole(1)),
    "range_share": lambda value: None if number(0)(value) is None and value <= 1 else "a number from 0 to 1",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class GenerationLog:
    """The fitness that a strategy learnt from in a generation, and what else determines the next generation.

    Attributes:
        fitness: ``(N,)`` float64, from which the strategy learnt; NaN for a candidate that was dropped.
        population_size: the next generation's population size; None: the strategy's.
        doublings: how often the steps of this search's generations have doubled.
        restart: True if the search begins again with the next generation.
        narrower: True if it begins again with a tenth of its sigma, from the same centre.
        fails_early: True if it begins again with a tenth of its sigma, from where it began, since it has failed early.
        episode_cap: step limit of the next population's episodes, or None.
        range_share: share of the ranges of ``randomize`` in which the next population plays.
        statistics: statistics of all generations so far, which normalise the next generation's; None: no change.
        behaviours: ``(N, b)`` float64, if the strategy learnt from them, too; NaN for a candidate that has failed.
    """

    fitness: NDArray[np.float64]
    population_size: int | None
    doublings: int
    restart: bool
    narrower: bool
    fails_early: bool
    episode_cap: int | None
    range_share: float
    statistics: ObservationStatistics | None
    behaviours: NDArray[np.float64] | None = None

    @property
    def valid(self) -> NDArray[np.bool_]:
        """``(N,)``, False for a candidate that was dropped."""
        return ~np.isnan(self.fitness)

    def to_json(self) -> dict[str, Any]:
        """The field ``log`` of a line of metrics.jsonl, with a checksum of all other entries."""
        sums = self.statistics
        log = {
            "fitness": _text(self.fitness),
            "population_size": self.population_size,
            "doublings": self.doublings,
            "restart": self.restart,
            "narrower": self.narrower,
            "fails_early": self.fails_early,
            "episode_cap": self.episode_cap,
            "range_share": self.range_share,
            "observations": None if sums is None else sums.count,
            "total": None if sums is None else _text(sums.total),
            "squares": None if sums is None else _text(sums.squares),
        }
        if self.behaviours is not None:
            log["behaviours"] = _text(self.behaviours)
        return {**log, "sha256": _digest(log)}

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """Read what ``to_json`` returned.

        Raises:
            ValueError: ``values`` is not a generation log.
        """
        try:
            log = {name: value for name, value in values.items() if name != "sha256"}
            if values["sha256"] != _digest(log):
                raise ValueError("its checksum does not match")
            # Older runs have no curriculum, doublings and new beginnings.
            older = {"range_share": 1.0, "doublings": 0, "restart": False, "narrower": False, "fails_early": False}
            log = {**older, **log}
            for name, check in (*_CHECKS.items(), ("observations", maybe(whole(0, 2**63 - 1)))):
                if wrong := check(log[name]):
                    raise ValueError(f"its {name} must be {wrong}, got {shown(log[name])}")
            sums, count = None, log["observations"]
            if count is not None:
                sums = ObservationStatistics(count, _numbers(log["total"]), _numbers(log["squares"]))
                if not (np.isfinite(sums.total).all() and np.isfinite(sums.squares).all()):
                    raise ValueError("its observations are not finite")
            fitness, behaviours = _numbers(log["fitness"]), None
            if "behaviours" in log:
                behaviours = _numbers(log["behaviours"]).reshape(len(fitness), -1)
            return cls(
                fitness=fitness,
                statistics=sums,
                behaviours=behaviours,
                **{name: log[name] for name in _CHECKS},
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"its log cannot be read: {error}") from error


def _text(numbers: NDArray[np.float64]) -> str:
    return base64.b64encode(numbers.astype(_FLOAT64).tobytes()).decode()


def _numbers(text: str) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(text, validate=True), _FLOAT64).astype(np.float64)


def _digest(log: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(log, sort_keys=True).encode()).hexdigest()[:16]
