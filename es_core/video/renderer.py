"""The renderer: plays policies in environments that draw, and returns the frames of a clip."""

import math
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import gymnasium
import numpy as np
from numpy.typing import NDArray

from es_core.config.train_config import TrainConfig
from es_core.rollout.errors import RolloutError
from es_core.rollout.rollout import Rollout
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.layout import Arrangement, Frame, alone, at_frame, even
from es_envs import EnvDefinition, Episode, interruption
from es_envs.bullet.camera import Camera, FreeCameraEnv
from es_envs.definition import KeywordError, PluginError

_STANDS_STILL = -1  # MuJoCo's number of the camera that nobody has chosen
_DEFAULT_RATE = 30.0  # steps per second of an environment that does not say


class FrameError(ValueError):
    """Drawing a frame failed, not the episode."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredEpisode:
    """An episode as it was scored, before it is filmed.

    Attributes:
        episode: the episode.
        fitness: the fitness so far at each frame, None where nothing can tell it; at the last one, the episode's.
        cameras: the environment's own camera at each frame; empty if it cannot be moved.
        poses: poses at each frame ``(frames, p)``, if requested.
    """

    episode: Episode
    fitness: tuple[float | None, ...]
    cameras: tuple[Camera, ...] = ()
    poses: NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Clip:
    """Part of a film: one policy, or several that play the same start together.

    Attributes:
        policies: the policies.
        seed: the episode's seed.
        cameras: for each policy, the camera at each frame; empty: the environment's own.
        poses: for each policy, the pose at each frame; empty: the episodes are played again to draw them.
    """

    policies: tuple[FilmedPolicy, ...]
    seed: int
    cameras: tuple[tuple[Camera, ...], ...] = ()
    poses: tuple[NDArray[np.float64], ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scene:
    """The environment of a whole film, and how its pictures are taken.

    Attributes:
        definition: the environment's definition.
        configs: the config of each source.
        arrangement: where the policies' pictures are, which have its size of a picture if the environment allows it.
        speed: how many times faster than in reality time passes.
        fps: maximum frames per second.
    """

    definition: EnvDefinition
    configs: tuple[TrainConfig, ...]
    arrangement: Arrangement
    speed: float
    fps: float

    @classmethod
    def alone(cls, definition: EnvDefinition, config: TrainConfig, *, size: tuple[int, int], fps: float) -> Self:
        """The scene of one policy, in real time; its ``size`` is width and height of the pictures [pixels]."""
        arrangement = alone(size, fits=False)
        return cls(definition=definition, configs=(config,), arrangement=arrangement, speed=1.0, fps=fps)


class Renderer:
    """Environments that draw, one for each source of policies.

    Args:
        scene: the film's scene.

    Attributes:
        scene: the same.
        rate: frames per second.
        every: steps from frame to frame; the last step of an episode has a frame, too.

    Raises:
        ValueError: the environment cannot draw frames.
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._rollouts: dict[int, Rollout] = {}  # by source
        rate = self.env.metadata.get("render_fps") or _DEFAULT_RATE
        if not isinstance(rate, Real) or not 0 < float(rate) < math.inf:
            raise ValueError(f"{scene.definition.label}: metadata['render_fps'] must be a number above 0, got {rate!r}")
        steps_a_second = float(rate) * scene.speed / scene.configs[0].preprocessing.get("skip", 1)
        self.every = max(1, math.ceil(steps_a_second / scene.fps - 1e-9))
        self.rate = steps_a_second / self.every

    @property
    def env(self) -> gymnasium.Env[Any, Any]:
        """The first source's environment."""
        return self.rollout().env

    @property
    def free_camera(self) -> FreeCameraEnv | None:
        """The environment, if its pictures can be taken from anywhere."""
        return _free(self.rollout())

    def rollout(self, source: int = 0) -> Rollout:
        """The environment in which the policies of a source play."""
        if source not in self._rollouts:
            self._close_others(source)
            self._rollouts[source] = self._make_rollout(self.scene.configs[source])
        return self._rollouts[source]

    def rearrange(self, arrangement: Arrangement) -> None:
        """Take other pictures of the same film; the environments are made again if these have another size."""
        if arrangement.picture != self.scene.arrangement.picture:
            self.close()
            self._rollouts.clear()
        self.scene = replace(self.scene, arrangement=arrangement)

    def _close_others(self, source: int) -> None:
        """Close the environments of other sources, which may disturb this one's; they are made again when they play."""
        for other, rollout in self._rollouts.items():
            if other != source and _free(rollout) is None:
                rollout.close()

    def _make_rollout(self, config: TrainConfig) -> Rollout:
        definition, (width, height) = self.scene.definition, self.scene.arrangement.picture
        rollout: Rollout | None = None
        if not {"width", "height"} & {*definition.kwargs, *config.env_kwargs}:
            with suppress(KeywordError, PluginError):
                rollout = Rollout(definition, config, render_mode="rgb_array", width=width, height=height)
        if rollout is None or not _is_drawn_in_any_size(rollout.env):  # its frames have a size of their own
            if rollout is not None:  # width and height are those of its world: a grid's, say
                rollout.close()
            rollout = Rollout(definition, config, render_mode="rgb_array")
        chosen = {"camera_id", "camera_name"} & {*definition.kwargs, *config.env_kwargs}
        if not chosen and "pixels" not in config.preprocessing:  # else the policy sees these pictures
            _follow(rollout.env)
        modes = rollout.env.metadata.get("render_modes", [])
        if "rgb_array" not in modes:
            rollout.close()
            raise ValueError(f"{definition.label} cannot be filmed: 'rgb_array' is not among its render modes {modes}")
        return rollout

    def score(self, policy: FilmedPolicy, seed: int, *, poses: bool = False) -> ScoredEpisode:
        """Play an episode without drawing it.

        Args:
            policy: the policy.
            seed: the episode's seed.
            poses: record the poses of a ``FreeCameraEnv``.

        Raises:
            RolloutError: the episode failed.
        """
        so_far: list[float | None] = []
        cameras: list[Camera] = []
        posed: list[NDArray[np.float64]] = []
        env, in_film = _free(self.rollout(policy.source)), self.play(policy, seed)
        while in_film.advance(self.every):
            so_far.append(in_film.fitness)
            if env is not None:
                cameras.append(env.camera())
                posed += [env.pose()] if poses else []
        return ScoredEpisode(
            episode=in_film.episode,
            fitness=(*so_far[:-1], in_film.episode.fitness),
            cameras=tuple(cameras),
            poses=np.array(posed) if posed else None,
        )

    def play(self, policy: FilmedPolicy, seed: int) -> "EpisodeInFilm":
        """Begin an episode of a policy, which continues when it is advanced."""
        self._close_others(policy.source)
        return EpisodeInFilm(self.rollout(policy.source), policy, seed, self.scene.definition.label)

    def frames(self, clip: Clip, share: tuple[int, int] = (0, 1)) -> Generator[Frame, None, list[Episode]]:
        """Yield the frames of a clip, in order; return the episode, unless the frames are drawn from poses.

        Args:
            clip: the clip; of one policy, unless it has poses.
            share: ``(k, n)``: draw frames k, k + n, k + 2n, ... only.

        Raises:
            FrameError: a frame could not be drawn.
            RolloutError: an episode failed.
        """
        if clip.poses:
            yield from self._drawn_from_poses(clip, share)
            return []
        (policy,), (first, stride) = clip.policies, share
        in_film, number, shape = self.play(policy, clip.seed), 0, None
        while in_film.advance(self.every):
            if number % stride == first:
                camera = at_frame(clip.cameras[0], number) if clip.cameras else None
                frame = self.scene.arrangement.frame([in_film.frame(camera)])
                if shape is not None and frame.shape != shape:
                    sizes = " to ".join(f"{width}x{height}" for height, width, _ in (shape, frame.shape))
                    where = self._where(clip, number)
                    raise FrameError(f"{where}: the pictures of render() have changed their size, from {sizes}")
                shape = frame.shape
                yield frame
            number += 1
        return [in_film.episode]

    def _drawn_from_poses(self, clip: Clip, share: tuple[int, int]) -> Iterator[Frame]:
        env, arrangement = self.free_camera, self.scene.arrangement
        if env is None:
            raise TypeError(f"{self.scene.definition.label} cannot be drawn from poses")
        env.reset(seed=clip.seed)
        for number in range(share[0], max(map(len, clip.poses)), share[1]):
            poses, cameras = ([at_frame(each, number) for each in column] for column in (clip.poses, clip.cameras))
            seen = [(camera, [pose]) for camera, pose in zip(cameras, poses, strict=True)]
            if arrangement.layout == "ghosts":
                seen = [(cameras[-1], poses)]
            try:
                frames = [even(env.picture(*each)) for each in seen]
            except Exception as error:
                where = self._where(clip, number)
                raise FrameError(f"{where}: picture() failed: {type(error).__name__}: {error}") from error
            yield arrangement.frame(frames)

    def _where(self, clip: Clip, number: int) -> str:
        return f"{self.scene.definition.label}, episode seed {clip.seed}, frame {number}"

    def close(self) -> None:
        """Close the environments."""
        for rollout in self._rollouts.values():
            rollout.close()


