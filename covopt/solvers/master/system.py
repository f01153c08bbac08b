r"""The normal matrix of a Newton step, factored, with solves refined on the product form.

    H = Σ_j η_j⁻² (a_j a_jᵀ) ⊗ (I + 2 w_j w_jᵀ) + TᵀT + D + κ (11ᵀ) ⊗ I     on vec Λ

with one atom a_j for every column, a row of T for every tangent of a face, D = ∇²C*/μ-like blocks of the loss and of
the edges of its domain, κ the price of an offset's dual. With one output the first term is Aᵀ diag(d) A, one
symmetric product together with TᵀT. The matrix itself loses half the digits near the end, so solves are refined by
preconditioned conjugate gradients on the products.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from covopt.solvers.least_norm import conjugate_gradients, preconditioned_by
from covopt.solvers.master.folding import Folding

REGULARISATIONS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


class System:
    """The matrix of one step.

    Parameters
    ----------
    fold : Folding
        Atoms of M columns.
    hessian : (ndarray of shape (M,), ndarray of shape (M, k) or None)
        η⁻² and w; d and None with one output.
    tangents : ndarray of shape (T, N·k)
    moves : (ndarray of int of shape (T,), ndarray of shape (T, r))
        The column of each tangent, and how its neuron moves in the face.
    blocks : ndarray of shape (N, k) or (N, k, k), or None
        D.
    kappa : float
    is_free : bool
        Whether 1ᵀΛ = 0 is to hold: κ is then chosen here, and solves return the step of the offset too.
    accuracy : float
        Relative residual of solves; 1 for no refinement.
    """

    def __init__(
        self,
        fold: Folding,
        hessian: tuple[np.ndarray, np.ndarray | None],
        tangents: np.ndarray,
        moves: tuple[np.ndarray, np.ndarray],
        blocks: np.ndarray | None,
        kappa: float,
        *,
        n_outputs: int,
        is_free: bool,
        accuracy: float,
    ):
        self.fold, self.tangents, self.blocks, self.accuracy = fold, tangents, blocks, accuracy
        self.moves = moves
        self.diagonal, self.w = hessian
        self.shape = len(fold.rows), n_outputs
        matrix = self._matrix()
        diagonal = np.diag(matrix).copy()
        if is_free:  # stiffness along 1 changes no step with 1ᵀΛ given, and makes the matrix definite
            kappa = max(float(diagonal.mean()) / len(matrix), 1e-300)
        self.kappa = kappa
        if kappa:
            for p in range(n_outputs):
                matrix[p::n_outputs, p::n_outputs] += kappa
        # entropies of a loss make single entries huge: then each is regularised relative to its own size
        size = np.full(len(matrix), diagonal.mean()) if blocks is None else diagonal
        for share in REGULARISATIONS:
            regular = matrix.copy(order="F")
            regular[np.diag_indices_from(regular)] += share * size
            self.factor, failed = dpotrf(regular, lower=1, clean=0, overwrite_a=1)
            if not failed:
                break
        else:
            raise LinAlgError("the normal matrix could not be factored")
        self.border = None
        if is_free:
            n, k = self.shape
            self.border = np.stack([self._solve(np.tile(row, (n, 1))) for row in np.eye(k)])
            self.corner = self.border.sum(axis=1)

    def _matrix(self) -> np.ndarray:
        """Return the lower triangle of H without κ."""
        n, k = self.shape
        matrix = (
            self.fold.gram(self.diagonal, self.tangents, self.moves)
            if self.w is None
            else self._outputs_matrix()
        )
        if self.blocks is not None:
            place = np.arange(n) * k
            for p in range(k):
                if self.blocks.ndim == 2:
                    matrix[place + p, place + p] += self.blocks[:, p]
                    continue
                for q in range(p + 1):
                    matrix[place + p, place + q] += self.blocks[:, p, q]
        return matrix

    def _outputs_matrix(self) -> np.ndarray:
        """Return the first two terms of H for several outputs, block by block: a weight on the atoms for each."""
        assert self.w is not None
        n, k = self.shape
        matrix = np.zeros((n * k, n * k), order="F")
        if len(self.tangents):
            matrix = dsyrk(1.0, np.ascontiguousarray(self.tangents).T, trans=0, lower=1)
        for p in range(k):
            for q in range(p + 1):
                weight = 2.0 * self.diagonal * self.w[:, p] * self.w[:, q]
                block = self.fold.gram(weight + self.diagonal if p == q else weight)
                matrix[p::k, q::k] += block
                if q < p:
                    matrix[q::k, p::k] += block
        return matrix

    def apply(self, x: np.ndarray) -> np.ndarray:
        """Return H x for x of shape (N, k)."""
        change = self.fold.times(x)
        if self.w is not None:
            change = change + 2.0 * np.einsum("jk,jk->j", self.w, change)[:, None] * self.w
        out = self.fold.transposed(self.diagonal[:, None] * change)
        if len(self.tangents):
            out += (self.tangents.T @ (self.tangents @ x.ravel())).reshape(x.shape)
        if self.kappa:
            out += self.kappa * x.sum(axis=0)
        if self.blocks is None:
            return out
        if self.blocks.ndim == 2:
            return out + self.blocks * x
        return out + np.einsum("ipq,iq->ip", self.blocks, x)

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        if self.accuracy >= 1.0:
            return preconditioned_by(self.factor, rhs)
        return conjugate_gradients(self.apply, self.factor, rhs, self.accuracy)[0]

    def solve(self, rhs: np.ndarray, total: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the step of Λ, and that of the offset where it is free: then 1ᵀ step = ``total``.

        Parameters
        ----------
        rhs : ndarray of shape (N, k)
        total : ndarray of shape (k,), optional
        """
        plain = self._solve(rhs)
        if self.border is None or total is None:
            return plain, np.zeros(rhs.shape[1])
        offset = np.linalg.solve(self.corner.T, plain.sum(axis=0) - total)
        # the stiffness along 1 was added to H above: the offset compensates for it
        return plain - np.einsum("pik,p->ik", self.border, offset), offset + self.kappa * total
