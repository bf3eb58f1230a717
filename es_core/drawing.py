"""Drawing: the frames of a shot, in this process or shared out among several that play the same episodes."""

import math
import traceback
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.layout import Frame, arranged, even
from es_core.machine import one_blas_thread
from es_core.normalizer import Statistics
from es_core.pools.process import Child, ChildDiedError, end
from es_core.rollout import RolloutError, Rollouts
from es_envs import EnvDefinition, Episode
from es_envs.painting import Camera, Stage

_USUAL_RATE = 30.0  # steps a second of an environment that does not say


class FrameError(ValueError):
    """Drawing failed, not the episode."""


class DisagreementError(RuntimeError):
    """What was played to be filmed is not the episode that was scored; the message says it all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Player:
    """A policy that plays in a film.

    Attributes:
        generation: it is of.
        candidate: its index in that generation's population; None: the centre.
        parameters: ``(d,)``.
        statistics: by which its observations or hidden layers are normalised, or None.
    """

    generation: int
    candidate: int | None
    parameters: NDArray[np.float32]
    statistics: Statistics | None

    @property
    def title(self) -> str:
        """For a caption."""
        return f"generation {self.generation}" + ("" if self.candidate is None else f", candidate {self.candidate}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Take:
    """An episode as it was scored.

    Attributes:
        episode: the episode.
        cameras: where the environment's own camera stood at each frame; empty where it cannot be moved.
        poses: what moves, at each frame ``(frames, p)``, where that was asked for.
    """

    episode: Episode
    cameras: tuple[Camera, ...] = ()
    poses: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Shot:
    """What is seen at a time: one player, or several who play the same start together.

    Attributes:
        players: who.
        seed: of the episode.
        cameras: for each player, where the camera stands at each frame; empty: where the environment has it.
        poses: for each player, what moves at each frame; empty: the episodes are played again to be drawn.
    """

    players: tuple[Player, ...]
    seed: int
    cameras: tuple[tuple[Camera, ...], ...] = ()
    poses: tuple[NDArray[np.float64], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where and how a film is shot.

    Attributes:
        definition: of the environment.
        config: of the run.
        size: width and height of a player's picture [pixels], where the environment lets one choose.
        layout: how several players are arranged: "grid" or "ghosts"; "alone": there is one.
        speed: how many times faster than in reality time passes.
        fps: frames a second at most.
    """

    definition: EnvDefinition
    config: TrainConfig
    size: tuple[int, int]
    layout: str
    speed: float
    fps: float


@dataclass(frozen=True)
class Measured:
    """What tells one episode from another; the total reward as text, in which NaN equals NaN."""

    fitnesses: dict[str, float | None]
    fitness: float
    length: int
    total_reward: str

    @classmethod
    def of(cls, episode: Episode) -> "Measured":
        """What was measured in ``episode``."""
        return cls(dict(episode.fitnesses), episode.fitness, episode.length, repr(episode.total_reward))

    def __str__(self) -> str:
        return f"fitness {self.fitness} in {self.length} steps"


