"""Minimum-norm corrections: min ‖x‖ s.t. Mᵀx = r for a tall M, as accurate as M's condition allows."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lstsq, qr, solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf, dpotrs

from covopt.exact.rank import COMPUTED, NEAR
from covopt.solvers.master.folding import Folding

SHIFT = 1e-14  # of the mean diagonal of MᵀM, so that it factors
REFINEMENTS = 12
WORSE = 10.0  # growth of what is missed that says that the factor is no use


class LeastNorm:
    """Solve min ‖x‖ s.t. Mᵀ x = r repeatedly, in the least-squares sense where there is no such x.

    A Cholesky factor of MᵀM is cheap and mostly enough. Where its squared condition number leaves a residual, it
    serves as the preconditioner of conjugate gradients on the products; a QR factor of M, ten times as expensive,
    takes over where these do not converge: M lacks rank then.

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
        self._matrix = matrix
        # its transpose is in the order that BLAS wants, so nothing is copied
        self._prepare(len(matrix), dsyrk(1.0, np.ascontiguousarray(matrix).T, lower=1))

    def _prepare(self, n_rows: int, gram: np.ndarray) -> None:
        """Factor MᵀM, of which the lower triangle is given."""
        gram[np.diag_indices_from(gram)] += SHIFT * float(np.trace(gram)) / len(gram)
        self._orthogonal: np.ndarray | None = None
        self._triangle: np.ndarray | None = None
        self._rows, self._wide = n_rows, n_rows < len(gram)
        factor, failed = dpotrf(gram, lower=1, clean=0, overwrite_a=1)
        self._factor = None if failed else factor

    @property
    def matrix(self) -> np.ndarray:
        """M."""
        return self._matrix

    def times(self, x: np.ndarray) -> np.ndarray:
        """Return M x."""
        return self._matrix @ x

    def transposed(self, y: np.ndarray) -> np.ndarray:
        """Return Mᵀ y."""
        return self._matrix.T @ y

    def _factorise(self) -> None:
        self._orthogonal, triangle = qr(self.matrix, mode="economic", check_finite=False)
        diagonal = np.abs(np.diag(triangle))
        # a zero pivot is a direction that no column reaches: leave it alone instead of dividing
        dead = diagonal <= 1e-14 * diagonal.max(initial=0.0)
        triangle[dead, :] = 0.0
        triangle[dead, dead] = np.inf
        self._triangle = triangle

    def _precondition(self, rhs: np.ndarray) -> np.ndarray:
        return dpotrs(self._factor, rhs, lower=1)[0].reshape(rhs.shape)

    def _refined(self, rhs: np.ndarray) -> tuple[np.ndarray, float]:
        """Return x by preconditioned conjugate gradients, and the share of ``rhs`` that it misses."""
        x = np.zeros((self._rows, *rhs.shape[1:]))
        missed, size = rhs, float(np.linalg.norm(rhs))
        direction, old = np.zeros_like(rhs), 1.0
        for step in range(REFINEMENTS):
            if np.linalg.norm(missed) <= COMPUTED * size:
                break
            preconditioned = self._precondition(missed)
            new = float(np.vdot(missed, preconditioned))
            direction = preconditioned + (new / old if step else 0.0) * direction
            moved = self.times(direction)
            curvature = float(np.vdot(moved, moved))
            if not curvature > 0.0 or not np.isfinite(curvature):
                break
            further = x + new / curvature * moved
            left = rhs - self.transposed(further)
            if not np.linalg.norm(left) < WORSE * np.linalg.norm(missed):
                break
            x, missed, old = further, left, new
        return x, float(np.linalg.norm(missed)) / max(size, 1e-300)

    def refined(self, rhs: np.ndarray) -> np.ndarray:
        """Return x as far as conjugate gradients come; zero where there is no factor."""
        if self._factor is None:
            return np.zeros((self._rows, *rhs.shape[1:]))
        return self._refined(rhs)[0]

    def solve(self, rhs: np.ndarray, *, accurate: bool = False) -> np.ndarray:
        """Return x, of shape (m,) or (m, k).

        Parameters
        ----------
        rhs : ndarray of shape (n,) or (n, k)
        accurate : bool
            Refine the solution.
        """
        if self._factor is not None:
            if not accurate:
                return self.times(self._precondition(rhs))
            x, share = self._refined(rhs)
            if share <= NEAR:
                return x
        if self._wide:
            return lstsq(self.matrix.T, rhs, check_finite=False, lapack_driver="gelsy")[0]
        if self._triangle is None:
            self._factorise()
        assert self._orthogonal is not None and self._triangle is not None
        inner = solve_triangular(self._triangle, rhs, trans="T", check_finite=False)
        return self._orthogonal @ np.where(np.isfinite(inner), inner, 0.0)


class AtomsLeastNorm(LeastNorm):
    """The same for rows that are scaled atoms, of which opposite neurons share one, tangents, and a constant row.

    Parameters
    ----------
    fold : Folding
        Atoms of m columns.
    scales : ndarray of shape (m,)
        Positive.
    lever : float
        Entries of the constant row; 0 for none.
    tangents : (ndarray of shape (t, n), (owner, vectors)), optional
        Further rows, before the constant one, and what :meth:`~covopt.solvers.master.folding.Folding.gram` wants to
        know of them.

    Examples
    --------
    >>> fold = Folding(np.array([[1.0], [2.0]]), np.ones((2, 1)), np.ones((1, 1)), np.ones(2))
    >>> AtomsLeastNorm(fold, np.ones(2), 0.0).solve(np.array([[5.0]])).round(12).ravel()
    array([1., 2.])
    """

    def __init__(self, fold: Folding, scales: np.ndarray, lever: float, tangents: Any = (None, None)):
        self.fold, self.scales, self.lever = fold, scales[:, None], lever
        self._tangents, moves = tangents
        count = 0 if self._tangents is None else len(self._tangents)
        self._cuts = [fold.count, fold.count + count]
        gram = fold.gram(scales**2, self._tangents, moves) + lever**2
        self._prepare(self._cuts[1] + (lever > 0.0), gram)

    @property
    def matrix(self) -> np.ndarray:
        """M."""
        return self.times(np.eye(len(self.fold.rows)))

    def times(self, x: np.ndarray) -> np.ndarray:
        """Return M x."""
        parts = [self.scales * self.fold.times(x)]
        if self._tangents is not None:
            parts.append(self._tangents @ x)
        if self.lever > 0.0:
            parts.append(self.lever * x.sum(axis=0, keepdims=True))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def transposed(self, y: np.ndarray) -> np.ndarray:
        """Return Mᵀ y."""
        weights, moves, offset = np.split(y, self._cuts)
        out = self.fold.transposed(self.scales * weights)
        if self._tangents is not None:
            out += self._tangents.T @ moves
        return out if self.lever == 0.0 else out + self.lever * offset[0]
