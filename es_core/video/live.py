"""Live: the process with the window, which plays episodes in real time and shows them as films do."""

import os
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from es_core.evaluation.scoring import require_same_spaces
from es_core.files import CheckpointError
from es_core.processes import process
from es_core.rollout.errors import RolloutError
from es_core.runs.checkpoint import Checkpoint
from es_core.video.captions import Caption, Inset, captioned, score_text
from es_core.video.clips import decimals, inset
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.renderer import EpisodeInFilm, Renderer, Scene
from es_core.video.window import Window, WindowClosedError
from es_envs import EnvDefinition, Episode, PluginError, import_path
from es_envs.bullet.camera import Camera

FILM = "film the policy instead (`es-envs record`)"

_SIZE = (640, 480)  # pixels of a picture, where the environment allows a choice; the user may enlarge the window
_RATE = 30.0  # pictures per second at most
_PAUSE = 1.5  # seconds that the end of an episode stays visible
_LATEST = 0.25  # seconds: longer delays are not made up for
_SELDOM = 0.3  # seconds between two pictures at most, however late they are
_LOOK_AHEAD = 2.0  # seconds that playing an episode beforehand may take, for its map
_IDLE = 0.03  # seconds between two looks at the window and the connection


@dataclass(frozen=True, kw_only=True, eq=False)
class Start:
    """An episode to show.

    Attributes:
        policy: the policy that plays it.
        seed: its seed.
        number: number of the start, counted from 0.
    """

    policy: FilmedPolicy
    seed: int
    number: int


def show_in_window(connection: Any) -> None:
    """Run the child until the user closes the window, or the main process the connection.

    It receives a definition, a checkpoint and the objects of ``import_path``, and says when it is ready. Then it
    answers each ``Start`` with its episode, or with None if the user went on before the end.
    """
    for descriptor in (1, 2):  # simulators' messages about their graphics only matter if there is no window
        os.dup2(process.report, descriptor)
    definition, checkpoint, objects = connection.recv()
    try:
        _show(connection, definition, checkpoint, objects)
    except (WindowClosedError, EOFError):  # the latter: the main process has closed the connection
        pass
    except (ValueError, PluginError, CheckpointError, RolloutError) as error:
        connection.send(error)
    except Exception as error:  # noqa: BLE001  (the main process raises it)
        connection.send(RolloutError(f"{definition.label}: in the window: {type(error).__name__}: {error}"))


def _show(connection: Any, definition: EnvDefinition, checkpoint: Checkpoint, objects: Any) -> None:
    try:
        window = Window(f"{definition.id} (space: next start, Esc: end)")
    except OSError as error:
        raise ValueError(f"{definition.label}: no window can be opened ({error}): {FILM}") from error
    dark = np.full((_SIZE[1], _SIZE[0], 3), 24, np.uint8)
    window.show(captioned(dark, Caption(titles=("loading ...",), scores=("",), subject=definition.id), 0))
    window.wait(0.0)
    import_path.receive(objects)
    renderer = Renderer(Scene.alone(definition, checkpoint.config, size=_SIZE, fps=_RATE))
    with process.closing_at_the_end(renderer):
        require_same_spaces(checkpoint, renderer.env)
        player = _Player(window, renderer, definition.id, connection)
        connection.send("ready")
        while True:
            while not connection.poll(_IDLE):
                window.wait(0.0)
            connection.send(player.play(connection.recv()))


class _Player:
    """Plays episodes in a window.

    Args:
        window: the window.
        renderer: the renderer that draws.
        env_id: id of the environment.
        connection: connection to the main process.
    """

    def __init__(self, window: Window, renderer: Renderer, env_id: str, connection: Any) -> None:
        self._window, self._renderer, self._env_id, self._connection = window, renderer, env_id, connection
        self._decimals = 0

    def play(self, start: Start) -> Episode | None:
        """Play an episode in real time, and return it; None: the user skips to the next one.

        Pictures are left out where drawing them takes too long.

        Raises:
            WindowClosedError: the user has closed the window.
        """
        caption = Caption(
            titles=(start.policy.title,),
            scores=("",),
            subject=f"{self._env_id}, start {start.number}",
            inset=self._map(start),
        )
        in_film, number = self._renderer.play(start.policy, start.seed), 0
        due = drawn = time.monotonic()
        while in_film.advance(self._renderer.every):
            now = time.monotonic()
            due = max(due + 1 / self._renderer.rate, now - _LATEST)
            if now <= due or now > drawn + _SELDOM:
                self._draw(in_film, caption, number, in_film.fitness)
                drawn = time.monotonic()
            if self._wait(due - time.monotonic()):
                return None
            number += 1
        episode = in_film.episode
        self._draw(in_film, caption, number - 1, episode.fitness, episode.ending)
        self._wait(_PAUSE)
        return episode

    def _draw(
        self, in_film: EpisodeInFilm, caption: Caption, number: int, fitness: float | None, ending: str = ""
    ) -> None:
        self._decimals = max(self._decimals, decimals([fitness]))
        score = score_text(fitness, self._decimals, ending)
        env = self._renderer.free_camera
        frame = in_film.frame(None if env is None else self._window.turned(env.camera()))
        self._window.show(captioned(frame, replace(caption, scores=(score,)), number))

    def _wait(self, seconds: float) -> bool:
        if self._connection.poll():  # nothing is sent during an episode: it is closed
            raise WindowClosedError
        return self._window.wait(seconds)

    def _map(self, start: Start) -> Inset | None:
        """The episode's map, if its camera's path is known soon enough."""
        env = self._renderer.free_camera
        if env is None:
            return None
        end, cameras = time.monotonic() + _LOOK_AHEAD, list[Camera]()
        ahead = self._renderer.play(start.policy, start.seed)
        while ahead.advance(self._renderer.every):
            cameras.append(env.camera())
            if self._wait(0.0) or time.monotonic() > end:
                return None
        return inset(self._renderer, cameras, cameras, start.seed, _SIZE)
