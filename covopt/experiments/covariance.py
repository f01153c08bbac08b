r"""FL22's second reformulation: the loss as a function of the covariances of the representations (FL22 §3.2).

With samples in rows, Z₀ᵠ = X̃, Z_ℓ = Z_{ℓ−1}ᵠ W_ℓᵀ, Z_ℓᵠ = [σ(Z_ℓ), β1], K_ℓ = Z_ℓZ_ℓᵀ, K_ℓᵠ = Z_ℓᵠ(Z_ℓᵠ)ᵀ,

.. math::
    \mathcal L^k(K, Z_L) = C(Z_L) + \lambda \sum_{\ell=1}^L \operatorname{Tr}\,[K_\ell (K_{\ell-1}^\sigma)^+],
    \qquad \operatorname{Im} K_\ell \subset \operatorname{Im} K_{\ell-1}^\sigma .

No nearly singular matrix is inverted: the numerical rank of K_{ℓ−1}ᵠ is decided and reported, the trace is computed
in a basis of its image, and the part of K_ℓ outside is reported as the defect (beyond a tolerance the value is ∞).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from covopt.checks import Brief
from covopt.checks.validation import check_bias
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError
from covopt.exact.rank import FOUND
from covopt.experiments.images import LayerImage
from covopt.experiments.representations import RepresentationProblem


@dataclass(frozen=True)
class CovarianceGradient:
    """Derivatives of 𝓛ᵏ along directions that preserve the image constraints.

    Attributes
    ----------
    K : tuple of ndarray of shape (N, N)
        ∂/∂K_ℓ = λ (K_{ℓ−1}ᵠ)⁺ for ℓ = 1 … L − 1.
    K_sigma : tuple of ndarray of shape (N, N)
        ∂/∂K_ℓᵠ = −λ (K_ℓᵠ)⁺ K_{ℓ+1} (K_ℓᵠ)⁺ for ℓ = 1 … L − 1.
    outputs : ndarray of shape (N, k)
        ∂/∂Z_L = C′(Z_L) + 2λ (K_{L−1}ᵠ)⁺ Z_L.
    """

    K: tuple[np.ndarray, ...]
    K_sigma: tuple[np.ndarray, ...]
    outputs: np.ndarray


class Term(NamedTuple):
    """One term Tr[K_ℓ (K_{ℓ−1}ᵠ)⁺]: its value in the computed image, ∞ if Im K_ℓ is not contained in it.

    The rank is the numerical rank of K_{ℓ−1}ᵠ; the defect is the fraction of Tr K_ℓ outside of its image.
    """

    value: float
    rank: int
    defect: float


@dataclass(frozen=True, eq=False, repr=False)
class Covariances(Brief):
    """The pairs (K_ℓ, K_ℓᵠ), ℓ = 1 … L − 1, and the outputs Z_L of a network on N samples.

    Attributes
    ----------
    inputs : ndarray of shape (N, N)
        K₀ᵠ = X̃X̃ᵀ.
    K, K_sigma : tuple of ndarray of shape (N, N)
    outputs : ndarray of shape (N, k)
        Z_L.
    bias : float
        β; K_ℓᵠ contains β²11ᵀ.
    rank_tol : float
        Eigenvalues of K_ℓᵠ below this fraction of the largest count as zero.
    """

    inputs: np.ndarray
    K: tuple[np.ndarray, ...]
    K_sigma: tuple[np.ndarray, ...]
    outputs: np.ndarray
    bias: float = 0.0
    rank_tol: float = 1e-11

    @property
    def depth(self) -> int:
        """L."""
        return len(self.K) + 1

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The L terms of the cost."""
        found = []
        for top, image in zip(self._factors, self._images, strict=True):
            defect = image.defect(top) ** 2
            value = image.cost(top) if defect <= FOUND else np.inf
            found.append(Term(value, image.rank, defect))
        return tuple(found)

    @property
    def representation_cost(self) -> float:
        """Σ_ℓ Tr[K_ℓ (K_{ℓ−1}ᵠ)⁺]: the least ‖W‖² of weights with these covariances and outputs."""
        return float(sum(term.value for term in self.terms))

    def value(self, Y: Any = None, *, lam: float = 1.0) -> float:
        r"""𝓛ᵏ with the squared error C = ‖Z_L − Y‖², or the representation cost alone.

        Parameters
        ----------
        Y : array_like of shape (N,) or (N, k), optional
            Targets; without them C = 0.
        lam : float
            λ. Multiply it by N if the error is a mean (FL22 uses both).
        """
        return float(np.square(self._missed(Y)).sum()) + lam * self.representation_cost

    def gradient(self, Y: Any = None, *, lam: float = 1.0) -> CovarianceGradient:
        """Return the derivatives of :meth:`value` within the images, see :class:`CovarianceGradient`."""
        inverses = [image.inverse_gram(np.eye(len(self.inputs))) for image in self._images]
        pulled = [
            image.inverse_gram(top) for top, image in zip(self._factors, self._images, strict=True)
        ]  # fmt: skip
        return CovarianceGradient(
            tuple(lam * inverse for inverse in inverses[:-1]),
            tuple(-lam * each @ each.T for each in pulled[1:]),
            2.0 * self._missed(Y) + 2.0 * lam * pulled[-1],
        )

    @property
    def _factors(self) -> list[np.ndarray]:
        """Return Z_1 … Z_L up to rotations: square roots of the K_ℓ, and the outputs."""
        return [*map(_root, self.K), self.outputs]

    @cached_property
    def _images(self) -> list[LayerImage]:
        tol = np.sqrt(self.rank_tol)
        return [
            LayerImage(layer, _root(matrix), rank_tol=tol)
            for layer, matrix in enumerate((self.inputs, *self.K_sigma))
        ]

    def _missed(self, Y: Any) -> np.ndarray:
        if Y is None:
            return np.zeros_like(self.outputs)
        targets = to_matrix("Y", Y)[0]
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape != self.outputs.shape:
            raise InputError(
                f"Y must have shape {self.outputs.shape}, as the outputs; received {targets.shape}"
            )
        check_finite("Y", targets, None)
        return self.outputs - targets


