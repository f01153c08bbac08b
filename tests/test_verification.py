"""A checker that rejects: every number of a solution changed, one at a time."""

import copy
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import covopt
from benchmarks.adversary.exactly import fractions, outputs
from benchmarks.adversary.mutate import at
from covopt.errors import InputError
from covopt.solution import Solution
from tests.cases import cases

KINDS = ["none", "penalized", "free"]


@pytest.fixture(scope="module", params=KINDS)
def solution(request) -> Solution:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 2))
    # not plain noise: there 1ᵀλ = 0, and one solution is right for every kind of output bias
    y = X[:, 0] ** 2 + 2.0 + 0.1 * rng.standard_normal(9)
    return covopt.min_norm(X, y, output_bias=request.param, tol=1e-8, random_state=0)


def changed(solution: Solution, mutate) -> Solution:
    """The solution after a round trip through JSON with one change."""
    content = json.loads(json.dumps(solution.to_dict()))
    before = copy.deepcopy(content)
    mutate(content)
    assert content != before, "nothing was changed"
    return Solution.from_dict(content)


def set_at(*path, factor=None, add=None, to=None):
    def mutate(content):
        content, last = at(content, path)
        if factor is not None:
            content[last] *= factor
        elif add is not None:
            content[last] += add
        else:
            content[last] = to

    return mutate


def failed(solution: Solution) -> set[str]:
    verification = covopt.verify(solution)
    assert verification.ok == all(check.ok for check in verification.checks)
    return {check.name for check in verification.checks if not check.ok}


@pytest.mark.parametrize(
    ("path", "change", "check"),
    cases("changes of a solution, and the check that sees them"),
)
def test_every_number_matters(solution, path, change, check):
    assert sees(check, failed(changed(solution, set_at(*path, **change))))


def sees(check, found):
    """Whether these are the checks that failed: "= a" exactly that one, "a or b" one of them, nothing none."""
    if check.startswith("= "):
        return found == {check[2:]}
    return bool(set(check.split(" or ")) & found) if check else not found


def test_a_bound_that_verify_finds_exactly_need_not_have_been_found_so(solution):
    def loosen(content):  # what a solve within a time limit states
        content["certificate"] |= {
            "exact": False, "gauge": content["certificate"]["gauge"] + 0.01,
            "bound": content["certificate"]["bound"].replace(
                "its exact maximum over all neurons", "a valid upper bound on the maximum over all neurons"
            ),
        }  # fmt: skip

    assert failed(changed(solution, loosen)) == set()

    def lower(content):
        loosen(content)
        content["certificate"]["gauge"] -= 0.02

    assert failed(changed(solution, lower)) == {"dual feasible"}


def test_a_cost_below_the_bound_is_a_gap():
    # slope 50 between points 1e-11 apart: without it the targets are missed by 5e-10 only
    X, y = [[0.0], [1e-11], [1.0]], [0.0, 5e-10, 1.0]
    lazy = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).network
    solution = covopt.min_norm(X, y)
    content = solution.to_dict()
    content["network"]["hidden_weights"] = lazy.hidden_weights.tolist()
    content["network"]["output_weights"] = lazy.output_weights.tolist()
    content["network"]["n_neurons"] = len(lazy)
    content["cost"], content["status"] = lazy.squared_norm, "certified"
    content["gap"], content["lower_bound"] = 0.0, lazy.squared_norm
    assert lazy.squared_norm < 0.5 * solution.lower_bound
    mutated = Solution.from_dict(content)
    assert np.abs(lazy.predict(np.array(X)) - y).max() <= 1e-9
    assert "status" in failed(mutated)


@pytest.mark.parametrize("tol", [0.0, -1e-6, 1.0, 2.0, float("inf"), float("nan")])
def test_a_tolerance_is_a_number_between_0_and_1(solution, tol):
    # "certified: recomputed gap 3e-9, asked for inf" passed
    assert {"tolerance", "status"} <= failed(replace(solution, tol=tol))


