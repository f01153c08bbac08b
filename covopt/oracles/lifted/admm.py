r"""Semidefinite programs over lifted cones, by alternating projections with multipliers.

Moments X of the lines, of w and of the outputs obey X = C M Cᵀ with M ⪰ 0, and every other constraint is on
single entries of X: products ≥ 0, p_i q_i = 0, equal traces, and the targets. With orthonormal columns V of
C the two sides are projections in closed form, one small eigenvalue problem per region and step (facially reduced
ADMM, Oliveira, Wolkowicz & Xu 2018). The scaled multiplier U has the right signs at every step, so
:func:`covopt.oracles.lifted.gauge_certificate.bound_region` turns any iterate into a valid bound; accuracy is
a matter of tightness, never of validity.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from covopt.oracles.lifted.gauge_certificate import Multipliers
from covopt.oracles.lifted.lift import Lift

RELAXATION = 1.6
LOOK_EVERY = 50
BALANCE = 1.5


class _Group:
    """Regions whose lifts have equal shapes, stacked."""

    def __init__(self, lifts: list[Lift], numbers: list[int], n_outputs: int):
        first = lifts[0]
        self.lifts, self.numbers, self.rank = lifts, numbers, first.rank
        self.signed = first.region.sign != 0
        self.k = k = 0 if self.signed else n_outputs
        self.lines = slice(k, k + first.n_lines)
        start = k + first.n_lines
        self.w = np.arange(start, start + self.rank)
        self.cone = first.level == "cone"
        self.copy = start + self.rank  # of t: the cone constraints hold it while the targets hold the other
        self.size = start + self.rank + self.cone
        self.heads = np.arange(k) if k else np.array([0])
        self.traces = [np.array([k]), self.w] if self.signed else [np.arange(k), np.array([k]), self.w]
        columns = k + first.size
        forms = np.zeros((len(lifts), self.size, columns))
        forms[:, np.arange(k), np.arange(k)] = 1.0
        forms[:, self.w, k + 1 + np.arange(self.rank)] = 1.0
        forms[:, self.lines, k:] = np.stack([lift.forms for lift in lifts])
        if self.cone:
            forms[:, self.copy, k] = 1.0
        self.basis = np.linalg.qr(forms)[0]
        self.products = np.zeros((len(lifts), self.size, self.size), dtype=bool)
        self.products[:, self.lines, self.lines] = np.stack([lift.products for lift in lifts])
        self.zeros = np.zeros_like(self.products)
        for zero, lift in zip(self.zeros, lifts, strict=True):
            p, q = (k + index for index in lift.pairs)
            zero[p, q] = zero[q, p] = True
        at = np.stack([lift.line_of for lift in lifts])
        self.live = at >= 0
        self.region, self.row = np.nonzero(self.live)
        self.line = k + at[self.live]
        self.signs = np.array([lift.region.sign or 1 for lift in lifts], dtype=float)
        self.X = np.zeros((len(lifts), self.size, self.size))
        self.U = np.zeros_like(self.X)

    def project_psd(self) -> np.ndarray:
        transposed = self.basis.transpose(0, 2, 1)
        inner = transposed @ (self.X + self.U) @ self.basis
        values, vectors = np.linalg.eigh(0.5 * (inner + inner.transpose(0, 2, 1)))
        outer = self.basis @ vectors
        return (outer * np.maximum(values, 0.0)[:, None, :]) @ outer.transpose(0, 2, 1)

    def targets_part(self, entries: np.ndarray) -> np.ndarray:
        """Entries that the targets hold, (regions, n, outputs); −inf where a row is not active."""
        taken = np.full((*self.live.shape, len(self.heads)), -np.inf)
        taken[self.region, self.row] = entries[self.region[:, None], self.heads[None, :], self.line[:, None]]
        return taken

    def project_entries(self, entries: np.ndarray, cost: float, total: float | None) -> np.ndarray:
        new = np.where(self.products, np.maximum(entries, 0.0), entries)
        new[self.zeros] = 0.0
        first = self.traces[0]
        new[:, first, first] -= cost
        sums = [new[:, group, group].sum(axis=1) for group in self.traces]
        parts = [len(group) for group in self.traces]
        common = np.full(len(new), total)
        if total is None:
            common = sum(s / m for s, m in zip(sums, parts, strict=True)) / sum(1.0 / m for m in parts)
        for group, s, m in zip(self.traces, sums, parts, strict=True):
            new[:, group, group] += ((common - s) / m)[:, None]
        if self.cone:
            head = new[:, self.lines, self.copy]
            tail = new[:, self.lines, self.w[0] : self.w[-1] + 1]
            norm = np.linalg.norm(tail, axis=2)
            inside, gone = norm <= head, norm <= -head
            mean = 0.5 * (head + norm)
            factor = np.where(inside, 1.0, np.where(gone, 0.0, mean / np.maximum(norm, 1e-300)))
            head = np.where(inside, head, np.where(gone, 0.0, mean))
            tail = tail * factor[:, :, None]
            new[:, self.lines, self.copy] = new[:, self.copy, self.lines] = head
            new[:, self.lines, self.w[0] : self.w[-1] + 1] = tail
            new[:, self.w[0] : self.w[-1] + 1, self.lines] = tail.transpose(0, 2, 1)
        return new

    def put_targets(self, entries: np.ndarray, values: np.ndarray) -> None:
        chosen = values[self.region, self.row]
        entries[self.region[:, None], self.heads[None, :], self.line[:, None]] = chosen
        entries[self.region[:, None], self.line[:, None], self.heads[None, :]] = chosen

    def multipliers(self, index: int, dual: np.ndarray, rho: float) -> Multipliers:
        weights = -rho * self.U[index]
        lift = self.lifts[index]
        diagonal = np.diag(weights)
        theta = np.array([diagonal[group].mean() for group in self.traces])
        if self.signed:
            theta = np.concatenate([[0.0], theta])
        products = -weights[self.lines, self.lines]
        if self.signed:
            live = lift.line_of >= 0
            products[0, lift.line_of[live]] -= 0.5 * lift.region.sign * dual[live, 0]
            products[:, 0] = products[0]
        cone = np.zeros((0, 1 + self.rank))
        if self.cone:
            cone = -2.0 * weights[self.lines][:, np.concatenate([[self.copy], self.w])]
        return Multipliers(theta, products, cone)


@dataclass(frozen=True)
class LiftedPoint:
    """What a run ended with, best first.

    Attributes
    ----------
    dual : ndarray of shape (n, k)
    multipliers : list of Multipliers
        One per lift.
    moments : list of ndarray of shape (L, L)
        Of the lines.
    spans : list of ndarray of shape (r, r)
        Second moments of w.
    n_steps : int
    settled : bool
        Whether the solver calls it optimal to its tolerance.
    """

    dual: np.ndarray
    multipliers: list[Multipliers]
    moments: list[np.ndarray]
    spans: list[np.ndarray]
    n_steps: int
    settled: bool = True


def run_lifted(
    lifts: list[Lift],
    *,
    targets: np.ndarray | None = None,
    dual: np.ndarray | None = None,
    offset_cost: float = np.inf,
    offset_weights: np.ndarray | None = None,
    rho: float = 1.0,
    tol: float = 1e-4,
    max_steps: int = 5000,
    deadline: float | None = None,
    look: Callable[[np.ndarray, list[Multipliers]], bool] | None = None,
) -> LiftedPoint:
    r"""Minimise the mass of moments that meet the targets, or maximise a given dual over moments of mass one.

    With targets the program is the doubly-nonnegative relaxation of the interpolation problem,

    .. math::
        \min \sum_b \operatorname{Tr} X^b_{vv} + \tfrac{\rho_o}{2}\|B\|^2 \quad \text{s.t.} \quad
        \sum_b X^b_{pv} + c B^\top = Y,

    over moments of every region b; with a dual it is max ⟨Λ, X_pv⟩ with Tr X_vv = 1 in each region by itself.

    Parameters
    ----------
    lifts : list of Lift
        Of regions with sign 0 (any number of outputs), or of signed ones (one output).
    targets : ndarray of shape (n, k), optional
    dual : ndarray of shape (n, k), optional
        Exactly one of the two.
    offset_cost : float
        ρ_o: ``inf`` for no offset, 0 for a free one.
    offset_weights : ndarray of shape (n,), optional
        c; ones by default.
    rho : float
        First penalty.
    tol : float
        Relative primal and dual residual to stop at.
    max_steps : int
    deadline : float, optional
        As ``time.perf_counter`` counts.
    look : callable, optional
        Sees the dual and the multipliers every 50 steps; a true answer stops.

    Returns
    -------
    LiftedPoint
        The last iterate.

    Examples
    --------
    >>> from covopt.oracles.lifted.lift import Region
    >>> lift = Lift(np.eye(2), 2, Region(np.zeros(2, dtype=np.int8), 0), "plain")
    >>> point = run_lifted([lift], targets=np.array([[3.0], [4.0]]))
    >>> round(float(np.vdot(point.dual, [3.0, 4.0])), 2)
    5.0
    """
    given = targets if targets is not None else dual
    assert given is not None
    n_rows, outputs = given.shape
    shapes: dict[tuple[int, int, int], list[int]] = {}
    for number, lift in enumerate(lifts):
        shapes.setdefault((lift.n_lines, lift.size, abs(lift.region.sign)), []).append(number)
    groups = [_Group([lifts[i] for i in numbers], numbers, outputs) for numbers in shapes.values()]
    signed = groups[0].signed
    live = np.concatenate([group.live for group in groups])
    signs = np.concatenate([group.signs for group in groups])[:, None, None]
    has_offset = targets is not None and not np.isinf(offset_cost)
    beta, pull, offset = np.zeros((n_rows, outputs)), np.zeros((n_rows, outputs)), np.zeros(outputs)
    shift = np.zeros((n_rows, outputs))
    column = (np.ones(n_rows) if offset_weights is None else offset_weights)[:, None]
    current = np.zeros((n_rows, outputs)) if dual is None else dual

    def collect() -> list[Multipliers]:
        found: dict[int, Multipliers] = {}
        for group in groups:
            for index, number in enumerate(group.numbers):
                found[number] = group.multipliers(index, current, rho)
        return [found[number] for number in range(len(lifts))]

    step = 0
    for step in range(1, max_steps + 1):
        primal = change = size = pressure = 0.0
        parts, moved, fresh = [], [], []
        for group in groups:
            psd = group.project_psd()
            primal += float(((group.X - psd) ** 2).sum())
            relaxed = RELAXATION * psd + (1.0 - RELAXATION) * group.X
            entries = relaxed - group.U
            cost, total = (1.0 / rho, None) if targets is not None else (0.0, 1.0)
            parts.append(group.targets_part(entries))
            moved.append(relaxed)
            fresh.append(group.project_entries(entries, cost, total))
        values = np.concatenate(parts)
        if targets is None:
            values = values + signs * current / (2.0 * rho)
        else:
            free = None
            if has_offset:
                weight = offset_cost + 2.0 * rho * float((column**2).sum())
                offset = 2.0 * rho * (column * (beta + pull)).sum(axis=0) / weight
                smooth = RELAXATION * column * offset + (1.0 - RELAXATION) * beta
                free = smooth - pull
            shift = _meet(values, signs, targets, live, free, shift, nonnegative=signed)
            values = values + signs * shift
            if free is not None:
                beta = free + shift
                pull = pull + beta - smooth
            current = 2.0 * rho * shift
        values = np.where(live[:, :, None], np.maximum(values, 0.0) if signed else values, 0.0)
        start = 0
        for group, new, relaxed in zip(groups, fresh, moved, strict=True):
            group.put_targets(new, values[start : start + len(group.lifts)])
            start += len(group.lifts)
            change += float(((new - group.X) ** 2).sum())
            group.U += new - relaxed
            group.X = new
            size += float((new**2).sum())
            pressure += float((group.U**2).sum())
        late = deadline is not None and time.perf_counter() > deadline
        if step % LOOK_EVERY and not late:
            continue
        primal = np.sqrt(primal / max(size, 1e-300))
        change = np.sqrt(change / max(pressure, 1e-300))
        if (look is not None and look(current, collect())) or max(primal, change) <= tol or late:
            break
        ratio = np.sqrt(primal / max(change, 1e-300))
        if not BALANCE > ratio > 1 / BALANCE and step % (LOOK_EVERY * (1 + step // 500)) == 0:
            factor = float(np.clip(ratio, 0.4, 2.5))
            rho *= factor
            for group in groups:
                group.U /= factor
            pull /= factor
            shift /= factor
    moments, spans = {}, {}
    for group in groups:
        for index, number in enumerate(group.numbers):
            moments[number] = group.X[index][group.lines, group.lines]
            spans[number] = group.X[index][np.ix_(group.w, group.w)]
    order = range(len(lifts))
    return LiftedPoint(current, collect(), [moments[i] for i in order], [spans[i] for i in order], step)


def _meet(
    values: np.ndarray,
    signs: np.ndarray,
    targets: np.ndarray,
    live: np.ndarray,
    free: np.ndarray | None,
    start: np.ndarray,
    *,
    nonnegative: bool,
) -> np.ndarray:
    """Return the shift ν with Σ_b s_b (a_b + s_b ν)₊ + free + ν = targets.

    Without the positive part where ``nonnegative`` is false.
    """
    count = 0.0 if free is None else 1.0
    known = 0.0 if free is None else free
    alive = live[:, :, None]
    finite = np.where(alive, values, 0.0)
    if not nonnegative:
        return (targets - known - finite.sum(axis=0)) / np.maximum(alive.sum(axis=0) + count, 1.0)
    shift = start.copy()
    for _ in range(100):
        inner = finite + signs * shift
        positive = alive & (inner > 0)
        missing = targets - known - count * shift - (signs * np.where(positive, inner, 0.0)).sum(axis=0)
        slope = count + positive.sum(axis=0)
        if np.abs(missing).max() <= 1e-13 * (1.0 + np.abs(targets).max()):
            break
        # where nothing is positive yet, move to the next kink
        helpful = alive & (signs * np.sign(missing) > 0)
        kink = np.where(helpful, -inner, np.inf).min(axis=0)
        jump = np.where(
            np.isfinite(kink), np.sign(missing) * (np.where(np.isfinite(kink), kink, 0.0) + 1e-12), 0.0
        )
        shift = shift + np.where(slope > 0, missing / np.maximum(slope, 1.0), jump)
    return shift
