"""Two ways to solve the small linear programs of :mod:`covopt.conic.cell_lp`: HiGHS itself, and cvxpy."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from covopt.arrangement.highs import linear_program
from covopt.checks.optional import required
from covopt.conic.backends import (
    BACKENDS,
    Backend,
    available_backends,
    resolve_backend,
    run_backend,
    value_of,
)
from covopt.errors import InputError, SolverError


class Face(Protocol):
    """A polytope {t : start + K t ≥ 0} that holds t = 0, asked for one objective after another."""

    def maximise(self, objective: np.ndarray) -> np.ndarray:
        """Return a maximiser t of ⟨objective, t⟩."""
        ...


class LinearBackend(Protocol):
    """What :func:`covopt.cell_lp` asks of a solver."""

    name: str

    def minimise_l1(self, matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z and λ of min ‖z‖₁ s.t. matrix z = right; λ has |matrixᵀλ| ≤ 1."""
        ...

    def open_face(self, kernel: np.ndarray, start: np.ndarray) -> Face:
        """Return the polytope {t : start + kernel t ≥ 0}."""
        ...


def make_linear_backend(name: str, *, tol: float) -> LinearBackend:
    """Return the linear-programming backend of this name, in any case."""
    if isinstance(name, str) and name.upper() == "HIGHS":
        return HighsBackend()
    if not isinstance(name, str) or name.upper() not in BACKENDS:
        names = ", ".join(("highs", *available_backends("linear")))
        raise InputError(f"unknown solver {name!r}; available here: {names}")
    return CvxpyBackend(resolve_backend(name, cone="linear"), tol)


class HighsBackend:
    """HiGHS through its own interface, so that the basis survives a change of objective."""

    name = "HIGHS"

    def minimise_l1(self, matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z and λ of min ‖z‖₁ s.t. matrix z = right."""
        n_columns = matrix.shape[1]
        both = np.hstack([matrix, -matrix])
        model = _highs_model(both, np.ones(2 * n_columns), np.zeros(2 * n_columns), right, right)
        parts = _run(model)
        return parts[:n_columns] - parts[n_columns:], np.array(model.getSolution().row_dual)

    def open_face(self, kernel: np.ndarray, start: np.ndarray) -> _HighsFace:
        """Return the polytope {t : start + kernel t ≥ 0}, one warm model."""
        dim = kernel.shape[1]
        free = np.full(dim, -np.inf)
        model = _highs_model(kernel, np.zeros(dim), free, -start, np.full(len(start), np.inf))
        model.setOptionValue("simplex_strategy", 4)  # primal: only the objective changes
        return _HighsFace(model, dim)


class _HighsFace:
    def __init__(self, model: Any, dim: int):
        self._model = model
        self._indices = np.arange(dim, dtype=np.int32)

    def maximise(self, objective: np.ndarray) -> np.ndarray:
        """Return a maximiser t of ⟨objective, t⟩, starting from the last basis."""
        self._model.changeColsCost(len(objective), self._indices, -objective)
        return _run(self._model)


def _highs_model(
    matrix: np.ndarray, cost: np.ndarray, lower: np.ndarray, row_lower: np.ndarray, row_upper: np.ndarray
) -> Any:
    bounds, sides = (lower, np.full(len(cost), np.inf)), (row_lower, row_upper)
    return linear_program(
        cost, matrix, sides, bounds, solver="simplex", primal_feasibility_tolerance=1e-10,
        dual_feasibility_tolerance=1e-10,
    )  # fmt: skip


def _run(model: Any) -> np.ndarray:
    import highspy

    model.run()
    status = model.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverError(f"HiGHS ended with status {model.modelStatusToString(status)!r}")
    return np.array(model.getSolution().col_value)


class CvxpyBackend:
    """Any backend of :data:`covopt.conic.backends.BACKENDS`."""

    def __init__(self, backend: Backend, tol: float):
        self.name = backend.name
        self._backend = backend
        self._tol = tol

    def minimise_l1(self, matrix: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return z and λ of min ‖z‖₁ s.t. matrix z = right."""
        cp = required("cvxpy", "a cone program", "conic")
        masses = cp.Variable(matrix.shape[1])
        interpolation = matrix @ masses == right
        run_backend(cp.Problem(cp.Minimize(cp.norm1(masses)), [interpolation]), self._backend, tol=self._tol)
        return value_of(masses), -np.asarray(interpolation.dual_value)

    def open_face(self, kernel: np.ndarray, start: np.ndarray) -> _CvxpyFace:
        """Return the polytope {t : start + kernel t ≥ 0}, compiled once."""
        return _CvxpyFace(kernel, start, self._backend, self._tol)


class _CvxpyFace:
    def __init__(self, kernel: np.ndarray, start: np.ndarray, backend: Backend, tol: float):
        cp = required("cvxpy", "a cone program", "conic")
        self._backend, self._tol = backend, tol
        self._objective = cp.Parameter(kernel.shape[1])
        self._point = cp.Variable(kernel.shape[1])
        # In units of the face itself: its size can be far below 1, where the tolerance is absolute.
        self._size = max(float(start.max()), 1e-300)
        inside = start / self._size + kernel @ self._point >= 0
        self._problem = cp.Problem(cp.Maximize(self._objective @ self._point), [inside])

    def maximise(self, objective: np.ndarray) -> np.ndarray:
        """Return a maximiser t of ⟨objective, t⟩."""
        self._objective.value = objective
        run_backend(self._problem, self._backend, tol=self._tol)
        return self._size * value_of(self._point)
