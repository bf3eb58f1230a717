"""Record: films of evolved policies, in real time, playing the same episodes that ``evaluate`` scores."""

import base64
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from html import escape
from importlib.metadata import version
from io import BytesIO
from itertools import accumulate, repeat
from pathlib import Path
from typing import Any

from PIL import Image

import es_envs
from es_core.config.keywords import accepts_old_names
from es_core.evaluation.scoring import Source, require_same_spaces
from es_core.files import CheckpointError, parse_json, read_whole, require_folder, write_whole
from es_core.machine import usable_cores
from es_core.runs.checkpoint import parameter_hash
from es_core.runs.unfinished import working_folder
from es_core.training.progress import count_progress
from es_core.video.captions import captioned, draw_progress
from es_core.video.clips import ScoredClip, score_clips
from es_core.video.encoder import ENDINGS, film
from es_core.video.filmed_policies import filmed_policies
from es_core.video.layout import Frame
from es_core.video.options import FilmOptions
from es_core.video.parallel_rendering import DisagreementError, RenderingProcesses, difference, summary
from es_core.video.renderer import Renderer, Scene
from es_envs import Episode
from es_envs.display import BLANK, BlankFinder

_FPS = {".mp4": 30.0, ".gif": 12.5}  # by default: enough for films; simulations run at 50 to 500
_MOST_OF_A_GIF = 50.0  # frames per second: it counts hundredths of a second, and players slow down what has one only
_WORTH_A_PROCESS = 16  # frames: about as many can be drawn while a process starts
_HOLD = 1.0  # seconds that the last frame of a clip stays, so that one can read how it ended
_MOST_SHOWN = 200_000_000  # bytes of a film within a notebook


class Film(list[Episode]):
    """The episodes of a film; in a notebook it shows the film.

    Attributes:
        path: the film's file.
    """

    def __init__(self, episodes: Iterable[Episode], path: Path) -> None:
        super().__init__(episodes)
        self.path = path

    def _repr_html_(self) -> str:
        """For a notebook: the film itself, within the page, so that a notebook that is sent on still shows it."""
        data = base64.b64encode(read_whole(self.path, _MOST_SHOWN)).decode("ascii")
        if self.path.suffix.lower() == ".gif":
            return f'<img src="data:image/gif;base64,{data}" alt="{escape(self.path.name)}">'
        return (
            '<video controls autoplay loop muted playsinline style="max-width: 100%">'
            f'<source type="video/mp4" src="data:video/mp4;base64,{data}"></video>'
        )


