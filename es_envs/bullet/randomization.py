"""Domain randomisation: properties of a Bullet world that are drawn for each episode, within given ranges."""

import copy
import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from es_envs.arguments import ArgumentError, as_float, require_one_of
from es_envs.bullet.client import pybullet

PUSHES = 1.0  # pushes a second, on average


@dataclass(frozen=True)
class Variation:
    """A property that can differ from episode to episode.

    Attributes:
        meaning: what its number is, and its unit.
        nominal: its value where it is not varied.
        least: its minimum.
        most: its maximum.
        is_whole: whether it is a whole number.
    """

    meaning: str
    nominal: float = 1.0
    least: float = 0.0
    most: float = math.inf
    is_whole: bool = False

    def __post_init__(self) -> None:
        if not self.least <= self.nominal <= self.most:
            raise ValueError(
                f"the nominal value, {self.nominal:g}, must lie between least, {self.least:g}, and most, {self.most:g}"
            )


VARIATIONS: dict[str, Variation] = {
    "friction": Variation("factor of the friction of all that moves; between two such bodies it counts twice"),
    "mass": Variation("factor of the mass and inertia of all that moves", least=0.01),
    "latency": Variation("steps by which actions arrive late; until then, the first one acts", 0, is_whole=True),
    "sensor_noise": Variation("standard deviation of noise on each entry of the observation", 0),
    "push": Variation("speed of a push in a random horizontal direction, about once a second [m/s]", 0),
}
"""Properties that every ``BulletEnv`` can vary."""
MOTOR_STRENGTH = Variation("factor of the force of the motors")
"""A property of environments that scale their motors' force by ``self.varied["motor_strength"]``."""

Ranges = Mapping[str, tuple[float, float]]
Space = gymnasium.Space[Any]


def ranges(given: object, known: Mapping[str, Variation], observations: Space) -> Ranges:
    """The ranges that an argument ``randomize`` describes: by name (low, high), or a number for a fixed value.

    Raises:
        ArgumentError: it is no dict, a name is unknown, a range is not one, or these observations cannot be noisy; the
            message says what would be right.
    """
    if not isinstance(given, Mapping):
        raise ArgumentError(f'randomize must be a dict of ranges, such as {{"friction": [0.6, 1.4]}}, got {given!r}')
    for name in given:
        require_one_of("a name in randomize", name, known)
    is_image = len(observations.shape or ()) == 3 and observations.dtype == np.uint8
    if "sensor_noise" in given and (is_image or not isinstance(observations, spaces.Box)):
        raise ArgumentError(f"randomize['sensor_noise'] is for numbers in a Box, got observations {observations}")
    return {name: _range(name, value, known[name]) for name, value in given.items()}


def _range(name: str, value: object, variation: Variation) -> tuple[float, float]:
    ends = (value, value) if isinstance(value, Real) else value
    kind = "whole numbers" if variation.is_whole else "numbers"
    least, most = variation.least, variation.most
    bounds = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
    if not (isinstance(ends, Sequence) and len(ends) == 2 and all(_is_number(end, variation) for end in ends)):
        raise ArgumentError(f"randomize[{name!r}] must be two {kind} {bounds}, [low, high], got {value!r}")
    low, high = ends
    if low > high:
        raise ArgumentError(f"randomize[{name!r}] must be [low, high] with the lower number first, got {value!r}")
    return low, high


def _is_number(value: object, variation: Variation) -> bool:
    number = as_float(value)
    within = math.isfinite(number) and variation.least <= number <= variation.most
    return within and (not variation.is_whole or number.is_integer())


class Randomization:
    """The varied properties of a world.

    Args:
        client: the world, which is built.
        movable: the bodies that can move.
        variations: what can be varied.
        observations: the environment's observation space.
        period: duration of a step [s].

    Attributes:
        values: the value of each property in this episode.
    """

    def __init__(
        self,
        client: int,
        movable: Iterable[int],
        variations: Mapping[str, Variation],
        observations: Space,
        period: float,
    ) -> None:
        self._client, self._variations, self._observations, self._period = client, variations, observations, period
        self.values = {name: variation.nominal for name, variation in variations.items()}
        self._scaled = 1.0, 1.0  # friction and mass, in the world as it is
        self._dynamics = [
            (body, link, *pybullet.getDynamicsInfo(body, link, physicsClientId=client)[:3])
            for body in movable
            for link in range(-1, pybullet.getNumJoints(body, physicsClientId=client))
        ]

    def begin(self, given: Ranges, random: np.random.Generator) -> None:
        """Draw the values of an episode from a generator that it has to itself."""
        self._random, self._late = random, deque[Any]()
        for name, variation in self._variations.items():
            low, high = given.get(name, (variation.nominal, variation.nominal))
            share = random.random()  # of each name, whatever its range
            if variation.is_whole:
                self.values[name] = min(high, math.floor(low + share * (high - low + 1)))
            else:
                self.values[name] = low + share * (high - low)
        self._scale(self.values["friction"], self.values["mass"])

    def _scale(self, friction: float, mass: float) -> None:
        """Scale friction and mass of all that moves, which Bullet's saved states do not have."""
        if (friction, mass) == self._scaled:
            return
        for body, link, own_mass, own_friction, own_inertia in self._dynamics:
            pybullet.changeDynamics(body, link, lateralFriction=own_friction * friction, physicsClientId=self._client)
            if mass != self._scaled[1] and own_mass > 0:
                # First the mass: it brings an inertia of its own.
                pybullet.changeDynamics(body, link, mass=own_mass * mass, physicsClientId=self._client)
                inertia = [entry * mass for entry in own_inertia]
                pybullet.changeDynamics(body, link, localInertiaDiagonal=inertia, physicsClientId=self._client)
        self._scaled = friction, mass

    def delayed(self, action: Any) -> Any:
        """The action that arrives when this one is taken."""
        self._late.append(copy.copy(action))
        return self._late.popleft() if len(self._late) > self.values["latency"] else self._late[0]

    def push(self) -> tuple[float, float] | None:
        """The velocity [m/s] that a push gives before this step, or None."""
        speed = self.values["push"]
        if not speed or self._random.random() >= PUSHES * self._period:
            return None
        angle = self._random.uniform(0, 2 * math.pi)
        return speed * math.cos(angle), speed * math.sin(angle)

    def sensed(self, observation: Any) -> Any:
        """An observation as noisy sensors see it, within its space."""
        noise, space = self.values["sensor_noise"], self._observations
        if not noise or not isinstance(space, spaces.Box):
            return observation
        noisy = observation + self._random.normal(0.0, noise, observation.shape)
        if np.issubdtype(space.dtype, np.integer):
            noisy = np.rint(noisy)
        return np.clip(noisy, space.low, space.high).astype(space.dtype)
