"""Clips of a film, whose episodes are scored beforehand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from PIL import Image

from es_core.video.camera_paths import camera_above, camera_path, is_narrow
from es_core.video.captions import Caption, Inset, Label, Legend, score_text
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.layout import Arrangement
from es_core.video.renderer import Clip, FilmOptions, Renderer, ScoredEpisode
from es_envs import Episode
from es_envs.bullet.camera import Camera, View
from es_envs.bullet.scenery import ghost_colours

_MAP = 4  # times as wide as a map is the picture


@dataclass(frozen=True, kw_only=True, eq=False)
class ScoredClip:
    """A clip with the scores of its episodes.

    Attributes:
        clip: the clip.
        scored: the episode of each of its policies.
        frames: number of frames.
        caption: its caption.
    """

    clip: Clip
    scored: tuple[ScoredEpisode, ...]
    frames: int
    caption: Caption


def score_clips(
    renderer: Renderer,
    groups: Sequence[tuple[FilmedPolicy, ...]],
    seeds: Sequence[int],
    options: FilmOptions,
    view: str | None,
) -> list[ScoredClip]:
    """Play all episodes of a film, without drawing them.

    Args:
        renderer: the renderer that plays them.
        groups: the policies of each clip; each plays every start.
        seeds: seeds of the starts.
        options: the film's options.
        view: one of ``VIEWS``; None: "fixed" for ghosts, "follow" otherwise.

    Raises:
        ValueError: the environment has its own camera.
        RolloutError: an episode failed.
    """
    if view is not None and renderer.free_camera is None:
        raise ValueError(
            f"{options.definition.label} has its own camera: camera={view!r} is for environments that can be drawn "
            "from anywhere, such as each es_envs.bullet.BulletEnv; leave it out"
        )
    posed = len(groups[0]) > 1 and renderer.free_camera is not None
    narrow = renderer.free_camera is not None and is_narrow(options.arrangement.picture)
    noted = posed or narrow or view in ("fixed", "orbit")
    mapped = renderer.free_camera is not None and view in (None, "follow") and len(groups[0]) == 1
    played = []
    for seed in seeds:
        for policies in groups:
            scored = [
                (policy, renderer.score(policy, seed, cameras=noted or mapped, poses=posed)) for policy in policies
            ]
            if options.arrangement.layout == "ghosts" and policies[0].candidate is not None:
                scored.sort(key=lambda each: each[1].episode.fitness)  # the best in front
            played.append((seed, scored))
    cameras: Iterator[tuple[Camera, ...]] = repeat(())
    if noted:
        view = view or ("fixed" if options.arrangement.layout == "ghosts" else "follow")
        everything = [one for _, scored in played for _, one in scored]
        cameras = iter(camera_path(view, everything, options.arrangement.picture, renderer.rate))
    clips = []
    for number, (seed, scored) in enumerate(played):
        clip = Clip(
            policies=tuple(policy for policy, _ in scored),
            seed=seed,
            cameras=tuple(filter(None, (next(cameras) for _ in scored))),
            poses=tuple(one.poses for _, one in scored if one.poses is not None),
        )
        caption = _caption(
            scored, options, number // len(groups) if len(seeds) > 1 else None, has_colours=bool(clip.poses)
        )
        if mapped:
            everywhere = [camera for other, [(_, one)] in played if other == seed for camera in one.cameras]
            own = scored[0][1].cameras
            caption = replace(caption, inset=inset(renderer, own, everywhere, seed, options.arrangement.size))
        clips.append(
            ScoredClip(
                clip=clip,
                scored=tuple(one for _, one in scored),
                frames=max(len(one.fitness_so_far) for _, one in scored),
                caption=caption,
            )
        )
    return clips


def _caption(
    scored: Sequence[tuple[FilmedPolicy, ScoredEpisode]], options: FilmOptions, start: int | None, *, has_colours: bool
) -> Caption:
    policies, episodes = [policy for policy, _ in scored], [one.episode for _, one in scored]
    first, is_beside = policies[0], policies[0].name is not None
    subject = "the same start" if is_beside else options.definition.id
    if start is not None:
        subject += f", start {start}"
    if options.speed != 1:
        subject += f", {options.speed:g}x speed"
    shown = decimals([value for _, one in scored for value in (*one.fitness_so_far, one.episode.fitness)])
    if len(scored) == 1:
        running = (score_text(value, shown) for value in scored[0][1].fitness_so_far[:-1])
        last = score_text(episodes[0].fitness, shown, episodes[0].ending)
        return Caption(titles=(first.title,), scores=(*running, last), subject=subject)
    fitnesses = [next(iter(episode.fitnesses)) for episode in episodes]  # the names of those that drive selection
    is_comparable = len(set(fitnesses)) == 1
    counted = [
        _counted(one, shown, "" if is_comparable else f"{fitness} ")
        for (_, one), fitness in zip(scored, fitnesses, strict=True)
    ]
    generations = [policy.generation for policy in policies]
    titles: tuple[str, ...]
    if is_beside:
        titles, names = (options.definition.id,), [policy.title for policy in policies]
    elif first.candidate is None:
        titles, names = (f"generations {min(generations)} to {max(generations)}",), [f"{g}" for g in generations]
    else:
        titles, names = _population_titles(generations[0], scored), [f"{policy.candidate}" for policy in policies]
    goals = [options.configs[policy.source].solved_at for policy in policies]
    marks = [_is_good(episode, goal) for episode, goal in zip(episodes, goals, strict=True)]
    return Caption(
        titles=titles,
        scores=_best_scores([one for _, one in scored], shown) if is_comparable else ("",),
        subject=subject,
        labels=_labels(names, counted, marks, options.arrangement),
        legend=_legend(names, policies) if has_colours and options.arrangement.layout == "ghosts" else None,
    )


def _is_good(episode: Episode, goal: float | None) -> bool | None:
    """Success or failure, as the environment says, or else the goal; None: nobody knows."""
    if episode.is_success is not None:
        return episode.is_success
    if goal is not None:
        return episode.fitness >= goal
    return False if "ending" in episode.final_info else None  # only failures have names


def _labels(
    names: Sequence[str], counted: Sequence[tuple[str, ...]], marks: Sequence[bool | None], arrangement: Arrangement
) -> tuple[Label, ...]:
    if arrangement.layout != "grid":
        return ()
    return tuple(
        Label(
            texts=tuple(f"{name}:  {text}" for text in texts),
            is_good=is_good,
            corner=corner,
            size=arrangement.picture,
        )
        for name, texts, is_good, corner in zip(names, counted, marks, arrangement.corners, strict=True)
    )


def _legend(names: Sequence[str], policies: Sequence[FilmedPolicy]) -> Legend:
    """Name each run, but of a run's generations or candidates only the first and the last one."""
    colours = ghost_colours(len(names) - 1)
    if policies[0].name is not None:
        rows = [((colour,), name) for colour, name in zip(colours, names, strict=False)]
        return Legend(rows=(*rows, ((), f"{names[-1]}, in its own colours")))
    ends = ("worst", "best") if policies[0].candidate is not None else (f"generation {names[0]}", names[-1])
    return Legend(rows=((tuple(colours), " to ".join(ends)),))


