r"""FL22's second reformulation: a network seen through the covariances of its representations (FL22 §3.2).

With samples in rows, Z₀ᵠ = X̃, Z_ℓ = Z_{ℓ−1}ᵠ W_ℓᵀ, Z_ℓᵠ = [σ(Z_ℓ), β1], K_ℓ = Z_ℓZ_ℓᵀ, K_ℓᵠ = Z_ℓᵠ(Z_ℓᵠ)ᵀ,

.. math::
    \mathcal L^k(K, Z_L) = C(Z_L) + \lambda \sum_{\ell=1}^L \operatorname{Tr}\,[K_\ell (K_{\ell-1}^\sigma)^+],
    \qquad \operatorname{Im} K_\ell \subset \operatorname{Im} K_{\ell-1}^\sigma .

Nothing here inverts a nearly singular matrix: a basis of Im K_{ℓ−1}ᵠ is chosen by a rank decision that is reported,
the trace is taken in it, and what K_ℓ has outside is reported as the defect (beyond a tolerance the value is ∞).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from covopt.checks.validation import check_bias, check_choice
from covopt.checks.wording import Brief
from covopt.data.tabular import check_finite, to_matrix
from covopt.errors import InputError
from covopt.experiments.representations.problem import RepresentationProblem

LOSSES = ("sum", "mean")


@dataclass(frozen=True)
class CovarianceGradient:
    """Derivatives of 𝓛ᵏ along moves that keep the image constraints.

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


@dataclass(frozen=True)
class Term:
    """One term Tr[K_ℓ (K_{ℓ−1}ᵠ)⁺] and how it was computed.

    Attributes
    ----------
    value : float
        The trace within the computed image; ∞ when ``defect`` exceeds the tolerance.
    rank : int
        Rank of K_{ℓ−1}ᵠ, as decided.
    spread : tuple of float
        Largest eigenvalue counted as zero and smallest counted as nonzero, both relative to the largest.
    defect : float
        Share of Tr K_ℓ outside of the image.
    """

    value: float
    rank: int
    spread: tuple[float, float]
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
        Eigenvalues of K_ℓᵠ below this share of the largest count as zero.
    """

    inputs: np.ndarray
    K: tuple[np.ndarray, ...]
    K_sigma: tuple[np.ndarray, ...]
    outputs: np.ndarray
    bias: float = 0.0
    rank_tol: float = 1e-11

    def __post_init__(self) -> None:
        n = len(self.inputs)
        if len(self.K) != len(self.K_sigma):
            raise InputError(
                f"K and K_sigma must hold one matrix per hidden layer each; received {len(self.K)} and "
                f"{len(self.K_sigma)}"
            )
        for name, matrices in (("inputs", (self.inputs,)), ("K", self.K), ("K_sigma", self.K_sigma)):
            for layer, matrix in enumerate(matrices):
                if np.shape(matrix) != (n, n):
                    raise InputError(
                        f"{name}[{layer}] must have shape ({n}, {n}); received {np.shape(matrix)}"
                    )
        if self.outputs.ndim != 2 or len(self.outputs) != n:
            raise InputError(f"outputs must have shape ({n}, k); received {self.outputs.shape}")

    @property
    def depth(self) -> int:
        """L."""
        return len(self.K) + 1

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The L terms of the cost."""
        tops = [*self.K, self.outputs @ self.outputs.T]
        bottoms = [self.inputs, *self.K_sigma]
        return tuple(
            self._term(top, image) for top, image in zip(tops, map(self._image, bottoms), strict=True)
        )

    @property
    def representation_cost(self) -> float:
        """Σ_ℓ Tr[K_ℓ (K_{ℓ−1}ᵠ)⁺]: ‖W‖² of the cheapest weights with these covariances and outputs."""
        return float(sum(term.value for term in self.terms))

    def value(self, Y: Any = None, *, lam: float = 1.0, loss: str = "sum") -> float:
        r"""𝓛ᵏ with the squared error, or the representation cost alone.

        Parameters
        ----------
        Y : array_like of shape (N,) or (N, k), optional
            Targets; without them C = 0.
        lam : float
            λ.
        loss : {"sum", "mean"}
            C = ‖Z_L − Y‖² or that over N (FL22 writes both).
        """
        return self._error(Y, loss)[0] + lam * self.representation_cost

    def gradient(self, Y: Any = None, *, lam: float = 1.0, loss: str = "sum") -> CovarianceGradient:
        """Return the derivatives of :meth:`value` along moves within the images, see :class:`CovarianceGradient`."""
        inverses = [self._inverse(matrix) for matrix in (self.inputs, *self.K_sigma)]
        tops = [*self.K, self.outputs @ self.outputs.T]
        return CovarianceGradient(
            tuple(lam * inverse for inverse in inverses[:-1]),
            tuple(
                -lam * inverse @ top @ inverse for inverse, top in zip(inverses[1:], tops[1:], strict=True)
            ),
            self._error(Y, loss)[1] + 2.0 * lam * inverses[-1] @ self.outputs,
        )

    def _error(self, Y: Any, loss: str) -> tuple[float, np.ndarray]:
        check_choice("loss", loss, LOSSES)
        if Y is None:
            return 0.0, np.zeros_like(self.outputs)
        targets = to_matrix("Y", Y)[0]
        targets = targets[:, None] if targets.ndim == 1 else targets
        if targets.shape != self.outputs.shape:
            raise InputError(
                f"Y must have shape {self.outputs.shape}, as the outputs; received {targets.shape}"
            )
        check_finite("Y", targets, None)
        missed = self.outputs - targets
        share = 1.0 if loss == "sum" else 1.0 / len(missed)
        return share * float(np.square(missed).sum()), 2.0 * share * missed

    def _image(self, matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
        """Eigenvalues and orthonormal basis of the image, and the gap of the rank decision."""
        values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
        top = float(values[-1]) if len(values) else 0.0
        kept = values > self.rank_tol * max(top, 0.0)
        share = values / top if top > 0 else values
        spread = (
            float(np.abs(share[~kept]).max(initial=0.0)),
            float(share[kept].min(initial=1.0)),
        )
        return values[kept], vectors[:, kept], spread

    def _term(self, top: np.ndarray, image: tuple) -> Term:
        values, basis, spread = image
        inner = np.einsum("nq,nm,mq->q", basis, top, basis)
        total = float(np.trace(top))
        defect = max(0.0, total - float(inner.sum())) / total if total > 0 else 0.0
        value = float((inner / values).sum())
        outside = defect > 1e-9
        return Term(np.inf if outside else value, len(values), spread, defect)

    def _inverse(self, matrix: np.ndarray) -> np.ndarray:
        values, basis, _ = self._image(matrix)
        return (basis / values) @ basis.T


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
        Relative eigenvalue below which a direction of K_ℓᵠ counts as outside of its image.

    Returns
    -------
    Covariances

    Raises
    ------
    InputError
        When shapes do not fit, or an option is out of range.

    Notes
    -----
    For a shallow network whose output bias is free, β²11ᵀ in K₁ᵠ still prices it; use "none" or "penalized" there.

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
