from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import special_ortho_group

from covopt.errors import BudgetError, InputError
from covopt.oracles.choose import exact_oracle
from covopt.oracles.faces import FaceOracle
from covopt.oracles.orthant import OrthantOracle, all_maxima, ascend, rows_are_orthogonal
from covopt.oracles.vector import orthant_tree
from covopt.oracles.vector.doubts import settle_doubts
from covopt.oracles.vector.orthant_tree import bound_form, scan_supports
from covopt.oracles.vector_faces import VectorFaceOracle


def by_supports(form):
    """All supports one by one: the largest value of a nonnegative top eigenvector."""
    best = 0.0
    for size in range(1, len(form) + 1):
        for support in combinations(range(len(form)), size):
            values, vectors = np.linalg.eigh(form[np.ix_(support, support)])
            v = vectors[:, -1] * (1 if vectors[:, -1].sum() >= 0 else -1)
            if v.min() >= -1e-12:
                best = max(best, values[-1])
    return best


def check(rows, dual, truth=None):
    answer = OrthantOracle(rows).price(dual)
    values = np.linalg.norm(np.maximum(answer.neurons @ rows.T, 0.0) @ dual, axis=1)
    scale = np.linalg.norm(dual * np.linalg.norm(rows, axis=1)[:, None])
    assert np.allclose(np.linalg.norm(answer.neurons, axis=1), 1.0, rtol=0, atol=1e-13)
    assert np.allclose(answer.values, values, rtol=0, atol=1e-14 * scale)
    assert (np.diff(answer.values) <= 0).all()
    assert answer.exact
    assert answer.values[0] <= answer.upper_bound <= answer.values[0] * (1 + 1e-10)
    if truth is not None:
        assert answer.values[0] == pytest.approx(truth, rel=1e-11)
    return answer


@pytest.mark.parametrize(("n", "k"), [(1, 1), (2, 2), (4, 4), (6, 2), (6, 1), (8, 8), (8, 3)])
@pytest.mark.parametrize("seed", range(3))
def test_against_all_supports(n, k, seed):
    dual = np.random.default_rng(seed).standard_normal((n, k))
    check(np.eye(n), dual, np.sqrt(by_supports(dual @ dual.T)))


@pytest.mark.parametrize("seed", range(2))
def test_twenty_rows(seed):
    dual = np.random.default_rng(seed).standard_normal((20, 20))
    answer = check(np.eye(20), dual)
    drawn = np.maximum(np.random.default_rng(1).standard_normal((2000, 20)), 0.0)
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    assert np.linalg.norm(drawn @ dual, axis=1).max() <= answer.upper_bound


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_against_the_oracle_by_faces(n):
    rng = np.random.default_rng(n)
    rows = special_ortho_group.rvs(n, random_state=rng) * rng.uniform(0.2, 5.0, (n, 1))
    dual = rng.standard_normal((n, 3))
    faces = VectorFaceOracle(rows).price(dual)
    answer = check(rows, dual, faces.values[0])
    complete = OrthantOracle(rows).price(dual, complete=True)
    assert np.allclose(complete.values, faces.values, rtol=1e-9)
    assert np.allclose(complete.neurons, faces.neurons, atol=1e-6)
    assert len(answer.values) <= len(complete.values)


@pytest.mark.parametrize(("n", "r"), [(8, 3), (12, 4), (20, 6)])
def test_projections_end_at_the_root(n, r, monkeypatch):
    # every nonnegative vector of the image is a maximiser: the largest eigenvalue is the bound
    image = np.linalg.qr(np.abs(np.random.default_rng(n).standard_normal((n, r))))[0]
    monkeypatch.setattr(orthant_tree, "descend", None)
    check(np.eye(n), image @ image.T, 1.0)


@pytest.mark.parametrize("n", [4, 8, 12])
def test_the_dual_of_the_bipartite_matrix(n):
    # R₂(I, B_N) ends in the projection on the image of B_N = EᵀE
    half = n // 2
    b = np.block([[half * np.eye(half), np.ones((half, half))], [np.ones((half, half)), half * np.eye(half)]])
    values, vectors = np.linalg.eigh(b)
    image = vectors[:, values > 1e-9]
    check(np.eye(n), image @ image.T, 1.0)


