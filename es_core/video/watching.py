"""Watch: an evolved policy in a window, in real time, playing the same episodes that ``evaluate`` scores.

The window belongs to a child process: if the window manager kills it, libX11 ends the process that owns it.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, repeat
from typing import Any

from es_core.config.checks import require_positive
from es_core.config.objects import pack_objects
from es_core.config.plan import auto_settings
from es_core.evaluation.scoring import Source, find_policy
from es_core.formatting import figures, percent
from es_core.processes.process import Child, ChildDiedError, end
from es_core.rollout.errors import RolloutError
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.seeding import Purpose, episode_seeds
from es_core.training.progress import Stderr, prepare_policy, print_line
from es_core.video.filmed_policies import policy_of, run_of
from es_core.video.live import FILM, Start, Training
from es_envs import EnvDefinition, Episode
from es_envs.display import has_display

_LOOK_EVERY = 0.5  # seconds between two looks at a run in training


def watch(
    source: Source,
    *,
    episodes: int | None = None,
    seed: int = 0,
    generation: int | None = None,
    candidate: int | None = None,
    cell: Sequence[int] | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    live: bool = False,
    trust: bool = False,
    progress: bool = False,
    on_episode: Callable[[Episode, int], object] | None = None,
) -> list[Episode]:
    """Show a policy in a window, in real time, as ``record`` films it, until the window is closed.

    Args:
        source: see ``evaluate``.
        episodes: maximum number of episodes; None: no limit.
        seed: seed of the starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        generation: show a Run's centre of this generation instead.
        candidate: show this candidate of the population around that centre instead.
        cell: show the policy of this cell of a repertoire instead; see ``evaluate``.
        env_kwargs: see ``evaluate``.
        live: take a Run's newest best policy (or latest checkpoint, if none was evaluated) at each new episode; the run
            may still be training, and without a checkpoint is waited for.
        trust: allow the source to name modules outside the installed plugins.
        progress: say on stderr what is being opened or waited for.
        on_episode: called after each episode, with it and the generation of its policy.

    Returns:
        The episodes that were shown to their end.

    Raises:
        ValueError: the environment draws no pictures, no window can be opened, a number is impossible, or a name is
            not trusted.
        FileNotFoundError: there is no such run or checkpoint.
        RuntimeError: there is no display.
        RolloutError: an episode failed.
    """
    say = partial(print_line, Stderr(quiet=not progress))
    if episodes is not None:
        require_positive("episodes", episodes)
    if live and (generation, candidate, cell) != (None, None, None):
        raise ValueError("live shows the best policy of a run so far: leave generation, candidate and cell out")
    run = None
    if live:
        why = "a run gets better policies, a single checkpoint does not: leave live out"
        run = run_of(source, trust=trust, otherwise=why)
    if run is not None and has_display():
        source = _first(run, say) or run
    checkpoint, definition = find_policy(
        source, generation=generation, candidate=candidate, cell=cell, env_kwargs=env_kwargs, trust=trust
    )
    prepare_policy(checkpoint.config, definition, shown=progress)
    watched: list[Episode] = []
    numbers = count() if episodes is None else range(episodes)
    policies = repeat(checkpoint) if run is None else _newest_each_time(run, checkpoint, say)
    with _window(definition, checkpoint, say) as window:
        for number, checkpoint in zip(numbers, policies, strict=False):
            start = Start(
                policy=policy_of(checkpoint, candidate, cell),
                seed=episode_seeds(seed, Purpose.TEST, number + 1)[-1],
                number=number,
            )
            try:
                window.send(start)
                while run is not None and not window.connection.poll(_LOOK_EVERY):
                    run.refresh()
                    window.send(Training(lines=training_state(run)))
                episode = _answer(window)
            except ChildDiedError as error:
                if window.process.wait() in {0, 1}:  # closed normally, or by libX11
                    break
                raise RolloutError(f"{definition.label}: the window: {error}") from error
            if episode is None:  # the user has gone on to the next start
                continue
            watched.append(episode)
            if on_episode is not None:
                on_episode(episode, checkpoint.generation)
    return watched


def _first(run: RunFolder, say: Callable[[str], None]) -> Checkpoint | None:
    """Wait for a run's first checkpoint; None: it has lost them all, and nobody is training in it."""
    is_told = False
    while (checkpoint := _newest(run)) is None and (run.is_training or not run.history):
        if not is_told:
            say(f"{run.directory} has no checkpoint yet: waiting for the first one (Ctrl-C: stop)")
            is_told = True
        time.sleep(_LOOK_EVERY)
    return checkpoint


def training_state(run: RunFolder) -> tuple[str, ...]:
    """Lines about a run in training: its generation, its best policy's score, its speed or how it has ended."""
    if not run.history:
        return ("training: generation 0",)
    last, most = run.history[-1], run.config.generations
    far = f", {percent(run.share_done)} done" if most is None else f" of {most}"
    lines = [f"training: generation {last.generation}{far}"]
    if run.best_score is not None:
        generation, score = run.best_score
        lines.append(f"best score {figures(score.mean)}, in generation {generation}")
    if run.end is not None:
        lines.append(f"the run has ended ({run.end})")
    elif not run.is_training:
        lines.append("interrupted")
    elif last.steps_per_second is not None:
        lines.append(f"{figures(round(last.steps_per_second))} steps/s")
    return tuple(lines)


def _newest_each_time(run: RunFolder, checkpoint: Checkpoint, say: Callable[[str], None]) -> Iterator[Checkpoint]:
    is_over = False
    while True:
        checkpoint = _newest(run) or checkpoint
        if not is_over and run.end is not None and not run.is_training:
            is_over = True
            say(f"the run has ended ({run.end}): generation {checkpoint.generation} keeps playing")
        yield checkpoint


def _newest(run: RunFolder) -> Checkpoint | None:
    """The best policy so far of a run that may be going on, or its latest checkpoint; None: there is none now."""
    run.refresh()
    if auto_settings(run.config):  # a run chooses these before its first checkpoint
        return None
    try:
        return run.stored_best or run.checkpoint
    except FileNotFoundError:  # the run has just removed it
        return None


@contextmanager
def _window(definition: EnvDefinition, checkpoint: Checkpoint, say: Callable[[str], None]) -> Iterator[Child]:
    """Start a process with a window; see ``show_in_window``."""
    if not has_display():
        raise RuntimeError(f"there is no display to open a window on (DISPLAY is not set): {FILM}")
    say(f"opening a window for {definition.id} ... (H: what the keys do; Esc, or close it: end)")
    child = Child("es_core.video.live:show_in_window")
    try:
        try:
            child.send((definition, checkpoint, pack_objects(definition, checkpoint.config)))
            _answer(child)
        except ChildDiedError as error:
            text = " ".join(error.report.split("\n")[-3:]).strip()
            raise RuntimeError(f"{definition.label}: no window can be opened ({text}): {FILM}") from error
        yield child
    finally:
        end([child])


def _answer(child: Child) -> Any:
    message = child.receive()
    if isinstance(message, Exception):
        raise message
    return message
