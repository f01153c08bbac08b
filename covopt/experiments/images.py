r"""The image of a layer's features A = Z_ℓᵠ: rank, projection, and (A Aᵀ)⁺ with or without Tikhonov's ε.

All networks are converted to FL22's weight matrices, with the bias column last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from covopt.depth.layers import Layout, as_chain, check_kind
from covopt.errors import InputError
from covopt.exact.rank import NEAR, ROUGH, numerical_rank, of_given
from covopt.network import DeepReLUNetwork, ReLUNetwork


def as_matrices(network: Any, bias: float, output_bias: str, slope: float = 0.0) -> list[np.ndarray]:
    """Return W_1 … W_L, with a last column that multiplies β if the layer has biases.

    Parameters
    ----------
    network : ReLUNetwork, DeepReLUNetwork, anything with a ``network``, or a sequence of matrices
    bias : float
        β.
    output_bias : {"penalized", "none"}
    slope : float
        a, which the slope of the network must equal.

    Raises
    ------
    InputError
        If the network has another β or slope or biases that the options exclude, or if it is not a network.

    Examples
    --------
    >>> from covopt.network.deep import DeepReLUNetwork
    >>> net = DeepReLUNetwork([[[1.0]], [[2.0]]], [np.array([3.0]), None])
    >>> [w.tolist() for w in as_matrices(net, 1.0, "penalized")]
    [[[1.0, 3.0]], [[2.0, 0.0]]]
    """
    network = getattr(network, "network", network)
    if callable(network):
        raise InputError("a run holds several networks; pass one of them, as in run.network(run.best).")
    if not isinstance(network, ReLUNetwork | DeepReLUNetwork):
        try:
            matrices = [np.asarray(matrix, dtype=float) for matrix in network]
        except (TypeError, ValueError):
            matrices = []
        if not matrices:
            raise InputError(
                "a ReLUNetwork, a DeepReLUNetwork or a sequence of at least one weight matrix is needed; "
                f"received {type(network).__name__}."
            )
        return matrices
    check_kind(chain := as_chain(network), bias, output_bias, slope)
    layout, theta = Layout.of_network(chain, bias, output_bias)
    return layout.split(theta)


@dataclass(frozen=True, eq=False)
class LayerImage:
    r"""The features A (N, n) of a layer by their singular value decomposition, with the numerical rank.

    With ε = 0, :math:`M = (A A^T)^+`. With ε > 0, :math:`M = (A A^T + \varepsilon I)^{-1}` (used for the forces in
    FL22 Fig. 1): the first formula for :math:`[A, \sqrt\varepsilon I]`, whose image is everything. ⟨Z, MZ⟩ is the
    minimum over V of :math:`\|V\|^2 + \|AV - Z\|^2/\varepsilon`, finite for every Z.

    Attributes
    ----------
    layer : int
        ℓ; 0 is the lifted input X̃.
    features : ndarray of shape (N, n)
        A, with its bias column.
    tikhonov : float
        ε ≥ 0.
    rank_tol : float, optional
        Singular values up to this fraction of the largest count as zero. By default the rank is cut at the widest gap
        below which all singular values are at most 1e-6 times the largest.

    Examples
    --------
    >>> image = LayerImage(0, np.array([[2.0, 0.0], [0.0, 0.0]]))
    >>> image.rank, image.weights(np.array([[1.0], [3.0]])).tolist(), image.project(np.ones((2, 1))).tolist()
    (1, [[0.5], [0.0]], [[1.0], [0.0]])
    """

    layer: int
    features: np.ndarray
    tikhonov: float = 0.0
    rank_tol: float | None = None

    @cached_property
    def _svd(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ridge = np.sqrt(self.tikhonov) * np.eye(len(self.features), len(self.features) * (self.tikhonov > 0))
        return np.linalg.svd(np.hstack([self.features, ridge]), full_matrices=False)

    @cached_property
    def _share(self) -> np.ndarray:
        values = self._svd[1]
        return values / values[0] if values.any() else values

    @cached_property
    def rank(self) -> int:
        """Numerical rank of A; N means full row rank."""
        share, floor = self._share, of_given(self.features.shape)
        if self.tikhonov > 0 or not share.any():
            return int(share.any()) * len(share)
        if self.rank_tol is not None:
            return numerical_rank(share, self.rank_tol)
        shares = np.maximum(np.append(share, floor), floor)
        candidates = np.flatnonzero(shares <= NEAR)  # first singular value that is dropped
        if len(candidates) == 0:
            return len(share)
        return int(candidates[(shares[candidates - 1] / shares[candidates]).argmax()])

    @property
    def kept(self) -> float:
        """Smallest singular value counted as nonzero, relative to the largest; 1 for rank 0."""
        return float(self._share[: self.rank].min(initial=1.0))

    @property
    def dropped(self) -> float:
        """Largest singular value counted as zero, relative to the largest; 0 if there is none."""
        return float(self._share[self.rank :].max(initial=0.0))

    @property
    def is_full(self) -> bool:
        """Whether the rank is N, so that every Z_{ℓ+1} is admissible."""
        return self.rank == len(self.features)

    @property
    def is_clear(self) -> bool:
        """Whether the pseudo-inverse is reliable: no singular value is near the threshold, or ε > 0."""
        return self.tikhonov > 0 or (
            ROUGH * self.kept >= self.dropped and self.kept >= NEAR
        )  # fmt: skip

    @property
    def basis(self) -> np.ndarray:
        """Orthonormal basis of Im A, as columns, shape (N, rank)."""
        return self._svd[0][:, : self.rank]

    def _scaled(self, Z: np.ndarray) -> np.ndarray:
        return (self.basis.T @ Z) / self._svd[1][: self.rank, None]

    def project(self, Z: np.ndarray) -> np.ndarray:
        """Return A A⁺ Z.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return self.basis @ (self.basis.T @ Z)

    def defect(self, Z: np.ndarray) -> float:
        """Return the part of ‖Z‖ outside of Im A, relative to ‖Z‖.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        size = float(np.linalg.norm(Z))
        return float(np.linalg.norm(Z - self.project(Z))) / size if size > 0 else 0.0

    def weights(self, Z: np.ndarray) -> np.ndarray:
        """Return AᵀMZ, shape (n, ·): Wᵀ = A⁺Z, or its ridge estimate.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return (self._svd[2][: self.rank].T @ self._scaled(Z))[: self.features.shape[1]]

    def inverse_gram(self, Z: np.ndarray) -> np.ndarray:
        """Return MZ, shape (N, ·).

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return self.basis @ (self._scaled(Z) / self._svd[1][: self.rank, None])

    def cost(self, Z: np.ndarray) -> float:
        """Return ⟨Z, MZ⟩: ‖A⁺Z‖² for ε = 0 and Z in the image.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return float(np.square(self._scaled(Z)).sum())
