"""A checker that rejects: certificates changed in one place, and files that are something else."""

import json

import numpy as np
import pytest
from known_matrices import M7

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus
from covopt.completely_positive.checking import verify_cp_rank

RING = 1.7 * np.eye(5) + np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
CASES = {
    "graph": graphs.petersen(),
    "dense": np.cov(np.random.default_rng(0).random((6, 5)).T) + 0.5,
    "not_cp": RING,
    "eigenvalue": [[1.0, 1.5], [1.5, 1.0]],
}


def failed(content: dict) -> set[str]:
    return {check.name for check in verify_cp_rank(CPRankCertificate.from_dict(content)) if not check.ok}


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["matrix"][0].__setitem__(1, c["matrix"][0][1] + 1.0),
        lambda c: c.update(exact=[["1"] * len(c["matrix"]) for _ in c["matrix"]]),
        lambda c: c.update(tol=0.1),
    ],
)
@pytest.mark.parametrize("case", ["graph", "dense"])
def test_a_changed_matrix_is_rejected(case, change):
    content = json.loads(json.dumps(covopt.cp_rank(CASES[case]).to_dict()))
    change(content)
    assert "matrix" in failed(content)


def test_a_missing_reading_is_rejected():
    A = 1.1 * graphs.graph_matrix(graphs.cycle(4))
    A[0, 2] = A[2, 0] = 1e-12
    with pytest.warns(covopt.errors.PrecisionWarning):
        found = covopt.cp_rank(A)
    content = found.to_dict()
    assert not failed(content)
    content["readings"].pop()
    part = content["readings"][0]
    content |= {"status": part["status"], "lower": part["lower"], "upper": part["upper"]}
    assert failed(content) == {"readings"}


def test_what_a_status_does_not_allow_is_rejected():
    content = covopt.cp_rank(CASES["dense"]).to_dict()
    content["readings"][0] |= {"status": "undecided", "factor": None, "upper": 5}
    assert "upper" in failed(content | {"status": "undecided", "upper": 5})
    for claim in ("lower", "upper"):
        content = covopt.cp_rank(RING).to_dict()
        content["readings"][0][claim] = content[claim] = 1
        assert failed(content) == {"status"}
    content = covopt.cp_rank(RING).to_dict()
    matrix = np.array(content["matrix"])
    matrix[matrix == 0] = 0.9  # the comparison needs a graph without triangles
    content["matrix"] = matrix.tolist()
    assert failed(content) == {"comparison"}


@pytest.mark.parametrize(
    "method", ["rank", "clique-cover", "moment-1", pytest.param("moment-2", marks=pytest.mark.slow)]
)
def test_one_bound_alone(method, monkeypatch):
    monkeypatch.setattr("covopt.completely_positive.bounding.numerical_factor", lambda *args, **options: None)
    certificate = covopt.cp_rank(M7, method=method)  # of CP-rank 14: rank 7, moment bounds 2.65 and 4.21
    assert certificate.lower == 7 and all(check.ok for check in certificate.verify())


def test_an_undecided_component_beside_a_decided_one():
    # the factor of the decided component is not kept, so its bound must not be claimed either
    A = np.zeros((8, 8))
    A[:7, :7], A[7, 7] = np.array(M7) + 0.25, 1.5
    found = covopt.cp_rank(A, time_limit_s=1e-4)
    assert (found.status, found.upper, found.factor) == (CPStatus.UNDECIDED, None, None)
    assert all(check.ok for check in found.verify())
