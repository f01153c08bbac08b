r"""Bounds on max F(w) = Σ μ_i σ(z_i·w) over unit w, for one output and one sign, by quadratics and by quartics.

**Quadratics** are explained in :func:`covopt.oracles.bounds.relaxed_dual_norm`: wᵀMw + b·w + const, whose maximum on
the sphere has an exact dual. On noise they exceed F by .2 E|t| for a row of positive weight, else by .8 E|t|.

**Quartics** have a negative term of degree four. With t = z·w, ℓ ≥ ‖z‖ and any s > 0,

.. math::
    |t| \le a + b t^2 - c t^4, \qquad c = \frac{1}{2 s (\ell + s)^2},\; b = c (K + 3 s^2),\; a = c K s^2,\;
    K = \ell (\ell + 2 s),

with equality at ±s and at ±ℓ; and σ(t) ≥ αt + bt² − ct⁴ where 27 c κ² ≥ 4 b³ with κ = min(α, 1 − α), since then
bt − ct³ ≤ κ for all t ≥ 0. So F(w) ≤ k + β·w + wᵀMw + Σ c_i t_i⁴. A quartic on the sphere is a quadratic in S = wwᵀ,
which has norm and trace one: t² = f + ⟨zzᵀ − f I, S⟩ for any f, f = ‖z‖²/r. For all symmetric Y and all κ

.. math::
    F(w) \le k + \max_w \bigl( β·w + w^T (M + Y) w \bigr)
        + \max_{\|S\| = 1} \bigl( q(S) - ⟨Y, S⟩ + \tfrac{κ}{r} (\operatorname{tr} S)^2 \bigr) - \tfrac{κ}{r}:

two quadratics on spheres. Y is updated by the difference of the squares of their maximisers. On noise this exceeds F
by .13 and .22 E|t| (a dual of diabetes, 442 × 10, with h = 1: 3.3, where quadratics give 4.4). It needs more rows
than S has entries: fewer rows fit any quartic.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from covopt.exact.definite import quadratic_up
from covopt.exact.rank import COMPUTED, NEAR
from covopt.exact.rounding import SLIP, allowance, lengths_up, total_up, up
from covopt.limits import HALF, PIECE, now

SHORT = 1.0 - SLIP  # share of the room of a tilt that is used; the rest is for rounding


class Quadratic(NamedTuple):
    """The bound wᵀMw + b·w ≤ ν + t over unit w, up to rounding; ``rest`` is the constant and the rounding error."""

    matrix: np.ndarray
    linear: np.ndarray
    level: float
    height: float
    rest: float

    @property
    def value(self) -> float:
        """The bound, up to rounding."""
        return self.level + self.height + self.rest

    def proved(self) -> float:
        """Return the bound in exact arithmetic."""
        return up(quadratic_up(self.matrix, self.linear, self.level, self.height) + self.rest)


# divisions by zero for rows whose squares vanish; the result is proved or discarded
@np.errstate(divide="ignore", invalid="ignore")
def quadratic_maximum(matrix: np.ndarray, linear: np.ndarray) -> tuple[float, float, np.ndarray]:
    """Minimise ν + ¼ bᵀ(ν − M)⁻¹b over ν; return both terms, and a near maximiser of wᵀMw + b·w."""
    eigenvalues, vectors = np.linalg.eigh(matrix)
    b = vectors.T @ linear
    scale = float(np.abs(eigenvalues).max() + np.linalg.norm(b))
    if scale == 0.0:
        return 0.0, 0.0, vectors[:, -1]
    nu = float(eigenvalues[-1]) + COMPUTED * scale
    for _ in range(60):
        # find ‖w‖ = 1: the inverse of the length is concave in ν, and Newton's method converges from below
        w = 0.5 * b / (nu - eigenvalues)
        length = float(np.linalg.norm(w))
        step = (length - 1.0) * length**2 / float((w / (nu - eigenvalues)) @ w) if length > 1.0 else 0.0
        nu += step
        if step <= np.finfo(float).eps * scale:
            break
    missing = 1.0 - float(w @ w)
    if missing > 0.0:
        w[-1] += np.copysign(np.sqrt(missing + w[-1] ** 2) - abs(w[-1]), w[-1])
    w /= np.linalg.norm(w)
    return nu, 0.25 * float((b**2 / (nu - eigenvalues)).sum()), vectors @ w


class Moments(NamedTuple):
    """Averages of w and wwᵀ over the maximisers so far."""

    mean: np.ndarray
    square: np.ndarray


def quadratics(
    rows: np.ndarray,
    mu: np.ndarray,
    n_rounds: int,
    seconds: float,
    before: Moments | None = None,
) -> tuple[float, np.ndarray, Moments]:
    """Bound max F from above as in :func:`relaxed_dual_norm`; also return the relaxed σ(Zw) and the moments of w.

    A warm start from the moments of a similar dual needs a quarter of the rounds.
    """
    began = now()
    norms, r = lengths_up(rows), rows.shape[1]
    convex, concave = mu > 0, mu < 0
    zp, p = rows[convex], mu[convex]
    zm, m, length = rows[concave], -mu[concave], norms[concave]
    best: Quadratic | None = None
    mean, moments = before or (np.zeros(r), np.eye(r) / r)
    known = 0 if before is None else n_rounds // 2
    alpha, tilt = np.zeros(len(m)), np.zeros((len(m), r))
    floor = NEAR * norms[convex]
    for turn in range(n_rounds if before is None else max(n_rounds // 4, 1)):
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
        # exact: 1 − α has no rounding error where it is the smaller one
        room, tilts = np.minimum(alpha, 1.0 - alpha) * SHORT, lengths_up(tilt)
        bent = tilt * np.where(tilts > room, room / np.where(tilts > 0.0, tilts, 1.0), 1.0)[:, None]
        curves, lines = p / (4.0 * tau), (0.5 * p, m * alpha)
        cross = (zm * m[:, None]).T @ bent
        matrix = (zp * curves[:, None]).T @ zp - 0.5 * (cross + cross.T)
        linear = lines[0] @ zp - lines[1] @ zm
        level, height, w = quadratic_maximum(matrix, linear)
        constant = 0.25 * float(p @ tau)
        size = float(curves @ norms[convex] ** 2 + (m * tilts) @ length + lines[0] @ norms[convex])
        size += float(lines[1] @ length) + constant
        found = Quadratic(matrix, linear, level, height, up(constant + allowance(len(rows) + 16, size)))
        if best is None or found.value < best.value:
            best = found
        step = 1.0 / (known + turn + 2.0)
        mean, moments = mean + step * (w - mean), moments + step * (np.outer(w, w) - moments)
        if now() - began > seconds:
            break
    heights = np.zeros(len(mu))
    heights[convex] = 0.5 * (zp @ mean + np.sqrt(np.maximum(np.einsum("ij,ij->i", zp @ moments, zp), 0.0)))
    t = zm @ mean
    heights[concave] = np.maximum(np.maximum(t, 0.5 * (t + np.linalg.norm(zm @ moments, axis=1))), 0.0)
    trivial = total_up(p, norms[convex])
    value = trivial if best is None else min(trivial, best.proved())
    return value, heights, Moments(mean, moments)


class Quartic(NamedTuple):
    """The two quadratics of a quartic bound, in w and in S; ``rest`` of the second is k − κ/r and the rounding."""

    first: Quadratic
    second: Quadratic

    @property
    def value(self) -> float:
        """The bound, up to rounding."""
        return self.first.value + self.second.value

    def proved(self) -> float:
        """Return the bound in exact arithmetic."""
        return up(self.first.proved() + self.second.proved())


class QuarticMoments(NamedTuple):
    """Averages of w, wwᵀ and, for each row, t⁴ over the maximisers so far; and Y."""

    mean: np.ndarray
    square: np.ndarray
    fourth: np.ndarray
    coupling: np.ndarray


def suits_quartics(n_rows: int, rank: int) -> bool:
    """Return whether there are four times as many rows as S has entries, and not too many entries in all rows.

    In up to three dimensions visiting all faces takes less time.

    Examples
    --------
    >>> suits_quartics(442, 11), suits_quartics(200, 11), suits_quartics(5000, 31)
    (True, False, False)
    """
    squares = rank * (rank + 1) // 2
    return rank > 3 and 4 * squares <= n_rows and squares * n_rows <= PIECE


def from_above(touch: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a, b, c of |t| ≤ a + bt² − ct⁴ for |t| ≤ ℓ, up to rounding, with equality at ±s and ±ℓ."""
    inner = lengths * (lengths + 2.0 * touch)
    fall = 0.5 / (touch * (lengths + touch) ** 2)
    return fall * inner * touch**2, fall * (inner + 3.0 * touch**2), fall


