"""Two rows with biases: shortest paths over cells of covariances are exact, and no tree makes them more."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from covopt.data import Data
from covopt.depth.bounds import chain_bounds, closed_bounds
from covopt.depth.gram_cells import LOST, NOTHING, Cells, step
from covopt.depth.gram_chain import GramChain, TwoRows, gram_bound, gram_search
from tests.depth.bank.tables import BY_NAME, POINTS, SIGNS, known


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
            assert cells.cells["kind"][0] != 1
    assert met > 1000 and tight > 300


def test_a_step_into_a_cell_of_one_state_is_below_its_cost_in_fractions():
    rng = np.random.default_rng(4)
    ends, near = np.empty(8), 0
    for _ in range(300):
        at = np.array([rng.uniform(0.1, 2.0), rng.uniform(-1.0, 1.0), rng.uniform(0.2, 0.9)])
        cells = Cells(at, at, 1.0)
        u, v, w = (float(x) for x in (rng.uniform(0.5, 2.0), rng.uniform(0.2, 1.0), rng.uniform(-0.3, 0.3)))
        if cells.cells["kind"][0] == -1:
            continue
        bound = step(np.array([u, v, w]), cells.cells, 0, ends)
        a, c, below = map(Fraction, at.tolist())
        m1, m2, m3 = 1 / a, -c / a, (a + c * c * below) / (a * below)
        cost = Fraction(u) * m1 + 2 * Fraction(w) * m2 + Fraction(v) * (m3 - 1)
        assert Fraction(bound) <= cost
        near += bound >= float(cost) * (1.0 - 2.0**10 * LOST)
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
