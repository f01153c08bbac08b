"""Minimum-norm corrections: min ‖x‖ s.t. Mᵀx = r for a tall M, as accurate as M's condition allows."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq, qr, solve_triangular

from covopt.solvers.gram import weighted_gram


class LeastNorm:
    """Solve min ‖x‖ s.t. Mᵀ x = r repeatedly, in the least-squares sense where there is no such x.

    A Cholesky factor of MᵀM is cheap and mostly enough; where its squared condition number leaves a residual, a QR
    factor of M takes over.

    Parameters
    ----------
    matrix : ndarray of shape (m, n)
        M; with fewer rows than columns x is the least-squares solution.
    """

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix
        gram = weighted_gram(matrix, np.ones(len(matrix)))
        gram[np.diag_indices_from(gram)] += 1e-14 * float(np.trace(gram)) / len(gram)
        self._orthogonal: np.ndarray | None = None
        self._triangle: np.ndarray | None = None
        self._wide = matrix.shape[0] < matrix.shape[1]
        self._factor = None
        with suppress(LinAlgError):
            self._factor = cho_factor(gram, lower=True, check_finite=False)

    def _factorise(self) -> None:
        self._orthogonal, triangle = qr(self.matrix, mode="economic", check_finite=False)
        diagonal = np.abs(np.diag(triangle))
        # a zero pivot is a direction that no column reaches: leave it alone instead of dividing
        dead = diagonal <= 1e-14 * diagonal.max(initial=0.0)
        triangle[dead, :] = 0.0
        triangle[dead, dead] = np.inf
        self._triangle = triangle

    def solve(self, rhs: np.ndarray, *, accurate: bool = False) -> np.ndarray:
        """Return x, of shape (m,).

        Parameters
        ----------
        rhs : ndarray of shape (n,)
        accurate : bool
            Use the QR factor.
        """
        accurate = accurate or self._factor is None
        if accurate and self._wide:
            return lstsq(self.matrix.T, rhs, check_finite=False, lapack_driver="gelsy")[0]
        if accurate and self._triangle is None:
            self._factorise()
        if self._triangle is None:
            return self.matrix @ cho_solve(self._factor, rhs, check_finite=False)
        assert self._orthogonal is not None
        inner = solve_triangular(self._triangle, rhs, trans="T", check_finite=False)
        return self._orthogonal @ np.where(np.isfinite(inner), inner, 0.0)
