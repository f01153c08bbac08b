"""Every bound of covopt.exact.rounding against rational arithmetic, and products to twice the digits, far from 0."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covopt
from covopt.certificates.conjugate import moving_up
from covopt.exact.far_rows import FarRows, coordinates, outputs_of_far
from covopt.exact.rounding import (
    allowance,
    dot_bounds,
    lengths_up,
    misses_up,
    operator_norm_up,
    root_down,
    root_up,
    transfer_up,
    two_product,
)  # fmt: skip
from tests.cases import normal, traced_memory
from tests.oracles.table import objects


def dot(a, b):
    """A sum of products in fractions."""
    return objects(a) @ objects(b)


def nasty(rng, shape, spread):
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-spread, spread, shape)


def test_roots_are_rounded_to_their_side():
    for value in [*np.random.default_rng(0).uniform(1e-12, 50, 60).tolist(), 1.0, 2.0, 1 - 1e-15]:
        below, above, exact = (*(root(Fraction(value), 2) for root in (root_down, root_up)), Fraction(value))
        assert Fraction(below) ** 2 <= exact <= Fraction(above) ** 2
        assert above - below <= math.ulp(above)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 40), st.sampled_from([0, 3, 20, 140]))
def test_products_sums_and_lengths_enclose_the_exact_value(seed, n, spread):
    rng = np.random.default_rng(seed)
    a, b = nasty(rng, n, spread), nasty(rng, n, spread)
    if seed % 2:  # what cancels but for the last bits
        a, b = np.concatenate([a, -a * (1 + 2.0**-52)]), np.concatenate([b, b])
    exact = dot(a, b)
    low, high = dot_bounds(a, b)
    assert Fraction(low) <= exact <= Fraction(high)
    if spread <= 20:
        assert high - low <= 8 * 2.0**-53 * abs(float(exact)) + 1e-280
    low, high = dot_bounds(a, np.ones(len(a)))
    assert Fraction(low) <= sum(objects(a)) <= Fraction(high)
    length, square = lengths_up(a[None])[0], dot(a, a)
    assert square <= Fraction(length) ** 2 <= square * Fraction(1 + 1e-12) + Fraction(1, 2**1000)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_what_a_basis_misses_is_bounded_to_second_order(seed, d, r, orthonormal):
    rng = np.random.default_rng(seed)
    r = min(r, d)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :r] if orthonormal else nasty(rng, (d, r), 2)
    rows = nasty(rng, (5, d), 5)
    coordinates = rows @ basis
    found = misses_up(rows, basis, coordinates)
    squares = ((objects(rows) - objects(coordinates) @ objects(basis).T) ** 2).sum(axis=1)
    for bound, square, row in zip(found, squares, rows, strict=True):
        assert square <= Fraction(bound) ** 2
        if orthonormal:
            assert bound <= math.sqrt(square) * (1 + 1e-12) + 1e-28 * np.abs(row).max()
    total = transfer_up(rows, np.arange(5.0) / 3.0, basis, coordinates)
    assert Fraction(total) >= dot(np.arange(5.0) / 3.0, found)


def test_what_a_basis_misses_of_the_nearest_coordinates_is_of_second_order():
    """Products that cancel, and the double nearest to what they leave: what is missed is what it was rounded by."""
    for y, v, z, w in normal(0, (30, 4)) * [1.0, 1.0, 1e-9, 1.0]:
        basis, own = np.array([[v, -v * (1.0 + 2.0**-30), w, 1.0]]), np.array([[y, y, z, 0.0]])
        rows = own @ basis.T
        own[0, 3] = float((objects(rows) - objects(own) @ objects(basis).T)[0, 0])
        off = abs(objects(rows) - objects(own) @ objects(basis).T)[0, 0]
        assert 0 < off <= Fraction(misses_up(rows, basis, own)[0])
    tiny = np.full((1, 8), 3.0 * 2.0**-1074)  # whose products lose up to half of the least double each
    assert misses_up(np.zeros((1, 1)), tiny, np.full((1, 8), 0.8125))[0] >= 0.8125 * 24 * 2.0**-1074


@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5))
def test_the_operator_norm_is_not_below_the_largest_singular_value(seed, d, r):
    rng = np.random.default_rng(seed)
    matrix = nasty(rng, (d, r), 3)
    assert operator_norm_up(matrix) >= np.linalg.norm(matrix, 2) * (1 - 1e-14)
    square = np.linalg.qr(rng.standard_normal((5, 5)))[0][:, :r]
    assert 1 - 1e-15 <= operator_norm_up(square) <= 1 + 1e-14
    column = matrix[:, :1]
    assert dot(column[:, 0], column[:, 0]) <= Fraction(operator_norm_up(column)) ** 2


def test_a_product_and_its_error_are_exact():
    rng = np.random.default_rng(0)
    a, b = nasty(rng, 200, 30), nasty(rng, 200, 30)
    p, e = two_product(a, b)
    assert (objects(a) * objects(b) == objects(p) + objects(e)).all()


@pytest.mark.parametrize("values", [[1e308, 1e308, -1e308], [5e-324, 5e-324], [1e-320, -1e-320, 1.0]])
def test_the_ends_of_the_range_of_doubles(values):
    low, high = dot_bounds(np.array(values), np.ones(len(values)))
    exact = sum(objects(values))
    assert Fraction(low) <= exact <= Fraction(high)
    low, high = dot_bounds(np.array([3e-200, 7e-201]), np.array([7e-121, 3e-121]))  # no double is that small
    assert Fraction(low) < dot([3e-200, 7e-201], [7e-121, 3e-121]) < Fraction(high)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([1, 3]), st.sampled_from([0, 3, 100, 155]))
def test_what_a_dual_was_moved_by_is_not_below_the_exact_distance(seed, k, spread):
    rng = np.random.default_rng(seed)
    before = nasty(rng, (5, k), spread)
    factor = float(rng.choice([-2.0, -0.3, 1.0, 3.0 * 2.0**-40]))
    with np.errstate(all="ignore"):
        after = factor * before
    if seed % 3:
        after = after * (1 + rng.integers(-2, 3, after.shape) * 2.0**-52)
    lengths = np.abs(nasty(rng, 5, min(spread, 100)))
    found = moving_up((before, None), factor, (after, None), np.arange(5), lengths)
    squares = ((Fraction(factor) * objects(before) - objects(after)) ** 2).sum(axis=1)
    moved = [Fraction(math.isqrt(int(square * 2**4300)), 2**2150) for square in squares]
    assert Fraction(found) >= moved @ objects(lengths)
    if seed % 3 == 0 and factor in (-2.0, 1.0) and spread < 155:
        assert found == 0.0


@given(st.integers(0, 10_000), st.integers(2, 200))
def test_a_sum_of_products_is_off_by_no_more_than_its_allowance(seed, n):
    rng = np.random.default_rng(seed)
    a, b = nasty(rng, n, 3), nasty(rng, n, 3)
    off = abs(Fraction(float(a @ b)) - dot(a, b))
    assert off <= Fraction(allowance(n, float(np.abs(a) @ np.abs(b))))


# ---------------------------------------------------------------------- far from the origin
def far_rows(seed):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([1.7e9 + rng.uniform(0, 1e6, 7), rng.standard_normal(7), np.ones(7)])
    return rng, rows, FarRows.of(rows)


@pytest.mark.parametrize("seed", range(6))
def test_rows_brought_closer_pay_for_their_rounding_and_their_length(seed):
    rng, rows, far = far_rows(seed)
    exact, closer, back = objects(rows) @ objects(far.basis), objects(far.rows), objects(far.basis)
    assert (abs(closer - exact) <= abs(exact) / 2**52).all()
    across = np.array(list(map(Fraction, rng.standard_normal(2))), dtype=object)
    kinks = [-(y[1:] @ across) / y[0] for y in closer]
    last = max(kinks, key=abs)  # no neuron with a kink among the rows has a larger share of the middle
    u = np.append(last, across) * (1 if last > 0 else -1)
    w = back @ u
    change = np.maximum(exact @ u, 0) - np.maximum(closer @ u, 0)
    assert Fraction(far.paid(np.ones(7))) ** 2 * (w @ w) >= sum(abs(change)) ** 2 > 0
    assert w @ w < u @ u <= Fraction(far.stretch) ** 2 * (w @ w)
    dual, low = rng.standard_normal((2, 7, 2))
    low[:, 0] *= 1e-17
    length = ((objects(rows).T @ (objects(dual) + objects(low))) ** 2).sum()
    assert length <= Fraction(far.linear_up(rows, dual, low)) ** 2


def test_targets_whose_squares_no_double_holds():
    """A third of a second apart in microseconds since 1970: no crash, and what is stated holds."""
    inputs = np.array([1.7e15, 1700000000356390.2, 1700000000712780.5])
    targets = np.array([-2.7e149, -7.5e149, -2.5e149])
    solution = covopt.min_norm(inputs[:, None], targets, output_bias="free")
    assert solution.status.code in ("certified", "gap")
    assert covopt.verify(solution).ok


def test_outputs_to_twice_the_digits_are_those_of_fractions():
    rng = np.random.default_rng(1)
    rows = np.column_stack([1.7e18 + rng.integers(0, 2**20, 6), rng.standard_normal(6), np.ones(6)])
    hidden = rng.standard_normal((5, 3))
    # heights are small differences of large products
    hidden[:, 2] = rng.standard_normal(5) - 1.7e18 * hidden[:, 0]
    weights, targets, shift = rng.standard_normal((5, 2)), rng.standard_normal((6, 2)), rng.standard_normal(2)
    found = outputs_of_far(rows, hidden, weights, 0.1, shift, targets)
    true = np.maximum(objects(rows) @ objects(hidden).T, 0) @ objects(weights)
    true = true + Fraction(0.1) * objects(shift)
    assert (abs(objects(found) - true) <= abs(true) / 2**51).all()
    doubles = np.maximum(rows @ hidden.T, 0.0) @ weights + 0.1 * shift
    assert np.abs(doubles - found).max() > 1.0  # what they are computed with twice the digits for


def test_where_products_overflow_nothing_is_believed():
    rows, hidden, targets = np.array([[1e160, 1.0]]), np.array([[1e150, -1e300]]), np.ones((1, 1))
    found = outputs_of_far(rows, hidden, np.ones((1, 1)), 1.0, np.zeros(1), targets)
    assert not np.abs(found - targets) <= 1e-9


def test_products_with_their_errors_are_made_in_blocks():
    """1500 points and as many neurons took a dozen arrays of 18 MB, three times a limit of .05 GiB."""
    rows, basis = normal(0, (1500, 3), (3, 1500))
    with traced_memory() as peak:
        found = coordinates(rows, basis)
        assert peak() < 1.5 * found.nbytes
    assert np.allclose(found, rows @ basis, rtol=1e-12, atol=1e-12)
