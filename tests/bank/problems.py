"""The bank: tables × losses × potentials × numbers of outputs × output biases, and what optimality means for each.

Every problem is

    minimise  C(F) + λ (κ Σ_j ‖v_j‖ ω(w_j) [+ ‖B‖²/β²]),   F = Σ_j σ(X̃w_j) v_jᵀ + 1Bᵀ,

κ = 2 for the variation norm (‖W‖² of the balanced network) and 1 for label noise; for interpolation C is 0 on F = Y
and λ = 1. With Λ = −U/(λκ) the dual is  maximise −C*(−λκΛ) [− λβ²‖Λᵀ1‖²]  over h(Λ) ≤ 1 [and Λᵀ1 = 0].
Values in closed form are known; of the others any network and dual that ``checks.py`` finds optimal tell them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import hypot, sqrt

import numpy as np
from scipy.special import log_softmax, xlogy

import covopt
from tests.bank.arrangement import Arrangement
from tests.cases import cases

BINARY = ("logistic", "hinge", "squared-hinge")
LAM = 0.01

TARGETS = np.array(
    [[3.3, -0.9, 0.7], [1.4, 0.6, 0.2], [2.9, -0.2, -1.2], [0.6, 0.3, 0.5], [2.2, -1.5, 1.6], [3.0, 0.1, -0.3]]
)  # fmt: skip
LABELS = {2: [0, 1, 0, 1, 1, 0], 3: [0, 1, 2, 1, 2, 0]}
TABLES: dict[str, tuple[list[list[float]], float]] = {
    "line": ([[-2.0], [-1.1], [-0.3], [0.4], [1.3], [2.2]], 1.0),
    "plane": ([[0.3, 1.2], [-1.1, 0.4], [0.8, -0.7], [-0.5, -1.3], [1.6, 0.9], [-0.2, 0.1]], 0.7),
    # without a bias: two rows on a ray, one opposite to them
    "rays": ([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 2.0]], 0.0),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """One problem; ``Y`` is what covopt is given, ``targets`` what the formulas use."""

    name: str
    X: np.ndarray
    Y: np.ndarray
    bias: float
    output_bias: str = "none"
    loss: str | None = None  # None: interpolation
    potential: str = "variation"
    lam: float = 1.0
    known: float | None = None  # the value in closed form
    unique: bool | None = None

    # ------------------------------------------------------------------ data
    @cached_property
    def rows(self) -> np.ndarray:
        return np.column_stack([self.X, np.full(len(self.X), self.bias)]) if self.bias > 0 else self.X

    @cached_property
    def targets(self) -> np.ndarray:
        """Numbers, ±1 or one-hot rows, (N, k)."""
        if self.loss in BINARY:
            return np.where(self.Y.max() > self.Y, -1.0, 1.0)[:, None]
        if self.loss == "softmax-cross-entropy":
            return np.eye(int(self.Y.max()) + 1)[self.Y]
        return self.Y.reshape(len(self.Y), -1).astype(float)

    @property
    def kappa(self) -> float:
        return 2.0 if self.potential == "variation" else 1.0

    @property
    def price(self) -> float:
        """What a unit of Σ‖v‖ω costs in the objective, λκ."""
        return self.lam * self.kappa

    @property
    def arrangement(self) -> Arrangement:
        return arrangement(self.rows.tobytes(), self.rows.shape)

    # ------------------------------------------------------------------ the loss
    def value(self, F: np.ndarray) -> float:
        """C(F); for interpolation 0, since the points are checked by themselves."""
        Y, N = self.targets, len(self.targets)
        if self.loss is None:
            return 0.0
        if self.loss == "squared":
            return float(((F - Y) ** 2).sum() / N)
        if self.loss == "huber":
            size = np.abs(F - Y)
            return float(np.where(size <= 1, 0.5 * size**2, size - 0.5).sum() / N)
        if self.loss == "softmax-cross-entropy":
            return float(-(log_softmax(F, axis=1) * Y).sum() / N)
        margin = Y * F
        terms = {
            "logistic": np.logaddexp(0.0, -margin),
            "hinge": np.maximum(1.0 - margin, 0.0),
            "squared-hinge": np.maximum(1.0 - margin, 0.0) ** 2,
        }
        return float(terms[self.loss].sum() / N)

    def clip(self, U: np.ndarray) -> np.ndarray:
        """Return the nearest point of the domain of C*, for duals that rounding took out of it."""
        Y, s = self.targets, 1.0 / len(self.targets)
        if self.loss == "huber":
            return np.clip(U, -s, s)
        if self.loss in ("logistic", "hinge"):
            return -Y * np.clip(-Y * U, 0.0, s)
        if self.loss == "squared-hinge":
            return -Y * np.maximum(-Y * U, 0.0)
        if self.loss == "softmax-cross-entropy":
            chances = np.maximum(Y + U / s, 0.0)
            return s * (chances / chances.sum(axis=1, keepdims=True) - Y)
        return U

    def conjugate(self, U: np.ndarray) -> float:
        """C*(U) for U in its domain."""
        Y, s = self.targets, 1.0 / len(self.targets)
        linear = float((U * Y).sum())
        if self.loss in (None, "hinge"):
            return linear
        if self.loss in ("squared", "squared-hinge"):
            return linear + float((U**2).sum() / (4 * s))
        if self.loss == "huber":
            return linear + float((U**2).sum() / (2 * s))
        chances = -Y * U / s if self.loss == "logistic" else Y + U / s
        terms = xlogy(chances, np.maximum(chances, 0.0))
        if self.loss == "logistic":
            terms = terms + xlogy(1 - chances, np.maximum(1 - chances, 0.0))
        return float(s * terms.sum())

    # ------------------------------------------------------------------ the dual
    def charge(self, B: np.ndarray) -> float:
        """What the output bias adds to ‖W‖²."""
        return float((B**2).sum()) / self.bias**2 if self.output_bias == "penalized" else 0.0

    def dual_value(self, dual: np.ndarray) -> float:
        """Value of a feasible Λ (N, k): a lower bound of the problem."""
        value = -self.conjugate(self.clip(-self.price * dual))
        if self.output_bias == "penalized":
            value -= self.lam * self.bias**2 * float((dual.sum(axis=0) ** 2).sum())
        return value

    # ------------------------------------------------------------------ covopt
    @property
    def options(self) -> dict:
        """Keyword arguments that ``min_norm`` and ``fit`` share."""
        return {"bias": self.bias, "output_bias": self.output_bias, "potential": self.potential}

    def solve(self, **options) -> covopt.Solution:
        if self.loss is None:
            return covopt.min_norm(self.X, self.Y, **{**self.options, **options})
        return covopt.fit(self.X, self.Y, lam=self.lam, loss=self.loss, **{**self.options, **options})

    def unit(self, value: float) -> float:
        """Return what errors of a value are measured against."""
        size = np.abs(self.targets).max() / max(np.linalg.norm(self.rows, axis=1).max(), 1e-300)
        return max(value, 1e-3 * size, 1e-6)


@cache
def arrangement(rows: bytes, shape: tuple[int, int]) -> Arrangement:
    return Arrangement(np.frombuffer(rows).reshape(shape))


def _combinations() -> list[Problem]:
    found = []
    for table, (points, bias) in TABLES.items():
        X = np.array(points)
        numbers = TARGETS
        if table == "rays":  # one function of the ray: y(2x) = 2 y(x), and linear up to an even part
            numbers = (
                np.maximum(X @ np.array([[1.0, -0.7, 0.2, -1.0], [0.4, 1.0, -1.0, -0.3]]), 0) @ TARGETS[:4]
            )
        for loss, k in [
            *((name, k) for name in (None, "squared", "huber") for k in (1, 2, 3)),
            *((name, 1) for name in BINARY), ("softmax-cross-entropy", 2), ("softmax-cross-entropy", 3),
        ]:  # fmt: skip
            if loss in BINARY:
                Y = np.array(LABELS[2])
            elif loss == "softmax-cross-entropy":
                Y = np.array(LABELS[k])
            else:
                Y = numbers[:, 0] if k == 1 else numbers[:, :k]
            # label noise is defined for one output, and for a bias that is absent or costs nothing
            potentials = ("variation", "label-noise", "label-noise-exact") if k == 1 else ("variation",)
            for potential in potentials:
                for output_bias in ("none", "penalized", "free") if bias else ("none",):
                    if potential != "variation" and output_bias == "penalized":
                        continue
                    name = f"{table}/{loss or 'interpolation'}/{potential}/{k}/{output_bias}"
                    lam = 1.0 if loss is None else LAM
                    found.append(Problem(name, X, Y, bias, output_bias, loss, potential, lam))
    return found


LINE = [[-1.0], [0.0], [1.0]]
GRID = [[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)]
COMPASS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]


def closed(name, X, y, bias, cost, output_bias="none", unique=None, note=""):
    """An interpolation whose value is known: ‖W‖² = 2 Σ|c_j|‖w_j‖ (+ b² with a penalised output bias b = B/β).

    The note is the derivation; "dual" in it is a λ with h(λ) = 1 that attains half the cost (penalised:
    2⟨λ,y⟩ − β²(1ᵀλ)² = cost).
    """
    X, y = np.array(X, dtype=float), np.array(y, dtype=float)
    return Problem(f"closed/{name}", X, y, bias, output_bias, known=cost, unique=unique)


CLOSED_FORMS: list[Problem] = cases(
    "problems with closed forms", closed=closed, COMPASS=COMPASS, GRID=GRID, LINE=LINE, hypot=hypot, sqrt=sqrt
)
COMBINATIONS = _combinations()
PROBLEMS = [*CLOSED_FORMS, *COMBINATIONS]
BY_NAME = {problem.name: problem for problem in PROBLEMS}
