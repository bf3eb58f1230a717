"""The documentation site: ``sphinx-build --fail-on-warning docs build/site``, with ``pip install -e ".[docs]"``."""

import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # for the pages that are written when the site is built

# Pages that lie at the top of the repository, where links to them lead, and their places on the site.
TOP = {"../README.md": "index.md", "../BENCHMARKS.md": "benchmarks.md", "../CONTRIBUTING.md": "contributing.md"}

project = "es-envs"
author = "The es-envs authors"
copyright = author  # noqa: A001  (Sphinx's name)
version = release = version_of(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["results/*/*", "_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# PyBullet has no wheels for every Python: the reference is whole without it.
autodoc_mock_imports = [module for module in ("pybullet", "pybullet_data") if find_spec(module) is None]
autodoc_class_signature = "separated"
python_maximum_signature_line_length = 88
napoleon_use_rtype = False
napoleon_use_ivar = True
copybutton_selector = "div:not(.no-copybutton) > div.highlight > pre"

html_theme = "furo"
html_title = "es-envs"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#23568f", "color-brand-content": "#23568f"},
    "dark_css_variables": {"color-brand-primary": "#8fbbf0", "color-brand-content": "#8fbbf0"},
}
html_copy_source = False


def setup(app: Sphinx) -> None:
    """Write the pages that come from definitions before any page is read; lead links to where pages are on the site."""
    from definitions import write
    from rooms import draw

    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "generated"))
    app.connect("builder-inited", lambda app: draw(Path(app.srcdir) / "generated"))
    app.connect("source-read", lead_links)


def lead_links(_app: Sphinx, _page: str, source: list[str]) -> None:
    """Let links to the top of the repository stay on the site."""
    for file, page in TOP.items():
        source[0] = source[0].replace(f"]({file}", f"]({page}")