@pytest.mark.parametrize(
    "words", ["divided by a valid upper bound on the maximum", "divided by its exact maximum"]
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_bound_that_is_not_exact_is_not_called_exact(solution, monkeypatch, words, exact):
    from covopt.certificates import stated as checker

    def weaker(*args, **options):
        found = replace(solution.certificate, exact=False)
        return replace(
            found, bound="dual point divided by a valid upper bound on the maximum over all neurons"
        )

    monkeypatch.setattr(checker, "certify", weaker)
    changes = {"exact": exact, "bound": f"dual point {words} over all neurons"}
    stated = copy.copy(solution)
    stated.certificate = replace(solution.certificate, **changes)
    assert failed(stated) == (set() if not exact and "valid" in words else {"bound in words"})


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((12, 2))
    targets = {
        "squared": (X[:, 0] ** 2, 0.01, "squared"),
        "logistic": (np.where(X[:, 0] > 0, "yes", "no"), 0.01, "logistic"),
        "softmax": ((X[:, 0] > 0) * 1 + (X[:, 1] > 0), 0.02, "softmax-cross-entropy"),
    }
    noise = {
        name: covopt.fit(X, X[:, 0] ** 2, lam=0.01, potential=name)
        for name in ("label-noise", "label-noise-exact")
    }
    found = {name: (X, y, covopt.fit(X, y, lam=lam, loss=loss)) for name, (y, lam, loss) in targets.items()}
    return found | {name: (X, X[:, 0] ** 2, solution) for name, solution in noise.items()}


@pytest.mark.parametrize(
    ("path", "change", "check"),
    cases("changes of a fit, and the check that sees them"),
)
@pytest.mark.parametrize("name", ["squared", "logistic", "label-noise", "label-noise-exact"])
def test_every_number_of_a_fit_matters(fits, name, path, change, check):
    *_, solution = fits[name]
    assert failed(solution) == set()
    assert check in failed(changed(solution, set_at(*path, **change)))


def test_classes_are_those_of_the_table(fits):
    X, y, solution = fits["logistic"]
    assert covopt.verify(solution, X, y).ok
    other = changed(solution, set_at("problem", "loss", "classes", to=["cat", "dog"]))
    assert [check.name for check in covopt.verify(other, X, y).checks if not check.ok] == ["classes"]


def of_its_own():
    """The rows of a section about solutions that are made for one change."""
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((40, 2)), rng.standard_normal(40)
    names = {
        "covopt": covopt, "PLANE": plane, "TWO": ([[0.0], [1.0]], [0.0, 1.0]),
        "THREE": ([[0.0, 1.0], [1.0, 0.3], [-1.0, 0.5]], [0.0, 1.0, -1.0]), "LOGISTIC": "logistic",
        "SOFTMAX": "softmax",
    }  # fmt: skip
    return cases("solutions of their own, a change, and the checks that fail", **names)


@pytest.mark.parametrize(("make", "changes", "check"), of_its_own())
def test_a_change_of_a_solution_of_its_own(fits, make, changes, check):
    made = make()
    solution = fits[made][2] if isinstance(made, str) else made
    assert covopt.verify(solution).ok

    def mutate(content):
        for path, value in (changes(content) if callable(changes) else changes).items():
            set_at(*path.split("/"), to=value)(content)

    found = covopt.verify(changed(solution, mutate))
    assert sees(check, {each.name for each in found.checks if not each.ok})
    assert check != "data" or (found.certificate is None and "same point" in found.summary())


def test_the_table_is_compared(solution):
    X, y = solution.data.X, solution.data.Y[:, 0]
    assert covopt.verify(solution, X, y).ok
    order = np.random.default_rng(1).permutation(len(y))
    assert covopt.verify(solution, X[order], y[order]).ok, "in any order"
    for other_X, other_y in (
        (X + 1e-9, y), (X, y + 1e-9), (X[1:], y[1:]), (X[:, :1], y), (X[order], y), (-X, y),
    ):  # fmt: skip
        verification = covopt.verify(solution, other_X, other_y)
        assert not verification.ok
        assert not next(check for check in verification.checks if check.name == "table").ok
    with pytest.raises(InputError, match="needs Y together with X"):
        covopt.verify(solution, X)
    with pytest.raises(InputError, match="row 0"):
        covopt.verify(solution, np.where(np.arange(9)[:, None] == 0, np.nan, X), y)


@pytest.mark.parametrize(("x_unit", "y_unit"), [(1e8, 1e-6), (1.0, 1e-14), (1e-13, 1.0)])
def test_the_table_is_compared_in_the_units_of_its_columns(solution, x_unit, y_unit):
    X, y = x_unit * solution.data.X, y_unit * solution.data.Y[:, 0]
    other = covopt.min_norm(X, y, bias=x_unit)
    assert covopt.verify(other, X, y).ok
    assert not covopt.verify(other, X, 2.0 * y).ok
    assert not covopt.verify(other, X * (1 + 1e-9), y).ok


@pytest.mark.parametrize("loss", [None, "squared"])
def test_a_table_that_is_nearly_the_one_in_the_file_is_checked_itself(loss):
    # within 1e-12 of the largest entry, and yet half as steep: the file's bound was called right for it
    X, y, apart = (
        np.array([[0.0], [1.0], [1e-9], [1e3]]),
        np.array([0.0, 1.0, 1.0, 1.0]),
        [0.0, 0.0, 1e-9, 0.0],
    )
    other = X + np.array(apart)[:, None]
    found = covopt.min_norm(X, y) if loss is None else covopt.fit(X, y, loss=loss, lam=1e-12)
    assert covopt.verify(found, X[::-1], y[::-1]).ok
    checked = covopt.verify(found, other[::-1], y[::-1])
    assert "lower bound" in checked.failed
    assert "as it is given" in checked.checks[0].detail
    ulp = np.where(np.arange(9)[:, None] == 3, 1 + 2**-52, 1.0)
    if loss is None:  # one unit in the last place is no reason to refuse
        X = np.random.default_rng(0).standard_normal((9, 1))
        found = covopt.min_norm(np.vstack([X, X[:1]]), np.append(X[:, 0] ** 2, X[0] ** 2))
        assert covopt.verify(found, X * ulp, X[:, 0] ** 2).ok


def test_a_costly_network_excuses_no_bound():
    # two neurons that are silent on all points: the bound was compared in units of their cost
    found = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]).to_dict()
    for name, row in (("hidden_weights", [0.0, -1e7]), ("output_weights", [1e7])):
        found["network"][name] += [row, row]
    found["network"]["n_neurons"] += 2
    cost = Solution.from_dict(found).network.squared_norm
    found |= {"cost": cost, "gap": 1.0 - 1000.0 / cost, "status": "gap", "lower_bound": 1000.0}
    checked = covopt.verify(Solution.from_dict(found), exact=True)
    assert checked.failed == ["lower bound", "exact lower bound"]


