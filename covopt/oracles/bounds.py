r"""Valid bounds on h(λ) where the exact oracle is out of reach.

There are two ways from a dual point λ to a rigorous lower bound on the primal. The first divides λ by an upper
bound on its dual norm h(λ) that needs no enumeration (:func:`relaxed_dual_norm`). The second uses a dual that
vanishes outside a small set S of rows; an oracle for the rows in S, in coordinates of their span, gives its dual norm
(:func:`covopt.solvers.bounds.few_points`). The second is usually far better: it is the optimum of the relaxation that
interpolates only the rows in S.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from covopt.exact.rounding import TINY, lengths_up, total_up, up
from covopt.limits import HALF, TimeUp, now, seconds_left
from covopt.oracles.base import SHOWN, affords
from covopt.oracles.lagrangian import LiftedForm
from covopt.oracles.one_sided import Moments, QuarticMoments, quadratics, quartics, suits_quartics


class Relaxed(NamedTuple):
    """An upper bound on h(Λ), and outputs that nearly attain it.

    Attributes
    ----------
    value : float
        The bound, up to rounding.
    atoms : list of ndarray of shape (N, k)
        Outputs A of relaxed neurons: ⟨Λ, A⟩ is about the value for the largest of them.
    proved : callable
        Returns an upper bound on h(Λ) that holds in exact arithmetic.
    """

    value: float
    atoms: list[np.ndarray]
    proved: Callable[[], float]


class Relaxation:
    """Bounds for many duals on the same rows, each warm-started from the one before.

    Several outputs are bounded by √(Σ_c h_c²) over the bounds of each alone, and by products of activations
    (:mod:`covopt.oracles.lagrangian`), which use that one neuron cannot attain all h_c. After the first dual
    only the method with the smaller bound is used.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.

    Examples
    --------
    >>> import numpy as np
    >>> found = Relaxation(np.eye(2)).bound(np.array([[3.0], [4.0]]))
    >>> len(found.atoms), bool(5.0 <= found.proved() < 5.4)
    (2, True)
    """

    def __init__(self, rows: np.ndarray):
        self.rows = rows
        self.moments: dict[tuple[int, float], Moments] = {}
        self.fourth: dict[tuple[int, float], QuarticMoments] = {}
        self.form: LiftedForm | None = None
        self.is_first, self.adds = True, True

    def bound(
        self, dual: np.ndarray, *, n_rounds: int = 60, seconds: float = math.inf, goal: float = 0.0
    ) -> Relaxed:
        """Bound h as :func:`relaxed_dual_norm` does, and return outputs that nearly attain the bound.

        Parameters
        ----------
        dual : ndarray of shape (N, k)
        n_rounds, seconds, goal
            As in :func:`relaxed_dual_norm`.
        """
        began, found, seconds = now(), None, min(seconds, HALF * seconds_left())
        if self.adds:
            found = self._each_output(dual, n_rounds, seconds if dual.shape[1] == 1 else 0.25 * seconds)
            most = SHOWN * n_rounds if dual.shape[1] == 1 else 0
            while 0.0 < goal < found.value and (n_rounds := 2 * n_rounds) <= most:
                self.moments, self.fourth = {}, {}
                again, missing = (
                    self._each_output(dual, n_rounds, seconds - (now() - began)),
                    found.value - goal,
                )
                found = min(found, again, key=lambda each: each.value)
                if found.value - goal > HALF * missing:  # a goal proved by boxes, out of reach here
                    break
        took = now() - began
        lifts = (
            dual.shape[1] > 1 and self.is_first and affords(float(sum(self.rows.shape)) ** 3) and dual.any()
        )
        lifted = None
        if (lifts and took < seconds) or self.form is not None:
            lifted = self._lifted(dual, n_rounds, seconds - took, goal)
        if lifted is not None and (found is None or lifted.value < found.value):
            found, self.adds = lifted, False
        elif self.is_first:
            self.form = None
        self.is_first = False
        return found or self._each_output(dual, n_rounds, 0.0)

    def _each_output(self, dual: np.ndarray, n_rounds: int, seconds: float) -> Relaxed:
        atoms, heights = [], []
        k = dual.shape[1]
        share, rounds = HALF * seconds / k, n_rounds if k == 1 else math.ceil(HALF * n_rounds)
        for number, column in enumerate(dual.T):
            both = []
            for sign in (1.0, -1.0):
                both.append(self._one_side(sign * column, (number, sign), rounds, share))
            heights.append(max(value for value, _ in both))
            atoms.append([atom for _, atom in both] if k == 1 else [max(both, key=lambda each: each[0])[1]])
        if k == 1:
            return Relaxed(heights[0], [atom[:, None] for atom in atoms[0]], lambda: heights[0])
        squares = 0.0
        for height in heights:
            squares = up(squares + up(height * height))
        value = up(math.sqrt(squares))
        shared = np.stack([atom for (atom,) in atoms], axis=1) * (np.array(heights) / max(value, TINY))
        return Relaxed(value, [shared], lambda: value)

    def _one_side(
        self, mu: np.ndarray, side: tuple[int, float], rounds: int, seconds: float
    ) -> tuple[float, np.ndarray]:
        """Bound one output with one sign; return the bound and activations that nearly attain it."""
        began = now()
        value, atom, self.moments[side] = quadratics(self.rows, mu, rounds, seconds, self.moments.get(side))
        left = seconds - (now() - began)
        if left > 0.0 and suits_quartics(*self.rows.shape):
            start = self.fourth.get(side, self.moments[side])
            bent, other, self.fourth[side] = quartics(self.rows, mu, rounds, left, start)
            if bent < value:
                value, atom = bent, other
        return value, side[1] * atom

    def _lifted(self, dual: np.ndarray, n_rounds: int, seconds: float, goal: float) -> Relaxed | None:
        is_warm, end = self.form is not None, now() + seconds
        if self.form is None:
            self.form = LiftedForm(self.rows, dual)
        else:
            self.form.ask(dual)
        form = self.form
        # the bound found so far is valid; the deadline raises TimeUp again outside
        with contextlib.suppress(TimeUp):
            form.improve(n_rounds // 2 if is_warm else n_rounds, seconds=seconds, is_warm=is_warm)
            for _ in range(SHOWN):
                if goal == 0.0 or form.proved() <= goal or now() > end:
                    break
                form.improve(n_rounds, seconds=end - now(), is_warm=True)
        return Relaxed(form.value, [form.atom()], form.proved) if np.isfinite(form.top) else None


def relaxed_dual_norm(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    n_rounds: int = 60,
    seconds: float = math.inf,
    goal: float = 0.0,
) -> float:
    r"""Bound h(λ) = max_{‖w‖=1} |Σ λ_i σ(z_i·w)| from above without enumerating cells.

    For a unit w and t_i = z_i·w, every τ_i > 0 and every (α_i, ℓ_i) with ‖ℓ_i‖ ≤ min(α_i, 1 − α_i) give

    .. math::
        \sigma(t) = \tfrac12(t + |t|) \le \tfrac12 t + \tfrac{t^2}{4\tau} + \tfrac{\tau}{4}, \qquad
        \sigma(t) \ge \alpha t + t\, (\ell \cdot w),

    the first for the rows with λ_i > 0, the second for those with λ_i < 0. So F(w) ≤ wᵀMw + b·w +
    const, and the maximum of a quadratic over the sphere has the exact dual min_{ν > λ_max(M)} ν +
    ¼ bᵀ(ν − M)⁻¹ b, where every ν gives an upper bound. The multipliers follow the average of the
    maximisers w so far, as in a two-player game. The result is the best bound met, the larger one for
    both signs of λ. It never exceeds max(Σ λ_i⁺‖z_i‖, Σ λ_i⁻‖z_i‖).

    With several outputs h(Λ) = max ‖Λᵀσ(Zw)‖ is bounded as in :class:`Relaxation`, and by Σ ‖λ_i‖‖z_i‖.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    dual : ndarray of shape (N,) or (N, k)
    n_rounds : int
        Updates of the multipliers; each costs O(N r²).
    seconds : float
        No update begins after this time, or after a share of the time that a deadline leaves, except the first.
    goal : float
        An upper bound on h that the solve has proved: more updates are made in order to reach it again.

    Returns
    -------
    float
        An upper bound on h in exact arithmetic: a Cholesky factorisation proves the best quadratic
        (:func:`covopt.exact.definite.quadratic_up`), and the rounding error of its coefficients is added.

    Examples
    --------
    >>> import numpy as np
    >>> bound = relaxed_dual_norm(np.eye(2), np.array([3.0, 4.0]))
    >>> 5.0 <= bound <= 7.0
    True
    """
    seconds = min(seconds, HALF * seconds_left())
    outputs = dual.reshape(len(dual), -1)
    kept = rows.any(axis=1) & outputs.any(axis=1)
    if not kept.any():
        return 0.0
    found = Relaxation(rows[kept]).bound(outputs[kept], n_rounds=n_rounds, seconds=seconds, goal=goal)
    return min(total_up(lengths_up(outputs), lengths_up(rows)), found.proved())


def importance(rows: np.ndarray, dual: np.ndarray) -> np.ndarray:
    """Return the most that each row can contribute to h: |λ_i| ‖z_i‖, with several outputs ‖λ_i‖ ‖z_i‖."""
    size = np.abs(dual) if dual.ndim == 1 else np.linalg.norm(dual, axis=1)
    return size * np.linalg.norm(rows, axis=1)
