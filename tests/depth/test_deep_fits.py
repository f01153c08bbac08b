"""fit(depth=L): the bracket against trained networks, and by hand."""

import numpy as np
import pytest

import covopt
from covopt.depth import DeepFit
from covopt.depth.descent import decay, objective
from covopt.depth.dual_trees import DualHeights, covering
from covopt.depth.layers import Layout
from covopt.depth.tree_search import TreeSearch
from tests.cases import drawn
from tests.depth.bank.tables import squared

RNG, X = drawn(0, (4, 1))
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


def test_heights_of_many_rows_are_above_every_activation():
    # sets of rows in one child, two outputs and a polygon of directions
    rng, points, targets = drawn(4, (7, 1), (7, 2))
    loss = squared(targets)
    data = covopt.Data.validate(points, targets, bias=1.0)
    search = TreeSearch(data.lifted, targets[:, 0], 1.0, tol=1e-4)
    search.use(0.7)
    tree = search.tree(range(7), targets, levels=1)
    assert any(child.maybe for child in tree.family.children)
    assert covering(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), False)[1] == pytest.approx(2**0.5)
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


def test_the_first_network_is_the_constant():
    found = covopt.fit(X, Y, lam=0.1, depth=3, callback=lambda entry: True)
    assert (found.status.code, found.lower_bound, found.cost) == ("callback", 0.0, 0.0)
