"""Files of deep networks: read back they are the same, and what is changed in them is refused or does no harm."""

import copy
import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import covopt
from covopt.data import Data
from covopt.depth import DeepFit, DeepSolution
from covopt.depth.bounds import (
    KINDS,
    Bound,
    bound_from_dict,
    chain_bounds,
    closed_bounds,
    recompute_bound,
    tree_bounds,
)
from covopt.depth.fitting import fit_bounds
from covopt.depth.pairs import PairBound
from covopt.errors import CovoptError, SolutionFileError, Status
from covopt.exact.rank import FOUND
from covopt.exact.rounding import above
from covopt.network import DeepReLUNetwork
from tests.cases import cases
from tests.depth.bank.tables import BY_NAME, known, squared, tree_bound, tree_of

TREE = "3 x 1, positive 102, L = 3"
NAMES = [
    "obtuse, k = 2, y1.y2 > 0, L = 3", "one target, acute, biases, penalized, L = 3", TREE,
    "opposite signs, acute, biases, L = 3", "fit of 4 rows, λ = 0.03, L = 3",
    pytest.param("3 x 1, k = 2 107, L = 3", marks=pytest.mark.slow),
]  # fmt: skip


@cache
def solution(name: str) -> DeepSolution:
    """Return the best network known of a table, with bounds of every kind that goes with it."""
    given, upper = BY_NAME[name], above(known(name))
    data, terms = given.data, (given.depth, given.output_bias)
    layout, theta = given.start
    rest = layout.to_network(theta), [], Status.HEURISTIC, 1e-6
    if given.lam is not None:
        loss = squared(given.Y)
        found = DeepFit(data, *terms, *rest, lam=given.lam, loss=loss)
        found.bounds = fit_bounds(data, loss, given.lam, given.output_bias, layout, theta, found.objective)
        return found
    closed = closed_bounds(data, *terms)
    found = DeepSolution(data, *terms, *rest)
    more = chain_bounds(data, *terms, upper=upper, closed=closed) if len(data.X) == 2 else []
    found.bounds = [*closed, *(more or tree_bounds(data, *terms, upper=upper))]
    found.bounds.sort(key=lambda bound: -bound.value)
    return found


def is_believed(content: dict, k: int, name: str) -> bool:
    """Whether a bound of a file passes its check; it never proves more than the network known costs."""
    try:
        found = type(solution(name)).from_dict(json.loads(json.dumps(content)))
    except SolutionFileError:
        return False
    value = recompute_bound(found.bounds[k], solution(name).asked())[0]
    assert value <= known(name)
    return found.bounds[k].value <= value * (1.0 + FOUND)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_read_back_and_claims_no_more_than_is_proved(name):
    """Numbers of its proofs are changed by the adversary: depth/forged, depth/fit."""
    honest = solution(name)
    content = honest.to_dict()
    again = type(honest).from_dict(json.loads(json.dumps(content)))
    assert again.to_dict() == content and all(check.ok for check in again.claims())
    forged = copy.deepcopy(content)  # a claim above what is proved
    forged["bounds"][0]["value"] = forged["lower_bound"] = honest.lower_bound * (1.0 + 1e-8)
    assert not is_believed(forged, 0, name)


@pytest.mark.parametrize(
    ("change", "failed"),
    cases("changes of a deep network's file, and the claim that fails: none where it is damaged"),
)
def test_every_claim_is_checked(change, failed, tmp_path):
    path, content = tmp_path / "deep.json", copy.deepcopy(solution(TREE).to_dict())
    change(content)
    if failed == "interpolation" and content["network"] != solution(TREE).to_dict()["network"]:
        content["cost"] = DeepReLUNetwork(
            [np.array(w) for w in content["network"]["weights"]],
            [None if b is None else np.array(b) for b in content["network"]["biases"]],
        ).squared_norm
    path.write_text(json.dumps(content))
    if failed is None:
        with pytest.raises(SolutionFileError, match="damaged"):
            covopt.load(path)
    else:
        assert failed in {check.name for check in covopt.verify(path).checks if not check.ok}


