"""The folder of a run: config.json, metrics.jsonl, checkpoints/, best.safetensors, videos/."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Self

import es_envs
from es_core.config.budgets import bound_reached, share_done
from es_core.config.checks import whole
from es_core.config.given import BOUNDS
from es_core.config.keywords import accepts_old_names
from es_core.config.objects import provide
from es_core.config.plan import Plan
from es_core.config.train_config import TrainConfig
from es_core.files import (
    MOST_CONFIG,
    MOST_LINE,
    CheckpointError,
    append,
    naming_errors,
    open_plain,
    parse_json,
    read_lines,
    read_whole,
    remove,
    remove_partial,
    require_modest,
    require_plain,
    write_whole,
)
from es_core.formatting import figures, shell_line
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.failure import RunFailure
from es_core.runs.generation_log import GenerationLog
from es_core.runs.locks import Lock, LockedError, LockLostError, hold, is_held
from es_core.runs.metrics import GenerationStats
from es_core.runs.repertoire import Repertoire
from es_core.runs.scores import Evaluation
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition
from es_envs.text import file_name

_OWN = ("config.json", "initial.safetensors", "best.safetensors", "metrics.jsonl", "sessions.jsonl", "failure.json",
        ".lock", "checkpoints", "videos", "tensorboard")  # fmt: skip
_BEFORE_BEGINNING = ("initial.safetensors", "sessions.jsonl", ".lock", "tensorboard")  # what may hold files by then
_LOG = "log"  # the field of a line that is a ``GenerationLog``


@dataclass(eq=False)
class RunFolder:
    """A run folder and what is in it.

    Attributes:
        directory: the folder.
        config: the run's config.
        trusted: True if the caller made or vouches for the run, so that its config may name any module.
        history: the lines of metrics.jsonl without their logs (see ``logs``).
        held: the folder's lock, while this process trains in it.
    """

    directory: Path
    config: TrainConfig
    trusted: bool = False
    history: list[GenerationStats] = field(default_factory=list)
    held: Lock | None = None
    _made: list[Path] = field(default_factory=list)  # folders, from the run's own upwards
    _written: int | None = None  # bytes of metrics.jsonl, once this process has written to it

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.config.env_id} in {self.directory}>"

    @classmethod
    def create(
        cls, directory: str | os.PathLike[str] | None, config: TrainConfig, initial: Checkpoint | None = None
    ) -> Self:
        """Make the folder of a new run, with everything that it depends on: from then on the run can be resumed.

        Args:
            directory: the folder, which must not exist or must be empty; None: runs/ID/DATE-TIME-sSEED.
            config: the run's config.
            initial: checkpoint whose parameters the run starts from; None: new ones.

        Raises:
            FileExistsError: the folder is not empty.
            OSError: the folder cannot be written; nothing is left behind.
        """
        path = new_directory(config.env_id, f"s{config.seed}") if directory is None else Path(directory)
        if path.exists() and not path.is_dir():
            raise FileExistsError(f"{path} is a file: a run needs a folder, new or empty")
        if directory is not None and path.exists() and any(path.iterdir()):
            continued = f"continue the run in it with resume=True ({shell_line(['es-envs', 'resume', str(path)])})"
            begun = (path / "config.json").exists()
            other = continued if begun else "delete it, if a run that was killed at its very beginning left it"
            raise FileExistsError(f"{path} exists and is not empty: choose another folder, or {other}")
        path = path.resolve()
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            with naming_errors(path):
                (path / "checkpoints").mkdir(parents=True)
        except FileExistsError:  # another process was a moment faster
            if directory is None:
                return cls.create(None, config, initial)
            raise
        run = cls(path, config, trusted=True, _made=made)
        try:
            (path / "videos").mkdir()
            if initial is not None:
                initial.save(run.initial_path)
            run.write_config(config)
        except BaseException:
            run.discard()
            raise
        return run

    @classmethod
    @accepts_old_names
    def open(
        cls,
        directory: str | os.PathLike[str],
        *,
        trust: bool = False,
        env: Callable[..., Any] | None = None,
        fitness: Callable[..., Any] | None = None,
        policy: Callable[..., Any] | None = None,
        allow_changed_code: bool = False,
    ) -> Self:
        """Open the folder of a run.

        Args:
            directory: the folder.
            trust: allow modules outside the installed plugins in its config.
            env: the environment's class or factory, if it was given to ``train`` as an object: no file holds it, so
                you give the same one again to evaluate, record or resume the run.
            fitness: the fitness function, if the config names one.
            policy: the class of the policy, if the config names one.
            allow_changed_code: allow these objects to have other code than when the run began.

        Raises:
            FileNotFoundError: the folder is not a run folder.
            CheckpointError: its config.json or metrics.jsonl is damaged, or a link leads out of it.
            ValueError: an object is not the one with which the run began.
        """
        path = _require_run_folder(directory)
        config = TrainConfig.load(path / "config.json")
        provide(config, env=env, fitness=fitness, policy=policy, allow_changed_code=allow_changed_code)
        return cls(path, config, trust, list(_read_metrics(path / "metrics.jsonl")))

    @property
    def plan(self) -> Plan:
        """Its settings, once it has begun: until then some may be "auto"."""
        if not isinstance(self.config, Plan):
            self.config = Plan.of(self.config)
        return self.config

    def refresh(self) -> None:
        """Read config and history again: another process may have begun the run, continued it or moved its bounds."""
        self.config = TrainConfig.load(self.directory / "config.json")
        self.history[:] = _read_metrics(self.directory / "metrics.jsonl")

    @cached_property
    def definition(self) -> EnvDefinition:
        """The definition of the run's environment, looked up once.

        Raises:
            UnknownEnvError: the environment is not installed.
            PluginError: two plugins register it.
        """
        return es_envs.definition(self.config.env_id)

    @property
    def finished(self) -> bool:
        """True if the task is solved, or a bound or a plateau has ended the run and its last centre is evaluated."""
        return self.end is not None

    @property
    def end(self) -> str | None:
        """Reason why the run ended: "solved", "plateau", or a bound ("generations", "max_steps", "max_episodes")."""
        last = self.history[-1] if self.history else None
        if last is None or (last.population_size is not None and not last.solved):
            return None  # the line after the last generation, which has no population, is still missing
        if last.solved:
            return "solved"
        steps = last.total_steps - last.evaluation_steps  # before that line
        bound = bound_reached(self.config, generations=last.generation, steps=steps, episodes=last.total_episodes)
        # If it is a bound that has ended it, that has grown since.
        return bound or (None if last.end in BOUNDS else last.end)

    @property
    def final_seeds(self) -> tuple[int, ...]:
        """Seeds of the starts of the ``verdict``, which no decision has seen before."""
        config, last = self.config, self.history[-1] if self.history else None
        if last is not None and last.solved and last.final is None:
            return episode_seeds(config.seed, Purpose.CONFIRMATION, config.confirm_episodes, last.generation)
        return episode_seeds(config.seed, Purpose.FINAL, config.confirm_episodes)

    @property
    def failure(self) -> RunFailure | None:
        """The error that ended the run, unless it has gone on since; None if there was none."""
        path = self.directory / "failure.json"
        if self.end is not None or not os.path.lexists(path):
            return None
        with suppress(OSError, CheckpointError, ValueError, TypeError, RecursionError, LookupError, AttributeError):
            failure = RunFailure.from_bytes(read_whole(path))
            if failure.generation == len(self.history):
                return failure
        return None

    def write_failure(self, failure: RunFailure | None) -> None:
        """Write the error that ends the run; None: it continues."""
        path = self.directory / "failure.json"
        if failure is not None:
            write_whole(path, failure.to_bytes())
        elif os.path.lexists(path):
            remove(path)

    @property
    def is_training(self) -> bool:
        """True while a process trains in the folder."""
        return is_held(self.directory / ".lock")

    @property
    def initial_path(self) -> Path:
        """Path of the checkpoint whose parameters the run starts from, if not from new ones."""
        return self.directory / "initial.safetensors"

    @property
    def best_path(self) -> Path:
        """Path of the best evaluated centre, even if there is none yet."""
        return self.directory / "best.safetensors"

    @property
    def backup_best_path(self) -> Path:
        """Path of the best centre before the last one, if that is better, and the log leads to neither."""
        return self.directory / "best-before.safetensors"

    @property
    def checkpoint(self) -> Checkpoint | None:
        """The latest checkpoint, or None before the first."""
        generations = self.checkpoint_generations()
        return self.checkpoint_at(generations[-1]) if generations else None

    @property
    def repertoire(self) -> Repertoire:
        """The policies that its strategy keeps for the cells of a grid of behaviours, in its latest checkpoint.

        Raises:
            ValueError: its strategy keeps none, or there is no checkpoint yet.
        """
        checkpoint = self.checkpoint
        if checkpoint is None:
            raise ValueError(f"{self.directory} has no checkpoint yet, and so no repertoire")
        return Repertoire.of(replace(checkpoint, where=str(self.directory)))

    @property
    def stored_best(self) -> Checkpoint | None:
        """The best evaluated centre in best.safetensors; None if there is none, or if it is not the log's.

        Raises:
            CheckpointError: the file is damaged.
        """
        if not os.path.lexists(self.best_path):
            return None
        score, checkpoint = self.best_score, self._checkpoint(self.best_path)
        not_yet_in_log = checkpoint.generation >= len(self.history)
        return checkpoint if score is None or not_yet_in_log or self._is_of(checkpoint, score[0]) else None

    @property
    def holds_best(self) -> bool:
        """True if best.safetensors is the log's best centre, or the log has none."""
        return self.best_score is None or self._holds_best(self.best_path)

    @property
    def backup_is_best(self) -> bool:
        """True if the file that is kept from before the last centre is the log's best."""
        return self._holds_best(self.backup_best_path)

    def _holds_best(self, path: Path) -> bool:
        score = self.best_score
        try:
            return score is not None and self._is_of(self._checkpoint(path), score[0])
        except (FileNotFoundError, CheckpointError):
            return False

    def _is_of(self, checkpoint: Checkpoint, generation: int) -> bool:
        expected = generation, self.history[generation].parameter_hash
        return (checkpoint.generation, checkpoint.parameter_hash) == expected

    @property
    def share_done(self) -> float:
        """Share of the run that is done, 0 to 1, by the bound that it will reach first."""
        last = self.history[-1] if self.history else None
        steps, episodes = (last.total_steps, last.total_episodes) if last is not None else (0, 0)
        return share_done(self.config, generations=len(self.history), steps=steps, episodes=episodes)

    @property
    def best_score(self) -> tuple[int, Evaluation] | None:
        """Generation and score of the best evaluated centre, or None if none was evaluated.

        It is the ``verdict``, on starts that no decision has seen; in a run that has not ended, and in older ones, the
        score that confirmed the centre, which as the highest of several is a little too high.
        """
        best: GenerationStats | None = None
        for stats in self.history:
            if stats.standing is not None and stats.standing.beats(best.standing if best else None):
                best = stats
        score = best and (self.history[-1].verdict or best.confirmation)
        return (best.generation, score) if best and score else None

    def checkpoint_generations(self) -> list[int]:
        """Generations that have a checkpoint, ascending."""
        files = (self.directory / "checkpoints").glob("*.safetensors")
        return sorted(int(file.stem) for file in files if re.fullmatch(r"\d{6,}", file.stem))

    @property
    def generation_reached(self) -> int:
        """The last generation that the log leads to."""
        return sum(stats.next_hash is not None for stats in self.history)

    @property
    def next_generation(self) -> int | None:
        """Generation that ``resume`` continues from: the latest checkpoint with all lines before it, or None.

        A crash may have truncated metrics.jsonl, whose lines are not flushed to disk one by one.
        """
        return max((g for g in self.checkpoint_generations() if g <= len(self.history)), default=None)

    def checkpoint_at(self, generation: int) -> Checkpoint:
        """The checkpoint of one generation.

        Raises:
            FileNotFoundError: there is none; the message lists those that exist.
        """
        path = self.checkpoint_path(generation)
        if not path.exists():
            present = ", ".join(map(str, self.checkpoint_generations())) or "none"
            raise FileNotFoundError(
                f"{self.directory} has no checkpoint of generation {generation}; there are: {present}"
            )
        checkpoint = self._checkpoint(path)
        if checkpoint.generation != generation:
            raise CheckpointError(f"{path} is of generation {checkpoint.generation}: the file was renamed")
        return checkpoint

    def _checkpoint(self, path: Path) -> Checkpoint:
        open_plain(path).close()  # refuses a link, which only a path that the caller names may be
        checkpoint = Checkpoint.load(path, trust=self.trusted)
        # Bounds may have grown since, and whether episodes can be repeated is found out in the first generation.
        since = {name: getattr(self.config, name) for name in (*BOUNDS, "repeatable")}
        contender = checkpoint.progress.get("contender", 0)
        if whole(0)(contender) is not None or (
            replace(checkpoint.config, **since) != self.plan.of_contender(contender)
        ):
            raise CheckpointError(f"{path} belongs to another run: its settings are not those of config.json")
        return checkpoint

    def checkpoint_path(self, generation: int) -> Path:
        """Path of a generation's checkpoint, even if there is none."""
        return self.directory / "checkpoints" / f"{generation:06d}.safetensors"

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint to its place; the folder is made again if somebody has deleted it."""
        self.require_held()
        path = self.checkpoint_path(checkpoint.generation)
        with naming_errors(path):
            path.parent.mkdir(exist_ok=True)
        checkpoint.save(path)

    def require_held(self) -> None:
        """Make sure that this process alone writes to the folder in which it trains: asked before each write.

        Raises:
            LockLostError: the lock's file is no longer in its place, or another process has written to metrics.jsonl.
        """
        if self.held is None or not self.directory.exists():
            return  # the error about what cannot be written says more
        self.held.require_held()
        path = self.directory / "metrics.jsonl"
        size = path.stat().st_size if path.exists() else 0
        if self._written not in {None, size}:
            raise LockLostError(
                f"{path} has {size} bytes where this process has written {self._written}: another one writes to it, "
                "so this one stops and leaves all files as they are"
            )

    def append(self, stats: GenerationStats, log: GenerationLog | None) -> None:
        """Add a line to metrics.jsonl and to the history.

        Args:
            stats: the generation's stats.
            log: the generation's log; None where the strategy learnt nothing. The history does not keep it, so that a
                long run does not fill the memory.

        Raises:
            OSError: the line cannot be written, or only its beginning, which ``open`` ignores.
            LockLostError: another process may write to the folder.
            ValueError: the line is too long to be read again.
        """
        path = self.directory / "metrics.jsonl"
        values = {**stats.to_json(), _LOG: None if log is None else log.to_json()}
        line = json.dumps(values, allow_nan=False).encode() + b"\n"
        require_modest(line)
        if len(line) > MOST_LINE:
            raise ValueError(
                f"generation {stats.generation}: its line of {path} would have {figures(len(line))} bytes, and at most "
                f"{figures(MOST_LINE)} can be read again: what makes it long are statistics of large observations "
                "(observation_normalization=False leaves them out), long behaviours, or very many candidates"
            )
        self.require_held()
        try:
            append(path, line)
        finally:
            if path.exists():  # the disk may have had room for half of the line
                self._written = path.stat().st_size
        self.history.append(stats)

    def truncate_history(self, generation: int) -> None:
        """Remove the lines from ``generation`` on; a resumed run writes them again."""
        del self.history[generation:]
        path = self.directory / "metrics.jsonl"
        lines = islice(read_lines(path), generation)
        write_whole(path, b"".join(line.rstrip(b"\n") + b"\n" for line in lines))
        self._written = path.stat().st_size

    def logs(self, first: int, last: int) -> Iterator[GenerationLog | None]:
        """The logs of the generations from ``first`` up to ``last``, read one by one.

        Raises:
            CheckpointError: one of these lines is damaged.
        """
        path = self.directory / "metrics.jsonl"
        if first == last:
            return
        for number, line in enumerate(islice(read_lines(path), first, last), first + 1):
            try:
                stats, values = _parsed(line)
                log = None if values is None else GenerationLog.from_json(values, before=stats.rules)
            except (ValueError, RecursionError) as error:
                raise CheckpointError(f"{path}, line {number} is damaged: {error}") from error
            yield log

    def write_config(self, config: TrainConfig) -> None:
        """Write config.json; once a run has begun, only its bounds may change.

        Raises:
            ValueError: it is too large to be read again.
        """
        self.config = config
        path, content = self.directory / "config.json", json.dumps(config.to_json(), indent=2, allow_nan=False).encode()
        try:
            require_modest(content)
            if len(content) >= MOST_CONFIG:
                raise ValueError(f"it has {len(content)} bytes: at most {MOST_CONFIG} are read")
        except ValueError as error:
            raise ValueError(
                f"{path} could not be read again: {error}. What is so large belongs into a file whose name is given, "
                "in env_kwargs for example"
            ) from error
        write_whole(path, content + b"\n")

    def clear_partial(self) -> None:
        """Remove half-written files that a killed process left; the caller holds the folder's lock."""
        for folder in (self.directory, self.directory / "checkpoints"):
            remove_partial(folder)

    def discard(self) -> None:
        """Remove only what ``create`` made; for a run that failed before its first checkpoint."""
        if not self.directory.is_dir():
            return  # somebody else has removed it
        _remove_own(self.directory)
        for folder in self._made:
            if any(folder.iterdir()):
                break
            folder.rmdir()


