"""What is broken about a robot: joints that are locked, motors that are weak, links that are short."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from es_envs.arguments import ArgumentError, require_number, require_one_of

KINDS = ("locked", "weak", "short")
_EXAMPLE = 'faults must be a dict, such as {"locked": ["knee"], "weak": {"hip": 0.3}, "short": {"shin": 0.6}}'
_SHORTEST = 0.05  # share of a link, below which Bullet's contacts are unreliable


@dataclass(frozen=True, kw_only=True)
class Faults:
    """What is broken about a robot.

    Attributes:
        locked: motors whose joints are held where they are at the start, whatever the action is.
        weak: share that is left of a motor's force, from 0 to 1, by its joint's name.
        short: share that is left of a link's size, up to 1, by its name.
    """

    locked: tuple[str, ...] = ()
    weak: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    short: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def read(cls, given: object, motors: Collection[str]) -> "Faults":
        """Read the argument ``faults`` of a robot with these motors; which links there are is known to its file.

        Raises:
            ArgumentError: it is no such dict, or a name or a number is wrong; the message says what would be right.
        """
        if given is None:
            return cls()
        if not isinstance(given, Mapping):
            raise ArgumentError(f"{_EXAMPLE}, got {given!r}")
        for kind in given:
            require_one_of("a kind of faults", kind, KINDS)
        locked = given.get("locked", ())
        if isinstance(locked, str) or not isinstance(locked, Collection):
            raise ArgumentError(f"faults['locked'] must be a list of joints, such as [\"knee\"], got {locked!r}")
        weak, short = (
            _shares(kind, given.get(kind, {}), least) for kind, least in (("weak", 0.0), ("short", _SHORTEST))
        )
        for kind, names in (("locked", locked), ("weak", weak)):
            for name in names:
                require_one_of(f"faults[{kind!r}]", name, motors)
        if both := [name for name in locked if name in weak]:
            raise ArgumentError(
                f"faults: joint {both[0]!r} is locked, so it cannot be weak, too: leave one of them out"
            )
        return cls(locked=tuple(locked), weak=weak, short=short)


def _shares(kind: str, given: Any, least: float) -> Mapping[str, float]:
    if not isinstance(given, Mapping):
        raise ArgumentError(
            f'faults[{kind!r}] must be a dict of shares by name, such as {{"knee": 0.5}}, got {given!r}'
        )
    return MappingProxyType(
        {name: require_number(f"faults[{kind!r}][{name!r}]", share, least, 1.0) for name, share in given.items()}
    )
