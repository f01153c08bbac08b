"""Solutions proved exactly: every problem that has a proof, what is said where there is none, and forgeries."""

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.prove import cover, problem_of, prove
from covopt.certificates.rechecks import exact_checks
from covopt.errors import InputError
from covopt.losses import Huber
from covopt.oracles.certified import BY_BOXES, BY_CHORDS
from covopt.proofs import Proof
from covopt.proofs.checker.dual import Problem, check_by_faces
from covopt.proofs.proof import ratio, sealed
from covopt.solution import Solution
from tests.cases import cases, normal


def table(n=12, d=2, seed=3):
    return normal(seed, (n, d), n)


def failed(verification):
    return {check.name for check in verification.checks if not check.ok}


def detail(verification, name):
    return next(check.detail for check in verification.checks if check.name == name)


@pytest.fixture(scope="module")
def solution():
    return covopt.min_norm(*table())


@pytest.fixture(scope="module")
def proof(solution):
    return solution.prove()


def test_links_that_are_floating_point_are_named():
    X, y = table(8)
    soft = covopt.fit(X[:3, :1], ["a", "b", "c"], lam=0.2, loss="softmax-cross-entropy", tol=1e-2)
    found = covopt.verify(soft, exact=True)
    assert found.ok
    assert detail(found, "exact objective").startswith("NOT exact")
    assert covopt.verify(covopt.cp_rank([[2, 1], [1, 2]]), exact=True).checks[-1].name == "exact arithmetic"
    rounded = covopt.verify(covopt.cp_rank(np.array([[2.0, 0.1], [0.1, 1 / 3]])), exact=True)
    assert detail(rounded, "exact arithmetic").startswith("NOT exact")
    with pytest.raises(InputError, match="no exact proof"):
        covopt.min_norm(X, np.column_stack([y, y[::-1]])).prove()


@pytest.mark.parametrize(
    ("entry", "what"), cases("entry points whose bound has a floating link, and its name", covopt=covopt)
)
def test_every_entry_point_names_its_floating_link(entry, what):
    X, y = table(7)
    found = covopt.verify(entry(X, np.column_stack([y, y[::-1]])), exact=True)
    assert found.ok, found.summary()
    text = detail(found, "exact lower bound")
    assert text.startswith("NOT exact")
    assert what in text
    assert "floating point" in text


def test_what_a_proof_of_version_1_claims_is_proved_anew(solution, tmp_path):
    # what is asked, the table and the dual point, as version 1 sealed them
    arrays = [solution.data.X, solution.data.Y, solution.dual]
    sealed = repr((1.0, "none", None, 0.0, 1.0)).encode() + b"".join(
        repr(each.shape).encode() + each.astype("<f8").tobytes() for each in arrays
    )
    digest, file = hashlib.sha256(sealed).hexdigest(), tmp_path / "first.json"
    for more, failing in ((0.0, set()), (1e-6, {"proof"})):
        bound = solution.lower_bound * (1 - 1e-8 + more)
        content = {"format": "covopt-proof", "version": 1, "digest": digest, "lower_bound": bound}
        file.write_text(json.dumps(content))
        found = covopt.verify(solution, proof=file)
        assert failed(found) == failing, found.summary()
    other = covopt.min_norm(*table(seed=4))
    assert "digests differ" in detail(covopt.verify(other, proof=file), "exact lower bound")


def test_a_proof_is_replayed(solution, proof, tmp_path):
    proof.save(tmp_path / "proof.json")
    assert proof.lower_bound == pytest.approx(solution.lower_bound, rel=1e-9)
    for given in (proof, tmp_path / "proof.json"):
        found = covopt.verify(solution, proof=given)
        assert found.ok, found.summary()
        assert "boxes in integers" in detail(found, "exact lower bound")


