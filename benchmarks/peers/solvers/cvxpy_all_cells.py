"""The convex reformulation as one conic program over all cells, through cvxpy.

    min  C(Σ_s diag(s) X̃ (p_s − q_s) + β b) + λ (2 Σ_s ‖p_s‖ + ‖q_s‖ + b²)   s.t.  p_s, q_s ∈ C_s

(Pilanci and Ergen 2020, with all cells instead of a sample), or for interpolation the norm alone. Only the rows that
bound a cell become constraints, the smallest exact form. Only the program is timed, not the cells and matrices.
"""

import cvxpy as cp
import numpy as np
from benchmark_utils.networks import as_result, nothing
from benchmark_utils.stopping import ToleranceSolver
from scipy import sparse

import covopt
from covopt.conic.programs import resolve_backend, run_backend, why_unavailable
from covopt.errors import SolverError
from covopt.exact.rank import merge_lines

MOST_CELLS = 5000
TIME_LIMIT_S = 600.0
NEGLIGIBLE = 1e-9  # relative to the largest neuron: smaller ones are the solver's approximation of zero


class Solver(ToleranceSolver):
    """One conic program with every cell."""

    name = "cvxpy-all-cells"
    parameters = {"backend": ["CLARABEL", "SCS", "MOSEK"]}
    requirements = ["pip::cvxpy", "pip::clarabel", "pip::scs"]

    def skip(self, X, y, lam, lam_max, loss, bias, output_bias):
        reason, n_cells = why_unavailable(self.backend), covopt.count_cells(X, bias=bias)
        if reason is None and n_cells > MOST_CELLS:
            reason = f"{n_cells} cells, more than {MOST_CELLS}"
        return reason is not None, reason

    def set_objective(self, X, y, lam, lam_max, loss, bias, output_bias):
        self.y, self.lam, self.loss, self.bias, self.has_offset = y, lam, loss, bias, output_bias != "none"
        lifted = np.column_stack([X, np.full(len(X), bias)])
        patterns = covopt.enumerate_cells(X, bias=bias).patterns
        self.shape = (2 * len(patterns), lifted.shape[1])
        self.atoms = atom_matrix(lifted, patterns)
        self.cone = cell_matrix(lifted, patterns, facets(lifted, patterns))

    def warm_up(self):
        point = cp.Variable(2)
        program = cp.Problem(cp.Minimize(cp.norm(point) + cp.sum_squares(point)), [cp.sum(point) == 1])
        run_backend(program, resolve_backend(self.backend), tol=1e-4)  # cvxpy loads its interfaces here

    def run(self, tol):
        if tol >= 1:
            self.result = nothing(self.shape[1])
            return
        directions = cp.Variable(self.shape)
        norms = cp.Variable(self.shape[0])
        flat = cp.reshape(directions, (self.shape[0] * self.shape[1],), order="C")
        fitted, price = self.atoms @ flat, 2.0 * cp.sum(norms)
        offset = cp.Variable() if self.has_offset else None
        if offset is not None:
            fitted, price = fitted + self.bias * offset, price + cp.square(offset)
        # Clarabel fails for the mean of the logistic loss; the sum is better scaled
        within, value = [self.cone @ flat >= 0, cp.SOC(norms, directions, axis=1)], price
        if self.loss == "interpolation":
            within.append(fitted == self.y)
        elif self.loss == "squared":
            value = cp.sum_squares(fitted - self.y) + len(self.y) * self.lam * price
        else:
            value = cp.sum(cp.logistic(-cp.multiply(self.y, fitted))) + len(self.y) * self.lam * price
        program = cp.Problem(cp.Minimize(value), within)
        try:
            run_backend(program, resolve_backend(self.backend), tol=tol, time_limit_s=TIME_LIMIT_S)
        except SolverError as error:  # keep the network of the previous tolerance
            self.result = {**self.result, "note": str(error)}
            return
        points, signs = directions.value, np.repeat([1.0, -1.0], self.shape[0] // 2)
        size = np.linalg.norm(points, axis=1)
        kept = size > NEGLIGIBLE * size.max(initial=0.0)
        root = np.sqrt(size[kept])
        shift, note = 0.0 if offset is None else float(offset.value), program.status
        self.result = as_result(
            (points[kept] / root[:, None], signs[kept] * root, shift), note="" if note == "optimal" else note
        )


def atom_matrix(rows: np.ndarray, patterns: np.ndarray) -> sparse.csr_array:
    """Return the matrix (N, 2Sr) of (p, q) ↦ Σ_s diag(s) Z (p_s − q_s), both stacked cell by cell."""
    active = [sparse.csr_array(pattern[:, None] * rows) for pattern in patterns]
    return sparse.hstack([*active, *(-each for each in active)], format="csr")


def cell_matrix(rows: np.ndarray, patterns: np.ndarray, needed: np.ndarray) -> sparse.csr_array:
    """Return G such that G(p, q) ≥ 0 iff every p_s and q_s lies in its closed cell, from the needed rows (S, N)."""
    signed = [
        (np.where(s, 1.0, -1.0)[:, None] * rows)[kept] for s, kept in zip(patterns, needed, strict=True)
    ]
    return sparse.block_diag([*signed, *signed], format="csr")


def facets(rows: np.ndarray, patterns: np.ndarray) -> np.ndarray:
    """Return which rows bound which cells, shape (S, N), one row for each hyperplane.

    A hyperplane carries a facet of a cell exactly when flipping the signs of the rows on it, and of no other
    row, gives another cell. ``patterns`` must therefore hold all cells.
    """
    known, needed = {pattern.tobytes() for pattern in patterns}, np.zeros(patterns.shape, dtype=bool)
    left = np.flatnonzero(rows.any(axis=1))
    line_of = merge_lines(rows[left])[1]
    for number in np.unique(line_of):
        line, flipped = left[line_of == number], patterns.copy()
        flipped[:, line] ^= True
        needed[:, line[0]] = [pattern.tobytes() in known for pattern in flipped]
    return needed
