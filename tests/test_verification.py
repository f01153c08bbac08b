"""A checker that rejects: every number of a solution changed, one at a time."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest

import covopt
from benchmarks.adversary.mutate import at
from covopt.errors import InputError
from covopt.solution import Solution
from tests.cases import cases, drawn, normal

KINDS = ["none", "penalized", "free"]


@pytest.fixture(scope="module", params=KINDS)
def solution(request) -> Solution:
    rng, X = drawn(0, (9, 2))
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
    ("path", "change", "check"), cases("changes of a solution, and the check that sees them")
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


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda s: {"network": replace(s.network, bias=2.0)}, "network"),
        (lambda s: {"dual": s.dual[:-1]}, "dual"),
        (lambda s: {"dual": s.dual + 1e-7 * np.abs(s.dual).max()}, "dual sum"),
    ],
    ids=["network of another bias", "dual of fewer rows", "dual with a sum"],
)
def test_parts_that_do_not_belong_to_the_table(solution, change, check):
    found = failed(replace(solution, **change(solution)))
    assert (check in found) == (check != "dual sum" or solution.output_bias == "free")


def test_no_network_at_all_has_no_gap_of_zero():
    nothing = covopt.min_norm([[0.0], [1.0]], [0.0, 0.0])
    stated = replace(nothing.certificate, residual=1.0)
    forged = replace(nothing, data=replace(nothing.data, Y=np.array([[0.0], [1.0]])), certificate=stated)
    assert "gap" in failed(forged)


def test_a_network_that_misses_the_points_may_cost_less_than_the_bound():
    """Frank–Wolfe on clusters: the network of 1 − 1e-12 of the targets costs less than the bound 2, which holds."""
    solution = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
    stated = replace(solution.certificate, lower_bound=2.0)
    short = replace(solution.network, output_weights=(1.0 - 1e-12) * solution.network.output_weights)
    assert "lower bound" not in failed(replace(solution, network=short, certificate=stated))
    above = replace(stated, lower_bound=2.0 * (1.0 + 4e-12))
    assert "lower bound" in failed(replace(solution, network=short, certificate=above))


@pytest.mark.parametrize("tol", [0.0, -1e-6, 1.0, 2.0, float("inf"), float("nan")])
def test_a_tolerance_is_a_number_between_0_and_1(solution, tol):
    # "certified: recomputed gap 3e-9, asked for inf" passed
    assert {"tolerance", "status"} <= failed(replace(solution, tol=tol))


@pytest.mark.parametrize(
    "words", ["divided by a valid upper bound on the maximum", "divided by its exact maximum"]
)
@pytest.mark.parametrize("exact", [True, False])
def test_a_bound_that_is_not_exact_is_not_called_exact(solution, monkeypatch, words, exact):
    bound = "dual point divided by a valid upper bound on the maximum over all neurons"
    weaker = replace(solution.certificate, exact=False, bound=bound)
    monkeypatch.setattr("covopt.certificates.stated.Certifier.certify", lambda *_, **__: weaker)
    changes = {"exact": exact, "bound": f"dual point {words} over all neurons"}
    stated = copy.copy(solution)
    stated.certificate = replace(solution.certificate, **changes)
    assert failed(stated) == (set() if not exact and "valid" in words else {"bound in words"})


@pytest.fixture(scope="module")
def fits():
    X = normal(1, (12, 2))
    targets = {
        "squared": (X[:, 0] ** 2, 0.01, "squared"),
        "logistic": (np.where(X[:, 0] > 0, "yes", "no"), 0.01, "logistic"),
        "softmax": ((X[:, 0] > 0) * 1 + (X[:, 1] > 0), 0.02, "softmax-cross-entropy"),
    }
    kinds = "label-noise", "label-noise-exact"
    noise = {kind: covopt.fit(X, X[:, 0] ** 2, lam=0.01, potential=kind) for kind in kinds}
    found = {name: (X, y, covopt.fit(X, y, lam=lam, loss=loss)) for name, (y, lam, loss) in targets.items()}
    return found | {name: (X, X[:, 0] ** 2, solution) for name, solution in noise.items()}


@pytest.mark.parametrize(("path", "change", "check"), cases("changes of a fit, and the check that sees them"))
@pytest.mark.parametrize("name", ["squared", "logistic", "label-noise", "label-noise-exact"])
def test_every_number_of_a_fit_matters(fits, name, path, change, check):
    *_, solution = fits[name]
    assert failed(solution) == set()
    assert check in failed(changed(solution, set_at(*path, **change)))


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


@pytest.mark.thinned(2)
@pytest.mark.parametrize("loss", ["squared", "huber", "hinge", "squared-hinge"])
@pytest.mark.parametrize("output_bias", ["none", "penalized", "free"])
def test_exact_bounds_take_the_multiple_that_the_stated_bound_takes(loss, output_bias):
    rng, X = drawn(0, (8, 2))
    y = rng.standard_normal(8) if loss in ("squared", "huber") else np.arange(8) % 2
    solution = covopt.fit(X, y, lam="0.1max", loss=loss, output_bias=output_bias, tol=1e-7, random_state=0)
    short = replace(solution, dual=0.285 * solution.dual)  # as good: its bound is divided by its dual norm
    stated, found = solution.lower_bound, covopt.verify(short, exact=True)
    assert found.certificate.lower_bound == pytest.approx(stated, rel=1e-9)
    assert "exact lower bound" not in found.failed, found.summary()
    assert short.prove().lower_bound == pytest.approx(stated, rel=1e-8)
