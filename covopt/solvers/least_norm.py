"""Linear systems: conjugate gradients preconditioned by a factor, and least-norm solutions min ‖x‖ s.t. Mᵀx = r."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import lstsq
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from covopt.exact.rank import COMPUTED, NEAR

SHIFT = 1e-14  # share of the mean diagonal of MᵀM that is added, so that it factors
WORSE = 10.0  # growth of the residual in a step that shows that the factor is useless
# steps of conjugate gradients; with fewer, residuals of networks are worth as much as the tolerance
REFINEMENTS = 12
MOST_UNKNOWNS = 2500  # of a dense system of moves; beyond it neurons stay fixed


def conjugate_gradients(
    apply: Callable[[np.ndarray], np.ndarray], factor: np.ndarray, rhs: np.ndarray, accuracy: float
) -> tuple[np.ndarray, float]:
    """Solve H x = r by conjugate gradients, preconditioned by a factor of approximately H.

    Parameters
    ----------
    apply : callable
        Returns H x.
    factor : ndarray of shape (n, n)
        Lower Cholesky factor.
    rhs : ndarray
        r, with n entries in all.
    accuracy : float

    Returns
    -------
    (ndarray, float)
        x, and its relative residual.
    """
    x, size = preconditioned_by(factor, rhs), float(np.linalg.norm(rhs))
    left = rhs - apply(x)
    direction, old = np.zeros_like(rhs), np.inf
    for _ in range(REFINEMENTS):
        if np.linalg.norm(left) <= accuracy * size:
            break
        preconditioned = preconditioned_by(factor, left)
        new = float(np.vdot(left, preconditioned))
        direction = preconditioned + new / old * direction
        applied = apply(direction)
        curvature = float(np.vdot(direction, applied))
        if not 0.0 < curvature < np.inf:
            break
        rest = left - new / curvature * applied
        if not np.linalg.norm(rest) < WORSE * np.linalg.norm(left):
            break
        x, left, old = x + new / curvature * direction, rest, new
    return x, float(np.linalg.norm(left)) / max(size, 1e-300)


def preconditioned_by(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """Solve with the Cholesky factor alone."""
    return dpotrs(factor, rhs.reshape(len(factor), -1), lower=1)[0].reshape(rhs.shape)


class LeastNorm:
    """Solve min ‖x‖ s.t. Mᵀ x = r repeatedly, in the least-squares sense where there is no such x.

    A Cholesky factor of MᵀM is cheap and mostly enough. Where its squared condition number leaves a residual, it
    serves as the preconditioner of conjugate gradients on the products. Where these do not converge, M lacks rank,
    and LAPACK's least squares, ten times as expensive, take over.

    Parameters
    ----------
    matrix : ndarray of shape (m, n)
        M; with fewer rows than columns x is the least-squares solution.

    Examples
    --------
    >>> LeastNorm(np.array([[1.0], [2.0]])).solve(np.array([5.0])).round(12)
    array([1., 2.])
    """

    def __init__(self, matrix: np.ndarray):
        self.matrix = matrix
        # its transpose is in the order that BLAS wants, so nothing is copied
        gram = dsyrk(1.0, np.ascontiguousarray(matrix).T, lower=1)
        gram[np.diag_indices_from(gram)] += SHIFT * float(np.trace(gram)) / len(gram)
        factor, failed = dpotrf(gram, lower=1, clean=0, overwrite_a=1)
        self._factor = None if failed else factor

    def _refined(self, rhs: np.ndarray) -> tuple[np.ndarray, float]:
        """Return x by conjugate gradients, and its relative residual; x is zero where there is no factor."""
        if self._factor is None:
            return np.zeros((len(self.matrix), *rhs.shape[1:])), 1.0
        found, share = conjugate_gradients(
            lambda y: self.matrix.T @ (self.matrix @ y), self._factor, rhs, COMPUTED
        )
        return self.matrix @ found, share

    def refined(self, rhs: np.ndarray) -> np.ndarray:
        """Return x by conjugate gradients, converged or not."""
        return self._refined(rhs)[0]

    def solve(self, rhs: np.ndarray, *, accurate: bool = False) -> np.ndarray:
        """Return x, of shape (m,) or (m, k).

        Parameters
        ----------
        rhs : ndarray of shape (n,) or (n, k)
        accurate : bool
            Refine the solution, at last by the residual that it leaves.
        """
        if self._factor is not None and not accurate:
            return self.matrix @ preconditioned_by(self._factor, rhs)
        x, share = self._refined(rhs)
        if share > NEAR:
            return lstsq(self.matrix.T, rhs, check_finite=False, lapack_driver="gelsy")[0]
        return x + self._refined(rhs - self.matrix.T @ x)[0]
