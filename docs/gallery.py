"""The films of the gallery: ``python docs/gallery.py [ID ...]``.

An environment is shown by the policy that comes with it, or else by a run with its recommended settings and seed 0 that
takes one core a few minutes. A run that was interrupted goes on, and a finished one is not repeated. Without an ID, the
films that are missing are made. Beside a film, in docs/gallery, lies a JSON file with what the page says about it
(gallery_page.py), and a still, which README shows: ``--stills`` makes these of the films that are there. Where only the
look of an environment has changed, ``--keep`` takes the figures from the JSON file that is there.
"""

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
from definitions import ours
from PIL import Image

from es_core import Checkpoint, evaluate, record, train
from es_core.config.commands import changed_settings
from es_envs import EnvDefinition

FILMS = Path(__file__).parent / "gallery"
LIMITS: Mapping[str, Mapping[str, Any]] = {  # of runs that are not solved long before the usual limit
    "BallMaze-v0": {"max_steps": 640_000},
    "HumanoidBullet-v0": {"max_steps": 2_000_000},
    "PlateFigureEight-v0": {"generations": 40},
}
CHOSEN = ("seed", "hidden_sizes", "sigma", "max_steps", "eval_every")
"""Settings that were given where policies that come with environments were evolved."""
FIGURES = "training", "score", "doing nothing", "random actions"
MOMENT = 0.35  # of a film, which its still shows
SHORTEST, LONGEST, MOST_EPISODES = 4.0, 6.0, 3  # seconds of a film, and the starts that it may show to be long enough


def shown(definition: EnvDefinition, runs: Path) -> tuple[Checkpoint, dict[str, Any]]:
    """The policy of the environment's film, and what its training took."""
    if definition.pretrained:
        policy = Checkpoint.pretrained(definition.id)
        changed = changed_settings(policy.config)
        given = {name: changed[name] for name in CHOSEN if name in changed}
        return policy, {"given": given, "steps": policy.progress["total_steps"]}
    given, folder = dict(LIMITS.get(definition.id, {})), runs / definition.id
    run = train(definition.id, run_dir=folder, resume=folder.exists(), workers=1, **given)
    assert run.best is not None  # settings evaluate centres
    return run.best, {
        "given": given,
        "steps": run.history[-1].total_steps,
        "solved": run.history[-1].solved,
    }


def make_film(definition: EnvDefinition, runs: Path, *, keep: bool = False) -> None:
    """Film the environment's policy from its first unseen starts, and write down what the film shows.

    Args:
        definition: the environment.
        runs: folder of runs.
        keep: keep the figures that are there.
    """
    policy, training = shown(definition, runs)
    with closing(definition.build()) as env:
        rate = env.metadata["render_fps"]

    def seconds(episodes: int) -> float:
        return evaluate(policy, episodes=episodes, workers=1).steps / rate

    episodes = min(math.ceil(SHORTEST / seconds(1)), MOST_EPISODES)
    film = FILMS / f"{definition.id}.mp4"
    earlier = json.loads(film.with_suffix(".json").read_text(encoding="utf-8")) if keep else {}
    if keep and earlier["shots"][0]["players"][0]["parameter_hash"] != policy.parameter_hash:
        raise ValueError(f"{film.stem} has another policy than its figures are of: leave --keep out")
    speed = math.ceil(seconds(episodes) / LONGEST)
    record(policy, film, episodes=episodes, speed=speed, width=360, height=270, fps=20, workers=1)
    film.with_suffix(".png").unlink()
    described = json.loads(film.with_suffix(".json").read_text(encoding="utf-8"))
    described |= {name: earlier[name] for name in FIGURES} if keep else _figures(policy, training)
    film.with_suffix(".json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    make_still(film)


def _figures(policy: Checkpoint, training: Mapping[str, Any]) -> dict[str, Any]:
    idle = replace(policy, mean=np.zeros_like(policy.mean))
    random = Checkpoint.scripted(policy.config.env_id)
    scores = (
        evaluate(policy, workers=1),
        evaluate(idle, episodes=20, workers=1),
        evaluate(random, episodes=20, workers=1),
    )
    return dict(zip(FIGURES, (training, *(score.to_json() for score in scores)), strict=True))


def make_still(film: Path) -> None:
    """Write one moment of a film as a small picture beside it, without the caption at the bottom."""
    frames = imageio.mimread(film, memtest=False)
    picture = Image.fromarray(frames[int(MOMENT * len(frames))])
    picture.crop((0, 0, picture.width, round(0.84 * picture.height))).resize((300, 189)).save(
        film.with_suffix(".jpg"), quality=80, optimize=True
    )


def main(words: Sequence[str] | None = None) -> None:
    """Make the films that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("ids", nargs="*", metavar="ID", help="environments to film again (default: those not filmed)")
    parser.add_argument("--runs", type=Path, default=Path("runs/gallery"), help="folder of the runs (%(default)s)")
    parser.add_argument("--stills", action="store_true", help="make the stills of the films again, and no film")
    parser.add_argument("--keep", action="store_true", help="make only the films again, and keep their figures")
    options = parser.parse_args(words)
    if options.stills:
        for film in sorted(FILMS.glob("*.mp4")):
            make_still(film)
        return
    FILMS.mkdir(exist_ok=True)
    for definition in ours():
        if definition.id in options.ids or not (options.ids or (FILMS / f"{definition.id}.json").exists()):
            make_film(definition, options.runs, keep=options.keep)


if __name__ == "__main__":
    main()
