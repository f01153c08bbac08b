"""A checker that rejects: certificates changed in one place, and files that are something else."""

import json

import numpy as np
import pytest

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus
from covopt.completely_positive.checking import verify_cp_rank
from covopt.errors import SolutionFileError

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


def test_comparison_needs_a_triangle_free_graph():
    content = covopt.cp_rank(RING).to_dict()
    matrix = np.array(content["matrix"])
    matrix[matrix == 0] = 0.9
    content["matrix"] = matrix.tolist()
    assert failed(content) == {"comparison"}


def test_undecided_claims_no_upper_bound():
    content = covopt.cp_rank(CASES["dense"]).to_dict()
    content["readings"][0] |= {"status": "undecided", "factor": None, "upper": 5}
    content |= {"status": "undecided", "upper": 5}
    assert "upper" in failed(content)


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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda reading: reading.update(lower=14.5), "'lower' must be a nonnegative integer"),
        (
            lambda reading: reading["reasons"][0].update(vertices=[0, 99]),
            "a row that the matrix does not have",
        ),
    ],
)
def test_damaged_readings(change, words):
    content = covopt.cp_rank(CASES["graph"]).to_dict()
    change(content["readings"][0])
    content["lower"] = content["readings"][0]["lower"]
    with pytest.raises(SolutionFileError, match=words):
        CPRankCertificate.from_dict(content)


def test_the_common_loader_and_checker_know_certificates(tmp_path):
    certificate = covopt.cp_rank([[2, 1], [1, 2]])
    certificate.save(tmp_path / "c.json")
    assert covopt.load(tmp_path / "c.json").upper == 2
    report = covopt.verify(tmp_path / "c.json")
    assert report.ok
    assert "verified" in report.summary()
    with pytest.raises(covopt.errors.InputError, match="carries its matrix"):
        covopt.verify(certificate, [[1.0]], [1.0])


@pytest.mark.parametrize(
    ("method", "lower"), [("rank", 7), ("clique-cover", 7), ("moment-1", 7), ("moment-2", 7)]
)
def test_one_bound_alone(method, lower, monkeypatch):
    monkeypatch.setattr("covopt.completely_positive.bounding.numerical_factor", lambda *args, **options: None)
    # M7 of Bomze, Schachinger and Ullrich, whose CP-rank is 14: rank 7, moment bounds 2.65 and 4.21
    row = [926, 531, 81, 150, 150, 81, 531]
    matrix = [[row[(j - i) % 7] for j in range(7)] for i in range(7)]
    certificate = covopt.cp_rank(matrix, method=method)
    assert certificate.lower == lower
    assert all(check.ok for check in certificate.verify())


def test_an_unknown_method():
    with pytest.raises(covopt.errors.InputError, match=r"method must be .*moment-2"):
        covopt.cp_rank([[1]], method="magic")


def test_an_undecided_component_beside_a_decided_one():
    # the factor of the decided component is not kept, so its bound must not be claimed either
    circulant = np.array(
        [[531, 81, 150, 150, 81, 531, 926][(j - i - 1) % 7] for i in range(7) for j in range(7)]
    )
    A = np.zeros((8, 8))
    A[:7, :7] = circulant.reshape(7, 7) + 0.25
    A[7, 7] = 1.5
    found = covopt.cp_rank(A, time_limit_s=1e-4)
    assert found.status is CPStatus.UNDECIDED
    assert (found.upper, found.factor) == (None, None)
    assert all(check.ok for check in found.verify())


@pytest.mark.parametrize("claim", ["lower", "upper"])
def test_not_cp_leaves_no_bound_to_claim(claim):
    content = covopt.cp_rank(RING).to_dict()
    content["readings"][0][claim] = content[claim] = 1
    assert failed(content) == {"status"}
