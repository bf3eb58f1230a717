"""Record: films of evolved policies, in real time, playing the same episodes that ``evaluate`` scores."""

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

import es_envs
from es_core.config.checks import require_positive, whole
from es_core.evaluation.scoring import Source, require_same_spaces
from es_core.files import CheckpointError, parse_json, read_whole, require_folder, write_whole
from es_core.machine import usable_cores
from es_core.runs.checkpoint import Checkpoint, parameter_hash
from es_core.runs.run_folder import RunFolder
from es_core.runs.unfinished import working_folder
from es_core.seeding import Purpose, episode_seeds
from es_core.training.progress import count_progress
from es_core.video.camera_paths import VIEWS
from es_core.video.captions import Captioner
from es_core.video.clips import ScoredClip, score_clips
from es_core.video.encoder import ENDINGS, film
from es_core.video.filmed_policies import filmed_policies
from es_core.video.layout import ASPECTS, LAYOUTS, Arrangement, Frame, caption_height, frame_size, grid
from es_core.video.parallel_rendering import DisagreementError, Measured, RenderingProcesses, difference
from es_core.video.renderer import FilmOptions, Renderer
from es_envs import Episode
from es_envs.arguments import require_one_of
from es_envs.display import BLANK, BlankFinder

_MOST_FRAMES = {".mp4": 30.0, ".gif": 12.5}  # per second: enough for films; simulations run at 50 to 500
_BOUNDS = {"fps": (0.1, 1000.0), "speed": (0.01, 1000.0)}  # the encoder rounds a film's rate to hundredths
_MOST_OF_A_GIF = 50  # frames per second: it counts hundredths of a second, and players slow down what has one only
_WORTH_A_PROCESS = 16  # frames: about as many can be drawn while a process starts
_HOLD = 1.0  # seconds that the last frame of a clip stays, so that one can read how it ended
_IN_A_GRID = 16  # candidates by default


