"""solver="relaxation" end to end: brackets, files, files that carried multipliers once."""

import json

import numpy as np
import pytest

import covopt


def instance(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, k))


@pytest.fixture(scope="module", params=["none", "penalized", "free"])
def bracketed(request):
    X, Y = instance(6, 2, 1)
    options = {"output_bias": request.param}
    found = covopt.min_norm(X, Y, solver="relaxation", tol=1e-2, **options)
    return found, covopt.min_norm(X, Y, **options)


def test_the_bracket_holds_the_optimum(bracketed):
    found, exact = bracketed
    assert 0.7 * exact.cost <= found.lower_bound <= exact.cost
    assert found.cost >= exact.lower_bound
    assert "semidefinite" in found.solver


def test_a_file_is_verified_from_the_table(bracketed, tmp_path):
    found, _ = bracketed
    found.save(tmp_path / "s.json")
    report = covopt.verify(tmp_path / "s.json", found.data.X, found.data.Y)
    assert report.ok, report.summary()


def test_multipliers_of_earlier_files_prove_nothing_and_spoil_nothing(bracketed):
    found, _ = bracketed
    content = json.loads(json.dumps(found.to_dict())) | {"proof": {"level": "length", "regions": []}}
    assert covopt.verify(covopt.Solution.from_dict(content)).ok
    content["dual"] = [1.02 * entry for entry in content["dual"]]
    assert not covopt.verify(covopt.Solution.from_dict(content)).ok


def test_several_outputs():
    X, Y = instance(6, 2, 2, seed=1)
    exact = covopt.min_norm(X, Y)
    found = covopt.min_norm(X, Y, solver="relaxation")
    assert 0.5 * exact.cost < found.lower_bound <= exact.cost
    assert found.cost >= exact.lower_bound
    assert covopt.verify(found).ok
