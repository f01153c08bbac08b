"""Tables of a few stamps: what doubles hide of a dual and of a network, in fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import covopt
from covopt.certificates.near_duals import near_dual
from covopt.network import ReLUNetwork
from covopt.solvers.exact_ramps import Kinks, missed, ramp_network

STARTS = {
    "nanoseconds": (1.6e18, 1.0),
    "microseconds": (1.6e15, 1e-3),
    "milliseconds": (1.6e12, 1e-6),
    "s": (1.6e9, 1e-9),
}
LEAST_GAP, LARGEST_GAP = 2.5, 15.0  # powers of ten, in nanoseconds: what doubles tell apart, and days


def few_stamps(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two to six of them; gaps alike, of all sizes, or equal; targets of size one, whole, or far from zero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    start, unit = list(STARTS.values())[seed % 4]
    style, x = rng.integers(3), np.zeros(0)
    while len(x) != n:
        middle = 10.0 ** rng.uniform(LEAST_GAP, LARGEST_GAP)
        gaps = [
            middle * rng.uniform(0.2, 1.0, n - 1), 10.0 ** rng.uniform(LEAST_GAP, LARGEST_GAP, n - 1),
            np.full(n - 1, middle),
        ][style]  # fmt: skip
        x = start + np.concatenate([[0.0], np.cumsum(gaps * unit)])
        x = np.unique(x if unit == 1e-9 else np.round(x))
    y = rng.standard_normal(n) if seed % 3 else np.round(10.0 * rng.standard_normal(n))
    return x, y + 100.0 if seed % 7 == 0 else y


def check_few(seed: int, output_bias: str) -> None:
    x, y = few_stamps(seed)
    solution = covopt.min_norm(x[:, None], y, output_bias=output_bias)
    assert solution.status.code == "certified", (
        seed,
        output_bias,
        solution.gap,
        solution.certificate.residual,
    )
    assert len(solution.network) <= len(x)
    assert covopt.verify(solution).ok
    assert missed(solution.network, x, y) <= 1e-9  # in fractions, from the table alone


@pytest.mark.parametrize(
    ("seed", "output_bias"), [(14, "free"), (35, "penalized"), (60, "none"), (19, "free")]
)
def test_few_stamps_are_certified(seed, output_bias):
    check_few(seed, output_bias)


@pytest.mark.slow
def test_hundreds_of_few_stamps_are_certified():
    for seed in range(200):
        for output_bias in ("none", "penalized", "free"):
            check_few(seed, output_bias)


@pytest.mark.parametrize("gap", [256.0, 1e3, 1e9, 1e14])
def test_two_stamps_alone(gap):
    """The slope of a line with a free output bias; without one a neuron that turns active at a point."""
    x, y = 1.6e18 + np.array([0.0, gap]), np.array([0.0, 1.0])
    gap = x[1] - x[0]
    free, none = (covopt.min_norm(x[:, None], y, output_bias=bias) for bias in ("free", "none"))
    assert free.cost == pytest.approx(2.0 / gap, rel=1e-6)
    assert none.cost == pytest.approx(2.0 * x[0] / gap, rel=1e-6)
    assert free.status.code == none.status.code == "certified"


@pytest.mark.slow
@pytest.mark.parametrize(("start", "least", "largest"), [(1.7e15, 3.0, 10.03), (1.7e18, 9.0, 15.0)])
def test_gaps_of_all_sizes_are_certified(start, least, largest):
    """Milliseconds to three hours in microseconds; seconds to eleven days in nanoseconds."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(8, 60))
        x = np.unique(start + np.cumsum(10.0 ** rng.uniform(least, largest, n)).round())
        y = np.sin(np.arange(len(x)) / 7.0) + 0.3 * rng.standard_normal(len(x))
        for output_bias in ("none", "penalized", "free"):
            solution = covopt.min_norm(x[:, None], y, output_bias=output_bias)
            assert solution.status.code == "certified", (seed, output_bias, solution.gap)
            assert len(solution.network) <= len(x)
            assert covopt.verify(solution).ok


def test_misses_are_those_of_fractions():
    x, y = 1.6e18 + np.array([0.0, 256.0]), np.array([1.0, 3.0])
    network = ReLUNetwork(np.array([[0.3, -4.5e17]]), np.array([[1e-3]]), 1.0, np.array([0.1]))
    off = [
        abs(
            Fraction(1e-3) * max(Fraction(0.3) * Fraction(a) + Fraction(-4.5e17), 0)
            + Fraction(0.1)
            - Fraction(b)
        )
        for a, b in zip(x.tolist(), y.tolist(), strict=True)
    ]
    assert missed(network, x, y) == pytest.approx(float(max(off) / 3), rel=1e-15)


def test_kinks_that_do_not_suffice_are_completed():
    rng = np.random.default_rng(0)
    x, y = np.sort(1.7e15 + 1e9 * rng.random(6)).round(), rng.standard_normal(6)
    rough = ReLUNetwork(np.zeros((0, 2)), np.zeros((0, 1)), 1.0)
    for is_free in (False, True):
        found = ramp_network(rough, x, y, Kinks(x[2:3], np.ones(1), np.ones(1)), is_free=is_free)
        assert missed(found, x, y) <= 1e-11
        assert len(found) <= 6


def test_sums_that_have_to_vanish_do():
    rng = np.random.default_rng(0)
    x = (1.7e18 + np.cumsum(10.0 ** rng.uniform(3.0, 14.0, 12))).round()
    heights, line = rng.choice([-1.0, 1.0], (12, 1)), np.zeros((2, 1))
    found = near_dual(x, 1.0, rng.standard_normal((12, 1)), heights, line, np.zeros((12, 1)), is_free=True)[
        :, 0
    ]
    held = list(map(Fraction, found.tolist()))
    assert sum(held) == 0 and any(held)
    after = [
        float(sum(w * (Fraction(b) - Fraction(a)) for w, b in zip(held, x.tolist(), strict=True) if b > a))
        / a
        for a in x.tolist()
    ]
    size = max(map(abs, after))  # lengths may have been halved
    assert [value / size for value in after[1:-1]] == pytest.approx(heights[1:-1, 0].tolist(), rel=1e-6)
