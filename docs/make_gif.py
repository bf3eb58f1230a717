"""The picture at the top of README.md, from a run of the racing car.

Usage: es-envs train RaceCar-v0 --seed 0, then python docs/make_gif.py RUN docs/images/racecar.gif
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import imageio_ffmpeg

from es_core import record

# Twice real time, 12.5 frames a second, one palette for the whole film.
FILTER = (
    "setpts=PTS/2,fps=12.5,scale=320:-1:flags=lanczos,split[a][b];"
    "[a]palettegen=max_colors=64[p];[b][p]paletteuse=dither=none"
)

if __name__ == "__main__":
    source, target = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        film = Path(folder) / "film.mp4"
        record(source, film, width=480, height=360)
        ffmpeg = imageio_ffmpeg.get_ffmpeg_exe()
        subprocess.run([ffmpeg, "-loglevel", "error", "-y", "-i", film, "-vf", FILTER, target], check=True)
