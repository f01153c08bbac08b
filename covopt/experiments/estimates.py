r"""Estimate R⁽⁰⁾, R⁽¹⁾, R⁽²⁾ of a table or a function from brackets of R_L at several depths.

.. math:: R_L = L R^{(0)} + R^{(1)} + R^{(2)}/L + O(L^{-2})

(BN23 §2). Without the remainder, brackets of R_L at several depths define a polytope of (R⁽⁰⁾, R⁽¹⁾, R⁽²⁾), whose
range in each coordinate is returned. This is an estimate, not a bound: if the remainder is not small, the polytope is
empty or wrong, and for a table the limit R⁽⁰⁾ for large L is always 0, 1 or 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.optimize import linprog

from covopt.checks.validation import check_number
from covopt.depth.layers import as_chain, jacobian
from covopt.depth.linear import check_depth
from covopt.errors import InputError
from covopt.exact.definite import singular_values_between
from covopt.exact.rounding import TINY, below, gamma, lengths_up, root_down
from covopt.network import check_inputs


@dataclass(frozen=True)
class ExpansionEstimate:
    """Intervals of R⁽⁰⁾, R⁽¹⁾, R⁽²⁾ that are consistent with brackets of R_L.

    Attributes
    ----------
    r0, r1, r2 : (float, float)
    slack : float
        Least relative widening of the brackets for which an expansion exists; a lower bound on the remainder.
    """

    r0: tuple[float, float]
    r1: tuple[float, float]
    r2: tuple[float, float]
    slack: float


def estimate_expansion(brackets: Sequence[Any]) -> ExpansionEstimate:
    """Estimate the expansion in the depth from brackets at three or more depths.

    Parameters
    ----------
    brackets : sequence of DeepSolution, or of (depth, lower, upper)
        Brackets for one table.

    Returns
    -------
    ExpansionEstimate

    Raises
    ------
    InputError
        For fewer than three depths, and for invalid brackets.

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
    # least widening, relative to the upper bound
    widen = np.column_stack([np.vstack([terms, -terms]), -np.concatenate([high, high])])
    right = np.concatenate([high, -low])
    free = [(None, None)] * 3
    first = linprog([0.0, 0.0, 0.0, 1.0], A_ub=widen, b_ub=right, bounds=[*free, (0.0, None)], method="highs")
    slack = max(0.0, float(first.fun)) * (1.0 + 1e-9) + 1e-12
    right = right + slack * np.concatenate([high, high])

    def end(k: int, sign: float) -> float:
        found = linprog(
            sign * np.eye(3)[k], A_ub=np.vstack([terms, -terms]), b_ub=right, bounds=free, method="highs"
        )
        return sign * float(found.fun) if found.status == 0 else -sign * np.inf

    r0, r1, r2 = ((end(k, 1.0), end(k, -1.0)) for k in range(3))
    return ExpansionEstimate(r0, r1, r2, slack if slack > 1e-9 else 0.0)


