"""What README and the pages show on the command line is what comes out: run line by line, a folder for each page."""

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from covopt.cli import app

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/start.md", "docs/tour.md", "docs/proofs.md")
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
    "page", [pytest.param(p, marks=pytest.mark.slow) if p == "docs/tour.md" else p for p in PAGES]
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
            assert f"docs/{page.name}" in PAGES


def test_lines_that_differ_are_told():
    assert not differs("cost ‖W‖²      10.88363423", "cost ‖W‖²      10.88363424")
    assert differs("cost ‖W‖²      10.88363423", "cost ‖W‖²      10.8838")
    assert not differs("neurons        43", "neurons        60")
    assert differs("neurons        43", "width        43")
    assert differs("λ = 0.001", "λ = 0.01")