def record(
    source: Source,
    path: str | os.PathLike[str],
    *,
    episodes: int = 1,
    seed: int = 0,
    seeds: Sequence[int] | None = None,
    generation: int | None = None,
    candidate: int | None = None,
    generations: Sequence[int] | Literal["auto"] | None = None,
    population: int | None = None,
    beside: Source | Sequence[Source] = (),
    layout: Literal["grid", "ghosts"] | None = None,
    camera: Literal["follow", "fixed", "orbit"] | None = None,
    speed: float = 1.0,
    env_kwargs: Mapping[str, Any] | None = None,
    width: int | None = None,
    height: int | None = None,
    aspect: Literal["16:9", "4:3", "1:1", "9:16"] | None = None,
    fps: float | None = None,
    workers: int | None = None,
    trust: bool = False,
    progress: bool = False,
) -> list[Episode]:
    """Film a policy, or several: one after the other, side by side, or as ghosts in one clip.

    Beside the film, with the same name, are a picture from it (.png) and a description of what it shows (.json).

    Frames go to the encoder as they are drawn; memory does not grow with the film. Several processes draw at a time:
    each plays the same episodes, and draws its share of the frames. Policies that play together in an environment that
    is no ``BulletEnv`` have a process each, whatever ``workers`` says.

    Args:
        source: see ``evaluate``.
        path: path of the film, ending in .mp4 or .gif; it is written under a temporary name and then renamed.
        episodes: number of episodes, one after the other.
        seed: seed of the starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        seeds: seeds of the episodes themselves, as in ``Episode.seed``, instead of ``episodes`` and ``seed``.
        generation: film a Run's centre of this generation instead; it is rebuilt from the log if it has no checkpoint.
        candidate: film this candidate of the population around that centre instead.
        generations: film a Run's centres of these generations; "auto": of a few that show its progress.
        population: film so many candidates of the generation's population, or of each of ``generations``, from the
            first on.
        beside: the policy of another run or file, or of several, which play the same starts in the same environment.
        layout: "grid": side by side; "ghosts": in one clip, translucent except the last generation, or the best
            candidate. Without ``generations`` or ``beside``, they show the population. None: one after the other, but
            "grid" with ``beside``.
        camera: camera of a ``BulletEnv``: "follow" what moves, "fixed" where it sees everything, or "orbit" around it;
            None: "fixed" for ghosts, "follow" otherwise.
        speed: how many times faster than in reality time passes, from 0.01 to 1000.
        env_kwargs: see ``evaluate``.
        width: width of a frame [pixels]. Pictures of an environment that has a size of its own are scaled to fit.
        height: height of a frame. Two of ``width``, ``height`` and ``aspect`` are enough; one of them alone is at 4:3.
            None of them: 640 by 480, or the environment's own size.
        aspect: shape of a frame, width by height.
        fps: maximum frames per second, from 0.1 to 1000, for a GIF at most 50; None: 30, for a GIF 12.5. Every k-th
            step is drawn, so that the film keeps time.
        workers: number of processes that draw; 1: only this one. None: the usable cores, or fewer for a short film.
        trust: allow the source to name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Returns:
        The episodes, as they were filmed.

    Raises:
        ValueError: the ending is unknown, a size impossible, arguments do not fit together, or the environment cannot
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
    path = Path(path)
    fps = _MOST_FRAMES.get(path.suffix.lower(), 0.0) if fps is None else fps
    _refuse_nonsense(path, layout, camera, aspect, {"fps": fps, "speed": speed})
    if path.suffix.lower() == ".gif":
        fps = min(fps, _MOST_OF_A_GIF)
    counts = {"episodes": episodes, "width": width, "height": height, "workers": workers, "population": population}
    for name, count in counts.items():
        if count is not None:
            require_positive(name, count)
    size = frame_size(width, height, aspect)
    starts = episode_seeds(seed, Purpose.TEST, episodes) if seeds is None else _named(seeds, episodes)
    others = [beside] if isinstance(beside, RunFolder | Checkpoint | str | os.PathLike) else beside
    if others:
        layout = layout or "grid"
    elif generations is None and layout == "grid":
        population = population or _IN_A_GRID
    groups, checkpoints, definition = filmed_policies(
        source,
        generation=generation,
        candidate=candidate,
        generations=generations,
        population=population,
        beside=others,
        together=layout is not None,
        env_kwargs=env_kwargs,
        trust=trust,
    )
    require_folder(path, "film")
    _spare_others(path)
    fits = (width, height, aspect) != (None, None, None)
    options = FilmOptions(
        definition=definition,
        configs=tuple(checkpoint.config for checkpoint in checkpoints),
        arrangement=grid(len(groups[0]), size, below=caption_height(size))
        if layout == "grid"
        else Arrangement(layout=layout or "alone", size=size, picture=size, fits=fits),
        speed=speed,
        fps=fps,
    )
    with working_folder(path) as folder, closing(Renderer(options)) as renderer:
        for policy, checkpoint in zip(groups[0], checkpoints, strict=False):
            require_same_spaces(checkpoint, renderer.rollout_of(policy).env)
        clips = score_clips(renderer, groups, starts, options, camera)
        writer = _FilmWriter(path, folder, renderer.rate, clips, progress=progress)
        frames = sum(clip.frames for clip in clips)
        processes = min(workers, frames) if workers else max(1, min(usable_cores(), frames // _WORTH_A_PROCESS))
        filmed, said = [one.episode for clip in clips for one in clip.scored], None
        players = len(groups[0]) > 1 and not clips[0].clip.poses
        if players:
            processes = max(map(len, groups))
        if processes > 1:
            try:
                with closing(RenderingProcesses(options, processes, players=players)) as rendering:
                    writer.write(rendering.frames(clip.clip, clip.scored, clip.frames) for clip in clips)
                    said = rendering.disagreement
            except DisagreementError as error:
                said = str(error)  # one process films it again, so that the film is not a mixture
        if processes == 1 or (said is not None and not players):
            played: list[Episode] = []
            writer.write(_drawn_here(renderer, clip, played) for clip in clips)
            for before, after in zip(filmed, played, strict=False):
                said = said or difference(definition, before, Measured.of(after))
            filmed = played or filmed
        if said:
            warnings.warn(said, RuntimeWarning, stacklevel=2)
        # The description first: a picture without one would be somebody else's.
        write_whole(path.with_suffix(".json"), _side_car(options, writer, camera))
        write_whole(path.with_suffix(".png"), writer.poster)
        return filmed


def _named(seeds: Sequence[int], episodes: int) -> tuple[int, ...]:
    """The episodes' seeds, as they are given.

    Raises:
        ValueError: there is none, one is no seed, or ``episodes`` says that there are others.
    """
    seeds = [each.item() if isinstance(each, np.integer) else each for each in seeds]
    if not seeds or any(whole(0)(each) for each in seeds):
        raise ValueError(f"seeds must be one or more whole numbers of at least 0, got {seeds}")
    if episodes not in {1, len(seeds)}:
        raise ValueError(f"seeds name {len(seeds)} episodes, and episodes is {episodes}: give one of the two")
    return tuple(seeds)


def _refuse_nonsense(
    path: Path, layout: str | None, camera: str | None, aspect: str | None, numbers: Mapping[str, float]
) -> None:
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"a film's name must end in {' or '.join(ENDINGS)}, got {path.name!r}")
    for name, choice, choices in (("layout", layout, LAYOUTS), ("camera", camera, VIEWS), ("aspect", aspect, ASPECTS)):
        if choice is not None:
            require_one_of(name, choice, choices)
    for name, value in numbers.items():
        least, most = _BOUNDS[name]
        if not least <= value <= most:
            raise ValueError(f"{name} must be a number from {least:g} to {most:g}, got {value!r}")


def _spare_others(path: Path) -> None:
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


@dataclass
class _FilmWriter:
    """A film that is being written, in a folder of its own."""

    path: Path
    folder: Path
    rate: float
    clips: Sequence[ScoredClip]
    progress: bool
    frames: int = 0
    size: tuple[int, int] = (0, 0)
    poster: bytes = b""

    def write(self, footage: Iterable[Iterable[Frame]]) -> None:
        """Write the film from each clip's frames, and keep a picture from the middle of its last clip, as PNG."""
        lengths = [clip.frames + round(_HOLD * self.rate) for clip in self.clips]
        captioner, self.frames, finder = Captioner(lengths), 0, BlankFinder()
        poster = sum(lengths[:-1]) + (self.clips[-1].frames - 1) // 2
        with film(self.path, self.folder, self.rate) as add, count_progress(shown=self.progress) as bar:
            task = bar.add_task("filming", total=sum(lengths))
            for clip, length, frames in zip(self.clips, lengths, footage, strict=True):
                for number, frame in enumerate(_held(frames, length)):
                    finder.look(frame)
                    captioned = captioner.caption(frame, clip.caption, number)
                    add(captioned)
                    if self.frames == poster:
                        picture = Image.fromarray(captioned)
                    self.frames += 1
                    bar.advance(task)
        if finder.blank:
            warnings.warn(f"{self.path} shows no picture of the environment: {BLANK}", RuntimeWarning, stacklevel=3)
        self.size = picture.size
        png = BytesIO()
        picture.save(png, "PNG")
        self.poster = png.getvalue()


