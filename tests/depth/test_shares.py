"""Three layers by branch and bound over shares: closed forms, networks as adversaries, brute force, forged trees."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.data import Data
from covopt.depth.layers import Layout
from covopt.depth.lower import closed_bounds
from covopt.depth.shares import Box, Checker, Multipliers, Shares, Split, classes_of, limits_of, shares_bound
from covopt.depth.shares_search import SharesSearch
from covopt.depth.structs import from_json, to_json
from covopt.limits import limited

ROWS = 3


def search(X, y, cutoff, *, bias=1.0, output_bias="none", positive=None):
    signs = tuple(bool(v) for v in y > 0) if positive is None else positive
    return SharesSearch(X, y[:, None], tuple(range(len(y))), None, bias, output_bias, signs, cutoff)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(20)
    return rng.normal(size=(ROWS, 1)), rng.normal(size=ROWS)  # its cost is 11.4798 between bounds 5e-4 apart


@pytest.fixture(scope="module")
def proof(table):
    X, y = table
    value, shares = search(X, y, 12.0, positive=(False, True, False)).run(goal=0.06)
    assert 0.94 * 12.0 <= value <= 11.4798
    return value, shares


def bound(shares, table, **changes):
    X, y = table
    return shares_bound(replace(shares, **changes), X, y[:, None], 1.0, "none", cutoff=12.0)


def test_opposite_points_with_opposite_targets_cost_six_where_the_tree_sees_less():
    X, y = np.array([[1.0], [-1.0]]), np.array([1.0, -1.0])
    value, _ = search(X, y, 6.0, bias=0.0).run(goal=5e-4)
    assert 6.0 * (1 - 5e-4) <= value <= 6.0


@pytest.mark.parametrize("angle", [0.3, 1.2])
def test_two_acute_rows_agree_with_their_convex_minimum(angle):
    X = np.array([[1.0, 0.0], [np.cos(angle), np.sin(angle)]])
    y = np.array([1.0, -0.7])
    exact = max(b.value for b in closed_bounds(Data.validate(X, y, bias=0.0), 3, "none"))
    value, _ = search(X, y, 1.3 * exact, bias=0.0).run(goal=0.235)  # 1.3 · 0.765 = 0.9945
    assert 0.99 * exact <= value <= exact * (1 + 1e-9)


def network(rng, bias, output_bias):
    layout = Layout((1, *rng.integers(1, 4, 2).tolist(), 1), bias, output_bias)
    theta = rng.standard_normal(layout.size)
    X = rng.standard_normal((ROWS, 1))
    return X, layout.forward(theta, X)[1][-1][:, 0], float((layout.charged * theta**2).sum())


def stretched(point, positive, factor):
    """Other multipliers of the same signs, each class as before: the conditions are homogeneous."""
    low, high = limits_of(positive, point.weights * factor)
    return Multipliers(point.weights * factor, np.clip(point.bends * factor, low, high))


@given(st.integers(0, 2**32 - 1), st.sampled_from([(0.0, "none"), (1.0, "none"), (0.7, "penalized")]))
@settings(max_examples=12, deadline=None)
def test_no_certificate_is_above_the_network_that_made_the_table(seed, kind):
    rng = np.random.default_rng(seed)
    X, y, norm = network(rng, *kind)
    if not y.any():
        return
    cutoff = norm * float(rng.choice([1.5, 4.0]))
    run = search(X, y, cutoff, bias=kind[0], output_bias=kind[1])
    found = run.run(goal=0.6, max_boxes=8)
    if found is None:
        return
    value, shares = found
    assert value <= norm * (1 + 1e-12)
    for factor in rng.uniform(0.2, 3.0, 2):
        forged = replace(shares, points=[stretched(p, shares.positive, factor) for p in shares.points])
        assert shares_bound(forged, X, y[:, None], *kind, cutoff=cutoff) <= norm * (1 + 1e-12)


def test_the_value_of_a_box_is_its_formula_with_neurons_taken_from_a_fine_circle(table, proof):
    X, y = table
    _, shares = proof
    checker = Checker(shares, X, y[:, None], 1.0, "none")
    lifted = np.column_stack([X, np.ones(ROWS)])
    turns = np.linspace(0.0, 2.0 * np.pi, 20_001)
    atoms = np.maximum(np.column_stack([np.cos(turns), np.sin(turns)]) @ lifted.T, 0.0)
    groups = len(shares.groups)
    box = Box((1.5,) * groups, (2.0,) * groups, 3.0, 3.5)
    kappa = np.full(groups, 1.75)
    for point in shares.points[:3]:
        worst = np.inf
        for chosen in checker.tuples:
            nu = point.bends[list(chosen)]
            height = float(((atoms @ nu.T) ** 2 @ kappa).max())
            shift = float(kappa @ nu.sum(axis=1) ** 2)
            worst = min(worst, 3.0 * (1 - height) - shift, 3.5 * (1 - height) - shift)
        value = groups * 3.0 / 1.75 + 2.0 * float(point.weights @ y) + worst
        found = float(checker.value(box, point))
        assert found == pytest.approx(max(value, 3.0 * groups + 3.0), rel=1e-5)
        assert found <= max(value, 3.0 * groups + 3.0) + 1e-9


def test_the_file_keeps_every_bit(table, proof):
    value, shares = proof
    assert bound(from_json(Shares, to_json(shares)), table) == value


def test_a_search_that_is_cut_short_leaves_a_valid_tree(table):
    X, y = table
    with limited(0.6):
        found = search(X, y, 12.0).run(goal=1e-9)
    assert found is None or 0.0 < found[0] <= 11.4798


# ------------------------------------------------------------------ forgeries
def test_boxes_that_lack_multipliers_are_worth_their_corner(table, proof):
    value, shares = proof
    assert bound(shares, table, nodes=[-1], points=[]) == 0.0
    bare = [node if isinstance(node, Split) else -1 for node in shares.nodes]
    assert bound(shares, table, nodes=bare) < value


def test_a_cut_that_moves_changes_no_validity(table, proof):
    _, shares = proof
    for at in (0.0, -1.0, 1e300, 0.1, 5.9):
        nodes = [replace(shares.nodes[0], at=at), *shares.nodes[1:]]
        assert bound(shares, table, nodes=nodes) <= 11.4798


def forged_points(shares, change):
    points = []
    for point in shares.points:
        weights, bends = point.weights.copy(), point.bends.copy()
        change(weights, bends)
        points.append(Multipliers(weights, bends))
    return points


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda w, b: np.negative(w, out=w), "other signs than they say"),
        (lambda w, b: b.__imul__(0.5), "do not bound its part of the outputs"),
        (lambda w, b: b.__setitem__((0, 0), np.nan), "must be finite"),
        (lambda w, b: w.__imul__(2.0), "do not bound its part of the outputs"),
    ],
)
def test_forged_multipliers_are_refused(table, proof, change, message):
    with pytest.raises(ValueError, match=message):
        bound(proof[1], table, points=forged_points(proof[1], change))


def test_forged_trees_are_refused(table, proof):
    _, shares = proof
    root, rest = shares.nodes[0], shares.nodes[1:]
    kinds = len(classes_of(shares.positive))
    for changes, message in [
        ({"nodes": []}, "between one and"),
        ({"nodes": [replace(root, left=0), *rest]}, "the tree of boxes is none"),
        ({"nodes": [replace(root, right=len(rest) + 1), *rest]}, "the tree of boxes is none"),
        ({"nodes": [replace(root, axis=9), *rest]}, "cut nowhere"),
        ({"nodes": [replace(root, at=np.nan), *rest]}, "cut nowhere"),
        ({"groups": (tuple(range(kinds - 1)),)}, "hold each class once"),
        ({"groups": (*shares.groups, ())}, "empty or too many"),
        ({"positive": (True,)}, "signs must be those of"),
        ({"rows": (0, 0, 1)}, "not rows of the table"),
        ({"direction": (1.0, 0.0)}, "the direction is none of 1 outputs"),
        ({"points": [Multipliers(p.weights[:2], p.bends) for p in shares.points]}, "another shape"),
    ]:
        with pytest.raises(ValueError, match=message):
            bound(shares, table, **changes)
    deep = [Split(0, 1.0, k + 1, k + 1) for k in range(40)]  # each box leads twice to the next: 2⁴⁰ visits
    with pytest.raises(ValueError, match="met twice"):
        bound(shares, table, nodes=[*deep, -1])


def test_networks_with_a_free_output_bias_have_no_shares(table, proof):
    X, y = table
    with pytest.raises(ValueError, match="free output bias"):
        shares_bound(proof[1], X, y[:, None], 1.0, "free", cutoff=12.0)


def test_numbers_of_another_kind_are_no_certificate(proof):
    content = to_json(proof[1])
    for changes in ({"positive": [1, 0, 1]}, {"nodes": [True]}, {"groups": [[0.5]]}):
        with pytest.raises(TypeError):
            from_json(Shares, {**content, **changes})


def test_a_direction_of_any_length_gives_the_bound_of_its_unit_vector(table, proof):
    X, y = table
    value, shares = proof
    Y = np.column_stack([0.6 * y, 0.8 * y])
    along = shares_bound(replace(shares, direction=(3.0, 4.0)), X, Y, 1.0, "none", cutoff=12.0)
    assert along == pytest.approx(value, rel=1e-9)
    assert isinstance(shares, Shares)