@accepts_old_names
def record(source: Source, path: str | os.PathLike[str], **options: Any) -> Film:
    """Film a policy, or several: one after the other, side by side, or as ghosts in one clip.

    Beside the film, with the same name, are a picture from it (.png) and a description of what it shows (.json).

    Frames go to the encoder as they are drawn; memory does not grow with the film. Several processes draw at a time:
    each plays the same episodes, and draws its share of the frames. Policies that play together in an environment that
    is no ``BulletEnv`` have a process each, whatever ``workers`` says.

    Args:
        source: see ``evaluate``.
        path: path of the film, ending in .mp4 or .gif; it is written under a temporary name and then renamed.
        **options: see ``FilmOptions``.

    Returns:
        The episodes, as they were filmed.

    Raises:
        ValueError: the ending is unknown, an option impossible, options do not fit together, or the environment cannot
            render, or has its own camera.
        FileExistsError: the film's picture or description would replace a file that is none, or another process is
            writing a film of this path.
        FileNotFoundError: there is no such run or checkpoint, or no such folder for the film.
        RolloutError: an episode failed.

    Examples:
        >>> from es_core import record
        >>> (episode,) = record(run, "cartpole.mp4", width=320, height=240)
        >>> episode.length, episode.fitness
        (500, 500.0)
        >>> episodes = record(run, "learning.gif", generations="auto", layout="grid", speed=2)
    """
    path, how = Path(path), FilmOptions(**options)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise ValueError(f"a film's name must end in {' or '.join(ENDINGS)}, got {path.name!r}")
    starts, fps = how.starts(), how.fps or _FPS[ending]
    groups, checkpoints, definition = filmed_policies(source, how)
    require_folder(path, "film")
    _require_not_overwriting(path)
    scene = Scene(
        definition=definition,
        configs=tuple(checkpoint.config for checkpoint in checkpoints),
        arrangement=how.arrange(len(groups[0]), apart=False),
        speed=how.speed,
        fps=min(fps, _MOST_OF_A_GIF) if ending == ".gif" else fps,
    )
    with working_folder(path) as folder, closing(Renderer(scene)) as renderer:
        for number, checkpoint in enumerate(checkpoints):
            require_same_spaces(checkpoint, renderer.rollout(number).env)
        if renderer.free_camera is None:  # nobody knows what lies where in its pictures
            renderer.rearrange(how.arrange(len(groups[0]), apart=True))
        clips = score_clips(renderer, groups, starts, how.camera)

        def write(footage: Iterable[Iterable[Frame]]) -> Image.Image:
            return _write_film(path, folder, renderer, clips, footage, progress=how.progress)

        episodes, problem = [one.episode for clip in clips for one in clip.scored], None
        players, frames = len(groups[0]) > 1 and not clips[0].clip.poses, sum(clip.frames for clip in clips)
        processes = min(how.workers or usable_cores(), frames if how.workers else frames // _WORTH_A_PROCESS)
        if players:
            processes = max(map(len, groups))
        if processes > 1:
            try:
                with closing(RenderingProcesses(renderer.scene, processes, players=players)) as rendering:
                    picture = write(map(rendering.frames, clips))
                    problem = rendering.disagreement
            except DisagreementError as error:
                problem = str(error)  # one process films it again, so that the film is not a mixture
        if processes <= 1 or (problem is not None and not players):
            played: list[Episode] = []
            picture = write(_draw_here(renderer, clip, played) for clip in clips)
            differences = (
                difference(definition.label, before, summary(after))
                for before, after in zip(episodes, played, strict=False)
            )
            problem = problem or next(filter(None, differences), None)
            episodes = played or episodes
        if problem:
            warnings.warn(problem, RuntimeWarning, stacklevel=2)
        # The description first: a picture without one would be somebody else's.
        write_whole(path.with_suffix(".json"), _describe(path, renderer, clips, picture.size, how.camera))
        png = BytesIO()
        picture.save(png, "PNG")
        write_whole(path.with_suffix(".png"), png.getvalue())
        return Film(episodes, path)


def _require_not_overwriting(path: Path) -> None:
    """Refuse a film whose description or picture would replace a file that is none, such as a run's config.json.

    Raises:
        FileExistsError: it would; or a folder has the film's name.
    """
    if path.is_dir():
        raise FileExistsError(f"{path} is a folder: choose another name for the film")
    beside, picture = path.with_suffix(".json"), path.with_suffix(".png")
    if not beside.exists():
        if picture.exists():
            raise FileExistsError(f"{picture} exists and belongs to no film: choose another name for the film")
        return
    with suppress(CheckpointError, OSError, ValueError, RecursionError):
        described = parse_json(read_whole(beside))
        if isinstance(described, dict) and {"film", "shots"} <= described.keys():
            return
    raise FileExistsError(f"{beside} exists and describes no film: choose another name for the film")


def _write_film(
    path: Path,
    folder: Path,
    renderer: Renderer,
    clips: Sequence[ScoredClip],
    footage: Iterable[Iterable[Frame]],
    *,
    progress: bool,
) -> Image.Image:
    """Write a film from each clip's frames; return the picture in the middle of its last clip."""
    lengths, finder = _lengths(clips, renderer.rate), BlankFinder()
    ends = [0, *accumulate(lengths)]
    poster = ends[-2] + (clips[-1].frames - 1) // 2
    with film(path, folder, renderer.rate) as add, count_progress(shown=progress) as bar:
        task = bar.add_task("filming", total=ends[-1])
        for clip, start, length, frames in zip(clips, ends, lengths, footage, strict=False):
            for number, frame in enumerate(_hold_last(frames, length)):
                finder.look(renderer.scene.arrangement.without_strip(frame))
                written = captioned(frame, clip.caption, number)
                draw_progress(written, ends, start + number)
                add(written)
                if start + number == poster:
                    picture = Image.fromarray(written)
                bar.advance(task)
    if finder.blank:
        warnings.warn(f"{path} shows no picture of the environment: {BLANK}", RuntimeWarning, stacklevel=4)
    return picture


def _lengths(clips: Sequence[ScoredClip], rate: float) -> list[int]:
    """Number of frames of each clip in the film."""
    return [clip.frames + round(_HOLD * rate) for clip in clips]


def _hold_last(frames: Iterable[Frame], length: int) -> Iterator[Frame]:
    """``frames``, with the last one repeated up to ``length``."""
    for frame in frames:
        yield frame
        length -= 1
    yield from repeat(frame, length)


def _draw_here(renderer: Renderer, clip: ScoredClip, played: list[Episode]) -> Iterator[Frame]:
    """Frames of a clip, drawn by this process; its episodes are added to ``played``."""
    played += yield from renderer.frames(clip.clip)


def _describe(
    path: Path, renderer: Renderer, clips: Sequence[ScoredClip], size: tuple[int, int], camera: str | None
) -> bytes:
    """Description of what a film shows, as JSON."""
    scene, rate, frames = renderer.scene, renderer.rate, sum(_lengths(clips, renderer.rate))
    plugins = {plugin.name: plugin.version for plugin in es_envs.plugins()}
    plugin = scene.definition.plugin
    shots = [
        {
            "seed": clip.clip.seed,
            "frames": clip.frames,
            "players": [
                {
                    "name": policy.name,
                    "generation": policy.generation,
                    "candidate": policy.candidate,
                    "script": policy.script,
                    "parameter_hash": parameter_hash(policy.parameters),
                    "fitness": one.episode.fitness,
                    "fitnesses": dict(one.episode.fitnesses),
                    "steps": one.episode.length,
                }
                for policy, one in zip(clip.clip.policies, clip.scored, strict=True)
            ],
        }
        for clip in clips
    ]
    document = {
        "film": path.name,
        "es_envs": version("es-envs"),
        "environment": scene.definition.id,
        "plugin": plugin and {"name": plugin, "version": plugins.get(plugin)},
        "env_kwargs": dict(scene.configs[0].env_kwargs),
        "randomize": dict(scene.configs[0].keyword_arguments.get("randomize", {})),
        "layout": scene.arrangement.layout,
        "camera": camera,
        "speed": scene.speed,
        "rate": rate,
        "size": size,
        "frames": frames,
        "seconds": frames / rate,
        "shots": shots,
    }
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
