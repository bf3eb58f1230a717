"""Pages: single HTML files that load nothing, in which all names from users and plugins are plain text.

Jinja escapes all values. A Content-Security-Policy forbids all scripts and styles but the page's own, and all network.
"""

import base64
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markupsafe import Markup

from es_core.files import require_folder
from es_core.formatting import counted, figures
from es_envs.registry import plain_id
from es_envs.text import printable

_FOLDER = Path(__file__).parent / "templates"

Column = Sequence[float | None]
"""One number for each point of a grid; None where there is none."""


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A curve, band, dots or line in a chart.

    Attributes:
        label: its label in the legend.
        colour: "centre", "population", "other" or "goal", "baseline-1", "baseline-2", or "group-1" to "group-8".
        grid: name of its points in ``render``'s ``grids``; None for a rule.
        values: heights of a line or of dots.
        low: lower edge of a band, or of the interval around a line.
        high: upper edge.
        rule: the height of a line across the whole chart.
        distant: the rule has its name in the chart; where it is far from all curves, the name is at the edge, and
            the curves are not squeezed to show the rule.
        dots: draw dots instead of a line.
        thin: a thin line behind the others, without an entry in the legend.
    """

    label: str
    colour: str
    grid: str | None = None
    values: Column | None = None
    low: Column | None = None
    high: Column | None = None
    rule: float | None = None
    distant: bool = False
    dots: bool = False
    thin: bool = False

    @property
    def empty(self) -> bool:
        """True if there is nothing to draw."""
        column = self.values if self.values is not None else self.low
        return self.rule is None and (column is None or all(value is None for value in column))


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Curves over one of the grids' axes, with one vertical axis.

    Attributes:
        name: part of its element's id.
        title: its title.
        note: explanation of how to read it.
        marks: its marks, from back to front.
        limits: ends of the vertical axis; None: fitted to the marks.
        percent: its values are shares, and shown in percent.
        is_diagnostic: it is for those who know the strategy: a report folds it in.
    """

    name: str
    title: str
    note: str
    marks: tuple[Mark, ...]
    limits: tuple[float, float] | None = None
    percent: bool = False
    is_diagnostic: bool = False


def render(
    template: str,
    *,
    grids: Mapping[str, Mapping[str, Column]],
    charts: Sequence[Chart],
    linked: bool,
    refresh: int | None = None,
    **values: Any,
) -> bytes:
    """Render a page, as the bytes of its file.

    Args:
        template: name of its template file.
        grids: for each name that marks use, the places of its points on those of the axes "generations", "steps",
            "seconds" and "stretches" that it has. A mark is drawn while the reader has chosen one of those.
        charts: the page's charts; those without marks are left out.
        linked: True if the page shows films that are next to it.
        refresh: seconds after which a browser loads the page again; None: never.
        **values: values of the template's variables.
    """
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"markdown": _markdown, "plain_id": plain_id, "figures": figures, "counted": counted}
    sources = {name: (_FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js")}
    own = {name: f"'sha256-{_digest(text)}'" for name, text in sources.items()}
    beside = " 'self' file:" if linked else ""
    policy = (
        f"default-src 'none'; script-src {own['page.js']}; style-src {own['page.css']}; img-src data:{beside}; "
        f"media-src data:{beside}; base-uri 'none'; form-action 'none'"
    )
    kept = [replace(chart, marks=tuple(mark for mark in chart.marks if not mark.empty)) for chart in charts]
    drawn = [chart for chart in kept if any(mark.rule is None for mark in chart.marks)]
    text = environment.get_template(template).render(
        policy=policy,
        refresh=refresh,
        style=Markup(sources["page.css"]),  # noqa: S704  (this package's own file)
        script=Markup(sources["page.js"]),  # noqa: S704
        charts=drawn,
        data=_rounded({"grids": grids, "charts": [asdict(chart) for chart in drawn]}),
        **values,
    )
    return printable(text).encode()


def require_page(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path of a page to write.

    Raises:
        ValueError: the path does not end in .html.
        FileNotFoundError: its folder does not exist.
    """
    page = Path(path).absolute()
    if page.suffix.lower() not in {".html", ".htm"}:
        raise ValueError(f"a page's name must end in .html, got {page.name!r}")
    require_folder(page, "page")
    return page


def data_url(content: bytes, kind: str) -> str:
    """The content of a file as a data URL."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _markdown(text: str) -> Markup:
    """Render a docstring as HTML: tags in it are text, and it neither links nor loads anything from elsewhere."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable(["image", "link", "autolink"])
    return Markup(parser.render(text))  # noqa: S704


def _rounded(value: Any) -> Any:
    """Round to six digits, enough for any screen, so that a page of a long run stays small; NaN becomes None."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list | tuple) else value
