"""Shots: which policies a film shows, playing which starts, from where, and what is written on them."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from es_core.evaluation.scoring import Source, find_policy
from es_core.files import CheckpointError
from es_core.runs.checkpoint import Checkpoint
from es_core.runs.run_folder import RunFolder
from es_core.training.state import TrainingState
from es_core.video.captions import Caption, Label
from es_core.video.layout import corners
from es_core.video.renderer import Player, Setting, Shot, Studio, Take
from es_envs import EnvDefinition
from es_envs.bullet.camera import Camera

VIEWS = ("follow", "fixed", "orbit")

_LEVELS = (0.2, 0.4, 0.6, 0.8)  # of the way from the first fitness to the best: what an evolution shows between the two
_ORBIT = 15.0  # degrees a second
_FRAMED = 0.75  # of the picture, in which a fixed camera keeps what it follows


@dataclass(frozen=True, kw_only=True, eq=False)
class Scene:
    """A shot that has been scored.

    Attributes:
        shot: what is seen.
        takes: of its players.
        frames: how many it has.
        caption: what is written on them.
    """

    shot: Shot
    takes: tuple[Take, ...]
    frames: int
    caption: Caption


def scored(
    studio: Studio, cast: Sequence[tuple[Player, ...]], seeds: Sequence[int], setting: Setting, view: str | None
) -> list[Scene]:
    """Play all that a film is to show, unseen.

    Args:
        studio: where.
        cast: the players of each shot; each plays every start.
        seeds: of the starts.
        setting: of the film.
        view: one of ``VIEWS``; None: "fixed" for ghosts, "follow" otherwise.

    Raises:
        ValueError: the environment has a camera of its own.
        RolloutError: an episode failed.
    """
    if view is not None and studio.stage is None:
        raise ValueError(
            f"{setting.definition.label} has a camera of its own: camera={view!r} is for environments that are drawn "
            "from anywhere, such as each es_envs.bullet.BulletEnv; leave it out"
        )
    posed = len(cast[0]) > 1 and studio.stage is not None
    noted = posed or view in ("fixed", "orbit")
    played = []
    for seed in seeds:
        for players in cast:
            takes = [(player, studio.score(player, seed, cameras=noted, poses=posed)) for player in players]
            if setting.layout == "ghosts" and players[0].candidate is not None:
                takes.sort(key=lambda each: each[1].episode.fitness)  # the best in front
            played.append((seed, takes))
    cameras: Iterator[tuple[Camera, ...]] = repeat(())
    if noted:
        view = view or ("fixed" if setting.layout == "ghosts" else "follow")
        everything = [take for _, takes in played for _, take in takes]
        cameras = iter(seen_from(view, everything, setting.size, studio.rate))
    scenes = []
    for number, (seed, takes) in enumerate(played):
        shot = Shot(
            players=tuple(player for player, _ in takes),
            seed=seed,
            cameras=tuple(filter(None, (next(cameras) for _ in takes))),
            poses=tuple(take.poses for _, take in takes if take.poses is not None),
        )
        longest = max(take.episode.length for _, take in takes)
        scenes.append(
            Scene(
                shot=shot,
                takes=tuple(take for _, take in takes),
                frames=math.ceil(longest / studio.every),
                caption=_caption(takes, setting, number // len(cast) if len(seeds) > 1 else None),
            )
        )
    return scenes


def _caption(takes: Sequence[tuple[Player, Take]], setting: Setting, start: int | None) -> Caption:
    players, episodes = [player for player, _ in takes], [take.episode for _, take in takes]
    subject = setting.definition.id
    if start is not None:
        subject += f", start {start}"
    if setting.speed != 1:
        subject += f", {setting.speed:g} times as fast"
    if len(takes) == 1:
        return Caption(title=players[0].title, score=f"fitness {episodes[0].fitness:.2f}", subject=subject)
    generations = [player.generation for player in players]
    if players[0].candidate is None:
        title, names = f"generations {min(generations)} to {max(generations)}", [f"{g}" for g in generations]
    else:
        title = f"generation {generations[0]}, {len(players)} candidates"
        names = [f"{player.candidate}" for player in players]
    labels = [
        Label(text=f"{name}:  {episode.fitness:.2f}", corner=corner, size=setting.size)
        for name, episode, corner in zip(names, episodes, corners(len(takes), setting.size), strict=True)
    ]
    return Caption(
        title=title,
        score=f"best fitness {max(episode.fitness for episode in episodes):.2f}",
        subject=subject,
        labels=tuple(labels) if setting.layout == "grid" else (),
    )


def telling_generations(run: RunFolder, among: Iterable[int]) -> list[int]:
    """A few generations that show how the run went on: the first, the best, and those that came first past a level.

    Args:
        run: their evaluated centres count, or their populations' means if fewer than two were evaluated.
        among: generations to choose from, ascending.
    """
    among = list(among)
    stats = [run.history[generation] for generation in among if generation < len(run.history)]
    evaluated = {each.generation: each.evaluation.mean for each in stats if each.evaluation}
    populations = {each.generation: each.fitness_mean for each in stats if each.fitness_mean is not None}
    known = evaluated if len(evaluated) > 1 else populations
    if not known:
        return among[-1:]
    first, best = min(known), max(known, key=lambda generation: (known[generation], -generation))
    if best == first:
        return sorted({first, max(known)})
    levels = [known[first] + level * (known[best] - known[first]) for level in _LEVELS]
    passed = [next(generation for generation, value in known.items() if value >= level) for level in levels]
    return sorted({first, *passed, best} & set(range(first, best + 1)))


def _evolution(run: RunFolder, *, trust: bool) -> list[tuple[Checkpoint, EnvDefinition]]:
    """What each of the telling generations would be played by."""
    try:
        chosen = telling_generations(run, range(max(1, len(run.history))))
        return [find_policy(run, generation=generation, trust=trust) for generation in chosen]
    except CheckpointError:  # of another kind of processor, say: what was kept can be shown all the same
        chosen = telling_generations(run, run.checkpoint_generations())
        return [find_policy(run, generation=generation, trust=trust) for generation in chosen]


def casts(
    source: Source,
    *,
    generation: int | None,
    candidate: int | None,
    generations: Sequence[int] | str | None,
    population: int | None,
    together: bool,
    trust: bool,
) -> tuple[list[tuple[Player, ...]], Checkpoint, EnvDefinition]:
    """Who is seen in each shot; a checkpoint of the run; and the definition of its environment.

    Args:
        source: as for ``record``.
        generation: likewise, as are the following.
        candidate: see there.
        generations: see there.
        population: see there.
        together: all are seen in one shot.
        trust: see there.

    Raises:
        ValueError: what is asked for does not go together, or is nowhere.
        FileNotFoundError: there is no such run, checkpoint or generation.
        CheckpointError: a checkpoint is damaged.
    """
    if generations is not None:
        if generation is not None or candidate is not None or population is not None:
            raise ValueError("a film shows generations, or one generation's centre, candidate or population: choose")
        run = source if isinstance(source, RunFolder) else _run_in(source, trust=trust)
        if isinstance(generations, str):
            checkpoints = _evolution(run, trust=trust)
        else:
            checkpoints = [find_policy(run, generation=each, trust=trust) for each in generations]
        if not checkpoints:
            raise ValueError("generations must name at least one generation")
        checkpoint, definition = checkpoints[-1]
        players = [player(each) for each, _ in checkpoints]
    else:
        checkpoint, definition = find_policy(source, generation=generation, candidate=candidate, trust=trust)
        players = [player(checkpoint, candidate)]
        if population is not None or together:
            if candidate is not None:
                raise ValueError("a film shows a candidate or the population: choose one")
            players = _population(checkpoint, population)
    return [tuple(players)] if together else [(each,) for each in players], checkpoint, definition


def _run_in(source: object, *, trust: bool) -> RunFolder:
    if isinstance(source, Checkpoint) or not Path(str(source)).is_dir():
        raise ValueError("generations can be chosen from a run, not from a single checkpoint")
    return RunFolder.open(str(source), trust=trust)


def _population(checkpoint: Checkpoint, most: int | None) -> list[Player]:
    """The candidates around a checkpoint's centre, the first ``most`` of them, or all."""
    candidates = TrainingState.at(checkpoint, "the checkpoint").population()
    number = len(candidates) if most is None else min(most, len(candidates))
    who = player(checkpoint)
    return [replace(who, candidate=k, parameters=candidates.candidate(k)) for k in range(number)]


