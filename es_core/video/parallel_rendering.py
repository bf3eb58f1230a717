"""Parallel rendering: processes that share the frames of a film, or of which each plays one of its policies."""

import itertools
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from es_core.config.objects import pack_objects
from es_core.processes.process import Child, ChildDiedError, closing_at_the_end, end
from es_core.processes.watchdog import patience
from es_core.rollout.errors import RolloutError
from es_core.video.clips import ScoredClip
from es_core.video.layout import Frame, alone
from es_core.video.renderer import Clip, FrameError, Renderer, Scene, ScoredEpisode
from es_envs import Episode, import_path
from es_envs.episode import STEP_TIMEOUT


class DisagreementError(RuntimeError):
    """The episode that was played for a film is not the one that was scored."""


def summary(episode: Episode) -> str:
    """Return what distinguishes episodes, as text, in which NaN equals NaN."""
    fitnesses = ", ".join(f"{name} {value}" for name, value in episode.fitnesses.items())
    return f"fitness {episode.fitness} in {episode.length} steps (return {episode.total_reward!r}, {fitnesses})"


def difference(label: str, scored: Episode, filmed: str | None) -> str | None:
    """Message if the ``summary`` of the filmed episode (None: another length) is not the scored one's, or None."""
    then = summary(scored)
    if filmed == then:
        return None
    return (
        f"{label} is not deterministic: the episode with seed {scored.seed} had {then} when it was scored and "
        f"{filmed or 'another length'} when it was filmed"
    )


class RenderingProcesses:
    """Processes that draw a film: each is one frame ahead and waits until it is taken, so that memory does not grow.

    They share the frames of a clip, for which all play its episode. Or each plays one of the policies of a clip, since
    two environments in one process may disturb each other: by Bullet's default client, say, or a module's variables.

    Args:
        scene: the film's scene.
        number: number of processes.
        players: True if each plays one of a clip's policies.

    Attributes:
        disagreement: message if a policy that had a process played another episode than the scored one, or None.
    """

    def __init__(self, scene: Scene, number: int, *, players: bool = False) -> None:
        self._label, self._arrangement, self._players = scene.definition.label, scene.arrangement, players
        self._children: list[Child] = []
        self.disagreement: str | None = None
        if players:
            scene = replace(scene, arrangement=alone(scene.arrangement.picture, fits=False))
        try:
            objects = pack_objects(scene.definition, *scene.configs)
            for k in range(number):
                self._children.append(Child(f"{__name__}:draw", patience=patience(STEP_TIMEOUT)))
                self._send(k, (scene, objects, (0, 1) if players else (k, number)))
        except BaseException:
            self.close()
            raise

    def frames(self, clip: ScoredClip) -> Iterator[Frame]:
        """Frames of a clip, in order.

        Raises:
            DisagreementError: a process that draws a share of the frames played another episode than the scored one.
            FrameError: a frame could not be drawn.
            RolloutError: an episode failed, or a process died.
        """
        if not self._players:
            return self._frames_of(range(len(self._children)), clip.clip, clip.scored, clip.frames)
        alone = [replace(clip.clip, policies=(policy,)) for policy in clip.clip.policies]
        streams = [self._frames_of([k], alone[k], [one]) for k, one in enumerate(clip.scored)]
        return self._side_by_side([self._noting_disagreement(stream) for stream in streams], clip.frames)

    def _frames_of(
        self, children: Sequence[int], clip: Clip, scored: Sequence[ScoredEpisode], most: int | None = None
    ) -> Iterator[Frame]:
        """The frames that these processes draw in turn, until their episode has ended, or at most so many."""
        for k in children:
            self._send(k, clip)
        turns = itertools.cycle(children)
        for k in itertools.islice(turns, most):
            message = self._receive(k)
            if isinstance(message, list):
                break
            yield message
        else:
            message = self._receive(next(turns))
        last = [message, *(self._receive(k) for k in itertools.islice(turns, len(children) - 1))]
        for message in last:
            # Another frame: the episode is longer than in the process before. What is drawn from poses is not played.
            for one, played in zip(scored, message if isinstance(message, list) else [None], strict=False):
                if found := difference(self._label, one.episode, played):
                    raise DisagreementError(found)

    def _noting_disagreement(self, frames: Iterator[Frame]) -> Iterator[Frame]:
        try:
            yield from frames
        except DisagreementError as error:
            self.disagreement = self.disagreement or str(error)

    def _side_by_side(self, streams: Sequence[Iterator[Frame]], count: int) -> Iterator[Frame]:
        """So many frames of all policies together, of which the last picture stays; the rest is not shown."""
        pictures: list[Frame] = []
        for number, new in enumerate(itertools.zip_longest(*streams)):
            pictures = [old if each is None else each for each, old in itertools.zip_longest(new, pictures)]
            if number < count:
                yield self._arrangement.frame(pictures)

    def _send(self, k: int, message: object) -> None:
        with self._deaths_named():
            self._children[k].send(message)

    def _receive(self, k: int) -> Any:
        """Receive the next frame, or the episodes' summaries after a clip's last frame."""
        with self._deaths_named():
            message = self._children[k].receive()
        if isinstance(message, Exception):
            raise message
        return message

    @contextmanager
    def _deaths_named(self) -> Iterator[None]:
        """Name the environment if a process dies."""
        try:
            yield
        except ChildDiedError as error:
            raise RolloutError(f"{self._label}: drawing frames failed: {error}") from None

    def close(self) -> None:
        """End the processes. May be called twice."""
        end(self._children)


def draw(connection: Any) -> None:
    """Run a process that draws: for each clip that it receives, send its frames, then its episodes' summaries."""
    scene, objects, share = connection.recv()
    import_path.receive(objects)
    try:
        renderer = Renderer(scene)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        problem = f"a process that draws frames could not start: {type(error).__name__}: {error}"
        connection.send(_with_traceback(RolloutError(f"{scene.definition.label}: {problem}")))
        return
    with closing_at_the_end(renderer):
        try:
            while True:
                frames = renderer.frames(connection.recv(), share)
                while True:
                    try:
                        connection.send(next(frames))
                    except StopIteration as stop:
                        connection.send([summary(episode) for episode in stop.value])
                        break
        except (FrameError, RolloutError) as error:
            connection.send(_with_traceback(error))


def _with_traceback(error: Exception) -> Exception:
    """``error`` with the current traceback as a note, since a traceback itself cannot be pickled."""
    error.add_note(f"The traceback of the process that draws frames:\n{traceback.format_exc()}")
    return error
