"""The other readers of closed proofs, JavaScript and Coq, say what the one in Python says."""

import copy
import json
import math
import random
import shutil
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from selenium.webdriver.support.ui import WebDriverWait

import covopt
from benchmarks.adversary.proved import forge, in_bits
from covopt.errors import InputError
from covopt.proofs.checker.covopt_check import Refused, canonical, check, curved, network_facts, read, widths
from covopt.proofs.checker.faces import square_above
from covopt.proofs.closing import Entry, encoded, entries_of
from covopt.proofs.coq import THEORY, write_coq
from covopt.proofs.proof import sealed
from tests.browser import chromium
from tests.cases import outside

CASES = {
    "interpolation": (None, "none"), "penalized": (None, "penalized"), "free": (None, "free"),
    "squared": ("squared", "none"), "squared-penalized": ("squared", "penalized"), "huber": ("huber", "penalized"),
    "hinge": ("hinge", "free"), "squared-hinge": ("squared-hinge", "none"), "weighted": ("huber", "none"),
}  # fmt: skip


@cache
def _proved(case: str, n: int, inputs: int, seed: int) -> dict:
    loss, shift = CASES[case]
    rng = np.random.default_rng(seed)
    X = (rng.permuted(np.tile(np.arange(-20, 21), (inputs, 1)), axis=1)[:, :n].T + 0.0) / 10
    y = (rng.integers(-9, 9, n) + 0.0) / 10
    if loss is None:
        return _bent(covopt.min_norm(X, y, output_bias=shift).prove().to_dict())
    y = np.where(y > 0, "yes", "no") if "hinge" in loss else y
    weights = np.arange(1.0, n + 1) if case == "weighted" else None
    options = {"lam": 0.05, "loss": loss, "output_bias": shift, "sample_weight": weights, "tol": 1e-4}
    return _bent(covopt.fit(X, y, **options).prove().to_dict())


def make_content(case: str, n: int = 6, inputs: int = 1, seed: int = 0) -> dict:
    """The content of a file."""
    return copy.deepcopy(_proved(case, n, inputs, seed))


def implied(own) -> bool:
    """Whether |G(u)| ≤ H|u| for all u, by all faces in fractions; the rest of a proof is one formula."""
    rows = np.array([[*row, own.bias, 0, 0][:3] for row in own.X], dtype=object)
    return square_above(rows, np.array(own.multipliers, dtype=object)) <= own.H**2 * (1 + Fraction(1, 10**9))


def _bent(content: dict) -> dict:
    """Quadratic leaves wherever a plain choice of their numbers closes."""
    own, bits, last = read(canonical(content)), [], len(content["proof"]["basis"]) + 1
    for entry in entries_of(own):
        numbers = None if entry.token else _numbers(*entry.state[:3], own)
        if numbers is not None:
            sizes = widths(own, entry.state[1], last)
            entry = Entry(last, entry.state, list(zip(numbers, sizes, strict=True)))  # noqa: PLW2901
        bits.append(in_bits(entry, last.bit_length()))
    content["proof"]["tree"] = encoded("".join(bits))
    return content


