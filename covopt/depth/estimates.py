r"""R⁽⁰⁾, R⁽¹⁾, R⁽²⁾ of a table from brackets over the depth.

.. math:: R_L = L R^{(0)} + R^{(1)} + R^{(2)}/L + O(L^{-2})

(BN23 §2). Brackets of R_L at several depths leave a polytope of (R⁽⁰⁾, R⁽¹⁾, R⁽²⁾) once the remainder is left out;
its extent along each is what the brackets allow. That is an estimate, not a bound: where the remainder is not small
the polytope is empty or wrong, and for DATA the limit R⁽⁰⁾ of large L is 0, 1 or 2 whatever the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from covopt.checks.validation import check_number
from covopt.depth.linear import check_depth
from covopt.errors import InputError


@dataclass(frozen=True)
class ExpansionEstimate:
    """Intervals of R⁽⁰⁾, R⁽¹⁾, R⁽²⁾ that brackets over the depth allow.

    Attributes
    ----------
    r0, r1, r2 : (float, float)
    slack : float
        By how much, relatively, the brackets had to be widened for any expansion to fit: the remainder, at least.
    """

    r0: tuple[float, float]
    r1: tuple[float, float]
    r2: tuple[float, float]
    slack: float


def estimate_expansion(brackets: Sequence[Any]) -> ExpansionEstimate:
    """Return what brackets at three depths or more say of the expansion in the depth.

    Parameters
    ----------
    brackets : sequence of DeepSolution, or of (depth, lower, upper)
        Of one table.

    Returns
    -------
    ExpansionEstimate

    Raises
    ------
    InputError
        For fewer than three depths, and brackets that are none.

    Examples
    --------
    Two rows whose cost is known, L(2^{2/L} + 3^{2/L}):

    >>> exact = [(L, *(2 * [L * (2 ** (2 / L) + 3 ** (2 / L))])) for L in (40, 60, 80)]
    >>> found = estimate_expansion(exact)
    >>> round(found.r0[0], 2), round(found.r1[0], 1), round(2 * float(np.log(6)), 1)
    (2.0, 3.6, 3.6)
    """
    rows = [_row(bracket) for bracket in brackets]
    depths = np.array([row[0] for row in rows])
    if len(set(depths.tolist())) < 3:
        raise InputError(f"brackets at three depths are needed; received {len(set(depths.tolist()))}.")
    terms = np.column_stack([depths, np.ones(len(rows)), 1.0 / depths])
    low, high = np.array([row[1] for row in rows]), np.array([row[2] for row in rows])
    # the least widening, as a share of the upper bound
    widen = np.column_stack([np.vstack([terms, -terms]), -np.concatenate([high, high])])
    right = np.concatenate([high, -low])
    free = [(None, None)] * 3
    first = linprog([0.0, 0.0, 0.0, 1.0], A_ub=widen, b_ub=right, bounds=[*free, (0.0, None)], method="highs")
    slack = max(0.0, float(first.fun)) * (1.0 + 1e-9) + 1e-12
    ends = []
    for k in range(3):
        pair = []
        for sign in (1.0, -1.0):
            cost = np.zeros(3)
            cost[k] = sign
            found = linprog(
                cost, A_ub=np.vstack([terms, -terms]), b_ub=right + slack * np.concatenate([high, high]), bounds=free,
                method="highs",
            )  # fmt: skip
            pair.append(sign * float(found.fun) if found.status == 0 else -sign * np.inf)
        ends.append((pair[0], pair[1]))
    return ExpansionEstimate(ends[0], ends[1], ends[2], slack if slack > 1e-9 else 0.0)


def _row(bracket: Any) -> tuple[int, float, float]:
    if hasattr(bracket, "lower_bound"):
        depth = bracket.depth if hasattr(bracket, "depth") else 2
        return depth, bracket.lower_bound, bracket.cost
    try:
        depth, low, high = bracket
    except (TypeError, ValueError):
        raise InputError(
            f"a bracket is a solution or (depth, lower, upper); received {str(bracket)[:60]!r}."
        ) from None
    low = check_number("lower", low, "finite", np.isfinite)
    high = check_number("upper", high, "at least lower", lambda value: np.isfinite(value) and value >= low)
    return check_depth(depth), low, high
