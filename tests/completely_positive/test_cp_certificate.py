"""A checker that rejects: certificates changed in one place, and files that are something else."""

import json

import numpy as np
import pytest
from known_matrices import M7

import covopt
from covopt.completely_positive import graphs
from covopt.completely_positive.certificate import CPRankCertificate, CPStatus, verify_cp_rank

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


def test_entries_that_may_be_zeros_are_refused_in_files_too():
    content = json.loads(json.dumps(covopt.cp_rank(CASES["dense"]).to_dict()))
    content["matrix"][0][1] = content["matrix"][1][0] = 1e-12
    assert failed(content) == {"matrix"}


@pytest.mark.parametrize(
    "matrix", [[["-1"]], [["0", "1"], ["1", "0"]], [["0", "1"], ["1", "1"]], [["-1", "0"], ["0", "1"]]]
)
def test_rows_without_a_positive_diagonal_entry_are_zero(matrix):
    content = covopt.cp_rank(np.diag([int(row[i] == "1") for i, row in enumerate(matrix)]).tolist()).to_dict()
    assert failed(content) == set()
    assert "entries" in failed(
        content | {"exact": matrix, "matrix": [[float(x) for x in row] for row in matrix]}
    )


def test_a_face_is_of_exact_entries():
    """Of floats it would speak of one matrix within the tolerance, and not of the others."""
    content = covopt.cp_rank(M7).to_dict()
    assert failed(content) == set()
    assert "face" in failed(content | {"exact": None})


def test_halves_of_a_file_that_differ_by_rounding_are_one_matrix():
    content = json.loads(json.dumps(covopt.cp_rank(CASES["dense"]).to_dict()))
    content["matrix"][0][1] = float(np.nextafter(content["matrix"][0][1], np.inf))
    assert failed(content) == set()
    content["matrix"][0][1] *= 1 + 1e-10
    assert failed(content) == {"matrix"}


def test_nothing_bounds_the_rows_of_what_has_no_factor():
    content, other = (covopt.cp_rank(A).to_dict() for A in ([[1, 2], [2, 1]], [[2, 1], [1, 2]]))
    assert failed(content) == set()
    content["readings"][0]["reasons"] += [r for r in other["readings"][0]["reasons"] if r["side"] == "lower"]
    assert failed(content) == {"status"}


def test_reasons_speak_about_the_components_of_the_matrix():
    content = covopt.cp_rank(np.kron(np.eye(2), RING + 2.0)).to_dict()
    reasons = [r for r in content["readings"][0]["reasons"] if r["vertices"][0] == 0]
    content["readings"][0]["reasons"] = reasons
    content |= {"lower": content["lower"] // 2, "upper": content["upper"] // 2}
    assert failed(content) == {"components"}
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
