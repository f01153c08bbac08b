"""Rows, duals and oracles that several tests share, and what has to hold for an answer."""

from fractions import Fraction

import numpy as np

from benchmarks.adversary import tables
from benchmarks.adversary.exactly import fractions
from benchmarks.adversary.neurons import value_of
from covopt.oracles.base import Pricing
from covopt.oracles.boxes.fan import fan_dual_norm
from covopt.oracles.boxes.search import box_dual_norm
from covopt.oracles.faces import MOST_FACED, FaceOracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.vector_faces import VectorFaceOracle


class Table(VectorFaceOracle):
    """All faces, for one output as well."""

    def price(self, dual, **options):
        found = super().price(dual.reshape(len(dual), -1), **options)
        values = functions(self.rows, dual, found.neurons) if dual.ndim == 1 else found.values
        return Pricing(found.neurons, values, found.upper_bound, found.exact)


def face_oracle(rows):
    """Exact pricing of one output in any dimension."""
    return FaceOracle(rows) if rows.shape[1] <= MOST_FACED else Table(rows)


def fan(rows, dual, rtol=1e-2, max_calls=60):
    """A bound of several outputs by a fan whose scalar bounds come from boxes."""
    dual = dual.reshape(len(dual), -1)
    best = LocalSearchOracle(rows, n_starts=64, random_state=0).search(dual).upper_bound
    bounds = lambda one: box_dual_norm(rows, one, rtol=1e-8, max_nodes=20_000).upper_bound  # noqa: E731
    return fan_dual_norm(rows, dual, bounds, best=best, rtol=rtol, max_calls=max_calls)


# rows of which every neuron found in integers is the best one, and rows of which it is a witness only
CLEAR = {
    "normal": lambda rng, n, r: rng.standard_normal((n, r)),
    "integers": lambda rng, n, r: np.r_[np.eye(r), rng.integers(-2, 3, (n - r, r)) + 0.0],
    "with a bias": lambda rng, n, r: np.c_[
        rng.integers(0, 4, (n, r - 1)) + rng.random((n, r - 1)), np.ones(n)
    ],
    "opposite": lambda rng, n, r: np.r_[half := rng.standard_normal((max(r, n // 2), r)), -0.3 * half],
    "sizes": lambda rng, n, r: rng.standard_normal((n, r)) * 10.0 ** rng.uniform(-4, 4, (n, 1)),
}
AWKWARD = {
    "years": lambda rng, n, r: np.c_[1990 + rng.integers(0, 34, (n, 1)), 1e4 * rng.random((n, r))][:, :r] + 0.0,
    "twins": lambda rng, n, r: np.r_[rows := rng.standard_normal((n // 2 + 1, r)),
                                     rows + 10.0 ** -rng.integers(3, 17) * rng.standard_normal(rows.shape)],
    "columns": lambda rng, n, r: rng.standard_normal((n, r)) * 10.0 ** rng.uniform(-9, 9, r),
    "wide": lambda rng, n, r: rng.standard_normal((n, r)) * 10.0 ** rng.integers(-150, 150, (n, 1)),
    "huge": lambda rng, n, r: 1e300 * rng.standard_normal((n, r)),
    "tiny": lambda rng, n, r: 1e-300 * rng.standard_normal((n, r)),
    "line": lambda rng, n, r: tables.near_line(rng, n, r)[0][:, :r] + 0.0,
}  # fmt: skip
DUALS = ("normal", "integers", "cancels", "spread")


def question(rng, rows, kind, k):
    """A dual (N,) or (N, k)."""
    shape = (len(rows), k) if k > 1 else (len(rows),)
    dual = rng.integers(-2, 3, shape) + 0.0 if kind == "integers" else rng.standard_normal(shape)
    if kind == "spread":
        dual *= 10.0 ** rng.integers(-8, 9, (len(rows), 1) if k > 1 else len(rows))
    if kind == "cancels":  # as noise has it at the optimum
        with np.errstate(all="ignore"):
            dual = dual - rows @ np.linalg.lstsq(rows, dual, rcond=None)[0]
    return dual if dual.any() else np.ones(shape)


def full_rank(rows):
    scaled = rows / np.abs(rows).max(axis=0).clip(1e-300)
    return np.linalg.matrix_rank(scaled) == rows.shape[1] and rows.any(axis=1).all()


def functions(rows, dual, neurons):
    """‖Λᵀσ(Zw)‖ of neurons, with its sign for one output."""
    found = np.maximum(neurons @ rows.T, 0.0) @ dual
    return found if dual.ndim == 1 else np.linalg.norm(found, axis=1)


def check(rows, dual, found: Pricing, slack=1e-9):
    """What is said of the neurons of an answer; a bound that is called exact is attained."""
    size = float(np.linalg.norm(rows, axis=1) @ np.linalg.norm(dual.reshape(len(rows), -1), axis=1))
    values = np.abs(found.values)
    assert len(values) and (np.diff(values) <= 0).all()
    np.testing.assert_allclose(np.linalg.norm(found.neurons, axis=1), 1.0, atol=1e-12)
    reached = functions(rows, dual, found.neurons)
    np.testing.assert_allclose(found.values, reached, atol=1e-13 * size, rtol=1e-9)
    assert values[0] - 1e-13 * size <= found.upper_bound <= size * (1 + 1e-9)
    assert not found.exact or found.upper_bound <= values[0] * (1 + 2 * slack) + 1e-12 * size


def objects(array):
    """Fractions of what doubles say."""
    return fractions(array)


def is_above(rows, dual, neuron, upper):
    """Whether a bound is not below ‖Λᵀσ(Zw)‖ of one neuron, in fractions."""
    return value_of(rows, dual, neuron) <= Fraction(upper) ** 2


def exact_value(rows, dual, neuron):
    """‖Λᵀσ(Zw)‖/‖w‖ of one neuron, all sums in fractions; the dual may be fractions itself."""
    heights = np.maximum(objects(rows) @ objects(neuron), 0)
    sums = np.atleast_1d(np.asarray(dual, dtype=object).T @ heights).astype(float)
    return float(np.hypot.reduce(sums)) / float(np.linalg.norm(neuron))
