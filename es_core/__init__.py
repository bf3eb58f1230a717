"""How a policy is evolved. Public names load their modules when first used: listing environments stays light."""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from es_core.bench import Bench, bench
    from es_core.checkpoint import Checkpoint
    from es_core.compare import Comparison, compare
    from es_core.config import TrainConfig
    from es_core.evaluate import evaluate
    from es_core.export import Exported, ExportError, export
    from es_core.files import CheckpointError
    from es_core.rebuild import rebuild
    from es_core.record import record
    from es_core.replay import replay
    from es_core.report import report
    from es_core.rollout import RolloutError
    from es_core.run import GenerationStats, Run
    from es_core.scoring import Evaluation
    from es_core.seeds import train_seeds
    from es_core.strategies import (
        ARS,
        CMAES,
        GA,
        PGPE,
        SNES,
        STRATEGIES,
        OpenAIES,
        Population,
        RandomSearch,
        SepCMAES,
        Strategy,
    )
    from es_core.train import train
    from es_core.tune import tune
    from es_core.watch import watch

_HOME = {
    "ARS": "strategies",
    "CMAES": "strategies",
    "GA": "strategies",
    "PGPE": "strategies",
    "SNES": "strategies",
    "RandomSearch": "strategies",
    "SepCMAES": "strategies",
    "STRATEGIES": "strategies",
    "Bench": "bench",
    "Checkpoint": "checkpoint",
    "CheckpointError": "files",
    "Comparison": "compare",
    "Evaluation": "scoring",
    "ExportError": "export",
    "Exported": "export",
    "GenerationStats": "run",
    "OpenAIES": "strategies",
    "Population": "strategies",
    "RolloutError": "rollout",
    "Run": "run",
    "Strategy": "strategies",
    "TrainConfig": "config",
    "bench": "bench",
    "compare": "compare",
    "evaluate": "evaluate",
    "export": "export",
    "rebuild": "rebuild",
    "record": "record",
    "replay": "replay",
    "report": "report",
    "train": "train",
    "train_seeds": "seeds",
    "tune": "tune",
    "watch": "watch",
}

__all__ = [
    "ARS",
    "CMAES",
    "GA",
    "PGPE",
    "SNES",
    "STRATEGIES",
    "Bench",
    "Checkpoint",
    "CheckpointError",
    "Comparison",
    "Evaluation",
    "ExportError",
    "Exported",
    "GenerationStats",
    "OpenAIES",
    "Population",
    "RandomSearch",
    "RolloutError",
    "Run",
    "SepCMAES",
    "Strategy",
    "TrainConfig",
    "bench",
    "compare",
    "evaluate",
    "export",
    "rebuild",
    "record",
    "replay",
    "report",
    "train",
    "train_seeds",
    "tune",
    "watch",
]


class _Package(ModuleType):
    """Keeps ``es_core.train`` the function, though importing the module of that name binds the module here."""

    def __setattr__(self, name: str, value: object) -> None:
        same_name = isinstance(value, ModuleType) and _HOME.get(name) == name
        super().__setattr__(name, getattr(value, name) if same_name else value)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'es_core' has no attribute {name!r}")
    return getattr(importlib.import_module(f"es_core.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)


sys.modules[__name__].__class__ = _Package