class Studio:
    """Environments that draw, as many as players are played at a time.

    Args:
        setting: see there.

    Attributes:
        rate: frames a second.
        every: steps from frame to frame; the last step of an episode has a frame, too.

    Raises:
        ValueError: the environment cannot draw frames.
    """

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._rollouts = [self._make_rollouts()]
        steps_a_second = float(self.rollouts.env.metadata.get("render_fps") or _USUAL_RATE)
        steps_a_second *= setting.speed / setting.config.preprocessing.get("skip", 1)
        self.every = max(1, math.ceil(steps_a_second / setting.fps - 1e-9))
        self.rate = steps_a_second / self.every

    @property
    def rollouts(self) -> Rollouts:
        """The first environment."""
        return self._rollouts[0]

    @property
    def stage(self) -> Stage | None:
        """The environment, if its pictures can be taken from anywhere."""
        env = self.rollouts.env.unwrapped
        return env if isinstance(env, Stage) else None

    def _make_rollouts(self) -> Rollouts:
        definition, config, (width, height) = self._setting.definition, self._setting.config, self._setting.size
        try:
            rollouts = Rollouts(definition, config, render_mode="rgb_array", width=width, height=height)
        except TypeError:  # it takes no width or height: its frames have a size of their own
            rollouts = Rollouts(definition, config, render_mode="rgb_array")
        modes = rollouts.env.metadata.get("render_modes", [])
        if "rgb_array" not in modes:
            rollouts.close()
            raise ValueError(f"{definition.label} cannot be filmed: 'rgb_array' is not among its render modes {modes}")
        return rollouts

    def score(self, player: Player, seed: int, *, poses: bool = False) -> Take:
        """Play an episode, unseen.

        Args:
            player: who plays.
            seed: of the episode.
            poses: note what moves, of a ``Stage``.

        Raises:
            RolloutError: it failed.
        """
        stage = self.stage
        cameras: list[Camera] = []
        moved: list[NDArray[np.float64]] = []
        performance = _Performance(self.rollouts, player, seed, self._setting)
        with one_blas_thread():
            while performance.advance(self.every):
                if stage is not None:
                    cameras.append(stage.camera())
                    if poses:
                        moved.append(stage.pose())
        return Take(
            episode=performance.episode, cameras=tuple(cameras), poses=np.array(moved) if stage and poses else None
        )

    def frames(self, shot: Shot, share: tuple[int, int] = (0, 1)) -> Generator[Frame, None, list[Episode]]:
        """Frames of a shot, in order; returns the episodes, unless they are drawn from poses.

        Args:
            shot: what is seen.
            share: ``(k, n)``: draw frames k, k + n, k + 2n, ... only.

        Raises:
            FrameError: a frame could not be drawn.
            RolloutError: an episode failed.
        """
        if shot.poses:
            yield from self._posed(shot, share)
            return []
        return (yield from self._played(shot, share))

    def _played(self, shot: Shot, share: tuple[int, int]) -> Generator[Frame, None, list[Episode]]:
        while len(self._rollouts) < len(shot.players):
            self._rollouts.append(self._make_rollouts())
        performances = [
            _Performance(rollouts, player, shot.seed, self._setting)
            for rollouts, player in zip(self._rollouts, shot.players, strict=False)
        ]
        number, (first, stride) = 0, share
        with one_blas_thread():
            while sum(performance.advance(self.every) for performance in performances):  # each of them, to the last
                if number % stride == first:
                    cameras = [_at(of_player, number) for of_player in shot.cameras] or [None] * len(performances)
                    frames = [each.frame(camera) for each, camera in zip(performances, cameras, strict=True)]
                    yield arranged(frames, self._setting.layout, self._setting.size)
                number += 1
        return [performance.episode for performance in performances]

    def _posed(self, shot: Shot, share: tuple[int, int]) -> Iterator[Frame]:
        stage, size = self.stage, self._setting.size
        if stage is None:
            raise TypeError(f"{self._setting.definition.label} cannot be drawn from poses")
        stage.reset(seed=shot.seed)
        first, stride = share
        for number in range(first, max(map(len, shot.poses)), stride):
            poses = [_at(of_player, number) for of_player in shot.poses]
            cameras = [_at(of_player, number) for of_player in shot.cameras]
            if self._setting.layout == "ghosts":
                yield even(stage.picture(cameras[-1], poses))
            else:
                frames = [even(stage.picture(*seen)) for seen in zip(cameras, ([pose] for pose in poses), strict=True)]
                yield arranged(frames, self._setting.layout, size)

    def close(self) -> None:
        """Close the environments."""
        for rollouts in self._rollouts:
            rollouts.close()


