"""Options of a film: whom it shows, how, and how it is made."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from es_core.config.checks import require_positive, whole
from es_core.evaluation.scoring import Source
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.seeding import Purpose, episode_seeds
from es_core.video.layout import Arrangement, alone, caption_height, frame_size, grid
from es_envs.arguments import require_number, require_one_of

_IN_A_GRID = 16  # candidates by default
_CHOICES = {
    "layout": ("grid", "ghosts"),
    "camera": ("follow", "fixed", "orbit"),
    "aspect": ("16:9", "4:3", "1:1", "9:16"),
}


@dataclass(frozen=True, kw_only=True)
class FilmOptions:
    """Options of a film: the keyword arguments of ``record``.

    Attributes:
        episodes: number of episodes, one after the other.
        seed: seed of the starts; episode k is the one that ``evaluate(seed=seed)`` scores.
        seeds: seeds of the episodes themselves, as in ``Episode.seed``, instead of ``episodes`` and ``seed``.
        generation: film a Run's centre of this generation instead; it is rebuilt from the log if it has no checkpoint.
        candidate: film this candidate of the population around that centre instead.
        cell: film the policy of this cell of a Run's latest repertoire instead, or of that of ``generation``.
        gallery: film so many rows and columns of policies of that repertoire side by side, such as "4x4", each the best
            of its part of the plane of the first two axes.
        generations: film a Run's centres of these generations; "auto": of a few that show its progress.
        population: film so many candidates of the generation's population, or of each of ``generations``, from the
            first on.
        compare: the policy of another run or file, or of several, which play the same starts in the same environment.
        layout: "grid": side by side; "ghosts": in one clip, translucent except the last generation, or the best
            candidate. Without ``generations`` or ``compare``, they show the population. None: one after the other, but
            "grid" with ``compare`` and ``gallery``.
        camera: camera of a ``BulletEnv``: "follow" what moves, "fixed" where it sees everything, or "orbit" around it;
            None: "fixed" for ghosts, "follow" otherwise.
        speed: how many times faster than in reality time passes, from 0.01 to 1000.
        env_kwargs: see ``evaluate``.
        width: width of a frame [pixels]. Pictures of an environment that has a size of its own are scaled to fit.
        height: height of a frame [pixels]. Two of ``width``, ``height`` and ``aspect`` are enough; one of them alone is
            at 4:3. None of them: 640 by 480 (a grid: 1280 by 960), or the environment's own size.
        aspect: shape of a frame, width by height.
        fps: maximum frames per second, from 0.1 to 1000, for a GIF at most 50; None: 30, for a GIF 12.5. Every k-th
            step is drawn, so that the film keeps time.
        workers: number of processes that draw; 1: only this one. None: the usable cores, or fewer for a short film.
        trust: allow the source to name modules outside the installed plugins.
        progress: show a progress bar, if there is a terminal.

    Raises:
        ValueError: an option has an impossible value, or two of them do not fit together.
    """

    episodes: int = 1
    seed: int = 0
    seeds: Sequence[int] | None = None
    generation: int | None = None
    candidate: int | None = None
    cell: Sequence[int] | None = None
    gallery: str | None = None
    generations: Sequence[int] | Literal["auto"] | None = None
    population: int | None = None
    compare: Source | Sequence[Source] = ()
    layout: Literal["grid", "ghosts"] | None = None
    camera: Literal["follow", "fixed", "orbit"] | None = None
    speed: float = 1.0
    env_kwargs: Mapping[str, Any] | None = None
    width: int | None = None
    height: int | None = None
    aspect: Literal["16:9", "4:3", "1:1", "9:16"] | None = None
    fps: float | None = None
    workers: int | None = None
    trust: bool = False
    progress: bool = False

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) is not None:
                require_one_of(name, getattr(self, name), choices)
        for name in ("episodes", "width", "height", "workers", "population"):
            if getattr(self, name) is not None:
                require_positive(name, getattr(self, name))
        for name, least in {"fps": 0.1, "speed": 0.01}.items():  # the encoder rounds a film's rate to hundredths
            if getattr(self, name) is not None:
                require_number(name, getattr(self, name), least, 1000.0)
        frame_size(self.width, self.height, self.aspect)
        one = "generation" if self.generation is not None else "candidate" if self.candidate is not None else None
        if self.others and (self.generations is not None or self.population is not None):
            raise ValueError(
                "a film compares policies of several runs (compare), or shows several of one run: choose one"
            )
        if self.generations is not None and one:
            raise ValueError(f"{one} and generations: a film shows one generation, or several: choose one")
        if self.generations is not None and not self.generations:
            raise ValueError("generations must name at least one generation")
        self._require_one_choice()
        if self.candidate is not None and not self.others and (self.together or self.population):
            raise ValueError("a film shows a candidate or the population: choose one")

    def _require_one_choice(self) -> None:
        """Refuse cells of a repertoire together with what names other policies."""
        if self.gallery is not None and not re.fullmatch(r"[1-9]\d?x[1-9]\d?", self.gallery):
            raise ValueError(
                f"gallery must be a number of rows and one of columns, such as '4x4', got {self.gallery!r}"
            )
        others = {"compare": bool(self.others), "layout='ghosts'": self.layout == "ghosts"}
        given = [name for name in ("cell", "gallery") if getattr(self, name) is not None]
        given += [
            name for name in ("candidate", "generations", "population") if given and getattr(self, name) is not None
        ]
        given += [name for name, is_so in others.items() if given and is_so]
        if len(given) > 1:
            raise ValueError(f"a film shows cells of a repertoire, or other policies: {given[0]} or {given[1]}")
        if self.cell is not None and self.layout is not None:
            raise ValueError("a cell has one policy, to be filmed without a layout; gallery films several side by side")

    @property
    def others(self) -> Sequence[Source]:
        """The sources of ``compare``."""
        return [self.compare] if isinstance(self.compare, RunFolder | Checkpoint | str | os.PathLike) else self.compare

    @property
    def together(self) -> str | None:
        """The layout in which policies play together; None: they play one after the other."""
        return self.layout or ("grid" if self.others or self.gallery else None)

    @property
    def candidates(self) -> int | None:
        """Number of candidates of each generation, from the first on; None: all if they play together, else none."""
        is_of_population = self.layout == "grid" and self.generations is None and not self.others
        return self.population or (_IN_A_GRID if is_of_population else None)

    def arrange(self, policies: int, *, apart: bool) -> Arrangement:
        """Arrange the pictures of so many policies that play together.

        Args:
            policies: their number.
            apart: see ``Arrangement``.

        Raises:
            ValueError: they have no room.
        """
        usual = 2 * 640 if self.together == "grid" else 640
        size = frame_size(self.width, self.height, self.aspect, usual=usual)
        if self.together == "grid":
            across = None if self.gallery is None else int(self.gallery.partition("x")[2])
            return grid(policies, size, below=caption_height(size), apart=apart, across=across)
        fits = (self.width, self.height, self.aspect) != (None, None, None)
        return alone(size, layout=self.together or "alone", fits=fits, apart=apart)

    def starts(self) -> tuple[int, ...]:
        """The seeds of the episodes.

        Raises:
            ValueError: ``seeds`` are none, or others than ``episodes`` says.
        """
        if self.seeds is None:
            return episode_seeds(self.seed, Purpose.TEST, self.episodes)
        seeds = [each.item() if isinstance(each, np.integer) else each for each in self.seeds]
        if not seeds or any(whole(0)(each) for each in seeds):
            raise ValueError(f"seeds must be one or more whole numbers of at least 0, got {seeds}")
        if self.episodes not in {1, len(seeds)}:
            raise ValueError(f"seeds name {len(seeds)} episodes, and episodes is {self.episodes}: give one of the two")
        return tuple(seeds)
