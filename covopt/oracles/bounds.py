r"""Valid bounds where the exact oracle is out of reach.

Two ways lead from a dual point λ to a rigorous lower bound on the primal: divide λ by an upper
bound on its gauge h(λ) that needs no enumeration (:func:`gauge_bound`), or use a dual that vanishes
outside a small set S of rows (:func:`choose_subset`), whose gauge the exact oracle of the rows in S
gives (:func:`covopt.oracles.coordinates.restrict`). The second is usually far better: it is the
optimum of the problem that interpolates the rows in S only, and forgetting constraints can only lower the optimum.
"""

from __future__ import annotations

import contextlib
import math
from typing import NamedTuple

import numpy as np

from covopt.exact.definite import quadratic_up
from covopt.exact.rank import row_span
from covopt.exact.rounding import TINY, allowance, lengths_up, total_up, up
from covopt.limits import TimeUp, now, seconds_left
from covopt.oracles.faces import count_faces
from covopt.oracles.signs.lagrangian import eigenvalue_bound

ABOVE = 1e-12  # how far above the spectrum ν begins, relatively: any ν is valid that is proved to be above
LEAST = 1e-6  # smallest τ, relative to the row
SHORT = 1.0 - 2.0**-40  # of the room of a tilt, for rounding
HURRIED = 0.4  # share of what a deadline leaves, for all rounds
EACH_OUTPUT = 24  # rounds of the bound of one of several outputs, at least
MOST_RELAXED = 300  # rows and dimensions whose lifted form is looked at: more take minutes and gigabytes


class _Quadratic(NamedTuple):
    """wᵀMw + b·w ≤ ν + t over unit w, to rounding, and what the numbers that made M and b were rounded by."""

    matrix: np.ndarray
    linear: np.ndarray
    level: float
    height: float
    rest: float

    @property
    def value(self) -> float:
        return self.level + self.height + self.rest

    def proved(self) -> float:
        """Return what holds in exact arithmetic."""
        return up(quadratic_up(self.matrix, self.linear, self.level, self.height) + self.rest)


