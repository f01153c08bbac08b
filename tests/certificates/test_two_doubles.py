"""Multipliers of two doubles: certified as the exact sums that they are, kept in files, proved in integers."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.certify import Certifier
from covopt.certificates.dual_norms import make_dual_norm
from covopt.data import Data
from covopt.errors import SolutionFileError
from covopt.exact.far_rows import FarRows, rounded, whole, without_middle
from covopt.losses import Interpolation
from covopt.oracles.certified import certified_dual_norm
from covopt.potentials import LabelNoise
from covopt.solution import Solution
from tests.oracles.table import exact_value


@pytest.fixture(scope="module", params=["none", "penalized", "free"])
def stamps(request) -> Solution:
    rng = np.random.default_rng(0)
    x = np.sort(1.6e18 + 3e15 * rng.random(12)).round()
    return covopt.min_norm(x[:, None], rng.standard_normal(12), output_bias=request.param)


def test_stamps_have_them_and_standard_columns_do_not(stamps):
    assert stamps.status == "certified" and stamps.dual_low.any()
    assert covopt.min_norm([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5]).dual_low is None


def test_one_double_does_not_suffice(stamps):
    short = replace(stamps, dual_low=None)
    assert covopt.verify(stamps).ok
    assert "lower bound" in covopt.verify(short).failed


def test_files_keep_them(stamps):
    content = json.loads(json.dumps(stamps.to_dict()))
    assert content["schema"] == 4
    again = Solution.from_dict(content)
    assert np.array_equal(again.dual_low, stamps.dual_low)
    assert covopt.verify(again).ok
    with pytest.raises(SolutionFileError):
        Solution.from_dict(content | {"dual_low": content["dual_low"][:-1]})
    older = {name: value for name, value in content.items() if name != "dual_low"} | {"schema": 1}
    assert Solution.from_dict(older).dual_low is None


@pytest.mark.parametrize("factor", [0.0, -1.0, 2.0, 1e20, 1e300])
def test_others_are_refused(stamps, factor):
    forged = replace(stamps, dual_low=factor * stamps.dual_low)
    assert not covopt.verify(forged).ok


def test_the_exact_checker_takes_both(stamps):
    found = covopt.verify(stamps, exact=True)
    assert found.ok, found.summary()
    assert found.exact
    detail = {check.name: check.detail for check in found.checks}["exact lower bound"]
    assert "NOT exact" not in detail
    proof = stamps.prove()
    assert covopt.verify(stamps, proof=proof).ok or proof.lower_bound < stamps.lower_bound


@pytest.mark.parametrize("dimension", [2, 3, 4, 9])
def test_the_second_doubles_are_paid_for(dimension):
    """Second parts of any size: the bound is that of the sums."""
    rng = np.random.default_rng(dimension)
    rows, dual = rng.standard_normal((7, dimension)), 1e-3 * rng.standard_normal(7)
    low = rng.standard_normal(7)
    bound = certified_dual_norm(rows, dual, low=low).value
    best = max(exact_value(rows, whole(dual, low), w) for w in rng.standard_normal((400, dimension)))
    assert certified_dual_norm(rows, dual).value < best <= bound


def test_the_second_doubles_are_paid_for_with_label_noise():
    data = Data.validate([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])
    terms = {"output_bias": "none", "loss": Interpolation.of(data.Y), "lam": 1.0}
    dual_norm = make_dual_norm(data, **terms, potential=LabelNoise())
    dual = np.array([[0.0], [1.0], [2.0]])
    alone = dual_norm.bound(dual, effort=0.002).value
    assert dual_norm.bound(0.5 * dual, effort=0.002, low=0.5 * dual).value >= alone


def test_the_value_is_that_of_the_sums():
    for bias in ("none", "penalized", "free"):
        solution = covopt.min_norm([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5], output_bias=bias)
        half = 0.5 * solution.dual
        found = Certifier(solution.data, solution.network, output_bias=bias).certify(half, low=half)
        assert found.lower_bound == pytest.approx(solution.lower_bound, rel=1e-9)
        assert found.gauge == pytest.approx(solution.certificate.gauge, rel=1e-9)


def test_sums_that_do_not_vanish_are_paid_for():
    """With a free output bias: 1ᵀ(dual + low) = 1 proves nothing unless moving it is paid for."""
    solution = covopt.min_norm([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.5], output_bias="free")
    low = np.array([0.0, 0.3, 0.0])
    found = Certifier(solution.data, solution.network, output_bias="free").certify(solution.dual, low=low)
    assert found.lower_bound <= solution.cost * (1.0 + 1e-9)


def test_rounding_to_two_doubles():
    values = np.array([Fraction(1, 3), Fraction(0), Fraction(-(2**70), 7)], dtype=object)
    high, low = rounded(values)
    assert (abs(whole(high, low) - values) <= abs(values) / 2**106).all()


@pytest.mark.parametrize(("d", "k", "share"), [(1, 1, 1.0), (1, 2, 1.0), (2, 1, 1.0), (2, 1, 1e-3)])
def test_no_neuron_exceeds_the_bound_of_rows_brought_closer_and_second_doubles_are_paid_for(d, k, share):
    """Neurons with a kink among the points, at which sums cancel, in fractions."""
    rng = np.random.default_rng(k)
    rows = np.column_stack(
        [1.6e9 + rng.uniform(0.0, 1e6, 9).round(), rng.standard_normal((9, d)), np.ones(9)]
    )
    centred, dual = np.linalg.qr(rows - 1.6e9 * np.eye(1, d + 2))[0], rng.standard_normal((9, k))
    if d == 2:  # next to nothing where all rows are active
        dual -= centred @ (centred.T @ dual)
    dual = without_middle(rows, dual)[0].squeeze()
    exact, best, far = whole(share * dual, (1.0 - share) * dual), 0.0, FarRows.of(rows)
    for _ in range(200):
        row, across = far.rows[rng.integers(9)], rng.standard_normal(d + 1)
        u = np.append(-(row[1:] @ across) / row[0], across)  # silent at the row
        best = max(best, exact_value(rows, exact, far.basis @ (u / np.abs(u).max())))
    bound = certified_dual_norm(rows, share * dual, low=(1.0 - share) * dual).value
    assert best <= bound
    assert share < 1.0 or bound < 2.0 * d * best
