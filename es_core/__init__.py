"""Evolution of policies. Public names load their modules when first used: listing environments stays light."""

# Nothing is imported here before it is needed: a command must be able to answer Ctrl-C as early as possible.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from es_core.config.train_config import TrainConfig
    from es_core.deployment.collecting import Collected, collect
    from es_core.deployment.exporting import Exported, ExportError, export
    from es_core.evaluation.adapting import Adaptation, adapt
    from es_core.evaluation.replaying import replay
    from es_core.evaluation.scoring import evaluate
    from es_core.files import CheckpointError
    from es_core.pools.pool import Results
    from es_core.reports.comparison import Comparison, compare
    from es_core.reports.robustness_page import Robustness, robustness
    from es_core.reports.run_report import report
    from es_core.rollout.environment import preprocessed
    from es_core.rollout.errors import RolloutError
    from es_core.run import Run, finetune, from_stable_baselines3, train
    from es_core.runs.checkpoint import Checkpoint
    from es_core.runs.metrics import GenerationStats
    from es_core.runs.repertoire import Repertoire
    from es_core.runs.scores import Evaluation
    from es_core.strategies.ars import ARS
    from es_core.strategies.by_name import STRATEGIES
    from es_core.strategies.cma_es import CMAES
    from es_core.strategies.cma_mae import CMAMAE
    from es_core.strategies.ga import GA
    from es_core.strategies.map_elites import MAPElites
    from es_core.strategies.nsra_es import NSRAES
    from es_core.strategies.openai_es import OpenAIES
    from es_core.strategies.pgpe import PGPE
    from es_core.strategies.population import Population
    from es_core.strategies.random_search import RandomSearch
    from es_core.strategies.sep_cma_es import SepCMAES
    from es_core.strategies.snes import SNES
    from es_core.strategies.strategy import Strategy
    from es_core.training.rebuilding import rebuild
    from es_core.training.trainer import Trainer
    from es_core.tuning.multi_seed import train_seeds
    from es_core.tuning.settings_search import tune
    from es_core.tuning.throughput import Bench, bench
    from es_core.video.options import FilmOptions
    from es_core.video.recording import record
    from es_core.video.watching import watch

_HOME = {
    "ARS": "strategies.ars",
    "CMAES": "strategies.cma_es",
    "CMAMAE": "strategies.cma_mae",
    "GA": "strategies.ga",
    "NSRAES": "strategies.nsra_es",
    "PGPE": "strategies.pgpe",
    "SNES": "strategies.snes",
    "STRATEGIES": "strategies.by_name",
    "Adaptation": "evaluation.adapting",
    "Bench": "tuning.throughput",
    "Checkpoint": "runs.checkpoint",
    "CheckpointError": "files",
    "Collected": "deployment.collecting",
    "Comparison": "reports.comparison",
    "Evaluation": "runs.scores",
    "ExportError": "deployment.exporting",
    "Exported": "deployment.exporting",
    "FilmOptions": "video.options",
    "GenerationStats": "runs.metrics",
    "MAPElites": "strategies.map_elites",
    "OpenAIES": "strategies.openai_es",
    "Population": "strategies.population",
    "RandomSearch": "strategies.random_search",
    "Repertoire": "runs.repertoire",
    "Results": "pools.pool",
    "Robustness": "reports.robustness_page",
    "RolloutError": "rollout.errors",
    "Run": "run",
    "SepCMAES": "strategies.sep_cma_es",
    "Strategy": "strategies.strategy",
    "TrainConfig": "config.train_config",
    "Trainer": "training.trainer",
    "adapt": "evaluation.adapting",
    "bench": "tuning.throughput",
    "collect": "deployment.collecting",
    "compare": "reports.comparison",
    "evaluate": "evaluation.scoring",
    "export": "deployment.exporting",
    "finetune": "run",
    "from_stable_baselines3": "run",
    "preprocessed": "rollout.environment",
    "rebuild": "training.rebuilding",
    "record": "video.recording",
    "replay": "evaluation.replaying",
    "report": "reports.run_report",
    "robustness": "reports.robustness_page",
    "train": "run",
    "train_seeds": "tuning.multi_seed",
    "tune": "tuning.settings_search",
    "watch": "video.watching",
}

__all__ = [
    "ARS",
    "CMAES",
    "CMAMAE",
    "GA",
    "NSRAES",
    "PGPE",
    "SNES",
    "STRATEGIES",
    "Adaptation",
    "Bench",
    "Checkpoint",
    "CheckpointError",
    "Collected",
    "Comparison",
    "Evaluation",
    "ExportError",
    "Exported",
    "FilmOptions",
    "GenerationStats",
    "MAPElites",
    "OpenAIES",
    "Population",
    "RandomSearch",
    "Repertoire",
    "Results",
    "Robustness",
    "RolloutError",
    "Run",
    "SepCMAES",
    "Strategy",
    "TrainConfig",
    "Trainer",
    "adapt",
    "bench",
    "collect",
    "compare",
    "evaluate",
    "export",
    "finetune",
    "from_stable_baselines3",
    "preprocessed",
    "rebuild",
    "record",
    "replay",
    "report",
    "robustness",
    "train",
    "train_seeds",
    "tune",
    "watch",
]


def __getattr__(name: str) -> "Any":
    import importlib

    if name not in _HOME:
        raise AttributeError(f"module 'es_core' has no attribute {name!r}")
    return getattr(importlib.import_module(f"es_core.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