def decimals(values: Sequence[float | None]) -> int:
    """Decimals with which numbers that count up are shown, the same for all of them."""
    known = [value for value in values if value is not None]
    return 0 if all(value == round(value) for value in known) else 2


def _counted(one: ScoredEpisode, decimals: int, name: str) -> tuple[str, ...]:
    """The fitness at each frame, as text behind its name; where it could not be told, it is empty until the end."""
    values = (*one.fitness_so_far[:-1], one.episode.fitness)
    return tuple("" if value is None else f"{name}{value:z.{decimals}f}" for value in values)


def _population_titles(generation: int, scored: Sequence[tuple[FilmedPolicy, ScoredEpisode]]) -> tuple[str, ...]:
    """Title at each frame: how many have succeeded so far, where the environment says so."""
    ends = [(len(one.fitness_so_far) - 1, one.episode.is_success) for _, one in scored]
    if any(success is None for _, success in ends):
        return (f"generation {generation}, {len(scored)} candidates",)
    frames = max(last for last, _ in ends) + 1
    counts = [sum(bool(success) and last <= number for last, success in ends) for number in range(frames)]
    return tuple(f"generation {generation}: {count} of {len(scored)} finish" for count in counts)


def _best_scores(scored: Sequence[ScoredEpisode], decimals: int) -> tuple[str, ...]:
    """The best fitness at each frame; until the end, where it could not be told, nothing."""
    texts = []
    for number in range(max(len(one.fitness_so_far) for one in scored)):
        values = [
            one.fitness_so_far[number] if number + 1 < len(one.fitness_so_far) else one.episode.fitness
            for one in scored
        ]
        known = [value for value in values if value is not None]
        texts.append(f"best fitness {max(known):z.{decimals}f}" if len(known) == len(values) else "")
    return tuple(texts)


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
    if env is None or not cameras:
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
