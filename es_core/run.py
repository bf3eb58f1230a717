"""Runs: ``train`` makes or resumes one, and a ``Run`` is its folder with methods to use it."""

import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import gymnasium

from es_core.config.checks import require_positive, require_seconds
from es_core.config.commands import chosen_settings
from es_core.config.given import OBJECTS
from es_core.config.keywords import accepts_old_names
from es_core.config.objects import resolved
from es_core.config.strategy_defaults import STABLE_BASELINES3
from es_core.config.train_config import TrainConfig, require_bits
from es_core.config.trust import require_trusted, require_trusted_policy
from es_core.evaluation.scoring import Source, find_checkpoint, find_policy
from es_core.files import relative_path
from es_core.formatting import html_table
from es_core.policies.defaults import inherit_policy
from es_core.policies.engines import require_device
from es_core.pools.options import PoolOptions
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.course import course_picture
from es_core.runs.locks import LockLostError
from es_core.runs.metrics import GenerationStats
from es_core.runs.run_folder import RunFolder, is_begun, lock
from es_core.runs.scores import Evaluation
from es_core.training.by_name import find_trainer
from es_core.training.lifecycle import Lifecycle
from es_core.training.loop import evolve
from es_core.training.rebuilding import find_best, restore, restore_best
from es_envs import import_path, registry

if TYPE_CHECKING:
    from es_core.evaluation.adapting import Adaptation
    from es_core.video.recording import Film


class Run(RunFolder):
    """A run: its folder, the folder's contents, and methods to use them.

    Attributes:
        directory: the folder.
        config: the run's config.
        trusted: True if the caller made or vouches for the run, so that its config may name any module.
        history: the lines of metrics.jsonl, without their logs.
    """

    @property
    def best(self) -> Checkpoint | None:
        """The best evaluated centre, or None if none was evaluated.

        A file that is missing, or does not match the log, is rebuilt from the log, with a warning.

        Raises:
            CheckpointError: the file is damaged, or cannot be rebuilt.
        """
        return find_best(self)

    def _repr_html_(self) -> str:
        """For a notebook: its course, and its score."""
        score, end = self.best_score, self.end or ("training" if self.is_training else "unfinished")
        rows = [
            ("run", relative_path(self.directory)),
            ("environment", registry.plain_id(self.config.env_id)),
            ("state", end),
        ]
        if score is not None:
            rows.append((f"best policy, of generation {score[0]}", str(score[1])))
        return course_picture(self.history) + html_table(*rows)

    def evaluate(self, **options: Any) -> Evaluation:
        """Score its best centre on unseen starts; takes the options of ``es_core.evaluate``."""
        from es_core.evaluation.scoring import evaluate

        return evaluate(self, **options)

    def adapt(self, *, env_kwargs: Mapping[str, Any], **options: Any) -> "Adaptation":
        """Find a policy of its repertoire for a changed environment; takes the options of ``es_core.adapt``."""
        from es_core.evaluation.adapting import adapt

        return adapt(self, env_kwargs=env_kwargs, **options)

    def record(self, path: str | os.PathLike[str], **options: Any) -> "Film":
        """Film its best centre; takes the options of ``es_core.record``."""
        from es_core.video.recording import record

        return record(self, path, **options)

    def report(self, path: str | os.PathLike[str] | None = None, **options: Any) -> Path:
        """Write a page about it; takes the options of ``es_core.report``."""
        from es_core.reports.run_report import report

        return report(self, path, **options)

    def finetune(self, *, algorithm: str, steps: int, **options: Any) -> "Run":
        """Train its best centre further by gradients, in a run of its own, as ``es_core.finetune`` does."""
        return finetune(self, algorithm=algorithm, steps=steps, **options)

    def resume(self, **options: Any) -> "Run":
        """Continue it from its latest checkpoint; takes the options of ``es_core.train``."""
        path = self.directory / "config.json"
        config = TrainConfig.load(path)  # its bounds may have grown since
        require_trusted(config, trust=self.trusted, where=path)
        return train(config, run_dir=self.directory, resume=True, **options)


