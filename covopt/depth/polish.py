r"""The last digits: the norm minimised inside one cell of patterns, a smooth program, and a walk to cells nearby.

Optima have many pre-activations at zero, where descent stalls three digits early. With the signs s of all hidden
pre-activations fixed, minimise ‖W‖² subject to Z_L = Y and (2s − 1)∘Z_ℓ ≥ 0: smooth, solved by sequential quadratic
programs (SLSQP) with exact Jacobians. Then the signs of what touches zero are flipped, one at a time, while
that helps.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from covopt.depth.descent import meet, norm_of
from covopt.depth.layers import Layout
from covopt.limits import checkpoint

MOST_WEIGHTS = 160
_TOUCHES = 1e-6


def trim(
    layout: Layout, theta: np.ndarray, *, silent: float = 2e-3, parallel: float = 1e-6
) -> tuple[Layout, np.ndarray]:
    """Drop neurons that carry nothing and merge those with parallel weights, layer by layer.

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
    """Return an interpolating network at a local minimum of the norm over its cell and the cells beside it.

    Parameters
    ----------
    layout : Layout
    theta : ndarray of shape (layout.size,)
        Near a minimum.
    X : ndarray of shape (N, d)
    Y : ndarray of shape (N, k)
    max_flips : int
        Of signs that are tried.

    Returns
    -------
    (Layout, ndarray) or None
        None where the weights are too many or nothing interpolates.
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
            for i, j in np.argwhere(np.abs(z) <= _TOUCHES * size)
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
    """Minimise the norm over the weights with these signs; None where no network is found that interpolates."""
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

    # a step of the solver may go far: a product of ten layers overflows, and it comes back
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