def player(checkpoint: Checkpoint, candidate: int | None = None) -> Player:
    """Who plays with a checkpoint's parameters."""
    return Player(
        generation=checkpoint.generation,
        candidate=candidate,
        parameters=checkpoint.mean,
        statistics=checkpoint.statistics,
    )


def seen_from(view: str, takes: Sequence[Take], size: tuple[int, int], rate: float) -> list[tuple[Camera, ...]]:
    """Where the camera stands at each frame of each take.

    Args:
        view: "follow": where the environment has it; "fixed": in one place, from which all is seen that the others
            follow; "orbit": around what it follows.
        takes: of a whole film.
        size: width and height of a picture.
        rate: frames a second.
    """
    if view == "fixed":
        still = _still([camera for take in takes for camera in take.cameras], size[0] / size[1])
        return [(still,) * len(take.cameras) for take in takes]
    if view == "orbit":
        return [
            tuple(
                replace(camera, yaw=camera.yaw + _ORBIT * number / rate) for number, camera in enumerate(take.cameras)
            )
            for take in takes
        ]
    return [take.cameras for take in takes]


def _still(cameras: Sequence[Camera], aspect: float) -> Camera:
    """A camera from which all is seen that these look at, from where it is close and moves far in the picture.

    The closest place alone may be at the end of a rail, from where what runs on it seems to stand.
    """
    targets = np.array([camera.target for camera in cameras])

    def worth(camera: Camera) -> float:
        x, y, z = camera.axes @ (targets - camera.target).T
        depth = camera.distance + z
        moved = max(np.ptp(x / (aspect * depth)), np.ptp(y / depth))
        return round(float(moved) / camera.distance, 6)

    turned = [replace(cameras[0], yaw=cameras[0].yaw + turn) for turn in sorted(range(-90, 91, 15), key=abs)]
    return max((_withdrawn(camera, targets, aspect) for camera in turned), key=worth)


def _withdrawn(own: Camera, targets: NDArray[np.float64], aspect: float) -> Camera:
    """The camera moved back until it sees all targets ``(n, 3)``."""
    middle = (targets.min(axis=0) + targets.max(axis=0)) / 2
    x, y, z = own.axes @ (targets - middle).T
    slope = _FRAMED * math.tan(math.radians(own.field_of_view) / 2)
    needed = np.maximum(np.abs(x) / (slope * aspect), np.abs(y) / slope) - z
    distance = max(own.distance, float(needed.max()) + own.distance / 6)  # what stands at a target has a size
    middle = middle - 0.12 * slope * distance * own.axes[1]  # the caption is below
    return replace(own, target=tuple(middle.tolist()), distance=distance)
