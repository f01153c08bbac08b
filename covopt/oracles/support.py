r"""A valid bound on h(Λ) = max over ‖w‖ ≤ 1 of ‖Λᵀσ(X̃w)‖ for rows and duals as they are, whatever their scale.

This is what certificates divide by, so nothing here may be too small. The rows are brought to size one by powers of
two, which is exact (σ is homogeneous: Λ_i σ(x_i·w) keeps its value when the size moves from x_i to Λ_i); rows where
Λ vanishes do not enter; coordinates and outputs that are not needed are dropped, and what that changes is paid by the
transfer of :mod:`covopt.exact.rounding`. What is left goes to

- one coordinate or two: the arcs, in integers (:mod:`covopt.proofs.checker.faces`);
- several outputs: a table of faces, where :mod:`~covopt.oracles.vector.lattice_proof` has shown that they are right,
  else a fan of output directions (:mod:`covopt.oracles.cones.fan`), each of which is bounded like one output;
- faces in three dimensions, unless two rows are nearly parallel: :mod:`covopt.oracles.sphere` has the proof;
- faces in three dimensions in integers, of rows far from the origin and where nothing else ends, if they are not too
  many;
- signs for at most seven rows a dimension; boxes of directions (:mod:`covopt.oracles.cones`) up to eight dimensions;
- where neither ends quadratics on boxes (:mod:`covopt.oracles.cones.moments`), of several outputs products of
  activations (:mod:`covopt.oracles.signs.lagrangian`), and the relaxation
  :func:`~covopt.oracles.bounds.gauge_bound`: valid, and not exact.
"""

from __future__ import annotations

import contextlib
import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from covopt.errors import BudgetError
from covopt.exact.far_rows import FarRows, whole
from covopt.exact.rank import FOUND
from covopt.exact.rounding import TINY, lengths_up, operator_norm_up, root_up, total_up, transfer_up, up
from covopt.limits import HALF, PIECE, now, seconds_left
from covopt.oracles.base import MOST_DIMENSIONS, affords
from covopt.oracles.bounds import gauge_bound
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.cascade import exact_oracle, sign_nodes, suits_signs
from covopt.oracles.cones.fan import fan_gauge
from covopt.oracles.cones.gauge import box_gauge, box_limit
from covopt.oracles.cones.moments import ROOT_ROUNDS, quadratic_gauge, quadratic_limit
from covopt.oracles.coordinates import narrow, to_size_one
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED
from covopt.oracles.local_search import STARTS, LocalSearchOracle
from covopt.oracles.remembered import recall
from covopt.proofs.checker.faces import DIMENSION, square_above

WHOLE_CHECK_S = 15.0  # what an effort of one takes at most, about
SHOWN = 20  # times as many boxes, of either kind, where a solve has shown that they suffice
ATTAINED = 5e-8  # a bound this close to a value is the maximum
CLOSE = HALF * ATTAINED  # what a search may leave
FAN_SHARE = 24  # output directions whose search does not end, which take all of the effort

EXACT = "exact maximum over all neurons"
VALID = "valid upper bound on the maximum over all neurons"
BY_FAN = VALID + ", by a fan of output directions"
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


def bound_gauge(
    rows: np.ndarray, dual: np.ndarray, *, effort: float = 1.0, goal: float | None = None,
    low: np.ndarray | None = None,
) -> GaugeBound:  # fmt: skip
    """Bound h(λ) = max over unit w of |⟨λ, σ(Z w)⟩|, or h(Λ) = max ‖Λᵀσ(Z w)‖, from above.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Of any rank and size; the user's lifted rows, say.
    dual : ndarray of shape (N,) or (N, k)
    effort : float
        Work, in whole checks (:data:`WHOLE_CHECK_S`); at 0 nothing is searched. The faces, nodes and boxes that it
        allows are numbers and no clock.
    goal : float, optional
        What a solve has shown that h does not exceed: boxes get :data:`SHOWN` times the work to show it again.
    low : ndarray of the dual's shape, optional
        What the multipliers are beside their doubles, Λ = dual + low: exact where integers decide and in the sum of
        rows far from the origin; else Σ‖low_i‖‖x_i‖ is paid for it.

    Returns
    -------
    GaugeBound
        Valid in exact arithmetic for the floats given.

    Examples
    --------
    >>> bound, exact, _ = bound_gauge(np.eye(3), np.array([3.0, 4.0, 0.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    >>> bound, exact, _ = bound_gauge(np.eye(2), np.array([3.0, 1.0]), low=np.array([0.0, 3.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    >>> bound_gauge(np.array([[1e200, 0.0], [1e200, 1e-200]]), np.array([1e-200, -1e-200])).value >= 0.0
    True
    """
    found = searched_gauge(rows, dual, effort, goal, low)
    if found.exact or effort >= 1.0 or low is not None:
        return found
    # there is no time to prove it once more; a check that has time must come as close
    proved = up(recall(rows, dual) * (1.0 + ATTAINED))
    by = BY_BOXES if rows.shape[1] > MOST_DIMENSIONS else BY_CHORDS
    return found if found.value <= proved else GaugeBound(proved, False, by)


