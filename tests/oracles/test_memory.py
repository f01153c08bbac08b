"""What would take more memory than there may be is refused before it takes any, in a sentence."""

import re

import numpy as np
import pytest

import covopt
from covopt.checks.memory import memory_left, memory_limited, room
from covopt.completely_positive.moments import moment_bound
from covopt.data import Data
from covopt.depth.bounds import dual_trees
from covopt.depth.families import LAYER_BYTES, Recursion
from covopt.depth.upper import UpperSearch
from covopt.errors import BudgetError, InputError, MemoryLimitWarning
from covopt.network.base import outputs
from covopt.network.deep import DeepReLUNetwork
from covopt.oracles.base import heights
from covopt.oracles.cascade import exact_oracle
from covopt.oracles.sign_tree import sign_dual_norm
from covopt.sparsify import HiddenLayer
from covopt.sparsify.reduction import reduce_layer
from tests.cases import drawn, normal, traced_memory


@pytest.mark.parametrize(
    ("n", "r", "outputs", "said"),
    [
        (300, 3, 0, r"needs about 0.0026 GiB of memory; the limit is 0.001 GiB"),
        (300, 3, 2, r"needs about 0.13 GiB"),
        (16, 5, 2, r"needs about 0.022 GiB"),
    ],
)
def test_exact_pricing_keeps_to_the_limit(n, r, outputs, said):
    rows = np.random.default_rng(0).standard_normal((n, r))
    with memory_limited(0.001), pytest.warns(MemoryLimitWarning, match=said), pytest.raises(BudgetError):
        exact_oracle(rows, outputs)


def noise(n):
    return normal(5, (n, 2), n)


@pytest.fixture(scope="module")
def plane():
    X = np.random.default_rng(3).standard_normal((200, 2))
    return X, np.abs(X).sum(axis=1)


