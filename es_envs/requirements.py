"""Requirements of distributions that are not installed."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution


def missing(name: str, extra: str = "", seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[str]:
    """Requirements of a distribution that are missing, or installed in another version, including those of extras.

    Args:
        name: the distribution's name.
        extra: an extra whose requirements are added; empty: none.
        seen: pairs of name and extra to leave out, since they are being checked already.

    Raises:
        PackageNotFoundError: the distribution itself is not installed.
        InvalidRequirement: a requirement cannot be parsed.
    """
    from packaging.requirements import Requirement

    seen |= {(name, extra)}
    for requirement in map(Requirement, distribution(name).requires or ()):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        try:
            version = distribution(requirement.name).version
        except PackageNotFoundError:
            yield f"{requirement.name}{requirement.specifier}"
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            yield f"{requirement.name}{requirement.specifier}"
        for each in sorted(requirement.extras):
            if (requirement.name, each) not in seen:
                yield from missing(requirement.name, each, seen)
