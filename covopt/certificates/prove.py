"""Make the proof of a lower bound: the search by boxes finds a cover, the exact checker says what it proves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from math import inf, nextafter
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.checkpoints import Checkpoint
from covopt.checks.kept import KeptFile, kept_file
from covopt.errors import BudgetError, InputError, SolutionFileError
from covopt.limits import TimeUp, limited, now
from covopt.losses import Huber
from covopt.oracles.cones import box_gauge
from covopt.oracles.coordinates import Transfer
from covopt.parallel import spread_over_cluster
from covopt.proofs import CheckedBound, Problem, Proof, check_proof
from covopt.proofs.checker.arithmetic import float_below
from covopt.proofs.checker.dual import LOSSES, move_into_domain
from covopt.proofs.checker.network import lift
from covopt.proofs.parts import in_parts

if TYPE_CHECKING:
    from covopt.data import Data

RTOL = 5e-10  # of H, above the best value found: half of it is about what the proved bound loses
NEAR = 1e-2  # how far apart bound and best value may be for the checker to close the distance
MAX_BOXES = 2_000_000
EXTRA_BOXES = 200_000
LATE_S = 0.3  # for a first small proof where the time was up before
FIRST_BOXES, MORE_BOXES = (
    2000,
    4,
)  # where time is limited: the first search, and how much larger each next one is
PROVES = 1e-9  # of a bound, by which a proved one may be below it
ALMOST_ZERO = 2.0**-100  # H must be positive; the largest row is of size about one
ROW_BITS, SUM_BITS = 56, 60  # sums over a row and over the table for which 64 bits are enough


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
    neurons: np.ndarray | None = None,
    max_boxes: int = MAX_BOXES,
    n_threads: int = 1,
) -> tuple[Proof, CheckedBound]:
    """Search for a cover of all directions by boxes and let the checker say what it proves.

    Parameters
    ----------
    problem : Problem
    dual : ndarray of shape (N,) or (N, 2)
        λ in the user's units, of one double or two.
    neurons : ndarray of shape (m, D), optional
        Where the search may begin: those of the network.
    max_boxes : int
        Of the search. Where they run out the proof proves less.
    n_threads : int
        Of the search.

    Returns
    -------
    (Proof, CheckedBound)

    Raises
    ------
    InputError
        When there is no proof of this kind, or the dual point has no value.

    Examples
    --------
    >>> table = Problem(np.array([[0.0], [1.0]]), np.array([[0.0], [1.0]]), 1.0)
    >>> proof, bound = prove(table, np.array([-1.0, 1.0]))
    >>> 1.999999 < proof.lower_bound <= 2
    True
    """
    reason = float_link(problem, "variation")
    if reason is not None:
        raise InputError(f"there is no exact proof of this bound: {reason}")
    if neurons is not None:
        lengths = np.linalg.norm(neurons, axis=1)
        neurons = neurons[lengths > 0] / lengths[lengths > 0, None]
    try:
        moved = np.array([float(v) for v in move_into_domain(problem, dual)])
    except ValueError as error:
        raise InputError(f"there is no exact proof of this bound: {error}") from error
    found = box_gauge(
        lift(problem), moved, neurons=neurons, rtol=RTOL, max_nodes=max_boxes, n_threads=n_threads
    )
    made = found.transfer
    y, linear, signs, factor, change = _shorten(made)
    tree = bytes(4 * len(linear)) if found.tree is None else found.tree.tobytes()
    best, H = float(np.ldexp(abs(found.best_value), -made.exponent)), found.H
    if best * (1.0 + NEAR) > H:  # what double precision could not decide the checker can
        H = min(H, best * (1.0 + 0.5 * RTOL))
    H = max((H + change) * (1.0 + 1e-15), ALMOST_ZERO)
    proof = Proof(
        problem.digest(dual), made.V, y, signs, linear, made.group, factor, made.exponent, H, tree, 0.0,
    )  # fmt: skip
    try:
        bound = check_proof(problem, dual, proof, extra=EXTRA_BOXES, cover_by=in_parts(spread_over_cluster()))
    except ValueError as error:
        raise InputError(f"there is no exact proof of this bound: {error}") from error
    reached = -float_below(-(Fraction(H) + bound.cover.excess))
    return replace(proof, H=reached, lower_bound=float_below(bound.lower_bound)), bound


def prove_in_time(
    problem: Problem,
    dual: np.ndarray,
    stated: float,
    time_limit_s: float | None,
    *,
    neurons: np.ndarray,
    max_boxes: int,
    n_threads: int,
    checkpoint: Checkpoint | None = None,
) -> Proof:
    """Return the proof of :func:`prove`, or the best of smaller ones that end in time.

    Parameters
    ----------
    problem, dual, neurons, max_boxes, n_threads
        As for :func:`prove`.
    stated : float
        The bound that is to be proved: with it there is nothing more to do.
    time_limit_s : float, optional
    checkpoint : Checkpoint, optional
        The file of the best proof that is finished; a run goes on from it with larger searches. With it an interrupt
        ends the run like a time limit, once there is a proof.

    Raises
    ------
    InputError
        As :func:`prove`, and for the checkpoint of something else.
    BudgetError
        Where the time was up before there was any proof.
    """
    best: Proof | None = None
    start, ended = now(), False
    boxes = max_boxes if checkpoint is None and time_limit_s is None else min(FIRST_BOXES, max_boxes)

    def made() -> Proof:
        found = prove(problem, dual, neurons=neurons, max_boxes=boxes, n_threads=n_threads)[0]
        better = found if best is None or found.lower_bound > best.lower_bound else best
        if file is not None:
            file.write(better.to_dict())
        return better

    with kept_file(checkpoint) as file:
        try:
            with limited(time_limit_s):
                if file is not None and file.content is not None:
                    with file.named():
                        best = _earlier(problem, dual, Proof.from_dict(file.content), file)
                    ended = _proves(best, stated)
                    boxes = min(MORE_BOXES * max(boxes, len(best.tree)), max_boxes)
                while not ended:
                    began = now()
                    best = made()
                    ended = boxes == max_boxes or _proves(best, stated)
                    # the search hears no deadline: it is begun where it should end in time
                    if (
                        time_limit_s is not None
                        and MORE_BOXES * (now() - began) > start + time_limit_s - now()
                    ):
                        break
                    boxes = min(MORE_BOXES * boxes, max_boxes)
        except TimeUp:
            if best is None and file is not None:
                with suppress(TimeUp), limited(LATE_S):
                    best = made()
        except KeyboardInterrupt:
            if file is None or best is None:
                raise
        if checkpoint is not None and file is not None:
            checkpoint.stopped = not ended
            if ended:
                file.remove()
    if best is None:
        raise BudgetError(
            f"no proof was found in {time_limit_s:g} s: give more time, or verify in floating point."
        )
    return best


def _proves(proof: Proof, stated: float) -> bool:
    return proof.lower_bound >= stated - PROVES * abs(stated)


def _earlier(problem: Problem, dual: np.ndarray, proof: Proof, file: KeptFile) -> Proof:
    """Return the proof of an earlier run with what the checker says that it proves, whatever the file says."""
    if proof.digest != problem.digest(dual):
        raise InputError(
            f"the checkpoint {file.path} is about another table, question or dual point; give the same solution, or "
            "another file."
        )
    try:
        bound = check_proof(problem, dual, proof, extra=EXTRA_BOXES, cover_by=in_parts(spread_over_cluster()))
    except ValueError as error:
        raise SolutionFileError(f"the proof in the checkpoint {file.path} is damaged: {error}") from error
    return replace(proof, lower_bound=float_below(bound.lower_bound))


def _shorten(made: Transfer) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Round y and linear to a grid on which sums fit into 64 bits.

    A line whose rows nearly cancel is a short y with large factors, by which its rounding would be paid: such a line
    is left out of G, its y lengthened and its factors reduced.

    Returns
    -------
    y, linear, signs, factor
    change : float
        How much |G| can grow by that.
    """
    y, linear, signs, factor = made.y.copy(), made.linear, made.signs.astype(np.int64), made.factor.copy()
    if not y.size:
        return y, linear, signs, factor, 0.0
    row, total = np.abs(y).sum(axis=1).max(), np.abs(y).sum() + np.abs(linear).sum()
    exponent = max(int(np.frexp(row)[1]) - ROW_BITS, int(np.frexp(total)[1]) - SUM_BITS)
    unit = np.ldexp(1.0, exponent)
    short, line = np.rint(y / unit) * unit, np.rint(linear / unit) * unit
    moved, lengths = np.linalg.norm(short - y, axis=1), np.linalg.norm(y, axis=1)
    rows = np.flatnonzero(made.group >= 0)
    own = made.group[rows]
    amount = np.bincount(own, weights=np.abs(factor[rows]), minlength=len(y))
    gone = (signs != 0) & (amount * moved > lengths)
    change = moved[(signs != 0) & ~gone].sum() + lengths[gone].sum() + np.linalg.norm(line - linear)
    short = np.where((signs == 0)[:, None], y, short)
    short[gone] = y[gone] * amount[gone, None]
    factor[rows] = np.where(gone[own], factor[rows] / amount[own], factor[rows])
    return short, line, np.where(gone, 0, signs), factor, nextafter(float(change), inf)
