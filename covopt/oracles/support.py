r"""A valid bound on h(Λ) = max over ‖w‖ ≤ 1 of ‖Λᵀσ(X̃w)‖ for rows and duals as they are, whatever their scale.

This is what certificates divide by, so nothing here may be too small. The rows are brought to size one by powers of
two, which is exact (σ is homogeneous: Λ_i σ(x_i·w) keeps its value when the size moves from x_i to Λ_i); rows where
Λ vanishes do not enter; coordinates and outputs that are not needed are dropped, and what that changes is paid by the
transfer of :mod:`covopt.exact.rounding`. What is left goes to

- one coordinate: a closed form; two: the arcs, in integers (:mod:`covopt.oracles.arcs`);
- several outputs: a table of faces, where :mod:`~covopt.oracles.vector.lattice_proof` has shown that they are right,
  else a fan of output directions (:mod:`covopt.oracles.cones.fan`), each of which is bounded like one output;
- faces in three dimensions, unless two rows are nearly parallel: :mod:`covopt.oracles.scalar.sphere` has the proof;
- faces in three dimensions in integers (:mod:`covopt.proofs.checker.faces`), of rows far from the origin and where
  nothing else ends, if they are not too many;
- branch and bound over signs, for at most six rows a dimension and beyond eight dimensions;
- boxes of directions (:mod:`covopt.oracles.cones`), which decide nothing by rounding, up to eight dimensions;
- quadratics on boxes (:mod:`covopt.oracles.cones.moments`), with one output where neither ends;
- the relaxation :func:`~covopt.oracles.bounds.gauge_bound`, when nothing else closes: valid, and not exact.
"""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from covopt.errors import BudgetError
from covopt.exact.far_rows import FarRows
from covopt.exact.rounding import TINY, lengths_up, operator_norm_up, total_up, transfer_up, up
from covopt.limits import seconds_left
from covopt.oracles.arcs import MOST_ENTRIES, arc_gauge, line_gauge
from covopt.oracles.bounds import gauge_bound, narrow
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cascade import MOST_DIMENSIONS, suits_signs
from covopt.oracles.choose import exact_oracle
from covopt.oracles.cones.fan import fan_gauge
from covopt.oracles.cones.gauge import box_gauge
from covopt.oracles.cones.moments import quadratic_gauge
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.remembered import recall
from covopt.oracles.sizes import to_size_one
from covopt.proofs.checker.arithmetic import float_below, sqrt_above
from covopt.proofs.checker.faces import DIMENSION, square_above

STARTS = 128
KEPT_ROWS = 500  # oracles of larger tables are not kept: their presorting takes much memory
WHOLE_CHECK_S = 15.0  # what the default budget of faces takes at most, about, where boxes are searched
BOXES_PER_FACE = 2e-3  # boxes for each face of the budget: 10⁶ by default, a second or two
MORE_BOXES = 6  # times as many where faces are out of reach
CLAIMED = 20  # times as many boxes, of either kind, where a solve has shown that they suffice
CLAIM_SLACK = 1e-10  # what other coordinates may change of what it has shown
ATTAINED = 5e-8  # a bound this close to a value is the maximum
BOXES_PER_ROW = 4000  # the same for each row, where those are more: a grid of 650 points takes 800 for each
BY_FACES = 1e-9  # what their proof may add; boxes are sharper
BOX_TOLERANCE = 1e-11  # up to so many faces it costs no more boxes than 1e-6 would
LOOSE_TOLERANCE = 2e-8  # with more, about half as many boxes
MOST_ARCS = 60_000  # N² k, in three dimensions, up to which faces are looked at in integers: some 2 s
QUADRATIC_WORK = 16.0  # operations on boxes with quadratics for each face of the budget: 8·10⁹, some 15 s
MOST_QUADRATIC_BOXES = 60_000
FIRST_LOOK = 0.1  # times the nodes of a pricing, where signs come before boxes
PATIENCE = 30.0  # times the nodes of a pricing, where a whole check may be made: two or three seconds
MOST_QUADRATIC_DIMENSIONS = 64
QUADRATIC_TOLERANCE = 1e-7
MOST_CALLS = 1500  # output directions that are asked about,
FAN_WORK = 3e6  # (N + r)² for each of them,
FEW_CALLS, FEWEST_BOXES = 24, 100  # and where quadratics on boxes bound each; with fewer boxes none
FAN_TOLERANCE = 3e-7
FAN_SHARE = 50  # part of the budget for each of them
FAN_TIME = 0.5  # of the time that is left

