"""solver="relaxation" end to end: brackets, files with their proof, proofs that were changed."""

import copy
import json

import numpy as np
import pytest

import covopt


def instance(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, k))


@pytest.fixture(scope="module", params=["none", "penalized", "free"])
def bracketed(request):
    X, Y = instance(9, 2, 1)
    options = {"output_bias": request.param}
    found = covopt.min_norm(X, Y, solver="relaxation", tol=1e-2, **options)
    return found, covopt.min_norm(X, Y, **options)


def test_the_bracket_holds_the_optimum_and_is_narrow(bracketed):
    found, exact = bracketed
    assert found.lower_bound <= exact.cost
    assert found.cost >= exact.lower_bound
    assert found.lower_bound >= 0.9 * exact.cost
    assert found.proof is not None
    assert "semidefinite" in found.certificate.bound
    assert "semidefinite" in found.solver
    assert not found.certificate.exact
    if found.status is covopt.Status.CERTIFIED:
        assert found.gap <= 1e-2


def test_a_file_carries_its_proof(bracketed, tmp_path):
    found, _ = bracketed
    found.save(tmp_path / "s.json")
    report = covopt.verify(tmp_path / "s.json", found.data.X, found.data.Y, exact=True)
    assert report.ok, report.summary()
    assert covopt.load(tmp_path / "s.json").proof == found.proof


def test_a_changed_proof_proves_nothing(bracketed):
    found, exact = bracketed
    content = found.to_dict()

    def verdict(change):
        changed = json.loads(json.dumps(content))
        change(changed)
        return covopt.verify(covopt.Solution.from_dict(changed))

    def drop_region(changed):
        changed["proof"]["regions"].pop()

    def shrink(changed):
        for region in changed["proof"]["regions"]:
            region["theta"] = [0.5 * entry for entry in region["theta"]]

    def other_rows(changed):
        changed["proof"]["n_rows"] += 1

    def bigger_dual(changed):
        changed["dual"] = [1.02 * entry for entry in changed["dual"]]

    assert verdict(lambda changed: None).ok
    for change in (drop_region, other_rows, bigger_dual):
        assert not verdict(change).ok, change.__name__
    # multipliers that prove too little: the checker looks at the faces itself
    weaker = verdict(shrink)
    assert weaker.certificate is not None
    assert "over all neurons" in weaker.certificate.bound
    assert weaker.certificate.lower_bound <= exact.cost
    damaged = copy.deepcopy(content)
    del damaged["proof"]["regions"]
    with pytest.raises(covopt.errors.SolutionFileError, match="damaged"):
        covopt.Solution.from_dict(damaged)


def test_several_outputs():
    X, Y = instance(8, 2, 2, seed=1)
    exact = covopt.min_norm(X, Y)
    found = covopt.min_norm(X, Y, solver="relaxation")
    assert 0.5 * exact.cost < found.lower_bound <= exact.cost
    assert found.cost >= exact.lower_bound
    assert covopt.verify(found).ok


def test_twelve_points_in_the_plane_reach_nine_tenths():
    shares = []
    for seed in range(3):
        X, y = instance(12, 2, 1, seed=seed)
        found = covopt.min_norm(X, y, solver="relaxation", tol=2e-2)
        shares.append(found.lower_bound / covopt.min_norm(X, y).cost)
    assert min(shares) >= 0.9
    assert max(shares) <= 1.0
