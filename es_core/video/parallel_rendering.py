"""Parallel rendering: processes that share the frames of a film, or of which each plays one of its policies."""

import itertools
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from es_core.config.objects import packed
from es_core.pools.process import Child, ChildDiedError, closing_at_the_end, end
from es_core.pools.watchdog import patience
from es_core.rollout.errors import RolloutError
from es_core.video.layout import Arrangement, Frame
from es_core.video.renderer import Clip, FilmOptions, FrameError, Renderer, ScoredEpisode
from es_envs import EnvDefinition, Episode, import_path
from es_envs.episode import STEP_TIMEOUT


class DisagreementError(RuntimeError):
    """The episode that was played for a film is not the one that was scored."""


@dataclass(frozen=True)
class Measured:
    """Numbers that distinguish episodes; the total reward is text, in which NaN equals NaN."""

    fitnesses: dict[str, float | None]
    fitness: float
    length: int
    total_reward: str

    @classmethod
    def of(cls, episode: Episode) -> "Measured":
        """Return the numbers of ``episode``."""
        return cls(dict(episode.fitnesses), episode.fitness, episode.length, repr(episode.total_reward))

    def __str__(self) -> str:
        return f"fitness {self.fitness} in {self.length} steps"


def difference(definition: EnvDefinition, scored: Episode, filmed: Measured | None) -> str | None:
    """Message if the filmed episode (None: another number of frames) differs from the scored one, or None."""
    then = Measured.of(scored)
    if filmed == then:
        return None
    return (
        f"{definition.label} is not deterministic: the episode with seed {scored.seed} had {then} when it was scored "
        f"and {filmed or 'another length'} when it was filmed"
    )


class RenderingProcesses:
    """Processes that draw a film: each is one frame ahead and waits until it is taken, so that memory does not grow.

    They share the frames of a clip, for which all play its episode. Or each plays one of the policies of a clip, since
    two environments in one process may disturb each other: by Bullet's default client, say, or a module's variables.

    Args:
        options: the film's options.
        number: number of processes.
        players: True if each plays one of a clip's policies.

    Attributes:
        disagreement: message if a policy that had a process played another episode than the scored one, or None.
    """

    def __init__(self, options: FilmOptions, number: int, *, players: bool = False) -> None:
        self._definition, self._arrangement, self._players = options.definition, options.arrangement, players
        self._children: list[Child] = []
        self.disagreement: str | None = None
        if players:
            alone = Arrangement(layout="alone", size=options.arrangement.picture, picture=options.arrangement.picture,
                                fits=False)  # fmt: skip
            options = replace(options, arrangement=alone)
        try:
            objects = packed(options.definition, *options.configs)
            for k in range(number):
                self._children.append(Child(f"{__name__}:draw", patience=patience(STEP_TIMEOUT)))
                self._send(k, (options, objects, (0, 1) if players else (k, number)))
        except BaseException:
            self.close()
            raise

    def frames(self, clip: Clip, scored: Sequence[ScoredEpisode], count: int) -> Iterator[Frame]:
        """Frames of a clip, in order.

        Args:
            clip: the clip.
            scored: its policies' episodes, as they were scored.
            count: number of frames.

        Raises:
            DisagreementError: a process that draws a share of the frames played another episode than the scored one.
            FrameError: a frame could not be drawn.
            RolloutError: an episode failed, or a process died.
        """
        if self._players:
            yield from self._frames_of_players(clip, scored, count)
            return
        for k in range(len(self._children)):
            self._send(k, clip)
        for number in range(count):
            message = self._receive(number % len(self._children))
            if isinstance(message, list):  # not a frame: its episodes are shorter
                self._compare(scored, message)
                raise DisagreementError(difference(self._definition, scored[0].episode, None))
            yield message
        for k in range(len(self._children)):
            message = self._receive(k)
            self._compare(scored, message if isinstance(message, list) else [None] * len(scored))

    def _frames_of_players(self, clip: Clip, scored: Sequence[ScoredEpisode], count: int) -> Iterator[Frame]:
        for k, policy in enumerate(clip.policies):
            self._send(k, replace(clip, policies=(policy,)))
        pictures: dict[int, Frame] = {}
        playing = set(range(len(clip.policies)))
        for number in itertools.count():
            for k in sorted(playing):
                message = self._receive(k)
                if not isinstance(message, list):
                    pictures[k] = message
                    continue
                playing.remove(k)  # its last picture stays
                said = difference(self._definition, scored[k].episode, message[0])
                self.disagreement = self.disagreement or said
            if number < count:
                yield self._arrangement.frame([picture for _, picture in sorted(pictures.items())])
            elif not playing:
                return

    def _compare(self, scored: Sequence[ScoredEpisode], filmed: Sequence[Measured | None]) -> None:
        for one, measured in zip(scored, filmed, strict=False):  # frames drawn from poses are not played again
            found = difference(self._definition, one.episode, measured)
            if found is not None:
                raise DisagreementError(found)

    def _send(self, k: int, message: object) -> None:
        try:
            self._children[k].send(message)
        except ChildDiedError as error:
            raise self._death(error) from None

    def _receive(self, k: int) -> Any:
        """Receive the next frame, or the episodes' numbers after a clip's last frame."""
        try:
            message = self._children[k].receive()
        except ChildDiedError as error:
            raise self._death(error) from None
        if isinstance(message, Exception):
            raise message
        return message

    def _death(self, error: ChildDiedError) -> RolloutError:
        return RolloutError(f"{self._definition.label}: drawing frames failed: {error}")

    def close(self) -> None:
        """End the processes. May be called twice."""
        end(self._children)


def draw(connection: Any) -> None:
    """Run a process that draws: for each clip that it receives, send its frames, then its episodes' numbers."""
    options, objects, share = connection.recv()
    label = options.definition.label
    import_path.receive(objects)
    try:
        renderer = Renderer(options)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        failed = RolloutError(f"{label}: a process that draws frames could not start: {type(error).__name__}: {error}")
        connection.send(_with_traceback(failed))
        return
    with closing_at_the_end(renderer):
        try:
            while True:
                frames = renderer.frames(connection.recv(), share)
                while True:
                    try:
                        connection.send(next(frames))
                    except StopIteration as stop:
                        connection.send([Measured.of(episode) for episode in stop.value])
                        break
        except (FrameError, RolloutError) as error:
            connection.send(_with_traceback(error))


def _with_traceback(error: Exception) -> Exception:
    """``error`` with the current traceback as a note, since a traceback itself cannot be pickled."""
    error.add_note(f"The traceback of the process that draws frames:\n{traceback.format_exc()}")
    return error
