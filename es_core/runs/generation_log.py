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

from es_core.config.checks import Check, finite, maybe, one_of, whole
from es_core.formatting import shown
from es_core.policies.normalization import ObservationStatistics

_FLOAT64 = np.dtype("<f8")


def _states(value: Any) -> str | None:
    """Check for states of rules by name."""
    ok = isinstance(value, dict) and all(maybe(finite)(state) is None for state in value.values())
    return None if ok else "numbers or None by name"


_CHECKS: Mapping[str, Check] = {
    "rules": _states,
    "population_size": maybe(whole(2)),
    "search_from": maybe(one_of("initial", "centre")),
    "observations": maybe(whole(0, 2**63 - 1)),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class GenerationLog:
    """The fitness that a strategy learnt from in a generation, and what else determines the next generation.

    Attributes:
        fitness: ``(N,)`` float64, from which the strategy learnt; NaN for a candidate that was dropped.
        rules: the next generation's state of each of the run's rules (``es_core/training/rules``), by name.
        population_size: the next generation's number of candidates; None: the strategy's.
        search_from: "initial" or "centre", if the search restarts with the next generation, from where it began or
            from where it is; None: it continues.
        statistics: statistics of all generations so far, which normalise the next generation's; None: no change.
        behaviours: ``(N, b)`` float64, if the strategy learnt from them, too; NaN for a candidate that has failed.
    """

    fitness: NDArray[np.float64]
    rules: Mapping[str, float | None]
    population_size: int | None
    search_from: str | None
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
            "rules": dict(self.rules),
            "population_size": self.population_size,
            "search_from": self.search_from,
            "observations": None if sums is None else sums.count,
            "total": None if sums is None else _text(sums.total),
            "squares": None if sums is None else _text(sums.squares),
        }
        if self.behaviours is not None:
            log["behaviours"] = _text(self.behaviours)
        return {**log, "sha256": _digest(log)}

    @classmethod
    def from_json(cls, values: Any, *, before: Mapping[str, float | None]) -> Self:
        """Read what ``to_json`` returned, in this version or an earlier one; ``before``: states before the generation.

        Raises:
            ValueError: ``values`` is not a generation log.
        """
        try:
            log = {name: value for name, value in values.items() if name != "sha256"}
            if values["sha256"] != _digest(log):
                raise ValueError("its checksum does not match")
            if "rules" not in log:
                log = _from_older(log, before)
            for name, check in _CHECKS.items():
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
                rules=log["rules"],
                population_size=log["population_size"],
                search_from=log["search_from"],
                statistics=sums,
                behaviours=behaviours,
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"its log cannot be read: {error}") from error


def _from_older(log: Mapping[str, Any], before: Mapping[str, float | None]) -> dict[str, Any]:
    """Return a log of an earlier version, in which each rule had fields of its own, as this version has it."""
    log = {"range_share": 1.0, "doublings": 0, "restart": False, "narrower": False, "fails_early": False, **log}
    begins = log["restart"] or log["fails_early"]
    rules = {"episode_cap": log["episode_cap"], "curriculum": log["range_share"]}
    rules["generation_steps"] = 0 if begins else log["doublings"]
    if log["restart"]:
        rules |= {"plateau": (before.get("plateau") or 0) + 1, "sigma_shrinking": 0}
    elif log["narrower"] or log["fails_early"]:
        rules["sigma_shrinking"] = 1 if log["narrower"] else 2
    return {**log, "rules": rules, "search_from": "initial" if begins else "centre" if log["narrower"] else None}


def _text(numbers: NDArray[np.float64]) -> str:
    return base64.b64encode(numbers.astype(_FLOAT64).tobytes()).decode()


def _numbers(text: str) -> NDArray[np.float64]:
    return np.frombuffer(base64.b64decode(text, validate=True), _FLOAT64).astype(np.float64)


def _digest(log: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(log, sort_keys=True).encode()).hexdigest()[:16]
