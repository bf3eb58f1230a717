"""Mutants: single-line changes of es_core and es_envs, and which of them the tests find.

    python benchmarks/mutants.py --number 40 --seed 0
    python benchmarks/mutants.py --quick        only try it out: one mutant of es_core/statistics.py, in a copy

Run it in a clean checkout that is installed with ``pip install -e`` and in which all tests pass: it changes files in
place, runs the fast tests of the same room, then its slow ones, then all fast tests, until one fails, and puts the
files back. A mutant that no test finds is either equivalent
(no program can tell it from the original) or a gap in the tests; read it, and say which.
"""

import argparse
import ast
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from report import QUICK, arguments

ROOT = Path(__file__).parents[1]
COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}
FEW = "tests/test_statistics.py"  # that a command which is only tried out runs
FAST, SLOW = "not slow and not long", "slow and not long"
PATIENCE = 1200  # seconds: a mutant in which the tests hang for longer counts as found


@dataclass(frozen=True)
class Mutant:
    """A change: in a file, from one place to another, a new text."""

    file: Path
    first: tuple[int, int]
    last: tuple[int, int]
    text: str

    def apply(self) -> str:
        """Write the changed file; returns the line before and after."""
        lines = self.file.read_bytes().splitlines(keepends=True)
        (row, start), (end_row, end) = self.first, self.last
        before = b"".join(lines[row - 1 : end_row])
        tail = lines[end_row - 1][end:]
        after = lines[row - 1][:start] + self.text.encode() + tail
        self.file.write_bytes(b"".join([*lines[: row - 1], after, *lines[end_row:]]))
        return f"{before.decode().strip()}  ->  {after.decode().strip()}"


def mutants(file: Path) -> Iterator[Mutant]:
    """All mutants of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    passed_over = {id(inner) for node in ast.walk(tree) for part in annotations(node) for inner in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) in passed_over or getattr(node, "lineno", 0) != getattr(node, "end_lineno", 0):
            continue
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            yield between(file, node.left, node.comparators[0], f" {COMPARISONS[type(node.ops[0])]} ")
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not is_text(node):
            yield between(file, node.left, node.right, f" {OPERATORS[type(node.op)]} ")
        elif isinstance(node, ast.BoolOp) and len(node.values) == 2:
            yield between(file, *node.values, " or " if isinstance(node.op, ast.And) else " and ")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            (row, first), (_, last) = start(node), start(node.operand)
            sign = file.read_bytes().splitlines()[row - 1][first:last].decode()
            yield Mutant(file, (row, first), (row, last), sign.removeprefix("not ").removeprefix("-"))
        elif isinstance(node, ast.Constant) and type(node.value) in {int, float, bool}:
            new = repr(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
            yield Mutant(file, start(node), end(node), new)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            yield Mutant(file, start(node), end(node), "pass")


def annotations(node: ast.AST) -> list[ast.AST]:
    """Types, and what lists names only."""
    parts = [getattr(node, "annotation", None), getattr(node, "returns", None)]
    if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in {"__all__", "_HOME"}:
        parts.append(node.value)
    return [part for part in parts if part is not None]


def is_text(node: ast.BinOp) -> bool:
    """Return True if a sum joins texts or lists, where a difference would always raise."""
    return any(
        isinstance(part, ast.JoinedStr | ast.List | ast.Tuple) or is_word(part) for part in (node.left, node.right)
    )


def is_word(node: ast.AST) -> bool:
    """Return True if a node is a text."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)


def between(file: Path, left: ast.expr, right: ast.expr, text: str) -> Mutant:
    """Replace what stands between two expressions, outside their parentheses."""
    lines = file.read_bytes().splitlines()
    (row, first), (_, last) = end(left), start(right)
    gap = lines[row - 1][first:last].decode()
    closing, opening = len(gap) - len(gap.lstrip(" )")), len(gap) - len(gap.rstrip(" ("))
    kept_left, kept_right = gap[:closing].rstrip(), gap[len(gap) - opening :].lstrip()
    return Mutant(file, (row, first), (row, last), kept_left + text + kept_right)


def start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node begins: line and byte."""
    return node.lineno, node.col_offset


def end(node: ast.expr | ast.stmt) -> tuple[int, int]:
    """Where a node ends: line and byte."""
    return node.end_lineno or 0, node.end_col_offset or 0


def tests_of(file: Path, root: Path) -> Path:
    """The tests of a file's room; all of them where it has none of its own."""
    package, *rest = file.relative_to(root).parts
    room = root / "tests" / ("environments" if package == "es_envs" else rest[0])
    return room if room.is_dir() else root / "tests"


def finds(tests: Path, marks: str, root: Path) -> str:
    """The first test with these marks that fails, or nothing."""
    words = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "2", "-p", "no:cacheprovider", "--tb=no", "-m", marks]
    words.append(str(tests))
    try:
        done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return "the tests hang"
    if done.returncode in {0, 5}:  # 5: there are none
        return ""
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else (done.stdout + done.stderr).strip().splitlines()[-1]


def main() -> None:
    """Draw mutants, and print a line for each."""
    parser = arguments(__doc__)
    parser.add_argument("--number", type=int, default=1 if QUICK else 40, help="mutants (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: %(default)s)")
    parser.add_argument("--room-only", action="store_true", help="do not run all tests where those of the room pass")
    options = parser.parse_args()
    if options.quick:
        with TemporaryDirectory() as copy:
            for part in ("es_core", "es_envs", "es_envs_pytest.py", "pyproject.toml", "tests/conftest.py", FEW):
                take = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
                (Path(copy) / part).parent.mkdir(exist_ok=True)
                take(ROOT / part, Path(copy) / part)
            search(options, Path(copy), [Path(copy) / "es_core" / "statistics.py"])
        return
    if subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, check=False).returncode:
        parser.error("there are changes that are not committed: mutants would be mixed with them")
    search(options, ROOT, sorted(file for package in ("es_core", "es_envs") for file in (ROOT / package).rglob("*.py")))


def search(options: argparse.Namespace, root: Path, files: Iterable[Path]) -> None:
    """Draw mutants of these files, and see which of them the tests below ``root`` find."""
    everything = [mutant for file in files for mutant in mutants(file)]
    drawn = random.Random(options.seed).sample(everything, options.number)
    found = 0
    print(f"{len(everything)} mutants, {options.number} of them drawn with seed {options.seed}")
    for number, mutant in enumerate(drawn, 1):
        original, began = mutant.file.read_bytes(), time.monotonic()
        try:
            change = mutant.apply()
            tests = tests_of(mutant.file, root)
            test = finds(tests, FAST, root)
            if tests != root / "tests":
                test = test or finds(tests, SLOW, root)
                test = test or ("" if options.room_only else finds(root / "tests", FAST, root))
        finally:
            mutant.file.write_bytes(original)
        found += bool(test)
        where = f"{mutant.file.relative_to(root)}:{mutant.first[0]}"
        print(
            f"{number:3}  {where}  {change}\n     {test or 'NOT FOUND'}  ({time.monotonic() - began:.0f} s)", flush=True
        )
    print(f"{found} of {options.number} found")


if __name__ == "__main__":
    main()
