"""Moments: an episode in one picture, four frames from it, of which the last one shows its end."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from io import BytesIO

from PIL import Image

from es_core.evaluation.scoring import Source, find_policy, require_same_spaces
from es_core.video.filmed_policies import policy_of
from es_core.video.layout import grid
from es_core.video.renderer import Clip, Renderer, Scene
from es_envs import Episode

_MOMENTS = 4
_SIZE = 320, 240  # pixels of a frame
_WIDTH = 640  # of the picture
_FPS = 30.0


def moments(source: Source, seeds: Sequence[int], *, trust: bool = False) -> Iterator[tuple[Episode, bytes]]:
    """Yield a policy's episode from each start, with a JPEG of four moments of it.

    Args:
        source: see ``evaluate``.
        seeds: seeds of the episodes, as in ``Episode.seed``.
        trust: allow the source to name modules outside the installed plugins.

    Raises:
        ValueError: the environment cannot render, or a name is not trusted.
        FileNotFoundError: there is no such run or checkpoint.
        RolloutError: an episode failed.
    """
    checkpoint, definition = find_policy(source, generation=None, trust=trust)
    policy = policy_of(checkpoint)
    with closing(Renderer(Scene.alone(definition, checkpoint.config, size=_SIZE, fps=_FPS))) as renderer:
        require_same_spaces(checkpoint, renderer.env)
        for seed in seeds:
            scored = renderer.score(policy, seed)
            last = len(scored.fitness) - 1
            stride = max(1, last // (_MOMENTS - 1))
            frames = list(renderer.frames(Clip(policies=(policy,), seed=seed), (last % stride, stride)))
            height, width = frames[-1].shape[:2]
            shown, file = frames[-_MOMENTS:], BytesIO()
            size = _WIDTH, round(_WIDTH * height / width)
            Image.fromarray(grid(len(shown), size).frame(shown)).save(file, "JPEG", quality=88)
            yield scored.episode, file.getvalue()