@accepts_old_names
def train(
    env: str | TrainConfig | Callable[..., gymnasium.Env[Any, Any]],
    *,
    run_dir: str | os.PathLike[str] | None = None,
    initial: Source | None = None,
    resume: bool | Literal["if begun"] = False,
    allow_changed_code: bool = False,
    max_seconds: float | None = None,
    progress: bool = True,
    loggers: Iterable[object] = (),
    on_generation: Callable[[GenerationStats], bool | None] | None = None,
    workers: int | None = None,
    pool: str = "local",
    **settings: Any,
) -> Run:
    """Evolve a policy.

    A run that was interrupted or killed can be resumed, and ends with the same result: after an exception (Ctrl-C, too)
    it continues with the generation it was in, after ``kill -9`` with its latest checkpoint. No signal handler is
    installed here; the command ``es-envs`` treats SIGTERM like Ctrl-C.

    A worker process that dies or hangs is replaced, with a warning, and its tasks are played again: the result is that
    of an undisturbed run. A candidate's episode that fails is played again in a fresh environment; if it fails again,
    the config's ``on_candidate_error`` says what happens.

    Args:
        env: id of an environment, whose recommended settings then apply; or a complete TrainConfig; or a class or
            function that makes an environment.
        run_dir: folder of the run; None: runs/ID/DATE-TIME-sSEED.
        initial: a Run or its folder (its best evaluated centre, or its latest checkpoint if none was evaluated), a
            checkpoint file, or a Checkpoint, whose parameters (and observation statistics) the run starts from; its
            policy, too, unless another is given. Or a .zip that Stable-Baselines3 has saved (see
            ``from_stable_baselines3``).
        resume: True: continue the run in ``run_dir``. "if begun": begin a run if there is none, else continue it, which
            ends at once if it is finished: one call for a job that a cluster starts again and again. ``initial``
            matters only at the beginning.
        allow_changed_code: allow environment, fitness or policy, given as objects, to have other code than the run's.
        max_seconds: stop after the generation in which so much time has passed; ``resume`` continues.
        progress: show a progress bar (plain lines if the output is not a terminal).
        loggers: also log the run to these implementations of the lifecycle hooks, or names of loggers.
        on_generation: called after each generation's metrics are written; returns False to stop the run.
        workers: number of processes; None: the usable cores (a cluster's CPUs). The result does not depend on it.
        pool: rollout pool, which steps environments and computes policies: "local" (worker processes, each with its own
            candidates), "ray" (like local, on the nodes of a Ray cluster) or "vector" (one vector environment, with a
            candidate in each of its ``vector_envs`` copies, and one forward pass in torch for all of them).
        **settings: fields of TrainConfig, and other fields of PoolOptions: ``ray_address``, ``step_timeout``,
            ``episodes_per_worker``. ``fitness`` may also be a function or class, ``policy`` a class of
            torch modules. An object that a script or notebook defines goes to local workers as a copy of its current
            state, and the config has its name and a hash of its code.

    Returns:
        The run: its folder, history, checkpoints.

    Raises:
        UnknownEnvError: no such environment is registered.
        ValueError, TypeError: a setting is invalid; nothing is left behind.
        FileExistsError: ``run_dir`` is not empty, and ``resume`` is not set.
        OSError: the run folder cannot be written; the last checkpoint is intact.
        RuntimeError: another process is training in ``run_dir``.
        ImportError: Ray is not installed, for the ray pool.
        ConnectionError: there is no Ray cluster at the address, it has another version, or none of its nodes plays.
        RolloutError: an episode failed twice, or a worker could not start; the last checkpoint is intact.
        FloatingPointError: the parameters are no longer finite; the last finite ones are kept.

    Examples:
        >>> from es_core import train
        >>> run = train("CartPoleBullet-v0", seed=1)  # all cores, a new folder in runs/
        >>> run.history[-1].solved
        True
        >>> poles = train("CartPole-v1", strategy="cma_es", generations=2, run_dir="poles")
        >>> poles = poles.resume(generations=3)
    """
    options, config_fields = PoolOptions.split({"workers": workers, "pool": pool, **settings})
    run_dir = Path(run_dir).absolute() if run_dir else None  # an environment may change the current folder
    _require_resumable(resume, run_dir, initial, allow_changed_code=allow_changed_code)
    if max_seconds is not None:
        require_seconds("max_seconds", max_seconds)
    how: dict[str, Any] = {
        "options": options,
        "lifecycle": Lifecycle(loggers),
        "progress": progress,
        "on_generation": on_generation,
        "deadline": math.inf if max_seconds is None else time.monotonic() + max_seconds,
    }
    if run_dir is not None and (is_begun(run_dir) if resume == "if begun" else resume):
        with lock(run_dir) as held:
            run = _reopen(env, run_dir, config_fields, allow_changed_code=allow_changed_code)
            run.held = held
            restore(run)
            if run.finished:
                restore_best(run)
                run.write_config(run.config)  # a bound that has grown has no effect any more, but is recorded
            else:
                evolve(run, resume=True, **how)
        return run
    config = resolved(env, config_fields)
    require_device(config, options.pool)
    source: Checkpoint | None = None
    if initial is not None:
        given = chosen_settings(config) if isinstance(env, TrainConfig) else config_fields
        config, source = _beginning_with(initial, config, given)
    find_trainer(config.strategy).require_fit(config, from_policy=source is not None)
    run = Run.create(run_dir, config, source)
    held = run.held = lock(run.directory)  # not to be discarded where another process was a moment faster
    try:
        with held:
            evolve(run, resume=False, **how)
    except BaseException as error:
        is_ours = not isinstance(error, LockLostError)  # what lies there now may be another's
        if is_ours and not run.history and not run.checkpoint_generations():
            run.discard()  # nothing was learnt: leave no empty folder behind
        raise
    return run


