"""fit(depth=L): the bracket against trained networks, files, forged bounds, the command, words for bad input."""

import copy
from dataclasses import replace

import numpy as np
import pytest

import covopt
from covopt.depth import DeepFit
from covopt.depth.bounds import KINDS
from covopt.depth.descent import decay, objective
from covopt.depth.dual_trees import DualHeights, covering
from covopt.depth.fit_bounds import dual_tree
from covopt.depth.layers import Layout
from covopt.losses import make_loss

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 1))
Y = np.abs(X[:, 0]) + 0.3 * RNG.standard_normal(4)


@pytest.fixture(scope="module")
def fitted():
    return covopt.fit(X, Y, lam="0.05max", depth=3)


def test_a_deep_fit_is_bracketed_and_verified(fitted):
    assert isinstance(fitted, DeepFit)
    assert fitted.status == "heuristic"
    assert 0.9 * fitted.objective < fitted.lower_bound < fitted.objective  # the residuals are nearly the dual
    assert fitted.objective == pytest.approx(
        np.mean((fitted.network.predict(X) - Y) ** 2) + fitted.lam * fitted.network.squared_norm
    )
    assert covopt.verify(fitted).ok
    assert covopt.verify(fitted, X[::-1], Y[::-1]).ok
    assert covopt.verify(fitted, X, Y[::-1]).failed == ["table"]
    assert "HEURISTIC: the network was found by descent" in fitted.summary()
    assert "squared loss" in fitted.summary()
    assert fitted.balance < 1e-4
    assert fitted.stationarity < 1e-2


@pytest.mark.thinned(3)
@pytest.mark.parametrize(
    ("loss", "bias", "output_bias"),
    [("squared", 0.0, "none"), ("logistic", 1.0, "free"), ("huber", 1.0, "penalized")],
)
def test_no_trained_network_is_below_the_bound(loss, bias, output_bias):
    rng = np.random.default_rng(7)
    X, Y = np.array([[-1.0], [0.5], [2.0]]), np.array([1.0, -0.5, 2.5]) if bias else np.array([1.0, 0.5, 2.0])
    if output_bias == "penalized":  # steps instead of chords: more of them
        X, Y = X[1:], Y[1:]
    targets = np.sign(Y) if loss == "logistic" else Y
    found = covopt.fit(X, targets, lam=0.01, depth=3, loss=loss, bias=bias, output_bias=output_bias)
    assert 0 < found.lower_bound <= found.objective * (1 + 1e-12)
    assert covopt.verify(found).ok
    for _ in range(6):
        layout = Layout((1, 4, 4, 1), bias, output_bias)
        theta = decay(layout, rng.standard_normal(layout.size), X, found.loss, found.lam)
        assert found.lower_bound <= objective(layout, theta, X, found.loss, found.lam)


def test_one_row_alone_is_bracketed_to_the_end():
    # one point: (f − y)² + λL(|f|/|x|)^{2/L}, least over f by hand
    lam, depth = 0.1, 3
    found = covopt.fit([[2.0]], [3.0], lam=lam, depth=depth, bias=0.0, tol=1e-4)
    f = np.linspace(0.0, 3.0, 300_001)
    exact = ((f - 3.0) ** 2 + lam * depth * (f / 2.0) ** (2 / depth)).min()
    assert found.objective == pytest.approx(exact, rel=1e-8)
    assert found.lower_bound == pytest.approx(exact, rel=1e-4)
    assert found.lower_bound <= exact
    assert found.status == "certified"


def evaluated(fitted, bound):
    return KINDS["trees"].value(bound.proof, fitted.asked())


def test_heights_of_many_rows_are_above_every_activation():
    # sets of rows in one child, two outputs and a polygon of directions
    rng = np.random.default_rng(4)
    points, targets = rng.standard_normal((7, 1)), rng.standard_normal((7, 2))
    loss = make_loss("squared")
    loss.encode_targets(targets)
    data = covopt.Data.validate(points, targets, bias=1.0)
    tree = dual_tree(data, np.arange(7), targets, 3, 0.7, np.zeros((7, 1)), level=False)
    assert any(child.maybe for child in tree.family.children)
    for c in (0.05, 6.0):
        height = DualHeights(tree, data, loss, 0.1, 3, "none").heights(np.array([[c]]))[0]
        most = 0.0
        for _ in range(100):
            into = rng.standard_normal((3, 2)) * rng.choice([0.0, 1.0], (3, 1))
            size = np.sqrt(c / max((into**2).sum(), 1e-9))
            layer = np.column_stack([np.maximum(data.lifted @ (size * into).T, 0.0), np.ones(7)])
            u = rng.standard_normal(4)
            most = max(most, np.linalg.norm(targets.T @ np.maximum(layer @ u / np.linalg.norm(u), 0.0)))
        assert 0.25 * height < most <= height


def test_forged_duals_are_refused_or_prove_no_more(fitted):
    bound = next(b for b in fitted.bounds if b.proof)
    tree, honest = bound.proof[0], bound.value
    lost = replace(tree, family=replace(tree.family, children=tree.family.children[1:]))
    for change, message in (
        ({"rows": (0, 1, 2, 9)}, "rows of the table"), ({"dual": tree.dual * np.inf}, "dual is none"),
        ({"dual": tree.dual[:2]}, "dual is none"), ({"dual": 1e-200 * tree.dual}, "too large or too small"),
        ({"directions": np.ones((1, 2))}, "directions are none"), ({"directions": np.array([[0.0]])}, "no basis"),
        ({"places": ((99, 1.0),)}, "root is none"), ({"family": lost.family}, "children are missing"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            evaluated(fitted, replace(bound, proof=(replace(tree, **change),)))
    damaged = copy.copy(fitted)
    damaged.bounds = [replace(bound, proof=(lost,))]
    assert any(
        "children are missing" in check.detail for check in covopt.verify(damaged).checks if not check.ok
    )
    # a wrong place is paid for by its rest; another dual is another proof, valid as well
    for change in ({"places": ((0, 0.0),)}, {"dual": 3.0 * tree.dual}, {"dual": tree.dual[::-1].copy()}):
        assert evaluated(fitted, replace(bound, proof=(replace(tree, **change),))) <= honest * 1.001
    children = [replace(child, maybe=0) for child in tree.family.children]
    if any(child.maybe for child in tree.family.children):
        unsure = replace(tree, family=replace(tree.family, children=children))
        with pytest.raises(ValueError, match="children are missing"):
            evaluated(fitted, replace(bound, proof=(unsure,)))
    assert covering(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), False)[1] == pytest.approx(2**0.5)
    found = covopt.fit(X, Y, lam=0.1, depth=3, callback=lambda entry: True)
    assert (found.status.code, found.lower_bound, found.cost) == ("callback", 0.0, 0.0)  # the constant
