r"""Small norms by descent: an augmented Lagrangian over the weights, L-BFGS inside, least-norm steps at the end.

minimise ‖W‖² subject to Z_L = Y, with multipliers ν and a penalty ρ: ‖W‖² + ⟨ν, Z_L − Y⟩ + ρ/2 ‖Z_L − Y‖².
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from covopt.depth.layers import Layout
from covopt.limits import checkpoint

OUTER_ROUNDS = 8
MEETS = 1e-11  # of max|y|: a hundredth of what counts as interpolation


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
            objective = float(
                (layout.charged * at**2).sum() + (nu * miss).sum() + 0.5 * rho * (miss**2).sum()
            )
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
    masks: list[np.ndarray] | None = None,
    *,
    tol: float = 1e-14,
    max_steps: int = 30,
) -> np.ndarray | None:
    """Return weights near θ that interpolate: least-norm Newton steps; None where they do not get there.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    masks : list of ndarray, optional
        Which neurons are on, for the steps; the network that is returned is measured with its ReLUs.
    tol : float
        max |Z_L − Y| relative to max |Y| at which no further step is made.
    max_steps : int
    """
    target = tol * float(np.abs(Y).max(initial=0.0))
    best, least, since = None, np.inf, 0
    for _ in range(max_steps):
        checkpoint()
        inputs, found = layout.forward(theta, X)
        size = float(np.abs(found[-1] - Y).max(initial=0.0))
        if size < 0.5 * least:
            since = 0
        since += 1
        if size < least:
            best, least = theta, size
        if not np.isfinite(size) or size <= target or since > 5:
            break
        values, slopes = _linearised(layout, theta, X, inputs, found, masks)
        if not np.isfinite(slopes).all():
            break
        step = np.linalg.lstsq(slopes, (values - Y).ravel(), rcond=1e-10)[0]
        theta = theta - step
    return best if best is not None and least <= MEETS * float(np.abs(Y).max(initial=0.0)) else None


def _linearised(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    inputs: list[np.ndarray],
    found: list[np.ndarray],
    masks: list[np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs and their Jacobian in the weights, (N·k, size)."""
    if masks is not None:
        values, slopes = layout.jacobians(theta, X, masks)
        return values[-1], slopes[-1].reshape(-1, layout.size)
    outputs = found[-1]
    rows = []
    for i in range(outputs.shape[0]):
        for j in range(outputs.shape[1]):
            back = np.zeros(outputs.shape)
            back[i, j] = 1.0
            rows.append(layout.pull_back(theta, inputs, found, back))
    return outputs, np.array(rows)


def norm_of(layout: Layout, theta: np.ndarray) -> float:
    """Return the squared norm that is charged."""
    return float((layout.charged * theta**2).sum())
