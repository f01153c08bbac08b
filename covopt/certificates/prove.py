"""Make the closed proof of a lower bound: a dual point in few bits, and a cover of all directions for its h."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.certificates.leaves import Advisor, Curves, curve
from covopt.errors import BudgetError, InputError, SolutionFileError
from covopt.exact.elimination import row_reduce
from covopt.exact.rank import FOUND, ROUGH, row_span
from covopt.limits import TimeUp, limited, now
from covopt.losses import Huber
from covopt.oracles.base import MOST_DIMENSIONS
from covopt.oracles.boxes.kernel import LEVELS
from covopt.oracles.boxes.quadratic_search import quadratic_limit
from covopt.oracles.boxes.search import box_dual_norm, box_limit
from covopt.proofs import Proof
from covopt.proofs.checker.covopt_check import Refused, largest_bound, read
from covopt.proofs.checker.dual import LOSSES, Problem, domain, move_into_domain, multiple, within
from covopt.proofs.closing import close, encoded
from covopt.proofs.coq import FIELD_BITS
from covopt.proofs.proof import DIGITS, counted, exactly, network_of, ratio, sealed, text, theorem_of

if TYPE_CHECKING:
    from covopt.data import Data
    from covopt.network import ReLUNetwork

INTEGERS = 100  # a quadratic leaf checked in integers costs as much as this many boxes in doubles


def problem_of(solution: Any, data: Data) -> Problem:
    """Return the problem of a solution for the exact checker.

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
    # the title tells a sum from a mean: proofs know means only
    return Problem(data.X, data.Y, data.bias, solution.output_bias, loss.title, lam, delta, weights)


def multipliers_of(solution: Any) -> np.ndarray:
    """Return the dual of a solution of one output for the exact checker: shape (N,), or (N, 2) of two doubles."""
    if solution.dual_low is None:
        return solution.dual.reshape(-1)
    return np.column_stack([solution.dual.reshape(-1), solution.dual_low.reshape(-1)])


