"""Two rows with biases: shortest paths over cells of covariances are exact, and no tree makes them more."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from covopt.data import Data
from covopt.depth.bounds import Asked, bound_from_dict, chain_bounds, closed_bounds, recompute_bound
from covopt.depth.gram_cells import NOTHING, step
from covopt.depth.gram_chain import GramChain, TwoRows, gram_bound
from covopt.depth.gram_search import cheapest_chain, gram_search
from covopt.depth.gram_trees import Cells

POINTS = np.array([[1.0, 0.0], [0.7, 1.1]])


def one_neuron(points, y, depth):
    """Return the least norm of one neuron a layer, on at both rows: y = A_1(w·x) + ΣA_ℓ b_ℓ, A_ℓ = a_{ℓ+1} … a_L."""

    def cost(logs):
        squares = np.exp(logs)
        products = np.cumprod(squares[::-1])[::-1]
        gram = products[0] * points @ points.T + products.sum()
        return squares.sum() + y @ np.linalg.solve(gram, y)

    return float(minimize(cost, np.zeros(depth - 1), method="BFGS", tol=1e-12).fun)


@pytest.mark.parametrize("depth", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 6))])
def test_targets_of_one_sign_cost_what_one_neuron_a_layer_does(depth):
    y = np.array([0.7, 1.0])
    truth = one_neuron(POINTS, y, depth)
    data = Data.validate(POINTS, y, bias=1.0)
    upper = truth * (1.0 + 1e-9)
    (bound,) = chain_bounds(data, depth, "none", upper=upper, closed=closed_bounds(data, depth, "none"))
    assert truth * (1.0 - 1e-6) <= bound.value <= truth * (1.0 + 1e-9)
    again = bound_from_dict(json.loads(json.dumps(bound.to_dict())))
    assert (again.proof, again.cutoff) == (bound.proof, upper)
    value, why = recompute_bound(again, Asked(data, depth, "none", 0.9 * truth))  # its own cutoff counts
    assert why == "" and value == pytest.approx(bound.value, rel=1e-6) and value <= upper
    with pytest.raises(ValueError, match="looks at norms up to"):
        bound_from_dict(replace(bound, cutoff=-1.0).to_dict())


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
    task = TwoRows(POINTS, np.array([[0.7], [-1.0]]), 3, 1.0, "none", 20.0)
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
            cost = np.sum((M - 1.0) * before) + task.end(B)[0]
            assert bound <= cost * (1.0 + 1e-11)
            tight += width < 0.01 and bound >= cost * (1.0 - 5.0 * width)
        if bound >= NOTHING:
            assert cells.cells["kind"][0] != 1
    assert met > 1000 and tight > 300


def test_no_tree_makes_the_bound_more_than_the_cheapest_chain():
    rng = np.random.default_rng(5)
    for output_bias in ("none", "penalized"):
        Y = np.array([[0.7], [-1.0]])
        task = TwoRows(POINTS, Y, 4, 1.0, output_bias, 30.0)
        truth = cheapest_chain(task)
        value, chain = gram_search((0, 1), POINTS, Y, 4, 1.0, output_bias, upper=30.0, goal=0.1)
        assert 0.8 * truth <= value <= truth
        for _ in range(6):
            layers = task.cells()
            for layer in layers:
                for _ in range(6):
                    leaves = np.flatnonzero(layer.cells["child"] == 0)
                    some = leaves[rng.uniform(size=len(leaves)) < 0.7]
                    layer.halve(some, rng.integers(0, 3, len(some)))
            trees = tuple(layer.written() for layer in layers)
            assert gram_bound(GramChain((0, 1), trees), POINTS, Y, 4, 1.0, output_bias, cutoff=30.0) <= truth
        again = gram_bound(chain, POINTS, Y, 4, 1.0, output_bias, cutoff=30.0)
        assert value * (1.0 - 1e-9) <= again <= truth


def test_cells_of_rank_one_are_below_every_chain_for_targets_on_one_ray():
    rng = np.random.default_rng(6)
    Y = np.array([[0.7], [1.0]])
    task = TwoRows(POINTS, Y, 5, 1.0, "none", 20.0)
    truth = cheapest_chain(task)
    for flat in (1, 2, 3):
        assert cheapest_chain(task, full=3 - flat) <= truth * (1.0 + 1e-9)
        layers = task.cells(flat)
        for layer in layers:
            for _ in range(5):
                leaves = np.flatnonzero(layer.cells["child"] == 0)
                layer.halve(leaves, rng.integers(0, 3 - layer.flat, len(leaves)))
        chain = GramChain((0, 1), tuple(layer.written() for layer in layers), flat)
        assert 0.0 < gram_bound(chain, POINTS, Y, 5, 1.0, "none", cutoff=20.0) <= truth
    value, chain = gram_search((0, 1), POINTS, Y, 5, 1.0, "none", upper=20.0, goal=1e-4)
    assert chain.flat == 3 and truth * (1.0 - 1e-4) <= value <= truth
    for targets, points in ((Y * [[1.0], [-1.0]], POINTS), (np.eye(2), POINTS), (Y, [[1.0], [-1.7]])):
        with pytest.raises(ValueError, match="cells of rank one"):
            gram_bound(chain, np.array(points), targets, 5, 1.0, "none", cutoff=20.0)
    assert asdict(GramChain((0, 1), (".", "."))) == {"rows": (0, 1), "trees": (".", "."), "flat": 0}
    Y = np.array([[0.7], [-1.0]])  # rows of huge or tiny numbers are left to other bounds
    for points, targets in ((1e200 * POINTS, Y), (POINTS, 1e-200 * Y), (POINTS, 1e160 * Y)):
        assert gram_search((0, 1), points, targets, 4, 1.0, "none", upper=9.0, goal=0.1) is None


def test_trees_of_a_search_that_ends_with_too_many_cells_are_read(monkeypatch):
    """The last round goes beyond the number that ends a search."""
    most = 200
    monkeypatch.setattr("covopt.depth.gram_trees.MOST_READ", 2 * most + 1)
    Y = np.array([[0.7], [-1.0]])
    value, chain = gram_search((0, 1), POINTS, Y, 4, 1.0, "none", upper=20.0, goal=1e-9, most=most)
    assert max(map(len, chain.trees)) > most
    again = gram_bound(chain, POINTS, Y, 4, 1.0, "none", cutoff=20.0)
    assert 0.0 < value * (1.0 - 1e-9) <= again