EXACT = "exact maximum over all neurons"
VALID = "valid upper bound on the maximum over all neurons"
BY_CHORDS, BY_BOXES = VALID + ", by boxes of directions", VALID + ", by quadratics on boxes of directions"


class GaugeBound(NamedTuple):
    """An upper bound on h(Λ).

    Attributes
    ----------
    value : float
        h(Λ) does not exceed it, in exact arithmetic for the rows and the dual as given.
    exact : bool
        Whether it is the maximum itself, to rounding.
    method : str
        What it was computed by, in words.
    """

    value: float
    exact: bool
    method: str


def tree_limit(n_rows: int, rank: int, times: float = 1.0) -> int:
    """Nodes of the branch and bound where faces are too many, one output: a tenth of a second.

    A number of nodes and no clock, so that every machine gives the same answer. A node costs (N + r)² operations.

    Parameters
    ----------
    n_rows, rank : int
    times : float
        How much more than a pricing it may take.

    Examples
    --------
    >>> tree_limit(40, 21), tree_limit(200, 11, 30.0)
    (13437, 33691)
    """
    return int(min(max(times * 5e7 / float(n_rows + rank) ** 2, 1000), 50_000))


def bound_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    budget: float = DEFAULT_FACE_BUDGET,
    claim: float | None = None,
) -> GaugeBound:
    """Bound h(λ) = max over unit w of |⟨λ, σ(Z w)⟩|, or h(Λ) = max ‖Λᵀσ(Z w)‖, from above.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Of any rank and size; the user's lifted rows, say.
    dual : ndarray of shape (N,) or (N, k)
    budget : float
        Largest number of faces for the exact oracle; beyond it a branch and bound of limited size is tried. Below one
        nothing is searched.
    claim : float, optional
        What boxes are said to have shown that h does not exceed: where they are what is left to try, they are given
        the time to show it again.

    Returns
    -------
    GaugeBound
        Valid in exact arithmetic for the floats given.

    Examples
    --------
    >>> bound, exact, _ = bound_gauge(np.eye(3), np.array([3.0, 4.0, 0.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    >>> bound_gauge(np.array([[1e200, 0.0], [1e200, 1e-200]]), np.array([1e-200, -1e-200])).value >= 0.0
    True
    """
    found = searched_gauge(rows, dual, budget, claim)
    if found.exact or budget >= DEFAULT_FACE_BUDGET:
        return found
    # there is no time to prove it once more; a check that has time must come as close
    proved = up(recall(rows, dual) * (1.0 + ATTAINED))
    by = BY_BOXES if rows.shape[1] > MOST_DIMENSIONS else BY_CHORDS
    return found if found.value <= proved else GaugeBound(proved, False, by)


def searched_gauge(rows: np.ndarray, dual: np.ndarray, budget: float, claim: float | None) -> GaugeBound:
    """:func:`bound_gauge` by what is proved here and now."""
    outputs = dual.reshape(len(dual), -1)
    live = rows.any(axis=1) & outputs.any(axis=1)
    by_integers = rows.shape[1] == DIMENSION and budget >= 1.0
    by_integers = by_integers and np.count_nonzero(live) ** 2 * outputs.shape[1] <= MOST_ARCS
    far = FarRows.of(rows[live]) if rows.shape[1] > 2 else None  # in the plane integers take any rows
    if far is not None:
        if by_integers:
            return in_integers(rows[live], outputs[live])
        return bound_far(far, rows[live], outputs[live], np.zeros_like(outputs[live]), budget, claim)
    scaled = to_size_one(rows, dual)
    if scaled is None:
        return GaugeBound(0.0, True, EXACT)
    units, weights, top, _ = scaled
    # entries below 2⁻¹⁰⁷⁴ of the largest are lost, and rows of which nothing is left
    lost = 4.0 * dual.size * rows.shape[1] * TINY
    if claim is not None:
        claim = math.ldexp(claim, -top) if 0.0 < claim < math.inf and abs(top) < 900 else None
    found = _bound_units(units, weights, budget, claim)
    if by_integers and not found.exact:
        return in_integers(rows[live], outputs[live])
    value = up(up(found.value) + lost)
    try:
        return found._replace(value=up(math.ldexp(value, top)))
    except OverflowError:
        return found._replace(value=math.inf)


