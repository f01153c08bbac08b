"""Closed proofs and their files: the standalone reader refuses what is no proof in one sentence."""

import json
import shutil
import sys
import time
from fractions import Fraction
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import covopt
from benchmarks.adversary.mutate import mutations
from covopt.certificates.leaves import Curves, field
from covopt.certificates.prove import prove, prove_in_time
from covopt.datasets import make_smooth
from covopt.errors import InputError, SolutionFileError
from covopt.limits import TimeUp
from covopt.oracles.boxes.search import box_dual_norm
from covopt.proofs import Proof
from covopt.proofs.checker.covopt_check import (
    MAGNITUDE,
    Refused,
    check_cover,
    curved,
    largest_bound,
    magnitude,
    read,
    same_table,
)
from covopt.proofs.checker.dual import Problem
from covopt.proofs.proof import sealed
from tests.cases import outside

CHECKER = Path(__file__).parents[2] / "checkers" / "covopt_check.py"
BEGINNING = '{"digest":"' + 64 * "0" + '","format":"covopt-proof","network":'


@pytest.mark.parametrize(
    "text",
    ["", "{}", 10**7 * "[", BEGINNING + 10**7 * "[", BEGINNING + 10**7 * "9", BEGINNING + "0}", "é", None],
    ids=["empty", "nothing", "deep", "deep inside", "huge integer", "names", "other letters", "huge"],
)  # fmt: skip
def test_a_damaged_file_gives_one_sentence(text, tmp_path):
    file, began = tmp_path / "proof.json", time.process_time()
    if text is None:
        with file.open("wb") as out:
            out.truncate(2**27)
    else:
        file.write_text(text, encoding="utf-8")
    found = outside(sys.executable, CHECKER, file)
    assert found.returncode == 1
    assert found.stdout.startswith("NO    ") and found.stdout.count("\n") == 1
    assert not found.stderr
    assert time.process_time() - began < 5


def test_the_checker_is_short_and_needs_the_standard_library_alone():
    lines = CHECKER.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 300
    imported = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert imported <= sys.stdlib_module_names


def multiplier(value):
    """The largest that is written in so few bits and not above a number."""
    places = max(int(value).bit_length() - 16, 0)
    return places << 16 | int(value) >> places


@pytest.mark.parametrize(
    ("box", "rows", "linear", "numbers"),
    [
        # 0.9 m + 0.6 |z| is above |u| at z = -m/2; max(4 z, 0) is no larger than 2 z²/|u|, which is taken off it
        ([(1, 1), (-1, 1)], [(-1, [0, 4000], -4000, 4000)], [900, -600], [0.5, 1e5, 0, 0, 127, 127, 0, 127, 254]),
        # 1.5 m is above |u| = √2 m; (1, 1)·u is no smaller than |u|
        ([(1, 1), (1, 1)], [], [750, 750], [0.0, 1e5, 1e5, 1.5 / 127, 0, 0]),
    ],
    ids=["a line of a row that counts negatively is below it", "a vector is no longer than one"],
)  # fmt: skip
def test_the_conditions_on_numbers_of_quadratic_leaves(box, rows, linear, numbers):
    own = SimpleNamespace(one=255, H=1000, basis=[[1, 0], [0, 1]])
    sizes = [multiplier(2 * own.one * own.H**2 * share) for share in numbers[:4]]
    assert not curved(box, rows, linear, [*sizes, *numbers[4:]], own)


def test_what_a_theorem_asks_of_its_numbers(tmp_path):
    content = covopt.min_norm([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.0], output_bias="free").prove().to_dict()
    own = read(sealed(content))
    table = tmp_path / "table.csv"
    for last, same in (("0", True), ("1", False)):
        table.write_text(f"x,y\n0,0\n1,1\n3,{last}\n")
        assert same_table(own, table) is same
    own.multipliers[0] += 1
    with pytest.raises(Refused, match="the multipliers have a sum"):
        largest_bound(own)
    fit = covopt.fit([[0.0], [1.0]], ["a", "b"], lam=0.1, loss="hinge", tol=1e-3).prove().to_dict()
    fit["theorem"]["y_unit"] = "2 1"
    with pytest.raises(Refused, match="classes of a hinge must be 1 and -1"):
        read(sealed(fit))