@dataclass
class _Performance:
    """One player's episode, to be played bit by bit."""

    rollouts: Rollouts
    player: Player
    seed: int
    setting: Setting
    steps: int = 0
    _played: Generator[None, None, Episode] | None = None
    _episode: Episode | None = None
    _drawn: tuple[int, Camera | None, Frame] | None = None

    @property
    def episode(self) -> Episode:
        if self._episode is None:
            raise RuntimeError("the episode has not ended")
        return self._episode

    def advance(self, steps: int) -> bool:
        """Play as many steps, up to the episode's end; whether there were any."""
        label, before = self.setting.definition.label, self.steps
        if self._played is None:
            self.rollouts.use(self.player.parameters, self.player.statistics)
            self._played = self.rollouts.steps(self.seed)
        try:
            while self._episode is None and self.steps < before + steps:
                next(self._played)
                self.steps += 1
        except StopIteration as stop:
            self._episode = stop.value
        except Exception as error:
            raise RolloutError(
                f"{label}: the episode with seed {self.seed} failed at step {self.steps}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return self.steps > before

    def frame(self, camera: Camera | None) -> Frame:
        """A picture of the present state, which is the last one if the episode has ended."""
        if self._drawn is not None and self._drawn[:2] == (self.steps, camera):
            return self._drawn[2]
        env = self.rollouts.env
        where = f"{self.setting.definition.label}, episode seed {self.seed}, step {self.steps}"
        try:
            picture = env.render() if camera is None else env.unwrapped.picture(camera)  # type: ignore[attr-defined]
        except Exception as error:
            raise FrameError(f"{where}: render() failed: {type(error).__name__}: {error}") from error
        frame = np.asarray(picture)
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or min(frame.shape[:2]) < 2:
            raise FrameError(
                f"{where}: render() must return uint8 pixels (height, width, 3), got {frame.dtype} {frame.shape}"
            )
        self._drawn = self.steps, camera, even(frame)
        return self._drawn[2]


def _at(sequence: Any, number: int) -> Any:
    """What belongs to a frame: a player whose episode has ended stays as it was."""
    return sequence[min(number, len(sequence) - 1)]


def difference(definition: EnvDefinition, scored: Episode, filmed: Measured | None) -> str | None:
    """What to say if what was filmed (None: another number of frames) is not what was scored."""
    then = Measured.of(scored)
    if filmed == then:
        return None
    return (
        f"{definition.label} is not deterministic: the episode with seed {scored.seed} had {then} when it was scored "
        f"and {filmed or 'another length'} when it was filmed"
    )


class Artists:
    """Processes that each draw a share of every shot's frames, for which all play the same episodes.

    An artist draws one frame ahead and then waits until it is taken, so that memory does not grow with the film.

    Args:
        setting: see there.
        number: of processes.
    """

    def __init__(self, setting: Setting, number: int) -> None:
        self._definition = setting.definition
        self._children: list[Child] = []
        try:
            for k in range(number):
                self._children.append(Child("es_core.drawing:draw"))
                self._send(k, (setting, (k, number)))
        except BaseException:
            self.close()
            raise

    def frames(self, shot: Shot, takes: Sequence[Take], count: int) -> Iterator[Frame]:
        """Frames of a shot, in order.

        Args:
            shot: what is seen.
            takes: of its players, as they were scored.
            count: of the frames.

        Raises:
            DisagreementError: an artist played another episode than was scored.
            FrameError: a frame could not be drawn.
            RolloutError: an episode failed, or a process died.
        """
        for k in range(len(self._children)):
            self._send(k, shot)
        for number in range(count):
            message = self._receive(number % len(self._children))
            if isinstance(message, list):  # and no frame: its episodes are shorter
                self._compare(takes, message)
                raise DisagreementError(difference(self._definition, takes[0].episode, None))
            yield message
        for k in range(len(self._children)):
            message = self._receive(k)
            self._compare(takes, message if isinstance(message, list) else [None] * len(takes))

    def _compare(self, takes: Sequence[Take], filmed: Sequence[Measured | None]) -> None:
        for take, measured in zip(takes, filmed, strict=False):  # what is drawn from poses is not played again
            found = difference(self._definition, take.episode, measured)
            if found is not None:
                raise DisagreementError(found)

    def _send(self, k: int, message: object) -> None:
        try:
            self._children[k].send(message)
        except ChildDiedError as error:
            raise self._death(error) from None

    def _receive(self, k: int) -> Any:
        """The next frame, or what was measured after the last one of a shot."""
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
    """What an artist runs: for each shot that it is sent, send its frames, then what was measured."""
    setting, share = connection.recv()
    label = setting.definition.label
    try:
        studio = Studio(setting)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        failed = RolloutError(f"{label}: a process that draws frames could not start: {type(error).__name__}: {error}")
        connection.send(_with_traceback(failed))
        return
    try:
        while True:
            frames = studio.frames(connection.recv(), share)
            while True:
                try:
                    connection.send(next(frames))
                except StopIteration as stop:
                    connection.send([Measured.of(episode) for episode in stop.value])
                    break
    except (FrameError, RolloutError) as error:
        connection.send(_with_traceback(error))
    finally:
        studio.close()


def _with_traceback(error: Exception) -> Exception:
    """``error`` with the present traceback as a note, since a traceback itself cannot travel."""
    error.add_note(f"The traceback of the process that draws frames:\n{traceback.format_exc()}")
    return error
