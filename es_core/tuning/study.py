"""The folder of a search for settings: Optuna's study of all trials, and the runs of the best one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from es_core.files import remove, require_plain
from es_core.runs.locks import LockedError, hold
from es_core.tuning.search_plan import SearchPlan
from es_core.tuning.trial import Trial, best_of

if TYPE_CHECKING:
    import optuna

_UNPRUNED = 3  # milestones at the start without pruning: evolution often begins slowly


@contextmanager
def opened(folder: Path, plan: SearchPlan) -> Iterator["optuna.Study"]:
    """Open the study in ``folder``, new or continued, and lock it.

    Raises:
        ValueError: the folder contains another search.
        FileExistsError: the folder is not empty, but contains no search.
        CheckpointError: a link leads out of the folder.
        RuntimeError: another process is searching there, or the file is damaged.
    """
    import optuna
    from sqlalchemy import URL
    from sqlalchemy.exc import SQLAlchemyError

    file = folder / "study.db"
    if folder.exists() and not (folder.is_dir() and (file.exists() or not any(folder.iterdir()))):
        raise FileExistsError(f"{folder} exists, but contains no search: choose another folder (--dir)")
    folder.mkdir(parents=True, exist_ok=True)
    require_plain(folder)
    try:
        lock = hold(folder / ".lock")
    except LockedError as holder:
        raise RuntimeError(f"{holder} is searching in {folder}") from None
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = None
    with lock:
        try:
            # SQLite asks for locks of the system, and fails where there are none.
            uri = {} if lock.is_of_system else {"nolock": "1", "uri": "true"}
            database = f"file:{quote(str(file))}" if uri else str(file)
            url = URL.create("sqlite", database=database, query=uri).render_as_string()
            storage = optuna.storages.RDBStorage(url)
            study = optuna.create_study(
                storage=storage,
                study_name="tune",
                direction="maximize",
                # A draw of settings that were played before has no milestones, and must not count among the five.
                pruner=optuna.pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=_UNPRUNED, n_min_trials=5),
                load_if_exists=True,
            )
            _require_same(folder, study, plan)
            for trial in study.get_trials(deepcopy=False, states=[optuna.trial.TrialState.RUNNING]):
                end_trial(study, trial.number, _written(trial))  # it was interrupted
            yield study
        except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
            raise RuntimeError(f"{file} cannot be read or written: {error}") from error
        finally:
            if storage is not None:
                storage.remove_session()
                storage.engine.dispose()
            optuna.logging.set_verbosity(verbosity)


def recorded(study: "optuna.Study") -> list[Trial]:
    """Trials that were played to their end, pruned or refused: one for each draw of settings, in their order.

    A draw of settings that were played before has the trial that played them.
    """
    written = map(_written, study.get_trials(deepcopy=False))
    return [trial for trial in written if trial is not None]


def record(study: "optuna.Study", asked: "optuna.Trial", trial: Trial) -> None:
    """Record the result of a draw: of a new trial, or of the one that has played the same settings."""
    asked.set_user_attr("trial", asdict(trial))
    end_trial(study, asked.number, trial)


def _written(trial: "optuna.trial.FrozenTrial") -> Trial | None:
    return Trial.from_json(trial.user_attrs["trial"]) if "trial" in trial.user_attrs else None


def end_trial(study: "optuna.Study", number: int, trial: Trial | None) -> None:
    """End a trial of the study: with its recorded result, or as failed if it was interrupted before that."""
    from optuna.trial import TrialState

    states = {"complete": TrialState.COMPLETE, "pruned": TrialState.PRUNED, "failed": TrialState.FAIL}
    if trial is None:
        study.tell(number, state=TrialState.FAIL)
    else:
        study.tell(number, trial.value if trial.state == "complete" else None, state=states[trial.state])


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
    then, now = study.user_attrs.get("asked"), plan.asked
    if then is None:
        study.set_user_attr("asked", now)
    elif then != now:
        names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        changes = "; ".join(f"{name}: {_shown(then, name)} there, {_shown(now, name)} here" for name in names)
        raise ValueError(f"{folder} contains another search ({changes}): choose another folder (--dir)")


def _shown(asked: Mapping[str, Any], name: str) -> str:
    return json.dumps(asked[name]) if name in asked else "nothing"
