"""Pictures of a robot in its pose: from the front and from the side, with its joints by number."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from es_envs.bullet.camera import Camera, View
from es_envs.bullet.client import pybullet
from es_envs.bullet.robots.env import RobotEnv
from es_envs.bullet.robots.proposal import SECONDS, Proposal
from es_envs.text import printable

FRAMES_PER_SECOND = 30.0
"""Of a film."""
_SIDE, _LEGEND, _LINE, _MARGIN = 560, 250, 19, 14  # pixels
_VIEWS = {"front": 90.0, "side": 0.0}  # yaw [degrees]
_MOST_NAMES = 84
_PAPER, _INK, _FAINT, _MOTOR, _OTHER = "#ffffff", "#1d2733", "#5b6773", "#c2410c", "#64748b"


def draw_card(proposal: Proposal, file: Path, picture: Path) -> None:
    """Write a PNG file: the robot from the front and from the side, and the names of its joints.

    Args:
        proposal: the robot's constants.
        file: its model.
        picture: the PNG file.
    """
    from PIL import Image, ImageDraw, ImageFont

    kind = proposal.at_rest(file, start_noise=0.0)
    with closing(kind(render_mode="rgb_array", width=_SIDE, height=_SIDE)) as env:
        env.reset(seed=0)
        joints = _joints(env)
        panes = [(name, _pane(env, yaw, joints)) for name, yaw in _VIEWS.items()]
    columns = -(-min(len(joints), _MOST_NAMES) * _LINE // (_SIDE - 2 * _MARGIN - 2 * _LINE))
    image = Image.new("RGB", (2 * _SIDE + _LEGEND * max(1, columns), _SIDE), _PAPER)
    draw, small, bold = ImageDraw.Draw(image), ImageFont.load_default(13), ImageFont.load_default(15)
    for number, (name, (pixels, places)) in enumerate(panes):
        left = number * _SIDE
        image.paste(Image.fromarray(pixels), (left, 0))
        draw.text((left + _MARGIN, _MARGIN), name, _INK, bold)
        for (x, y), label in _apart(places):
            is_motor = joints[label - 1][0] in proposal.motors
            box = (left + x - 9, y - 9, left + x + 9, y + 9)
            draw.ellipse(box, _MOTOR if is_motor else _OTHER, _PAPER)
            draw.text((left + x, y), str(label), _PAPER, small, anchor="mm")
    left = 2 * _SIDE + _MARGIN
    draw.text((left, _MARGIN), _shown(proposal.name, 28), _INK, bold)
    rows = (_SIDE - 2 * _MARGIN - 2 * _LINE) // _LINE
    for label, (name, _) in enumerate(joints[:_MOST_NAMES]):
        x, y = left + _LEGEND * (label // rows), 2 * _MARGIN + _LINE + _LINE * (label % rows)
        draw.text((x, y), str(label + 1), _MOTOR if name in proposal.motors else _OTHER, small)
        draw.text((x + 24, y), _shown(name, 32), _INK if name in proposal.motors else _FAINT, small)
    draw.text((left, _SIDE - _MARGIN - 6), "orange: driven, grey: held or free", _FAINT, small, anchor="lm")
    image.save(picture, optimize=True)


def idle_frames(proposal: Proposal, file: Path) -> Iterator[NDArray[np.uint8]]:
    """Give the frames of a film of a robot that is left alone for some seconds."""
    with closing(proposal.at_rest(file)(render_mode="rgb_array", width=640, height=480)) as env:
        env.reset(seed=0)
        rest = np.zeros(len(env.motors), np.float32)
        for _ in range(round(SECONDS * FRAMES_PER_SECOND)):
            env.step(rest)
            frame: Any = env.render()
            yield frame


def _joints(env: RobotEnv) -> list[tuple[str, tuple[float, ...]]]:
    """Joints that move, by name, with their places in the world [m]."""
    indices = env.joints(env.body)
    return [
        (
            name,
            pybullet.getLinkState(env.body, indices[name], computeForwardKinematics=1, physicsClientId=env.client)[4],
        )
        for name in env.limits()
    ]


def _pane(
    env: RobotEnv, yaw: float, joints: list[tuple[str, tuple[float, ...]]]
) -> tuple[NDArray[np.uint8], list[tuple[float, float]]]:
    """A picture from one side, and where the joints are in it [pixels]."""
    own = env.camera()
    camera = Camera(
        target=own.target, distance=0.7 * own.distance, yaw=yaw, pitch=-8.0, field_of_view=own.field_of_view
    )
    env.camera = lambda: camera  # type: ignore[method-assign]
    pixels: Any = env.render()
    del env.camera  # the class's own again
    to_pixels = View.of(camera, (_SIDE, _SIDE)).to_pixels
    places = []
    for _, place in joints:
        x, y, w = (to_pixels @ [*place, 1.0]).tolist()
        places.append((x / w, y / w))
    return pixels, places


def _apart(places: list[tuple[float, float]]) -> Iterator[tuple[tuple[float, float], int]]:
    """Give the places of labels, moved where they would cover each other, with their numbers."""
    taken: list[tuple[float, float]] = []
    for number, (x, y) in enumerate(places, 1):
        for radius, angle in (
            (0.0, 0.0),
            *((17.0 * ring, step * 0.7854) for ring in (1, 2, 3, 4) for step in range(8)),
        ):
            here = (x + radius * np.cos(angle), y + radius * np.sin(angle))
            if all(abs(here[0] - a) + abs(here[1] - b) > 17 for a, b in taken):
                break
        taken.append(here)
        if 0 <= here[0] < _SIDE and 0 <= here[1] < _SIDE:
            yield here, number


def _shown(name: str, most: int) -> str:
    text = " ".join(printable(name).split()).encode("ascii", "replace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}~"