# of rows whose squares vanish; what comes out is proved or left out
@np.errstate(divide="ignore", invalid="ignore")
def _quadratic_maximum(matrix: np.ndarray, linear: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Find the ν that makes ν + ¼ bᵀ(ν − M)⁻¹b least; return both terms, and a near maximiser of wᵀMw + b·w."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    b = vectors.T @ linear
    scale = float(np.abs(eigenvalues).max() + np.linalg.norm(b))
    if scale == 0.0:
        return 0.0, 0.0, vectors[:, -1]
    low = float(eigenvalues[-1]) + ABOVE * scale
    high = low + float(np.linalg.norm(b))
    # the derivative 1 − ¼ Σ b²/(ν − d)² increases in ν
    if 0.25 * float((b**2 / (low - eigenvalues) ** 2).sum()) <= 1.0:
        nu = low
    else:
        for _ in range(60):
            nu = 0.5 * (low + high)
            if 0.25 * float((b**2 / (nu - eigenvalues) ** 2).sum()) > 1.0:
                low = nu
            else:
                high = nu
        nu = high
    w = 0.5 * b / (nu - eigenvalues)
    missing = 1.0 - float(w @ w)
    if missing > 0.0:
        w[-1] += np.copysign(np.sqrt(missing + w[-1] ** 2) - abs(w[-1]), w[-1])
    w /= np.linalg.norm(w)
    return nu, 0.25 * float((b**2 / (nu - eigenvalues)).sum()), vectors @ w


class Relaxed(NamedTuple):
    """A bound on h(Λ), and where it is nearly attained.

    Attributes
    ----------
    value : float
        h(Λ) does not exceed it, in exact arithmetic.
    atoms : list of ndarray of shape (N, k)
        Outputs that the relaxation takes for those of a neuron: ⟨Λ, A⟩ is about the value for the largest of them.
    """

    value: float
    atoms: list[np.ndarray]


def _one_sided_bound(
    rows: np.ndarray,
    mu: np.ndarray,
    n_rounds: int,
    seconds: float,
) -> tuple[float, np.ndarray]:
    """Bound max F from above; see :func:`gauge_bound`. Also return the relaxed σ(Zw)."""
    began = now()
    norms, r = lengths_up(rows), rows.shape[1]
    convex, concave = mu > 0, mu < 0
    zp, p = rows[convex], mu[convex]
    zm, m, length = rows[concave], -mu[concave], norms[concave]
    best: _Quadratic | None = None
    mean, moments = np.zeros(r), np.eye(r) / r
    alpha, tilt = np.zeros(len(m)), np.zeros((len(m), r))
    floor = LEAST * norms[convex]
    for turn in range(n_rounds):
        tau = np.maximum(np.sqrt(np.maximum(np.einsum("ij,ij->i", zp @ moments, zp), 0.0)), floor)
        t, turned = zm @ mean, zm @ moments
        reach = np.linalg.norm(turned, axis=1)
        quadratic = 0.5 * (t + reach)
        straight = t > quadratic
        curved = ~straight & (quadratic > 0.0)
        step = 1.0 / (turn + 1.0)
        alpha += step * (np.where(straight, 1.0, np.where(curved, 0.5, 0.0)) - alpha)
        share = np.where(curved & (reach > 0.0), 0.5 / np.where(reach > 0.0, reach, 1.0), 0.0)
        tilt += step * (turned * share[:, None] - tilt)
        # to the last digit: 1 − α is exact where it is the smaller one
        room, tilts = np.minimum(alpha, 1.0 - alpha) * SHORT, lengths_up(tilt)
        bent = tilt * np.where(tilts > room, room / np.where(tilts > 0.0, tilts, 1.0), 1.0)[:, None]
        curves, lines = p / (4.0 * tau), (0.5 * p, m * alpha)
        cross = (zm * m[:, None]).T @ bent
        matrix = (zp * curves[:, None]).T @ zp - 0.5 * (cross + cross.T)
        linear = lines[0] @ zp - lines[1] @ zm
        level, height, w = _quadratic_maximum(matrix, linear)
        constant = 0.25 * float(p @ tau)
        size = float(curves @ norms[convex] ** 2 + (m * tilts) @ length + lines[0] @ norms[convex])
        size += float(lines[1] @ length) + constant
        found = _Quadratic(matrix, linear, level, height, up(constant + allowance(len(rows) + 16, size)))
        if best is None or found.value < best.value:
            best = found
        step = 1.0 / (turn + 2.0)
        mean, moments = mean + step * (w - mean), moments + step * (np.outer(w, w) - moments)
        if now() - began > seconds:
            break
    heights = np.zeros(len(mu))
    heights[convex] = 0.5 * (zp @ mean + np.sqrt(np.maximum(np.einsum("ij,ij->i", zp @ moments, zp), 0.0)))
    t = zm @ mean
    heights[concave] = np.maximum(np.maximum(t, 0.5 * (t + np.linalg.norm(zm @ moments, axis=1))), 0.0)
    trivial = total_up(p, norms[convex])
    return trivial if best is None else min(trivial, best.proved()), heights


def relaxed_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    n_rounds: int = 60,
    seconds: float = math.inf,
) -> Relaxed:
    """Bound h as :func:`gauge_bound` does, and tell which outputs would attain the bound.

    Parameters
    ----------
    rows, dual, n_rounds, seconds
        As there; the eigenvalues of several outputs are not looked at.

    Examples
    --------
    >>> import numpy as np
    >>> found = relaxed_gauge(np.eye(2), np.array([3.0, 4.0]))
    >>> len(found.atoms), bool(5.0 <= found.value < 5.4)
    (2, True)
    """
    outputs, atoms, heights = dual.reshape(len(dual), -1), [], []
    k = outputs.shape[1]
    share, rounds = 0.5 * seconds / k, min(n_rounds, max(EACH_OUTPUT, n_rounds // k))
    for column in outputs.T:
        both = []
        for sign in (1.0, -1.0):
            value, atom = _one_sided_bound(rows, sign * column, rounds, share)
            both.append((value, sign * atom))
        heights.append(max(value for value, _ in both))
        atoms.append([atom for _, atom in both] if k == 1 else [max(both, key=lambda each: each[0])[1]])
    if k == 1:
        return Relaxed(heights[0], [atom[:, None] for atom in atoms[0]])
    squares = 0.0
    for height in heights:
        squares = up(squares + up(height * height))
    value = up(math.sqrt(squares))
    return Relaxed(
        value,
        [np.stack([atom for (atom,) in atoms], axis=1) * (np.array(heights) / max(value, TINY))],
    )


def gauge_bound(
    rows: np.ndarray, dual: np.ndarray, *, n_rounds: int = 60, seconds: float = math.inf
) -> float:
    r"""Bound h(λ) = max_{‖w‖=1} |Σ λ_i σ(z_i·w)| from above without looking at cells.

    For a unit w and t_i = z_i·w, every τ_i > 0 and every (α_i, ℓ_i) with ‖ℓ_i‖ ≤ min(α_i, 1 − α_i) give

    .. math::
        \sigma(t) = \tfrac12(t + |t|) \le \tfrac12 t + \tfrac{t^2}{4\tau} + \tfrac{\tau}{4}, \qquad
        \sigma(t) \ge \alpha t + t\, (\ell \cdot w),

    the first for the rows with λ_i > 0, the second for those with λ_i < 0. So F(w) ≤ wᵀMw + b·w +
    const, and the maximum of a quadratic over the sphere has the exact dual min_{ν > λ_max(M)} ν +
    ¼ bᵀ(ν − M)⁻¹ b, where every ν is an upper bound. The multipliers follow the average of the
    maximisers (they play against w); the best value met is returned, for both signs of λ the larger
    one. It is never more than max(Σ λ_i⁺‖z_i‖, Σ λ_i⁻‖z_i‖).

    With several outputs h(Λ) = max ‖Λᵀσ(Zw)‖ is bounded by √(Σ_c h_c²) over the bounds of each output alone, by
    Σ ‖λ_i‖‖z_i‖, and for few rows by the eigenvalues of :mod:`covopt.oracles.signs.lagrangian`.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    dual : ndarray of shape (N,) or (N, k)
    n_rounds : int
        Updates of the multipliers; each costs O(N r²), with several outputs O((N + r)³).
    seconds : float
        After so many, or a share of what a deadline leaves, no other update is begun; the first is always made.

    Returns
    -------
    float
        An upper bound on h in exact arithmetic: the best quadratic is proved by Cholesky's factorisation
        (:func:`covopt.exact.definite.quadratic_up`), and what its coefficients were rounded by is added.

    Examples
    --------
    >>> import numpy as np
    >>> bound = gauge_bound(np.eye(2), np.array([3.0, 4.0]))
    >>> 5.0 <= bound <= 7.0
    True
    """
    seconds = min(seconds, HURRIED * seconds_left())
    if dual.ndim == 2:
        return _outputs_bound(rows, dual, n_rounds, seconds)
    return relaxed_gauge(rows, dual, n_rounds=n_rounds, seconds=seconds).value


def _outputs_bound(rows: np.ndarray, dual: np.ndarray, n_rounds: int, seconds: float) -> float:
    kept = rows.any(axis=1) & dual.any(axis=1)
    if not kept.any():
        return 0.0
    began = now()
    found = relaxed_gauge(rows[kept], dual[kept], n_rounds=n_rounds, seconds=0.5 * seconds)
    bound = min(total_up(lengths_up(dual), lengths_up(rows)), found.value)
    if is_beyond_relaxation(rows[kept]):
        return bound
    left = seconds - (now() - began)
    with contextlib.suppress(TimeUp):  # what was found is a bound; whoever set the deadline hears of it again
        bound = min(bound, eigenvalue_bound(rows[kept], dual[kept], max_steps=n_rounds, seconds=left))
    return bound


def is_beyond_relaxation(rows: np.ndarray) -> bool:
    """Whether the lifted form of several outputs is too large to be looked at.

    Examples
    --------
    >>> is_beyond_relaxation(np.ones((20, 3))), is_beyond_relaxation(np.ones((1797, 65)))
    (False, True)
    """
    return sum(rows.shape) > MOST_RELAXED


def importance(rows: np.ndarray, dual: np.ndarray) -> np.ndarray:
    """Return what each row can at most contribute to h: |λ_i| ‖z_i‖, with several outputs ‖λ_i‖ ‖z_i‖."""
    size = np.abs(dual) if dual.ndim == 1 else np.linalg.norm(dual, axis=1)
    return size * np.linalg.norm(rows, axis=1)


def choose_subset(rows: np.ndarray, dual: np.ndarray, budget: float) -> np.ndarray:
    """Choose the rows that carry a dual point, as many as the exact oracle can afford.

    The order is by ‖λ_i‖ ‖z_i‖, what row i can at most contribute to F; λ should come from a
    heuristic solve of the whole problem. Any choice is valid.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,) or (N, k)
    budget : float
        Largest number of faces per pricing, as counted by :func:`covopt.oracles.faces.count_faces`.

    Returns
    -------
    ndarray of int
        Sorted indices S; at least one.

    Examples
    --------
    >>> import numpy as np
    >>> choose_subset(np.eye(3), np.array([1.0, 0.0, -2.0]), budget=1e3)
    array([0, 2])
    """
    weights = importance(rows, dual)
    order = np.argsort(-weights, kind="stable")[: max(1, int((weights > 0).sum()))]
    low, high = 1, len(order)
    while low < high:
        middle = (low + high + 1) // 2
        rank = len(row_span(rows[order[:middle]]))
        if count_faces(middle, rank) <= budget:
            low = middle
        else:
            high = middle - 1
    return np.sort(order[:low])
