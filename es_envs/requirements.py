"""What distributions require, and is not installed."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution


def missing(name: str, extra: str = "", seen: frozenset[tuple[str, str]] = frozenset()) -> Iterator[str]:
    """Requirements of a distribution that are absent, or there in another version; those of extras included.

    Args:
        name: of the distribution.
        extra: of its extras, to which its other requirements are added; empty: none.
        seen: pairs of name and extra that are left out, since they are being looked at.

    Raises:
        PackageNotFoundError: the distribution itself is not installed.
        InvalidRequirement: what it says that it requires cannot be read.
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
