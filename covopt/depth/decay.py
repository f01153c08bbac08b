"""Descent with weight decay: C(Z_L) + λ‖W‖² over the weights of one network, by L-BFGS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from covopt.depth.layers import Layout
from covopt.limits import checkpoint
from covopt.losses import Loss

ROUNDS = 3  # L-BFGS ends early on kinks; started anew it goes on


def objective(layout: Layout, theta: np.ndarray, X: np.ndarray, loss: Loss, lam: float) -> float:
    """Return C(Z_L) + λ‖W‖².

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    loss : Loss
        With its targets.
    lam : float
    """
    outputs = layout.forward(theta, X)[1][-1]
    return float(loss.value(outputs) + lam * (layout.charged * theta**2).sum())


def decay(
    layout: Layout, theta: np.ndarray, X: np.ndarray, loss: Loss, lam: float, *, steps: int = 500
) -> np.ndarray:
    """Return weights of a smaller objective, from where θ stands.

    Parameters
    ----------
    layout, theta, X, loss, lam
        As in :func:`objective`.
    steps : int
        Of L-BFGS in each round.
    """
    value = _value_of(layout, X, loss, lam)
    best, before = theta, objective(layout, theta, X, loss, lam)
    for _ in range(ROUNDS):
        answer = minimize(
            value, best, jac=True, method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-9},
        )  # fmt: skip
        if not answer.fun < before:
            break
        best, gained, before = answer.x, before - answer.fun, answer.fun
        if gained <= 1e-7 * before:
            break
    return best


def adam(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    loss: Loss,
    lam: float,
    *,
    steps: int = 300,
    rate: float = 0.02,
) -> np.ndarray:
    """Return weights after some steps of Adam: from random ones L-BFGS often does not get away.

    Parameters
    ----------
    layout, theta, X, loss, lam
        As in :func:`objective`.
    steps : int
    rate : float
        At the first step; it falls as a cosine.
    """
    value = _value_of(layout, X, loss, lam)
    mean, square = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, steps + 1):
        gradient = value(theta)[1]
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        size = np.sqrt(square / (1.0 - 0.999**step)) + 1e-12
        fall = 0.5 * (1.0 + np.cos(np.pi * step / steps))
        theta = theta - rate * fall * mean / (1.0 - 0.9**step) / size
    return theta


def _value_of(
    layout: Layout, X: np.ndarray, loss: Loss, lam: float
) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
    """Return the objective with its gradient."""

    def value(at: np.ndarray) -> tuple[float, np.ndarray]:
        checkpoint()
        with np.errstate(over="ignore", invalid="ignore"):
            inputs, found = layout.forward(at, X)
            gradient = layout.pull_back(at, inputs, found, loss.gradient(found[-1]))
            total = loss.value(found[-1]) + lam * float((layout.charged * at**2).sum())
        if not np.isfinite(total):
            return 1e300, np.zeros_like(at)
        return float(total), gradient + 2.0 * lam * layout.charged * at

    return value
