"""A film's file: MP4 that plays everywhere, or GIF; streamed, and written completely or not at all."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import imageio_ffmpeg

from es_core.video.layout import Frame

ENDINGS = (".mp4", ".gif")

# The index comes first, so that a browser plays before it has the whole file; two threads leave cores for others.
_MP4 = {
    "codec": "libx264",
    "pixelformat": "yuv420p",
    "output_params": ["-movflags", "+faststart", "-threads", "2", "-preset", "veryfast", "-crf", "20"],
}
# Frames of a GIF: its palette is that of the whole film, which must be complete before its first frame is written.
_LOSSLESS = {
    "codec": "libx264rgb",
    "pixelformat": "rgb24",
    "output_params": ["-threads", "2", "-preset", "ultrafast", "-crf", "0"],
}
_PALETTE = "palettegen=stats_mode=full"  # 256 colours; also of what does not move, such as a legend
# Ordered dither does not change from frame to frame, so that what does not move takes no room.
_PAINTED = "paletteuse=dither=bayer:bayer_scale=5:diff_mode=rectangle"


@contextmanager
def film(path: Path, folder: Path, rate: float) -> Iterator[Callable[[Frame], None]]:
    """Provide a function that adds a frame; the film gets its name only when it is complete.

    Args:
        path: path of the film, with one of ``ENDINGS``.
        folder: its ``working_folder``.
        rate: frames per second; GIF counts hundredths of a second.

    Raises:
        OSError: the film could not be written.
    """
    is_gif = path.suffix.lower() == ".gif"
    streamed, palette = folder / "film.mp4", folder / "palette.png"
    unfinished = folder / "film.gif" if is_gif else streamed
    frames = 0

    def add(frame: Frame) -> None:
        nonlocal frames
        try:
            writer.append_data(frame)
        except OSError as error:
            raise OSError(f"the encoder ended in the midst of {path}: is the disk full?") from error
        frames += 1

    # Errors of the encoder are found below, by counting frames; its messages are noise.
    options: Any = {**(_LOSSLESS if is_gif else _MP4), "ffmpeg_log_level": "quiet", "macro_block_size": 2}
    writer: Any = imageio.get_writer(streamed, format="FFMPEG", fps=rate, **options)
    # Not `with writer`, which after an error leaves the encoder to the garbage collector.
    with closing(writer):
        yield add
    if is_gif and _frames_of(streamed) == frames:
        _ffmpeg("-i", streamed, "-vf", _PALETTE, "-update", "1", palette)
        _ffmpeg("-i", streamed, "-i", palette, "-lavfi", _PAINTED, unfinished)
    if _frames_of(unfinished) != frames:
        raise OSError(f"the encoder did not write all {frames} frames of {path}: is the disk full?")
    unfinished.replace(path)


def _ffmpeg(*arguments: object) -> None:
    words = [imageio_ffmpeg.get_ffmpeg_exe(), "-loglevel", "quiet", "-y", *map(str, arguments)]
    subprocess.run(words, stdin=subprocess.DEVNULL, check=False)  # noqa: S603  (its work is counted afterwards)


def _frames_of(path: Path) -> int | None:
    """Number of frames of a film; None: it is not a film. The encoder reports its errors only on stderr."""
    try:
        return int(imageio_ffmpeg.count_frames_and_secs(str(path))[0]) if path.exists() else None
    except RuntimeError:
        return None
