"""Projected gradient descent on the representations (FL22 §3.3), monotone by a line search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_choice, check_count, check_positive
from covopt.errors import InputError
from covopt.experiments.representations.forces import partial_gradient
from covopt.experiments.representations.images import LayerImage, LayerRank
from covopt.experiments.representations.problem import RepresentationProblem
from covopt.experiments.representations.stationarity import measure

DIRECTIONS = ("along", "plain")
ARMIJO = 1e-4
SMALLEST_STEP = 1e-18
STOPS = {
    "stationary": "the projected gradient is within tol",
    "max_iter": "the iterations were used up",
    "no_descent": "no step along the direction lowers the objective",
    "callback": "stopped by the callback",
}


@dataclass(frozen=True, eq=False)
class DescentResult:
    """What :func:`projected_gradient_descent` reached.

    Attributes
    ----------
    representations : list of ndarray
    objective : float
        𝓛ʳ there; a value some network has, no bound.
    stationarity : float
        Largest norm of a layer's projected gradient there (of the gradient itself with ε > 0).
    stop : {"stationary", "max_iter", "no_descent", "callback"}
    n_iter : int
        Steps taken.
    history : list of dict
        ``objective``, ``stationarity`` and ``step`` before each step, and at the end with step 0.
    ranks : tuple of LayerRank
        Of A₀ … A_{L−1} at the end, with Tikhonov's ε.
    """

    representations: list[np.ndarray]
    objective: float
    stationarity: float
    stop: str
    n_iter: int
    history: list[dict[str, float]]
    ranks: tuple[LayerRank, ...]

    @property
    def message(self) -> str:
        """Why it stopped, in words."""
        return STOPS[self.stop]


def projected_gradient_descent(
    problem: RepresentationProblem,
    Z: Any,
    *,
    direction: str = "along",
    max_iter: int = 1000,
    tol: float = 1e-8,
    step: float = 1.0,
    callback: Callable[[dict[str, float]], bool | None] | None = None,
) -> DescentResult:
    r"""Minimise 𝓛ʳ over representations by projected gradient steps; a local method, no bound comes of it.

    Each step is :math:`Z \leftarrow P_{\mathcal Z}(Z - \eta D)`, projected in the order ℓ = 1 … L, with η halved
    until the objective falls by :math:`10^{-4}\eta\|D\|^2`: it never rises. The first η of a step is Barzilai and
    Borwein's, from the step before.

    ``direction="along"`` moves each layer by the projected gradient of :func:`stationarity` and lets the later
    layers follow: a direction of descent for every rank. ``direction="plain"`` is FL22's formula, D = ∇𝓛ʳ layer by
    layer: the same stationary points where all A_ℓ have full row rank; elsewhere the projection may undo the
    descent, and the result then says ``no_descent``. With a positive Tikhonov ε nothing is constrained, and D = ∇𝓛ʳ
    without projection.

    Parameters
    ----------
    problem : RepresentationProblem
        With targets. In interpolation Z_L stays at Y.
    Z : sequence of ndarray of shape (N, n_ℓ)
        Start; projected first.
    direction : {"along", "plain"}
    max_iter : int
    tol : float
        Stop when no layer's projected gradient has a larger Frobenius norm.
    step : float
        First η tried.
    callback : callable, optional
        Receives each record of the history; a true answer stops.

    Returns
    -------
    DescentResult

    Raises
    ------
    InputError
        Without targets, for a start of infinite objective (interpolation where Y does not fit), or a wrong option.

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
    if problem.loss is None and problem.targets is None:
        raise InputError("without targets the minimum is Z = 0; make the problem with Y.")
    soft = problem.tikhonov > 0
    at = _settle(problem, problem.check(Z))
    value = problem.objective(at)
    if not np.isfinite(value):
        raise InputError(
            "the start cannot be projected to a finite objective: the last hidden layer's features do not span Y; "
            "start with more neurons, or use a lam."
        )
    history: list[dict[str, float]] = []
    stop, n_iter = "max_iter", 0
    before: tuple[Sequence[np.ndarray], float] | None = None
    while True:
        images = problem.images(at)
        move, size = _direction(problem, at, images, "gradient" if soft else direction)
        square = _inner(move, move)
        eta = _first_step(before, move, eta)
        if size <= tol:
            stop = "stationary"
        elif n_iter < max_iter:
            accepted = _search(problem, at, images, move, value, square, eta, direction)
            if accepted is None:
                stop = "no_descent"
            else:
                history.append({"objective": value, "stationarity": size, "step": accepted[2]})
                at, value, before = accepted[0], accepted[1], (move, accepted[2])
                eta = 2.0 * accepted[2]
                n_iter += 1
                if callback is None or not callback(history[-1]):
                    continue
                stop = "callback"
                size = _direction(problem, at, problem.images(at), "gradient" if soft else direction)[1]
        break
    history.append({"objective": value, "stationarity": size, "step": 0.0})
    return DescentResult(at, value, size, stop, n_iter, history, problem.ranks(at))


