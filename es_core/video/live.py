"""Live: the process with the window, which plays episodes in real time and shows them as films do."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from es_core.evaluation.scoring import require_same_spaces
from es_core.files import CheckpointError
from es_core.processes import process
from es_core.rollout.errors import RolloutError
from es_core.runs.checkpoint import Checkpoint
from es_core.video.captions import Caption, Inset, captioned, score_text
from es_core.video.clips import decimals, inset
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.layout import Arrangement, alone
from es_core.video.renderer import EpisodeInFilm, Renderer, Scene
from es_core.video.window import KEYS, Window, WindowClosedError, Wish
from es_envs import EnvDefinition, Episode, PluginError, import_path
from es_envs.bullet.camera import Camera, FreeCameraEnv
from es_envs.registry import plain_id

FILM = "film the policy instead (`es-envs record`)"

_SIZE = (640, 480)  # pixels of a picture, where the environment allows a choice, until the window has another size
_MAP = 3  # times the size in which a map is drawn, for windows that are larger
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


@dataclass(frozen=True, kw_only=True)
class Training:
    """The state of the run in training, to be shown until there is another.

    Attributes:
        lines: what to write.
    """

    lines: tuple[str, ...]


def show_in_window(connection: Any) -> None:
    """Run the child until the user closes the window, or the main process the connection.

    It receives a definition, a checkpoint and the objects of ``import_path``, and says when it is ready. Then it
    answers each ``Start`` with its episode, or with None if the user went on before the end. A ``Training`` may come at
    any time.
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
    name = plain_id(definition.id)
    try:
        window = Window(f"{name} (H: keys, Esc: end)")
    except OSError as error:
        raise ValueError(f"{definition.label}: no window can be opened ({error}): {FILM}") from error
    dark = np.full((_SIZE[1], _SIZE[0], 3), 24, np.uint8)
    window.show(captioned(dark, Caption(titles=("loading ...",), scores=("",), subject=name), 0))
    window.wait(0.0)
    import_path.receive(objects)
    renderer = Renderer(Scene.alone(definition, checkpoint.config, size=_SIZE, fps=_RATE))
    with process.closing_at_the_end(renderer):
        require_same_spaces(checkpoint, renderer.env)
        if renderer.free_camera is None:
            renderer.rearrange(alone(_SIZE, fits=False, apart=True))
        player = _Player(window, renderer, name, connection)
        connection.send("ready")
        while True:
            while not connection.poll(_IDLE):
                window.wait(0.0)
            player.receive()


class _Player:
    """Plays episodes in a window.

    Args:
        window: the window.
        renderer: the renderer that draws.
        name: name of the environment.
        connection: connection to the main process.
    """

    def __init__(self, window: Window, renderer: Renderer, name: str, connection: Any) -> None:
        self._window, self._renderer, self._name, self._connection = window, renderer, name, connection
        self._decimals = 0
        self._own = renderer.scene.arrangement, _size_of(renderer.free_camera)
        self._training: tuple[str, ...] = ()

    def receive(self) -> None:
        """Play the episode that the next message asks for, and answer; or take the training's state from it.

        Raises:
            EOFError: the main process has closed the connection.
        """
        message = self._connection.recv()
        if isinstance(message, Training):
            self._training = message.lines
        else:
            self._connection.send(self.play(message))

    def play(self, start: Start) -> Episode | None:
        """Play an episode in real time, and return it; None: the user skips to the next one.

        Pictures are left out where drawing them takes too long.

        Raises:
            WindowClosedError: the user has closed the window.
        """
        while (shown := self._play(start)) == "again":
            pass
        return shown

    def _play(self, start: Start) -> Episode | Literal["again"] | None:
        caption = Caption(
            titles=(start.policy.title,),
            scores=("",),
            subject=f"{self._name}, start {start.number}",
            inset=self._map(start),
        )
        in_film, number = self._renderer.play(start.policy, start.seed), 0
        due = drawn = time.monotonic()
        while in_film.advance(self._renderer.every):
            now = time.monotonic()
            due = max(due + 1 / self._renderer.rate / self._window.speed, now - _LATEST)
            draw = partial(self._draw, in_film, caption, number, in_film.fitness)
            if now <= due or now > drawn + _SELDOM or self._window.is_paused:
                draw()
                drawn = time.monotonic()
            wish = self._wait(due - time.monotonic(), draw)
            if wish is not None:
                return "again" if wish == "again" else None
            number += 1
        episode = in_film.episode
        draw = partial(self._draw, in_film, caption, number - 1, episode.fitness, episode.ending)
        draw()
        return "again" if self._wait(_PAUSE, draw) == "again" else episode

    def _draw(
        self, in_film: EpisodeInFilm, caption: Caption, number: int, fitness: float | None, ending: str = ""
    ) -> None:
        window = self._window
        state = [f"{window.speed:g}x speed"] * (window.speed != 1) + ["paused"] * window.is_paused
        caption = replace(
            caption,
            subject=", ".join([caption.subject, *state]),
            legend=tuple(((), line) for line in (KEYS if window.shows_help else self._training)),
        )
        self._decimals = max(self._decimals, decimals([fitness]))
        score = score_text(fitness, self._decimals, ending)
        env, arrangement = self._renderer.free_camera, self._arrange()
        frame = arrangement.frame([in_film.frame(None if env is None else window.turned(env.camera()))])
        if caption.inset is not None:
            height, width = frame.shape[:2]
            times = _MAP * max(_SIZE[0] / width, _SIZE[1] / height)
            caption = replace(caption, inset=caption.inset.smaller(times))
        window.show(captioned(frame, replace(caption, scores=(score,)), number))

    def _arrange(self) -> Arrangement:
        """Fit pictures into the window; an environment that can draws them in that size."""
        size, (arrangement, picture) = self._window.size, self._own
        if size is not None:
            arrangement = alone(size, fits=True, apart=arrangement.apart)
        if picture is not None:
            env: Any = self._renderer.free_camera
            env.width, env.height = picture if size is None else arrangement.picture
        return arrangement

    def _wait(self, seconds: float, draw: Callable[[], None] = lambda: None) -> Wish | None:
        """Wait, and return what the user wants; ``draw`` draws this moment again, as it is seen then."""
        while True:
            while self._connection.poll():
                self.receive()  # no other episode is asked for before this one has ended
            wish = self._window.wait(seconds)
            if wish != "look":
                return wish
            draw()

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
        return inset(self._renderer, cameras, cameras, start.seed, (_MAP * _SIZE[0], _MAP * _SIZE[1]))


def _size_of(env: FreeCameraEnv | None) -> tuple[int, int] | None:
    """Width and height of an environment's pictures [pixels]; None: it has no such attributes, as a BulletEnv has."""
    width, height = getattr(env, "width", None), getattr(env, "height", None)
    return None if width is None or height is None else (width, height)
