"""Make the closed proof of a lower bound, the best one that time allows."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.certificates.cover import MAX_BOXES, cover
from covopt.errors import BudgetError, InputError, SolutionFileError
from covopt.limits import TimeUp, limited, now
from covopt.losses import Huber
from covopt.proofs import Problem, Proof
from covopt.proofs.checker.covopt_check import Refused, largest_bound
from covopt.proofs.checker.dual import LOSSES
from covopt.proofs.theorem import network_of, ratio, sealed

if TYPE_CHECKING:
    from covopt.data import Data
    from covopt.network import ReLUNetwork

# where time is limited the first search is too small for quadratics, and each next one so many times as large
FIRST_BOXES, MORE_BOXES = 80, 4
PROVES = 1e-9  # of a bound, by which a proved one may be below it where nothing else is asked
DIGITS = 17  # of the bound


def problem_of(solution: Any, data: Data) -> Problem:
    """Return what a solution is about, for the exact checker.

    Parameters
    ----------
    solution : Solution
    data : Data
        Its table; with a loss the targets are those that the loss uses.
    """
    loss = solution.loss
    if loss is None:
        return Problem(data.X, data.Y, data.bias, solution.output_bias)
    delta = loss.delta if isinstance(loss, Huber) else 1.0
    lam, weights = float(solution.lam or 0.0), solution.sample_weight
    # proofs are about means; a sum is none of the losses that they know
    return Problem(data.X, data.Y, data.bias, solution.output_bias, loss.title, lam, delta, weights)


def multipliers_of(solution: Any) -> np.ndarray:
    """Return the dual of a solution of one output for the exact checker: shape (N,), or (N, 2) of two doubles."""
    if solution.dual_low is None:
        return solution.dual.reshape(-1)
    return np.column_stack([solution.dual.reshape(-1), solution.dual_low.reshape(-1)])


def float_link(problem: Problem, potential: str) -> str | None:
    """Say which link of the bound is floating point where no exact proof exists, None where one does."""
    if potential != "variation":
        return f"the bound on the dual in the potential {potential!r} is the oracle's, in floating point"
    if problem.Y.shape[1] != 1:
        return (
            f"the bound on the dual of {problem.Y.shape[1]} outputs is the oracle's, in floating point with an "
            "allowance for rounding"
        )
    if problem.loss not in LOSSES:
        return f"the conjugate of the loss {problem.loss!r} is computed in floating point"
    return None


def prove(
    problem: Problem,
    dual: np.ndarray,
    *,
    network: ReLUNetwork | None = None,
    max_boxes: int = MAX_BOXES,
    n_threads: int = 1,
    tol: float = PROVES,
) -> Proof:
    """Make a closed proof, and let the reader check it.

    Parameters
    ----------
    problem : Problem
    dual : ndarray of shape (N,) or (N, 2)
        λ in the user's units, of one double or two.
    network : ReLUNetwork, optional
        For the upper half; the search may begin at its neurons.
    max_boxes : int
        Where they run out the proof proves less.
    n_threads : int
        Of the search.
    tol : float
        Half of it is given away for fewer and shorter numbers.

    Raises
    ------
    InputError
        When there is no proof of this kind, or the dual point has no value.

    Examples
    --------
    >>> table = Problem(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), 1.0)
    >>> proof = prove(table, np.array([-1.0, 1.0]))
    >>> 1.999999 < proof.lower_bound <= 2, proof.boxes
    (True, 9)
    """
    reason = float_link(problem, "variation")
    if reason is not None:
        raise InputError(f"there is no exact proof of this bound: {reason}")
    neurons = None if network is None else network.hidden_weights
    content, own, _ = cover(
        problem, dual, neurons=neurons, max_boxes=max_boxes, n_threads=n_threads, rtol=0.5 * tol
    )
    try:
        bound = largest_bound(own)
    except Refused as error:
        raise InputError(f"there is no exact proof of this bound: {error}") from error
    if bound < 0:
        raise InputError(
            "there is no exact proof of this bound: what these boxes prove is below zero, allow more"
        )
    if bound:
        digits = DIGITS - len(str(int(bound))) if bound >= 1 else DIGITS + len(str(int(1 / bound)))
        bound = Fraction(int(bound * Fraction(10) ** digits)) / Fraction(10) ** digits
    content["theorem"]["bound"] = ratio(bound)
    if network is not None:
        wide = problem.X.shape[1] + 1
        hidden = np.pad(network.hidden_weights, ((0, 0), (0, wide - network.hidden_weights.shape[1])))
        content["network"] = network_of(hidden, network.output_weights, network.output_bias)
    proof = Proof(sealed(content))
    try:
        proof.boxes  # noqa: B018
    except SolutionFileError as error:
        raise InputError(f"there is no exact proof of this bound: {error}") from error
    return proof


def prove_in_time(
    problem: Problem,
    dual: np.ndarray,
    stated: float,
    time_limit_s: float | None,
    *,
    network: ReLUNetwork,
    max_boxes: int,
    n_threads: int,
    tol: float,
) -> Proof:
    """Return the proof of :func:`prove`, or the best of smaller ones that end in time.

    Parameters
    ----------
    problem, dual, network, max_boxes, n_threads, tol
        As for :func:`prove`.
    stated : float
        The bound that is to be proved, but for ``tol`` of it: with that there is nothing more to do.
    time_limit_s : float, optional

    Raises
    ------
    InputError
        As :func:`prove`.
    BudgetError
        Where the time was up before there was any proof.
    """
    best: Proof | None = None
    start = now()
    boxes = max_boxes if time_limit_s is None else min(FIRST_BOXES, max_boxes)
    with suppress(TimeUp), limited(time_limit_s):
        while True:
            began = now()
            found = prove(problem, dual, network=network, max_boxes=boxes, n_threads=n_threads, tol=tol)
            best = found if best is None or found.lower_bound > best.lower_bound else best
            if boxes == max_boxes or best.lower_bound >= stated - tol * abs(stated):
                break
            # the search hears no deadline: it is begun where it should end in time
            if time_limit_s is not None and MORE_BOXES * (now() - began) > start + time_limit_s - now():
                break
            boxes = min(MORE_BOXES * boxes, max_boxes)
    if best is None:
        raise BudgetError(
            f"no proof was found in {time_limit_s:g} s: give more time, or verify in floating point."
        )
    return best
