"""FL22's first reformulation: training over the hidden representations Z_1 … Z_L, by projected gradients (§3.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_choice, check_count, check_positive
from covopt.errors import InputError
from covopt.exact.rank import ROUGH
from covopt.exact.rounding import EPS
from covopt.experiments.forces import Forces, Stationarity, forces, gradient, measure, stationarity
from covopt.experiments.images import LayerImage
from covopt.experiments.representations import RepresentationProblem

__all__ = [
    "DescentResult", "Forces", "LayerImage", "RepresentationProblem", "Stationarity", "forces", "gradient",
    "projected_gradient_descent", "stationarity",
]  # fmt: skip

DIRECTIONS = ("along", "plain")


@dataclass(frozen=True, eq=False)
class DescentResult:
    """Result of :func:`projected_gradient_descent`.

    Attributes
    ----------
    representations : list of ndarray
    objective : float
        𝓛ʳ at the representations: the value of some network, not a bound.
    stationarity : float
        Largest norm of a layer's projected gradient at the representations.
    stop : {"stationary", "max_iter", "no_descent"}
        The projected gradient is at most tol, the iteration limit was reached, or no step along the direction lowers
        the objective.
    n_iter : int
        Number of steps.
    history : list of dict
        ``objective``, ``stationarity`` and ``step`` before each step, and at the end with step 0.
    """

    representations: list[np.ndarray]
    objective: float
    stationarity: float
    stop: str
    n_iter: int
    history: list[dict[str, float]]


def projected_gradient_descent(
    problem: RepresentationProblem,
    Z: Any,
    *,
    direction: str = "along",
    max_iter: int = 1000,
    tol: float = 1e-8,
    step: float = 1.0,
) -> DescentResult:
    r"""Minimise 𝓛ʳ over representations by projected gradient steps, a local method without bounds.

    Each step is :math:`Z \leftarrow P_{\mathcal Z}(Z - \eta D)`, projected in the order ℓ = 1 … L, with η halved
    until the objective decreases by :math:`10^{-3}\eta\|D\|^2`. The initial η of a step is that of Barzilai and
    Borwein, from the previous step.

    ``direction="along"`` moves each layer by the projected gradient of :func:`stationarity` and adapts the later
    layers: a descent direction for every rank. ``direction="plain"`` is FL22's formula, D = ∇𝓛ʳ layer by layer. It
    has the same stationary points if all A_ℓ have full row rank; otherwise the projection may cancel the descent,
    and the result has ``stop="no_descent"``.

    Parameters
    ----------
    problem : RepresentationProblem
        A problem with targets. For interpolation Z_L stays at Y.
    Z : sequence of ndarray of shape (N, n_ℓ)
        Starting point, which is projected first.
    direction : {"along", "plain"}
    max_iter : int
    tol : float
        Stop if the Frobenius norm of every layer's projected gradient is at most this.
    step : float
        Initial η of the first step.

    Returns
    -------
    DescentResult

    Raises
    ------
    InputError
        Without targets, for a start of infinite objective (interpolation with Y not attainable), or a wrong option.

    Examples
    --------
    >>> problem = RepresentationProblem([[1.0]], [4.0], bias=0.0)
    >>> found = projected_gradient_descent(problem, [[[1.0]], [[4.0]]])
    >>> found.stop, round(found.objective, 9), found.representations[0].round(6).tolist()
    ('stationary', 8.0, [[2.0]])
    """
    check_choice("direction", direction, DIRECTIONS)
    check_positive("tol", tol)
    eta = check_positive("step", step)
    check_count("max_iter", max_iter, 0)
    if problem.loss is None:
        raise InputError("without targets the minimum is Z = 0; make the problem with Y.")
    at = problem.project(Z)
    value = problem.objective(at)
    if not np.isfinite(value):
        raise InputError(
            "the start cannot be projected to a finite objective: the last hidden layer's features do not span Y; "
            "start with more neurons, or use a lam."
        )
    history: list[dict[str, float]] = []
    stop = "max_iter"
    last: Sequence[np.ndarray] | None = None
    while True:
        images = problem.images(at)
        found = measure(problem, at, images)
        move = list(found.residuals if direction == "along" else found.partial)
        if problem.interpolates:
            move[-1] = np.zeros_like(move[-1])
        if last is not None:  # Barzilai–Borwein step if the last step had positive curvature
            bend = _inner(last, last) - _inner(last, move)
            eta = min(eta * _inner(last, last) / bend, 2e3 * eta) if bend > 0 else 2.0 * eta
        history.append({"objective": value, "stationarity": found.value, "step": 0.0})
        if found.value <= tol:
            stop = "stationary"
        elif len(history) <= max_iter:
            accepted = _search(problem, at, images, move, value, eta, direction)
            if accepted is not None:
                at, value, eta = accepted
                history[-1]["step"] = eta
                last = move
                continue
            stop = "no_descent"
        return DescentResult(at, value, found.value, stop, len(history) - 1, history)


def _inner(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


def _search(
    problem: RepresentationProblem,
    Z: Sequence[np.ndarray],
    images: Sequence[LayerImage],
    move: Sequence[np.ndarray],
    value: float,
    eta: float,
    direction: str,
) -> tuple[list[np.ndarray], float, float] | None:
    """Halve the step until the objective decreases enough; return the new point, its value and the step."""
    weights = [image.weights(z) for image, z in zip(images, Z, strict=True)]
    square = _inner(move, move)
    while eta * square > EPS * max(1.0, abs(value)):
        trial: list[np.ndarray] = []
        for layer, (z, d, w) in enumerate(zip(Z, move, weights, strict=True)):
            if (
                direction == "along" and layer
            ):  # features changed by the layers before, with the weights fixed
                ahead = problem.image([*trial, *Z[layer:]], layer).features
                trial.append(z + (ahead - images[layer].features) @ w - eta * d)
            else:
                trial.append(z - eta * d)
        trial = problem.project(trial)
        reached = problem.objective(trial)
        if reached <= value - ROUGH * eta * square:
            return trial, reached, eta
        eta *= 0.5
    return None
