"""Watch: an evolved policy in a window, in real time, playing the same episodes that ``evaluate`` scores.

The window belongs to a child process: if the window manager closes it, libX11 ends the process that owns it.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

import gymnasium

from es_core.config.checks import require_positive
from es_core.config.objects import packed
from es_core.evaluation.scoring import Source, find_policy, require_same_spaces
from es_core.files import CheckpointError
from es_core.pools import process
from es_core.pools.process import Child, ChildDiedError, end
from es_core.rollout.errors import RolloutError
from es_core.rollout.rollout import Rollout
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition, Episode, PluginError, import_path
from es_envs.display import has_display

_FILM = "film the policy instead (`es-envs record`)"
_PAUSE = 0.7  # seconds that the end of an episode stays visible
_LATEST = 0.25  # seconds: longer delays are not made up for


def watch(
    source: Source,
    *,
    episodes: int | None = None,
    seed: int = 0,
    generation: int | None = None,
    candidate: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    follow: bool = False,
    trust: bool = False,
    on_episode: Callable[[Episode, int], object] | None = None,
) -> list[Episode]:
    """Show a policy in its environment's own window (render mode "human"), until that is closed.

    Args:
        source: see ``evaluate``.
        episodes: maximum number of episodes; None: no limit.
        seed: seed of the starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        generation: show a Run's centre of this generation instead.
        candidate: show this candidate of the population around that centre instead.
        env_kwargs: see ``evaluate``.
        follow: show a Run's latest checkpoint at each new episode; the run may still be training.
        trust: allow the source to name modules outside the installed plugins.
        on_episode: called after each episode, with it and the generation of its policy.

    Returns:
        The episodes that were shown to their end.

    Raises:
        ValueError: the environment has no window, a number is impossible, or a name is not trusted.
        FileNotFoundError: there is no such run or checkpoint.
        RuntimeError: there is no display.
        RolloutError: an episode failed.
    """
    if episodes is not None:
        require_positive("episodes", episodes)
    run = _followed(source, trust=trust) if follow else None
    if follow and (generation, candidate) != (None, None):
        raise ValueError("follow shows the centre of the latest generation: leave generation and candidate out")
    checkpoint, definition = find_policy(
        source, generation=generation, candidate=candidate, env_kwargs=env_kwargs, trust=trust
    )
    watched: list[Episode] = []
    with _window(definition, checkpoint) as window:
        for number in count() if episodes is None else range(episodes):
            if run is not None:
                checkpoint = run.checkpoint or checkpoint
            episode_seed = episode_seeds(seed, Purpose.TEST, number + 1)[-1]
            try:
                window.send((checkpoint.mean, checkpoint.statistics, episode_seed))
                episode = _answer(window)
            except ChildDiedError as error:
                if window.process.wait() in {0, 1}:  # closed normally, or by libX11
                    break
                raise RolloutError(f"{definition.label}: the window: {error}") from error
            watched.append(episode)
            if on_episode is not None:
                on_episode(episode, checkpoint.generation)
    return watched


def _followed(source: Source, *, trust: bool) -> RunFolder:
    if isinstance(source, RunFolder):
        return source
    if isinstance(source, Checkpoint):
        raise ValueError("a run can be followed, a single checkpoint cannot: leave follow out")
    return RunFolder.open(source, trust=trust)


@contextmanager
def _window(definition: EnvDefinition, checkpoint: Checkpoint) -> Iterator[Child]:
    """Start a process with a window; it receives parameters, statistics and seed, and answers with the episode."""
    if not has_display():
        raise RuntimeError(f"there is no display to open a window on (DISPLAY is not set): {_FILM}")
    child = Child(f"{__name__}:play_in_window")
    try:
        try:
            child.send((definition, checkpoint, packed(definition, checkpoint.config)))
            _answer(child)
        except ChildDiedError as error:
            said = " ".join(error.report.split("\n")[-3:]).strip()
            raise RuntimeError(f"{definition.label}: no window can be opened ({said}): {_FILM}") from error
        yield child
    finally:
        end([child])


def _answer(child: Child) -> Any:
    message = child.receive()
    if isinstance(message, Exception):
        raise message
    return message


def play_in_window(connection: Any) -> None:
    """Run the child until the user closes the window, or the main process the connection."""
    for descriptor in (1, 2):  # simulators' messages about their graphics only matter if there is no window
        os.dup2(process.report, descriptor)
    definition, checkpoint, objects = connection.recv()
    import_path.receive(objects)
    try:
        rollout = _rollout(definition, checkpoint)
    except (ValueError, PluginError, CheckpointError) as error:
        connection.send(error)
        return
    except Exception as error:  # noqa: BLE001  (the main process raises it)
        connection.send(RolloutError(f"{definition.label}: no window: {type(error).__name__}: {error}"))
        return
    with closing(rollout):
        rate = rollout.env.metadata.get("render_fps")
        pace = _Pace(connection, rollout.env, checkpoint.config.preprocessing.get("skip", 1) / rate if rate else 0.0)
        connection.send("open")
        while True:
            parameters, statistics, seed = connection.recv()
            try:
                rollout.use(parameters, statistics)
                episode = rollout.episode(seed, observers=[pace])
                pace.wait(_PAUSE)
            except Exception as error:  # noqa: BLE001  (likewise)
                if not _is_closed(rollout.env):
                    said = f"the episode with seed {seed} failed: {type(error).__name__}: {error}"
                    connection.send(RolloutError(f"{definition.label}: {said}"))
                return
            connection.send(episode)


def _rollout(definition: EnvDefinition, checkpoint: Checkpoint) -> Rollout:
    rollout = Rollout(definition, checkpoint.config, render_mode="human")
    try:
        modes = rollout.env.metadata.get("render_modes", [])
        if "human" not in modes:
            raise ValueError(
                f"{definition.label} has no window: 'human' is not among its render modes {modes}: {_FILM}"
            )
        require_same_spaces(checkpoint, rollout.env)
    except BaseException:
        rollout.close()
        raise
    return rollout


class _Pace:
    """An observer that waits until the wall clock has reached the simulated time, and notices when the window closes.

    Args:
        connection: connection to the main process.
        env: the environment in the window.
        period: duration of a step [s].
    """

    def __init__(self, connection: Any, env: gymnasium.Env[Any, Any], period: float) -> None:
        self._connection, self._env, self._period = connection, env, period
        self._due = 0.0

    def __call__(self, *_: object) -> None:
        now = time.monotonic()
        self._due = max(self._due + self._period, now - _LATEST)
        self.wait(self._due - now)

    def wait(self, seconds: float) -> None:
        """Wait, unless the window or the connection is closed.

        Raises:
            EOFError: one of them is closed.
        """
        # Nothing is sent during an episode: the connection is readable only if it is closed.
        if _is_closed(self._env) or self._connection.poll(max(0.0, seconds)):
            raise EOFError


def _is_closed(env: gymnasium.Env[Any, Any]) -> bool:
    """Return True if the user has closed the window; environments that draw with pygame do not check this."""
    pygame = sys.modules.get("pygame")
    asked = pygame is not None and pygame.display.get_init() and pygame.event.peek(pygame.QUIT)
    return bool(asked or getattr(env.unwrapped, "window_closed", False))