def in_integers(rows: np.ndarray, dual: np.ndarray) -> GaugeBound:
    """Look at all faces in integers: no choice of units and no rows that nearly depend on each other spoil them."""
    return GaugeBound(-float_below(-sqrt_above(square_above(rows, dual))), True, EXACT)


def bound_far(
    far: FarRows, rows: np.ndarray, dual: np.ndarray, low: np.ndarray, budget: float, claim: float | None
) -> GaugeBound:
    """Bound h of rows far from the origin by that of rows brought closer, and by the sum of all rows.

    Second doubles ``low`` of the multipliers count in the sum as they are, beside the rows brought closer by length.
    """
    closer = bound_gauge(far.rows, dual, budget=budget, claim=None if claim is None else claim / far.stretch)
    sizes = lengths_up(low)
    paid = up(far.stretch * total_up(sizes, lengths_up(far.rows)))
    paid = up(paid + far.paid(np.nextafter(lengths_up(dual) + sizes, np.inf)))
    value, linear = up(up(far.stretch * closer.value) + paid), far.linear_up(rows, dual, low)
    exact = closer.exact and linear <= value <= (1.0 + ATTAINED) * closer.value
    return GaugeBound(max(value, linear), exact, closer.method if exact or not closer.exact else VALID)


def _bound_units(rows: np.ndarray, dual: np.ndarray, budget: float, claim: float | None = None) -> GaugeBound:
    """:func:`bound_gauge` for rows and duals of size one: drop what is not needed, and pay for it."""
    if rows.shape[1] == 2 and dual.size <= MOST_ENTRIES:
        return GaugeBound(arc_gauge(rows, dual), True, EXACT)
    sizes, lengths = lengths_up(dual), lengths_up(rows)
    turn, outputs = narrow(dual, lengths)
    paid = transfer_up(dual, lengths, turn, outputs)
    basis, reduced = narrow(rows, sizes)
    paid = up(paid + up(operator_norm_up(turn) * transfer_up(rows, lengths_up(outputs), basis, reduced)))
    stretch = up(operator_norm_up(turn) * operator_norm_up(basis))
    kept = reduced.any(axis=1) & outputs.any(axis=1)
    if claim is not None:
        claim = ((1.0 + CLAIM_SLACK) * claim - paid) / stretch
    units = np.ascontiguousarray(reduced[kept]), np.ascontiguousarray(outputs[kept])
    found = _bound_full(*units, budget, claim)
    exact = found.exact and paid <= 1e-9 * found.value
    method = found.method if exact or not found.exact else VALID
    return GaugeBound(up(up(stretch * found.value) + paid), exact, method)


def _bound_full(rows: np.ndarray, dual: np.ndarray, budget: float, claim: float | None = None) -> GaugeBound:
    """Bound h for rows and outputs of full rank."""
    if len(rows) == 0:
        return GaugeBound(0.0, True, EXACT)
    if rows.shape[1] == 1:
        return GaugeBound(line_gauge(rows[:, 0], dual), True, EXACT)
    if budget < 1.0:  # no time for any search
        one = dual[:, 0] if dual.shape[1] == 1 else dual
        return GaugeBound(_relaxed(rows, one), False, VALID)
    if dual.shape[1] == 1:
        return _bound_scalar(rows, dual[:, 0], budget, claim)
    return _bound_vector(rows, dual, budget)


