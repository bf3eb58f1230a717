"""XML as robots are written in: read within bounds and with line numbers, repaired where Bullet is strict, and written.

No entity is ever expanded, and nothing is fetched.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat
from xml.sax.saxutils import escape

from es_envs.bullet.models.findings import Findings, UnreadableError

MOST_BYTES = 20_000_000  # of a document
_MOST_ELEMENTS = 200_000
_DEEPEST = 90  # Bullet's reader has a limit of 100
_NAMES = {"name", "link", "joint", "filename", "file"}  # attributes in which white space counts
_LONGEST_LINE = 1000  # bytes; Bullet cuts lines a little above
_MESHES = {".obj", ".stl", ".dae", ".glb", ".gltf", ".ply", ".mesh", ".msh", ".usd", ".usda", ".usdc", ".fbx"}
_MAGIC = {
    b"PK\x03\x04": "a zip archive: unpack it, and give the robot's file in it",
    b"\x1f\x8b": "compressed: unpack it first",
    b"\x7fELF": "a program",
    b"glTF": "a mesh",
    b"solid ": "a mesh",
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself: run `git lfs pull`",
}


@dataclass(slots=True)
class Node:
    """An element of a document, with the place where it stands."""

    tag: str
    attributes: dict[str, str]
    file: Path
    line: int
    children: list["Node"] = field(default_factory=list)
    text: str = ""

    def get(self, name: str, default: str = "") -> str:
        """Return an attribute without surrounding white space."""
        return self.attributes.get(name, default).strip()

    def all(self, *tags: str) -> list["Node"]:
        """Return the children that have one of these tags."""
        return [child for child in self.children if child.tag in tags]

    def find(self, path: str) -> "Node | None":
        """Return the first descendant along a path of tags, such as "inertial/mass"."""
        node: Node | None = self
        for tag in path.split("/"):
            node = next((child for child in node.children if child.tag == tag), None) if node else None
        return node

    def walk(self) -> Iterator["Node"]:
        """Go through this element and all below it."""
        left = [self]
        while left:
            node = left.pop()
            yield node
            left += reversed(node.children)

    def add(self, tag: str, *, first: bool = False, text: str = "", **attributes: str) -> "Node":
        """Add a child, in this element's place."""
        child = Node(tag, attributes, self.file, self.line, text=text)
        self.children.insert(0 if first else len(self.children), child)
        return child


def read_bytes(path: Path) -> bytes:
    """Read a file, if it can be a robot's.

    Raises:
        UnreadableError: it is something else, or too large.
        FileNotFoundError: it is not there.
    """
    if path.is_dir():
        raise UnreadableError("unreadable", path, 0, "it is a folder")
    if not path.exists():
        raise FileNotFoundError(f"no model at {path}")
    if not path.is_file():
        raise UnreadableError("unreadable", path, 0, "it is no regular file")
    if path.suffix.lower() in _MESHES:
        raise UnreadableError("unreadable", path, 0, "it is a mesh, a part of a robot: a URDF file names it in <mesh>")
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnreadableError("unreadable", path, 0, f"it cannot be opened ({error.strerror})") from error
    for magic, meaning in _MAGIC.items():
        if data.startswith(magic):
            raise UnreadableError("unreadable", path, 0, f"it is {meaning}")
    if len(data) > MOST_BYTES:
        raise UnreadableError("too-large", path, 0, f"it has more than {MOST_BYTES // 1_000_000} MB")
    return data


def parse(data: bytes, file: Path, findings: Findings) -> tuple[Node, bool]:
    """Parse a document; returns its root, and True if Bullet needs another text than this one.

    Raises:
        UnreadableError: it is no well-formed XML, defines entities, or is too large.
    """
    text = _decoded(data).replace("\ufeff", "")
    before = len(findings.found)
    long = next((number for number, line in enumerate(data.splitlines(), 1) if len(line) > _LONGEST_LINE), None)
    if long:
        findings.add("long-line", Node("", {}, file, long), f"the line has more than {_LONGEST_LINE} characters")
    if (first := re.search(r"<\?xml\s", text)) and text[: first.start()].strip():
        findings.add("text-before-declaration", Node("", {}, file, 1), "there is something before <?xml?>")
    text = _without_comments(text, file, findings)
    if declaration := re.search(r"<\?xml\s.*?\?>", text, re.DOTALL):
        text = "\n" * text.count("\n", 0, declaration.end()) + text[declaration.end() :]
    root = _tree(text, file)
    declared = {name.partition(":")[2] for node in root.walk() for name in node.attributes if name.startswith("xmlns:")}
    for node in root.walk():
        prefix, colon, _ = node.tag.partition(":")
        if colon and prefix not in declared | {"xml"}:
            findings.add("namespaces", node, f"<{node.tag}> has a prefix that is declared nowhere")
            break
    return root, len(findings.found) > before