@pytest.mark.parametrize("n", [2, 3, 5, 8, 12, 15])
def test_ties(n):
    check(np.eye(n), np.eye(n), 1.0)
    centred = np.eye(n) - np.ones((n, n)) / n
    # the top eigenvectors of every support are orthogonal to 1, none is nonnegative but on single rows
    form = centred @ centred.T
    check(np.eye(n), centred, np.sqrt(max(by_supports(form) if n <= 8 else 0.0, form[0, 0])))


def test_many_maximisers_of_one_value():
    # circulant forms: every maximiser comes in n rotations
    for n in (5, 9, 13):
        first = np.random.default_rng(n).standard_normal(n)
        circulant = np.array([np.roll(first, i) for i in range(n)])
        answer = check(np.eye(n), circulant)
        for shift in range(n):
            rotated = np.roll(answer.neurons[0], shift)
            assert np.abs(answer.neurons - rotated).max(axis=1).min() < 1e-7


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_integer_duals(n, seed, flat):
    rng = np.random.default_rng(seed)
    dual = rng.integers(-2, 3, (n, 2 if flat else n)).astype(float)
    if not dual.any():
        return
    check(np.eye(n), dual, np.sqrt(by_supports(dual @ dual.T)))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 6))
def test_invariances(seed, n):
    rng = np.random.default_rng(seed)
    dual, lengths = rng.standard_normal((n, 3)), rng.uniform(0.1, 10.0, (n, 1))
    plain = check(np.eye(n) * lengths, dual)
    turned = check(special_ortho_group.rvs(n, random_state=rng) * lengths, dual)
    assert turned.upper_bound == pytest.approx(plain.upper_bound, rel=1e-12)
    mixed = check(np.eye(n), 3.0 * lengths * dual @ special_ortho_group.rvs(3, random_state=rng))
    assert mixed.upper_bound == pytest.approx(3.0 * plain.upper_bound, rel=1e-12)


def test_rank_one_zero_and_sparse_duals():
    column = np.array([3.0, -12.0, 4.0, 0.0])
    check(np.eye(4), np.outer(column, [0.6, 0.8]), 12.0)
    check(np.eye(4), np.abs(column)[:, None], 13.0)
    nothing = OrthantOracle(np.eye(4)).price(np.zeros((4, 2)))
    assert nothing.values[0] == 0.0 == nothing.upper_bound


def test_ascents_stay_below_the_bound_and_never_fall():
    form = np.cov(np.random.default_rng(0).standard_normal((12, 40)))
    form /= np.trace(form)
    starts = np.maximum(np.random.default_rng(1).standard_normal((30, 12)), 0.0)
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    ends = ascend(form, starts)
    height = np.einsum("mi,ij,mj->m", ends, form, ends)
    assert (height >= np.einsum("mi,ij,mj->m", starts, form, starts) - 1e-15).all()
    order = np.argsort(-height)
    better, bound, exact = bound_form(form, ends[order])
    assert better is None
    assert exact
    assert height.max() <= bound <= height.max() + 1e-12
    maxima = all_maxima(form)
    assert np.einsum("mi,ij,mj->m", maxima, form, maxima).max() == pytest.approx(height.max(), rel=1e-12)


def test_the_tree_without_any_luck():
    # a poor start: the tree itself has to find the maximiser
    for seed in range(6):
        factor = np.random.default_rng(seed).standard_normal((9, 3))
        form = factor @ factor.T
        form /= np.trace(form)
        better, bound, exact = bound_form(form, np.eye(9)[[int(np.diag(form).argmin())]])
        truth = by_supports(form)
        assert exact
        assert truth <= bound <= truth + 1e-11
        assert better @ form @ better == pytest.approx(truth, rel=1e-12)