def _bound_scalar(
    rows: np.ndarray, dual: np.ndarray, budget: float, claim: float | None = None
) -> GaugeBound:
    """Faces; where there are too many signs, boxes or quadratics, by the sizes of the table."""
    r, best, bound = rows.shape[1], 0.0, np.inf
    signs_end, oracle = suits_signs(*rows.shape), None
    with contextlib.suppress(BudgetError):
        oracle = oracle_for(rows, 0, budget) if r <= MOST_FACED else None
    if oracle is not None:
        best = oracle.bound(dual)
        proved = oracle.proved_bound(dual, (1.0 + BY_FACES) * best)
        if proved is not None:
            return GaugeBound(proved, True, EXACT)
    elif signs_end or r > MOST_DIMENSIONS:
        # an optimal dual of a large λ takes thousands of nodes where boxes take millions
        times = PATIENCE if r > MOST_DIMENSIONS else FIRST_LOOK
        signs = sign_gauge(rows, dual, times * budget / DEFAULT_FACE_BUDGET)
        if signs.exact:
            return signs
    if r > MOST_DIMENSIONS:
        return _by_quadratics(rows, dual, signs, budget, claim)
    many = BOXES_PER_ROW * len(rows) / DEFAULT_FACE_BUDGET
    limit, rtol = int(max(BOXES_PER_FACE, many) * budget), BOX_TOLERANCE
    start = near = None
    if oracle is None:
        times = MORE_BOXES if claim is None else CLAIMED
        limit, rtol = int(times * BOXES_PER_FACE * budget), LOOSE_TOLERANCE
    else:
        # how sharp boxes can be depends on where: of rows that all point nearly one way it is far better across
        start, near = best, oracle.price(dual, threshold=best, max_neurons=1).neurons
    if limit > 0:
        boxes = box_gauge(rows, dual, start=start, neurons=near, rtol=rtol, max_nodes=limit)
        if start is not None and abs(boxes.best_value) > (1.0 + ATTAINED) * start:  # too low to be a hint
            boxes = box_gauge(rows, dual, rtol=rtol, max_nodes=limit)
        bound = boxes.upper_bound
        if bound <= (1.0 + ATTAINED) * max(abs(boxes.best_value), best):
            return GaugeBound(bound, True, EXACT)
    known = GaugeBound(bound, False, BY_CHORDS)
    if not signs_end or oracle is not None:
        signs = sign_gauge(rows, dual, PATIENCE * budget / DEFAULT_FACE_BUDGET)
        if signs.exact:
            return signs
    known = min(known, signs, key=lambda found: found.value)
    return known if oracle is not None else _by_quadratics(rows, dual, known, budget)


def quadratic_limit(n_rows: int, rank: int, budget: float = DEFAULT_FACE_BUDGET) -> int:
    """Boxes with quadratic bounds for one gauge: a number and no clock, as in :func:`tree_limit`.

    Examples
    --------
    >>> quadratic_limit(442, 11), quadratic_limit(60, 11), quadratic_limit(20, 80), quadratic_limit(60, 11, budget=10)
    (30619, 60000, 0, 0)
    """
    if rank > MOST_QUADRATIC_DIMENSIONS:
        return 0
    operations = n_rows * rank**2 + 10.0 * rank**3 + 40.0 * n_rows * rank
    return int(min(QUADRATIC_WORK * budget / operations, MOST_QUADRATIC_BOXES))


def _by_quadratics(
    rows: np.ndarray, dual: np.ndarray, known: GaugeBound, budget: float, claim: float | None = None
) -> GaugeBound:
    """Return the best of quadratics on boxes, what is known, and bounds without a search."""
    goal = claim if claim is not None and claim > 0.0 else 0.0
    limit = (CLAIMED if goal else 1) * quadratic_limit(len(rows), rows.shape[1], budget)
    relaxed = GaugeBound(_relaxed(rows, dual), False, VALID)
    if limit == 0:
        return min(known, relaxed, key=lambda found: found.value)
    boxes = quadratic_gauge(rows, dual, rtol=QUADRATIC_TOLERANCE, max_nodes=limit, goal=goal, n_threads=2)
    if boxes.upper_bound <= (1.0 + ATTAINED) * abs(boxes.best_value):
        return GaugeBound(boxes.upper_bound, True, EXACT)
    return min(known, relaxed, GaugeBound(boxes.upper_bound, False, BY_BOXES), key=lambda found: found.value)


