"""Drawing: the frames of episodes, in this process or shared out among several that play the same episodes."""

import math
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_core.config import TrainConfig
from es_core.normalizer import Statistics
from es_core.pools.process import Child, ChildDiedError, end
from es_core.rollout import RolloutError, Rollouts
from es_envs import EnvDefinition, Episode

Frame = NDArray[np.uint8]


class FrameError(ValueError):
    """Drawing failed, not the episode."""


class DisagreementError(RuntimeError):
    """What was played to be filmed is not the episode that was scored; the message says it all."""


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A policy in its environment, to be drawn.

    Attributes:
        definition: of the environment.
        config: of the policy's run.
        parameters: of the policy, ``(d,)``.
        statistics: by which its observations or hidden layers are normalised, or None.
        size: width and height of a frame [pixels], where the environment lets one choose.
    """

    definition: EnvDefinition
    config: TrainConfig
    parameters: NDArray[np.float32]
    statistics: Statistics | None
    size: tuple[int, int]

    def rollouts(self) -> Rollouts:
        """The environment, drawing frames of the size asked for if it lets one choose; the policy is not yet in use.

        Raises:
            ValueError: the environment cannot draw frames.
        """
        definition, (width, height) = self.definition, self.size
        try:
            rollouts = Rollouts(definition, self.config, render_mode="rgb_array", width=width, height=height)
        except TypeError:  # it takes no width or height: its frames have a size of their own
            rollouts = Rollouts(definition, self.config, render_mode="rgb_array")
        modes = rollouts.env.metadata.get("render_modes", [])
        if "rgb_array" not in modes:
            rollouts.close()
            raise ValueError(f"{definition.label} cannot be filmed: 'rgb_array' is not among its render modes {modes}")
        return rollouts


def play(
    rollouts: Rollouts,
    seed: int,
    every: int = 1,
    show: Callable[[int, Frame], object] | None = None,
    *,
    share: tuple[int, int] = (0, 1),
) -> Episode:
    """Play an episode and show its frames: every ``every``-th step, and the last.

    Args:
        rollouts: made by ``Scene.rollouts``, with the policy in use.
        seed: of the episode.
        every: see above.
        show: is called with the step and the frame; what it raises is passed on. None: nothing is drawn.
        share: ``(k, n)``: show frames k, k + n, k + 2n, ... only.

    Raises:
        FrameError: a frame could not be drawn.
        RolloutError: the episode failed.
    """
    definition = rollouts.definition
    first, stride = share
    steps, passed_on = 0, False

    def draw() -> None:
        nonlocal passed_on
        if show is not None and ((steps - 1) // every - first) % stride == 0:
            passed_on = True
            show(steps, _frame(rollouts, f"{definition.label}, episode seed {seed}, step {steps}"))
            passed_on = False

    def observe(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps % every == 0:
            draw()

    try:
        episode = rollouts.episode(seed, observers=[observe])
    except Exception as error:
        if passed_on:
            raise
        raise RolloutError(
            f"{definition.label}: the episode with seed {seed} failed at step {steps}: {type(error).__name__}: {error}"
        ) from error
    if steps % every:
        draw()
    return episode


def _frame(rollouts: Rollouts, where: str) -> Frame:
    try:
        frame = np.asarray(rollouts.env.render())
    except Exception as error:
        raise FrameError(f"{where}: render() failed: {type(error).__name__}: {error}") from error
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or min(frame.shape[:2]) < 2:
        raise FrameError(
            f"{where}: render() must return uint8 pixels (height, width, 3), got {frame.dtype} {frame.shape}"
        )
    height, width = frame.shape[:2]
    # H.264 with yuv420p has even sizes only; a frame is cut by one pixel rather than rescaled.
    return np.ascontiguousarray(frame[: height - height % 2, : width - width % 2])


def difference(definition: EnvDefinition, scored: Episode, filmed: "Measured | None") -> str | None:
    """What to say if what was filmed (None: another number of frames) is not what was scored."""
    then = Measured.of(scored)
    if filmed == then:
        return None
    return (
        f"{definition.label} is not deterministic: the episode with seed {scored.seed} had {then} when it was scored "
        f"and {filmed or 'another length'} when it was filmed"
    )


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


class Artists:
    """Processes that all play the same episodes, each drawing its share of every episode's frames.

    An artist draws one frame ahead and then waits until it is taken, so that memory does not grow with the film.

    Args:
        scene: what is to be drawn.
        episodes: as they were scored, in the order of the film.
        every: see ``play``.
        number: of processes.
    """

    def __init__(self, scene: Scene, episodes: Sequence[Episode], every: int, number: int) -> None:
        self._definition, self._every = scene.definition, every
        self._children: list[Child] = []
        try:
            for k in range(number):
                self._children.append(Child("es_core.drawing:draw"))
                try:
                    self._children[k].send((scene, [e.seed for e in episodes], every, (k, number)))
                except ChildDiedError as error:
                    raise self._death(error) from None
        except BaseException:
            self.close()
            raise

    def frames(self, scored: Episode) -> Iterator[tuple[int, Frame]]:
        """Steps and frames of the next episode, in order.

        Raises:
            DisagreementError: an artist played another episode than ``scored``.
            FrameError: a frame could not be drawn.
            RolloutError: the episode failed, or a process died.
        """
        for number in range(math.ceil(scored.length / self._every)):
            message = self._receive(number % len(self._children))
            if isinstance(message, Measured):  # and no frame: its episode is shorter
                raise DisagreementError(difference(self._definition, scored, message))
            yield message
        for k in range(len(self._children)):
            message = self._receive(k)
            found = difference(self._definition, scored, message if isinstance(message, Measured) else None)
            if found is not None:
                raise DisagreementError(found)

    def _receive(self, k: int) -> Any:
        """The next frame, or what was measured after the last one of an episode."""
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
    """What an artist runs: send the frames of each episode, then what was measured."""
    scene, seeds, every, share = connection.recv()
    label = scene.definition.label
    try:
        rollouts = scene.rollouts()
    except (Exception, SystemExit) as error:  # noqa: BLE001  (the main process raises it)
        failed = RolloutError(f"{label}: a process that draws frames could not start: {type(error).__name__}: {error}")
        connection.send(_with_traceback(failed))
        return
    try:
        rollouts.use(scene.parameters, scene.statistics)
        for seed in seeds:
            episode = play(rollouts, seed, every, lambda *shown: connection.send(shown), share=share)
            connection.send(Measured.of(episode))
    except (FrameError, RolloutError) as error:
        connection.send(_with_traceback(error))
    finally:
        rollouts.close()


def _with_traceback(error: Exception) -> Exception:
    """``error`` with the present traceback as a note, since a traceback itself cannot travel."""
    error.add_note(f"The traceback of the process that draws frames:\n{traceback.format_exc()}")
    return error
