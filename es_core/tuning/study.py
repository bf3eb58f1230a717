"""The folder of a search for settings: Optuna's study of all trials, and the runs of the best one."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from es_core.files import read_lines, remove, require_plain, write_whole
from es_core.runs.locks import Lock, LockedError, LockLostError, hold
from es_core.tuning.search_plan import SearchPlan
from es_core.tuning.trial import Trial, best_of

if TYPE_CHECKING:
    import optuna

_UNPRUNED = 3  # milestones at the start without pruning: evolution often begins slowly


@contextmanager
def open_study(folder: Path, plan: SearchPlan) -> Iterator["optuna.Study"]:
    """Open the study in ``folder``, new or continued, and lock it.

    Raises:
        ValueError: the folder contains another search.
        FileExistsError: the folder is not empty, but contains no search, or one of an earlier version.
        CheckpointError: a link leads out of the folder.
        RuntimeError: another process is searching there, or the file is damaged.
    """
    import optuna

    file = folder / "study.jsonl"
    if (folder / "study.db").exists():
        raise FileExistsError(
            f"{folder} contains a search by es-envs 0.1 (study.db), which this version cannot continue: choose another "
            "folder (--dir), or delete this one to begin the search anew"
        )
    if folder.exists() and not (folder.is_dir() and (file.exists() or not any(folder.iterdir()))):
        raise FileExistsError(f"{folder} exists, but contains no search: choose another folder (--dir)")
    folder.mkdir(parents=True, exist_ok=True)
    require_plain(folder)
    try:
        lock = hold(folder / ".lock")
    except LockedError as holder:
        raise RuntimeError(f"{holder} is searching in {folder}") from None
    verbosity = optuna.logging.get_verbosity()
    with lock:
        try:
            optuna.logging.set_verbosity(optuna.logging.WARNING)
            study = _load_study(file, lock)
            _require_same(folder, study, plan)
            yield study
        finally:
            optuna.logging.set_verbosity(verbosity)


class _WhileHeld:
    """What Optuna takes for a lock around each line: it makes sure that the folder's lock is still held."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def acquire(self) -> bool:
        """Raise ``LockLostError`` if another process may search here now."""
        self._lock.require_held()
        return True

    def release(self) -> None:
        """Do nothing: the lock is held until the search ends."""


def _load_study(file: Path, lock: Lock) -> "optuna.Study":
    """Make the study, or read it and end the trials that were interrupted."""
    import optuna
    from optuna.storages.journal import JournalFileBackend, JournalStorage

    lines = list(read_lines(file))
    if len(lines) > 1 and not lines[-1].endswith(b"\n"):  # a full disk has cut it off, and Optuna would append to it
        write_whole(file, b"".join(lines[:-1]))
    try:
        # The folder's lock keeps other processes out. Optuna's own would stay behind a process that is killed.
        backend = JournalFileBackend(str(file), lock_obj=_WhileHeld(lock))  # type: ignore[arg-type]
        study = optuna.create_study(
            storage=JournalStorage(backend),
            study_name="tune",
            direction="maximize",
            # A draw of settings that were played before has no milestones, and must not count among the five.
            pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_UNPRUNED, n_min_trials=5),
            load_if_exists=True,
        )
        for trial in study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
            _add_result(study, trial.number, _result_of(trial))
    except (OSError, LockLostError):
        raise
    except Exception as error:  # Optuna replays the lines unchecked
        raise RuntimeError(f"{file} cannot be read: {error!r}") from error
    return study


def read_trials(study: "optuna.Study") -> list[Trial]:
    """Trials that were played to their end, pruned or refused: one for each draw of settings, in their order.

    A draw of settings that were played before has the trial that played them.
    """
    results = map(_result_of, study.get_trials(deepcopy=False))
    return [trial for trial in results if trial is not None]


def record_result(study: "optuna.Study", draw: "optuna.Trial", trial: Trial) -> None:
    """Record the result of a draw: of a new trial, or of the one that has played the same settings."""
    draw.set_user_attr("trial", asdict(trial))  # first: a finished trial takes nothing more
    _add_result(study, draw.number, trial)


def _result_of(draw: "optuna.trial.FrozenTrial") -> Trial | None:
    return Trial.from_json(draw.user_attrs["trial"]) if "trial" in draw.user_attrs else None


def _add_result(study: "optuna.Study", number: int, result: Trial | None) -> None:
    """Tell Optuna the result of a draw: None if it was interrupted, which counts as little as a failed trial."""
    from optuna.trial import TrialState

    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED}
    state = TrialState.FAIL if result is None else states.get(result.state, TrialState.FAIL)
    study.tell(number, result.value if result is not None and state == TrialState.COMPLETE else None, state=state)


def keep_best(folder: Path, trials: Sequence[Trial]) -> None:
    """Delete the runs of all other trials.

    Raises:
        CheckpointError: a link leads out of the folder.
    """
    require_plain(folder)
    best = best_of(trials)
    for runs in (folder / "trials").glob("*"):
        if best is None or runs.name != f"{best.number:04d}":
            remove(runs)


def _require_same(folder: Path, study: "optuna.Study", plan: SearchPlan) -> None:
    then, now = study.user_attrs.get("identity"), plan.identity
    if then is None:
        study.set_user_attr("identity", now)
    elif then != now:
        both = {name: [json.dumps(each.get(name)) for each in (then, now)] for name in {**then, **now}}
        changes = "; ".join(
            f"{name}: {there} there, {here} here" for name, (there, here) in both.items() if there != here
        )
        raise ValueError(f"{folder} contains another search ({changes}): choose another folder (--dir)")