def searched_gauge(
    rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None, low: np.ndarray | None = None
) -> GaugeBound:
    """:func:`bound_gauge` by what is proved here and now."""
    outputs = dual.reshape(len(dual), -1)
    rest = np.zeros_like(outputs) if low is None else low.reshape(outputs.shape)
    live = rows.any(axis=1) & (outputs.any(axis=1) | rest.any(axis=1))
    by_integers = suits_integers(rows[live], outputs)
    exactly = outputs[live] if low is None or not by_integers else whole(outputs[live], rest[live])
    if by_integers and rows.shape[1] < DIMENSION:
        return in_integers(rows[live], exactly)
    by_integers &= effort > 0.0
    far = FarRows.of(rows[live]) if rows.shape[1] > 2 else None
    if far is not None:
        if by_integers:
            return in_integers(rows[live], exactly)
        return bound_far(far, rows[live], outputs[live], rest[live], effort, goal)
    if low is not None:
        found = bound_gauge(rows, dual, effort=effort, goal=goal)
        paid = total_up(lengths_up(rest), lengths_up(rows))
        exact = found.exact and paid <= 1e-9 * found.value
        return GaugeBound(up(found.value + paid), exact, found.method if exact or not found.exact else VALID)
    scaled = to_size_one(rows, dual)
    if scaled is None:
        return GaugeBound(0.0, True, EXACT)
    units, weights, top, _ = scaled
    # entries below 2⁻¹⁰⁷⁴ of the largest are lost, and rows of which nothing is left
    lost = 4.0 * dual.size * rows.shape[1] * TINY
    if goal is not None:
        goal = math.ldexp(goal, -top) if 0.0 < goal < math.inf and abs(top) < 900 else None
    found = _bound_units(units, weights, effort, goal)
    if by_integers and not found.exact:
        return in_integers(rows[live], outputs[live])
    value = up(up(found.value) + lost)
    try:
        return found._replace(value=up(math.ldexp(value, top)))
    except OverflowError:
        return found._replace(value=math.inf)


def suits_integers(rows: np.ndarray, outputs: np.ndarray) -> bool:
    """Whether all faces can be looked at in integers, which takes two seconds at most: in up to three dimensions."""
    arcs = len(rows) * outputs.shape[1] * (len(rows) if rows.shape[1] == DIMENSION else 1)
    return rows.shape[1] <= DIMENSION and arcs <= affords(0.0)


def in_integers(rows: np.ndarray, dual: np.ndarray) -> GaugeBound:
    """Look at all faces in integers: no choice of units and no rows that nearly depend on each other spoil them."""
    return GaugeBound(root_up(square_above(rows, dual), 2), True, EXACT)


def bound_far(
    far: FarRows, rows: np.ndarray, dual: np.ndarray, low: np.ndarray, effort: float, goal: float | None
) -> GaugeBound:
    """Bound h of rows far from the origin by that of rows brought closer, and by the sum of all rows.

    Second doubles ``low`` of the multipliers count in the sum as they are, beside the rows brought closer by length.
    """
    closer = bound_gauge(far.rows, dual, effort=effort, goal=None if goal is None else goal / far.stretch)
    sizes = lengths_up(low)
    paid = up(far.stretch * total_up(sizes, lengths_up(far.rows)))
    paid = up(paid + far.paid(np.nextafter(lengths_up(dual) + sizes, np.inf)))
    value, linear = up(up(far.stretch * closer.value) + paid), far.linear_up(rows, dual, low)
    exact = closer.exact and linear <= value <= (1.0 + ATTAINED) * closer.value
    return GaugeBound(max(value, linear), exact, closer.method if exact or not closer.exact else VALID)


