r"""Constraints of the restricted master, two slacks and two multipliers each: a box, or second-order cones.

**One output**, |u_j| ≤ e_j. With signs ± the constraints are e_± ∓ u − s_± = 0, s ≥ 0, with multipliers p_± ≥ 0;
column j has weight p₊ − p₋. Slacks are separate variables, so that a new column may enter violated without a step
back of the dual. A Newton step for p∘s = c gives

    δp = b ± (p/s) δu,   b = (c − p∘ρ)/s − p,   δs = ρ ∓ δu,   ρ = e ∓ u − s,

so that a column adds p₊/s₊ + p₋/s₋ times the square of its atom to the normal matrix.

**Several outputs**, ‖u_j‖ ≤ 1. The cone variables are s_j = (s₀, u_j), again with a separate slack s₀, and
z_j = (τ_j, −v_j) with the output weights v_j. Steps take Nesterov and Todd's scaling
W_j = η_j [[w₀, w₁ᵀ], [w₁, I + w₁w₁ᵀ/(1 + w₀)]], whose squared inverse has the lower block (I + 2w₁w₁ᵀ)/η²
(Vandenberghe's notes on the CVXOPT solvers; Domahidi et al. 2013, ECOS). With one output both are the same, and the
box has fewer operations.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from covopt.exact.rounding import EPS, TINY

SIGNS = np.array([[1.0], [-1.0]])
# Gondzio's correctors change only products of slack and multiplier below this share of the goal or above its inverse;
# multipliers whose products are below this share of the level are raised
LOW = 0.1


class Box:
    """Slacks and multipliers of |u_j| ≤ 1, or of −e₋ ≤ u_j ≤ e₊, for scalars u_j.

    Parameters
    ----------
    edges : ndarray of shape (2, m), optional
        e₊ and e₋, for constraints that are not columns; without them the box is empty and columns are added.

    Attributes
    ----------
    slack, force : ndarray of shape (2, M)
        s and p.
    """

    def __init__(self, edges: np.ndarray | None = None):
        self.edges = edges
        m = 0 if edges is None else edges.shape[1]
        self.slack, self.force = np.ones((2, m)), np.ones((2, m))

    @property
    def count(self) -> int:
        """Number of products."""
        return self.slack.size

    @property
    def complementarity(self) -> float:
        """Σ p s."""
        return float(np.vdot(self.slack, self.force))

    @property
    def weights(self) -> np.ndarray:
        """p₊ − p₋, shape (M, 1)."""
        return (self.force[0] - self.force[1])[:, None]

    @property
    def sizes(self) -> np.ndarray:
        """The larger multiplier of every column."""
        return self.force.max(axis=0)

    # ------------------------------------------------------------------ columns
    def add(self, u: np.ndarray, level: float, floor: float) -> None:
        """Add columns at heights u (m, 1) with products ``level`` and slacks of at least ``floor``."""
        slack = np.maximum(np.abs(1.0 - SIGNS * u.T), floor)
        self.slack = np.concatenate([self.slack, slack], axis=1)
        self.force = np.concatenate([self.force, level / slack], axis=1)

    def keep(self, kept: np.ndarray) -> None:
        """Keep the columns of a mask."""
        self.slack, self.force = self.slack[:, kept], self.force[:, kept]

    def lift(self, level: float) -> None:
        """Raise multipliers whose products are far below the level."""
        self.force = np.maximum(self.force, LOW * level / self.slack)

    def centre(self, level: float) -> None:
        """Give every multiplier the product ``level``."""
        self.force = np.maximum(level / self.slack, TINY)

    def settle(self, u: np.ndarray) -> None:
        """Do nothing after columns have moved: here slacks do not depend on heights."""

    def enter(self, u: np.ndarray) -> None:
        """Set the slacks to those of heights u (M, 1) inside the box."""
        limits = 1.0 if self.edges is None else self.edges
        self.slack = np.maximum(limits - SIGNS * u.T, EPS)

    # ------------------------------------------------------------------ a Newton step
    def prepare(self, u: np.ndarray) -> None:
        """Prepare steps from heights u (M, 1)."""
        limits = 1.0 if self.edges is None else self.edges
        self._missed = limits - SIGNS * u.T - self.slack
        self._ratio = self.force / self.slack

    def hessian(self) -> tuple[np.ndarray, None]:
        """Return p₊/s₊ + p₋/s₋, shape (M,)."""
        return self._ratio.sum(axis=0), None

    def push(self, aim: np.ndarray | float, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Return b₊ − b₋ (M, 1), and b, for a step to products ``aim`` that removes a share of the residuals."""
        b = (aim - share * self.force * self._missed) / self.slack - share * self.force
        return (b[0] - b[1])[:, None], b

    def respond(self, b: np.ndarray, change: np.ndarray, share: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the steps of multipliers and slacks for heights that change by ``change`` (M, 1)."""
        signed = SIGNS * change.T
        return b + self._ratio * signed, share * self._missed - signed

    def moved_weights(self, step: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        """Return the weights after a full step, shape (M, 1)."""
        moved = self.force + step[0]
        return (moved[0] - moved[1])[:, None]

    def longest(self, step: tuple[np.ndarray, np.ndarray]) -> tuple[float, float]:
        """Return the longest steps, at most one, that leave multipliers and slacks nonnegative."""
        return _step(self.force, step[0]), _step(self.slack, step[1])

    def reached(self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float) -> float:
        """Return Σ p s after a step."""
        return float(np.vdot(self.force + primal * step[0], self.slack + dual * step[1]))

    def second_order(self, step: tuple[np.ndarray, np.ndarray], goal: float) -> np.ndarray:
        """Return the aim of Mehrotra's corrector: the goal minus the product of the predictor's steps."""
        return goal - step[0] * step[1]

    def correction(
        self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float, goal: float
    ) -> np.ndarray:
        """Return the aim of Gondzio's corrector: products far from the goal after a trial step move towards it."""
        product = (self.force + primal * step[0]) * (self.slack + dual * step[1])
        return np.maximum(np.clip(product, LOW * goal, goal / LOW) - product, -goal / LOW)

    def advance(self, step: tuple[np.ndarray, np.ndarray], primal: float, dual: float) -> None:
        """Take a step."""
        self.force = np.maximum(self.force + primal * step[0], TINY)
        self.slack = np.maximum(self.slack + dual * step[1], EPS)


def _step(values: np.ndarray, steps: np.ndarray) -> float:
    steepest = float((steps / values).min(initial=0.0))
    return -1.0 / steepest if steepest < -1.0 else 1.0


def total(parts: tuple, steps: tuple) -> tuple:
    """Add two steps of the same part, array by array."""
    return tuple(first + second for first, second in zip(parts, steps, strict=True))


Vectors = tuple[np.ndarray, np.ndarray]


class Cones:
    """Slacks and multipliers of ‖u_j‖ ≤ 1 for u_j with k entries; the methods are those of ``Box``.

    Parameters
    ----------
    n_outputs : int
        k.

    Attributes
    ----------
    slack : ndarray of shape (M,)
        s₀.
    u : ndarray of shape (M, k)
        Heights Λᵀa_j that the slacks belong to.
    masses : ndarray of shape (M,)
        τ.
    v : ndarray of shape (M, k)
        Output weights.
    """

    def __init__(self, n_outputs: int):
        self.slack, self.u = np.zeros(0), np.zeros((0, n_outputs))
        self.masses, self.v = np.zeros(0), np.zeros((0, n_outputs))

    @property
    def count(self) -> int:
        """Number of products."""
        return len(self.slack)

    @property
    def complementarity(self) -> float:
        """Σ τ s₀ − v·u."""
        return float(self.masses @ self.slack - np.vdot(self.u, self.v))

    @property
    def weights(self) -> np.ndarray:
        """v, shape (M, k)."""
        return self.v

    @property
    def sizes(self) -> np.ndarray:
        """τ."""
        return self.masses

    # ------------------------------------------------------------------ columns
    def add(self, u: np.ndarray, level: float, floor: float) -> None:
        """Add columns at heights u (m, k) with products ``level`` and distances of at least ``floor`` to the edge."""
        size = _length(u)
        slack = size + np.maximum(np.abs(1.0 - size), floor)
        scale = level / ((slack - size) * (slack + size))
        self.slack = np.concatenate([self.slack, slack])
        self.u = np.concatenate([self.u, u])
        self.masses = np.concatenate([self.masses, scale * slack])
        self.v = np.concatenate([self.v, scale[:, None] * u])

    def keep(self, kept: np.ndarray) -> None:
        """Keep the columns of a mask."""
        self.slack, self.u, self.masses, self.v = (
            self.slack[kept], self.u[kept], self.masses[kept], self.v[kept]
        )  # fmt: skip

    def lift(self, level: float) -> None:
        """Raise masses whose products are far below the level."""
        root = np.sqrt(_det(self.slack, self.u))
        lifted = np.hypot(_length(self.v), LOW * level / root)
        self.masses = np.maximum(self.masses, lifted)

    def centre(self, level: float) -> None:
        """Give every multiplier the product ``level``."""
        scale = level / _det(self.slack, self.u)
        self.masses, self.v = scale * self.slack, scale[:, None] * self.u

    def settle(self, u: np.ndarray) -> None:
        """Take the heights of columns that have moved; keep the distances to the edge."""
        distance = self.slack - _length(self.u)
        self.u = u
        self.slack = _length(u) + np.maximum(distance, EPS)

    def enter(self, u: np.ndarray) -> None:
        """Set the slacks to those of heights u (M, k) inside the balls."""
        self.u = u
        self.slack = np.maximum(1.0, _length(u) * (1.0 + EPS) + EPS)

    # ------------------------------------------------------------------ a Newton step
    def prepare(self, u: np.ndarray) -> None:
        """Prepare steps from heights u (M, k): the scaling, and the scaled point (l0, l1)."""
        self.u = u
        self.slack = np.maximum(self.slack, _length(u) * (1.0 + EPS) + EPS)
        self.masses = np.maximum(self.masses, _length(self.v) * (1.0 + EPS) + TINY)
        self._missed = 1.0 - self.slack
        s_det, z_det = np.sqrt(_det(self.slack, u)), np.sqrt(_det(self.masses, self.v))
        s0, s1 = self.slack / s_det, u / s_det[:, None]
        z0, z1 = self.masses / z_det, -self.v / z_det[:, None]
        gamma = np.sqrt(np.maximum((1.0 + s0 * z0 + _inner(s1, z1)) / 2.0, 0.5))
        self._w0 = (s0 + z0) / (2.0 * gamma)
        self._w1 = (s1 - z1) / (2.0 * gamma)[:, None]
        self._eta = np.sqrt(s_det / z_det)
        self._l0, self._l1 = self._apply(self.masses, -self.v)
        self._products = _jordan(self._l0, self._l1, self._l0, self._l1)
        self._mended = self._invert(self._missed, np.zeros_like(u))

    def _apply(self, x0, x1) -> Vectors:
        inner = _inner(self._w1, x1)
        y0 = self._w0 * x0 + inner
        y1 = x1 + self._w1 * (x0 + inner / (1.0 + self._w0))[:, None]
        return self._eta * y0, self._eta[:, None] * y1

    def _invert(self, x0, x1) -> Vectors:
        inner = _inner(self._w1, x1)
        y0 = self._w0 * x0 - inner
        y1 = x1 + self._w1 * (inner / (1.0 + self._w0) - x0)[:, None]
        return y0 / self._eta, y1 / self._eta[:, None]

    def _divide(self, d0, d1) -> Vectors:
        """Solve λ ∘ x = d for the Jordan product, λ the scaled point."""
        inner = _inner(self._l1, d1)
        x0 = (self._l0 * d0 - inner) / _det(self._l0, self._l1)
        return x0, d1 / self._l0[:, None] - self._l1 * (x0 / self._l0)[:, None]

    def hessian(self) -> tuple[np.ndarray, np.ndarray]:
        """Return η⁻² and w₁: column j adds η⁻²(I + 2w₁w₁ᵀ)."""
        return self._eta**-2.0, self._w1

    def push(self, aim: Vectors | float, share: float) -> tuple[np.ndarray, Vectors]:
        """Return the term subtracted from the right-hand side, (M, k), and the scaled aim of a step; see ``Box``."""
        aim0, aim1 = (aim, np.zeros_like(self.u)) if isinstance(aim, float) else aim
        (l0, l1), (m0, m1) = self._products, self._mended
        scaled = self._divide(aim0 - share * l0, aim1 - share * l1)
        return -self._invert(scaled[0] - share * m0, scaled[1] - share * m1)[1], scaled

    def respond(self, scaled: Vectors, change: np.ndarray, share: float) -> tuple:
        """Return steps (δτ, δv, δs₀, δu) and, scaled, (δz, δs), for heights that change by ``change`` (M, k)."""
        slack = share * self._missed
        s0, s1 = self._invert(slack, change)
        z0, z1 = scaled[0] - s0, scaled[1] - s1
        dtau, dz = self._invert(z0, z1)
        return dtau, -dz, slack, change, z0, z1, s0, s1

    def moved_weights(self, step: tuple) -> np.ndarray:
        """Return the weights after a full step, shape (M, k)."""
        return self.v + step[1]

    def longest(self, step: tuple) -> tuple[float, float]:
        """Return the longest steps, at most one, that stay in the cones."""
        return (
            _longest(self.masses, self.v, step[0], step[1]), _longest(self.slack, self.u, step[2], step[3]),
        )  # fmt: skip

    def reached(self, step: tuple, primal: float, dual: float) -> float:
        """Return Σ τ s₀ − v·u after a step."""
        masses, v = self.masses + primal * step[0], self.v + primal * step[1]
        return float(masses @ (self.slack + dual * step[2]) - np.vdot(self.u + dual * step[3], v))

    def second_order(self, step: tuple, goal: float) -> Vectors:
        """Return the aim of Mehrotra's corrector."""
        c0, c1 = _jordan(step[6], step[7], step[4], step[5])
        return goal - c0, -c1

    def correction(self, step: tuple, primal: float, dual: float, goal: float) -> Vectors:
        """Return the aim of Gondzio's corrector, by the eigenvalues of the products."""
        z0, z1 = self._l0 + primal * step[4], self._l1 + primal * step[5]
        s0, s1 = self._l0 + dual * step[6], self._l1 + dual * step[7]
        c0, c1 = _jordan(z0, z1, s0, s1)
        size = _length(c1)
        axis = c1 / np.maximum(size, TINY)[:, None]
        high, low = (
            np.maximum(np.clip(value, LOW * goal, goal / LOW) - value, -goal / LOW)
            for value in (c0 + size, c0 - size)
        )
        return 0.5 * (high + low), 0.5 * (high - low)[:, None] * axis

    def advance(self, step: tuple, primal: float, dual: float) -> None:
        """Take a step."""
        self.masses, self.v = self.masses + primal * step[0], self.v + primal * step[1]
        self.slack, self.u = self.slack + dual * step[2], self.u + dual * step[3]


def _inner(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("jk,jk->j", a, b)


def _length(a: np.ndarray) -> np.ndarray:
    """Return ‖a_j‖, in half the time of ``np.linalg.norm``."""
    return np.sqrt(np.einsum("jk,jk->j", a, a))


def _det(x0: np.ndarray, x1: np.ndarray) -> np.ndarray:
    size = _length(x1)
    return np.maximum((x0 - size) * (x0 + size), TINY)


def _jordan(a0, a1, b0, b1) -> Vectors:
    """Return the Jordan product of two arrays of cone vectors."""
    return a0 * b0 + _inner(a1, b1), a0[:, None] * b1 + b0[:, None] * a1


@njit(cache=True, nogil=True, error_model="numpy")
def _longest(x0, x1, d0, d1):
    """Return the largest step in [0, 1] that keeps x + t·d in the second-order cones."""
    least = 1.0
    for j in range(len(x0)):
        a, b, square = d0[j] * d0[j], x0[j] * d0[j], 0.0
        for p in range(x1.shape[1]):
            a -= d1[j, p] * d1[j, p]
            b -= x1[j, p] * d1[j, p]
            square += x1[j, p] * x1[j, p]
        size = np.sqrt(square)
        c = max((x0[j] - size) * (x0[j] + size), 0.0)
        # smallest positive root of a t² + 2 b t + c, with c ≥ 0
        under = b * b - a * c
        if a < 0.0 or (b < 0.0 and under >= 0.0):
            step = c / (np.sqrt(max(under, 0.0)) - b)
            if 0.0 <= step < least:
                least = step
        if d0[j] < 0.0 and -x0[j] / d0[j] < least:
            least = -x0[j] / d0[j]
    return least