def test_quadratic_leaves_where_chords_come_nowhere_near(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.integers(-9, 10, (18, 8)) / 10, rng.integers(-9, 10, 18) / 10
    found = box_dual_norm(np.column_stack([X, np.ones(18)]), y, max_nodes=1000)
    assert found.upper_bound > 1.2 * abs(found.best_value)
    proof, chords = prove(Problem(X, y[:, None], 1.0), y, max_boxes=1000), []
    assert proof.lower_bound > 0.999 * 2.0 * (y @ y) / abs(found.best_value)
    check_cover(proof.own, lambda *leaf: not chords.append(leaf))  # type: ignore[func-returns-value]
    assert not chords and proof.boxes > 40
    assert proof.own.corner.bit_length() < MAGNITUDE  # else multipliers of m have no room in deep trees
    file = tmp_path / "proof.json"
    proof.save(file)
    readers = [[sys.executable, CHECKER]]
    if shutil.which("node"):
        readers.append(["node", CHECKER.with_name("verify.mjs")])
    for reader in readers:
        said = outside(*reader, file)
        assert said.returncode == 0 and f"YES   {proof.boxes} leaves" in said.stdout


def test_a_part_of_a_box_has_no_larger_bound():
    """Means of cells that grow together: bounds were 1.00, and 1.30 after ten cuts."""
    X, y = load_breast_cancer(return_X_y=True)
    X, t = X[:60, :11], 2.0 * y[:60] - 1.0
    Z = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(60)])
    dual, V = t - 0.5 * t.mean(), np.linalg.svd(Z)[2]
    rows = (Z @ V.T) * np.abs(dual)[:, None]
    rows /= np.linalg.norm(rows.sum(axis=0))
    assert Curves(rows, np.sign(dual), np.eye(12), 4).bound < 0.9


@pytest.mark.parametrize("loss", [None, "squared", "hinge"])
def test_a_proof_of_nearly_the_bound_is_smaller(loss):
    X, y = make_smooth(16)
    if loss is None:
        solution = covopt.min_norm(X, y, output_bias="penalized")
    else:
        solution = covopt.fit(X, y if loss == "squared" else np.sign(y), lam="0.1max", loss=loss)
    stated, whole, part = solution.lower_bound, solution.prove(), solution.prove(tol=1e-3)
    assert whole.lower_bound >= stated * (1.0 - 1e-9) > part.lower_bound >= stated * (1.0 - 1e-3)
    assert len(part.text) < 0.8 * len(whole.text)
    with pytest.raises(InputError, match="tol must be a number from 1e-9 to below 1"):
        solution.prove(tol=1e-10)


def test_a_search_of_quadratics_ends_with_the_bound_that_is_wanted():
    rng = np.random.default_rng(0)
    rows, signs = rng.normal(size=(12, 4)), np.sign(rng.normal(size=12))
    whole = Curves(rows, signs, np.eye(4), 30)
    wanted = 1.1 * whole.bound
    part = Curves(rows, signs, np.eye(4), 30, wanted)
    assert whole.bound < part.bound <= wanted


def test_chords_are_a_proof_where_quadratics_do_not_end_in_time(monkeypatch):
    monkeypatch.setattr("covopt.certificates.prove.Curves", Mock(side_effect=TimeUp))
    rng = np.random.default_rng(0)
    X, y = rng.integers(-9, 10, (24, 9)) / 10, rng.integers(-9, 10, 24) / 10
    options = {"network": None, "max_boxes": 10**6, "n_threads": 1, "tol": 1e-9}
    found = prove_in_time(Problem(X, y[:, None], 1.0), y, 1e9, 60.0, **options)
    assert 0.0 < found.lower_bound < 1e9 and found.boxes >= 40