def is_begun(directory: str | os.PathLike[str]) -> bool:
    """Return True if a folder holds a run that can be resumed.

    If a process was killed while it made the folder, what it left is removed: nothing was learnt, and a new run can
    begin there. Anything else in the folder stays.
    """
    path = Path(directory)
    if os.path.lexists(path / "config.json"):
        return True
    if (path / "checkpoints").is_dir():  # which is made first
        files = {entry.relative_to(path).parts[0] for entry in path.rglob("*") if not entry.is_dir()}
        if all(name in _BEFORE_BEGINNING or name.endswith(".partial") for name in files):
            _remove_own(path)
    return False


def _remove_own(path: Path) -> None:
    """Remove from a run's folder what a run makes there."""
    for name in _OWN:  # an environment may have left a file that tells why it failed
        if os.path.lexists(path / name):
            remove(path / name)
    remove_partial(path)


def lock(directory: str | os.PathLike[str]) -> Lock:
    """Lock a run folder for writing.

    Raises:
        FileNotFoundError: the folder is not a run folder.
        CheckpointError: a link leads out of it, or its .lock is none.
        RuntimeError: another process is writing to the folder.
    """
    path = _require_run_folder(directory) / ".lock"
    try:
        return hold(path)
    except LockedError as holder:
        raise RuntimeError(
            f"{holder} is training in {path.parent}: wait until it ends, or choose another folder"
        ) from None


