"""Brackets of deep interpolation and deep fits: which tables close them, the search for networks, where it ends."""

from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.datasets import make_smooth
from covopt.depth import DeepFit, estimate_expansion, representation_cost
from covopt.depth.cost import Stop
from covopt.depth.descent import polish
from covopt.depth.dual_trees import DualHeights, covering
from covopt.depth.families import Recursion
from covopt.depth.layers import Layout, stationarity
from covopt.depth.tree_search import TreeSearch
from covopt.depth.upper import UpperSearch
from covopt.errors import BudgetError, Status
from covopt.limits import HURRY_S, TimeUp, seconds_left
from covopt.network import DeepReLUNetwork
from tests.cases import cases, drawn
from tests.depth.bank.tables import POINTS, SIGNS, DeepTable, squared, two_rows


@pytest.mark.parametrize("depth", [3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_first_network_is_the_shallow_one_with_layers_behind_its_neurons_or_its_outputs(depth):
    X, y = make_smooth(40)
    network = covopt.min_norm(X, y).network
    cost = np.linalg.norm(network.hidden_weights, axis=1) * np.abs(network.output_weights[:, 0])
    # a chain of identities behind every neuron, or ReLU(f) − ReLU(−f) behind all, the norms shared at the least cost
    chains = depth * (cost ** (2 / depth)).sum()
    signs = depth * (2 ** (depth - 1) * cost.sum() ** 2) ** (1 / depth)
    first: list = []

    def offer(found, source):
        first.append(found[0])
        raise Stop

    search = UpperSearch(Data.validate(X, y, bias=1.0), depth, "none", None, 0, offer)
    with pytest.raises(Stop):
        search.begin()
    assert first == [search.cheap()[0]]
    assert first[0] == pytest.approx(min(chains, signs), rel=1e-6)


@pytest.fixture(scope="module")
def bracket():
    rng = np.random.default_rng(20)
    X, y = rng.normal(size=(3, 1)), rng.normal(size=3)
    found = representation_cost(X, y, depth=3, time_limit_s=None, random_state=1, tol=0.03)
    return replace(found, tol=1e-6, status=Status.HEURISTIC)


def test_the_bracket_on_three_points(bracket):
    # 11.4797… is what descent from a thousand starts finds
    assert bracket.cost == pytest.approx(11.47975989, rel=1e-6)
    assert 0.97 * bracket.cost <= bracket.lower_bound < bracket.cost
    assert bracket.balance < 1e-5
    assert bracket.stationarity < 1e-5
    assert "stationarity" in bracket.summary()
    assert bracket.residual < 1e-9
    assert any("tree bound on 3 rows" in bound.title for bound in bracket.bounds)
    assert "HEURISTIC" in bracket.summary()
    X, Y = bracket.data.X, bracket.data.Y
    assert covopt.verify(bracket, X[::-1], Y[::-1], exact=True).ok
    assert covopt.verify(bracket, X[::-1], Y).failed == ["table"]


def test_at_depth_two_the_tree_bound_is_the_shallow_one():
    rng = np.random.default_rng(5)
    given = DeepTable("4 x 2", rng.standard_normal((4, 2)), rng.standard_normal((4, 1)), 2)
    solution = covopt.min_norm(given.X, given.Y, tol=1e-9)
    lifted = given.data.lifted
    tree = TreeSearch(lifted, given.Y[:, 0], 1.0).tree(range(4), solution.dual.reshape(-1, 1))
    root = np.array([tree.places[0][0]])
    height = float(Recursion(tree.family, lifted, 1.0, 2, root).heights(np.zeros((0, 1)), root)[0, 0])
    bound = 2.0 * float(tree.family.members[root[0]] @ given.Y[:, 0]) / height
    assert bound == pytest.approx(solution.cost, rel=1e-6)
    assert bound <= solution.cost


def test_a_callback_stops_with_the_best_so_far():
    seen = []
    found = representation_cost(
        [[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0], depth=3, callback=lambda entry: seen.append(entry) or True
    )
    assert found.status == "callback"
    assert [entry["side"] for entry in seen] == ["lower"]
    assert found.lower_bound == seen[0]["value"] > 0
    assert found.residual < 1e-9


ACUTE, OBTUSE = two_rows(1.0), two_rows(2.2)
# table, bias, output bias, L, what the title of the best bound has, the cost where a line says it
CASES = cases("brackets of deep networks that close", ACUTE=ACUTE, OBTUSE=OBTUSE, POINTS=POINTS, SIGNS=SIGNS)


@pytest.mark.thinned(2)
@pytest.mark.parametrize(("points", "targets", "bias", "output_bias", "depth", "title", "cost"), CASES)
def test_the_bracket_closes(points, targets, bias, output_bias, depth, title, cost):
    found = covopt.representation_cost(
        points, targets, depth=depth, bias=bias, output_bias=output_bias, time_limit_s=None
    )
    assert found.status == "certified"
    assert title in found.bounds[0].title
    assert found.residual < 1e-9 and covopt.verify(found).ok
    if cost is not None:
        assert found.cost == pytest.approx(cost, rel=1e-7)
        assert found.lower_bound == pytest.approx(cost, rel=1e-7)


# ---------------------------------------------------------------- the search


def test_more_points_than_weights_are_no_program_for_slsqp(monkeypatch):
    """It wrote beyond its memory, and the process was aborted later."""
    monkeypatch.setattr("covopt.depth.descent.minimize", None)
    layout = Layout((1, 1, 1), 0.0, "none")
    X = np.arange(1.0, 6.0)[:, None]
    found = polish(layout, np.array([2.0, 0.5]), X, X)
    assert found is not None
    assert found[1].prod() == pytest.approx(1.0)  # the function stays


def test_an_interrupt_leaves_little_time_for_a_cheap_network(monkeypatch):
    left = []

    def late(search):
        left.append(seconds_left())
        raise TimeUp

    monkeypatch.setattr("covopt.depth.upper.UpperSearch.begin", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr("covopt.depth.upper.UpperSearch.cheap", late)
    with pytest.raises(KeyboardInterrupt):
        covopt.representation_cost([[1.0], [2.0]], [1.0, 3.0], depth=3)
    assert left[0] <= HURRY_S


def test_a_small_target_that_is_missed_is_no_bracket():
    """A network that misses -1e-12 passes for an interpolant, and is below the proved bound by 0.4 %."""
    try:
        found = representation_cost([[1.0], [-1.0]], [1.0, -1e-12], depth=10, bias=0.0, time_limit_s=1.0)
    except BudgetError as error:
        reasons = "meets the small targets as well: they go down to 1e-12", "was found in time"
        assert any(why in str(error) for why in reasons)
    else:
        assert found.lower_bound <= found.cost
        assert covopt.verify(found)


def test_an_interrupt_within_a_shallow_solve_ends_the_search(monkeypatch):
    calls = []

    def interrupted(*args, **options):
        calls.append(1)
        return replace(covopt.min_norm(*args, **options), status=Status.INTERRUPTED)

    monkeypatch.setattr("covopt.depth.upper.min_norm", interrupted)
    found = representation_cost([[0.0], [1.0], [3.0]], [0.0, 1.0, 0.0], depth=3, time_limit_s=20.0)
    assert found.status == "interrupted"
    assert len(calls) == 1
    assert covopt.verify(found).ok


# ---------------------------------------------------- local minima, and the expansion in the depth
def test_a_balanced_chain_is_stationary_and_a_shaken_one_is_not():
    X = np.array([[1.0, 2.0], [-1.0, 0.5]])
    row = np.array([[1.0, 2.0]]) / np.sqrt(5.0)
    ones = np.array([[1.0]])
    assert stationarity(DeepReLUNetwork([row, ones, ones]), X[:1], "none") < 1e-12
    # off the direction of the only row that counts nothing holds the weights up
    assert stationarity(DeepReLUNetwork([np.array([[1.0, 0.0]]), ones, ones]), X[:1], "none") > 0.3


def test_multipliers_of_touching_samples_push_one_way():
    # v σ(w·x) with w along (1, 0.5), through a row (1, 0): shorter with w₂ = 0 unless a row at zero objects
    length = 1.25**0.25
    chain = DeepReLUNetwork([np.array([[1.0, 0.5]]) / length, np.array([[length]])])
    row = np.array([[1.0, 0.0]])
    assert stationarity(chain, row, "none") > 0.1
    # silent only as long as w₂ ≥ w₁/2
    assert stationarity(chain, np.vstack([row, [1.0, -2.0]]), "none") < 1e-9
    assert stationarity(chain, np.vstack([row, [-1.0, 2.0]]), "none") > 0.1  # silent for smaller w₂, too
    big = DeepReLUNetwork([np.ones((400, 2)), np.ones((400, 400)), np.ones((1, 400))])
    assert stationarity(big, np.ones((50, 2)), "none") is None  # too large to be asked


def test_an_expansion_is_recovered_from_brackets():
    def cost(depth):
        return 2.0 * depth + 0.6 + 0.2 / depth

    exact = estimate_expansion([(L, cost(L), cost(L)) for L in (3, 4, 6)])
    for (low, high), truth in zip((exact.r0, exact.r1, exact.r2), (2.0, 0.6, 0.2), strict=True):
        assert low == pytest.approx(truth, abs=1e-4)
        assert high == pytest.approx(truth, abs=1e-4)
    assert exact.slack == 0.0
    wide = estimate_expansion([(L, 0.95 * cost(L), cost(L)) for L in (3, 4, 6)])
    assert wide.r0[0] < 2.0 < wide.r0[1]
    assert wide.r0[1] - wide.r0[0] > 0.1
    # a remainder that no expansion of three terms has
    bent = estimate_expansion([(L, cost(L) + (-1) ** L, cost(L) + (-1) ** L) for L in (3, 4, 5, 6)])
    assert bent.slack > 0.01


# -------------------------------- fit(depth=L): the bracket against trained networks, and by hand.
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


def test_the_first_network_is_the_constant():
    found = covopt.fit(X, Y, lam=0.1, depth=3, callback=lambda entry: True)
    assert (found.status.code, found.lower_bound, found.cost) == ("callback", 0.0, 0.0)


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