@pytest.mark.parametrize("kind", ["chain", "families", "shares", "flows"])
def test_a_bound_of_a_kind_that_is_gone_is_read_and_not_verified(kind):
    content = copy.deepcopy(solution(TREE).to_dict())
    content["bounds"].append({"value": 0.0, kind: {"nodes": [-1]}, "cutoff": None})
    found = DeepSolution.from_dict(content)
    assert DeepSolution.from_dict(found.to_dict()).lower_bound == found.lower_bound
    assert "no longer read; compute the bracket again" in recompute_bound(found.bounds[-1], found.asked())[1]


@pytest.mark.parametrize(("depth", "weights"), [(1, [[[1.0]]]), (0, [])])
def test_a_file_of_no_hidden_layer_is_not_believed(depth, weights):
    # f(x) = x costs 1; the formulas for hidden layers gave 2
    points = np.array([[1.0], [-1.0]])
    data, network = Data.validate(points, points, bias=0.0), DeepReLUNetwork([np.array([[1.0]])])
    bound = replace(closed_bounds(data, 3, "none")[0], value=1.9)
    assert not covopt.verify(DeepSolution(data, depth, "none", network, [bound], Status.HEURISTIC, 1e-6)).ok


# ------------------------------------------------------------------ trees whose parts are exchanged
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_child_that_is_forged_is_refused_or_proves_no_more():
    given, tree = BY_NAME[TREE], tree_of(BY_NAME[TREE])
    family, root, honest = tree.family, tree.places[0][0], tree_bound(tree, given, 100.0)

    def bound(children=None, members=None, **changes):
        parts = replace(family, members=family.members if members is None else members)
        parts = parts if children is None else replace(parts, children=children)
        return tree_bound(replace(tree, family=parts, **changes), given, 100.0)

    first = family.children[0]
    for forged, words in (
        ({"children": family.children[1:]}, "children are missing or invalid"),
        ({"children": [replace(first, mu=(9.0,) * 3), *family.children[1:]]}, "children are missing or invalid"),
        ({"members": 2 * family.members}, "unit vectors"), ({"rows": (0, 1, 7)}, "rows of the table"),
        ({"rows": (0, 1, 1)}, "rows of the table"), ({"dual": tree.dual * np.inf}, "dual is none"),
        ({"dual": tree.dual[:2]}, "dual is none"), ({"dual": 1e-200 * tree.dual}, "too large or too small"),
        ({"directions": np.ones((1, 2))}, "directions are none"), ({"directions": np.zeros((1, 1))}, "no basis"),
        ({"places": ((99, 1.0),)}, "root is none"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            bound(**forged)
    # a wrong place, or a child matched with a wrong member, is paid for by its rest; another dual is another proof
    wrong = [replace(child, member=0, scale=0.0) for child in family.children]
    # as is a child that is half of its own on rows that may be on
    halved = [
        replace(c, on=0, maybe=c.on | c.maybe, mu=tuple(0.5 * m for m in c.mu), scale=0.5 * c.scale)
        for c in family.children
    ]
    for forged in (
        {"children": wrong}, {"children": halved}, {"places": ((0, 0.0),)}, {"dual": tree.dual[::-1].copy()},
    ):  # fmt: skip
        assert bound(**forged) <= known(TREE)
    for factor in (0.5, 0.9, 1.5):
        scaled = [replace(child, scale=factor * child.scale) for child in family.children]
        assert bound(scaled) <= honest * 1.001
    # 0 times infinity was no number, and no number passed for a proof of everything
    m = len(family.members)
    silent = replace(first, parent=m, sign=1, mu=(0.0,) * 3, member=0, scale=0.0, maybe=0)
    own = [replace(silent, on=on) for on in range(1, 8)]
    to_huge = [replace(c, member=m, scale=0.0) if c.parent == root else c for c in family.children]
    assert bound([*to_huge, *own], np.vstack([family.members, np.full((1, 3), 1.7e308)])) <= 1e-5
    assert bound([replace(c, scale=1.7e308) for c in family.children]) <= 1e-5
    members = family.members.copy()
    members[root] = 1.7e308  # a sum that overflows is no traceback
    forged = Bound(1.0, "trees", (replace(tree, family=replace(family, members=members)),))
    assert recompute_bound(forged, solution(TREE).asked())[0] == 0.0


def test_residuals_of_a_softmax_sum_to_zero_exactly():
    # beside that plane C* is infinite: a direction off by a unit would prove nothing, so it is moved into it
    points, targets = np.array([[0.0], [1.0]]), ["a", "b"]
    found = covopt.fit(points, targets, lam=0.01, depth=3, loss="softmax-cross-entropy", time_limit_s=None)
    assert found.lower_bound > 0.6 * found.objective
    tree = next(b for b in found.bounds if b.proof).proof[0]
    with pytest.raises(ValueError, match="do not sum to zero"):
        KINDS["trees"].value((replace(tree, dual=tree.dual + np.array([0.0, 1e-9])),), found.asked())


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "softmax-cross-entropy", "logistic"])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_row_of_weight_zero_takes_no_part(loss):
    points, targets = np.array([[0.0], [1.0], [2.5], [4.0]]), np.array([1, 0, 1, 1])
    options = {"lam": 0.01, "depth": 3, "loss": loss, "time_limit_s": None}
    found = covopt.fit(points, targets, sample_weight=[1, 1, 1, 0], **options)
    # two searches, each for a bound of its own: they end some two per cent apart
    fewer = covopt.fit(points[:3], targets[:3], **options)
    assert found.lower_bound == pytest.approx(fewer.lower_bound, rel=0.05)
    assert covopt.verify(found).ok
    tree = found.bounds[0].proof[0]  # residuals on such a row: C* is infinite there
    with pytest.raises(ValueError, match="weight zero"):
        KINDS["trees"].value((replace(tree, rows=(3, *tree.rows[1:])),), found.asked())


