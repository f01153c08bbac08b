"""Columns in any units, the targets that go with them, and what every network through them has to meet."""

import numpy as np

import covopt

EPS = np.finfo(float).eps


def _stamps(middle, spread):
    """Random stamps as doubles have them: numbers near 2⁶² are multiples of 512."""
    return lambda rng, n: (middle + spread * rng.random(n)).round()


COLUMNS = {
    "year": lambda rng, n: rng.permutation(1871.0 + np.arange(n)),
    "income": lambda rng, n: np.exp(rng.uniform(np.log(1e4), np.log(1e6), n)).round(),
    "yes/no": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "plain": lambda rng, n: rng.standard_normal(n),
    "standard": lambda rng, n: np.linspace(-1.7, 1.7, n),
    "seconds": _stamps(1.6e9, 3e7),
    "milliseconds": _stamps(1.6e12, 3e10),
    "microseconds": _stamps(1.7e15, 3e13),
    "nanoseconds": _stamps(1.6e18, 3e16),
    "days of nanoseconds": _stamps(1.7e18, 1e15),
    "the last of 63 bits": _stamps(2.0**62 - 1e16, 1e16),
    "fractions": lambda rng, n: 1.7e9 + 3e7 * 2**0.5 * rng.random(n),
    "every day": lambda rng, n: 1.6e9 + 86400.0 * np.arange(n),
    "every minute": lambda rng, n: 1.6e9 + 60.0 * np.arange(n),
    "half-seconds": lambda rng, n: 1.7e9 + 3600.0 * np.arange(n) + 0.5 * rng.integers(0, 2, n),
    "every hour in microseconds": lambda rng, n: 1.7e15 + 3.6e9 * np.arange(n),
    "every hour in nanoseconds": lambda rng, n: 1.7e18 + 3.6e12 * np.arange(n),
}


def targets(n):
    """A wave with noise."""
    return np.sin(np.arange(n) / 7.0) + 0.3 * np.random.default_rng(1).standard_normal(n)


def check(X, Y, gap=1e-6, **options):
    """Certified and verified, with few neurons; a gap that is allowed to stay may stay.

    Between points of one column that are g apart, x from zero, lie g/(x ε) doubles: what a network in doubles misses.
    """
    solution = covopt.min_norm(X, Y, **options)
    found = solution.certificate
    assert found.gap <= gap, (options, found.gap)
    if X.shape[1] == 1 and solution.status.code != "certified":
        coarse = EPS * np.abs(X).max() / np.diff(np.sort(X[:, 0])).min()
        assert solution.status.code == "gap" and 1e-9 < found.residual <= 4.0 * coarse, (options, coarse)
    else:
        assert solution.status.code == "certified" or gap > solution.tol
    assert len(solution.network) <= np.size(Y)
    assert covopt.verify(solution).ok
    return solution