# the question, its limit in GiB, what is said, and how much more the network may cost
GIVES_WAY = {
    "faces": (lambda plane: covopt.min_norm(*noise(190), time_limit_s=0.15), 0.001,
              "along a line|outputs to all digits|take its place", np.inf),
    "master": (lambda plane: covopt.min_norm(*plane, time_limit_s=0.15), 0.005,
               "the restricted master needs about 0.013 GiB of memory; the limit is 0.005 GiB", np.inf),
    "fit": (lambda plane: covopt.fit(*plane, lam=0.01589), 0.001, "descent on both layers takes its place", 2.0),
    "growth": (lambda plane: covopt.min_norm(*noise(60)), 0.0005,
               "would take .* it ends with the best bracket", np.inf),
    "frank-wolfe": (lambda plane: covopt.frank_wolfe(*plane, time_limit_s=0.15), 0.001,
                    "the restricted master|outputs to all digits", np.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVES_WAY)
def test_what_gives_way_to_what_is_small_ends_with_a_bracket(name, plane, monkeypatch, processor_clock):
    ask, limit, sentence, most = GIVES_WAY[name]
    known = ask(plane)
    if name == "growth":
        monkeypatch.setattr("covopt.solvers.quick.MASTER", 1.0)  # the plan is wrong by far
    with memory_limited(limit), pytest.warns(MemoryLimitWarning) as said:
        found = ask(plane)
    assert any(re.search(sentence, str(each.message)) for each in said)
    assert found.status.code != "certified"
    assert known.status.code != "certified" or found.gap > known.gap  # what the time has cut may be any
    assert 0.0 < found.lower_bound <= known.objective * (1 + 1e-9)
    assert known.lower_bound <= found.objective * (1 + 1e-9) <= most * known.objective
    checked = covopt.verify(found)
    assert checked.ok and (found.loss is not None or checked.certificate.interpolates)


def test_the_oracle_fits_beside_the_master(plane):
    rows = np.column_stack([plane[0], np.ones(200)])
    with memory_limited(0.002):
        exact_oracle(rows, 0)
        with pytest.warns(MemoryLimitWarning, match="exact pricing needs"), pytest.raises(BudgetError):
            exact_oracle(rows, 0, beside=1.2e6)


def test_trees_and_tables_take_a_share(monkeypatch):
    nodes, bounds = [], []
    rng, rows, dual = drawn(1, (60, 4), 60)
    dual -= rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    for limit in (1.0, 1e-5):
        with memory_limited(limit):
            found = sign_dual_norm(rows, dual, max_nodes=30_000)
        bounds.append(found.upper_bound)
        nodes.append(found.nodes)
    assert nodes[1] < 0.5 * nodes[0]
    assert bounds[0] <= bounds[1] * (1 + 1e-12)  # a smaller tree bounds less, and bounds
    with memory_limited(0.02):
        assert room(1e9) == pytest.approx(0.005 * 2**30)
        points = rng.standard_normal((20_000, 4))
        pieces = heights(rows, dual, points)
    np.testing.assert_allclose(pieces, heights(rows, dual, points), rtol=1e-12, atol=1e-12)


def test_the_least_limit_counts():
    with memory_limited(1.0):
        with memory_limited(0.5):
            assert memory_left() == 1 << 29
        assert memory_left() == 1 << 30


LAYER = [np.random.default_rng(0).standard_normal(shape) for shape in ((300, 3), (200, 3), (200, 1))]
REFUSED = [
    (1e-3, lambda X, y: covopt.enumerate_cells(X, bias=1.0), "iter_cells gives them in blocks"),
    (1e-3, lambda X, y: covopt.min_norm(X, y, solver="conic:CLARABEL"), "the program of 39,802 cells"),
    (1e-3, lambda X, y: covopt.min_norm(X, y, potential="label-noise"), "the exact label-noise oracle"),
    (1e-3, lambda X, y: reduce_layer(HiddenLayer(*LAYER), preserve="covariances"), "0.0071 GiB .* fewer rows"),
    (1e-3, lambda X, y: reduce_layer(HiddenLayer(*LAYER), preserve="outputs"), "200 neurons needs about 0.0059 GiB"),
    (1e-5, lambda X, y: moment_bound(np.diag([1.0, 2.0, 3.0, 4.0]) + 1.0, level=1), "moment relaxation needs about"),
    (-1.0, lambda X, y: None, "memory_limit must be a positive number of GiB"),
]  # fmt: skip


@pytest.mark.parametrize(("limit", "ask", "said"), REFUSED, ids=[said for _, _, said in REFUSED])
def test_what_has_nothing_weaker_is_refused_before_it_begins(limit, ask, said, plane):
    with pytest.raises((InputError, BudgetError), match=said), memory_limited(limit):
        ask(*plane)


def test_cells_of_a_degenerate_table_are_counted_as_they_come():
    X = np.random.default_rng(0).integers(-1, 2, (60, 4))  # at most 66 thousand cells, and far fewer
    with memory_limited(1e-3):
        assert covopt.enumerate_cells(X).n_cells < 1e4
    with memory_limited(1e-5), pytest.raises(InputError, match=r"this needs about .* FILE.npy writes them"):
        covopt.enumerate_cells(X)


def test_deep_networks_leave_out_what_is_too_large():
    X = np.sort(np.random.default_rng(0).standard_normal((200, 1)), axis=0)
    data = Data.validate(X, np.random.default_rng(1).standard_normal(200), bias=1.0)
    search = UpperSearch(data, 3, "none", None, 0, lambda *_: None)
    with (
        memory_limited(3e-3),
        pytest.warns(MemoryLimitWarning, match=r"weights needs about .* such are left out"),
    ):
        _, layout, theta = search.cheap()
    assert layout.depth == 3
    np.testing.assert_allclose(layout.forward(theta, data.X)[1][-1], data.Y, atol=1e-9)


def test_the_recursion_of_trees_goes_in_pieces(monkeypatch):
    data = Data.validate([[1.0], [-0.5]], [1.0, 0.5], bias=1.0)
    tree = dual_trees(data, 4, "none", upper=8.0)[0]
    roots = np.array([member for member, _ in tree.places])
    recursion = Recursion(tree.family, data.lifted, 1.0, 4, roots)
    c = np.random.default_rng(0).uniform(0.1, 2.0, (2, 500))
    whole = recursion.heights(c, roots)
    monkeypatch.setattr("covopt.checks.memory.SMALL", 0)
    with memory_limited(1e-4):
        assert LAYER_BYTES * recursion.size * 500 > memory_left()
        np.testing.assert_allclose(recursion.heights(c, roots), whole, rtol=1e-14)


def test_predictions_are_made_in_pieces():
    rng = np.random.default_rng(0)
    X, hidden, output = (rng.standard_normal(shape) for shape in ((30_000, 3), (600, 3), (2, 600)))
    network = DeepReLUNetwork([hidden, output])
    whole = np.maximum(X @ hidden.T, 0.0) @ output.T
    with traced_memory() as peak:
        np.testing.assert_allclose(network.predict(X), whole, rtol=1e-12, atol=1e-11)
        np.testing.assert_allclose(outputs(X, hidden, output.T), whole, rtol=1e-12, atol=1e-11)
        assert peak() < 8 * 30_000 * 600 / 5


@pytest.mark.filterwarnings("ignore::covopt.errors.MemoryLimitWarning")
def test_a_solve_of_many_rows_stays_within_its_limit():
    """1500 rows peaked at three times a limit of 0.05 GiB: no plan knew some of the arrays."""
    rng, X = drawn(0, (500, 3))
    y = np.abs(X).sum(axis=1) + 0.3 * rng.standard_normal(500)
    with traced_memory() as peak, memory_limited(0.025):
        assert covopt.min_norm(X, y).lower_bound > 0.0
        assert peak() < 1.1 * 0.025 * 2**30