def test_far_rows_with_a_free_output_bias_pass_their_own_verification():
    # taking out what the dual has along the middle of the rows left 1ᵀλ = 2e-8
    X, y = [[1e4, 2e4], [1e4 - 1, 2e4 + 2], [1e4 + 1, 2e4 - 1], [1e4 - 3, 2e4]], [1.0, -1.0, 0.5, 2.0]
    found = covopt.min_norm(X, y, output_bias="free")
    assert float(np.sum(found.dual)) == 0.0
    checked = covopt.verify(found)
    assert checked.ok
    assert found.certificate.residual < 1e-10
    missed = np.array(outputs(found.data.X, found.network), dtype=object) - fractions(found.data.Y)
    assert np.abs(missed).max() <= 2 * Fraction(1e-10)


def test_standardised_columns_far_from_zero_pass_their_own_verification():
    # their mean is 1e-4 by rounding, and their spread was found off by its square
    found = covopt.min_norm([[999999999999.8978], [999999999998.3989]], [1.0, 2.0], standardise=True)
    assert covopt.verify(found).ok


@pytest.mark.parametrize("lam", [1.79e-11, 1e-13])
def test_a_dual_whose_rounding_is_visible_is_stored_as_certified(lam):
    # the last digits of −2λΛ, beside λ, move the gauge by 1e-6 and more each time that it is divided by it
    X, weight = [[0.11701271181145481], [0.6952496889799451]], [4.329983638898581e-07, 0.09874652398735972]
    solution = covopt.fit(
        X, [0, 1], lam=lam, loss="softmax-cross-entropy", bias=0.1, output_bias="free", sample_weight=weight,
        tol=1e-4, random_state=0,
    )  # fmt: skip
    assert solution.certificate.gauge <= 1.0 + 1e-7
    found = covopt.verify(solution)
    assert found.ok, found.summary()