def _decoded(data: bytes) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16", errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")


_IN_TAG = re.compile(r"\"[^\"]*\"|'[^']*'|<!--|[<>]")


def _without_comments(text: str, file: Path, findings: Findings) -> str:
    """Replace comments by their line breaks: they may stand where XML allows none, or hold two dashes."""
    parts: list[str] = []
    done, position = 0, text.find("<")
    while position >= 0:
        if text.startswith("<!--", position):
            done, position = _skip_comment(text, parts, done, position)
            position = text.find("<", position)
            continue
        if text.startswith("<![CDATA[", position):
            position = text.find("<", max(text.find("]]>", position), position + 1))
            continue
        position += 1
        while (match := _IN_TAG.search(text, position)) and match[0] not in {"<", ">"}:
            position = match.end()
            if match[0] == "<!--":
                place = Node("", {}, file, text.count("\n", 0, match.start()) + 1)
                findings.add("comment-in-tag", place, "a comment stands inside a tag")
                done, position = _skip_comment(text, parts, done, match.start())
        position = text.find("<", match.start()) if match else -1
    return "".join(parts) + text[done:]


def _skip_comment(text: str, parts: list[str], done: int, start: int) -> tuple[int, int]:
    end = text.find("-->", start + 4)
    if end < 0:  # the parser says that it does not end
        return done, len(text)
    parts += [text[done:start], "\n" * text.count("\n", start, end) or " "]
    return end + 3, end + 3


def _tree(text: str, file: Path) -> Node:
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    root = Node("", {}, file, 0)
    open_nodes, count = [root], 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        line = parser.CurrentLineNumber
        if count > _MOST_ELEMENTS or len(open_nodes) > _DEEPEST:
            message = f"it has more than {_MOST_ELEMENTS} elements, or more than {_DEEPEST} within each other"
            raise UnreadableError("too-large", file, line, message)
        node = Node(tag, attributes, file, line)
        open_nodes[-1].children.append(node)
        open_nodes.append(node)

    def end(_: str) -> None:
        open_nodes.pop()

    def characters(data: str) -> None:
        open_nodes[-1].text += data

    def entity(*_: object) -> None:
        raise UnreadableError("entities", file, parser.CurrentLineNumber, "the document defines entities")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.EntityDeclHandler = characters, entity
    # Bullet takes a bare ampersand.
    text = re.sub(r"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[\da-fA-F]+);)", "&amp;", text)
    try:
        parser.Parse(text.encode("utf-8", errors="replace"), True)
    except expat.ExpatError as error:
        if root.children and len(open_nodes) == 1:  # Bullet does not mind what stands behind the robot
            return root.children[0]
        reason = expat.errors.messages.get(error.code, str(error))
        raise UnreadableError("not-xml", file, error.lineno, f"{reason} in column {error.offset + 1}") from error
    return root.children[0]


def write(root: Node) -> str:
    """Write a document, with lines that are short enough for Bullet."""
    lines = ['<?xml version="1.0"?>']
    left: list[Node | str] = [root]
    while left:
        node = left.pop()
        if isinstance(node, str):
            lines.append(node)
            continue
        attributes = [f"{name}={_quoted(name, value)}" for name, value in node.attributes.items()]
        room = sum(map(len, attributes)) + len(node.tag)
        head = ("\n" if room > _LONGEST_LINE / 2 else " ").join([f"<{node.tag}", *attributes])
        text = escape(" ".join(node.text.split()))
        if not node.children:
            lines.append(f"{head}>{text}</{node.tag}>" if text else f"{head}/>")
            continue
        lines.append(f"{head}>{text}")
        left += [f"</{node.tag}>", *reversed(node.children)]
    return "\n".join(lines) + "\n"


def _quoted(name: str, value: str) -> str:
    text = " ".join(value.split()) if len(value) > 100 and name not in _NAMES else value
    return f'"{escape(text, {chr(34): "&quot;", chr(9): "&#9;", chr(10): "&#10;", chr(13): "&#13;"})}"'
