"""Lower bounds of deep networks in files: what overflows, is no number or speaks of something else proves nothing."""

import copy
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.depth import DeepSolution, rank_one_tour, representation_cost
from covopt.depth.bounds import KINDS, Asked, Bound, closed_bounds, recompute_bound, tree_bounds
from covopt.depth.dual_trees import tree_of
from covopt.depth.pairs import PairBound, recompute
from covopt.depth.solution import FORMAT, SCHEMA
from covopt.depth.tree_search import TreeSearch
from covopt.network import DeepReLUNetwork
from covopt.status import Status
from tests.depth.bank.tables import tree_bound

X, Y = np.array([[0.0], [1.0], [2.5]]), np.array([[1.0], [-1.0], [0.5]])


@pytest.fixture(scope="module")
def family():
    search = TreeSearch(np.column_stack([X, np.ones(3)]), Y[:, 0], 1.0)
    return search.family((0, 1, 2), None, search.multipliers()[0])


@pytest.mark.parametrize("kind", ["shares", "flows"])
def test_a_bound_of_a_kind_that_is_gone_is_read_and_not_verified(kind):
    content = representation_cost([[1.0]], [1.0], depth=3).to_dict()
    content["bounds"].append({"value": 0.5 * content["cost"], kind: {"nodes": [-1]}, "cutoff": None})
    content["bounds"].sort(key=lambda bound: -bound["value"])
    found = DeepSolution.from_dict(content)
    assert DeepSolution.from_dict(found.to_dict()).lower_bound == found.lower_bound
    (refused,) = [check for check in found.claims() if not check.ok]
    assert "a kind of proof that is no longer read; compute the bracket again" in refused.detail


