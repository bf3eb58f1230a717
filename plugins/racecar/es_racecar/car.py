"""The racing car of pybullet_data, which both environments drive."""

import math
from typing import Any

STEERING_HINGES = ("left_steering_hinge_joint", "right_steering_hinge_joint")
WHEELS = ("left_rear_wheel_joint", "right_rear_wheel_joint", "left_front_wheel_joint", "right_front_wheel_joint")
WHEEL_FORCE = 100.0
WHEEL_RADIUS = 0.05  # [m]
STATIC_BODIES = 2  # Bullet's collision group of fixed bodies: rays hit nothing else


def clipped(value: Any, low: float = -1.0, high: float = 1.0) -> float:
    """Clip ``value`` to a Python float, since Bullet does not take numpy scalars everywhere.

    Raises:
        ValueError: it is NaN, which Bullet would spread through the whole world.
    """
    number = float(value)
    if low <= number <= high:
        return number
    if math.isnan(number):
        raise ValueError("an action holds NaN")
    return low if number < low else high
