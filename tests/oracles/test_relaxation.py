"""Upper bounds on h by semidefinite relaxation, and the checker of their multipliers."""

from __future__ import annotations

import dataclasses
import itertools
import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covopt.errors import InputError
from covopt.oracles.lifted.admm import run_lifted
from covopt.oracles.lifted.conic import run_conic, solve_lifted
from covopt.oracles.lifted.gauge_certificate import GaugeCertificate, UnitRows, bound_region, check_gauge
from covopt.oracles.lifted.lift import LEVELS, Lift, Region, covers, is_empty
from covopt.oracles.relaxation import relaxation_bound
from covopt.oracles.vector_faces import VectorFaceOracle
from tests.oracles.table import face_oracle


def a_table(seed, n=7, rank=3, integer=False):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-2, 3, (n, rank)).astype(float) if integer else rng.standard_normal((n, rank))
    rows[~rows.any(axis=1), 0] = 1.0
    return rows, rng.standard_normal(n)


def sampled_gauge(rows, dual, n_samples=20000):
    directions = np.random.default_rng(0).standard_normal((n_samples, rows.shape[1]))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    values = np.maximum(directions @ rows.T, 0.0) @ dual
    return float((np.abs(values) if values.ndim == 1 else np.linalg.norm(values, axis=1)).max())


# ------------------------------------------------------------------ validity and tightness
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(LEVELS), st.booleans())
def test_never_below_the_exact_maximum(seed, level, integer):
    rows, dual = a_table(seed, rank=2 + seed % 3, integer=integer)
    rank = np.linalg.matrix_rank(rows)
    if rank < rows.shape[1]:
        rows = rows @ np.linalg.svd(rows)[2][:rank].T
    exact = face_oracle(rows).price(dual).upper_bound
    bound = relaxation_bound(rows, dual, level=level, max_steps=300).value
    assert bound >= exact * (1 - 1e-12)
    assert bound <= 2.5 * exact


@pytest.mark.parametrize("k", [2, 3])
def test_vector_duals_are_bounded_and_splits_close_the_distance(k):
    rows, _ = a_table(k, n=6)
    dual = np.random.default_rng(k).standard_normal((6, k))
    sampled = sampled_gauge(rows, dual)
    bound = relaxation_bound(rows, dual, splits=3)
    assert sampled <= bound.value <= 1.02 * sampled


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(LEVELS))
def test_never_below_the_exact_vector_maximum(seed, level):
    rows, _ = a_table(seed, n=6)
    dual = np.random.default_rng(seed).standard_normal((6, 2))
    exact = np.linalg.norm(
        np.maximum(VectorFaceOracle(rows).price(dual).neurons @ rows.T, 0.0) @ dual, axis=1
    ).max()
    bound = relaxation_bound(rows, dual, level=level, splits=seed % 2).value
    assert exact * (1 - 1e-12) <= bound <= 1.5 * exact


def test_levels_and_splits_are_monotone():
    rows = np.random.default_rng(4).standard_normal((9, 3))
    dual = np.random.default_rng(5).standard_normal(9)
    values = [relaxation_bound(rows, dual, level=level).value for level in LEVELS]
    values += [relaxation_bound(rows, dual, level="cone", splits=2).value]
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in itertools.pairwise(values))


def test_exact_on_orthogonal_rows():
    # h = max(‖λ₊‖, ‖λ₋‖)
    assert relaxation_bound(np.eye(4), np.array([3.0, 4.0, -1.0, -2.0])).value == pytest.approx(5.0, rel=1e-6)


def test_zero_dual_and_zero_rows():
    assert relaxation_bound(np.eye(3), np.zeros(3)).value == 0.0
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    found = relaxation_bound(rows, np.array([7.0, 2.0]))
    assert found.value == pytest.approx(10.0, rel=1e-6)
    assert check_gauge(rows, np.array([0.0, 2.0]), found.certificate) == pytest.approx(10.0, rel=1e-6)


def test_invariant_under_rotation_permutation_and_scaling_of_rows():
    rows, dual = a_table(11)
    value = relaxation_bound(rows, dual).value
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    order = np.random.default_rng(2).permutation(7)
    assert relaxation_bound((rows @ turn)[order], dual[order]).value == pytest.approx(value, rel=1e-5)
    size = np.random.default_rng(3).uniform(0.1, 10.0, 7)
    assert relaxation_bound(size[:, None] * rows, dual / size).value == pytest.approx(value, rel=1e-5)
    assert relaxation_bound(rows, -1e6 * dual).value == pytest.approx(1e6 * value, rel=1e-5)