def test_branching_is_valid(monkeypatch):
    # without steps of the multipliers and without scans the branches alone have to do it
    monkeypatch.setattr(orthant_tree, "SCANNED_ROOT", 0)
    monkeypatch.setattr(orthant_tree, "SCANNED", 0)
    monkeypatch.setattr(orthant_tree, "STEPS", 5)
    monkeypatch.setattr(orthant_tree, "ROOT_STEPS", 1)
    for seed in range(4):
        factor = np.random.default_rng(seed).standard_normal((7, 2 + seed))
        form = factor @ factor.T
        form /= np.trace(form)
        _, bound, exact = bound_form(form, np.eye(7)[[int(np.diag(form).argmax())]])
        assert exact
        assert by_supports(form) <= bound <= by_supports(form) + 1e-10


def test_a_cut_tree_still_bounds(monkeypatch):
    monkeypatch.setattr(orthant_tree, "SCANNED_ROOT", 0)
    form = np.cov(np.random.default_rng(2).standard_normal((8, 9)))
    form /= np.trace(form)
    _, bound, exact = bound_form(form, np.eye(8)[[int(np.diag(form).argmin())]], node_limit=1)
    assert not exact
    assert bound > by_supports(form) * (1 + 1e-6)
    monkeypatch.setattr("covopt.oracles.orthant.polish", lambda form, points: np.eye(8)[:1])
    answer = OrthantOracle(np.eye(8), node_limit=1).price(np.linalg.cholesky(form))
    assert not answer.exact
    assert answer.upper_bound >= np.sqrt(by_supports(form))


def test_scans_report_doubts():
    # M = I − 11ᵀ/3: exact ties, none of whose vectors is nonnegative
    form = (np.eye(3) - np.ones((3, 3)) / 3) / 2
    best, point, closed, doubts = scan_supports(form, np.arange(3), np.arange(0), 0.0)
    assert best == pytest.approx(1 / 3)
    assert best <= closed <= best + 1e-13
    assert np.count_nonzero(point) == 1
    assert [round(top, 9) for top, _ in doubts] == [0.5]
    assert settle_doubts(best, doubts, 3) == pytest.approx(1 / 3, abs=1e-13)
    assert settle_doubts(1.0, [(2.0, 5.0)], 3) == 2.0
    assert settle_doubts(1.0, [], 3) == 1.0


def test_threshold_and_max_neurons():
    dual = np.random.default_rng(0).standard_normal((8, 8))
    everything = OrthantOracle(np.eye(8)).price(dual, complete=True)
    assert len(everything.values) > 1
    assert len(OrthantOracle(np.eye(8)).price(dual, threshold=np.inf).values) == 1
    assert len(OrthantOracle(np.eye(8)).price(dual, max_neurons=1).values) == 1
    half = OrthantOracle(np.eye(8)).price(dual, threshold=everything.values[1])
    assert half.values.min() >= everything.values[1]


def test_messages_and_choice():
    skew = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 1.0, 1.0]])
    with pytest.raises(InputError, match=r"rows 1 and 2 are not orthogonal \(cosine 0.707\)"):
        OrthantOracle(skew)
    with pytest.raises(InputError, match=r"dual must have shape \(3, k\), one row per row, got \(3,\)"):
        OrthantOracle(np.eye(3)).price(np.ones(3))
    assert rows_are_orthogonal(np.diag([1.0, 5.0]))
    assert not rows_are_orthogonal(skew)
    assert isinstance(exact_oracle(np.eye(3), 0), FaceOracle)
    assert isinstance(exact_oracle(2.0 * np.eye(3), 2), OrthantOracle)
    assert isinstance(exact_oracle(skew, 2), VectorFaceOracle)
    with pytest.raises(BudgetError, match="above the budget of 10"):
        exact_oracle(skew, 2, budget=10)
    with pytest.raises(BudgetError, match="above the budget of 10"):
        exact_oracle(np.random.default_rng(0).standard_normal((9, 3)), 0, budget=10)
    with pytest.raises(BudgetError, match="201 orthogonal rows is out of reach; it is made for at most 200"):
        exact_oracle(np.eye(201), 2)
