"""Clips of a film, whose episodes are scored beforehand."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

from es_core.video.camera_paths import camera_path
from es_core.video.captions import Caption, Label
from es_core.video.filmed_policies import FilmedPolicy
from es_core.video.layout import corners
from es_core.video.renderer import Clip, FilmOptions, Renderer, ScoredEpisode
from es_envs.bullet.camera import Camera


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
    noted = posed or view in ("fixed", "orbit")
    played = []
    for seed in seeds:
        for policies in groups:
            scored = [(policy, renderer.score(policy, seed, cameras=noted, poses=posed)) for policy in policies]
            if options.layout == "ghosts" and policies[0].candidate is not None:
                scored.sort(key=lambda each: each[1].episode.fitness)  # the best in front
            played.append((seed, scored))
    cameras: Iterator[tuple[Camera, ...]] = repeat(())
    if noted:
        view = view or ("fixed" if options.layout == "ghosts" else "follow")
        everything = [one for _, scored in played for _, one in scored]
        cameras = iter(camera_path(view, everything, options.size, renderer.rate))
    clips = []
    for number, (seed, scored) in enumerate(played):
        clip = Clip(
            policies=tuple(policy for policy, _ in scored),
            seed=seed,
            cameras=tuple(filter(None, (next(cameras) for _ in scored))),
            poses=tuple(one.poses for _, one in scored if one.poses is not None),
        )
        longest = max(one.episode.length for _, one in scored)
        clips.append(
            ScoredClip(
                clip=clip,
                scored=tuple(one for _, one in scored),
                frames=math.ceil(longest / renderer.every),
                caption=_caption(scored, options, number // len(groups) if len(seeds) > 1 else None),
            )
        )
    return clips


def _caption(scored: Sequence[tuple[FilmedPolicy, ScoredEpisode]], options: FilmOptions, start: int | None) -> Caption:
    policies, episodes = [policy for policy, _ in scored], [one.episode for _, one in scored]
    is_beside = policies[0].name is not None
    subject = "the same start" if is_beside else options.definition.id
    if start is not None:
        subject += f", start {start}"
    if options.speed != 1:
        subject += f", {options.speed:g}x speed"
    if len(scored) == 1:
        return Caption(title=policies[0].title, score=f"fitness {episodes[0].fitness:.2f}", subject=subject)
    generations = [policy.generation for policy in policies]
    if is_beside:
        title, names = options.definition.id, [policy.title for policy in policies]
    elif policies[0].candidate is None:
        title, names = f"generations {min(generations)} to {max(generations)}", [f"{g}" for g in generations]
    else:
        title = f"generation {generations[0]}, {len(policies)} candidates"
        names = [f"{policy.candidate}" for policy in policies]
    labels = [
        Label(text=f"{name}:  {episode.fitness:.2f}", corner=corner, size=options.size)
        for name, episode, corner in zip(
            names, episodes, corners(len(scored), options.size, options.across), strict=True
        )
    ]
    is_comparable = len({config.fitness for config in options.configs}) == 1
    return Caption(
        title=title,
        score=f"best fitness {max(episode.fitness for episode in episodes):.2f}" if is_comparable else "",
        subject=subject,
        labels=tuple(labels) if options.layout == "grid" else (),
    )
