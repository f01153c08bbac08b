"""λ as users give it, as a number or as a share of λ_max, and λ_max itself."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import brentq

from covopt.checks.validation import check_positive
from covopt.errors import BudgetError, InputError
from covopt.limits import TimeUp, limited, unlimited
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.support import bound_gauge
from covopt.problems.regularised import constant_dual

if TYPE_CHECKING:
    from covopt.api.fit_task import FitTask

DEFAULT_LAMBDA = "0.1max"
TINY = 1e-300
HURRIED = 10  # rounds of the bound that takes the place of a search
PROVED_LAMBDA = 1e-4  # accuracy of λ_max where its equation has bounds for values
SHARE = re.compile(r"\s*(?P<share>[^\s*]*?)\s*\*?\s*max\s*", re.IGNORECASE)


class LargestLambda(NamedTuple):
    """What is known of λ_max.

    Attributes
    ----------
    value : float
        No network from it on has a neuron.
    slack : float
        The bound that proves it, over the largest value met, less one: 0 where λ_max is exact.
    """

    value: float
    slack: float

    @property
    def met(self) -> float:
        """A λ below which there are neurons."""
        return self.value / (1.0 + self.slack)

    @property
    def share(self) -> float:
        """By how much the smallest such λ may be smaller, relative."""
        return self.slack / (1.0 + self.slack)


def parse_lam(lam: Any) -> tuple[float, bool]:
    """Return λ, or a share of λ_max and True.

    Parameters
    ----------
    lam : float or str
        A positive number, ``"0.1max"`` or ``"max"``.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> parse_lam(0.5), parse_lam("0.1max"), parse_lam("1e-2 * max"), parse_lam("max")
    ((0.5, False), (0.1, True), (0.01, True), (1.0, True))
    >>> parse_lam("-1max")
    Traceback (most recent call last):
    covopt.errors.InputError: lam must be a positive finite number; received '-1max'. A share of λ_max: "0.1max".
    """
    if not isinstance(lam, str):
        return check_positive("lam", lam), False
    found = SHARE.fullmatch(lam)
    try:
        value = math.nan if found is None else float(found["share"] or "1")
    except ValueError:
        value = math.nan
    if not 0.0 < value < math.inf:
        raise InputError(
            f'lam must be a positive finite number; received {lam!r:.60}. A share of λ_max: "0.1max".'
        )
    return value, True


def largest_lambda(task: FitTask, time_limit_s: float | None = None) -> LargestLambda:
    """Return λ_max of a table; see :func:`covopt.lambda_max`.

    Parameters
    ----------
    task : FitTask
    time_limit_s : float, optional
        For each maximum over the neurons; then a bound that needs no search takes its place.
    """
    slack = 0.0

    def excess(lam: float) -> float:
        """Gauge of the dual of the best constant, or a bound on it where it is not known exactly."""
        problem, _ = task.reduced(lam)
        live = problem.rows.any(axis=1)
        dual = problem.project_dual(constant_dual(problem))[live]
        if not dual.any():
            return 0.0
        asked = np.ascontiguousarray(dual[:, 0] if dual.shape[1] == 1 else dual)
        rows = problem.rows[live]
        nonlocal slack
        try:
            with limited(time_limit_s):
                try:
                    return task.oracle(problem).price(asked, threshold=np.inf).upper_bound
                except BudgetError:
                    if task.potential != "variation":
                        raise
                found = bound_gauge(rows, asked).value
                met = LocalSearchOracle(rows, random_state=0).search(asked).upper_bound
        except TimeUp:
            if task.potential != "variation" and time_limit_s is None:
                raise
            if task.potential != "variation":  # nothing weaker bounds it
                raise InputError(
                    f"lam is a share of λ_max, which takes longer than the {time_limit_s:.2g} s that it may with "
                    f"potential={task.potential!r}; give lam as a number, or a longer time limit."
                ) from None
            with unlimited():
                found, met = gauge_bound(rows, asked, n_rounds=HURRIED), _linear(rows, asked)
        slack = max(slack, found / met - 1.0)
        return found

    scale = 1.0
    at_one = excess(scale)
    if task.output_bias != "penalized":
        return LargestLambda(at_one, slack)  # −∇C/λ: the gauge at λ is that at 1, divided by λ
    if at_one == 0.0:
        return LargestLambda(0.0, slack)
    high = at_one
    while excess(high) > 1.0:
        high *= 2.0
    low = 0.5 * high
    while excess(low) <= 1.0:
        low *= 0.5
        if low < 1e-9 * high:
            return LargestLambda(0.0, slack)
    if slack == 0.0:
        exact = brentq(lambda lam: excess(lam) - 1.0, low, high, xtol=1e-15 * high, rtol=1e-14)
        return LargestLambda(float(exact), slack)
    while high - low > PROVED_LAMBDA * high:  # bounds do not fall smoothly: keep the side that is proved
        middle = 0.5 * (low + high)
        low, high = (low, middle) if excess(middle) <= 1.0 else (middle, high)
    return LargestLambda(high, slack)


def _linear(rows: np.ndarray, dual: np.ndarray) -> float:
    """Return what one of the neurons along ±Zᵀλ attains, one output at a time: h(Λ) is no less, and not zero."""
    best = TINY
    for column in dual.reshape(len(dual), -1).T:
        direction = rows.T @ column
        for neuron in (direction, -direction, rows[np.argmax(np.abs(column))]):
            length = float(np.linalg.norm(neuron))
            if length > 0.0:
                value = np.linalg.norm(np.maximum(rows @ (neuron / length), 0.0) @ dual)
                best = max(best, float(value))
    return best
