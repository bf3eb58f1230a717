"""Record: an MP4 of an evolved policy, in real time, of the very episodes that ``evaluate`` scores."""

import math
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import imageio_ffmpeg
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from es_core.checks import require_positive
from es_core.display import film_progress
from es_core.drawing import Artists, DisagreementError, Frame, Measured, Scene, difference, play
from es_core.evaluate import Source, find_policy, require_same_spaces
from es_core.machine import usable_cores
from es_core.seeding import Purpose, episode_seeds
from es_envs import Episode

_MOST_FRAMES = 30.0  # a second: what films need; simulations run at 50 to 500
_WORTH_A_PROCESS = 16  # frames: about as many could be drawn while a process starts
# The index comes first, so that a browser plays before it has the whole file; two threads leave cores for others.
_ENCODING = ["-movflags", "+faststart", "-threads", "2", "-preset", "veryfast", "-crf", "20"]


def record(
    source: Source,
    path: str | os.PathLike[str],
    *,
    episodes: int = 1,
    seed: int = 0,
    generation: int | None = None,
    candidate: int | None = None,
    width: int = 640,
    height: int = 480,
    fps: float | None = None,
    workers: int | None = None,
    trust: bool = False,
    progress: bool = False,
) -> list[Episode]:
    """Film a policy.

    Frames go to the encoder as they are drawn; memory does not grow with the film. Several processes draw at a time:
    each plays the same episodes, and draws its share of the frames.

    Args:
        source: as for ``evaluate``.
        path: of the film, ending in .mp4; written under a temporary name and then renamed.
        episodes: how many, one after the other.
        seed: which starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        generation: of a Run: the centre of this generation instead; without its checkpoint, it is rebuilt from the log.
        candidate: one of the population around that centre instead.
        width: of a frame [pixels], where the environment lets one choose; its own size otherwise.
        height: likewise.
        fps: frames a second at most; None: 30. Every k-th step is drawn, so that the film runs in real time.
        workers: processes that draw; 1: this one alone. None: as many as the usable cores, or fewer for a short film.
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
    if workers is not None:
        require_positive("workers", workers)
    if fps is not None and not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"fps must be positive, got {fps!r}")
    checkpoint, definition = find_policy(source, generation=generation, candidate=candidate, trust=trust)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} for the film")
    scene = Scene(
        definition=definition,
        config=checkpoint.config,
        parameters=checkpoint.mean,
        statistics=checkpoint.statistics,
        size=(width, height),
    )
    with closing(scene.rollouts()) as rollouts:
        require_same_spaces(checkpoint, rollouts.env)
        rollouts.use(scene.parameters, scene.statistics)
        rate = float(rollouts.env.metadata.get("render_fps") or _MOST_FRAMES)
        rate /= checkpoint.config.preprocessing.get("skip", 1)
        every = max(1, math.ceil(rate / (fps or _MOST_FRAMES) - 1e-9))
        # Unseen, for the captions.
        scored = [play(rollouts, episode_seed) for episode_seed in episode_seeds(seed, Purpose.TEST, episodes)]
        frames = sum(math.ceil(episode.length / every) for episode in scored)
        which = "" if candidate is None else f", candidate {candidate}"
        title = f"{definition.id}   generation {checkpoint.generation}{which}"
        film = partial(_film, path, rate / every, title, frames, progress=progress)

        processes = min(workers, frames) if workers else max(1, min(usable_cores(), frames // _WORTH_A_PROCESS))
        said = None
        if processes > 1:
            try:
                with closing(Artists(scene, scored, every, processes)) as artists, film() as show:
                    for episode in scored:
                        for step, frame in artists.frames(episode):
                            show(episode, step, frame)
            except DisagreementError as error:
                said = str(error)  # and one process films it again, so that the film is no mixture
            else:
                return scored
        with film() as show:
            filmed = [play(rollouts, episode.seed, every, partial(show, episode)) for episode in scored]
        for before, after in zip(scored, filmed, strict=True):
            said = said or difference(definition, before, Measured.of(after))
        if said:
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        return filmed


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


def _has_frames(path: Path, frames: int) -> bool:
    """Whether a film is complete: the encoder reports its errors on stderr alone, and leaves half a file or none."""
    try:
        return path.exists() and imageio_ffmpeg.count_frames_and_secs(str(path))[0] == frames
    except RuntimeError:
        return False


@contextmanager
def _film(
    path: Path, rate: float, title: str, length: int, *, progress: bool
) -> Iterator[Callable[[Episode, int, Frame], None]]:
    """A function that adds a step's frame; the film gets its name when it is complete, and only then."""
    unfinished = path.with_name(f"{path.stem}.partial{path.suffix}")
    # Errors of the encoder are found below, by counting frames; what it says of them is noise.
    options: Any = {
        "ffmpeg_log_level": "quiet",
        "codec": "libx264",
        "pixelformat": "yuv420p",
        "macro_block_size": 2,
        "output_params": _ENCODING,
    }
    frames = 0

    def show(episode: Episode, step: int, frame: Frame) -> None:
        nonlocal frames
        captioned = _captioned(frame, f"{title}   step {step}   episode fitness {episode.fitness:.2f}")
        try:
            writer.append_data(captioned)
        except OSError as error:
            raise OSError(f"the encoder ended in the midst of {path}: is the disk full?") from error
        frames += 1
        bar.advance(task)

    try:
        writer: Any = imageio.get_writer(unfinished, format="FFMPEG", fps=rate, **options)
        # Not `with writer`, which after an error leaves the encoder to the garbage collector.
        with closing(writer), film_progress(shown=progress) as bar:
            task = bar.add_task("filming", total=length)
            yield show
        if not _has_frames(unfinished, frames):
            raise OSError(f"the encoder did not write all {frames} frames of {path}: is the disk full?")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
