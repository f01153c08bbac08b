"""wᵀMw + b·w on the sphere without eigenvalues, against eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from covopt.oracles.cones.sphere_form import on_sphere, proved_on_sphere


def twin(M, b):
    """ν + ¼bᵀ(ν − M)⁻¹b at the best ν, by eigenvalues and bisection."""
    values, vectors = np.linalg.eigh(M)
    c = 0.5 * vectors.T @ b
    low, high = values[-1], values[-1] + np.abs(values).max() + np.linalg.norm(b)
    for _ in range(200):
        middle = 0.5 * (low + high)
        gaps = np.maximum(middle - values, 1e-300)
        low, high = (middle, high) if np.sum((c / gaps) ** 2) > 1.0 else (low, middle)
    return high + float(np.sum(c**2 / np.maximum(high - values, 1e-300)))


@pytest.mark.parametrize("r", [1, 2, 5, 11, 31])
@pytest.mark.parametrize("kind", ["normal", "negative", "no slope", "double", "thin"])
def test_the_largest_value_and_a_point_that_has_it(r, kind):
    random = np.random.default_rng(r)
    for size in (1e-8, 1e-3, 1.0, 100.0):
        M, b = random.standard_normal((r, r)), size * random.standard_normal(r)
        M = M + M.T
        if kind == "negative":
            M -= 10.0 * np.eye(r)
        elif kind == "no slope":
            b[:] = 0.0
        elif kind == "double":
            M = np.diag((np.arange(r) % 2).astype(float))
        elif kind == "thin":
            M *= 1e-12
        w, v, z = np.empty(r), np.empty(r), np.full(r, r**-0.5)
        scratch = np.empty((r, r)), np.empty(r)
        known = twin(M, b)
        for start in (-np.inf, known, 1e300):
            nu, mu = on_sphere(M, b, w, v, z, start, *scratch)
            scale = np.linalg.norm(M) + np.linalg.norm(b)
            assert abs(nu + mu - known) <= 1e-9 * scale
            assert abs(w @ w + v @ v - 1.0) <= 1e-6
            assert abs(w @ M @ w + v @ M @ v + b @ w - known) <= 1e-6 * scale
            shown = proved_on_sphere(M, b, nu, mu, np.empty((r + 1, r + 1)))
            assert known - 1e-12 * scale <= shown <= known + 1e-9 * scale
