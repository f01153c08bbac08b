r"""Local optimisation of the weights of one deep network: least norm with interpolation, or weight decay.

- Through the points, minimise ‖W‖² subject to Z_L = Y: an augmented Lagrangian ‖W‖² + ⟨ν, Z_L − Y⟩ + ρ/2 ‖Z_L − Y‖²
  with multipliers ν and a penalty ρ, L-BFGS inside, least-norm steps at the end.
- Refinement (:func:`polish`): optima have many pre-activations at zero, and there descent loses three digits.
  With the signs s of all hidden pre-activations fixed, minimise ‖W‖² subject to Z_L = Y and (2s − 1)∘Z_ℓ ≥ 0: smooth,
  solved by sequential quadratic programming (SLSQP) with exact Jacobians. Then the signs of pre-activations at zero
  are flipped, one at a time, while that lowers the norm.
- With weight decay, minimise C(Z_L) + λ‖W‖² by L-BFGS.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from covopt.depth.layers import Layout
from covopt.exact.rank import COMPUTED, NEAR, ROUGH
from covopt.limits import HALF, checkpoint
from covopt.losses import Loss, make_loss


def objective(layout: Layout, theta: np.ndarray, X: np.ndarray, loss: Loss, lam: float) -> float:
    """Return C(Z_L) + λ‖W‖².

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    loss : Loss
        Bound to its targets.
    lam : float
    """
    outputs = layout.forward(theta, X)[1][-1]
    return float(loss.value(outputs) + lam * (layout.charged * theta**2).sum())


def decay(
    layout: Layout, theta: np.ndarray, X: np.ndarray, loss: Loss, lam: float, *, steps: int = 500
) -> np.ndarray:
    """Return weights with a smaller objective, by L-BFGS from θ.

    Parameters
    ----------
    layout, theta, X, loss, lam
        As in :func:`objective`.
    steps : int
        L-BFGS steps in each round.
    """
    value = _value_of(layout, X, loss, lam)
    best, before = theta, objective(layout, theta, X, loss, lam)
    while True:  # L-BFGS stops early at kinks; a restart makes progress again
        answer = minimize(
            value, best, jac=True, method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 20, "ftol": 1e-13, "gtol": 1e-9},
        )  # fmt: skip
        if not answer.fun < before:
            break
        best, gained, before = answer.x, before - answer.fun, answer.fun
        if gained <= NEAR * before:
            break
    return best


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


MOST_WEIGHTS = 160


def trim(
    layout: Layout, theta: np.ndarray, *, silent: float = 2e-3, parallel: float = 1e-6
) -> tuple[Layout, np.ndarray]:
    """Drop negligible neurons and merge those with parallel weights, layer by layer.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    silent : float
        ‖w_in‖‖w_out‖ below which a neuron is dropped.
    parallel : float
        1 − cosine of the angle below which two neurons are merged.
    """
    layers = [w.copy() for w in layout.split(theta)]
    for ell in range(layout.depth - 1):
        into, after = layers[ell], layers[ell + 1]
        count = len(into)
        kept: list[int] = []
        sizes = np.linalg.norm(into, axis=1) * np.linalg.norm(after[:, :count], axis=0)
        for i in np.argsort(-sizes, kind="stable").tolist():
            if sizes[i] <= silent and kept:
                continue
            for j in kept:
                a, b = np.linalg.norm(into[i]), np.linalg.norm(into[j])
                if a > 0 and b > 0 and float(into[i] @ into[j]) >= (1.0 - parallel) * a * b:
                    after[:, j] += after[:, i] * (a / b)
                    break
            else:
                kept.append(i)
        kept.sort()
        layers[ell] = into[kept]
        layers[ell + 1] = np.column_stack([after[:, kept], after[:, count:]])
        scale_out = np.linalg.norm(layers[ell + 1][:, : len(kept)], axis=0)
        scale_in = np.linalg.norm(layers[ell], axis=1)
        factor = np.sqrt(
            np.where((scale_in > 0) & (scale_out > 0), scale_out / np.maximum(scale_in, 1e-300), 1.0)
        )
        layers[ell] = layers[ell] * factor[:, None]
        layers[ell + 1][:, : len(kept)] /= np.maximum(factor, 1e-300)
    return Layout.of_layers(layers, layout.widths[0], layout.bias, layout.output_bias)


def polish(
    layout: Layout, theta: np.ndarray, X: np.ndarray, Y: np.ndarray, *, max_flips: int = 40
) -> tuple[Layout, np.ndarray] | None:
    """Return an interpolating network that minimises the norm locally over its cell and the neighbouring cells.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
        Near a minimum.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    max_flips : int
        Number of sign flips that are tried.

    Returns
    -------
    (Layout, ndarray) or None
        None if there are too many weights or no interpolating network is found.
    """
    layout, theta = trim(layout, theta)
    if layout.size > MOST_WEIGHTS:
        found = meet(layout, theta, X, Y)
        return None if found is None else (layout, found)
    masks = [z > 0.0 for z in layout.forward(theta, X)[1][:-1]]
    best = _in_cell(layout, theta, X, Y, masks)
    if best is None:
        found = meet(layout, theta, X, Y)
        return None if found is None else (layout, found)
    flips = 0
    improved = True
    while improved and flips < max_flips:
        improved = False
        values = layout.forward(best, X)[1][:-1]
        size = max(float(np.abs(z).max(initial=0.0)) for z in values)
        touching = [
            (ell, int(i), int(j))
            for ell, z in enumerate(values)
            for i, j in np.argwhere(np.abs(z) <= NEAR * size)
        ]
        for ell, i, j in touching:
            flips += 1
            if flips > max_flips:
                break
            trial = [mask.copy() for mask in masks]
            trial[ell][i, j] = not trial[ell][i, j]
            found = _in_cell(layout, best, X, Y, trial)
            if found is not None and norm_of(layout, found) < norm_of(layout, best) * (1.0 - 1e-9):
                best, masks, improved = found, trial, True
                break
    smaller, trimmed = trim(layout, best, silent=1e-12, parallel=1e-15)
    again = meet(smaller, trimmed, X, Y)
    return (layout, best) if again is None else (smaller, again)


def _in_cell(
    layout: Layout, theta: np.ndarray, X: np.ndarray, Y: np.ndarray, masks: list[np.ndarray]
) -> np.ndarray | None:
    """Minimise the norm with these signs fixed; return None if no interpolating network is found."""
    if Y.size > layout.size:  # SciPy's SLSQP writes out of bounds if there are more equations than weights
        return meet(layout, theta, X, Y, masks)
    signs = [2.0 * mask - 1.0 for mask in masks]
    cache: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]] = {}

    def at(point: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        key = point.tobytes()
        if key not in cache:
            checkpoint()
            cache.clear()
            values, slopes = layout.jacobians(point, X, masks)
            inside = np.concatenate([(s * z).ravel() for s, z in zip(signs, values, strict=False)])
            inside_slope = np.concatenate(
                [(s[:, :, None] * j).reshape(-1, layout.size) for s, j in zip(signs, slopes, strict=False)]
            )
            miss = (values[-1] - Y).ravel()
            cache[key] = miss, slopes[-1].reshape(-1, layout.size), inside, inside_slope
        return cache[key]

    # trial steps may be long enough to overflow a product of ten layers; the solver recovers
    with np.errstate(over="ignore", invalid="ignore"):
        answer = minimize(
            lambda p: (norm_of(layout, p), 2.0 * layout.charged * p),
            theta,
            jac=True,
            method="SLSQP",
            constraints=[
                {"type": "eq", "fun": lambda p: at(p)[0], "jac": lambda p: at(p)[1]},
                {"type": "ineq", "fun": lambda p: at(p)[2], "jac": lambda p: at(p)[3]},
            ],
            options={"maxiter": 200, "ftol": 1e-14},
        )
    if not np.isfinite(answer.x).all():
        return None
    return meet(layout, answer.x, X, Y, masks)


def descend(layout: Layout, theta: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return nearly interpolating weights of smaller norm, by an augmented Lagrangian from θ.

    ⟨ν, Z_L − Y⟩ + ρ/2 ‖Z_L − Y‖² is ρ/2 ‖Z_L − (Y − ν/ρ)‖² up to a constant: each step is training with weight decay
    2/ρ towards shifted targets. The steps end when the residual is small or no longer halves.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    """
    size = float(np.abs(Y).max(initial=0.0))
    loss, shift, lam = make_loss("squared"), np.zeros(Y.shape), ROUGH * size**2
    before, missed = np.inf, size
    while NEAR * size < missed < HALF * before:
        loss.encode_targets(Y - shift)
        theta = decay(layout, theta, X, loss, lam)
        miss = layout.forward(theta, X)[1][-1] - Y
        before, missed = missed, float(np.abs(miss).max(initial=0.0))
        lam, shift = HALF * lam, HALF * (shift + miss)
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
    """Return interpolating weights near θ by least-norm Newton steps; None if these do not converge.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    masks : list of ndarray, optional
        Activation patterns used in the Newton steps; the residual is always that of the ReLU network.
    tol : float
        Residual max |Z_L − Y| / max |Y| at which the steps end.
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
    return best if best is not None and least <= COMPUTED * float(np.abs(Y).max(initial=0.0)) else None


def _linearised(
    layout: Layout,
    theta: np.ndarray,
    X: np.ndarray,
    inputs: list[np.ndarray],
    found: list[np.ndarray],
    masks: list[np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the outputs and their Jacobian with respect to the weights, of shape (N·k, size)."""
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
    """Return ‖W‖², without the weights that are not penalised."""
    return float((layout.charged * theta**2).sum())