# ----------------------------------------------------- one target, and bounds laid on other tables
def test_a_bound_by_rows_is_about_those_rows():
    X, Y = np.array([[1.0, 0.0], [0.7, 1.1], [0.2, 0.4]]), np.array([[3.0], [3.0], [-0.1]])
    data, rest = Data.validate(X, Y, bias=1.0), (solution(TREE).network, [], Status.HEURISTIC, 1e-6)
    asked = DeepSolution(data, 4, "none", *rest).asked()
    level = next(b for b in closed_bounds(asked.data, 4, "none") if b.proof.kind == "level")
    assert level.proof.rows == (0, 1) and recompute_bound(level, asked) == (level.value, "")

    def worth(rows=(0, 1), kind="level", channel=False, **change):
        bound = replace(level, proof=PairBound(1.0, kind, rows, channel))
        return recompute_bound(bound, replace(asked, **change))[0]

    assert 0.0 < worth((0,)) < level.value
    plain, zero = Data.validate(X, Y, bias=0.0), Data.validate(X, np.array([[0.0], [0.0], [1.0]]), bias=1.0)
    for rows in ((0, 2), (2, 0), (0, 5), (), (0, 1, 1)):
        assert worth(rows) == 0.0
    assert worth(data=plain) == worth(output_bias="free") == worth(data=zero) == 0.0
    # two rows without biases are worth nothing with them but for the constant channel, nor that without
    assert worth(kind="rows") == worth(kind="rows", channel=True, data=plain) == 0.0
    assert worth((0,), "rows", data=plain) == 0.0
    assert worth(kind="rows", data=plain) > 0.0
    # on one ray
    assert worth(kind="rows", data=Data.validate([[1.0], [2.0]], [[1.0], [2.0]], bias=0.0)) == 0.0


def test_older_names_of_pairs_are_read():
    for kind in ("rows", "quadrant", "obtuse", "apart", "acute"):
        content = {"value": 1.0, "pair": {"value": 1.0, "kind": kind, "rows": [0, 1]}, "chain": None}
        assert "alone, exactly" in bound_from_dict(content).title
    with pytest.raises((CovoptError, ValueError), match="looks at norms up to"):
        bound_from_dict({**content, "cutoff": -1.0})