def bound(family):
    return tree_bound([family], Data.validate(X, Y, bias=1.0), 3, "none", 100.0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_child_of_infinite_height_counts_as_infinite(family):
    # 0 times infinity was no number, and no number passed for a proof of everything
    huge = np.full((1, 3), 1.7e308)
    m = len(family.members)
    own = [
        replace(family.children[0], parent=m, sign=1, on=on, mu=(0.0,) * 3, member=0, scale=0.0)
        for on in range(1, 8)
    ]
    children = [replace(c, member=m, scale=0.0) if c.parent == family.root else c for c in family.children]
    forged = replace(family, members=np.vstack([family.members, huge]), children=[*children, *own])
    assert bound(forged) <= 1e-5
    assert bound(replace(family, children=[replace(c, scale=1.7e308) for c in family.children])) <= 1e-5
    for direction in ((1.0,) * 100, (float("nan"),), (float("inf"),), (0.0,), ()):
        with pytest.raises(ValueError, match="direction is none of 1 outputs"):
            bound(replace(family, direction=direction))
    for size in (1e-300, 3.0, 1.7e308):  # the length of a direction does not matter
        assert bound(replace(family, direction=(size,))) == pytest.approx(bound(family), rel=1e-9)
    members = family.members.copy()
    members[family.root] = 1.7e308  # a sum that overflows is no traceback
    forged, data = replace(family, members=members), Data.validate(X, Y, bias=1.0)
    for output_bias in ("none", "penalized", "free"):
        asked = Asked(data, 3, output_bias, 100.0)
        assert recompute_bound(Bound(1.0, "trees", (tree_of(forged, 1),)), asked)[0] == 0.0


@pytest.mark.parametrize(("depth", "weights"), [(1, [[[1.0]]]), (0, [])])
def test_a_file_of_no_hidden_layer_is_not_believed(depth, weights):
    # f(x) = x costs 1; the formulas for hidden layers gave 2
    points = np.array([[1.0], [-1.0]])
    network = DeepReLUNetwork([np.array(w) for w in weights or [[[1.0]]]])
    data = Data.validate(points, points, bias=0.0)
    forged = DeepSolution(
        data, depth, "none", network, closed_bounds(data, 3, "none")[:1], Status.HEURISTIC, 1e-6
    )
    forged.bounds = [replace(forged.bounds[0], value=1.9)]
    assert not covopt.verify(forged).ok
    content = copy.deepcopy(representation_cost([[0.0], [1.0]], [0.0, 0.0], depth=3).to_dict())
    assert (content["format"], content["schema"]) == (FORMAT, SCHEMA)
    content["problem"]["output_bias"] = "other"
    assert not covopt.verify(DeepSolution.from_dict(content)).ok


# ------------------------------------------------------------------ sizes at the ends of double precision
@pytest.mark.parametrize("y", [1e-300, 3e-160, 1e-5, 0.3, 1e100, 1e300])
@pytest.mark.parametrize("depth", [3, 7])
def test_one_point_never_costs_more_than_it_does(depth, y):
    # L y^{2/L}: pow rounds its exponent, which for 1e-300 is 50 units of the result
    for found in closed_bounds(Data.validate([[1.0]], [y], bias=0.0), depth, "none"):
        assert (Fraction(found.value) / depth) ** depth <= Fraction(y) ** 2
        assert found.value == pytest.approx(depth * y ** (2 / depth), rel=1e-12)


def test_an_inner_product_over_a_tiny_height_does_not_overflow_into_a_proof():
    points, targets = np.array([[1e-200]]), np.array([[1e200]])
    search = TreeSearch(points * 1e200, np.ones(1), 0.0)
    family = search.family((0,), None, np.ones(1))
    found = tree_bound([family], Data.validate(points, targets, bias=0.0), 3, "none", 1e300)
    assert (Fraction(found) / 3) ** 3 <= Fraction(1e200) ** 2 / Fraction(1e-200) ** 2
    alone = recompute(PairBound(1.0, "row", (0,)), points, targets, 3, 0.0, "none")
    assert alone == pytest.approx(3 * 10.0 ** (800 / 3), rel=1e-9)


# ------------------------------------------------------------------ training with weight decay
def evaluated(fitted, bound):
    return KINDS["trees"].value(bound.proof, fitted.asked())


# ------------------------------------------------------------------ tours and ranks
@pytest.mark.parametrize(
    ("x", "y"), [(1.0, 1.0), (1e-200, 1e-200), (1e308, 1e308), (3.0, 1.0), (7.0, 1e-300), (1e200, 1e-100)]
)
def test_slopes_are_below_the_truth_in_any_unit(x, y):
    # lengths of 1e-200 were zero, and the slope was infinite
    tour = rank_one_tour([[0.0], [x]], [0.0, y])
    truth = Fraction(y) / Fraction(x)
    assert truth * Fraction(1 - 1e-12) <= Fraction(tour.slope) <= truth
    assert Fraction(tour.lower) <= Fraction(y)
    assert tour.length == pytest.approx(y, rel=1e-12)
    assert (Fraction(tour.cost(5)) / 5) ** 5 <= truth**2


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "softmax-cross-entropy", "logistic"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_row_of_weight_zero_takes_no_part(loss):
    points, targets = np.array([[0.0], [1.0], [2.5], [4.0]]), np.array([1, 0, 1, 1])
    found = covopt.fit(
        points, targets, lam=0.01, depth=3, loss=loss, sample_weight=[1, 1, 1, 0], time_limit_s=None
    )
    without = covopt.fit(points[:3], targets[:3], lam=0.01, depth=3, loss=loss, time_limit_s=None)
    # two searches, each for a bound of its own: they end some two per cent apart
    assert found.lower_bound == pytest.approx(without.lower_bound, rel=0.05)
    assert covopt.verify(found).ok
    # residuals on such a row: C* is infinite there
    tree = found.bounds[0].proof[0]
    with pytest.raises(ValueError, match="weight zero"):
        evaluated(found, replace(found.bounds[0], proof=(replace(tree, rows=(3, *tree.rows[1:])),)))


def test_residuals_of_a_softmax_sum_to_zero_exactly():
    # beside that plane C* is infinite: a direction off by a unit would prove nothing, so it is moved into it
    points, targets = np.array([[0.0], [1.0]]), ["a", "b"]
    found = covopt.fit(points, targets, lam=0.01, depth=3, loss="softmax-cross-entropy", time_limit_s=None)
    assert found.bounds[0].proof
    assert found.lower_bound > 0.6 * found.objective
    tree = found.bounds[0].proof[0]
    beside = replace(tree, dual=tree.dual + np.array([0.0, 1e-9]))
    with pytest.raises(ValueError, match="do not sum to zero"):
        evaluated(found, replace(found.bounds[0], proof=(beside,)))


def test_units_and_sizes_do_not_matter():
    rng = np.random.default_rng(0)
    points, targets = rng.standard_normal((4, 3)), rng.standard_normal((4, 2))
    for depth, bias, scale in product((3, 4), (0.0, 1.0), (1e-200, 1e-20, 1e150)):
        data = [Data.validate(points, targets * c, bias=bias) for c in (1.0, scale)]
        found = [closed_bounds(d, depth, "none") for d in data]
        ours, theirs = (max(b.value for b in bounds if not b.proof.channel) for bounds in found)
        assert theirs == pytest.approx(ours * scale ** (2 / depth), rel=1e-10)
    found = closed_bounds(Data.validate([[0.0], [1.0]], [0.0, 1e-200], bias=0.0), 3, "none")
    assert found[0].value == pytest.approx(3 * 1e-200 ** (2 / 3), rel=1e-10)
    tiny = [[1e-170, 0.0], [2e-170, 1e-170]]
    found = representation_cost(tiny, [1.0, 1.0], depth=3, bias=0.0, time_limit_s=0.3)
    assert 0 < found.lower_bound <= found.cost and covopt.verify(found).ok
    # memory: many layers, many rows
    assert tree_bounds(Data.validate([[0.0], [1.0]], [1.0, -1.0], bias=1.0), 40, "none", upper=90.0) == []
    data = Data.validate(rng.standard_normal((3000, 2)), rng.standard_normal(3000), bias=0.0)
    assert closed_bounds(data, 3, "none")[0].value > 0
