"""Outcomes compare with their codes, and what verifies is true."""

import json
import pickle

import numpy as np
import pytest

import covopt
from covopt.completely_positive.certificate import CPStatus
from covopt.datasets import make_random_plane
from covopt.experiments.membership import Place
from covopt.status import Status


@pytest.mark.parametrize("kind", [Status, CPStatus])
def test_a_status_is_its_code(kind):
    for member in kind:
        assert member == member.code == str(member) == f"{member}"
        assert member != "optimal"
        assert {member: 1}[member.code] == 1
        assert kind(member.code) is kind.from_code(member.code) is member
        assert pickle.loads(pickle.dumps(member)) is member
        assert json.loads(json.dumps(member)) == member.code
        assert member.message and member.message != member.code
    with pytest.raises(ValueError, match="unknown status"):
        kind.from_code("optimal")
    assert Place.IN == "in"


def test_a_solution_compares_and_a_failed_verification_is_false():
    solution = covopt.min_norm([[0.0], [1.0]], [0.0, 1.0])
    assert solution.status == "certified"
    assert covopt.verify(solution)
    solution.dual = 2.0 * solution.dual
    assert not covopt.verify(solution)


def test_the_norm_of_a_fit_is_named():
    X, y = make_random_plane(8)
    fitted = covopt.fit(X, y, lam=0.1)
    stated = next(check for check in covopt.verify(fitted).checks if check.name == "norm")
    assert stated.detail.startswith(f"λ‖W‖²: stated {0.1 * fitted.cost:.12g}, recomputed")
    noisy = covopt.fit(X, y, lam=0.1, potential="label-noise")
    stated = next(check for check in covopt.verify(noisy).checks if check.name == "norm")
    assert stated.detail.startswith("λΣ|v|ω(w): stated")


def test_a_relaxation_that_was_asked_for_does_not_blame_the_faces():
    X, y = make_random_plane(6)
    found = covopt.min_norm(X, y, solver="relaxation", time_limit_s=20)
    assert "too many" not in found.summary()
    assert found.status in ("heuristic", "certified", "time_limit")


@pytest.mark.slow
def test_a_cone_program_of_many_cells_interpolates():
    pytest.importorskip("cvxpy")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)).round(3)
    y = (np.abs(X[:, 0]) + 0.3 * X[:, 1]).round(3)
    found = covopt.min_norm(X, y, solver="conic:CLARABEL")
    assert found.certificate.residual < 1e-12  # the merged network missed the points by 2.5e-9
    assert found.status.code == "certified"