# What a fine-tuned run has in common with the run that its policy comes from: the task, and the way to score it.
_TASK = (
    "env_kwargs", "randomize", "preprocessing", "fitness", "fitness_aggregation", "seed", "max_episode_steps",
    "action_bins", "eval_episodes", "eval_budget", "confirm_episodes",
)  # fmt: skip


def finetune(
    source: Source,
    *,
    algorithm: str,
    steps: int,
    trust: bool = False,
    **options: Any,
) -> Run:
    """Continue training an evolved policy by gradients, in a run of its own.

    The policy becomes the starting actor of the algorithm: the same network, normalisation of observations and way
    from outputs to actions. It stays as it is for the first ``warmup_steps`` (of ``strategy_options``), while the
    critic learns. Gradients follow the reward, whatever fitness the run has; its scores are of that fitness.

    Args:
        source: a Run or its folder (its best evaluated centre, or its latest checkpoint if none was evaluated), a
            checkpoint file, or a Checkpoint.
        algorithm: a trainer that a plugin registers, or the end of its name: "ppo" is "sb3:ppo", an algorithm of
            Stable-Baselines3; so are "sac", "td3" and "dqn". It must fit the actions.
        steps: environment steps after which the run ends, those of its scores included.
        trust: allow the source to name modules outside the installed plugins.
        **options: options of ``train``: ``run_dir``, ``max_seconds``, ..., and fields of TrainConfig. The task, the
            root seed and the way to score are the source's where none are given; it does not stop when solved, unless
            ``solved_at`` is given.

    Raises:
        ValueError: the algorithm does not fit the actions, the policy cannot be handed over, an option is wrong, or a
            name is not trusted.
        ImportError: Stable-Baselines3 is not installed.
        Exception: see ``train``.
    """
    require_positive("steps", steps)
    checkpoint, _ = find_policy(source, generation=None, trust=trust)
    taken = checkpoint.config.to_json()
    settings = {"solved_at": None, **{name: taken[name] for name in _TASK}}
    name = next((name for name in registry.trainers() if algorithm in {name, name.rpartition(":")[2]}), algorithm)
    return train(
        checkpoint.config.env_id,
        initial=checkpoint,
        **{**settings, "strategy": name, "max_steps": steps, **options},
    )