def test_forged_proofs_and_solutions_are_refused(solution, proof):
    X, y = table(seed=4)
    other = covopt.min_norm(X, y)
    found = covopt.verify(other, proof=proof)
    assert failed(found) == {"exact lower bound"}
    assert detail(found, "exact lower bound") == "the proof is about another table"
    content = proof.to_dict()
    for part, name, value in (
        ("theorem", "bound", ratio(proof.own.bound * Fraction(1 + 1e-9))),
        ("proof", "H", str(proof.own.H * 99 // 100)),
        ("proof", "tree", content["proof"]["tree"][4:]),
    ):
        forged = Proof(sealed({**content, part: {**content[part], name: value}}))
        assert failed(covopt.verify(solution, proof=forged)) == {"exact lower bound"}
    for options in ({"bias": 2.0}, {"output_bias": "free"}):
        found = covopt.verify(covopt.min_norm(*table(), **options), proof=proof)
        assert "the proof is about another " in detail(found, "exact lower bound")
    content = solution.to_dict()
    content["lower_bound"] *= 1 + 1e-6
    assert "exact lower bound" in failed(covopt.verify(Solution.from_dict(content), proof=proof))
    content = json.loads(json.dumps(solution.to_dict()))
    content["dual"] = [1.2 * value for value in content["dual"]]
    scaled = Solution.from_dict(content)
    # divided by its h
    assert "exact lower bound" not in failed(covopt.verify(scaled, proof=None, exact=True))


def test_numbers_of_a_fit_are_compared_with_the_exact_ones():
    X, y = table()
    fitted = covopt.fit(X, y, lam=0.02, tol=1e-4)

    def wrong(**stated):
        dual = fitted.dual * (1.0 + 0.3 * normal(0, len(y))) if "lower_bound" in stated else fitted.dual
        forged = replace(fitted, certificate=replace(fitted.certificate, **stated), dual=dual)
        return {check.name for check in exact_checks(forged, forged.data) if not check.ok}

    assert wrong(objective=(1 - 1e-6) * fitted.objective) == {"exact objective"}
    assert wrong(lower_bound=0.1 * fitted.lower_bound) == {"exact bracket"}  # too weak for what is claimed


@pytest.mark.parametrize("change", ["lam", "loss", "sample_weight", "delta"])
def test_a_proof_of_another_fit_is_refused(change):
    X, y = table()
    options = {"lam": 0.02, "loss": Huber(1.0), "sample_weight": np.arange(12.0), "tol": 1e-4}
    proof = covopt.fit(X, y, **options).prove()
    assert proof.own.loss == "huber" and len(proof.own.Y) == 11  # a weight of zero is no point
    other = {"lam": 0.03, "loss": "squared", "sample_weight": np.ones(12), "delta": Huber(2.0)}[change]
    options["loss" if change == "delta" else change] = other
    found = covopt.verify(covopt.fit(X, y, **options), proof=proof)
    assert failed(found) == {"exact lower bound"}
    assert "the proof is about another" in detail(found, "exact lower bound")


@pytest.mark.parametrize("factor", [1 + 1e-8, 1e200, 1e-200])
def test_a_moved_weight_is_seen_and_huge_and_tiny_numbers_are_one_sentence(factor):
    solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.5])
    solution.network.output_weights[0, 0] *= factor
    with np.errstate(over="ignore"):
        found = covopt.verify(solution, exact=True)
    assert {"exact interpolation", "exact norm"} <= failed(found)
    assert "exact lower bound" not in failed(found)


def test_rows_that_cancel_cost_nothing():
    """One point with two labels: the dual function vanishes, and so must the bound on it."""
    fitted = covopt.fit([[1.0], [1.0]], ["a", "b"], lam=0.1, loss="hinge", output_bias="free")
    found = covopt.verify(fitted, exact=True)
    assert found.ok, found.summary()
    assert fitted.prove().lower_bound == pytest.approx(1.0, rel=1e-12)


def test_a_bound_by_quadratics_that_a_proof_misses_is_not_exact_where_its_bracket_is_closed(solution, proof):
    few = prove(problem_of(solution, solution.data), solution.dual, max_boxes=40)
    assert few.lower_bound < (1 - 2 * solution.tol) * solution.cost
    for bound, given, floats in ((BY_BOXES, proof, True), (BY_CHORDS, proof, False), (BY_BOXES, few, False)):
        content = solution.to_dict()
        content["lower_bound"] *= 1 + 1e-8  # more than the boxes of the file give
        content["certificate"]["bound"] = f"dual point scaled by a {bound}"
        stated = Solution.from_dict(content)
        claims = {claim.name: claim for claim in exact_checks(stated, solution.data, given)}
        assert claims["exact lower bound"].ok == floats
        text = "rests on quadratics on boxes of directions, in floating point"
        assert (text in claims["exact lower bound"].detail) == floats
        assert claims["exact bracket"].ok


def test_columns_in_units_of_many_orders_prove_the_truth_or_less():
    rng = np.random.default_rng(0)
    for scale in (1e-12, 1e9):
        X, dual = rng.standard_normal((8, 2)) * [1.0, scale], rng.standard_normal(8)
        problem = Problem(X, rng.standard_normal((8, 1)), 1.0)
        own = cover(problem, dual, max_boxes=3000)[1]
        w = rng.standard_normal((20_000, 3)) * [1.0, 1.0 / scale, 1.0]
        w /= np.linalg.norm(w, axis=1)[:, None]
        rows = np.column_stack([X, np.ones(8)])
        largest = np.abs(np.maximum(w @ rows.T, 0) @ np.array(own.multipliers, dtype=float)).max()
        assert largest <= float(own.x_unit * own.H)


@pytest.mark.parametrize(("inputs", "targets", "options"), cases("near stamps beside zero"))
def test_near_stamps_beside_zero_are_proved_by_all_faces(inputs, targets, options):
    """What boxes prove of these is a millionth of the bound, and no reason to refuse it."""
    solution = covopt.min_norm(np.array(inputs)[:, None], targets, **options)
    assert len(solution.history) < 30  # columns that enter again and again end the rounds
    found = covopt.verify(solution, exact=True)
    assert found.ok and solution.lower_bound > 0.0
    assert "by all faces in integers" in detail(found, "exact lower bound")


def test_a_dual_and_its_opposite_prove_the_same():
    solution = covopt.min_norm([[0.0], [1.0], [3.0]], [0.0, 1.0, -1.0])
    problem = problem_of(solution, solution.data)
    one, other = (check_by_faces(problem, sign * solution.dual.reshape(-1)) for sign in (1.0, -1.0))
    assert one.lower_bound == other.lower_bound > 0