def _require_run_folder(directory: str | os.PathLike[str]) -> Path:
    path = Path(directory).resolve()
    if not (path / "config.json").is_file():
        within = max(path.glob("*/config.json"), key=lambda file: file.stat().st_mtime, default=None)
        hint = f"did you mean {within.parent}?" if within else "training prints its run folder, by default in runs/"
        raise FileNotFoundError(f"{path} is not a run folder: it has no config.json; {hint}")
    require_plain(path)
    return path


def new_directory(env_id: str, what: str) -> Path:
    """A folder that does not exist yet, runs/ID/DATE-TIME-WHAT."""
    stem = f"{datetime.now().astimezone():%Y%m%d-%H%M%S}-{what}"
    parent = Path("runs") / file_name(env_id)
    path, number = parent / stem, 1
    while path.exists():
        number += 1
        path = parent / f"{stem}-{number}"
    return path


def _parsed(line: bytes) -> tuple[GenerationStats, Any]:
    """A line of metrics.jsonl, and its unparsed log."""
    values = parse_json(line)
    log = values.pop(_LOG, None) if isinstance(values, dict) else None
    return GenerationStats.from_json(values), log


def _read_metrics(path: Path) -> Iterable[GenerationStats]:
    lines = read_lines(path)
    for number, line in enumerate(lines, 1):
        try:
            stats, _ = _parsed(line)
            if stats.generation != number - 1:
                raise ValueError(f"it is of generation {stats.generation}, expected {number - 1}")
        except (ValueError, RecursionError) as error:
            if next(lines, None) is None:
                return  # the run was killed while it wrote the line; resume writes it again
            raise CheckpointError(f"{path}, line {number} is damaged: {error}") from error
        yield stats
