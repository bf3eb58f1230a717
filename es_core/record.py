"""Record: an MP4 of an evolved policy, in real time, of the very episodes that ``evaluate`` scores."""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from rich.progress import Progress

from es_core.checkpoint import Checkpoint
from es_core.config import require_positive
from es_core.display import film_progress
from es_core.evaluate import Source, find_policy, require_same_spaces
from es_core.rollout import RolloutError, Rollouts
from es_core.seeding import Purpose, episode_seeds
from es_envs import EnvDefinition, Episode

Frame = NDArray[np.uint8]

_MOST_FRAMES = 30.0  # a second: what films need; simulations run at 50 to 500
# The index comes first, so that a browser plays before it has the whole file; two threads leave cores for others.
_ENCODING = ["-movflags", "+faststart", "-threads", "2", "-preset", "veryfast", "-crf", "20"]


def record(
    source: Source,
    path: str | os.PathLike[str],
    *,
    episodes: int = 1,
    seed: int = 0,
    generation: int | None = None,
    width: int = 640,
    height: int = 480,
    fps: float | None = None,
    trust: bool = False,
    progress: bool = False,
) -> list[Episode]:
    """Film a policy.

    Frames go to the encoder as they are drawn; memory does not grow with the film.

    Args:
        source: as for ``evaluate``.
        path: of the film, ending in .mp4; written under a temporary name and then renamed.
        episodes: how many, one after the other.
        seed: which starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        generation: of a Run: the checkpoint of this generation instead.
        width: of a frame [pixels], where the environment lets one choose; its own size otherwise.
        height: likewise.
        fps: frames a second at most; None: 30. Every k-th step is drawn, so that the film runs in real time.
        trust: the source may name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Returns:
        The episodes, as they were filmed.

    Raises:
        ValueError: an unknown ending, an impossible size, or an environment that cannot render.
        FileNotFoundError: no such run or checkpoint, or no such folder for the film.
        RolloutError: an episode failed.
    """
    path = Path(path)
    if path.suffix.lower() != ".mp4":
        raise ValueError(f"a film's name must end in .mp4, got {path.name!r}")
    for name, value in (("episodes", episodes), ("width", width), ("height", height)):
        require_positive(name, value)
    if fps is not None and not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be positive, got {fps!r}")
    checkpoint, definition = find_policy(source, generation=generation, trust=trust)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the film")
    rollouts = _stage(definition, checkpoint, width, height)
    try:
        require_same_spaces(checkpoint, rollouts.env)
        rollouts.use(checkpoint.mean, checkpoint.statistics)
        rate = float(rollouts.env.metadata.get("render_fps") or _MOST_FRAMES)
        every = max(1, math.ceil(rate / (fps or _MOST_FRAMES) - 1e-9))
        with _film(path, rate / every) as write, film_progress(shown=progress) as frames:
            return [
                _film_episode(rollouts, checkpoint, episode_seed, every, write, frames)
                for episode_seed in episode_seeds(seed, Purpose.TEST, episodes)
            ]
    finally:
        rollouts.close()


def _stage(definition: EnvDefinition, checkpoint: Checkpoint, width: int, height: int) -> Rollouts:
    """The environment, drawing frames of the size asked for if it lets one choose."""
    try:
        rollouts = Rollouts(definition, checkpoint.config, render_mode="rgb_array", width=width, height=height)
    except TypeError:  # it takes no width or height: its frames have a size of their own
        rollouts = Rollouts(definition, checkpoint.config, render_mode="rgb_array")
    modes = rollouts.env.metadata.get("render_modes", [])
    if "rgb_array" not in modes:
        rollouts.close()
        raise ValueError(f"{definition.label} cannot be filmed: 'rgb_array' is not among its render modes {modes}")
    return rollouts


def _film_episode(
    rollouts: Rollouts, checkpoint: Checkpoint, seed: int, every: int, write: Callable[[Frame], None], frames: Progress
) -> Episode:
    """Play an episode twice: unseen, to know its fitness for the caption, then drawing every ``every``-th step."""
    definition = rollouts.definition
    steps = 0

    def draw() -> None:
        frame = _frame(rollouts, f"{definition.label}, episode seed {seed}, step {steps}")
        write(_captioned(frame, f"{caption}   step {steps}   episode fitness {preview.fitness:.2f}"))
        frames.advance(task)

    def observe(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps % every == 0:
            draw()

    caption = f"{definition.id}   generation {checkpoint.generation}"
    try:
        preview = rollouts.episode(seed)
        task = frames.add_task(f"filming, fitness {preview.fitness:.2f}", total=math.ceil(preview.length / every))
        episode = rollouts.episode(seed, observers=[observe])
    except _FilmError:
        raise
    except Exception as error:
        raise RolloutError(
            f"{definition.label}: the episode with seed {seed} failed at step {steps}: {type(error).__name__}: {error}"
        ) from error
    if steps % every:
        draw()
    if episode.fitnesses != preview.fitnesses:
        message = (
            f"{definition.label} is not deterministic: the episode with seed {seed} had fitness {preview.fitness} when "
            f"it was scored and {episode.fitness} when it was filmed"
        )
        warnings.warn(message, RuntimeWarning, stacklevel=3)
    return episode


class _FilmError(ValueError):
    """Drawing or encoding failed, not the episode."""


def _frame(rollouts: Rollouts, where: str) -> Frame:
    try:
        frame = np.asarray(rollouts.env.render())
    except Exception as error:
        raise _FilmError(f"{where}: render() failed: {type(error).__name__}: {error}") from error
    if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] != 3 or min(frame.shape[:2]) < 2:
        raise _FilmError(
            f"{where}: render() must return uint8 pixels (height, width, 3), got {frame.dtype} {frame.shape}"
        )
    height, width = frame.shape[:2]
    # H.264 with yuv420p has even sizes only; a frame is cut by one pixel rather than rescaled.
    return np.ascontiguousarray(frame[: height - height % 2, : width - width % 2])


def _captioned(frame: Frame, text: str) -> Frame:
    """``frame`` with a dark strip along its lower edge that carries ``text``."""
    size = max(9, frame.shape[0] // 30)
    strip = frame[-2 * size :]
    image = Image.fromarray(strip // 3)
    ImageDraw.Draw(image).text((size // 2, size // 3), text, fill=(255, 255, 255), font=_font(size))
    captioned = frame.copy()
    captioned[-len(strip) :] = np.asarray(image)
    return captioned


@cache
def _font(size: int) -> Any:
    return ImageFont.load_default(size)


@contextmanager
def _film(path: Path, rate: float) -> Iterator[Callable[[Frame], None]]:
    """A function that adds a frame; the film gets its name when it is complete, and only then."""
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    # Errors of the encoder are found below, by counting frames; what it says of them is noise.
    options: Any = {
        "ffmpeg_log_level": "quiet",
        "codec": "libx264",
        "pixelformat": "yuv420p",
        "macro_block_size": 2,
        "output_params": _ENCODING,
    }
    frames = 0

    def write(frame: Frame) -> None:
        nonlocal frames
        writer.append_data(frame)
        frames += 1

    try:
        writer: Any = imageio.get_writer(partial, format="FFMPEG", fps=rate, **options)
        with writer:
            yield write
        # The encoder reports its errors on stderr alone, and leaves an empty file.
        if not partial.exists() or imageio_ffmpeg.count_frames_and_secs(str(partial))[0] != frames:
            raise OSError(f"the encoder did not write all {frames} frames of {path}: is the disk full?")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
