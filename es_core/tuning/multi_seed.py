"""Several seeds of one config, side by side: what settings are worth, without the luck of one run."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from es_core.config.checks import require_seconds
from es_core.config.commands import only_in_script
from es_core.config.given import BOUNDS
from es_core.config.keywords import accepts_old_names
from es_core.config.objects import resolved
from es_core.config.train_config import TrainConfig
from es_core.config.trust import require_trusted_policy
from es_core.evaluation.scoring import find_checkpoint
from es_core.files import CheckpointError, naming_errors, require_plain, write_whole
from es_core.formatting import shell_line
from es_core.machine import usable_cores
from es_core.pools.options import PoolOptions
from es_core.reports.comparison import Comparison, compare
from es_core.run import Run
from es_core.runs.run_folder import new_directory
from es_core.training.progress import print_line, search_progress
from es_envs import interruption

_LOOK_EVERY = 2.0  # seconds
_SETTINGS = "settings.json"  # all runs', but for the seed
_GRACE = 30.0  # seconds in which a run that is interrupted may write its checkpoint


@accepts_old_names
def train_seeds(
    env: str | TrainConfig,
    seeds: Iterable[int],
    *,
    run_dir: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    pool: str = "local",
    initial: str | os.PathLike[str] | None = None,
    trust: bool = False,
    max_seconds: float | None = None,
    progress: bool = True,
    loggers: Iterable[str] = (),
    **settings: Any,
) -> Comparison:
    """Evolve a policy with each of several seeds, as many at once as there are workers for; or continue that.

    Each run is a process of its own, with its share of the workers, and ends as it would alone: a worker each is what
    uses a machine best, since no run waits for another one's last episode. Runs of the vector pool follow one another.

    Args:
        env: id of an environment, or a complete TrainConfig, whose seed does not count; of an environment that
            commands know, too: not one that only a script has registered.
        seeds: at least two, all different.
        run_dir: the folder, in which run ``s`` is ``seed-s``; those that are there are continued. None:
            runs/ID/DATE-TIME-seeds.
        workers: of all runs together; None: the usable cores, or the CPUs of the cluster.
        pool: as for ``train``.
        initial: a file or folder, as for ``train``; those that are continued have begun.
        trust: allow ``initial`` to name modules outside the installed plugins.
        max_seconds: that each run may take; the same call continues.
        progress: show progress.
        loggers: names, as for ``train``.
        **settings: as for ``train``, but for the seed.

    Returns:
        The runs as one group: their scores, mean and interquartile mean with 95 % intervals.

    Raises:
        UnknownEnvError, ValueError, TypeError: as for ``train``; fewer than two seeds; ``run_dir`` holds runs with
            other settings.
        ImportError: Ray is not installed, for the ray pool.
        ConnectionError: there is no Ray cluster, or it has fewer CPUs than workers.
        CheckpointError: in ``run_dir`` is a damaged run, or a link that leads out of it.
        RuntimeError: a run has failed; the others are complete.
    """
    options, config_fields = PoolOptions.split({"workers": workers, "pool": pool, **settings})
    if max_seconds is not None:
        require_seconds("max_seconds", max_seconds)
    loggers = list(loggers)
    if not all(isinstance(name, str) for name in loggers):
        raise TypeError(f"loggers of runs in processes of their own must be names, got {loggers!r}")
    if initial is not None and not trust and Path(initial).suffix.lower() != ".zip":
        begun = find_checkpoint(initial)
        require_trusted_policy(begun.config, where=begun.where)
    configs = _configs(env, list(seeds), config_fields)
    folder = new_directory(configs[0].env_id, "seeds") if run_dir is None else Path(run_dir)
    require_plain(folder)
    if (folder / "config.json").exists():
        raise FileExistsError(f"{folder} is a run: choose another folder for these, or leave run_dir out")
    how: list[object] = ["--quiet"]
    how += [] if max_seconds is None else ["--max-seconds", max_seconds]
    how += [word for name in loggers for word in ("--logger", name)]
    with ExitStack() as stack:
        most = usable_cores()
        if pool == "ray":
            from es_core.pools.cluster import connection, require_cpus

            options = replace(options, ray_address=stack.enter_context(connection(options.ray_address, cores=workers)))
            most = require_cpus(workers)
        together, each = 1, None  # a vector environment, and the forward pass of its candidates, take all cores
        if pool != "vector":
            together = min(len(configs), workers or most)
            each = max(1, (workers or most) // together)
        how += replace(options, workers=each).words
        runs = [_Planned(config, folder / f"seed-{config.seed}") for config in configs]
        words = [run.words(initial) + [str(word) for word in how] for run in runs]
        with naming_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _SETTINGS, json.dumps(configs[0].to_json(), indent=2).encode())
        try:
            _play(list(zip(runs, words, strict=True)), together, shown=progress)
        except BaseException as error:
            error.add_note(f"The same command with {shell_line(['--run-dir', str(folder)])} continues.")
            raise
    return compare([run.folder for run in runs])


def _configs(env: str | TrainConfig, seeds: list[int], fields: dict[str, Any]) -> list[TrainConfig]:
    if "seed" in fields:
        raise ValueError(f"both seeds={seeds} and seed={fields['seed']!r}: leave out one of the two")
    if len(seeds) < 2 or len(set(seeds)) < len(seeds):
        raise ValueError(f"seeds must be at least two, all different, such as 0..4; got {seeds}")
    config = resolved(env, fields)
    configs = [replace(config, seed=seed) for seed in seeds]
    if only_in_script(config):
        raise ValueError(
            f"your script has registered {config.env_id}, or defines its fitness or policy, and each run is a process "
            "that does not know them: put them into a module or plugin (es-envs new), or call train() with one seed "
            "after the other"
        )
    if config.eval_every == 0:
        raise ValueError("runs are compared by the scores of their centres: eval_every must be at least 1, got 0")
    return configs


@dataclass(frozen=True)
class _Planned:
    """One of the runs."""

    config: TrainConfig
    folder: Path

    def words(self, initial: str | os.PathLike[str] | None) -> list[str]:
        """The words behind ``es-envs`` of the command that begins it, or continues it.

        Raises:
            ValueError: its folder holds a run with other settings.
        """
        if not (self.folder / "config.json").exists():
            settings = ["--config", str(self.folder.parent / _SETTINGS), "--seed", str(self.config.seed)]
            begin = [] if initial is None else ["--initial", str(initial)]
            return ["train", *settings, "--run-dir", str(self.folder), "--continue", *begin, "--trust-names"]
        there, wanted = Run.open(self.folder, trust=True).config, self.config.to_json()
        if self.config.schedule_generations == self.config.generations:  # it follows from them, as of the first call
            del wanted["schedule_generations"]
        try:
            continued = there.continued(wanted)
        except ValueError as error:
            raise ValueError(f"{self.folder} holds a run with other settings, choose another folder: {error}") from None
        later = {name: value for name in BOUNDS if (value := getattr(continued, name)) != getattr(there, name)}
        bounds = [f"--{name.replace('_', '-')}={'none' if value is None else value}" for name, value in later.items()]
        # The names of its config are those that were given here.
        return ["resume", str(self.folder), *bounds, "--trust-names"]

    def share_done(self) -> float:
        """Return how far it is, 0 to 1."""
        with suppress(OSError, CheckpointError, ValueError):  # it has not begun, or is just writing a line
            run = Run.open(self.folder, trust=True)
            return 1.0 if run.end is not None else run.share_done
        return 0.0

    def outcome(self) -> str:
        """Return what came of it, for people."""
        run = Run.open(self.folder, trust=True)
        end = "stopped" if run.end is None else "solved" if run.end == "solved" else f"{run.end} reached"
        score = f", best centre {run.best_score[1]}" if run.best_score is not None else ""
        return f"{end} in generation {run.history[-1].generation}{score}" if run.history else end


def _play(runs: Sequence[tuple[_Planned, list[str]]], together: int, *, shown: bool) -> None:
    """Play all runs by their commands, ``together`` of them at once; those that an exception interrupts end in order.

    Raises:
        RuntimeError: some have failed.
    """
    processes: list[subprocess.Popen[bytes]] = []

    def play(words: Sequence[str]) -> tuple[int, str]:
        with tempfile.TemporaryFile() as errors:
            process = _start(words, errors)
            processes.append(process)
            code = process.wait()
            errors.seek(0)
            return code, errors.read().decode(errors="replace").strip()

    failures = dict[int, str]()
    with search_progress(shown=shown) as display, ThreadPoolExecutor(together) as executor:
        bar = display.add_task("runs", total=len(runs))
        futures = {executor.submit(play, words): (run, words) for run, words in runs}
        left = set(futures)
        try:
            while left:
                ended, left = wait(left, timeout=_LOOK_EVERY, return_when=FIRST_COMPLETED)
                interruption.check()
                if shown:
                    display.update(bar, completed=sum(run.share_done() for run, _ in runs))
                for future in ended:
                    (run, words), (code, errors) = futures[future], future.result()
                    seed = run.config.seed
                    for line in errors.splitlines():
                        if line.startswith("warning:"):
                            print_line(display.console, f"seed {seed}: {line}")
                    if code:
                        failures[seed] = f"{shell_line(['es-envs', *words])} ended with exit code {code}:\n{errors}"
                    print_line(display.console, f"seed {seed}: {'failed' if code else run.outcome()}")
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                if process.stdin is not None:
                    process.stdin.close()  # at which it writes its checkpoint, and ends
            wait([future for future in futures if not future.cancelled()], timeout=_GRACE)
            for process in processes:
                process.kill()
    if failures:
        seed, failure = next(iter(failures.items()))
        raise RuntimeError(
            f"{len(failures)} of {len(runs)} runs have failed (seeds {', '.join(map(str, failures))}), the others are "
            f"complete. Seed {seed}: {failure}"
        )


def _start(words: Sequence[str], errors: IO[bytes]) -> "subprocess.Popen[bytes]":
    """Start ``es-envs`` with these words; it writes errors to this file, and ends when its stdin is closed."""
    options: dict[str, Any] = {"process_group": 0}  # Ctrl-C is for this process, which then ends the runs in order
    if sys.platform == "win32":
        options = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    return subprocess.Popen(  # noqa: S603  (our own command, by our own interpreter)
        [sys.executable, "-m", "es_core", "--end-with-stdin", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=errors,
        # It finds modules where this process does.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        **options,
    )
