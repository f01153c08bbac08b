"""λ as users give it, as a number or as a share of λ_max, and λ_max itself."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq

from covopt.checks.validation import check_positive
from covopt.errors import BudgetError, InputError
from covopt.exact.rank import FOUND
from covopt.exact.rounding import TINY
from covopt.limits import HALF, TimeUp, defer_interrupts, limited, now, unlimited
from covopt.oracles.base import heights
from covopt.oracles.certified import certified_dual_norm
from covopt.oracles.local_search import LocalSearchOracle, approach, starts_for
from covopt.problems.problem import Problem
from covopt.problems.reduction import LEAST

if TYPE_CHECKING:
    from covopt.api.task import Task

# with 0.02max the share that loses least held-out quality over twenty tables: benchmarks/held_out.py
DEFAULT_LAMBDA = "0.03max"
PROVED_LAMBDA = 1e-4  # relative accuracy of the bracket that separates the largest root from others
SHARE = re.compile(r"\s*(?P<share>[^\s*]*?)\s*\*?\s*max\s*", re.IGNORECASE)


def is_chosen(lam: Any) -> bool:
    """Return whether cross-validation is to choose λ: ``lam="cv"``."""
    return isinstance(lam, str) and lam.strip().lower() == "cv"


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
    covopt.errors.InputError: lam must be a positive finite number; received '-1max'. A share of ...
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
            f'lam must be a positive finite number; received {lam!r:.60}. A share of λ_max: "0.1max"; chosen by '
            'cross-validation: "cv".'
        )
    return value, True


def largest_lambda(
    task: Task, time_limit_s: float | None = None, *, proves: bool = False
) -> tuple[float, float]:
    """Return the largest λ at which a local search finds a neuron, or λ_max of a table, exact or proved.

    Parameters
    ----------
    task : Task
    time_limit_s : float, optional
        For all searches together. After it, or after an interrupt (noted in ``task.interrupted``), a few ascents
        replace them.
    proves : bool
        Whether to prove that no optimal network from this λ on has a neuron (:func:`covopt.lambda_max`).

    Returns
    -------
    (float, float)
        λ, and a bound on its relative excess over the largest λ at which a neuron was found; 0 if λ is exact or not
        proved.
    """
    slack = 0.0
    ends = math.inf if time_limit_s is None else now() + time_limit_s

    def excess(lam: float, *, no_constant: bool = False) -> float:
        """Return the dual norm at the best constant: an attained value, or an upper bound."""
        problem, _ = task.reduced(lam)
        live = problem.rows.any(axis=1)
        zero = np.zeros((len(problem.rows), problem.n_outputs))
        dual = problem.project_dual(problem.dual_of(zero) if no_constant else problem.constant_dual())[live]
        if not dual.any():
            return 0.0
        power = math.frexp(float(np.abs(dual).max()))[1]  # oracles compute squares, which must not overflow
        asked = np.ldexp(np.ascontiguousarray(dual[:, 0] if dual.shape[1] == 1 else dual), -power)
        rows = problem.rows[live]
        try:
            with limited(ends - now()):
                if task.interrupted:
                    raise KeyboardInterrupt
                local = LocalSearchOracle(rows, n_starts=starts_for(rows), random_state=0)
                if task.potential != "variation":
                    found = task.oracle(problem).price(asked, threshold=np.inf).upper_bound
                elif proves:
                    found = bounded(problem, local, asked)
                else:
                    found = local.search(asked).upper_bound
        except (TimeUp, KeyboardInterrupt) as stop:
            interrupted = isinstance(stop, KeyboardInterrupt)
            if proves or (task.potential != "variation" and (interrupted or time_limit_s is None)):
                raise
            task.interrupted |= interrupted
            if task.potential != "variation":
                raise InputError(
                    f"lam is a share of λ_max, which takes longer than the {time_limit_s:.2g} s that it may with "
                    f"potential={task.potential!r}; give lam as a number, or a longer time limit."
                ) from None
            with unlimited(), defer_interrupts():
                found = _attained(rows, asked)
        return float(np.ldexp(found, power))

    def bounded(problem: Any, local: LocalSearchOracle, asked: np.ndarray) -> float:
        nonlocal slack
        with contextlib.suppress(BudgetError):
            pricing = task.oracle(problem).price(asked, threshold=np.inf)
            if pricing.exact:
                return pricing.upper_bound
        found = certified_dual_norm(local.rows, asked).value
        slack = max(slack, found / local.search(asked).upper_bound - 1.0)
        return found

    if task.output_bias != "penalized":
        return excess(1.0), slack  # −∇C/λ: the dual norm at λ is that at 1, divided by λ

    def height(lam: float) -> float:
        """Return λ times the excess, the dual norm of −∇C; at infinity the constant is zero."""
        return excess(1.0, no_constant=True) if lam == math.inf else lam * excess(lam)

    low, high = last_crossing(height, lambda: slack, linear=task.loss.is_quadratic)
    if low > 0.0 and slack == 0.0:
        high = float(brentq(lambda lam: excess(lam) - 1.0, low, high, xtol=1e-15 * high, rtol=1e-14))
    elif low > 0.0:  # there are neurons below the value attained at ``low``
        slack = (1.0 + slack) * high / low - 1.0
    return high, slack


def last_crossing(
    height: Callable[[float], float], slack: Callable[[], float] = lambda: 0.0, *, linear: bool
) -> tuple[float, float]:
    """Return a bracket of the largest λ with H(λ) = λ, zeros where there is none.

    H(λ) is the dual norm of −∇C at the best constant under a penalty, which depends on λ: it may fall and rise again,
    so that H(λ) ≤ λ at one λ implies nothing for larger ones. Where −∇C is linear in the constant, H between two λ is
    at most the larger of its values at them, since a norm is convex. For other losses H is sampled once an octave.

    Parameters
    ----------
    height : callable
        H; it must accept infinity.
    slack : callable, optional
        Known bound on the relative excess of H: the bracket need not be narrower.
    linear : bool
        Whether −∇C is linear in the constant.

    Examples
    --------
    >>> low, high = last_crossing(lambda lam: 1.0 if lam > 0.5 else 0.0, linear=True)
    >>> low < 1.0 <= high, high - low <= 1.1e-4
    (True, True)
    """
    high = height(math.inf)
    if high == 0.0:  # the slope vanishes at zero
        return 0.0, 0.0
    while (at := height(high)) > high:
        high = at
    found, low, least = at, 0.0, FOUND * high
    while high > 0.0 and high - low > max(PROVED_LAMBDA, slack() / (1.0 + slack())) * high:
        # no lower than H at the upper end: if H(λ) ≤ λ at both ends of such a step, so it is between them
        middle = max(found, 0.5 * (low + high) if low > 0.0 else 0.0 if linear else HALF * high)
        # a convex function of λ/(ρ + λ) exceeds its chord in λ by less than that accuracy over such a step
        step = 2.0 * math.sqrt(PROVED_LAMBDA)
        middle = min(middle, max(0.5 * (low + high), (1.0 - step) * high))
        if middle < least:
            return 0.0, 0.0
        at = height(middle)
        if at > middle:
            low = middle
        else:
            high, found = middle, at
    return low, high


def _attained(rows: np.ndarray, dual: np.ndarray) -> float:
    """Return a lower bound on h(Λ), attained by ascent from neurons along ±Zᵀλ and the row of the largest λ_i."""
    outputs = dual.reshape(len(dual), -1)
    lines = outputs.T @ rows
    starts = np.concatenate([lines, -lines, rows[np.abs(outputs).argmax(axis=0)]])
    lengths = np.linalg.norm(starts, axis=1, keepdims=True)
    starts = starts[lengths[:, 0] > 0.0] / lengths[lengths > 0.0][:, None]
    found = np.concatenate([starts, approach(rows, outputs, starts)])
    return float(np.linalg.norm(heights(rows, outputs, found), axis=1).max(initial=TINY))


def check_strength(problem: Problem, lam: float) -> None:
    """Refuse a λ that is negligible relative to λ_max; its limit is interpolation.

    Parameters
    ----------
    problem : Problem
    lam : float
        λ in the user's units.

    Raises
    ------
    InputError

    Examples
    --------
    >>> from covopt.losses import make_loss
    >>> loss = make_loss("squared")
    >>> _ = loss.encode_targets([1.0, 2.0])
    >>> check_strength(Problem(np.eye(2), loss, 1e-90), 1e-90)
    """
    slope = problem.loss.gradient(np.zeros(problem.loss.targets.shape))
    most = float(np.linalg.norm(slope, axis=1) @ np.linalg.norm(problem.rows, axis=1))
    if problem.strength < LEAST * most:
        raise InputError(
            f"lam={lam:g} is less than {LEAST:g} of λ_max, next to nothing in double precision; give a larger "
            "one, or take covopt.min_norm, which solves the limit."
        )
