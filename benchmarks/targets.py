"""Targets of the rows of results.py: functions that tell from the runs of each name, by seed, if they are reached."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from es_core.statistics import mean

Runs = Mapping[str, Sequence[Mapping[str, Any]]]


def scores(runs: Runs, name: str) -> list[float]:
    """The score of each seed's last centre."""
    return [result["last_score"]["mean"] for result in runs[name]]


def all_above(runs: Runs, names: Collection[str], others: Collection[str]) -> bool:
    """Tell if the interval of each of the names is above those of all others."""
    intervals = {name: mean(scores(runs, name)).interval or (scores(runs, name)[0],) * 2 for name in runs}
    return min(intervals[name][0] for name in names) > max(intervals[name][1] for name in others)


def solved(runs: Runs, name: str) -> float:
    """The share of seeds that are solved."""
    return float(np.mean([result["solved"] for result in runs[name]]))


def above_baselines(result: Mapping[str, Any]) -> bool:
    """Tell if a score's interval is above doing nothing and random actions."""
    score = result["last_score"]
    return bool((score["interval"] or (score["mean"],))[0] > max(result["baselines"].values()))


def same_bits(runs: Runs) -> bool:
    """Tell if runs whose names differ in what follows the last dash have the same parameters for each seed."""
    hashes: dict[tuple[str, int], set[str]] = {}
    for name, results in runs.items():
        for result in results:
            hashes.setdefault((name.rpartition("-")[0], result["seed"]), set()).add(result["parameter_hash"])
    return all(len(found) == 1 for found in hashes.values())


def beats_luck_and_the_other_kind(runs: Runs) -> bool:
    """Tell if all seeds of -evolved are solved, none by luck or doing nothing, and fewer of the other kind."""
    for task in {name.partition("-")[0] for name in runs}:
        shares = {name.partition("-")[2]: solved(runs, name) for name in runs if name.partition("-")[0] == task}
        evolved, luck = shares.pop("evolved"), shares.pop("random_search")
        idle = [each["baselines"]["doing nothing"] >= each["config"]["solved_at"] for each in runs[f"{task}-evolved"]]
        if (evolved, luck, any(idle)) != (1, 0, False) or max(shares.values()) == 1:
            return False
    return True