def float_link(problem: Problem, potential: str) -> str | None:
    """Say which step of the bound is in floating point if no exact proof exists; None if one does."""
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
    max_boxes: int | None = None,
    n_threads: int = 1,
    tol: float = FOUND,
) -> Proof:
    """Make a closed proof and check it with the reader.

    Parameters
    ----------
    problem : Problem
    dual : ndarray of shape (N,) or (N, 2)
        λ in the user's units, of one double or two.
    network : ReLUNetwork, optional
        Stored for the upper bound; its neurons start the search.
    max_boxes : int, optional
        Most boxes, by default those of a whole check; if they run out, the proved bound is smaller.
    n_threads : int
        Of the search.
    tol : float
        Relative tolerance; half of it is spent on fewer and shorter numbers.

    Raises
    ------
    InputError
        If no exact proof of this bound exists, or the dual point cannot be moved into its domain.

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
    content, own = cover(
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
    """Return the proof of :func:`prove`, or the best of smaller ones that finish in time.

    Parameters
    ----------
    problem, dual, network, max_boxes, n_threads, tol
        As for :func:`prove`.
    stated : float
        The bound to prove, up to a share ``tol``; a proof of it ends the search.
    time_limit_s : float, optional

    Raises
    ------
    InputError
        As :func:`prove`.
    BudgetError
        If time was up before any proof was found.
    """
    best: Proof | None = None
    start = now()
    # with a time limit the first search is too small for quadratics, and each next one is twice as large
    boxes = max_boxes if time_limit_s is None else min(INTEGERS - 1, max_boxes)
    with suppress(TimeUp), limited(time_limit_s):
        while True:
            began = now()
            found = prove(problem, dual, network=network, max_boxes=boxes, n_threads=n_threads, tol=tol)
            best = found if best is None or found.lower_bound > best.lower_bound else best
            if boxes == max_boxes or best.lower_bound >= stated - tol * abs(stated):
                break
            # an unfinished search is worthless: begin it only if it should finish in time
            if time_limit_s is not None and 2.0 * (now() - began) > start + time_limit_s - now():
                break
            boxes = min(2 * boxes, max_boxes)
    if best is None:
        raise BudgetError(
            f"no proof was found in {time_limit_s:g} s: give more time, or verify in floating point."
        )
    return best


def cover(
    problem: Problem, dual: np.ndarray, *, neurons: np.ndarray | None = None, max_boxes: int | None = None,
    n_threads: int = 1, rtol: float = 0.5 * FOUND,
) -> tuple[dict[str, Any], Any]:  # fmt: skip
    """Round a dual point to few bits and close a cover of all directions for it.

    Parameters
    ----------
    problem : Problem
        Of one output.
    dual : ndarray of shape (N,) or (N, 2)
        λ in the user's units, of one double or two.
    neurons : ndarray of shape (m, D), optional
        Starting points of the search: those of the network.
    max_boxes : int, optional
        Most boxes, by default those of a whole check; if they run out, H is larger.
    n_threads : int
        Of the search.
    rtol : float
        Tolerance between H and the best value found. Each rounding costs at most a quarter of it.

    Returns
    -------
    content : dict
        Content of a file without bound and network.
    own : namespace
        The same as :func:`covopt.proofs.checker.covopt_check.read` returns it.

    Raises
    ------
    InputError
        If the dual point cannot be moved into its domain.
    """
    rows = np.column_stack([problem.X, np.full(len(problem.X), float(problem.bias))])[counted(problem)]
    (N, D), theorem = rows.shape, theorem_of(problem)
    max_boxes = max_boxes or box_limit(D)
    content: dict[str, Any] = {
        "digest": "", "format": "covopt-proof", "network": None, "theorem": theorem, "version": 2,
        "proof": _proof(np.zeros(N, dtype=int).tolist(), 1, np.eye(D, dtype=int).tolist(), (1, 1, 1)),
    }  # fmt: skip
    about = exactly(read(sealed(content)), problem)
    try:
        moved = np.array([*move_into_domain(problem, dual), None], dtype=object)[:-1][counted(problem)]
    except ValueError as error:
        raise InputError(f"there is no exact proof of this bound: {error}") from error
    if neurons is not None:
        lengths = np.linalg.norm(neurons, axis=1)
        neurons = neurons[lengths > 0] / lengths[lengths > 0, None]
        neurons = np.pad(neurons, ((0, 0), (0, D - neurons.shape[1])))
    dual, rank = moved.astype(float), len(row_span(rows))
    most = quadratic_limit(N, rank) if rank > MOST_DIMENSIONS else 0
    chords = min(max_boxes, most or max_boxes)
    found = box_dual_norm(rows, dual, neurons=neurons, rtol=rtol, max_nodes=chords, n_threads=n_threads)
    best, upper = abs(found.best_value), found.upper_bound

    def begun(h: float | Fraction, basis: list[list[int]], bits: Sequence[int]) -> Any:
        multipliers, H = _shortened(about, moved, Fraction(h), theorem)
        content["proof"] = _proof(multipliers, H, basis, bits)
        return read(sealed(content))

    own, cuts = None, min(max_boxes, most) // INTEGERS
    if cuts and best * (1.0 + max(ROUGH, rtol)) <= upper:  # chords leave a large gap
        basis = _turned(_whole(found.basis), math.ceil(-math.log2(ROUGH)))
        weighted = rows * (np.abs(dual) / best)[:, None]
        curves = Curves(weighted, np.sign(dual), np.array(basis, dtype=float), cuts, 1.0 + rtol)
        if curves.bound * best < upper:
            own = begun(Fraction(curves.bound) * Fraction(best), basis, (1, FIELD_BITS, 1))
            own = own if curve(own, curves) else None
    if own is None:
        V, wanted = _whole(found.basis), best * (1.0 + rtol) or 1.0
        lengths = np.linalg.norm(rows @ V, axis=0)
        uneven = max(1.0, lengths.max() / max(float(lengths[lengths > 0.0].min(initial=1.0)), 2.0**-900))
        sizes = moved.astype(float) * np.linalg.norm(rows, axis=1) / wanted
        # rounding a slope has an effect of second order
        slope = math.ceil(0.5 * math.log2(max(4.0, 0.5 * float((sizes**2).mean()) / rtol)))
        normal = math.ceil(math.log2(max(4.0, 4.0 * math.sqrt(D) / rtol)))
        basis = _turned(V, normal + math.ceil(math.log2(uneven)))
        own = begun(wanted, basis, (LEVELS, min(slope, FIELD_BITS), normal))
        known = math.ceil(own.H * Fraction(max(upper / wanted, 1.0)))
        close(own, known, max_boxes, Advisor)
    content["proof"] |= {
        "H": str(own.H), "bits": text((own.corner.bit_length() - 1, own.slope_bits, own.normal_bits - 1)),
        "tree": encoded(own.tree),
    }  # fmt: skip
    return content, own


def _proof(multipliers: Sequence[int], H: int, basis: list[list[int]], bits: Sequence[int]) -> dict[str, Any]:
    """Return the entry ``proof`` of a file, without a tree."""
    D = len(basis)
    columns = [
        [*column, *(int(i == j) for j in range(D))] for i, column in enumerate(zip(*basis, strict=True))
    ]
    inverse = [row[D:] for row in row_reduce(columns, D)[0]]
    scale = math.lcm(*(value.denominator for row in inverse for value in row))
    return {
        "H": str(H), "basis": [text(row) for row in basis], "bits": text(bits), "multipliers": text(multipliers),
        "inverse": [text(int(value * scale) for value in row) for row in inverse], "scale": str(scale), "tree": "",
    }  # fmt: skip


def _shortened(
    problem: Problem, dual: np.ndarray, h: Fraction, theorem: dict[str, Any]
) -> tuple[list[int], int]:
    """Return integers L and H: the dual point in the largest unit that rounding allows, inside its domain.

    Rounding by half a unit changes h by at most ½ Σ|x̃_i| units, typically by ½ √(Σ|x̃_i|²).
    """
    targets = problem.Y[:, 0].tolist()
    linear = sum((u * y for u, y in zip(dual, targets, strict=True)), Fraction(0))
    if problem.loss is None and linear < 0:
        dual, linear = -dual, -linear  # of the same h
    e = Fraction(*map(int, theorem["x_unit"].split()))
    t = multiple(problem, dual.tolist(), h)
    rows = sum((x * x for row in problem.X.tolist() for x in row), len(dual) * Fraction(problem.bias) ** 2)
    wanted = [rows / h**2, (4 * t * e) ** 2]
    if linear:
        wanted.append(sum(y * y for y in targets) / linear**2)
    finest = max(wanted) / Fraction(0.5 * FOUND) ** 2  # its root is the number of units in 1
    scale = Fraction(2) ** (1 + (finest.numerator.bit_length() - finest.denominator.bit_length()) // 2)
    reach = scale / t
    ends = [
        (None if low is None else math.ceil(low * reach), None if high is None else math.floor(high * reach))
        for low, high in domain(problem)
    ]
    found = within(problem, [round(u * scale) for u in dual.tolist()], ends)
    return found, max(1, math.ceil(reach / e))


def _whole(V: np.ndarray) -> np.ndarray:
    """Complete orthonormal columns to an orthonormal basis."""
    return np.column_stack([V, np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]])


def _turned(V: np.ndarray, bits: int) -> list[list[int]]:
    """Return nearly orthonormal columns as rows of integers."""
    return [[round(x * 2.0**bits) for x in column] for column in V.T.tolist()]
