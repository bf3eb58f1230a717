"""What carts run on, in pictures."""

from es_envs.bullet import BulletEnv

THICKNESS = 0.05  # [m]


def decorate_rail(env: BulletEnv, limit: float, *, spacing: float, posts: int) -> None:
    """Add a rail on posts, of which those at the limit are red, and lines on the ground, so that a cart visibly moves.

    Args:
        env: the environment, in ``decorate``; the rail is at height 0.
        limit: where an episode ends, to each side [m]; a multiple of ``spacing``.
        spacing: distance between posts, and between lines [m].
        posts: number of posts to each side of the middle one.
    """
    length, height = (2 * posts + 1) * spacing, -env.ground_height - THICKNESS / 2  # from the ground to the rail
    env.visual_box((length, THICKNESS, THICKNESS), (0.0, 0.0, 0.0), (0.66, 0.69, 0.73, 1.0))
    lines = [number * spacing for number in range(-posts - 5, posts + 6)]
    env.mark_ground([(line - 0.03, -3.0, line + 0.03, 8.0) for line in lines], (0.61, 0.69, 0.73, 1.0))
    for number in range(-posts, posts + 1):
        is_limit = abs(abs(number) * spacing - limit) < spacing / 2
        colour = (0.85, 0.3, 0.25, 1.0) if is_limit else (0.45, 0.5, 0.55, 1.0)
        env.visual_box((0.06, 0.06, height), (number * spacing, 0.0, env.ground_height + height / 2), colour)
