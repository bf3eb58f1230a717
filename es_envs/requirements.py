"""Requirements of distributions that are not installed."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec

from es_envs.distributions import distributions_of, version_of
from es_envs.wheels import BULLET


def missing(name: str, extra: str = "", seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[str]:
    """Requirements of a distribution that are missing, or installed in another version, including those of extras.

    Bullet is not missing where the module pybullet can be found, whichever distribution contains it.

    Args:
        name: the distribution's name.
        extra: an extra whose requirements are added; empty: none.
        seen: pairs of name and extra to leave out, since they are being checked already.

    Raises:
        PackageNotFoundError: the distribution itself is not installed.
        InvalidRequirement: a requirement cannot be parsed.
        Exception: the distribution's metadata cannot be read.
    """
    from packaging.requirements import Requirement

    seen |= {(name, extra)}
    if (name, extra) == ("es-envs", "bullet") and find_spec("pybullet") is None:
        yield BULLET[0]  # whatever the markers say: there may be no wheel
    for requirement in map(Requirement, distribution(name).requires or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name in BULLET:
            if find_spec("pybullet") is None and name != "es-envs":
                yield BULLET[0]
            continue
        try:
            version = version_of(distribution(requirement.name))
        except PackageNotFoundError:
            version = ""
        if not (version and requirement.specifier.contains(version, prereleases=True)):
            yield f"{requirement.name}{requirement.specifier}"
        for each in sorted(requirement.extras) if version else ():
            if (requirement.name, each) not in seen:
                yield from missing(requirement.name, each, seen)


def bullet_distributions() -> list[str]:
    """Names of the installed distributions that contain the module pybullet: one, or else something is wrong."""
    return sorted(distributions_of("pybullet"))