def function_brackets(network: Any, X: Any, depths: Sequence[int]) -> list[tuple[int, float, float]]:
    r"""Return lower and upper bounds on the representation cost of a network's function, for each depth.

    The lower bound is R_L(f) ≥ L‖Jf(x)‖^{2/L}_{2/L} at any x of the domain (RK23 Prop 7), the upper bound the network
    with identities after its thinnest hidden layer, each of which costs its width:

    .. math:: \max_x L \sum_i s_i(Jf(x))^{2/L} \le R_L(f) \le \|W\|^2 + (L - L_0) \min_\ell n_\ell .

    The lower bound is rounded down: the rounding error of the computed Jacobian (:func:`jacobian_between`) is
    subtracted from its singular values. Points on a kink, where the computed Jacobian may not be a derivative, are
    left out; the bound is zero if no other points are given.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
        A ReLU network of L₀ layers.
    X : array_like of shape (N, d)
        Points of the domain.
    depths : sequence of int
        Depths of at least L₀.

    Returns
    -------
    list of (int, float, float)
        Brackets (depth, lower, upper) for :func:`estimate_expansion`.

    Raises
    ------
    InputError
        If X does not match, the network has no hidden layer or another slope, or a depth is below L₀.

    Examples
    --------
    The identity of ℝ² on the positive quadrant costs 2L:

    >>> found = function_brackets([np.eye(2), np.eye(2)], [[1.0, 2.0]], (2, 5, 9))
    >>> [(depth, round(low, 12), high) for depth, low, high in found]
    [(2, 4.0, 4.0), (5, 10.0, 10.0), (9, 18.0, 18.0)]
    """
    chain = as_chain(network)
    if not chain.widths or chain.slope != 0.0:
        raise InputError("network must have hidden layers with ReLUs: an identity goes behind one of them.")
    jacobians, errors, decided = jacobian_between(chain, X)
    count = min(chain.n_inputs, chain.n_outputs)
    values = np.array([
        np.maximum(0.0, singular_values_between(each)[0] - float(lengths_up(off.reshape(1, -1))[0]))
        for each, off in zip(jacobians[decided], errors[decided], strict=True)
    ]).reshape(-1, count)  # fmt: skip
    values = np.where(values > 0.0, np.nextafter(values, 0.0), 0.0)
    least = len(chain.weights)
    found = []
    for depth in depths:
        L = check_depth(depth)
        if least > L:
            raise InputError(
                f"depth {L} is below the network's own {least} layers; give depths from {least} on."
            )
        low = 0.0
        if len(values):
            best = values[int((values ** (2.0 / L)).sum(axis=1).argmax())]
            low = below(
                L * sum((Fraction(root_down(Fraction(s) ** 2, L)) for s in best.tolist()), Fraction(0))
            )
        found.append((L, low, max(low, chain.squared_norm + (L - least) * min(chain.widths))))
    return found


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


def jacobian_between(network: Any, X: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Jf(x) at every row of a table, bounds on the errors of its entries, and whether it is the derivative.

    It may not be the derivative if a pre-activation is zero within rounding, depends on the inputs, and its neuron
    has a nonzero weight in the next layer. Other neurons at zero make no difference.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
        A network with ReLUs.
    X : array_like of shape (N, d)

    Returns
    -------
    values, errors : ndarray of shape (N, k, d)
    decided : ndarray of bool, of shape (N,)

    Examples
    --------
    >>> size = [np.array([[1.0], [-1.0]]), np.array([[1.0, 1.0]])]
    >>> values, errors, decided = jacobian_between(size, [[2.0], [0.0]])
    >>> float(values[0, 0, 0]), bool(errors.max() < 1e-14), decided.tolist()
    (1.0, True, [True, False])
    """
    chain = as_chain(network)
    rows = check_inputs(X, chain.n_inputs)
    # each entry has Σ (n_ℓ + 4) roundings, in sums and products
    share = gamma(sum(w.shape[1] + 4 for w in chain.weights))
    decided, moves, sizes = np.ones(len(rows), dtype=bool), np.ones(rows.shape), np.abs(rows)
    found = chain.representations(rows)
    for ell, (w, b) in enumerate(chain.layers[:-1]):
        sizes = sizes @ np.abs(w).T + (0.0 if b is None else np.abs(chain.bias * b))
        hidden = np.abs(found[ell]) <= share * sizes
        moves = (moves @ np.abs(w).T > 0.0).astype(float)
        heard = np.abs(chain.weights[ell + 1]).sum(axis=0) > 0.0
        decided &= ~(hidden & (moves > 0.0) & heard).any(axis=1)
        moves *= hidden | (found[ell] > 0.0)
    size = np.broadcast_to(np.eye(chain.n_outputs), (len(rows), chain.n_outputs, chain.n_outputs))
    for ell in range(len(chain.weights) - 1, -1, -1):
        size = size @ np.abs(chain.weights[ell])
        size = size if ell == 0 else size * (found[ell - 1] > 0.0)[:, None, :]
    return jacobian(chain, rows), share * size * (1.0 + share) + TINY, decided
