"""Every file that the documents name exists, every link leads somewhere, and what is shown is what comes out."""

import ast
import json
import re
import shlex
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from typer.testing import CliRunner

import covopt
from covopt.cli import app

ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
NAMED = re.compile(r"`((?:covopt|tests|benchmarks|docs|notebooks)/[\w/.*-]+)`((?:,? `\w+`)*)")
LONGEST = 1500  # words, as ``wc -w`` counts them
LONG = {"CHANGELOG.md"}  # it grows
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


@cache
def names_of(file: Path) -> set[str]:
    tree = ast.parse(file.read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_short_names_what_exists_and_links_lead_somewhere(page):
    text = page.read_text()
    assert page.name in LONG or len(text.split()) <= LONGEST  # read in one sitting
    for path, functions in NAMED.findall(text):
        assert list(ROOT.glob(path.rstrip("/"))), f"{page.name} names {path}"
        if path.endswith(".py"):
            missing = set(re.findall(r"`(\w+)`", functions)) - names_of(ROOT / path)
            assert not missing, f"{page.name} names {missing} of {path}"
    for link in LINK.findall(text):  # the site has copies of the notebooks
        notebook = ROOT / "notebooks" / link.removeprefix("gallery/")
        place = notebook if link.startswith("gallery/") else page.parent / link
        assert place.exists(), f"{page.name} links to {link}"


def test_every_page_and_notebook_is_in_the_contents_and_notebooks_are_questions():
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    contents, gallery = (ROOT / "docs/index.md").read_text(), (ROOT / "docs/gallery.md").read_text()
    assert {page for page in pages if not re.search(rf"^{page}$", contents, re.MULTILINE)} == set()
    notebooks = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert set(re.findall(r"^gallery/(\w+)$", gallery, re.MULTILINE)) == notebooks
    assert set(re.findall(r"^(\w+): ", gallery, re.MULTILINE)) == notebooks
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        title = "".join(json.loads(path.read_text())["cells"][0]["source"]).split("\n")[0]
        assert title.startswith("# ") and title.endswith("?"), path.name
    # the map names enough to be one
    assert len(NAMED.findall((ROOT / "docs/statements.md").read_text())) > 50


def test_readme_has_the_two_commands_first():
    readme = (ROOT / "README.md").read_text()
    demo, tests = re.findall(r"^```sh\n(.*)\n```$", readme, re.MULTILINE)[:2]
    assert "covopt demo" in demo and "pytest" in tests
    assert readme.index(demo) < readme.index(tests) < readme.index("```sh\npython -c")


def test_the_drawing_and_the_table_name_every_room():
    text = (ROOT / "docs/architecture.md").read_text()
    table = text[text.index("## Layers") : text.index("## Rules")]
    inside = (ROOT / "covopt").iterdir()
    rooms = {path.stem for path in inside if path.suffix == ".py" or (path / "__init__.py").exists()}
    missing = {room for room in rooms - {"__init__"} if f"`{room}`" not in table}
    assert not missing


def test_the_reference_lists_every_public_name():
    listed = set(re.findall(r"^   (\w+)$", (ROOT / "docs/api.md").read_text(), re.MULTILINE))
    assert listed == set(covopt.__all__) - {"__version__"}


def test_included_sections_are_there():
    for page in (ROOT / "docs").glob("*.md"):
        for file, options in re.findall(r"```{include} (\S+)\n((?::.*\n)*)", page.read_text()):
            text = (page.parent / file).read_text()
            marks = re.findall(r':(?:start-after|end-before): "(.*)"', options)
            assert [mark for mark in marks if mark not in text] == [], page.name


def test_the_links_of_a_site_are_followed(tmp_path):
    spec = spec_from_file_location("check_links", ROOT / "docs/check_links.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here">b</a><img src="p.svg"><a href="https://else.where">x</a>'
    )
    (tmp_path / "b.html").write_text('<p id="here"></p>')
    (tmp_path / "p.svg").write_text("<svg/>")
    assert module.check(tmp_path) == []
    assert module.check(tmp_path / "nowhere") == [f"{tmp_path / 'nowhere'} has no page"]
    (tmp_path / "b.html").write_text(
        '<script src="https://cdn.example/m.js"></script><a href="a.html#gone">a</a><a href="c.html">c</a>'
    )
    assert module.check(tmp_path) == [
        "a.html links to b.html#here, which has no such place",
        "b.html links to a.html#gone, which has no such place",
        "b.html links to c.html, which is not there",
        "b.html loads https://cdn.example/m.js",
    ]


# ---- what README and the pages show on the command line is what comes out: run line by line, a folder for each page.
SHOWN = ("README.md", "docs/start.md", "docs/tour.md", "docs/proofs.md")
BLOCK = re.compile(r"^```(sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?<![\w.])[-−+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
# rounding decides them, or the clock: the same words, other numbers
FREE = re.compile(
    r"neurons|^solver|rounds|gap|interpolation|residual|dual feasible|^proved|^time s|^widths|^output|^boxes|"
    r"^squared norm after|exact lower bound"
)
RTOL = 2e-6  # of the others: the tolerance of a solve and the digits that are printed


def steps(text: str):
    """Yield commands with the lines that are shown below them, in the order of the page."""
    for kind, block in BLOCK.findall(text):
        if kind == "sh":
            if block.startswith('python -c "'):
                yield block.strip(), None
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            quoted = re.match(r'python -c "\n.*?"\n', part, re.DOTALL)
            command = quoted[0] if quoted else part.split("\n", 1)[0]
            yield command.strip(), part[len(command) :].strip("\n").splitlines()


def run(command: str) -> list[str]:
    """Run a line of a page: covopt's commands, grep behind them, and Python."""
    if command.startswith("python -c"):
        exec(shlex.split(command)[2], {})
        return []
    before, _, word = command.partition(" | grep ")
    arguments = shlex.split(before)
    assert arguments[0] == "covopt"
    done = CliRunner().invoke(app, arguments[1:])
    assert done.exit_code == 0, f"{command}: {done.stderr}"
    return [line for line in done.stdout.splitlines() if word in line]


def differs(shown: str, found: str) -> bool:
    """Whether two lines say different things."""
    if NUMBER.sub("#", shown).split() != NUMBER.sub("#", found).split():
        return True
    if FREE.search(shown):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(found), strict=True)
    values = [[float(number.replace("−", "-")) for number in pair] for pair in pairs]
    return any(abs(a - b) > RTOL * max(abs(a), abs(b)) for a, b in values)


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.slow) if p == "docs/tour.md" else p for p in SHOWN]
)
def test_what_is_shown_is_what_comes_out(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if page in ("docs/tour.md", "docs/proofs.md"):  # they go on with the table of the first page
        run(next(command for command, _ in steps((ROOT / "README.md").read_text()) if "savetxt" in command))
    if page == "docs/start.md":  # a table of one's own
        Path("mine.csv").write_text("größe;bar;y\n1,5;yes;2\n2,5;;3\n3,5;no;1\n", encoding="latin-1")
    count = 0
    for command, shown in steps((ROOT / page).read_text()):
        smaller = command.replace("make_smooth(60)", "make_smooth(12)").replace(" --plot path.png", "")
        smaller = smaller.replace("covopt path", "covopt path --n-lams 3")
        found = run(smaller if page == "docs/start.md" else command)  # which shows no numbers
        count += 1
        if shown:
            assert len(found) == len(shown), (command, found)
            for line, other in zip(shown, found, strict=True):
                assert not differs(line, other), (command, line, other)
    assert count > 1


def test_no_block_is_left_out():
    for page in (ROOT / "docs").glob("*.md"):
        if re.search(r"^```console$", page.read_text(), re.MULTILINE):
            assert f"docs/{page.name}" in SHOWN