def _held(frames: Iterable[Frame], length: int) -> Iterator[Frame]:
    """``frames``, with the last one repeated up to ``length``."""
    for frame in frames:
        yield frame
        length -= 1
    yield from repeat(frame, length)


def _drawn_here(renderer: Renderer, clip: ScoredClip, played: list[Episode]) -> Iterator[Frame]:
    """Frames of a clip, drawn by this process; its episodes are added to ``played``."""
    played += yield from renderer.frames(clip.clip)


def _side_car(options: FilmOptions, writer: _FilmWriter, camera: str | None) -> bytes:
    """Description of what a film shows, as JSON."""
    plugins = {plugin.name: plugin.version for plugin in es_envs.plugins()}
    plugin = options.definition.plugin
    clips = [
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
        for clip in writer.clips
    ]
    document = {
        "film": writer.path.name,
        "es_envs": version("es-envs"),
        "environment": options.definition.id,
        "plugin": plugin and {"name": plugin, "version": plugins.get(plugin)},
        "env_kwargs": dict(options.configs[0].env_kwargs),
        "randomize": dict(options.configs[0].keyword_arguments.get("randomize", {})),
        "layout": options.arrangement.layout,
        "camera": camera,
        "speed": options.speed,
        "rate": writer.rate,
        "size": writer.size,
        "frames": writer.frames,
        "seconds": writer.frames / writer.rate,
        "shots": clips,
    }
    return (json.dumps(document, indent=2, allow_nan=False) + "\n").encode()
