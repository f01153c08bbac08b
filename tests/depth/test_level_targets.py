"""One row, and two with one target, with biases: a minimum over one number a layer."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

import covopt
from covopt.data import Data
from covopt.depth.bounds import Asked, bound_from_dict, closed_bounds, recompute_bound, too_large
from covopt.depth.two_rows import level_value


def cheapest(start, target, depth, penalized):
    def cost(logs):
        squares = np.exp(np.clip(logs, -50.0, 50.0))
        left = np.concatenate([[start], 1.0 / (squares + 1.0)])
        return squares @ left[:-1] + (target * left[-1] if penalized else 2.0 * np.sqrt(target * left[-1]))

    starts = np.random.default_rng(0).standard_normal((4, depth - 2 + penalized))
    return min(minimize(cost, x, method="BFGS", tol=1e-12).fun for x in starts)


@pytest.mark.parametrize(("start", "target"), [(0.4, 1.3), (0.05, 40.0)])
def test_the_grid_is_below_the_minimum_and_close(start, target):
    for depth, penalized in ((3, False), (4, True)):
        truth = cheapest(start, target, depth, penalized)
        value = level_value(Fraction(start), Fraction(target), depth, penalized=penalized)
        assert truth * (1.0 - 5e-7) <= value <= truth


def test_a_bound_by_one_target_is_about_rows_that_share_it():
    X, Y = np.array([[1.0, 0.0], [0.7, 1.1], [0.2, 0.4]]), np.array([[3.0], [3.0], [-0.1]])
    data = Data.validate(X, Y, bias=1.0)
    bound = next(b for b in closed_bounds(data, 4, "none") if b.proof.kind == "level")
    assert bound.proof.rows == (0, 1)
    again = bound_from_dict(json.loads(json.dumps(bound.to_dict())))
    assert recompute_bound(again, Asked(data, 4, "none", 9.0)) == (bound.value, "")
    for rows, alone in (((0, 2), False), ((0,), True), ((0, 5), False), ((), False), ((0, 1, 1), False)):
        moved = replace(again, proof=replace(again.proof, rows=rows))
        value = recompute_bound(moved, Asked(data, 4, "none", 9.0))[0]
        assert 0.0 < value < bound.value if alone else value == 0.0
    assert recompute_bound(again, Asked(Data.validate(X, Y, bias=0.0), 4, "none", 9.0))[0] == 0.0
    for targets, output_bias in ((Y, "free"), (np.array([[0.0], [0.0], [1.0]]), "none")):
        asked = Asked(Data.validate(X, targets, bias=1.0), 4, output_bias, 9.0)
        assert recompute_bound(again, asked)[0] == 0.0


def test_what_is_too_large_for_a_bound_is_said():
    def said(n, depth, bias=1.0):
        x = np.arange(n, dtype=float)[:, None]
        return too_large(Data.validate(x, x, bias=bias), depth)

    assert said(5, 12) == said(5, 40, bias=0.0) == []
    assert said(6, 3) == ["6 rows are too many for the tree bound: it takes 5 of them"]
    assert said(5, 13) == ["13 layers are too many for the tree bound, which takes 12"]
    assert said(101, 13)[1:] == [
        "101 rows are too many for the bound of pairs with one target, which takes 100"
    ]
    found = covopt.representation_cost(np.eye(6), np.ones(6), depth=3, bias=0.0, tol=0.9, time_limit_s=1.0)
    assert "too large" not in found.summary()
    assert "\ntoo large      6 rows are too many" in replace(found, tol=1e-12).summary()
