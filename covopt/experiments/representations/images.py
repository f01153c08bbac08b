r"""The image of a layer's features A = Z_ℓᵠ: rank, projection, and (A Aᵀ)⁺ with or without Tikhonov's ε.

Networks of every kind are taken as FL22's weight matrices, the bias column last.
"""

from __future__ import annotations

import reprlib
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from covopt.depth.chain import as_chain
from covopt.errors import InputError, PrecisionWarning
from covopt.exact.rank import numerical_rank, of_given
from covopt.network import DeepReLUNetwork, ReLUNetwork


def as_matrices(network: Any, bias: float, output_bias: str, slope: float = 0.0) -> list[np.ndarray]:
    """Return W_1 … W_L, with a last column that multiplies β where the layer before has the bias column.

    Parameters
    ----------
    network : ReLUNetwork, DeepReLUNetwork, anything with a ``network``, or a sequence of matrices
    bias : float
        β.
    output_bias : {"penalized", "none"}
    slope : float
        a; a network with another one is refused.

    Raises
    ------
    InputError
        Where the network has another β or slope, biases that the options leave out, or is no network.

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
    if isinstance(network, ReLUNetwork | DeepReLUNetwork):
        layers = (chain := as_chain(network)).layers
        has_biases = isinstance(network, ReLUNetwork) or any(b is not None for _, b in layers)
        if has_biases and network.bias != bias:
            raise InputError(
                f"the network has bias {network.bias:g}, the problem {bias:g}; make them the same."
            )
        if chain.slope != slope:
            raise InputError(
                f"the network has slope {chain.slope:g}, the problem {slope:g}; make them the same."
            )
        shift = layers[-1][1]
        if not chain.counts_output_bias and shift is not None and np.any(shift != 0):
            raise InputError(
                "the network has a free output bias, which the norm of the reformulation would count; use one that "
                "is penalized, or none."
            )
        return [
            _join(w, b, layer, bias > 0 and (layer < len(layers) or output_bias == "penalized"))
            for layer, (w, b) in enumerate(layers, start=1)
        ]
    try:
        matrices = [np.asarray(matrix, dtype=float) for matrix in network]
    except (TypeError, ValueError):
        raise InputError(
            "a ReLUNetwork, a DeepReLUNetwork or a sequence of weight matrices is needed; "
            f"received {type(network).__name__}."
        ) from None
    if not matrices:
        raise InputError("the network has no layers; at least one weight matrix is needed.")
    return matrices


def _join(matrix: np.ndarray, shift: np.ndarray | None, layer: int, column: bool) -> np.ndarray:
    if not column:
        if shift is not None and np.any(shift != 0):
            raise InputError(
                f"layer {layer} of the network has a bias that the problem leaves out; set bias and output_bias to "
                "have it."
            )
        return np.asarray(matrix, dtype=float)
    return np.column_stack([matrix, np.zeros(len(matrix)) if shift is None else shift])


def check_representations(Z: Any, n_rows: int, outputs: tuple[int, ...] | None) -> list[np.ndarray]:
    """Return representations Z_1 … Z_L as a list of finite float arrays (N, n_ℓ).

    Parameters
    ----------
    Z : sequence of ndarray of shape (N, n_ℓ)
    n_rows : int
        N.
    outputs : tuple of int or None
        The shape that Z_L must have.

    Raises
    ------
    InputError
        Where there are none, rows are missing, entries are not finite, or Z_L has another shape.

    Examples
    --------
    >>> [z.tolist() for z in check_representations([[[1], [2]]], 2, (2, 1))]
    [[[1.0], [2.0]]]
    """
    if isinstance(Z, np.ndarray) and Z.ndim < 3:
        raise InputError("Z must be a sequence of arrays Z_1 … Z_L, one for each layer; received one array.")
    try:
        found = [np.asarray(z, dtype=float) for z in Z]
    except (TypeError, ValueError):
        raise InputError(
            f"Z must be a sequence of numeric matrices Z_1 … Z_L; received {reprlib.repr(Z)}."
        ) from None
    if not found:
        raise InputError("Z is empty; give the representations Z_1 … Z_L.")
    for layer, z in enumerate(found, start=1):
        if z.ndim != 2 or len(z) != n_rows:
            raise InputError(
                f"Z_{layer} has shape {z.shape}; ({n_rows}, width) is needed, a row for each sample."
            )
        if not np.isfinite(z).all():
            raise InputError(f"Z_{layer} has entries that are NaN or infinite.")
    if outputs is not None and found[-1].shape != outputs:
        raise InputError(
            f"Z_{len(found)}, the outputs, has shape {found[-1].shape}; the targets have {outputs}."
        )
    return found


# Ranks here are decided, not proved: no bound rests on them, and ``LayerRank`` says how clear each decision was.
SMALL = 1e-6  # singular values above this share of the largest are never taken for zero
CLEAR_RATIO = 1e3
ADMISSIBLE = 1e-7  # share of ‖Z‖ outside of the image that passes for rounding
CLEAR_SIZE = 1e-7  # a pseudo-inverse amplifies rounding by the inverse of this: half of the digits stay


@dataclass(frozen=True)
class LayerRank:
    """How the rank of a layer's features was decided.

    Attributes
    ----------
    layer : int
        ℓ of Z_ℓᵠ; 0 is the lifted input X̃.
    n_samples : int
        N; rank N is "full row rank" of theory and paper.
    n_features : int
        Columns of Z_ℓᵠ, the bias column included.
    rank : int
    kept : float
        Smallest singular value counted as nonzero, relative to the largest; 1 for rank 0.
    dropped : float
        Largest singular value counted as zero, relative to the largest; 0 where none was.
    tikhonov : float
        ε, added to the squared singular values; 0 is the pseudo-inverse itself.
    """

    layer: int
    n_samples: int
    n_features: int
    rank: int
    kept: float
    dropped: float
    tikhonov: float

    @property
    def gap(self) -> float:
        """``kept / dropped``; infinite where nothing was dropped."""
        return self.kept / self.dropped if self.dropped > 0 else np.inf

    @property
    def is_full(self) -> bool:
        """Whether the rank is N, so that the layer can carry any Z_{ℓ+1}."""
        return self.rank == self.n_samples

    @property
    def is_clear(self) -> bool:
        """Whether a pseudo-inverse can be trusted: no singular value near the decision, or ε is positive."""
        return self.tikhonov > 0 or (self.gap >= CLEAR_RATIO and self.kept >= CLEAR_SIZE)


@dataclass(frozen=True, eq=False)
class LayerImage:
    r"""The features A (N, n) of a layer through their singular value decomposition P S Qᵀ.

    With ε = 0, :math:`M = (A A^T)^+`; with ε > 0, :math:`M = (A A^T + \varepsilon I)^{-1}` (FL22 Fig. 1 draws forces
    with it). For ε > 0, ⟨Z, MZ⟩ is the minimum over V of :math:`\|V\|^2 + \|AV - Z\|^2/\varepsilon`: finite for
    every Z.

    Attributes
    ----------
    layer : int
    features : ndarray of shape (N, n)
    tikhonov : float
        ε ≥ 0.
    rank_tol : float, optional
        Singular values up to this share of the largest count as zero. By default the widest gap decides, among those
        below which everything is at most 1e-6 of the largest.

    Examples
    --------
    >>> image = LayerImage(0, np.array([[2.0, 0.0], [0.0, 0.0]]))
    >>> image.rank.rank, image.weights(np.array([[1.0], [3.0]])).tolist(), image.project(np.ones((2, 1))).tolist()
    (1, [[0.5], [0.0]], [[1.0], [0.0]])
    """

    layer: int
    features: np.ndarray
    tikhonov: float = 0.0
    rank_tol: float | None = None

    @cached_property
    def _svd(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        left, singular, right = np.linalg.svd(self.features, full_matrices=False)
        return left, singular, right

    @cached_property
    def rank(self) -> LayerRank:
        """The rank and how clearly it was decided."""
        singular = self._svd[1]
        n, m = self.features.shape
        top = float(singular.max(initial=0.0))
        share = singular / top if top > 0 else np.zeros(0)
        kept = np.arange(len(share)) < self._decide(share)
        return LayerRank(
            self.layer, n, m, int(kept.sum()), float(share[kept].min(initial=1.0)),
            float(share[~kept].max(initial=0.0)), self.tikhonov,
        )  # fmt: skip

    def _decide(self, share: np.ndarray) -> int:
        if self.rank_tol is not None:
            return numerical_rank(share, self.rank_tol)
        floor = of_given(self.features.shape)
        shares = np.maximum(np.append(share, floor), floor)
        candidates = np.flatnonzero(shares <= SMALL)  # the first that is dropped
        candidates = candidates[candidates > 0]
        if len(candidates) == 0:
            return len(share)
        ratios = shares[candidates - 1] / shares[candidates]
        return int(candidates[int(ratios.argmax())])

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal columns that span Im A, shape (N, rank)."""
        return self._svd[0][:, : self.rank.rank]

    def project(self, Z: np.ndarray) -> np.ndarray:
        """Return A A⁺ Z.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        return self.basis @ (self.basis.T @ Z)

    def defect(self, Z: np.ndarray) -> float:
        """Return the share of ‖Z‖ that lies outside of Im A.

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
        left, singular, right = self._svd
        if self.tikhonov > 0:
            scale = singular / (singular**2 + self.tikhonov)
            return right.T @ (scale[:, None] * (left.T @ Z))
        r = self.rank.rank
        return right[:r].T @ ((self.basis.T @ Z) / singular[:r, None])

    def inverse_gram(self, Z: np.ndarray) -> np.ndarray:
        """Return MZ, shape (N, ·).

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        left, singular, _ = self._svd
        if self.tikhonov > 0:
            inner = left.T @ Z
            outside = (Z - left @ inner) / self.tikhonov
            return left @ (inner / (singular**2 + self.tikhonov)[:, None]) + outside
        return self.basis @ ((self.basis.T @ Z) / singular[: self.rank.rank, None] ** 2)

    def cost(self, Z: np.ndarray) -> float:
        """Return ⟨Z, MZ⟩: ‖A⁺Z‖² for ε = 0 and Z in the image.

        Parameters
        ----------
        Z : ndarray of shape (N, ·)
        """
        if self.tikhonov > 0:
            left, singular, _ = self._svd
            inner = left.T @ Z
            outside = float(np.square(Z - left @ inner).sum()) / self.tikhonov
            return float((np.square(inner).sum(axis=1) / (singular**2 + self.tikhonov)).sum()) + outside
        return float(np.square(self.weights(Z)).sum())


def admissible(problem: Any, Z: Any) -> tuple[list[np.ndarray], list[LayerImage]]:
    """Return representations that some network has, and the images of A₀ … A_{L−1}; with ε > 0 all are welcome.

    Parameters
    ----------
    problem : RepresentationProblem
    Z : sequence of ndarray of shape (N, n_ℓ)

    Warns
    -----
    PrecisionWarning
        On behalf of the caller's caller: of the first layer whose rank is not clear.

    Raises
    ------
    InputError
        With the first layer that is outside.
    """
    found = problem.check(Z)
    images = problem.images(found)
    for layer, (image, z) in enumerate(zip(images, found, strict=True), start=1):
        if image.tikhonov == 0 and (defect := image.defect(z)) > ADMISSIBLE:
            raise InputError(
                f"Z_{layer} lies outside of the image of the layer before it, by {defect:.1e} of its norm: no "
                "network has these representations; use project(Z) first, or a positive tikhonov."
            )
    rank = next((image.rank for image in images if not image.rank.is_clear), None)
    if rank is not None:
        warnings.warn(
            f"the rank {rank.rank} of the features of layer {rank.layer} is not clear: relative singular "
            f"values {rank.kept:.1e} (kept) and {rank.dropped:.1e} (dropped); what uses their "
            "pseudo-inverse is unreliable. Give tikhonov a small positive value.",
            PrecisionWarning,
            stacklevel=3,
        )
    return found, images
