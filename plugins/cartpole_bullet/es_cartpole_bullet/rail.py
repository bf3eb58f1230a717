"""A cart's rail: its look, and what ends an episode on it."""

from typing import ClassVar

from es_envs.bullet import MOTOR_STRENGTH, BulletEnv, pybullet

RAIL = 0.03  # height of a rail, and its width at most [m]
BED = 0.05  # [m], height of what lies under the rails

STEEL, OAK, PINE = (0.72, 0.75, 0.8, 1.0), (0.45, 0.33, 0.24, 1.0), (0.55, 0.42, 0.31, 1.0)
POST, LIMIT = (0.4, 0.44, 0.5, 1.0), (0.85, 0.3, 0.25, 1.0)


class RailEnv(BulletEnv):
    """A cart on a rail along x, which ends an episode where it leaves it.

    Attributes:
        position_limit: the rail's end, to each side of the middle [m].
        body: the body of cart and rail.
        cart: the joint by which the cart slides.
        position: where ``observe`` has seen it [m].
    """

    sky = (0.83, 0.86, 0.87, 1.0)
    variations = BulletEnv.variations | {"motor_strength": MOTOR_STRENGTH}
    position_limit: ClassVar[float]
    body: int
    cart: int
    position: float

    @property
    def is_on_rail(self) -> bool:
        """Return True if the cart is on its rail."""
        return -self.position_limit <= self.position <= self.position_limit

    @property
    def failure(self) -> str:
        """The reason for which an episode without success ended."""
        return "lost the balance" if self.is_on_rail else "left the rail"

    def push(self, velocity: tuple[float, float]) -> None:
        """Push the cart along its rail."""
        position, before, *_ = pybullet.getJointState(self.body, self.cart, physicsClientId=self.client)
        pybullet.resetJointState(self.body, self.cart, position, before + velocity[0], physicsClientId=self.client)

    def decorate_rail(self, *, spacing: float, posts: int, top: float, gauge: float) -> None:
        """Add two rails on a viaduct, whose posts at the limit are red, and lines on the ground: a cart visibly moves.

        Args:
            spacing: distance between posts, and between lines, of which the limit is a multiple [m].
            posts: number of posts to each side of the middle one.
            top: height at which wheels touch the rails [m].
            gauge: distance between the middles of the rails [m].
        """
        length, width = (2 * posts + 1) * spacing, min(RAIL, gauge / 5)
        lines = [number * spacing for number in range(-posts - 5, posts + 6)]
        self.mark_ground([(line - 0.03, -3.0, line + 0.03, 8.0) for line in lines], (0.61, 0.69, 0.73, 1.0))
        bed = top - RAIL - BED
        self.visual_box((length, gauge + 4 * width, BED), (0.0, 0.0, bed + BED / 2), OAK, stripes=(OAK, PINE))
        for side in (-1, 1):
            self.visual_box((length, width, RAIL), (0.0, side * gauge / 2, top - RAIL / 2), STEEL)
        height = bed - self.ground_height
        for number in range(-posts, posts + 1):
            colour = LIMIT if abs(abs(number) * spacing - self.position_limit) < spacing / 2 else POST
            self.visual_box((0.06, gauge, height), (number * spacing, 0.0, self.ground_height + height / 2), colour)
