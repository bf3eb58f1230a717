"""Loggers: built-in implementations of the lifecycle hooks, and their names."""

import importlib.util
import json
import os
import secrets
import time
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.files import append, read_whole, write_whole
from es_core.runs.metrics import DIAGNOSTICS, GenerationStats
from es_core.runs.provenance import description, requirements, versions
from es_core.runs.run_folder import RunFolder
from es_envs import hookimpl
from es_envs.hookspecs import LIFECYCLE


class SessionLogger:
    """Records in the run's sessions.jsonl the machine and the versions that computed each part of a run."""

    @hookimpl
    def run_started(self, run: RunFolder) -> None:
        """Add a line: first generation, time, machine, versions."""
        distributions, _ = requirements(run.definition)
        session = {
            "generation": len(run.history),
            "started": f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z}",
            **description(),
            "versions": versions(*distributions),
        }
        path = run.directory / "sessions.jsonl"
        before = read_whole(path) if path.exists() else b""
        write_whole(path, before + json.dumps(session).encode() + b"\n")


class TensorBoardLogger:
    """Writes scalars, histograms and the settings to the run's tensorboard/ folder, without torch or tensorflow.

    It does not use TensorBoard's own writer, whose thread reports a full disk with a traceback.

    Raises:
        ImportError: TensorBoard is not installed.
    """

    def __init__(self) -> None:
        _require("tensorboard")

    @hookimpl
    def run_started(self, run: RunFolder, config: TrainConfig) -> None:
        """Begin an event file; after a resume it supersedes the later generations in older files."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.compat.proto.summary_pb2 import Summary

        folder = Path(run.directory) / "tensorboard"
        folder.mkdir(exist_ok=True)
        self._file = folder / f"events.out.tfevents.{time.time_ns()}.es-envs"
        self._write(Event(file_version="brain.Event:2", wall_time=time.time()))
        if run.history:
            start = SessionLog(status=SessionLog.START)
            step = run.history[-1].generation + 1
            self._write(Event(session_log=start, step=step, wall_time=time.time()))
        self._write(Event(wall_time=time.time(), summary=Summary(value=[_tensorboard_text("settings", config)])))

    @hookimpl
    def generation_finished(self, stats: GenerationStats, fitness: NDArray[np.float64] | None) -> None:
        """Write the numbers of one generation."""
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in _scalars(stats).items()]
        if fitness is not None:
            known = fitness[~np.isnan(fitness)]
            counts, edges = _histogram(known)
            histogram = HistogramProto(
                min=known.min(),
                max=known.max(),
                num=len(known),
                sum=known.sum(),
                sum_squares=np.square(known).sum(),
                bucket_limit=edges[1:],
                bucket=counts,
            )
            values.append(Summary.Value(tag="population/fitness", histo=histogram))
        self._write(Event(step=stats.generation, wall_time=time.time(), summary=Summary(value=values)))

    def _write(self, event: Any) -> None:
        from tensorboard.summary.writer.record_writer import RecordWriter

        record = BytesIO()
        RecordWriter(record).write(event.SerializeToString())
        append(self._file, record.getvalue())


class WandbLogger:
    """Sends settings and numbers to Weights & Biases; a resumed run continues under its id.

    Its own environment variables configure it: WANDB_PROJECT ("es-envs" if it is not set), WANDB_ENTITY,
    WANDB_MODE=offline.

    Raises:
        ImportError: wandb is not installed.
    """

    def __init__(self) -> None:
        _require("wandb")

    @hookimpl
    def run_started(self, run: RunFolder, config: TrainConfig) -> None:
        """Begin a run, or continue the one whose id is in the folder's wandb/."""
        import wandb

        known = run.directory / "wandb" / "run-id"
        if not known.exists():
            known.parent.mkdir(exist_ok=True)
            write_whole(known, secrets.token_hex(4).encode())
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "es-envs"),
            id=read_whole(known).decode("ascii").strip(),
            name=run.directory.name,
            group=config.env_id,
            dir=str(run.directory),
            config=config.to_json(),
            resume="allow",
            settings=wandb.Settings(console="off"),  # the progress display stays as it is
        )
        # Its own steps only grow, but a resumed run may begin with generations that were logged before.
        self._run.define_metric("generation")
        self._run.define_metric("*", step_metric="generation")

    @hookimpl
    def generation_finished(self, stats: GenerationStats, fitness: NDArray[np.float64] | None) -> None:
        """Send the numbers of one generation."""
        import wandb

        values: dict[str, Any] = {"generation": stats.generation, **_scalars(stats)}
        if fitness is not None:
            values["population/fitness"] = wandb.Histogram(np_histogram=_histogram(fitness[~np.isnan(fitness)]))
        self._run.log(values)

    @hookimpl
    def run_finished(self) -> None:
        """Wait until all has been sent."""
        self._run.finish()


LOGGERS = {"tensorboard": TensorBoardLogger, "wandb": WandbLogger}
_BINS = 30  # of a histogram


def _histogram(values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Counts and edges of equal bins; one unit around values that differ by less than a bin can."""
    low, high = values.min(), values.max()
    closest = _BINS * np.spacing(max(abs(low), abs(high)))  # where bins are still distinct
    if high - low <= closest:
        low, high = low - max(0.5, closest), high + max(0.5, closest)
    return np.histogram(values, bins=_BINS, range=(low, high))


def _require(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        raise ImportError(f"the logger {package!r} is not installed: pip install 'es-envs[{package}]'")


def _scalars(stats: GenerationStats) -> dict[str, float]:
    """Numbers by tag; tags are grouped by the part before the slash."""
    values: dict[str, float | None] = {
        "population/fitness_mean": stats.fitness_mean,
        "population/fitness_median": stats.fitness_median,
        "population/fitness_max": stats.fitness_max,
        "population/fitness_min": stats.fitness_min,
        "population/fitness_std": stats.fitness_std,
        "population/episode_length": stats.episode_length,
        "time/total_steps": stats.total_steps,
        "time/steps_per_second": stats.steps_per_second,
    }
    values |= {f"diagnostics/{name}": getattr(stats, name) for name in ("tied_pairs", "capped_episodes", *DIAGNOSTICS)}
    values |= {f"fitness/{name}": value for name, value in stats.fitnesses.items()}
    for kind, score in (("centre", stats.evaluation), ("confirmed", stats.confirmation), ("final", stats.verdict)):
        if score is not None:
            values |= {f"{kind}/fitness": score.mean, f"{kind}/success_rate": score.success_rate}
    return {tag: float(value) for tag, value in values.items() if value is not None}


def _tensorboard_text(tag: str, config: TrainConfig) -> Any:
    """The settings as preformatted text."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING

    text = "\n".join(f"    {line}" for line in json.dumps(config.to_json(), indent=2).splitlines())
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    return Summary.Value(tag=tag, metadata=metadata, tensor=TensorProto(dtype=DT_STRING, string_val=[text.encode()]))


def find_logger(logger: object) -> object:
    """Return a logger, given as an object or by its name.

    Raises:
        ValueError: no logger has this name, or the object implements no lifecycle hook.
        ImportError: a package that a named logger needs is not installed.
    """
    if isinstance(logger, str):
        if logger not in LOGGERS:
            raise ValueError(f"no logger is called {logger!r}: there are {', '.join(LOGGERS)}")
        return LOGGERS[logger]()
    if not any(hasattr(getattr(logger, hook, None), "es_envs_impl") for hook in LIFECYCLE):
        raise ValueError(f"{logger!r} implements none of {', '.join(LIFECYCLE)}, marked with @es_envs.hookimpl")
    return logger
