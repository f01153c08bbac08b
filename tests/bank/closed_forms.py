"""Problems whose optimal value is known in closed form, and the KKT checks that every solver must pass.

``cost`` is ‖W‖² = 2 Σ|c_j|‖w_j‖ (+ b² with a penalised output bias b = B/β). Each note is the derivation;
"dual" in it is a λ with h(λ) = 1 that attains half the cost (penalised: 2⟨λ,y⟩ − β²(1ᵀλ)² = cost).
Everything here is brute force and shares no code with the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, product
from math import hypot, sqrt

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class ProblemCase:
    name: str
    X: list[list[float]] | np.ndarray
    y: list[float] | np.ndarray
    bias: float
    cost: float | None  # None: not known in closed form, a reference solver gives it
    output_bias: str = "none"
    unique: bool | None = None  # of the network, on the data's span; None: not claimed
    note: str = ""

    @property
    def lifted(self) -> np.ndarray:
        inputs = np.asarray(self.X, dtype=float)
        return np.column_stack([inputs, np.full(len(inputs), self.bias)]) if self.bias > 0 else inputs

    @property
    def targets(self) -> np.ndarray:
        return np.asarray(self.y, dtype=float)

    def cost_of(self, weights: np.ndarray, offset: float = 0.0) -> float:
        """‖W‖² of unit neurons with these output weights and the offset B."""
        penalty = (offset / self.bias) ** 2 if self.output_bias == "penalized" else 0.0
        return 2.0 * float(np.abs(weights).sum()) + penalty

    def bound_of(self, dual: np.ndarray) -> float:
        """Dual value in units of ‖W‖²."""
        penalty = (self.bias * dual.sum()) ** 2 if self.output_bias == "penalized" else 0.0
        return 2.0 * float(dual @ self.targets) - penalty


LINE = [[-1.0], [0.0], [1.0]]
GRID = [[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 0.0, 1.0)]
COMPASS = [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]

CASES: list[ProblemCase] = [
    ProblemCase("one-sample", [[3, 4]], [2], 0.0, 0.8, unique=True, note="w along x̃: 2|y|/‖x̃‖ = 4/5"),
    ProblemCase("one-sample-bias", [[3]], [-2], 4.0, 0.8, unique=True, note="x̃ = (3, 4): 4/5"),
    ProblemCase(
        "one-sample-penalized-small", [[3]], [2], 4.0, 0.25, "penalized", True,
        note="min 2|c| + b², 5c + 4b = 2: c = 0, b = 1/2; dual λ = b/β = 1/8, h = 5/8",
    ),
    ProblemCase(
        "one-sample-penalized-large", [[3]], [10], 4.0, 3.36, "penalized", True,
        note="2c + b², 5c + 4b = 10: b = 4/5, c = 1.36; dual λ = 1/5, h = 1, 4 − 0.64",
    ),
    ProblemCase("one-sample-free", [[3]], [10], 4.0, 0.0, "free", True, note="B = y"),
    ProblemCase(
        "identity-mixed-signs", np.eye(4), [3, 4, -5, 12], 0.0, 36.0, unique=True,
        note="2(‖y₊‖ + ‖y₋‖) = 2(13 + 5)",
    ),
    ProblemCase(
        "identity-one-hot", np.eye(5), [1, 1, 1, 0, 0], 0.0, 2 * sqrt(3), unique=True, note="2√m with m ones"
    ),
    ProblemCase(
        "identity-two-classes", np.eye(5), [1, 1, -1, -1, 0], 0.0, 4 * sqrt(2), unique=True,
        note="2(√2 + √2)"
    ),
    ProblemCase("antipodal-equal", [[1], [-1]], [1, 1], 0.0, 4.0, unique=True, note="a neuron per ray"),
    ProblemCase("antipodal-opposite", [[2], [-2]], [2, -3], 0.0, 5.0, unique=True, note="2(2 + 3)/2"),
    ProblemCase(
        "ray-copies", [[1, 2], [2, 4], [0.5, 1]], [1, 2, 0.5], 0.0, 2 / sqrt(5), unique=True,
        note="one sample in effect: 2·1/√5",
    ),
    ProblemCase(
        "two-rays", [[-2], [-1], [1], [3]], [2, 1, 3, 9], 0.0, 8.0, unique=True,
        note="a slope per ray: 2(1 + 3)"
    ),
    ProblemCase(
        "orthogonal-lifted-pair", [[1], [-1]], [3, 4], 1.0, 5 * sqrt(2), unique=True,
        note="x̃ = (1, 1), (−1, 1) is √2 times a rotation: 2·5/√2",
    ),
    ProblemCase(
        "orthogonal-lifted-pair-signs", [[1], [-1]], [3, -4], 1.0, 7 * sqrt(2), unique=True,
        note="2(3 + 4)/√2",
    ),
    ProblemCase(
        "duplicates", [[1], [-1], [1], [-1], [1]], [3, 4, 3, 4, 3], 1.0, 5 * sqrt(2), unique=True,
        note="orthogonal-lifted-pair, samples repeated",
    ),
    ProblemCase(
        "rank-deficient", [[1, 2, 2], [2, -2, 1]], [3, 4], 0.0, 10 / 3, unique=True,
        note="orthogonal rows of norm 3 in ℝ³: 2·5/3",
    ),
    ProblemCase(
        "zero-rows", [[1, 2, 2], [0, 0, 0], [2, -2, 1], [0, 0, 0]], [3, 0, -4, 0], 0.0, 14 / 3, unique=True,
        note="2(3 + 4)/3; zero rows constrain nothing",
    ),
    ProblemCase("zero-targets", LINE, [0, 0, 0], 1.0, 0.0, unique=True, note="W = 0"),
    ProblemCase("zero-targets-penalized", LINE, [0, 0, 0], 1.0, 0.0, "penalized", True, note="W = 0"),
    ProblemCase(
        "two-points", [[0], [1]], [0, 1], 1.0, 2.0, unique=True,
        note="σ(x); dual (−1, 1): g = (1, 0) where both are active, σ(w₁ + w₂) with w₂ ≤ 0 peaks there too",
    ),
    ProblemCase(
        "absolute-value", LINE, [1, 0, 1], 1.0, 4.0, unique=True,
        note="σ(x) + σ(−x); dual (1, −1, 1): w₁ on w₁ ≥ w₂ ≥ 0, w₂ on w₂ ≥ |w₁|, symmetric",
    ),
    ProblemCase(
        "hat", LINE, [0, 1, 0], 1.0, 6.0, unique=True,
        note="σ(β) − σ(x) − σ(−x); dual (−1, 3, −1): w₂ at (0, 1), −w₁ at (±1, 0)",
    ),
    ProblemCase(
        "hat-penalized", LINE, [0, 1, 0], 1.0, 5.0, "penalized", True,
        note="a + b = 1: 2a + b² + 4 least at b = 1; dual (−1, 3, −1): 6 − 1",
    ),
    ProblemCase(
        "hat-free", LINE, [0, 1, 0], 1.0, 4.0, "free", True,
        note="1 − σ(x) − σ(−x); dual (−1, 2, −1) sums to 0"
    ),
    ProblemCase(
        "affine", LINE, [0, 1, 2], 1.0, 2 * sqrt(2), unique=True,
        note="σ(x + 1); dual (0, 0, 1/√2), σ(w₁ + w₂)/√2"
    ),
    ProblemCase(
        "affine-free", LINE, [4, 5, 6], 1.0, 2 * sqrt(2), "free", False,
        note="σ(x + 1) + 4 or 6 − σ(1 − x); dual (−1, 0, 1)/√2 peaks at (1, 1)/√2",
    ),
    ProblemCase("constant-free", LINE, [7, 7, 7], 1.0, 0.0, "free", True, note="B = 7"),
    ProblemCase(
        "constant-penalized-small", LINE, [0.5, 0.5, 0.5], 1.0, 0.25, "penalized", True,
        note="b = t for t ≤ 1: t²; dual (0, t, 0)",
    ),
    ProblemCase(
        "constant-penalized-large", LINE, [3, 3, 3], 1.0, 5.0, "penalized", True,
        note="b = 1 and a neuron (0, 1) of weight t − 1: 2t − 1; dual (0, 1, 0)",
    ),
    ProblemCase(
        "constant-penalized-bias-2", LINE, [6, 6, 6], 2.0, 5.0, "penalized", True,
        note="2a + b², 2a + 2b = 6: b = 1, a = 2; dual (0, 1/2, 0): 6 − 1",
    ),
    ProblemCase(
        "parallel-rows", [*COMPASS, [2, 0], [0, -3]], [1, 2, -1, -1, 2, -3], 0.0, 2 * (sqrt(5) + sqrt(2)),
        unique=True,
        note="neighbouring rays of one sign share a neuron: ‖(1, 2)‖ + ‖(1, 1)‖",
    ),
    ProblemCase(
        "parallel-rows-not-unique", COMPASS, [1, 2, 1, 1], 0.0, 2 * sqrt(13), unique=False,
        note="dual (c, s, c, s): max 2c + 3s on the circle; the four quadrants' atoms are dependent",
    ),
    ProblemCase(
        "grid-aligned", GRID, [max(a + b + 1, 0) for a, b in GRID], 1.0, 2 * sqrt(3), unique=True,
        note="y = σ(X̃ x̃_k): dual e_k/‖x̃_k‖ gives 2‖x̃_k‖, here x̃_k = (1, 1, 1)",
    ),
    ProblemCase(
        "grid-aligned-no-bias", GRID, [max(a - b, 0) for a, b in GRID], 0.0, 2 * hypot(1, 1), unique=True,
        note="the same with x̃_k = (1, −1), antiparallel rows and a zero row",
    ),
]  # fmt: skip


def random_cases(count: int, seed: int = 0) -> list[ProblemCase]:
    """Small instances without closed form: D = 1…4, every output bias, every third one on integer points."""
    rng = np.random.default_rng(seed)
    cases = []
    for number in range(count):
        dim = 1 + number % 4
        bias = 0.0 if dim == 1 or number % 5 == 4 else float(rng.choice([0.5, 1.0, 2.0]))
        output_bias = "none" if bias == 0 else ("none", "penalized", "free")[(number // 4) % 3]
        n_samples = int(rng.integers(3, {1: 6, 2: 10, 3: 9, 4: 8}[dim]))
        d = dim - (bias > 0)
        if number % 3 == 2:
            inputs = rng.integers(-2, 3, size=(n_samples, d)).astype(float)
        else:
            inputs = rng.standard_normal((n_samples, d))
        # the targets of a network exist for every arrangement of the points, degenerate ones included
        network = rng.standard_normal((5, dim)), rng.standard_normal(5)
        case = ProblemCase(f"random-{number}", inputs, np.zeros(n_samples), bias, None, output_bias)
        targets = np.maximum(case.lifted @ network[0].T, 0) @ network[1]
        if bias > 0 and number % 3 != 2:
            targets = rng.standard_normal(n_samples)
        cases.append(ProblemCase(case.name, inputs, targets, bias, None, output_bias))
    return cases


def all_cells(rows: np.ndarray) -> np.ndarray:
    """Every open cell of the arrangement, (S, N) bool, by the vertices: slow, and right for degenerate rows.

    Each cell has an extreme ray; around a ray the cells are those of the rows that vanish on it.
    """
    rows = np.asarray(rows, dtype=float)
    left, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    rank = int((sizes > 1e-9 * max(sizes.max(initial=0.0), 1.0)).sum())
    rows = left[:, :rank] * sizes[:rank]
    if rank == 0:
        return np.zeros((1, len(rows)), dtype=bool)
    if rank == 1:
        return np.array([rows[:, 0] > 1e-9, rows[:, 0] < -1e-9])
    rows = np.linalg.solve(np.diag(sizes[:rank]), rows.T).T  # whitened: one tolerance fits all
    norms = np.linalg.norm(rows, axis=1)
    rows[norms > 1e-9] /= norms[norms > 1e-9, None]
    found = set()
    for subset in combinations(np.flatnonzero(norms > 1e-9), rank - 1):
        _, spread, axes = np.linalg.svd(rows[list(subset)])
        if spread[-1] < 1e-9:
            continue
        values = rows @ axes[-1]
        on_it = np.flatnonzero(np.abs(values) <= 1e-9)
        lined = on_it[norms[on_it] > 1e-9]
        local = np.array(list(product((False, True), repeat=rank - 1)))
        if len(lined) > rank - 1:
            local = all_cells(rows[lined])
        for sign, bits in product((1, -1), local):
            pattern = sign * values > 1e-9
            pattern[lined] = bits
            found.add(pattern.tobytes())
    return np.array([np.frombuffer(bits, dtype=bool) for bits in sorted(found)])


def gauge(rows: np.ndarray, dual: np.ndarray, cells: np.ndarray | None = None) -> float:
    """h(λ): for each cell and sign the norm of the projection of ±g_s on the cone C_s."""
    best = 0.0
    for pattern in all_cells(rows) if cells is None else cells:
        gradient = rows.T @ (pattern * dual)
        if np.linalg.norm(gradient) <= best:
            continue
        normals = np.where(pattern, 1.0, -1.0) * rows.T
        for sign in (1.0, -1.0):
            # Moreau: what is left of g after its projection on the polar cone, spanned by −normals.
            _, distance = nnls(-normals, sign * gradient)
            best = max(best, distance)
    return best


def check_kkt(
    case: ProblemCase,
    neurons: np.ndarray,
    weights: np.ndarray,
    offset: float,
    dual: np.ndarray,
    tol: float,
    *,
    cells: np.ndarray | None = None,
) -> None:
    """Assert primal and dual feasibility, equal values and complementarity, in the user's units.

    Parameters
    ----------
    neurons : ndarray of shape (m, D)
        Unit.
    weights : ndarray of shape (m,)
    offset : float
        B, added to every output.
    dual : ndarray of shape (N,)
    tol : float
        Relative to the size of the targets, resp. to the cost.
    """
    rows, targets = case.lifted, case.targets
    neurons = np.reshape(neurons, (-1, rows.shape[1]))
    size = np.abs(targets).max() or 1.0
    np.testing.assert_allclose(np.linalg.norm(neurons, axis=1), 1.0, atol=1e-9, err_msg=f"{case.name}: unit")
    atoms = np.maximum(rows @ neurons.T, 0.0)
    np.testing.assert_allclose(
        atoms @ weights + offset, targets, rtol=0, atol=tol * size, err_msg=f"{case.name}: interpolation"
    )
    assert case.output_bias != "none" or offset == 0, f"{case.name}: an offset although there is none"

    height = gauge(rows, dual, cells)
    assert height <= 1 + tol, f"{case.name}: h(λ) = {height}"
    if case.output_bias == "free":
        assert abs(dual.sum()) <= tol * max(np.abs(dual).max(), 1), f"{case.name}: 1ᵀλ = {dual.sum()}"

    cost, bound = case.cost_of(weights, offset), case.bound_of(dual)
    # targets of size one cost of this order: what zero is measured against
    unit = max(cost, 1e-3 * size / max(np.linalg.norm(rows, axis=1).max(), 1e-300))
    assert abs(cost - bound) <= tol * unit, f"{case.name}: cost {cost}, bound {bound}"
    if case.cost is not None:
        assert abs(cost - case.cost) <= tol * unit, f"{case.name}: cost {cost}, known {case.cost}"

    slack = np.abs(weights) - weights * (atoms.T @ dual)
    assert np.abs(slack).sum() <= tol * unit, f"{case.name}: complementarity {np.abs(slack).sum()}"
    if case.output_bias == "penalized":
        # cost − bound = 2 Σ(|c_j| − c_j⟨λ, a_j⟩) + (b − β1ᵀλ)²: a gap leaves the offset its square root
        stationarity = offset / case.bias - case.bias * dual.sum()
        assert abs(stationarity) <= sqrt(tol * unit), f"{case.name}: b ≠ β1ᵀλ"