def _inner(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> float:
    return sum(float((x * y).sum()) for x, y in zip(a, b, strict=True))


def _first_step(
    before: tuple[Sequence[np.ndarray], float] | None,
    move: Sequence[np.ndarray],
    eta: float,
) -> float:
    """Barzilai and Borwein's step where the last one met positive curvature, else twice the last one."""
    if before is None:
        return eta
    last, step = before
    bend = _inner(last, last) - _inner(last, move)
    return min(step * _inner(last, last) / bend, 1e3 * eta) if bend > 0 else eta


def _settle(problem: RepresentationProblem, Z: list[np.ndarray]) -> list[np.ndarray]:
    if problem.tikhonov == 0:
        return problem.project(Z)
    return [*Z[:-1], Z[-1] if problem.targets is None else problem.targets.copy()]


def _direction(
    problem: RepresentationProblem, Z: Sequence[np.ndarray], images: Sequence[LayerImage], kind: str
) -> tuple[list[np.ndarray], float]:
    """Return what to subtract, and the measure of stationarity."""
    if kind == "along":
        found = measure(problem, Z, images)
        return list(found.residuals), found.value
    partial = list(partial_gradient(problem, Z, images))
    if problem.interpolates:
        partial[-1] = np.zeros_like(partial[-1])
    if kind == "plain":
        return partial, measure(problem, Z, images).value
    return partial, max(float(np.linalg.norm(g)) for g in partial)


def _search(
    problem: RepresentationProblem,
    Z: Sequence[np.ndarray],
    images: Sequence[LayerImage],
    move: Sequence[np.ndarray],
    value: float,
    square: float,
    eta: float,
    direction: str,
) -> tuple[list[np.ndarray], float, float] | None:
    soft = problem.tikhonov > 0
    weights = [image.weights(z) for image, z in zip(images, Z, strict=True)]
    while eta * square > SMALLEST_STEP * max(1.0, abs(value)):
        trial = [z - eta * d for z, d in zip(Z, move, strict=True)]
        if not soft:
            if direction == "along":
                trial = _follow(problem, Z, move, weights, eta)
            trial = problem.project(trial)
        reached = problem.objective(trial)
        if reached <= value - ARMIJO * eta * square:
            return trial, reached, eta
        eta *= 0.5
    return None


def _follow(
    problem: RepresentationProblem,
    Z: Sequence[np.ndarray],
    move: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    eta: float,
) -> list[np.ndarray]:
    """Move every layer, on features that the layers before it have changed, with the weights as they are."""
    found: list[np.ndarray] = []
    for layer, (d, w) in enumerate(zip(move, weights, strict=True)):
        features = problem.image([*found, *Z[layer:]], layer).features
        found.append(features @ w - eta * d)
    return found