@pytest.mark.thinned(2)
@pytest.mark.parametrize("loss", ["squared", "huber", "hinge", "squared-hinge"])
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_exact_bounds_take_the_multiple_that_the_stated_bound_takes(loss, output_bias):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((8, 2))
    y = rng.standard_normal(8) if loss in ("squared", "huber") else np.arange(8) % 2
    solution = covopt.fit(X, y, lam="0.1max", loss=loss, output_bias=output_bias, tol=1e-7, random_state=0)
    short = replace(solution, dual=0.285 * solution.dual)  # as good: its bound is divided by its gauge
    stated, found = solution.lower_bound, covopt.verify(short, exact=True)
    assert found.certificate.lower_bound == pytest.approx(stated, rel=1e-9)
    assert "exact lower bound" not in found.failed, found.summary()
    assert short.prove().lower_bound == pytest.approx(stated, rel=1e-8)


def test_what_holds_in_floating_point_alone_is_no_ok():
    several = covopt.min_norm(np.eye(3), np.eye(3)[:, :2], bias=0.0)
    floating, proved = (
        covopt.verify(several, exact=True),
        covopt.verify(covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]), exact=True),
    )
    assert floating.ok, floating.summary()
    assert (floating.exact, proved.exact, covopt.verify(several).exact) == (False, True, None)
    lines = floating.summary().splitlines()
    assert not any(line.startswith("ok") and "NOT exact" in line for line in lines)
    assert any(line.startswith("FLOAT  exact lower bound: NOT exact") for line in lines)
    assert lines[-1] == "verified, but NOT exactly"
    assert proved.summary().splitlines()[-1] == "verified"
    marks = {check["name"]: check["mark"] for check in floating.to_dict()["checks"]}
    assert (marks["norm"], marks["exact lower bound"]) == ("ok", "float")
    assert floating.to_dict()["exact"] is False
    assert proved.to_dict()["exact"] is True


def test_a_solution_says_its_problem_and_a_user_what_he_expects():
    solution = covopt.fit(
        [[0.0], [1.0], [2.0]], [1.0, 0.0, 3.0], lam=0.1, loss="huber", sample_weight=[1, 2, 1]
    )
    detail = {check.name: check.detail for check in covopt.verify(solution).checks}["stated problem"]
    for words in [
        "λ = 0.1",
        "loss huber",
        "bias 1,",
        "output bias none",
        "weights given",
        "standardised: no",
    ]:
        assert words in detail
    right = dict(lam=0.1, loss="huber", bias="1", output_bias="none", weights="given", standardise=False)
    assert covopt.verify(solution, expect=right).ok
    for name, value in dict(lam=0.2, loss="squared", bias=0, weights="none", standardise="yes").items():
        found = covopt.verify(solution, expect={**right, name: value})
        assert found.failed == [f"expected {name}"], found.summary()
    assert "expected lam" in covopt.verify(solution, expect={"lam": "none"}).failed
    assert covopt.verify(covopt.min_norm([[0.0], [1.0]], [0.0, 1.0]), expect={"lam": "none"}).ok
    path = covopt.path([[0.0], [1.0], [2.0]], [1.0, 0.0, 3.0], n_lams=2)
    assert covopt.verify(path, expect={"loss": "squared"}).ok
    assert not covopt.verify(path, expect={"loss": "huber"})
