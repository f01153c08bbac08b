"""solver="relaxation" and files: the bank has its brackets. Files, and files that carried multipliers once."""

import json

import numpy as np
import pytest

import covopt


@pytest.fixture(scope="module", params=["none", "penalized", "free"])
def found(request):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((6, 2)), rng.standard_normal((6, 1))
    return covopt.min_norm(X, Y, solver="relaxation", tol=1e-2, output_bias=request.param)


def test_a_file_is_verified_from_the_table(found, tmp_path):
    found.save(tmp_path / "s.json")
    report = covopt.verify(tmp_path / "s.json", found.data.X, found.data.Y)
    assert report.ok, report.summary()


def test_multipliers_of_earlier_files_prove_nothing_and_spoil_nothing(found):
    content = json.loads(json.dumps(found.to_dict())) | {"proof": {"level": "length", "regions": []}}
    assert covopt.verify(covopt.Solution.from_dict(content)).ok
    content["dual"] = [1.02 * entry for entry in content["dual"]]
    assert not covopt.verify(covopt.Solution.from_dict(content)).ok
