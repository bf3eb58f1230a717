"""The picture of the rooms in architecture.md, drawn from the packages themselves when the site is built."""

import ast
import re
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
WIDTH, ROW, GAP, MOST = 860, 26, 4, 95
COLOURS = {"es_core": "#dbe7f5", "es_envs": "#e3f0dc"}


def draw(folder: Path) -> None:
    """Write rooms.svg: a bar for each room, those above importing those below."""
    rooms = [(package, room) for package in ("es_core", "es_envs") for room in reversed(order()[package])]
    size = f"0 0 {WIDTH} {len(rooms) * (ROW + GAP)}"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-size="13" font-family="sans-serif">']
    for number, (package, room) in enumerate(rooms):
        y = number * (ROW + GAP)
        lines += [
            f'<rect y="{y}" width="{WIDTH}" height="{ROW}" rx="4" fill="{COLOURS[package]}"/>',
            f'<text x="10" y="{y + 18}" font-weight="600" fill="#1c2733">{package}.{room}</text>',
            f'<text x="200" y="{y + 18}" fill="#1c2733">{escape(purpose(package, room))}</text>',
        ]
    (folder / "rooms.svg").write_text("\n".join([*lines, "</svg>\n"]), encoding="utf-8")


def order() -> dict[str, list[str]]:
    """The rooms from the ground up, as the test of imports has them."""
    tree = ast.parse((ROOT / "tests" / "project" / "test_imports.py").read_text(encoding="utf-8"))
    (rooms,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "ROOMS"
    )
    names: dict[str, list[str]] = ast.literal_eval(rooms)
    return {package: [room for room in rooms if room != "__main__"] for package, rooms in names.items()}


def purpose(package: str, room: str) -> str:
    """The first sentence of a room's docstring."""
    path = ROOT / package / room
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    sentence = re.split(r"(?<=\.)\s", text.split("\n\n")[0].replace("\n", " "), maxsplit=1)[0]
    sentence = sentence.replace("``", "")
    return sentence if len(sentence) <= MOST else f"{sentence[:MOST].rpartition(' ')[0]} …"