def from_below(bend: np.ndarray, kink: np.ndarray) -> np.ndarray:
    """Return c such that bt² − ct⁴ ≤ κ|t| for all t, up to rounding, with a small margin."""
    return 4.0 / 27.0 / SHORT * bend**3 / kink**2


@np.errstate(all="ignore")  # values that overflow give no bound and are left out
def quartics(
    rows: np.ndarray, mu: np.ndarray, n_rounds: int, seconds: float, before: QuarticMoments | Moments
) -> tuple[float, np.ndarray, QuarticMoments]:
    """Bound max F from above by quartics, as :func:`quadratics` does by quadratics.

    After quadratics the fourth moments start as those of a normal distribution. A warm start from the quartic moments
    of a similar dual needs half of the rounds.
    """
    began = now()
    n, r = rows.shape
    lengths, convex, weights = lengths_up(rows), mu > 0, np.abs(mu)
    i, j = np.triu_indices(r)
    scale, trace = np.where(i == j, 1.0, math.sqrt(2.0)), np.where(i == j, 1.0, 0.0)
    flat, radius = lengths**2 / r, 1.0 - 1.0 / r
    squares = rows[:, i] * rows[:, j] * scale - flat[:, None] * trace
    mean, moments = before.mean, before.square
    known, fourth, coupling = 0, 3.0 * np.einsum("ij,ij->i", rows @ moments, rows) ** 2, np.zeros((r, r))
    if isinstance(before, QuarticMoments):
        known, fourth, coupling = n_rounds // 2, before.fourth, before.coupling
    alpha, bend, best = np.zeros(n), np.zeros(n), None
    for turn in range(max(n_rounds // 2, 1) if known else n_rounds):
        second = np.maximum(np.einsum("ij,ij->i", rows @ moments, rows), (NEAR * lengths) ** 2)
        touch, t = np.sqrt(second), rows @ mean
        top, rise, fall = from_above(touch, lengths)
        # lower bounds on σ: the best of a quartic, the line t and zero, averaged
        turned = np.sqrt(np.maximum(fourth / second, (NEAR * lengths) ** 2))
        bent = 0.5 * t + 0.75 * second / turned - 0.25 * fourth / turned**3
        line = np.maximum(t, 0.0)
        is_bent = bent > line
        alpha += (np.where(is_bent, 0.5, np.where(t > 0.0, 1.0, 0.0)) - alpha) / (turn + 1.0)
        bend += (np.where(is_bent, 0.75 / turned, 0.0) - bend) / (turn + 1.0)
        kinks = np.minimum(alpha, 1.0 - alpha) * SHORT
        bends = np.where(kinks > 0.0, bend, 0.0)
        constant = np.where(convex, 0.5 * top, 0.0)
        bows = np.where(convex, 0.5 * rise, -bends)
        tops = np.where(convex, -0.5 * fall, from_below(bends, np.where(kinks > 0.0, kinks, 1.0)))
        lines = np.where(convex, 0.5, -alpha)
        matrix = (rows * (weights * bows)[:, None]).T @ rows
        linear = (weights * lines) @ rows
        form = (squares * (weights * tops)[:, None]).T @ squares
        pull = (2.0 * weights * tops * flat) @ squares - coupling[i, j] * scale
        size = float(np.linalg.norm(form))
        if not np.isfinite(size + float(np.abs(matrix).sum())):
            break
        level, height, w = quadratic_maximum(matrix + coupling, linear)
        # the traceless part of S has the length √radius
        deep = np.outer(trace, trace) / r
        high, beside, x = quadratic_maximum(radius * form - size * deep, math.sqrt(radius) * pull)
        high /= radius
        lift = high - NEAR * size
        spent = constant @ weights + float((weights * tops) @ flat**2) - lift / r
        paid = float(
            weights
            @ (constant + np.abs(lines) * lengths + np.abs(bows) * lengths**2 + np.abs(tops) * lengths**4)
        )
        paid += float(np.linalg.norm(coupling)) + abs(lift) + size
        rest = up(spent + allowance(n + 64, 8.0 * paid))
        found = Quartic(
            Quadratic(matrix + coupling, linear, level, height, 0.0),
            Quadratic(form + lift * deep, pull, high, beside, rest),
        )
        if best is None or found.value < best.value:
            best = found
        S = math.sqrt(radius) * x + trace / r
        S -= trace * (trace @ S - 1.0) / r
        square = np.zeros((r, r))
        square[i, j] = square[j, i] = S / scale
        step = 1.0 / (known + turn + 2.0)
        coupling = coupling - HALF * step * float(np.linalg.norm(matrix, 2)) * (np.outer(w, w) - square)
        mean, moments = mean + step * (w - mean), moments + step * (np.outer(w, w) - moments)
        fourth = fourth + step * ((flat + squares @ S) ** 2 - fourth)
        if now() - began > seconds:
            break
    heights = np.where(convex, 0.5 * t + constant + bows * second + tops * fourth, np.maximum(bent, line))
    return (
        math.inf if best is None else best.proved(),
        heights,
        QuarticMoments(mean, moments, fourth, coupling),
    )