def from_stable_baselines3(path: str | os.PathLike[str], env_id: str, **options: Any) -> Checkpoint:
    """Return the policy of a model that Stable-Baselines3 has saved, as a checkpoint.

    You can score it, film it, export it, and let evolution start from it: ``train(env_id, initial=checkpoint)``.

    Args:
        path: the model's .zip.
        env_id: id of the environment that it was trained in.
        **options: those of ``es_stable_baselines3.from_stable_baselines3``, which reads it.

    Raises:
        ImportError: that plugin is not installed.
        Exception: see that function.
    """
    try:
        read = import_path.load("es_stable_baselines3.saved_models:from_stable_baselines3")
    except ModuleNotFoundError as error:
        raise ImportError(f"reading {path} needs {STABLE_BASELINES3} ({error})") from error
    checkpoint: Checkpoint = read(path, env_id, **options)
    return checkpoint


def _require_resumable(resume: object, run_dir: Path | None, initial: object, *, allow_changed_code: bool) -> None:
    """Refuse arguments of ``train`` that contradict each other."""
    if resume not in {True, False, "if begun"}:
        raise ValueError(f"resume must be True, False or 'if begun', got {resume!r}")
    if allow_changed_code and not resume:
        raise ValueError("allow_changed_code is for resume=True: a new run begins with the given code")
    if resume is True and initial is not None:
        raise ValueError("initial is for a new run: a resumed one continues from its own checkpoint")
    if resume and run_dir is None:
        raise ValueError(f"resume={resume!r} needs run_dir, the folder of the run to continue")


def _beginning_with(initial: Source, config: TrainConfig, given: Collection[str]) -> tuple[TrainConfig, Checkpoint]:
    """The config with the policy of ``initial``, unless one is ``given``, and the checkpoint to begin with."""
    if isinstance(initial, str | os.PathLike) and Path(initial).suffix.lower() == ".zip":
        settings = {name: getattr(config, name) for name in ("env_kwargs", "max_episode_steps", "preprocessing")}
        source = from_stable_baselines3(initial, config.env_id, **settings)
    else:
        source = find_checkpoint(initial)
    source = find_trainer(config.strategy).convert_initial(source)
    ours, config = config, inherit_policy(config, source.config, given=given)
    if not source.trusted and (ours.policy, ours.policy_options) != (config.policy, config.policy_options):
        require_trusted_policy(config, where=source.where)
    return config, source


def _reopen(
    env: str | TrainConfig | Callable[..., Any],
    run_dir: str | os.PathLike[str],
    config_fields: dict[str, Any],
    *,
    allow_changed_code: bool,
) -> Run:
    """Open the run to resume; settings may be repeated, but only bounds may differ, and only grow."""
    given = {**(env.to_json() if isinstance(env, TrainConfig) else {}), **config_fields}
    objects: dict[str, Any] = {name: given.pop(name) for name in OBJECTS if callable(given.get(name))}
    if callable(env):
        objects["env"] = env
    elif not isinstance(env, TrainConfig):
        given["env_id"] = env
    run = Run.open(run_dir, trust=isinstance(env, TrainConfig), allow_changed_code=allow_changed_code, **objects)
    vouched = {*given, *("env_id" if name == "env" else name for name in objects)}
    config = run.config.continued(given)
    require_trusted(config, trust=run.trusted, vouched=vouched, where=run.directory / "config.json")
    run.config, run.trusted = config, True
    if not run.finished:
        require_bits(config, run.directory)
    return run