def _bound_units(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> GaugeBound:
    """:func:`bound_gauge` for rows and duals of size one: drop what is not needed, and pay for it."""
    sizes, lengths = lengths_up(dual), lengths_up(rows)
    turn, outputs = narrow(dual, lengths)
    paid = transfer_up(dual, lengths, turn, outputs)
    basis, reduced = narrow(rows, sizes)
    paid = up(paid + up(operator_norm_up(turn) * transfer_up(rows, lengths_up(outputs), basis, reduced)))
    stretch = up(operator_norm_up(turn) * operator_norm_up(basis))
    kept = reduced.any(axis=1) & outputs.any(axis=1)
    found = _bound_full(
        np.ascontiguousarray(reduced[kept]), np.ascontiguousarray(outputs[kept]), effort,
        None if goal is None else ((1.0 + 1e-10) * goal - paid) / stretch,  # other coordinates may change it
    )  # fmt: skip
    exact = found.exact and paid <= 1e-9 * found.value
    method = found.method if exact or not found.exact else VALID
    return GaugeBound(up(up(stretch * found.value) + paid), exact, method)


def _bound_full(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> GaugeBound:
    """Bound h for rows and outputs of full rank."""
    if len(rows) == 0:
        return GaugeBound(0.0, True, EXACT)
    if rows.shape[1] < DIMENSION and suits_integers(rows, dual):
        return in_integers(rows, dual)
    one = dual[:, 0] if dual.shape[1] == 1 else dual
    if effort <= 0.0:
        # one takes some forty operations a number, and all together a twentieth of a check
        rounds = min(ROOT_ROUNDS if dual.shape[1] == 1 else 2, 2 + affords(40 * rows.size, 0.05))
        return GaugeBound(_relaxed(rows, one, rounds), False, VALID)
    return _bound_scalar(rows, one, effort, goal) if one.ndim == 1 else _bound_vector(rows, one, effort, goal)


def _bound_scalar(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None = None) -> GaugeBound:
    """One output: faces, signs, boxes or quadratics, by the sizes of the table."""
    r, near = rows.shape[1], None
    goal = max(goal or 0.0, 0.0)
    more, met = SHOWN if goal > 0.0 else 1, (1.0 + CLOSE) * goal  # all that a solve has shown
    if r <= MOST_FACED:
        with contextlib.suppress(BudgetError):
            oracle = oracle_for(rows, 0, effort)
            best = oracle.bound(dual)
            proved = oracle.proved_bound(dual, (1.0 + FOUND) * best)
            if proved is not None:
                return GaugeBound(proved, True, EXACT)
            near = oracle.price(dual, threshold=best, max_neurons=1).neurons
    known = GaugeBound(_relaxed(rows, dual, ROOT_ROUNDS, met), False, VALID)
    if known.value <= met:
        return known
    if r > MOST_FACED and suits_signs(len(rows), r):
        known = _least(sign_gauge(rows, dual, effort), known)
    if r <= MOST_DIMENSIONS and not known.exact:
        limit = more * box_limit(r, effort)
        boxes = box_gauge(rows, dual, neurons=near, rtol=CLOSE, max_nodes=max(limit, 1), goal=goal)
        exact = boxes.upper_bound <= (1.0 + ATTAINED) * abs(boxes.best_value)
        known = _least(known, GaugeBound(boxes.upper_bound, exact, EXACT if exact else BY_CHORDS))
    if known.exact or known.value <= met:
        return known
    if suits_integers(rows, dual[:, None]):  # a quarter of a second, where quadratics take several
        return in_integers(rows, dual)
    limit = more * quadratic_limit(len(rows), r, effort)
    if limit == 0:
        return known
    quadratics = quadratic_gauge(rows, dual, rtol=CLOSE, max_nodes=limit, goal=goal, n_threads=2)
    exact = quadratics.upper_bound <= (1.0 + ATTAINED) * abs(quadratics.best_value)
    return _least(known, GaugeBound(quadratics.upper_bound, exact, EXACT if exact else BY_BOXES))


def _least(one: GaugeBound, other: GaugeBound) -> GaugeBound:
    return min(one, other, key=lambda found: found.value)


def _bound_vector(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> GaugeBound:
    """Faces where their bound is proved, or in integers if they are few, else a fan of output directions."""
    with contextlib.suppress(BudgetError):
        oracle = oracle_for(rows, dual.shape[1], effort)
        oracle.forget()  # a bound that is not the maximum depends on where the search began
        if oracle.proved:
            pricing = oracle.price(dual, threshold=np.inf)
            return GaugeBound(pricing.upper_bound, pricing.exact, EXACT if pricing.exact else VALID)
    return in_integers(rows, dual) if suits_integers(rows, dual) else fan_bound(rows, dual, effort, goal)


def fan_bound(
    rows: np.ndarray, dual: np.ndarray, effort: float = 1.0, goal: float | None = None
) -> GaugeBound:
    """Bound h of several outputs by the duals along a fan of output directions, each bounded as one output is.

    A direction whose search ends takes less than its share of the effort; :data:`FAN_SHARE` that do not end take all.
    """
    more = 1 if goal is None else SHOWN
    # what a solve has proved is recalled where there is little time
    relaxed = _relaxed(rows, dual, max(int(ROOT_ROUNDS * min(effort, 1.0)), 1), goal or 0.0)
    calls = fan_limit(len(rows), rows.shape[1], more * effort)
    if calls < dual.shape[1] or relaxed <= (1.0 + CLOSE) * (goal or 0.0):
        return GaugeBound(relaxed, False, VALID)
    best = LocalSearchOracle(rows, n_starts=4 * STARTS, random_state=0).search(dual).upper_bound
    shares, deadline = more * FAN_SHARE, now() + HALF * seconds_left()

    def ask(one: np.ndarray) -> float:
        nonlocal shares
        found = _bound_scalar(rows, one, min(effort, 1.0) / FAN_SHARE)
        shares -= not found.exact
        return found.value

    found = fan_gauge(
        rows, dual, ask, best=best, rtol=CLOSE, goal=goal or 0.0, max_calls=calls,
        goes_on=lambda: shares > 0 and now() < deadline,
    )  # fmt: skip
    value = min(found, relaxed)
    exact = value <= (1.0 + ATTAINED) * best
    return GaugeBound(value, exact, EXACT if exact else BY_FAN if value < relaxed else VALID)


def fan_limit(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return about how many output directions an effort lets a fan ask.

    Examples
    --------
    >>> fan_limit(15, 9), fan_limit(100, 4), fan_limit(300, 20), fan_limit(9000, 20), fan_limit(900, 80)
    (6131, 359, 24, 0, 0)
    """
    calls = affords(32.0 * STARTS * (n_rows + rank) ** 2, effort)
    if rank <= MOST_DIMENSIONS or suits_signs(n_rows, rank):
        return calls
    # where quadratics bound each
    has_boxes = quadratic_limit(n_rows, rank, min(effort, 1.0) / FAN_SHARE) > 4 * rank
    return min(calls, int(FAN_SHARE * effort)) if has_boxes else 0


def sign_gauge(rows: np.ndarray, dual: np.ndarray, effort: float = 1.0) -> GaugeBound:
    """Bound h of one output by branch and bound over the signs of the rows."""
    most = HALF * seconds_left()
    tree = BranchAndBoundOracle(
        rows,
        node_limit=sign_nodes(len(rows), rows.shape[1], effort),
        random_state=0,
        time_limit_s=most if most < math.inf else None,
    )
    found = tree.price(dual, max_neurons=1)
    return GaugeBound(found.upper_bound, found.exact, EXACT if found.exact else VALID)


def _relaxed(rows: np.ndarray, dual: np.ndarray, n_rounds: int = ROOT_ROUNDS, goal: float = 0.0) -> float:
    """Return the best of the bounds that need no search."""
    sizes = np.abs(dual) if dual.ndim == 1 else lengths_up(dual)
    return min(gauge_bound(rows, dual, n_rounds=n_rounds, goal=goal), total_up(sizes, lengths_up(rows)))


def oracle_for(rows: np.ndarray, n_outputs: int, effort: float = 1.0) -> Any:
    """Exact oracle; the last one stays, since the points of a path and its checks ask about the same rows."""
    if len(rows) ** 2 > PIECE:  # presorting takes much memory
        return exact_oracle(rows, n_outputs, budget=effort * DEFAULT_FACE_BUDGET)
    return _kept_oracle(rows.tobytes(), rows.shape, n_outputs, effort)


@lru_cache(maxsize=1)
def _kept_oracle(content: bytes, shape: tuple[int, int], n_outputs: int, effort: float) -> Any:
    rows = np.frombuffer(content).reshape(shape)
    return exact_oracle(rows, n_outputs, budget=effort * DEFAULT_FACE_BUDGET)
