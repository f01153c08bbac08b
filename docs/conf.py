"""The documentation site: ``sphinx-build -W -b html docs build/docs``."""

import base64
import html
import json
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from docutils.nodes import SkipNode, math, math_block, raw  # noqa: E402
from latex2mathml.converter import convert  # noqa: E402
from sphinx.util import logging  # noqa: E402
from sphinx.util.docutils import SphinxDirective  # noqa: E402
from sphinx.writers.html5 import HTML5Translator  # noqa: E402

import covopt  # noqa: E402

project = "covopt"
author = "The covopt authors"
copyright = author
release = version = covopt.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
]
templates_path = ["_templates"]
suppress_warnings = [
    "mystnb.unknown_mime_type",
    "myst.header",  # README's sections begin below the first level where a page includes them
]

html_math_renderer = "mathml"
html_theme = "furo"
html_title = "covopt"
html_show_copyright = False
html_extra_path = ["checked"]  # a page that checks proofs, and some proofs
(HERE / "checked").mkdir(exist_ok=True)
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_js_files = ["copy.js"]

myst_enable_extensions = ["dollarmath", "amsmath", "deflist"]
myst_heading_anchors = 3
# the notebooks are run by the tests; here their saved pictures are shown
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # nothing is loaded from elsewhere

autosummary_generate = True
numpydoc_show_class_members = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}


def fetch_notebooks(_app: object) -> None:
    """Copy the notebooks beside the pages, where Sphinx finds them."""
    target = HERE / "gallery"
    target.mkdir(exist_ok=True)
    for notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
        shutil.copy(notebook, target / notebook.name)


class Gallery(SphinxDirective):
    """Cards of notebooks: the first picture, the title, and a sentence; a line for each, ``name: sentence``."""

    has_content = True

    def run(self) -> list[raw]:
        """Write the pictures beside the pages, and return the cards."""
        folder = Path(self.env.app.outdir) / "_images"
        folder.mkdir(parents=True, exist_ok=True)
        cards = []
        for line in self.content:
            name, text = line.split(": ", 1)
            cells = json.loads((HERE.parent / "notebooks" / f"{name}.ipynb").read_text())["cells"]
            title = "".join(cells[0]["source"]).partition("\n")[0].removeprefix("# ")
            data = (output.get("data", {}) for cell in cells for output in cell.get("outputs", ()))
            picture = next(entry["image/png"] for entry in data if "image/png" in entry)
            (folder / f"thumb-{name}.png").write_bytes(base64.b64decode("".join(picture)))
            cards.append(
                f'<a class="card" href="gallery/{name}.html">'
                f'<img src="_images/thumb-{name}.png" alt="" loading="lazy">'
                f"<strong>{html.escape(title)}</strong>{html.escape(text)}</a>"
            )
        return [raw("", f'<div class="gallery">{"".join(cards)}</div>', format="html")]


def keep_bars(_app, _what, _name, _object, _options, lines: list[str]) -> None:
    """Let |x| be an absolute value in docstrings, not a substitution."""
    indent = None  # of a displayed formula
    for i, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        if indent is not None and line.strip() and depth <= indent:
            indent = None
        if line.lstrip().startswith(".. math::"):
            indent = depth
        if indent is None and not line.lstrip().startswith((">>>", "...")):
            lines[i] = re.sub(r"(`[^`]*`)|\|", lambda found: found[1] or r"\|", line)


def skip_requests(_app, _what, name: str, _object, skip: bool, _options) -> bool:
    """Leave out the methods that scikit-learn adds to every estimator."""
    return skip or bool(re.fullmatch(r"set_\w+_request|get_metadata_routing", name))


def write_math(writer: HTML5Translator, node: math | math_block) -> None:
    """Write a formula as MathML, which browsers show without any script: the site is whole without a connection."""
    block = isinstance(node, math_block)
    text = re.sub(r"\\(?:label\{[^}]*\}|nonumber\b)", "", node.astext())
    if block:
        text = re.sub(r"\\(min|max|inf|sup)_", r"\\\1\\limits_", text)
    found = convert(text, display="block" if block else "inline")
    unknown = re.findall(r"\\[a-zA-Z]+", found)
    if unknown:
        logging.getLogger(__name__).warning("no MathML for %s in %s", unknown, text, location=node)
    style = "overflow-x: auto; overflow-y: hidden; padding: 0.5em 0"
    writer.body.append(f'<div style="{style}">{found}</div>' if block else found)
    raise SkipNode


def make_proofs(_app: object) -> None:
    """Put the page that checks proofs into the site, and three proofs to try."""
    from covopt.datasets import make_smooth

    target = HERE / "checked"
    shutil.copy(HERE.parent / "checkers" / "verify.html", target)
    line = [[x / 10] for x in range(10)]
    made = {
        "points": lambda: covopt.min_norm(line, [0.0, 0.3, 0.1, 0.4, 0.1, 0.5, 0.9, 0.2, 0.6, 0.5]),
        "smooth": lambda: covopt.min_norm(*make_smooth(60)),
        "classes": lambda: covopt.fit(line, list("aabbaabbba"), lam=0.02, loss="hinge", output_bias="free"),
    }
    for name, solve in made.items():
        if not (target / f"{name}.json").exists():
            solve().prove().save(target / f"{name}.json")


def setup(app) -> None:
    """Connect the handlers."""
    app.add_directive("gallery", Gallery)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    app.connect("builder-inited", fetch_notebooks, priority=1)
    app.connect("builder-inited", make_proofs, priority=2)
    app.connect("autodoc-process-docstring", keep_bars)
    app.connect("autodoc-skip-member", skip_requests)
