"""Drawing: who plays in a shot of a film, and its frames."""

import math
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.policies.normalization import Statistics
from es_core.rollout.errors import RolloutError
from es_core.rollout.loop import Rollout
from es_core.video.layout import Frame, arranged, even
from es_envs import EnvDefinition, Episode
from es_envs.bullet.camera import Camera, Stage
from es_envs.definition import KeywordError

_USUAL_RATE = 30.0  # steps a second of an environment that does not say


class FrameError(ValueError):
    """Drawing failed, not the episode."""


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
        self._rollouts = [self._make_rollout()]
        steps_a_second = float(self.rollout.env.metadata.get("render_fps") or _USUAL_RATE)
        steps_a_second *= setting.speed / setting.config.preprocessing.get("skip", 1)
        self.every = max(1, math.ceil(steps_a_second / setting.fps - 1e-9))
        self.rate = steps_a_second / self.every

    @property
    def rollout(self) -> Rollout:
        """The first environment."""
        return self._rollouts[0]

    @property
    def stage(self) -> Stage | None:
        """The environment, if its pictures can be taken from anywhere."""
        env = self.rollout.env.unwrapped
        return env if isinstance(env, Stage) else None

    def _make_rollout(self) -> Rollout:
        definition, config, (width, height) = self._setting.definition, self._setting.config, self._setting.size
        try:
            rollout = Rollout(definition, config, render_mode="rgb_array", width=width, height=height)
        except KeywordError:  # it takes no width or height: its frames have a size of their own
            rollout = Rollout(definition, config, render_mode="rgb_array")
        modes = rollout.env.metadata.get("render_modes", [])
        if "rgb_array" not in modes:
            rollout.close()
            raise ValueError(f"{definition.label} cannot be filmed: 'rgb_array' is not among its render modes {modes}")
        return rollout

    def score(self, player: Player, seed: int, *, cameras: bool = False, poses: bool = False) -> Take:
        """Play an episode, unseen.

        Args:
            player: who plays.
            seed: of the episode.
            cameras: of a ``Stage``: note where its camera stands.
            poses: of a ``Stage``: note what moves.

        Raises:
            RolloutError: it failed.
        """
        stood: list[Camera] = []
        moved: list[NDArray[np.float64]] = []
        stage, performance = self.stage, _Performance(self.rollout, player, seed, self._setting)
        while performance.advance(self.every):
            if stage is not None and cameras:
                stood.append(stage.camera())
            if stage is not None and poses:
                moved.append(stage.pose())
        return Take(episode=performance.episode, cameras=tuple(stood), poses=np.array(moved) if moved else None)

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
            self._rollouts.append(self._make_rollout())
        performances = [
            _Performance(rollout, player, shot.seed, self._setting)
            for rollout, player in zip(self._rollouts, shot.players, strict=False)
        ]
        number, (first, stride) = 0, share
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
            seen = [(cameras[-1], poses)]
            if self._setting.layout != "ghosts":
                seen = [(camera, [pose]) for camera, pose in zip(cameras, poses, strict=True)]
            try:
                frames = [even(stage.picture(*each)) for each in seen]
            except Exception as error:
                where = f"{self._setting.definition.label}, episode seed {shot.seed}, frame {number}"
                raise FrameError(f"{where}: picture() failed: {type(error).__name__}: {error}") from error
            yield frames[0] if len(frames) == 1 else arranged(frames, self._setting.layout, size)

    def close(self) -> None:
        """Close the environments."""
        for rollout in self._rollouts:
            rollout.close()


@dataclass
class _Performance:
    """One player's episode, to be played bit by bit."""

    rollout: Rollout
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
            self.rollout.use(self.player.parameters, self.player.statistics)
            self._played = self.rollout.steps(self.seed)
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
        env = self.rollout.env
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
