"""Robots that adapt: what a repertoire of gaits is worth to a damaged robot. The page docs/results/adapt.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from report import PAGES, QUICK, RUNS, Report, arguments, commit, in_words, page_options, table

from es_core import Run, train

STEPS = 1_200 if QUICK else 2_000_000
TASK: Mapping[str, Any] = {"policy": "linear", "max_episode_steps": 300, "solved_at": None, "confirm_episodes": 100}
FILLING: Mapping[str, Any] = {"strategy": "map_elites", "population_size": 128, "eval_every": 0, "checkpoint_every": 25}
TRAININGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "four feet": ("A1Bullet-v0", {**FILLING, "strategy_options": {"grid": [5, 5, 5, 5]}}),
    "plain": ("A1Bullet-v0", {}),
    "two pairs": ("gaits:A1Pairs-v0", {**FILLING, "strategy_options": {"grid": [15, 15]}}),
}


def training(name: str, seed: int, workers: int | None) -> Run:
    """The run of a repertoire, or of plain evolution; it is continued, or read where it has ended."""
    env_id, settings = TRAININGS[name]
    return train(
        env_id,
        run_dir=RUNS / "adapt" / f"{name.replace(' ', '-')}-s{seed}",
        resume="if begun",
        seed=seed,
        max_steps=STEPS,
        workers=workers,
        progress=False,
        **{**TASK, **settings},
    )
