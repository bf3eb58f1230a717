"""The look of pages: colours that can be read in light and dark, names for those who hear a page, rules for paper."""

import re
from pathlib import Path

import pytest

import es_core.reports.pages

CSS = (Path(es_core.reports.pages.__file__).parent / "templates" / "page.css").read_text(encoding="utf-8")
COLOURS = dict(re.findall(r"--([\w-]+): light-dark\((.*)\);", CSS))
TEXT = ("ink", "soft", "centre", "population", "goal", "other")
GRAPHICS = tuple(name for name in COLOURS if name.startswith("group-"))


def luminance(colour):
    """Relative luminance of "#rrggbb" (WCAG 2.2)."""
    shares = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return sum(weight * each for weight, each in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("ground", ["paper", "card"])
@pytest.mark.parametrize("name", [*TEXT, *GRAPHICS])
def test_text_and_curves_stand_out_from_their_ground(name, ground, scheme):
    front, back = (COLOURS[each].split(", ")[scheme] for each in (name, ground))
    assert contrast(front, back) >= (4.5 if name in TEXT else 3)


def test_every_colour_of_text_is_one_of_those():
    rules = CSS[CSS.index("* { box-sizing") :]
    used = set(re.findall(r"(?<![\w-])(?:color|fill): var\(--([\w-]+)\)", rules))
    assert used <= {*TEXT, *GRAPHICS, "paper", "card"}  # paper on ink, and the inside of dots


def test_paper_keeps_headings_with_what_they_head():
    paper = CSS[CSS.index("@media print") :]
    assert "break-after: avoid" in paper
    assert "orphans: 3" in paper