@pytest.mark.parametrize("level", LEVELS)
def test_the_two_solvers_agree(level):
    rows, dual = a_table(21, n=6)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    start = np.zeros(6, dtype=np.int8)
    signs = (0,) if level == "plain" else (1, -1)
    lifts = [Lift(units, 6, region, level) for s in signs for region in Region(start, s).split(2)]
    for options in ({"dual": dual[:, None]}, {"targets": dual[:, None]}):
        conic = run_conic(lifts, **options)
        steps = run_lifted(lifts, tol=1e-7, max_steps=20000, **options)
        for i, lift in enumerate(lifts):
            if "dual" in options:
                bounds = [bound_region(lift, dual[:, None], p.multipliers[i]) for p in (conic, steps)]
                assert bounds[1] == pytest.approx(bounds[0], rel=2e-3)
        if "targets" in options:
            values = [float(np.vdot(p.dual, dual[:, None])) for p in (conic, steps)]
            assert values[1] == pytest.approx(values[0], rel=1e-3)
            masses = sum(m[0, 0] for m in conic.moments)
            assert masses == pytest.approx(values[0], rel=1e-5)  # strong duality


def test_the_interior_point_method_hands_over_when_it_is_too_dear():
    rows, dual = a_table(22, n=5)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    lifts = [Lift(units, 5, Region(np.zeros(5, dtype=np.int8), s), "length") for s in (1, -1)]
    assert solve_lifted(lifts, dual=dual[:, None]).n_steps < 50
    assert solve_lifted(lifts, dual=dual[:, None], affordable=0.0).n_steps >= 50


# ------------------------------------------------------------------ regions
def test_empty_and_covering_cones():
    square = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert not is_empty(square, np.array([1, 1]))
    triangle = np.array([[1.0, 0.0], [-0.6, 0.8], [-0.6, -0.8]])
    patterns = [np.array(p) for p in np.ndindex(2, 2, 2)]
    signed = [2 * p - 1 for p in patterns]
    assert [is_empty(triangle, p) for p in signed].count(True) == 2  # 6 of 8 cells exist
    assert covers(triangle, [p for p in signed if not is_empty(triangle, p)])
    for left_out in range(6):
        kept = [p for p in signed if not is_empty(triangle, p)]
        kept.pop(left_out)
        assert not covers(triangle, kept)


def test_a_cone_that_is_a_ray_does_not_count_as_empty():
    rows = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert not is_empty(rows, np.array([1, 1, 1]))


# ------------------------------------------------------------------ certificates
@cache
def a_certificate(level="length", splits=1, k=1):
    rows, dual = a_table(31, n=6)
    if k > 1:
        dual = np.random.default_rng(8).standard_normal((6, k))
    return rows, dual, relaxation_bound(rows, dual, level=level, splits=splits)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("k", [1, 2])
def test_a_saved_certificate_shows_the_same_bound(level, k):
    rows, dual, found = a_certificate(level, k=k)
    saved = GaugeCertificate.from_dict(json.loads(json.dumps(found.certificate.to_dict())))
    assert saved == found.certificate
    assert check_gauge(rows, dual, saved) == found.value


def test_checking_is_free_of_units_and_of_the_basis():
    rows, dual, found = a_certificate("cone", splits=3)
    turn = np.linalg.qr(np.random.default_rng(9).standard_normal((3, 3)))[0]
    wide = np.column_stack([rows @ turn, np.zeros(6)])
    for scale in (1e-6, 1.0, 1e6):
        again = check_gauge(wide / scale, scale * dual, found.certificate)
        assert again == pytest.approx(found.value, rel=1e-7)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_no_mutation_of_multipliers_proves_too_much(seed):
    rng = np.random.default_rng(seed)
    rows, dual, found = a_certificate()
    exact = face_oracle(rows).price(dual).upper_bound
    proofs = list(found.certificate.regions)
    which = int(rng.integers(len(proofs)))
    proof = proofs[which]
    theta = list(np.array(proof.theta) * rng.choice([0.0, 0.5, 1.0, -1.0], 3))
    products = np.array(proof.products)
    products *= rng.choice([1.0, 0.0, 3.0, -1.0], len(products))
    proofs[which] = dataclasses.replace(proof, theta=theta, products=list(products))
    mutated = dataclasses.replace(found.certificate, regions=proofs)
    assert check_gauge(rows, dual, mutated) >= exact * (1 - 1e-12)


def test_mutations_are_seen():
    rows, dual, found = a_certificate(splits=0)
    certificate = found.certificate
    lower = [dataclasses.replace(p, theta=[0.9 * t for t in p.theta]) for p in certificate.regions]
    exact = face_oracle(rows).price(dual).upper_bound
    assert check_gauge(rows, dual, dataclasses.replace(certificate, regions=lower)) > exact
    other = dual.copy()
    other[0] += 1.0
    assert check_gauge(rows, other, certificate) >= face_oracle(rows).price(other).upper_bound
    smaller = dataclasses.replace(certificate, size=2 * certificate.size)
    assert check_gauge(rows, dual, smaller) > 1.05 * found.value