class EpisodeInFilm:
    """One policy's episode, played a few steps at a time.

    Args:
        rollout: the environment in which it plays.
        policy: the policy.
        seed: the episode's seed.
        label: the environment's name, for messages.
    """

    def __init__(self, rollout: Rollout, policy: FilmedPolicy, seed: int, label: str) -> None:
        rollout.use(policy.parameters, policy.statistics)
        self._rollout, self._steps, self._number = rollout, rollout.steps(seed), 0
        self._label, self._seed = label, seed
        self._so_far: Callable[[], Episode] | None = None
        self._episode: Episode | None = None

    @property
    def episode(self) -> Episode:
        """The whole episode.

        Raises:
            RuntimeError: it has not ended.
        """
        if self._episode is None:
            raise RuntimeError("the episode has not ended")
        return self._episode

    @property
    def fitness(self) -> float | None:
        """The fitness so far; None if nothing can tell it before the end."""
        if self._episode is not None:
            return self._episode.fitness
        return None if self._so_far is None else self._rollout.fitness_so_far(self._so_far())

    def advance(self, steps: int) -> bool:
        """Play so many steps, up to the episode's end; return True if there were any."""
        interruption.check()
        before = self._number
        try:
            while self._episode is None and self._number < before + steps:
                self._so_far = next(self._steps)
                self._number += 1
        except StopIteration as stop:
            self._episode = stop.value
        except Exception as error:
            raise RolloutError(
                f"{self._label}: the episode with seed {self._seed} failed at step {self._number}: "
                f"{type(error).__name__}: {error}"
            ) from error
        return self._number > before

    def frame(self, camera: Camera | None) -> Frame:
        """Draw the current state, which is the last one if the episode has ended."""
        env = self._rollout.env
        where = f"{self._label}, episode seed {self._seed}, step {self._number}"
        try:
            picture = env.render() if camera is None else env.unwrapped.picture(camera)  # type: ignore[attr-defined]
        except Exception as error:
            raise FrameError(f"{where}: render() failed: {type(error).__name__}: {error}") from error
        frame = np.asarray(picture)
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or min(frame.shape[:2]) < 2:
            raise FrameError(
                f"{where}: render() must return uint8 pixels (height, width, 3), got {frame.dtype} {frame.shape}"
            )
        return even(frame)


def _is_drawn_in_any_size(env: gymnasium.Env[Any, Any]) -> bool:
    """Return True if an environment's arguments width and height are those of its pictures, as in Bullet and MuJoCo."""
    return isinstance(env.unwrapped, FreeCameraEnv) or hasattr(env.unwrapped, "mujoco_renderer")


def _follow(env: gymnasium.Env[Any, Any]) -> None:
    """Let MuJoCo draw with the model's own camera that follows the robot: Gymnasium 1.4 takes one that stands still."""
    renderer = getattr(env.unwrapped, "mujoco_renderer", None)
    if getattr(renderer, "camera_id", None) == _STANDS_STILL:
        with suppress(AttributeError, KeyError):  # the model has no such camera
            renderer.camera_id = env.unwrapped.model.camera("track").id  # type: ignore[union-attr, attr-defined]


def _free(rollout: Rollout) -> FreeCameraEnv | None:
    env = rollout.env.unwrapped
    return env if isinstance(env, FreeCameraEnv) else None
