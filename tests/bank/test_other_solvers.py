"""Every other solver on the bank: brackets that enclose the reference, and optimal where they say so."""

from itertools import pairwise
from unittest.mock import Mock

import pytest

import covopt
from covopt.conic.programs import why_unavailable
from covopt.errors import BudgetError
from tests.bank.checks import check_bracket, check_kkt, check_optimal, reference
from tests.bank.problems import BY_NAME, CLOSED_FORMS, COMBINATIONS

VARIATION = [problem for problem in COMBINATIONS if problem.potential == "variation"]
ONE = [problem for problem in VARIATION if problem.targets.shape[1] == 1]
SEVERAL = [problem for problem in VARIATION if problem.targets.shape[1] > 1]


def named(problems):
    return pytest.mark.parametrize("name", [problem.name for problem in problems])


refuse = Mock(side_effect=BudgetError("too many faces"))


# -------------------------------------------------------------------- where the faces are too many
SEARCHED = [*ONE[::6], *(p for p in SEVERAL if p.name.startswith("line"))]
SEARCHED = [p for p in SEARCHED if not p.name.startswith("line/interpolation")]  # which arcs solve


@pytest.mark.thinned(9)
@named(SEARCHED[2::4])
def test_branch_and_bound(name, monkeypatch):
    reference(BY_NAME[name])  # by the exact oracle, which is refused from here on
    for module in ("certificates.tight", "api.task"):
        monkeypatch.setattr(f"covopt.{module}.exact_oracle", refuse)
    solution = BY_NAME[name].solve(tol=1e-6, random_state=0)
    assert solution.solver.startswith("column-generation with ")
    check_optimal(BY_NAME[name], solution, 1e-6)
    assert covopt.verify(solution).ok


@pytest.mark.thinned(4)
@named([*ONE[1::6], SEVERAL[0]])
def test_local_search(name, monkeypatch):
    """One node of the tree, so that it gives up: the network is a bracket's upper end, and its dual the lower one."""
    reference(BY_NAME[name])  # by the exact oracle, which is refused from here on
    for module in ("certificates.tight", "api.task"):
        monkeypatch.setattr(f"covopt.{module}.exact_oracle", refuse)
    monkeypatch.setattr("covopt.oracles.cascade.suits_signs", lambda *sizes: False)
    solution = BY_NAME[name].solve(tol=1e-6, random_state=0)
    check_bracket(BY_NAME[name], solution)
    assert solution.objective >= reference(BY_NAME[name])[1] * (1 - 1e-9)
    assert covopt.verify(solution).ok


@pytest.mark.thinned(5)
@named([p for p in [*CLOSED_FORMS[::4], *VARIATION] if p.loss is None])
def test_relaxation(name):
    """It reaches seven tenths of the optimum for one output, and half of it for several."""
    solution = BY_NAME[name].solve(solver="relaxation", tol=1e-2)
    check_bracket(BY_NAME[name], solution)
    share = 0.7 if BY_NAME[name].targets.shape[1] == 1 else 0.5
    assert solution.lower_bound >= share * reference(BY_NAME[name])[1]
    assert "semidefinite" in solution.solver or not solution.cost
    assert covopt.verify(solution).ok


@pytest.mark.thinned(5)
# ---------------------------------------------------------------------- one program over all cells
@named([p for p in [*CLOSED_FORMS, *VARIATION] if p.loss is None and p.targets.shape[1] == 1])
@pytest.mark.parametrize(("backend", "tol"), [("CLARABEL", 1e-9), ("SCS", 1e-4), ("MOSEK", 1e-9)])
def test_conic(name, backend, tol):
    """A backend's network may miss the points by a little more than certificates allow, and then says so."""
    reason = why_unavailable(backend)
    if reason is not None:
        pytest.skip(f"{backend}: {reason}")
    solution = BY_NAME[name].solve(solver=f"conic:{backend}", tol=tol)
    if solution.status.code == "certified":
        check_optimal(BY_NAME[name], solution, tol)
    else:
        assert backend == "SCS"
        check_bracket(BY_NAME[name], solution)
    assert solution.cost == pytest.approx(reference(BY_NAME[name])[0], rel=max(tol, 1e-7), abs=1e-9)
    assert covopt.verify(solution).ok


# ------------------------------------------------------------ Frank–Wolfe over the covariance cone
def frank_wolfe(problem, **options):
    if problem.loss is not None:  # a sum of squares instead of their mean
        options["lam"] = problem.lam * len(problem.targets)
    return covopt.frank_wolfe(
        problem.X, problem.Y, bias=problem.bias, output_bias=problem.output_bias, random_state=0, **options
    )


CONE = [p for p in VARIATION if p.loss in (None, "squared")]


@pytest.mark.thinned(11)
@named([*CONE, *(p for p in CLOSED_FORMS[::3])])
@pytest.mark.parametrize("variant", ["sliding", "fully-corrective"])
def test_frank_wolfe(name, variant, tmp_path):
    solution = frank_wolfe(BY_NAME[name], variant=variant, tol=1e-6)
    check_optimal(BY_NAME[name], solution, 1e-6)
    solution.save(tmp_path / "solution.json")
    found = covopt.verify(tmp_path / "solution.json", exact=True)
    assert found.ok, found.summary()


@pytest.mark.thinned(6)
@named(CONE[::2])
@pytest.mark.parametrize("variant", ["pairwise", "vanilla"])
def test_frank_wolfe_one_atom_at_a_time(name, variant):
    result = frank_wolfe(BY_NAME[name], variant=variant, tol=1e-3, max_iter=20)
    check_bracket(BY_NAME[name], result)
    bounds = [state["lower_bound"] for state in result.history]
    assert bounds == sorted(bounds)
    assert result.lower_bound > 0.1 * result.objective


# ---------------------------------------------------------------------- paths
@pytest.mark.thinned(6)
@named([p for p in COMBINATIONS if p.loss is not None][::4])
def test_the_path_ends_there(name):
    problem = BY_NAME[name]
    options = problem.options | {"loss": problem.loss}
    top = covopt.lambda_max(problem.X, problem.Y, **options)
    lams = sorted({top * (1 + 1e-9), 0.999 * top, max(top, 1.1 * problem.lam) / 2, problem.lam}, reverse=True)
    path = covopt.path(problem.X, problem.Y, lams=lams, tol=1e-7, **options)
    assert [s.lam for s in path] == lams
    sizes = [len(path[lams.index(lam)].network) for lam in (top * (1 + 1e-9), 0.999 * top)]
    assert sizes[0] == 0
    if problem.loss != "hinge" or problem.output_bias == "none":  # elsewhere the constant sits at a kink
        assert sizes[1] > 0
    size = path[0].objective * 1e-7
    for one, other in pairwise(path):  # two objectives within the tolerance: twice it can hide in either term
        assert other.loss_value <= one.loss_value + 4 * size
        assert other.cost >= one.cost - 4 * size / (one.lam - other.lam) or problem.output_bias != "none"
        assert other.objective <= one.objective + size
        # the optimal value is concave in λ, with slope ‖W‖²
        assert other.lower_bound <= one.objective - (one.lam - other.lam) * one.cost + size
    at = lams.index(problem.lam)
    check_optimal(problem, path[at], 1e-7)
    if problem.targets.shape[1] == 1:
        check_kkt(problem, path[at].network, path[at].dual, 2e-7)
