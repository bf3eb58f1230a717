"""Links of another size: the URDF of a robot with a leg that is shorter."""

from collections.abc import Mapping

from es_envs.arguments import ArgumentError, require_one_of
from es_envs.bullet.models.markup import Node

_LENGTHS = {"box": "size", "sphere": "radius", "cylinder": "radius length", "capsule": "radius length", "mesh": "scale"}


def scale_links(root: Node, kind: str, shares: Mapping[str, float]) -> None:
    """Scale links about their joints: shapes, masses, inertias, and where the joints of what hangs on them are.

    Density stays: a mass changes with the third power of the share, an inertia with the fifth. What hangs on a link
    keeps its own size, a foot that is a link of its own, too.

    Args:
        root: the document, which is changed.
        kind: its format.
        shares: new size of a link as a share of its old one, by the link's name.

    Raises:
        ArgumentError: there is no such link, or the format is not URDF.
    """
    if kind not in {"urdf", "xacro"}:
        raise ArgumentError(
            f"{root.file}: links of another size are for URDF and xacro files, and this one is {kind.upper()}"
        )
    links = {node.get("name"): node for node in root.all("link")}
    for name, share in shares.items():
        require_one_of(f"a link of {root.file.name}", name, links)
        parts = [child for child in links[name].children if child.tag in {"inertial", "collision", "visual"}]
        for part in parts:
            for geometry in part.all("geometry"):
                for shape in geometry.children:
                    if shape.tag == "mesh":
                        shape.attributes.setdefault("scale", "1 1 1")
                    for attribute in _LENGTHS.get(shape.tag, "").split():
                        _multiply(shape, attribute, share)
            for mass in part.all("mass"):
                _multiply(mass, "value", share**3)
            for inertia in part.all("inertia"):
                for moment in inertia.attributes:
                    _multiply(inertia, moment, share**5)
        hanging = [node for node in root.all("joint") if (above := node.find("parent")) and above.get("link") == name]
        for node in (*parts, *hanging):
            for origin in node.all("origin"):
                _multiply(origin, "xyz", share)


def _multiply(node: Node, attribute: str, factor: float) -> None:
    """Multiply an attribute's numbers; what is no number is left to the reader, which says so."""
    try:
        numbers = [repr(float(text) * factor) for text in node.get(attribute).split()]
    except ValueError:
        return
    if numbers:
        node.attributes[attribute] = " ".join(numbers)
