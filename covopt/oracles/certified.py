r"""A valid upper bound on h(Λ) = max over ‖w‖ ≤ 1 of ‖Λᵀσ(X̃w)‖ for the given rows and duals, whatever their scale.

Certificates divide by this bound, so it must never be too small. Powers of two bring the rows to size
one, which is exact (σ is homogeneous: Λ_i σ(x_i·w) keeps its value when the size moves from x_i to Λ_i). Rows where
Λ vanishes are dropped, and so are coordinates and outputs that are not needed; the error of this is added
(:mod:`covopt.exact.rounding`). The reduced problem is bounded by

- one coordinate or two: the arcs, in integers (:mod:`covopt.proofs.checker.faces`);
- several outputs: a table of faces, where :mod:`~covopt.oracles.lattice_proof` has proved it right,
  else a fan of output directions (:mod:`covopt.oracles.boxes.fan`), each of which is bounded like one output;
- faces in three dimensions, unless two rows are nearly parallel: :mod:`covopt.oracles.sphere` has the proof;
- faces in three dimensions in integers, for rows far from the origin and where nothing else ends, if they are not too
  many;
- signs for at most seven rows a dimension; boxes of directions (:mod:`covopt.oracles.boxes`) up to eight dimensions;
- where neither ends, quadratics on boxes (:mod:`covopt.oracles.boxes.quadratic_search`), for several outputs products
  of activations (:mod:`covopt.oracles.lagrangian`), and the relaxation
  :func:`~covopt.oracles.bounds.relaxed_dual_norm`: valid, but not exact.
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
from covopt.oracles.base import MOST_DIMENSIONS, SHOWN, affords, recall
from covopt.oracles.bounds import relaxed_dual_norm
from covopt.oracles.boxes.fan import fan_dual_norm
from covopt.oracles.boxes.quadratic_search import ROOT_ROUNDS, quadratic_dual_norm, quadratic_limit
from covopt.oracles.boxes.scalar import narrow, to_size_one
from covopt.oracles.boxes.search import box_dual_norm, box_limit
from covopt.oracles.cascade import exact_oracle, suits_signs
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED
from covopt.oracles.local_search import STARTS, LocalSearchOracle
from covopt.oracles.sign_tree import sign_dual_norm, sign_limit
from covopt.proofs.checker.faces import DIMENSION, square_above

WHOLE_CHECK_S = 15.0  # about the most seconds that an effort of one takes
ATTAINED = 5e-8  # a bound within this distance of a value counts as the maximum
CLOSE = HALF * ATTAINED  # relative gap that a search may leave
FAN_SHARE = 24  # this many output directions whose search does not end use up the effort

EXACT = "exact maximum over all neurons"
VALID = "valid upper bound on the maximum over all neurons"
BY_FAN = VALID + ", by a fan of output directions"
BY_CHORDS, BY_BOXES = VALID + ", by boxes of directions", VALID + ", by quadratics on boxes of directions"


class DualNormBound(NamedTuple):
    """An upper bound on h(Λ).

    Attributes
    ----------
    value : float
        An upper bound on h(Λ), in exact arithmetic for the rows and the dual as given.
    exact : bool
        Whether it is the maximum itself, up to rounding.
    method : str
        The method that computed it, in words.
    """

    value: float
    exact: bool
    method: str


def certified_dual_norm(
    rows: np.ndarray, dual: np.ndarray, *, effort: float = 1.0, goal: float | None = None,
    low: np.ndarray | None = None,
) -> DualNormBound:  # fmt: skip
    """Bound h(λ) = max over unit w of |⟨λ, σ(Z w)⟩|, or h(Λ) = max ‖Λᵀσ(Z w)‖, from above.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Of any rank and size, for example the user's lifted rows.
    dual : ndarray of shape (N,) or (N, k)
    effort : float
        Work, in units of a full check (:data:`WHOLE_CHECK_S`); at 0 nothing is searched. It limits faces, nodes and
        boxes by counts, not by time.
    goal : float, optional
        An upper bound on h that a solve has proved: boxes get :data:`SHOWN` times the work to reach it again.
    low : ndarray of the dual's shape, optional
        Second doubles of the multipliers, Λ = dual + low. They are exact where integers decide and in the sum of
        rows far from the origin; elsewhere the bound grows by Σ‖low_i‖‖x_i‖.

    Returns
    -------
    DualNormBound
        Valid in exact arithmetic for the floats given.

    Examples
    --------
    >>> bound, exact, _ = certified_dual_norm(np.eye(3), np.array([3.0, 4.0, 0.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    >>> bound, exact, _ = certified_dual_norm(np.eye(2), np.array([3.0, 1.0]), low=np.array([0.0, 3.0]))
    >>> round(float(bound), 9), exact
    (5.0, True)
    >>> certified_dual_norm(np.array([[1e200, 0.0], [1e200, 1e-200]]), np.array([1e-200, -1e-200])).value >= 0.0
    True
    """
    found = searched_dual_norm(rows, dual, effort, goal, low)
    if found.exact or effort >= 1.0 or low is not None:
        return found
    # too little time to prove it again: use the bound proved in the solve, with room for a later full check
    proved = up(recall(rows, dual) * (1.0 + ATTAINED))
    by = BY_BOXES if rows.shape[1] > MOST_DIMENSIONS else BY_CHORDS
    return found if found.value <= proved else DualNormBound(proved, False, by)


def searched_dual_norm(
    rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None, low: np.ndarray | None = None
) -> DualNormBound:
    """Bound h as :func:`certified_dual_norm` does, without bounds from earlier proofs."""
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
        found = certified_dual_norm(rows, dual, effort=effort, goal=goal)
        paid = total_up(lengths_up(rest), lengths_up(rows))
        exact = found.exact and paid <= 1e-9 * found.value
        return DualNormBound(
            up(found.value + paid), exact, found.method if exact or not found.exact else VALID
        )
    scaled = to_size_one(rows, dual)
    if scaled is None:
        return DualNormBound(0.0, True, EXACT)
    units, weights, top, _ = scaled
    # entries below 2⁻¹⁰⁷⁴ of the largest are lost, and so are rows with no other entries
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
    """Return whether all faces can be visited in integers, in two seconds at most: in up to three dimensions."""
    arcs = len(rows) * outputs.shape[1] * (len(rows) if rows.shape[1] == DIMENSION else 1)
    return rows.shape[1] <= DIMENSION and arcs <= affords(0.0)


def in_integers(rows: np.ndarray, dual: np.ndarray) -> DualNormBound:
    """Visit all faces in integers: neither units nor nearly dependent rows can spoil the result."""
    return DualNormBound(root_up(square_above(rows, dual), 2), True, EXACT)


def bound_far(
    far: FarRows, rows: np.ndarray, dual: np.ndarray, low: np.ndarray, effort: float, goal: float | None
) -> DualNormBound:
    """Bound h of rows far from the origin by that of shifted rows near it, and by the sum of all rows.

    The second doubles ``low`` of the multipliers enter the sum exactly, and the bound of shifted rows by their sizes.
    """
    sizes = lengths_up(low)
    paid = up(far.stretch * total_up(sizes, lengths_up(far.rows)))
    paid = up(paid + far.paid(np.nextafter(lengths_up(dual) + sizes, np.inf)))
    goal = None if goal is None else (goal - paid) / far.stretch
    closer = certified_dual_norm(far.rows, dual, effort=effort, goal=goal)
    value, linear = up(up(far.stretch * closer.value) + paid), far.linear_up(rows, dual, low)
    exact = closer.exact and linear <= value <= (1.0 + ATTAINED) * closer.value
    return DualNormBound(max(value, linear), exact, closer.method if exact or not closer.exact else VALID)


def _bound_units(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> DualNormBound:
    """Bound h for rows and duals of size one: drop what is not needed, and add the error."""
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
    return DualNormBound(up(up(stretch * found.value) + paid), exact, method)


def _bound_full(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> DualNormBound:
    """Bound h for rows and outputs of full rank."""
    if len(rows) == 0:
        return DualNormBound(0.0, True, EXACT)
    if rows.shape[1] < DIMENSION and suits_integers(rows, dual):
        return in_integers(rows, dual)
    one = dual[:, 0] if dual.shape[1] == 1 else dual
    if effort <= 0.0:
        # one round takes some eighty operations per number; all rounds together a twentieth of a check
        rounds = min(ROOT_ROUNDS if dual.shape[1] == 1 else 2, 2 + affords(80 * rows.size, 0.05))
        return DualNormBound(_relaxed(rows, one, rounds), False, VALID)
    return _bound_scalar(rows, one, effort, goal) if one.ndim == 1 else _bound_vector(rows, one, effort, goal)


def _bound_scalar(
    rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None = None
) -> DualNormBound:
    """Bound h of one output by faces, signs, boxes or quadratics, depending on the size of the table."""
    r, near = rows.shape[1], None
    goal = max(goal or 0.0, 0.0)
    more, met = SHOWN if goal > 0.0 else 1, (1.0 + CLOSE) * goal  # met: as good as the goal of the solve
    if r <= MOST_FACED:
        with contextlib.suppress(BudgetError):
            oracle = oracle_for(rows, 0, effort)
            best = oracle.bound(dual)
            proved = oracle.proved_bound(dual, (1.0 + FOUND) * best)
            if proved is not None:
                return DualNormBound(proved, True, EXACT)
            near = oracle.price(dual, threshold=best, max_neurons=1).neurons
    # without a search a goal of the solve is sometimes met; what a search proves is better than any such bound
    known = DualNormBound(_relaxed(rows, dual) if goal > 0.0 else math.inf, False, VALID)
    if known.value <= met:
        return known
    if r > MOST_FACED and suits_signs(len(rows), r):
        end = now() + HALF * seconds_left()
        signs = sign_dual_norm(
            rows, dual, max_nodes=sign_limit(len(rows), r, effort), goes_on=lambda _: now() < end
        )
        known = _least(known, _stated(signs, VALID))
    if r <= MOST_DIMENSIONS and not known.exact:
        limit = max(more * box_limit(r, effort), 1)
        boxes = box_dual_norm(rows, dual, neurons=near, rtol=CLOSE, max_nodes=limit, goal=goal)
        known = _least(known, _stated(boxes, BY_CHORDS))
    if known.exact or known.value <= met:
        return known
    known = _least(known, DualNormBound(_relaxed(rows, dual, ROOT_ROUNDS, met), False, VALID))
    if known.value <= met:
        return known
    if suits_integers(rows, dual[:, None]):  # a quarter of a second, where quadratics take several seconds
        return in_integers(rows, dual)
    limit = more * quadratic_limit(len(rows), r, effort)
    if limit == 0:
        return known
    quadratics = quadratic_dual_norm(rows, dual, rtol=CLOSE, max_nodes=limit, goal=goal, n_threads=2)
    return _least(known, _stated(quadratics, BY_BOXES))


def _stated(found: Any, by: str) -> DualNormBound:
    """Return what a search has proved, and whether it is the maximum."""
    exact = found.upper_bound <= (1.0 + ATTAINED) * abs(found.best_value)
    return DualNormBound(found.upper_bound, exact, EXACT if exact else by)


def _least(one: DualNormBound, other: DualNormBound) -> DualNormBound:
    return min(one, other, key=lambda found: found.value)


def _bound_vector(rows: np.ndarray, dual: np.ndarray, effort: float, goal: float | None) -> DualNormBound:
    """Bound h of several outputs by faces if proved, by integers if there are few, else by a fan of directions."""
    with contextlib.suppress(BudgetError):
        oracle = oracle_for(rows, dual.shape[1], effort)
        oracle.forget()  # a bound that is not the maximum depends on the starting points
        if oracle.proved:
            pricing = oracle.price(dual, threshold=np.inf)
            return DualNormBound(pricing.upper_bound, pricing.exact, EXACT if pricing.exact else VALID)
    return in_integers(rows, dual) if suits_integers(rows, dual) else fan_bound(rows, dual, effort, goal)


def fan_bound(
    rows: np.ndarray, dual: np.ndarray, effort: float = 1.0, goal: float | None = None
) -> DualNormBound:
    """Bound h of several outputs by the duals along a fan of output directions, each bounded like one output.

    A direction whose search ends uses less than its share of the effort; :data:`FAN_SHARE` that do not end use it up.
    """
    more = 1 if goal is None else SHOWN
    # where time is short, :func:`certified_dual_norm` recalls bounds proved in the solve
    relaxed = _relaxed(rows, dual, max(int(ROOT_ROUNDS * min(effort, 1.0)), 1), goal or 0.0)
    calls = fan_limit(len(rows), rows.shape[1], more * effort)
    if calls < dual.shape[1] or relaxed <= (1.0 + CLOSE) * (goal or 0.0):
        return DualNormBound(relaxed, False, VALID)
    best = LocalSearchOracle(rows, n_starts=4 * STARTS, random_state=0).search(dual).upper_bound
    shares, deadline = more * FAN_SHARE, now() + HALF * seconds_left()

    def ask(one: np.ndarray) -> float:
        nonlocal shares
        found = _bound_scalar(rows, one, min(effort, 1.0) / FAN_SHARE)
        shares -= not found.exact
        return found.value

    found = fan_dual_norm(
        rows, dual, ask, best=best, rtol=CLOSE, goal=goal or 0.0, max_calls=calls,
        goes_on=lambda: shares > 0 and now() < deadline,
    )  # fmt: skip
    value = min(found, relaxed)
    exact = value <= (1.0 + ATTAINED) * best
    return DualNormBound(value, exact, EXACT if exact else BY_FAN if value < relaxed else VALID)


def fan_limit(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return about how many output directions a fan can bound with an effort.

    Examples
    --------
    >>> fan_limit(15, 9), fan_limit(100, 4), fan_limit(300, 20), fan_limit(9000, 20), fan_limit(900, 80)
    (6131, 359, 24, 0, 0)
    """
    calls = affords(32.0 * STARTS * (n_rows + rank) ** 2, effort)
    if rank <= MOST_DIMENSIONS or suits_signs(n_rows, rank):
        return calls
    # each direction is bounded by quadratics
    has_boxes = quadratic_limit(n_rows, rank, min(effort, 1.0) / FAN_SHARE) > 4 * rank
    return min(calls, int(FAN_SHARE * effort)) if has_boxes else 0


def _relaxed(rows: np.ndarray, dual: np.ndarray, n_rounds: int = ROOT_ROUNDS, goal: float = 0.0) -> float:
    """Return the best bound that needs no search."""
    sizes = np.abs(dual) if dual.ndim == 1 else lengths_up(dual)
    return min(relaxed_dual_norm(rows, dual, n_rounds=n_rounds, goal=goal), total_up(sizes, lengths_up(rows)))


def oracle_for(rows: np.ndarray, n_outputs: int, effort: float = 1.0) -> Any:
    """Return the exact oracle; cache the last one, since the points of a path and its checks share their rows."""
    if len(rows) ** 2 > PIECE:  # presorting takes much memory: do not cache
        return exact_oracle(rows, n_outputs, budget=effort * DEFAULT_FACE_BUDGET)
    return _kept_oracle(rows.tobytes(), rows.shape, n_outputs, effort)


@lru_cache(maxsize=1)
def _kept_oracle(content: bytes, shape: tuple[int, int], n_outputs: int, effort: float) -> Any:
    rows = np.frombuffer(content).reshape(shape)
    return exact_oracle(rows, n_outputs, budget=effort * DEFAULT_FACE_BUDGET)
