"""What carts run on, in pictures."""

from es_envs.bullet import BulletEnv

RAIL = 0.03  # height of a rail, and its width at most [m]
BED = 0.05  # [m], height of what lies under the rails

STEEL, OAK, PINE = (0.72, 0.75, 0.8, 1.0), (0.45, 0.33, 0.24, 1.0), (0.55, 0.42, 0.31, 1.0)
POST, LIMIT = (0.4, 0.44, 0.5, 1.0), (0.85, 0.3, 0.25, 1.0)


def decorate_rail(env: BulletEnv, limit: float, *, spacing: float, posts: int, top: float, gauge: float) -> None:
    """Add two rails on a viaduct, whose posts at the limit are red, and lines on the ground: a cart visibly moves.

    Args:
        env: the environment, in ``decorate``; the rails run along x.
        limit: where an episode ends, to each side [m]; a multiple of ``spacing``.
        spacing: distance between posts, and between lines [m].
        posts: number of posts to each side of the middle one.
        top: height at which wheels touch the rails [m].
        gauge: distance between the middles of the rails [m].
    """
    length, width = (2 * posts + 1) * spacing, min(RAIL, gauge / 5)
    lines = [number * spacing for number in range(-posts - 5, posts + 6)]
    env.mark_ground([(line - 0.03, -3.0, line + 0.03, 8.0) for line in lines], (0.61, 0.69, 0.73, 1.0))
    bed = top - RAIL - BED
    env.visual_box((length, gauge + 4 * width, BED), (0.0, 0.0, bed + BED / 2), OAK, stripes=(OAK, PINE))
    for side in (-1, 1):
        env.visual_box((length, width, RAIL), (0.0, side * gauge / 2, top - RAIL / 2), STEEL)
    height = bed - env.ground_height
    for number in range(-posts, posts + 1):
        colour = LIMIT if abs(abs(number) * spacing - limit) < spacing / 2 else POST
        env.visual_box((0.06, gauge, height), (number * spacing, 0.0, env.ground_height + height / 2), colour)
