"""Clips of a film, whose episodes are scored beforehand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from PIL import Image

from es_core.video.camera_paths import camera_above, camera_path, is_narrow
from es_core.video.captions import Caption, Inset, Label, Legend, score_text
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.layout import at_frame
from es_core.video.renderer import Clip, Renderer, Scene, ScoredEpisode
from es_envs import Episode
from es_envs.bullet.camera import Camera, View
from es_envs.bullet.scenery import ghost_colours
from es_envs.registry import plain_id

_MAP = 4  # times as wide as a map is the picture


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredClip:
    """A clip with the scores of its episodes.

    Attributes:
        clip: the clip.
        scored: the episode of each of its policies.
        caption: its caption.
    """

    clip: Clip
    scored: tuple[ScoredEpisode, ...]
    caption: Caption

    @property
    def frames(self) -> int:
        """Number of frames."""
        return max(len(one.fitness) for one in self.scored)


def score_clips(
    renderer: Renderer, groups: Sequence[tuple[FilmedPolicy, ...]], seeds: Sequence[int], view: str | None
) -> list[ScoredClip]:
    """Play all episodes of a film, without drawing them.

    Args:
        renderer: the renderer that plays them.
        groups: the policies of each clip; each plays every start.
        seeds: seeds of the starts.
        view: see ``camera_path``; None: "fixed" for ghosts, "follow" otherwise.

    Raises:
        ValueError: the environment has its own camera.
        RolloutError: an episode failed.
    """
    scene, is_free = renderer.scene, renderer.free_camera is not None
    if view is not None and not is_free:
        raise ValueError(
            f"{scene.definition.label} has its own camera: camera={view!r} is for environments that can be drawn "
            "from anywhere, such as each es_envs.bullet.BulletEnv; leave it out"
        )
    posed = is_free and len(groups[0]) > 1
    view = view or ("fixed" if scene.arrangement.layout == "ghosts" else "follow")
    mapped = is_free and not posed and view == "follow"
    played = []
    for seed in seeds:
        for policies in groups:
            scored = [(policy, renderer.score(policy, seed, poses=posed)) for policy in policies]
            if scene.arrangement.layout == "ghosts" and policies[0].candidate is not None:
                scored.sort(key=lambda each: each[1].episode.fitness)  # the best in front
            played.append((seed, scored))
    cameras: Iterator[tuple[Camera, ...]] = repeat(())
    if posed or (is_free and (view != "follow" or is_narrow(scene.arrangement.picture))):
        everything = [one for _, scored in played for _, one in scored]
        cameras = iter(camera_path(view, everything, scene.arrangement.picture, renderer.rate))
    clips = []
    for number, (seed, scored) in enumerate(played):
        clip = Clip(
            policies=tuple(policy for policy, _ in scored),
            seed=seed,
            cameras=tuple(filter(None, (next(cameras) for _ in scored))),
            poses=tuple(one.poses for _, one in scored if one.poses is not None),
        )
        caption = _caption(scored, scene, number // len(groups) if len(seeds) > 1 else None)
        if mapped:
            everywhere = [camera for other, [(_, one)] in played if other == seed for camera in one.cameras]
            own = scored[0][1].cameras
            caption = replace(
                caption,
                inset=inset(renderer, own, everywhere, seed, scene.arrangement.size),
                readout=readout(renderer, scored[0][1]),
            )
        clips.append(ScoredClip(clip=clip, scored=tuple(one for _, one in scored), caption=caption))
    return clips


def _caption(scored: Sequence[tuple[FilmedPolicy, ScoredEpisode]], scene: Scene, start: int | None) -> Caption:
    policies, episodes = [policy for policy, _ in scored], [one for _, one in scored]
    first, is_beside = policies[0], policies[0].name is not None
    subject = "the same start" if is_beside else plain_id(scene.definition.id)
    if start is not None:
        subject += f", start {start}"
    if scene.speed != 1:
        subject += f", {scene.speed:g}x speed"
    shown = decimals([value for one in episodes for value in one.fitness])
    if len(scored) == 1:
        [one] = episodes
        running = (score_text(value, shown) for value in one.fitness[:-1])
        last = score_text(one.fitness[-1], shown, one.episode.ending)
        return Caption(titles=(first.title,), scores=(*running, last), subject=subject)
    selecting = [next(iter(one.episode.fitnesses)) for one in episodes]  # names of the fitnesses that drive selection
    is_comparable = len(set(selecting)) == 1
    generations = [policy.generation for policy in policies]
    titles: tuple[str, ...]
    if is_beside:
        titles, names = (plain_id(scene.definition.id),), [policy.title for policy in policies]
    elif first.candidate is None:
        titles, names = (f"generations {min(generations)} to {max(generations)}",), [f"{g}" for g in generations]
    else:
        titles, names = _population_titles(generations[0], episodes), [f"{policy.candidate}" for policy in policies]
    is_ghosts = scene.arrangement.layout == "ghosts"
    corners = () if is_ghosts else scene.arrangement.corners
    labels = [
        Label(
            texts=tuple(
                f"{name}:  {text}" for text in _texts("" if is_comparable else f"{fitness} ", one.fitness, shown)
            ),
            is_good=_is_good(one.episode, scene.configs[policy.source].solved_at),
            corner=corner,
            size=scene.arrangement.picture,
            below=scene.arrangement.below,
        )
        for name, fitness, (policy, one), corner in zip(names, selecting, scored, corners, strict=False)
    ]
    return Caption(
        titles=titles,
        scores=_texts("best fitness ", _best(episodes), shown) if is_comparable else ("",),
        subject=subject,
        labels=tuple(labels),
        legend=_legend(names, policies) if is_ghosts and episodes[0].poses is not None else (),
    )


def _is_good(episode: Episode, goal: float | None) -> bool | None:
    """Success or failure, as the environment says, or else the goal; None: nobody knows."""
    if episode.is_success is not None:
        return episode.is_success
    if goal is not None:
        return episode.fitness >= goal
    return False if "ending" in episode.final_info else None  # only failures have names


def _legend(names: Sequence[str], policies: Sequence[FilmedPolicy]) -> Legend:
    """Name each run, but of a run's generations or candidates only the first and the last one."""
    colours = ghost_colours(len(names) - 1)
    if policies[0].name is not None:
        rows = [((colour,), name) for colour, name in zip(colours, names, strict=False)]
        return (*rows, ((), f"{names[-1]}, in its own colours"))
    ends = ("worst", "best") if policies[0].candidate is not None else (f"generation {names[0]}", names[-1])
    return ((tuple(colours), " to ".join(ends)),)