def _numbers(box, rows, linear, own) -> list[int] | None:
    """Signs and sizes that rows have in the middle; the same pull to the middle in all coordinates."""
    D, centre, rest = len(box), [low + high for low, high in box], []
    point = [sum(x * y for x, y in zip(centre, row, strict=True)) for row in zip(*own.basis, strict=True)]
    length = math.isqrt(sum(x * x for x in point)) + 1
    for sign, r, _, _ in rows:
        t = sum(x * y for x, y in zip(r, centre, strict=True))
        if sign > 0:
            rest.append(_field(own.one * own.H * length // (2 * abs(t) + 1) + 1))
        else:
            rest += [own.one * (t > 0), *([own.one // 2] * D)]
    arm = [own.one // 2 - (own.one // 2 - 1) * x // length for x in point]
    for k in range(0, 200, 4):
        numbers = [_field(own.one * own.H**2), *([_field(1 << k)] * D), _field(1 << k), *arm, *rest]
        if curved(box, rows, linear, numbers, own):
            return numbers
    return None


def _field(value: int) -> int:
    places = max(value.bit_length() - 16, 0)
    return places << 16 | value >> places


# -------- the other readers of closed proofs, JavaScript and Coq, say what the one in Python says.
CHECKERS = Path(__file__).parents[2] / "checkers"
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None, reason="Coq is not installed (coq, libcoq-bignums)"
)

IN_COQ = [case for case in CASES if case != "weighted"]


def sentence(text: str) -> str:
    try:
        own, leaves = check(text)
    except Refused as error:
        return f"NO    {error}"
    assert implied(own), text  # what is accepted is true
    return f"YES   {leaves} leaves, theorem {own.digest[:16]}"


@needs_node
@pytest.mark.parametrize("rounds", [23, pytest.param(1500, marks=pytest.mark.slow)])
def test_javascript_says_what_python_says(rounds, tmp_path):
    rng, files, expected = random.Random(0), [], []
    for case in CASES:
        content = make_content(case)
        texts = [sealed(content), sealed(content) + "\n", "\ufeff" + sealed(content)]
        for number, text in enumerate(texts + [forge(content, rng) for _ in range(rounds)]):
            files.append(tmp_path / f"{case}-{number}.json")
            files[-1].write_bytes(text.encode())
            expected.append(sentence(text))
    found = outside("node", CHECKERS / "verify.mjs", *files)
    lines = found.stdout.splitlines()
    assert not found.stderr and len(lines) == len(files)
    assert sum(line.startswith("YES") for line in expected) >= 2 * len(CASES)
    for file, line, told in zip(files, lines, expected, strict=True):
        if not told.startswith("NO    no JSON"):  # each language has its own words for what is no JSON
            assert line.split(": On")[0].startswith(told), file.name
        else:
            assert line.startswith("NO    "), file.name


@pytest.mark.parametrize("case", CASES)
def test_no_network_is_below_the_bound(case):
    """Interpolations have their own theorem, that |G(u)| ≤ H|u|, and no targets that a network at random meets."""
    content, rng = make_content(case), np.random.default_rng(1)
    own, _ = check(sealed(content))
    assert implied(own)
    for scale in (1, 3, 10, 30) if own.loss else ():
        hidden = rng.integers(-scale, scale + 1, (8, 2))
        shift = int(rng.integers(-scale, scale + 1)) if own.output_bias != "none" else 0
        content["network"] = {
            "hidden": [" ".join(map(str, row)) for row in hidden.tolist()], "hidden_unit": "1 10",
            "output": " ".join(map(str, rng.integers(-scale, scale + 1, 8).tolist())), "output_bias": str(shift),
            "output_unit": "1 10",
        }  # fmt: skip
        _, _, objective = network_facts(read(sealed(content)))
        assert own.bound <= objective


@pytest.fixture(scope="module")
def theory(tmp_path_factory):
    """The theory, compiled; no lemma of it is left without a proof."""
    folder = tmp_path_factory.mktemp("coq")
    write_coq(sealed(make_content("interpolation", 10)), folder)
    for name in THEORY:
        text = (folder / f"{name}.v").read_text()
        assert "Admitted" not in text and "admit" not in text
        # there: fields of a module type, proved for Z and BigZ
        assert "Axiom" not in text or name == "Reflect"
        done = coqc(name, folder)
        assert done.returncode == 0, done.stderr
    return folder


def coqc(name: str, folder: Path):
    return outside("coqc", "-R", ".", "Covopt", f"{name}.v", cwd=folder)


def ask_coq(text: str, folder: Path):
    write_coq(text, folder)
    return coqc("Check", folder)


@needs_coq
@pytest.mark.slow  # the theory alone takes twenty seconds to compile
@pytest.mark.parametrize("case", IN_COQ)
def test_coq_proves_the_bound_and_no_larger_one(case, theory):
    content = make_content(case, 10)
    found = ask_coq(sealed(content), theory)
    assert found.returncode == 0, found.stderr
    assumed = {line.split(" ")[0].split(".")[-1] for line in found.stdout.splitlines() if line[:1].isalpha()}
    ours = {"toZ_ofZ", "toZ_add", "toZ_sub", "toZ_mul", "toZ_opp", "leb_toZ"}
    assert "functional_extensionality_dep" in assumed and not assumed & ours
    top, bottom = content["theorem"]["bound"].split()
    content["theorem"]["bound"] = f"{int(top) + 1} {bottom}"
    assert sentence(sealed(content)).startswith("NO")
    assert ask_coq(sealed(content), theory).returncode != 0


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize("case", IN_COQ)
def test_coq_says_what_python_says(case, theory):
    rng, content, asked = random.Random(1), make_content(case), 0
    while asked < 12:
        text = forge(content, rng)
        try:
            read(text)
        except Refused:  # Coq reads no files
            continue
        try:
            said = ask_coq(text, theory).returncode == 0
        except InputError:  # about weights, or in wide numbers
            continue
        except Refused:  # the cover does not fit its own tree: nothing to write
            said = False
        asked += 1
        assert said == sentence(text).startswith("YES")


def test_what_coq_has_no_theorem_of_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(InputError, match="in Coq a fit's mean has equal weights; the proof has others"):
        write_coq(sealed(make_content("weighted")), tmp_path / "coq")
    assert not (tmp_path / "coq").exists()


def test_a_forger_changes_every_part():
    content, rng = make_content("huber"), random.Random(2)
    reasons = {sentence(forge(content, rng)).split(":")[0].split(" leaf ")[0] for _ in range(150)}
    assert len(reasons) > 12
    assert json.loads(sealed(content))["version"] == 2


def test_the_page_shows_the_theorem_or_what_fails(tmp_path):
    content = make_content("squared-penalized")
    content["network"] = {
        "hidden": ["1 2"], "hidden_unit": "1 10", "output": "3", "output_bias": "1", "output_unit": "1 10",
    }  # fmt: skip
    (tmp_path / "proof.json").write_text(sealed(content))
    own = read(sealed(content))
    table = [[*(own.x_unit * x for x in row), own.y_unit * y] for row, y in zip(own.X, own.Y, strict=True)]
    lines = [",".join(str(float(value)) for value in row) for row in table]
    (tmp_path / "table.csv").write_text("\n".join(["a,y", *lines]))
    (tmp_path / "other.csv").write_text("a,y\n" + "\n".join("1,2" for _ in table))
    content["proof"]["H"] = str(int(content["proof"]["H"]) // 2)
    (tmp_path / "forged.json").write_text(sealed(content))
    with chromium(390, 900) as browser:
        browser.get((CHECKERS / "verify.html").as_uri())
        choose = browser.find_element("id", "files")

        def verdict(*names):
            choose.clear()
            choose.send_keys("\n".join(str(tmp_path / name) for name in names))
            wait = WebDriverWait(browser, 30)
            wait.until(lambda page: page.find_element("id", "verdict").text[:1] in "✓✗D")
            return browser.find_element("id", "verdict").text

        assert verdict("proof.json", "table.csv") == "✓ Proved"
        assert "the mean squared loss over the 6 points" in browser.find_element("id", "theorem").text
        norm, _, attained = map(float, network_facts(own))
        assert f"norm {norm:g}" in browser.find_element("id", "facts").text
        assert f"attains {attained:.15g}" in browser.find_element("id", "facts").text
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")
        assert verdict("proof.json", "other.csv") == "✗ Not proved: the proof is about another table"
        assert verdict("forged.json") == "✗ Not proved: " + sentence(sealed(content)).removeprefix("NO    ")
        assert verdict("table.csv") == "Drop one proof, and at most one table (.csv)."