def _bound_vector(rows: np.ndarray, dual: np.ndarray, budget: float) -> GaugeBound:
    """Faces where their bound is proved, else a fan of output directions."""
    with contextlib.suppress(BudgetError):
        oracle = oracle_for(rows, dual.shape[1], budget)
        oracle.forget()  # a bound that is not the maximum depends on where the search began
        if oracle.proved:
            pricing = oracle.price(dual, threshold=np.inf)
            return GaugeBound(pricing.upper_bound, pricing.exact, EXACT if pricing.exact else VALID)
    return fan_bound(rows, dual, budget)


def fan_bound(rows: np.ndarray, dual: np.ndarray, budget: float = DEFAULT_FACE_BUDGET) -> GaugeBound:
    """Bound h of several outputs by the duals along a fan of output directions, each bounded as one output is."""
    relaxed, calls = _relaxed(rows, dual), fan_limit(len(rows), rows.shape[1], budget)
    if calls < dual.shape[1]:
        return GaugeBound(relaxed, False, VALID)
    best = LocalSearchOracle(rows, n_starts=4 * STARTS, random_state=0).search(dual).upper_bound
    found = fan_gauge(
        rows, dual, lambda one: _bound_scalar(rows, one, budget / FAN_SHARE).value, best=best, rtol=FAN_TOLERANCE,
        max_calls=calls, time_s=FAN_TIME * seconds_left(),
    )  # fmt: skip
    value = min(found.upper_bound, relaxed)
    exact = value <= (1.0 + ATTAINED) * best
    return GaugeBound(value, exact, EXACT if exact else VALID)


def fan_limit(n_rows: int, rank: int, budget: float = DEFAULT_FACE_BUDGET) -> int:
    """Output directions that a fan may ask about: a number and no clock, as in :func:`tree_limit`.

    Examples
    --------
    >>> fan_limit(15, 9), fan_limit(100, 4), fan_limit(300, 20), fan_limit(9000, 20), fan_limit(900, 80)
    (1500, 277, 24, 0, 0)
    """
    if rank <= MOST_DIMENSIONS or suits_signs(n_rows, rank):
        calls = min(MOST_CALLS, FAN_WORK / (n_rows + rank) ** 2)
    else:
        calls = FEW_CALLS if quadratic_limit(n_rows, rank, budget / FAN_SHARE) >= FEWEST_BOXES else 0
    return int(calls * budget / DEFAULT_FACE_BUDGET)


def sign_gauge(rows: np.ndarray, dual: np.ndarray, times: float = 1.0) -> GaugeBound:
    """Bound h of one output by branch and bound over the signs of the rows.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,)
    times : float
        As for :func:`tree_limit`.
    """
    limit = tree_limit(len(rows), rows.shape[1], times)
    tree = BranchAndBoundOracle(rows, node_limit=limit, random_state=0, n_starts=STARTS)
    found = tree.price(dual, max_neurons=1)
    if found.exact:
        return GaugeBound(found.upper_bound, True, EXACT)
    return GaugeBound(min(found.upper_bound, _relaxed(rows, dual)), False, VALID)


def _relaxed(rows: np.ndarray, dual: np.ndarray) -> float:
    """Return the best of the bounds that need no search."""
    sizes = np.abs(dual) if dual.ndim == 1 else lengths_up(dual)
    return min(gauge_bound(rows, dual), total_up(sizes, lengths_up(rows)))


def oracle_for(rows: np.ndarray, n_outputs: int, budget: float) -> Any:
    """Exact oracle; the last one stays, since the points of a path and its checks ask about the same rows."""
    if len(rows) > KEPT_ROWS:
        return exact_oracle(rows, n_outputs, budget=budget)
    return _kept_oracle(rows.tobytes(), rows.shape, n_outputs, budget)


@lru_cache(maxsize=1)
def _kept_oracle(content: bytes, shape: tuple[int, int], n_outputs: int, budget: float) -> Any:
    return exact_oracle(np.frombuffer(content).reshape(shape), n_outputs, budget=budget)
