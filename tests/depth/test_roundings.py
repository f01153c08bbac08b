"""What rounding and inexact minimisers may cost, in fractions; two rows with biases: paths over covariances."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from covopt.data import Data
from covopt.depth import schatten_between, tree
from covopt.depth.bounds import KINDS, Asked, chain_bounds, closed_bounds
from covopt.depth.gram_cells import NOTHING, Cells, Kind, step
from covopt.depth.gram_chain import GramChain, TwoRows, gram_bound, gram_search
from covopt.depth.pairs import PairBound, recompute
from covopt.depth.tree_search import TreeSearch
from covopt.depth.two_rows import two_rows_cost
from covopt.exact.rounding import SLIP
from tests.cases import drawn
from tests.depth.bank.tables import BY_NAME, POINTS, SIGNS, known, squared
from tests.depth.test_bank_of_networks import bounds


# --------------------------------------------------------------- sums of powers of singular values
@given(
    st.floats(0.5, 1.0), st.integers(-1073, 1023), st.sampled_from([(1, 4), (1, 2), (1, 1), (2, 1), (3, 1)])
)
def test_sums_of_powers_of_any_size_are_enclosed(mantissa, exponent, power):
    size = float(np.ldexp(mantissa, exponent))
    up, down = power
    low, high = schatten_between([[size]], up / down)
    truth = Fraction(size) ** up  # to the power of down
    assert Fraction(low) ** down <= truth
    assert high == np.inf or Fraction(high) ** down >= truth
    if size ** (up / down if exponent < 0 else 0.25) > 1e-300 and exponent < 300:
        assert high - low <= 1e-12 * high


# ------------------------------------------------------------------ one and two rows
def acute_rows(seed):
    """Return a Gram matrix and products of opposite targets, small fractions."""
    rng = np.random.default_rng(seed)
    a, b = (Fraction(int(n), 64) for n in rng.integers(32, 256, 2))
    c = Fraction(int(np.sqrt(float(a * b)) * 64 * rng.uniform(0.05, 0.95)), 64)
    first, second = (Fraction(int(n), 64) for n in rng.integers(8, 512, 2))
    return (a, b, c), (first**2, second**2, -first * second)


def is_above(value, gram, squares):
    """Whether a value is above 2Σ|y_i|√(G⁻¹)_ii, the cost of two layers, compared in fractions."""
    a, b, c = gram
    det = a * b - c * c
    first, second = squares[0] * b / det, squares[1] * a / det
    rest = (Fraction(value) / 2) ** 2 - first - second  # against 2√(first·second)
    return rest > 0 and rest**2 > 4 * first * second


def test_two_acute_rows_never_cost_more_than_they_do():
    tight = 0
    for seed in range(60):
        gram, squares = acute_rows(seed)
        value = two_rows_cost(gram, squares, 2)
        assert not is_above(value, gram, squares)
        tight += is_above(value * (1 + 1e-9), gram, squares)
    assert tight > 54


@pytest.mark.parametrize("y", [1e-300, 3e-160, 1e-5, 0.3, 1e100, 1e300])
@pytest.mark.parametrize("depth", [3, 7])
def test_one_point_never_costs_more_than_it_does(depth, y):
    # L y^{2/L}: pow rounds its exponent, which for 1e-300 is 50 units of the result
    for found in closed_bounds(Data.validate([[1.0]], [y], bias=0.0), depth, "none"):
        assert (Fraction(found.value) / depth) ** depth <= Fraction(y) ** 2
        assert found.value == pytest.approx(depth * y ** (2 / depth), rel=1e-12)


def test_sizes_at_the_ends_of_double_precision():
    rng, points, targets = drawn(0, (4, 3), (4, 2))
    for depth, bias, scale in product((3, 4), (0.0, 1.0), (1e-200, 1e-20, 1e150)):
        data = [Data.validate(points, targets * c, bias=bias) for c in (1.0, scale)]
        found = [closed_bounds(d, depth, "none") for d in data]
        ours, theirs = (max(b.value for b in bounds if not b.proof.channel) for bounds in found)
        assert theirs == pytest.approx(ours * scale ** (2 / depth), rel=1e-10)
    found = closed_bounds(Data.validate([[0.0], [1.0]], [0.0, 1e-200], bias=0.0), 3, "none")
    assert found[0].value == pytest.approx(3 * 1e-200 ** (2 / 3), rel=1e-10)
    data = Data.validate(rng.standard_normal((3000, 2)), rng.standard_normal(3000), bias=0.0)  # many rows
    assert closed_bounds(data, 3, "none")[0].value > 0
    # an inner product over a tiny height
    points, targets = np.array([[1e-200]]), np.array([[1e200]])
    found = TreeSearch(np.ones((1, 1)), np.ones(1), 0.0).tree((0,), np.ones((1, 1)))
    value = KINDS["trees"].value((found,), Asked(Data.validate(points, targets, bias=0.0), 3, "none", 1e300))
    assert (Fraction(value) / 3) ** 3 <= Fraction(1e200) ** 2 / Fraction(1e-200) ** 2
    alone = recompute(PairBound(1.0, "row", (0,)), points, targets, 3, 0.0, "none")
    assert alone == pytest.approx(3 * 10.0 ** (800 / 3), rel=1e-9)


def test_rows_of_different_targets_are_not_level():
    given = BY_NAME["opposite signs, acute, biases, L = 3"]
    for rows in ((0, 1), (1, 0)):
        assert recompute(PairBound(1.0, "level", rows), given.X, given.Y, 3, 1.0, "none") == 0.0


# ------------------------------------------------------------------ boxes of sizes of layers
class OneSize:
    """A tree bound of one height for every c: min over c of c + 2⟨λ, y⟩/√c = 3·⟨λ, y⟩^{2/3}."""

    inner, best = 1.3, np.inf

    def heights(self, c):
        return np.sqrt(c[0])

    def at(self, p):
        return self.inner * p * (1.0 - 2.0**-45)


@pytest.mark.parametrize("where", [0.0, 0.3, 1.0])
def test_the_bound_over_boxes_holds_wherever_the_tangent_is_taken(monkeypatch, where):
    truth = 3.0 * OneSize.inner ** (2.0 / 3.0)
    honest = tree.Search([OneSize()], 1.0, 3, 1.0, 20.0).run(1e-5, 2000)
    assert truth * (1 - 2e-5) <= honest <= truth
    monkeypatch.setattr(tree, "minimise", lambda s, gain, low, high: low + where * (high - low))
    for boxes in (1, 30, 1000):
        assert tree.Search([OneSize()], 1.0, 3, 1.0, 20.0).run(1e-5, boxes) <= truth


@pytest.mark.parametrize("where", [0.0, 1.0])
def test_the_bound_by_duals_holds_wherever_the_tangent_is_taken(monkeypatch, where):
    given = BY_NAME["fit of 4 rows, λ = 0.03, L = 3"]
    monkeypatch.setattr(tree, "minimise", lambda s, gain, low, high: low + where * (high - low))
    bounds.cache_clear()
    assert 0.0 < max(bounds(given.name, "fit")) <= known(given.name)
    bounds.cache_clear()


@pytest.mark.parametrize("lam", [0.01, 0.3])
def test_a_dual_pays_for_a_penalised_output_bias(lam):
    # at x = 0 the output bias alone costs λ/(1 + λ); through the hidden layers it is more
    data = Data.validate([[0.0]], [1.0], bias=1.0, interpolates=False)
    search = TreeSearch(data.lifted, np.ones(1), 1.0)
    search.use(0.5)
    found = search.tree((0,), np.ones((1, 1)))
    value = KINDS["trees"].value((found,), Asked(data, 3, "penalized", 1.0, squared(data.Y), lam))
    assert 0.9 * lam / (1.0 + lam) < value <= lam / (1.0 + lam)


# ------------------------------------------------------------------ heights of families


# ---- two rows with biases: shortest paths over cells of covariances are exact, and no tree makes them more.
def one_neuron(points, y, depth):
    """Return the least norm of one neuron a layer, on at both rows: y = A_1(w·x) + ΣA_ℓ b_ℓ, A_ℓ = a_{ℓ+1} … a_L."""

    def cost(logs):
        squares = np.exp(logs)
        products = np.cumprod(squares[::-1])[::-1]
        gram = products[0] * points @ points.T + products.sum()
        return squares.sum() + y @ np.linalg.solve(gram, y)

    return float(minimize(cost, np.zeros(depth - 1), method="BFGS", tol=1e-12).fun)


@pytest.mark.parametrize("depth", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 6))])
def test_targets_of_one_sign_cost_what_one_neuron_a_layer_does(depth):
    y = np.array([0.7, 1.0])
    truth = one_neuron(POINTS, y, depth)
    data = Data.validate(POINTS, y, bias=1.0)
    upper = truth * (1.0 + 1e-9)
    (bound,) = chain_bounds(data, depth, "none", upper=upper, closed=closed_bounds(data, depth, "none"))
    assert truth * (1.0 - 1e-6) <= bound.value <= truth * (1.0 + 1e-9)


def state(rng, low, high):
    """Return M and B = M⁻¹ of a state of a cell: two points, their line, and its foot c·D from their middle."""
    alpha, c, v = rng.uniform(low, high)
    place, apart, square = -c / np.sqrt(alpha), 1.0 / np.sqrt(alpha), 1.0 / v
    first, second = place + 0.5 * apart, place - 0.5 * apart
    M = np.array([[square + first**2, square + first * second], [0.0, square + second**2]])
    M[1, 0] = M[0, 1]
    return M, np.linalg.inv(M)


def coordinates(B):
    return np.array([0.25 * (B[0, 0] + B[1, 1]) - 0.5 * B[0, 1], B.sum(), 0.5 * (B[0, 0] - B[1, 1])])


def test_a_step_into_a_cell_is_below_every_state_in_it():
    rng = np.random.default_rng(3)
    task = TwoRows(POINTS, SIGNS, 3, 1.0, "penalized", 20.0)  # what is left to pay is Tr YYᵀB
    ends, met, tight = np.empty(8), 0, 0
    for _ in range(300):
        low = np.array([rng.uniform(0.1, 2.0), rng.uniform(-1.0, 0.8), rng.uniform(0.2, 0.9)])
        width = 10.0 ** -rng.uniform(0.0, 3.0)
        high = np.minimum(low * [1.0 + width, 1.0, 1.0 + width] + [0.0, width, 0.0], [np.inf, np.inf, 1.0])
        cells = Cells(low, high, 1.0)
        cells.cells["left"] = task.last(cells.cells["points"])
        _, before = state(rng, [0.1, -1.0, 0.2], [2.0, 1.0, 1.0])
        bound = step(coordinates(before), cells.cells, 0, ends)
        for _ in range(20):
            M, B = state(rng, low, high)
            if M[0, 1] < 1.0:
                continue
            met += 1
            cost = np.sum((M - 1.0) * before) + float(SIGNS[:, 0] @ B @ SIGNS[:, 0])
            assert bound <= cost * (1.0 + 1e-11)
            tight += width < 0.01 and bound >= cost * (1.0 - 5.0 * width)
        if bound >= NOTHING:
            assert cells.cells["kind"][0] != Kind.INSIDE
    assert met > 1000 and tight > 300


def test_a_step_into_a_cell_of_one_state_is_below_its_cost_in_fractions():
    rng = np.random.default_rng(4)
    ends, near = np.empty(8), 0
    for _ in range(300):
        at = np.array([rng.uniform(0.1, 2.0), rng.uniform(-1.0, 1.0), rng.uniform(0.2, 0.9)])
        cells = Cells(at, at, 1.0)
        u, v, w = (float(x) for x in (rng.uniform(0.5, 2.0), rng.uniform(0.2, 1.0), rng.uniform(-0.3, 0.3)))
        if cells.cells["kind"][0] == Kind.INFEASIBLE:
            continue
        bound = step(np.array([u, v, w]), cells.cells, 0, ends)
        a, c, below = map(Fraction, at.tolist())
        m1, m2, m3 = 1 / a, -c / a, (a + c * c * below) / (a * below)
        cost = Fraction(u) * m1 + 2 * Fraction(w) * m2 + Fraction(v) * (m3 - 1)
        assert Fraction(bound) <= cost
        near += bound >= float(cost) * (1.0 - 2.0**10 * SLIP)
    assert near > 150


@pytest.mark.parametrize(
    "name", ["opposite signs, acute, biases, L = 3", "opposite signs, acute, biases, penalized, L = 3"]
)
def test_no_tree_makes_the_bound_more_than_the_best_network(name, monkeypatch):
    given, truth, most = BY_NAME[name], float(known(name)), 200
    table, rng = (given.X, given.Y, given.depth, 1.0, given.output_bias), np.random.default_rng(5)
    for _ in range(6):
        layers = TwoRows(*table, 30.0).cells()
        for layer in layers:
            for _ in range(6):
                leaves = np.flatnonzero(layer.cells["child"] == 0)
                some = leaves[rng.uniform(size=len(leaves)) < 0.7]
                layer.halve(some, rng.integers(0, 3, len(some)))
        trees = tuple(layer.written() for layer in layers)
        assert gram_bound(GramChain((0, 1), trees), *table, cutoff=30.0) <= truth
    # the last round of a search goes beyond the number of cells that ends it, and what it wrote is read
    monkeypatch.setattr("covopt.depth.gram_cells.MOST_CELLS", most)
    value, chain = gram_search((0, 1), *table, upper=1.001 * truth, goal=1e-9, most=most)
    assert max(map(len, chain.trees)) > most
    again = gram_bound(chain, *table, cutoff=1.001 * truth)
    assert 0.5 * truth < value * (1.0 - 1e-9) <= again <= truth


def test_rows_of_huge_or_tiny_numbers_are_left_to_other_bounds():
    for points, targets in ((1e200 * POINTS, SIGNS), (POINTS, 1e-200 * SIGNS), (POINTS, 1e160 * SIGNS)):
        assert gram_search((0, 1), points, targets, 4, 1.0, "none", upper=9.0, goal=0.1) is None