def test_rows_outside_of_the_support_are_paid_for():
    rows, dual, _ = a_certificate()
    part = dual.copy()
    part[:2] = 0.0
    less = relaxation_bound(rows, part).certificate
    assert check_gauge(rows, dual, less) >= face_oracle(rows).price(dual).upper_bound


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_rows": 5}, "belongs to other data"),
        ({"support": [0, 0, 1, 2, 3, 4]}, "not there or repeated"),
        ({"support": [0, 1, 2, 3, 4, 9]}, "not there or repeated"),
        ({"level": "tight"}, "unknown level 'tight'"),
        ({"size": -1.0}, "it must be positive"),
        ({"extra": [[1.0]]}, "extra hyperplanes do not fit"),
        ({"regions": []}, "leave out directions"),
    ],
)
def test_malformed_certificates(changes, message):
    rows, dual, found = a_certificate()
    with pytest.raises(InputError, match=message):
        check_gauge(rows, dual, dataclasses.replace(found.certificate, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"signs": [0, 0]}, "needs 6 signs"),
        ({"signs": [2, 0, 0, 0, 0, 0]}, "each -1, 0 or 1"),
        ({"sign": 3}, "for sign 3"),
        ({"theta": [1.0]}, "received 1,"),
        ({"products": [1.0]}, "multipliers; received 3, 1"),
        ({"theta": [np.nan, 0.0, 0.0]}, "not finite"),
        ({"cone": [[1.0]] * 19}, "needs 7 numbers for the cone"),
    ],
)
def test_malformed_regions(changes, message):
    rows, dual, found = a_certificate(splits=0)
    first, *rest = found.certificate.regions
    broken = dataclasses.replace(found.certificate, regions=[dataclasses.replace(first, **changes), *rest])
    with pytest.raises(InputError, match=message):
        check_gauge(rows, dual, broken)


def test_a_dropped_region_is_noticed():
    rows, dual, found = a_certificate(splits=2)
    for index in range(len(found.certificate.regions)):
        kept = list(found.certificate.regions)
        kept.pop(index)
        with pytest.raises(InputError, match="leave out directions"):
            check_gauge(rows, dual, dataclasses.replace(found.certificate, regions=kept))


def test_reading_a_malformed_dictionary():
    _, _, found = a_certificate()
    values = found.certificate.to_dict()
    del values["size"]
    with pytest.raises(InputError, match="gauge certificate is malformed"):
        GaugeCertificate.from_dict(values)
    with pytest.raises(InputError, match="gauge certificate is malformed"):
        GaugeCertificate.from_dict({"regions": [{"signs": []}]})


@pytest.mark.parametrize(
    ("where", "value"),
    [("support", [0, float("nan")]), ("support", [None]), ("size", "x"), ("products", ["x"]), ("cone", 1.0),
     ("theta", [[1.0], 2.0, 3.0])],
)  # fmt: skip
def test_reading_what_is_no_number(where, value):
    _, _, found = a_certificate()
    values = found.certificate.to_dict()
    (values if where in values else values["regions"][0])[where] = value
    with pytest.raises(InputError, match="gauge certificate is malformed"):
        GaugeCertificate.from_dict(values)


def test_astronomical_multipliers_prove_nothing():
    rows, dual, found = a_certificate()
    first, *others = found.certificate.regions
    wild = dataclasses.replace(first, theta=[1e308, 1e308, 1e308])
    changed = dataclasses.replace(found.certificate, regions=[wild, *others])
    assert check_gauge(rows, dual, changed) == np.inf


def test_lost_precision_is_part_of_the_bound():
    rows = np.array([[1.0, 0.0], [1.0, 1e-18], [0.0, 1.0]])[:2]
    unit = UnitRows.of(rows, np.array([1e3, -1e3]), np.array([0, 1]))
    assert unit.units.shape == (2, 1)
    assert unit.lost >= 1e3 * 1e-18


# ------------------------------------------------------------------ options
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "tight"}, "level"),
        ({"splits": -1}, "splits must be a nonnegative integer"),
        ({"splits": 1.5}, "splits must be a nonnegative integer"),
        ({"tol": 0.0}, "tol must be"),
        ({"time_limit_s": -1}, "time_limit_s"),
    ],
)
def test_options_are_checked(options, message):
    with pytest.raises(InputError, match=message):
        relaxation_bound(np.eye(2), np.ones(2), **options)


def test_the_time_limit_leaves_a_valid_bound():
    rows = np.random.default_rng(0).standard_normal((30, 8))
    dual = np.random.default_rng(1).standard_normal(30)
    found = relaxation_bound(rows, dual, time_limit_s=0.05)
    assert found.value >= sampled_gauge(rows, dual)