def decimals(values: Sequence[float | None]) -> int:
    """Decimals with which numbers that count up are shown, the same for all of them."""
    known = [value for value in values if value is not None]
    return 0 if all(value == round(value) for value in known) else 2


def _texts(name: str, values: Sequence[float | None], decimals: int) -> tuple[str, ...]:
    """The fitness at each frame, as text behind its name; empty where nothing can tell it before the end."""
    return tuple("" if value is None else f"{name}{value:z.{decimals}f}" for value in values)


def _population_titles(generation: int, scored: Sequence[ScoredEpisode]) -> tuple[str, ...]:
    """Title at each frame: how many have succeeded so far, where the environment says so."""
    if any(one.episode.is_success is None for one in scored):
        return (f"generation {generation}, {len(scored)} candidates",)
    finishes = [len(one.fitness) - 1 for one in scored if one.episode.is_success]
    counts = (sum(last <= number for last in finishes) for number in range(max(len(one.fitness) for one in scored)))
    return tuple(f"generation {generation}: {count} of {len(scored)} finish" for count in counts)


def _best(scored: Sequence[ScoredEpisode]) -> list[float | None]:
    """The best fitness at each frame; None where one of them is not known."""
    frames = range(max(len(one.fitness) for one in scored))
    columns = [[at_frame(one.fitness, number) for one in scored] for number in frames]
    known = [[value for value in column if value is not None] for column in columns]
    return [max(values) if len(values) == len(scored) else None for values in known]


def readout(renderer: Renderer, scored: ScoredEpisode) -> tuple[str, ...]:
    """What an environment's ``readout`` asks for, at each frame: time, or distance from the start and mean speed [SI].

    The speed is that of the last second.
    """
    kind, frames = getattr(renderer.free_camera, "readout", None), len(scored.cameras)
    steps_a_second = renderer.rate * renderer.every / renderer.scene.speed
    seconds = np.minimum(renderer.every * np.arange(1, frames + 1), scored.episode.length) / steps_a_second
    if kind == "time":
        return tuple(f"{each:.1f} s" for each in seconds)
    if kind != "distance":
        return ()
    places = np.array([camera.target[:2] for camera in scored.cameras])
    before = np.searchsorted(seconds, seconds - 1.0).clip(max=np.arange(frames))
    lengths = np.linalg.norm(places - places[before], axis=1)
    speeds = np.divide(lengths, seconds - seconds[before], out=np.zeros(frames), where=seconds > seconds[before])
    ways = np.linalg.norm(places - places[0], axis=1)
    return tuple(f"{way:.1f} m   {each:.1f} m/s" for way, each in zip(ways, speeds, strict=True))


def inset(
    renderer: Renderer, cameras: Sequence[Camera], everywhere: Sequence[Camera], seed: int, size: tuple[int, int]
) -> Inset | None:
    """A map, if the camera goes along with the player and never sees where it, or another from its start, goes to.

    Args:
        renderer: the renderer, whose environment is reset for the map.
        cameras: the environment's own camera at each frame of an episode.
        everywhere: all cameras whose pictures the map contains.
        seed: the episode's seed.
        size: width and height of the film's pictures [pixels].
    """
    env = renderer.free_camera
    if env is None or not cameras or getattr(env, "readout", None) == "distance":
        return None
    above = camera_above(everywhere, size)
    if above is None:
        return None
    env.reset(seed=seed)
    width = size[0] // _MAP
    height = round(width * size[1] / size[0])
    picture = np.asarray(Image.fromarray(env.picture(above)).resize((width, height), Image.Resampling.BOX))
    targets = np.array([(*camera.target, 1.0) for camera in cameras])
    x, y, w = View.of(above, (width, height)).to_pixels @ targets.T
    return Inset(picture=picture, places=tuple(zip((x / w).tolist(), (y / w).tolist(), strict=True)))
