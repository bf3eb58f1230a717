"""The notebooks of docs/notebooks as pages of the site, with the outputs that are stored in them.

``python docs/notebook_pages.py`` runs the notebooks and stores their outputs.
"""

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parent / "notebooks"
DOWNLOAD = "{{download}}`This page is a notebook: {name} <../notebooks/{name}>`.\n"


def write(folder: Path) -> None:
    """Write a page for each notebook."""
    folder.mkdir(exist_ok=True)
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title, *others = [part for cell in cells for part in shown(cell)]
        page = "\n\n".join([title, DOWNLOAD.format(name=path.name), *others])
        (folder / path.with_suffix(".md").name).write_text(page + "\n", encoding="utf-8")


def shown(cell: Mapping[str, Any]) -> list[str]:
    """A cell as Markdown: its text, or its code and what that printed and displayed."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [source]
    return [f"```python\n{source}\n```", *map(as_markdown, cell["outputs"])]


def as_markdown(output: Mapping[str, Any]) -> str:
    """What a cell printed, or displayed as HTML or text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "text/html" in data:
        return f"```{{raw}} html\n{''.join(data['text/html'])}\n```"
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


def run(path: Path) -> None:
    """Run a notebook in a folder of its own, and store what its cells printed and displayed, without stderr."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(notebook, timeout=300, record_timing=False).execute(cwd=folder)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
            for data in (output.get("data", {}) for output in cell.outputs):
                if "text/html" in data:
                    data.pop("text/plain", None)  # names folders of this machine
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        run(path)
