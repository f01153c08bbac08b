"""What rounding and inexact minimisers may cost: each bound with its own slack, compared in fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from covopt.data import Data
from covopt.depth import DeepSolution, schatten_between, tree
from covopt.depth.dual_trees import dual_bound
from covopt.depth.fit_bounds import dual_tree
from covopt.depth.gram_cells import LOST, step
from covopt.depth.gram_trees import Cells
from covopt.depth.pairs import PairBound, recompute
from covopt.depth.tree_search import TreeSearch
from covopt.depth.two_rows import two_rows_cost
from covopt.losses import make_loss
from covopt.network import DeepReLUNetwork
from covopt.status import Status
from tests.depth.bank.tables import tree_bound
from tests.depth.test_bank_of_networks import BY_NAME, bounds, known

seeds = st.integers(0, 2**32 - 1)


# ------------------------------------------------------------------ sums of powers of singular values
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


def test_a_sum_that_underflows_is_not_said_to_be_zero():
    assert schatten_between([[1e-163]], 2.0)[1] > 0.0
    assert schatten_between([[1e200]], 2.0)[0] > 1e300
    assert schatten_between([[0.0]], 2.0) == (0.0, 0.0)


# ------------------------------------------------------------------ two rows at an acute angle
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
    for seed in range(100):
        gram, squares = acute_rows(seed)
        value = two_rows_cost(gram, squares, 2)
        assert not is_above(value, gram, squares)
        tight += is_above(value * (1 + 1e-9), gram, squares)
    assert tight > 90


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
    for boxes in (1, 30, 2000):
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
    loss = make_loss("squared")
    loss.encode_targets(data.Y)
    tree = dual_tree(data, np.arange(1), np.ones((1, 1)), 3, 0.5, np.zeros((1, 1)), level=False)
    value = dual_bound((tree,), data, loss, lam, 3, "penalized", upper=1.0)
    assert 0.9 * lam / (1.0 + lam) < value <= lam / (1.0 + lam)


# ------------------------------------------------------------------ what verification asks of a deep network
@pytest.fixture
def deep():
    given = BY_NAME["acute, opposite signs, L = 3"]
    network = DeepReLUNetwork([np.array(w) for w in given.network])
    return DeepSolution(given.data, 3, "none", network, [], Status.HEURISTIC, 1e-6)


def failed(solution):
    return {check.name for check in solution.claims() if not check.ok}


def test_a_network_that_misses_its_points_is_not_verified(deep):
    assert not failed(deep)
    first, *others = deep.network.weights
    deep.network = DeepReLUNetwork([first * (1.0 + 1e-6), *others])
    assert failed(deep) == {"interpolation"}


def test_an_open_bracket_is_not_certified(deep):
    deep.status = Status.CERTIFIED
    assert failed(deep) == {"status"}


# ------------------------------------------------------------------ families of multipliers
@pytest.mark.parametrize("factor", [0.5, 0.9, 1.5])
def test_what_a_child_misses_of_its_member_is_paid_for(factor):
    given = BY_NAME["3 x 1, positive 102, L = 3"]
    search = TreeSearch(given.data.lifted, given.Y[:, 0], given.bias)
    search.use(float(np.sum(np.square(given.network[0]))))
    family = search.family((0, 1, 2), None, search.multipliers()[0])
    other = [replace(child, scale=factor * child.scale) for child in family.children]
    for children in (family.children, other):
        made = replace(family, children=children)
        assert tree_bound([made], given.data, 3, "none", 50.0) <= known(given.name)


# ------------------------------------------------------------------ two rows, files that claim what does not hold
def test_rows_of_different_targets_are_not_level():
    given = BY_NAME["opposite signs, acute, biases, L = 3"]
    for rows in ((0, 1), (1, 0)):
        assert recompute(PairBound(1.0, "level", rows), given.X, given.Y, 3, 1.0, "none") == 0.0


# ------------------------------------------------------------------ cells of covariances
def test_a_step_into_a_cell_of_one_state_is_below_its_cost_in_fractions():
    rng = np.random.default_rng(4)
    ends, near = np.empty(8), 0
    for _ in range(300):
        state = np.array([rng.uniform(0.1, 2.0), rng.uniform(-1.0, 1.0), rng.uniform(0.2, 0.9)])
        cells = Cells(state, state, 1.0)
        u, v, w = (float(x) for x in (rng.uniform(0.5, 2.0), rng.uniform(0.2, 1.0), rng.uniform(-0.3, 0.3)))
        if cells.cells["kind"][0] == -1:
            continue
        bound = step(np.array([u, v, w]), cells.cells, 0, ends)
        a, c, below = map(Fraction, state.tolist())
        m1, m2, m3 = 1 / a, -c / a, (a + c * c * below) / (a * below)
        cost = Fraction(u) * m1 + 2 * Fraction(w) * m2 + Fraction(v) * (m3 - 1)
        assert Fraction(bound) <= cost
        near += bound >= float(cost) * (1.0 - 2.0**10 * LOST)
    assert near > 150
