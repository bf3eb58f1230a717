"""The documentation site: ``sphinx-build --fail-on-warning docs build/site``, with ``pip install -e ".[docs]"``."""

import sys
from importlib.metadata import version as version_of
from importlib.util import find_spec
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))  # for the pages that are written when the site is built

# Where links lead in the repository, and the places of these pages on the site.
PLACES = {
    "../README.md": "index.md",
    "../BENCHMARKS.md": "benchmarks.md",
    "../CONTRIBUTING.md": "contributing.md",
    "notebooks/train-to-film.ipynb": "generated/train-to-film.md",
}

project = "es-envs"
author = "The es-envs authors"
copyright = author  # noqa: A001  (Sphinx's name)
version = release = version_of(project)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["results/*/*", "notebooks/*", "generated/gallery.md", "_build"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
# PyBullet has no wheels for every Python: the reference is whole without it.
autodoc_mock_imports = [module for module in ("pybullet", "pybullet_data") if find_spec(module) is None]
autodoc_class_signature = "mixed"  # "separated" lists each class's __init__ on the page's own contents
python_maximum_signature_line_length = 88
napoleon_use_rtype = False
napoleon_use_ivar = True
copybutton_prompt_text = ">>> "
copybutton_selector = "div:not(.no-copybutton) > div.highlight > pre"

html_theme = "furo"
html_title = "es-envs"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#23568f", "color-brand-content": "#23568f"},
    "dark_css_variables": {"color-brand-primary": "#8fbbf0", "color-brand-content": "#8fbbf0"},
}
html_copy_source = False
html_static_path = ["gallery", "gallery.js", "site.css"]
html_css_files = ["site.css"]
html_js_files = ["gallery.js"]
html_favicon = "favicon.svg"

# The pages of results unfold from their table, which is read in the repository, too, where no page lies below another.
BELOW_RESULTS = "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def setup(app: Sphinx) -> None:
    """Write the pages that come from definitions before any page is read; lead links to where pages are on the site."""
    import definitions
    import gallery_page
    import notebook_pages
    import rooms

    for write in (definitions.write, gallery_page.write, notebook_pages.write, rooms.draw):
        app.connect("builder-inited", lambda app, write=write: write(Path(app.srcdir) / "generated"))
    app.connect("source-read", lead_links)


def lead_links(_app: Sphinx, page: str, source: list[str]) -> None:
    """Let links stay on the site, and the pages of results lie below their table."""
    if page == "results/README":
        source[0] += BELOW_RESULTS
    if page.startswith("results/"):
        source[0] = source[0].replace(" %", "\u00a0%")  # narrow columns part a number from its unit
    for file, place in PLACES.items():
        source[0] = source[0].replace(f"]({file}", f"]({place}")