def test_chords_are_a_proof_where_no_multiplier_in_integers_closes_a_leaf(monkeypatch):
    monkeypatch.setattr("covopt.certificates.leaves.field", lambda *_: 0)
    rng = np.random.default_rng(0)
    X, y = rng.integers(-9, 10, (12, 6)) / 10, rng.integers(-9, 10, 12) / 10
    found = prove(Problem(X, y[:, None], 1.0), y, max_boxes=300)
    assert found.lower_bound > 0.0 and found.own.normal_bits > 1  # of lines, which quadratics have none of
    check_cover(found.own, lambda *_: True)


@pytest.mark.parametrize("share", [1.0, 2.0**-100, 3.6e44, 1e300])
def test_a_multiplier_of_a_quadratic_leaf_stays_within_its_bits(share):
    """Rows that all but vanish on a box asked for 25 bits: the proof of a fit of 569 × 30 was refused as damaged."""
    whole = 1 << 127
    value = field(whole, share)
    assert value < 1 << MAGNITUDE
    assert (1 - 2.0**-15) * min(share * whole, 2.0**271 - 2.0**255) <= magnitude(value) <= share * whole


def test_fewer_boxes_prove_less():
    solution, bounds = covopt.min_norm(*make_smooth(30)), []
    for most in (100, 400, 100_000):
        proof = solution.prove(max_boxes=most)
        assert proof.boxes <= max(2 * most, 12)
        bounds.append(proof.lower_bound)
    assert 0.0 < bounds[0] < bounds[1] < bounds[2] == pytest.approx(solution.lower_bound, rel=1e-8)


# ---------------------------------------------------------------------- files
def test_a_closed_proof_comes_back_as_it_was(tmp_path):
    proof = covopt.min_norm([[0.0], [1.0], [2.5]], [0.0, 1.0, 0.1]).prove()
    proof.save(tmp_path / "proof.json")
    again = Proof.load(tmp_path / "proof.json")
    assert again.text == proof.text == (tmp_path / "proof.json").read_text()
    assert again.boxes == proof.boxes > 0
    assert again.own.x_unit == again.own.y_unit == Fraction(1, 10)  # of short decimals
    spaced = json.dumps(proof.to_dict(), indent=1)  # the readers refuse that; here its content is read
    (tmp_path / "proof.json").write_text(spaced)
    assert covopt.load(tmp_path / "proof.json").text == proof.text
    content = proof.to_dict()
    content["theorem"]["bound"] = "100 1"
    with pytest.raises(SolutionFileError, match="the digest is not that of the theorem"):
        Proof.from_dict(content)
    with pytest.raises(SolutionFileError, match="the bound is larger than what H gives"):
        Proof(sealed(content)).boxes  # noqa: B018


def test_damaged_files_are_one_sentence_soon(tmp_path):
    began, refused = time.process_time(), 0
    content = covopt.min_norm([[0.0], [1.0], [2.5]], [0.0, 1.0, 0.1]).prove().to_dict()
    for what, raw in islice(mutations(content, np.random.default_rng(0)), 200):
        (tmp_path / "bad.json").write_bytes(raw)
        try:
            Proof.load(tmp_path / "bad.json")
        except SolutionFileError as error:
            refused += 1
            assert "\n" not in str(error) and len(str(error)) < 500, what
    assert refused > 100
    assert time.process_time() - began < 10.0


def test_missing_and_large_files(tmp_path, monkeypatch):
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path / "none.json")
    with pytest.raises(SolutionFileError, match="cannot read"):
        Proof.load(tmp_path)
    monkeypatch.setattr("covopt.proofs.proof.LARGEST", 10)
    (tmp_path / "large.json").write_text(" " * 20)
    with pytest.raises(SolutionFileError, match="more than 10 bytes"):
        Proof.load(tmp_path / "large.json")