def _root(matrix: np.ndarray) -> np.ndarray:
    """Return a square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return vectors * np.sqrt(np.maximum(values, 0.0))


def covariance(network: Any, X: Any, *, bias: float | None = None, rank_tol: float = 1e-11) -> Covariances:
    r"""Compute the covariances (K_ℓ, K_ℓᵠ) and outputs of a network, FL22's second set of variables.

    Parameters
    ----------
    network : ReLUNetwork, anything with a ``network``, or a sequence of weight matrices
        Matrices W_ℓ of shape (n_ℓ, n_{ℓ−1}), with one more column for the bias when β > 0.
    X : array_like of shape (N, d)
    bias : float, optional
        β; needed with weight matrices only (default 0 there).
    rank_tol : float
        Relative eigenvalue of K_ℓᵠ below which an eigenvector counts as outside of its image.

    Returns
    -------
    Covariances

    Raises
    ------
    InputError
        If shapes do not match, or an option is out of range.

    Notes
    -----
    A free output bias of a shallow network is penalised here through β²11ᵀ in K₁ᵠ; use "none" or "penalized".

    Examples
    --------
    >>> import covopt
    >>> found = covopt.covariance([[[1.0], [-1.0]], [[1.0, 1.0]]], [[1.0], [-1.0]])
    >>> found.K[0].tolist(), found.K_sigma[0].tolist(), round(found.representation_cost, 9)
    ([[2.0, -2.0], [-2.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], 4.0)
    """
    if not 0 <= rank_tol < 1:
        raise InputError(f"rank_tol must be in [0, 1); received {rank_tol!r}")
    own = getattr(getattr(network, "network", network), "bias", 0.0)
    beta = check_bias(own if bias is None else bias)
    problem = RepresentationProblem(X, bias=beta)
    *Z, outputs = problem.to_representations(network)
    features = [image.features for image in problem.images([*Z, outputs])]
    first, *K_sigma = (each @ each.T for each in features)
    return Covariances(first, tuple(z @ z.T for z in Z), tuple(K_sigma), outputs, beta, rank_tol)
