"""The next step: what to do now about a run, in one sentence, and the command that does it."""

import contextlib
from dataclasses import dataclass, replace

import es_envs
from es_core.config.commands import only_in_script, run_command, train_command
from es_core.config.given import BOUNDS
from es_core.config.train_config import BITS
from es_core.runs.run_folder import RunFolder
from es_core.training.advice import Advice


@dataclass(frozen=True, kw_only=True)
class NextStep:
    """An advice at the end of a report: what to do now, and the command that does it.

    Attributes:
        sentence: why, and what.
        command: the command that does it.
    """

    sentence: str
    command: str


def next_step(
    run: RunFolder, *, training: bool, followed: bool, filmed: bool, installed: bool, advised: Advice
) -> NextStep:
    """Choose what to do now about a run: go on, change something, look at its policy, or use it.

    Args:
        run: the run.
        training: a process trains in its folder.
        followed: the page is written again after each generation.
        filmed: there is a film, or there can be none.
        installed: its environment is.
        advised: what ``advice`` says about its history.
    """
    if training:
        still = f"It is still training{_but(advised)}."
        if followed:
            return _step(run, f"{still} To see its best policy so far:", "watch", live=True)
        return _step(run, f"{still} To keep this page up to date:", "report", follow=True)
    if not installed:
        return NextStep(sentence="Its environment is not installed here. To see what is:", command="es-envs list")
    if run.end is None and run.config.bits == BITS:
        return _after_a_stop(run, advised)
    return _after_the_end(run, filmed=filmed, advised=advised)


def _after_a_stop(run: RunFolder, advised: Advice) -> NextStep:
    if (failure := run.failure) is not None:
        message = f"Generation {failure.generation} has failed: {failure}."
        if failure.replay:
            return _step(run, f"{message} To see that episode fail:", "replay", **failure.replay)
        return _step(run, f"{message} Once the cause is removed, to run it again:", "resume")
    if not run.history:
        return _step(run, "It has stopped before a generation was finished. To start again:", "resume")
    generation = run.history[-1].generation
    return _step(run, f"It has stopped after generation {generation}{_but(advised)}. To continue:", "resume")


def _after_the_end(run: RunFolder, *, filmed: bool, advised: Advice) -> NextStep:
    best = run.best_score
    if best is None:
        return _step(run, "No centre was evaluated. To score the last one on unseen starts:", "evaluate")
    solved, succeeds = run.end == "solved", best[1].success_rate == 1
    message = "It succeeds from every unseen start" if succeeds else "It has ended"
    if solved:
        message = f"It is solved{_but(advised)}"
    done = solved or succeeds
    has_goal = run.config.solved_at is not None
    if run.end in BOUNDS and run.config.bits == BITS and not (advised or done) and (filmed or has_goal):
        bound = getattr(run.config, run.end)
        message = f"It has reached {run.end}={bound}, and more may help. To continue:"
        return _step(run, message, "resume", **{run.end: 2 * bound})
    if not filmed and (done or not advised):
        return _step(run, f"{message}. To see what its best policy does:", "report", film=True)
    if done and not only_in_script(run.config):
        export = _step(run, f"{message}. To use its best policy in other programs:", "export")
        return replace(export, command=f"{export.command} policy.onnx")
    again = None if done else _start_again(run, advised)
    but = "" if done else _but(advised)
    return again or _step(run, f"{message}{but}. To score its best policy on other starts:", "evaluate")


def _start_again(run: RunFolder, advised: Advice) -> NextStep | None:
    """A new run: with the settings that are advised, or of today's version.

    None if none are advised, although something is wrong, or if the environment is not installed.
    """
    if advised and not advised.settings:
        return None
    message = f"It has ended{_but(advised)}. To start again{', with that changed' if advised else ''}:"
    with contextlib.suppress(es_envs.UnknownEnvError, es_envs.PluginError, ValueError, ImportError):
        command = train_command(run.config, run.directory, trusted=run.trusted, **advised.settings)
        return NextStep(sentence=message, command=command)
    return None


def _but(advised: str) -> str:
    return f", but {advised}" if advised else ""


def _step(run: RunFolder, sentence: str, verb: str, **options: int) -> NextStep:
    command = run_command(verb, run.config, run.directory, trusted=run.trusted, **options)
    return NextStep(sentence=sentence, command=command)
