r"""Small norms by descent: an augmented Lagrangian over the weights, L-BFGS inside, least-norm corrections at the end.

minimise ‖W‖² subject to Z_L = Y, with multipliers ν and a penalty ρ: ‖W‖² + ⟨ν, Z_L − Y⟩ + ρ/2 ‖Z_L − Y‖².
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from covopt.depth.layers import Layout
from covopt.limits import checkpoint

OUTER_ROUNDS = 8


def descend(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    *,
    outer: int = OUTER_ROUNDS,
    inner: int = 300,
) -> np.ndarray:
    """Return weights of smaller norm that nearly interpolate, from where θ stands.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    outer : int
        Updates of the multipliers.
    inner : int
        Steps of L-BFGS between them.
    """
    multipliers = np.zeros(Y.shape)
    penalty = 100.0 / max(float((Y**2).max(initial=0.0)), 1e-300)
    before = np.inf
    for _ in range(outer):

        def value(at: np.ndarray, nu: np.ndarray = multipliers, rho: float = penalty):
            checkpoint()
            inputs, found = layout.forward(at, X)
            miss = found[-1] - Y
            objective = float((layout.charged * at**2).sum() + (nu * miss).sum() + 0.5 * rho * (miss**2).sum())
            gradient = layout.pull_back(at, inputs, found, nu + rho * miss)
            return objective, gradient + 2.0 * layout.charged * at

        theta = minimize(
            value, theta, jac=True, method="L-BFGS-B", options={"maxiter": inner, "maxcor": 20}
        ).x
        miss = layout.forward(theta, X)[1][-1] - Y
        multipliers = multipliers + penalty * miss
        size = float(np.abs(miss).max(initial=0.0))
        if size > 0.3 * before:
            penalty *= 4.0
        before = size
    return theta


def meet(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    *,
    tol: float = 1e-13,
    max_steps: int = 30,
) -> np.ndarray | None:
    """Return weights near θ that interpolate: least-norm Newton steps; None where they do not get there.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    tol : float
        max |Z_L − Y| relative to max |Y|.
    max_steps : int
    """
    target = tol * float(np.abs(Y).max(initial=0.0))
    best, least = None, np.inf
    for _ in range(max_steps):
        checkpoint()
        inputs, found = layout.forward(theta, X)
        miss = found[-1] - Y
        size = float(np.abs(miss).max(initial=0.0))
        if not np.isfinite(size) or size > 1e3 * (least + 1.0):
            break
        if size < least:
            best, least = theta, size
        elif size > 0.5 * least and least <= 1e3 * target:
            break
        if size <= target:
            break
        rows = []
        for i in range(len(X)):
            for j in range(Y.shape[1]):
                back = np.zeros(Y.shape)
                back[i, j] = 1.0
                rows.append(layout.pull_back(theta, inputs, found, back))
        step = np.linalg.lstsq(np.array(rows), miss.ravel(), rcond=1e-10)[0]
        theta = theta - step
    return best if best is not None and least <= 1e4 * target else None


def norm_of(layout: Layout, theta: np.ndarray) -> float:
    """Return the squared norm that is charged."""
    return float((layout.charged * theta**2).sum())
