r"""Forces on the representations of each layer, and a measure of stationarity (FL22 §3.1, Prop 1; theory §3).

Attraction and repulsion between the layers make up the gradient of 𝓛ʳ:
∇_{Z_ℓ}𝓛ʳ = −λ(attraction + repulsion), and for the outputs ∇C beside it.

A move D_ℓ of Z_ℓ within Im A_{ℓ−1} changes A_ℓ, and the later layers must follow to stay in their images:
dZ_{m+1} = dA_m W_{m+1}ᵀ with the weights as they are. The derivative of 𝓛ʳ along it is ⟨G_ℓ, D_ℓ⟩ with

.. math::
    G_L = \nabla_{Z_L} \mathcal L^r, \qquad
    G_\ell = \nabla_{Z_\ell} \mathcal L^r + \sigma'(Z_\ell) \circ (G_{\ell+1} W_{\ell+1}),

so Z is stationary iff every :math:`A_{\ell-1} A_{\ell-1}^+ G_\ell` vanishes. Since :math:`A_{\ell-1}^T G_\ell =
\nabla_{W_\ell} \mathcal L_\lambda(\Psi(Z))^T`, these are the stationary points of the weights. The part of G_ℓ
outside of the image is the multiplier of the constraint. It is zero only if the A's have full row rank, and only then
attraction and repulsion cancel. With Tikhonov's ε there is no constraint: every G_ℓ vanishes where every gradient
does.

Minima of ReLU networks often lie on kinks, where entries of Z_ℓ are 0. One-sided derivatives differ there, and the
gradient vanishes for some slope σ′ between them at each such entry (0 is in Clarke's subdifferential).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import lsq_linear

from covopt.checks.validation import check_number
from covopt.errors import InputError
from covopt.experiments.images import LayerImage
from covopt.experiments.representations import RepresentationProblem


@dataclass(frozen=True, eq=False)
class Forces:
    r"""Forces on the representations: rows belong to samples, columns to neurons.

    Attributes
    ----------
    attraction : tuple of ndarray of shape (N, n_ℓ)
        :math:`-\partial_{Z_\ell}\|A_{\ell-1}^+ Z_\ell\|^2`, ℓ = 1 … L: towards the origin,
        strongest where A_{ℓ−1} is small.
    repulsion : tuple of ndarray of shape (N, n_ℓ)
        :math:`-\partial_{Z_\ell}\|A_\ell^+ Z_{\ell+1}\|^2`, ℓ = 1 … L − 1: away from the origin,
        strongest where Z_{ℓ+1} is large.
    pull : ndarray of shape (N, k)
        :math:`-\nabla C(Z_L)/\lambda`, the force of the loss on the outputs; zero without a loss.
    """

    attraction: tuple[np.ndarray, ...]
    repulsion: tuple[np.ndarray, ...]
    pull: np.ndarray

    def imbalance(self, layer: int) -> float:
        """Return ‖attraction + repulsion‖ relative to the larger of the two, ℓ = 1 … L − 1; 0 where both vanish.

        Parameters
        ----------
        layer : int
            ℓ, from 1.
        """
        attraction, repulsion = self.attraction[layer - 1], self.repulsion[layer - 1]
        size = max(float(np.linalg.norm(attraction)), float(np.linalg.norm(repulsion)))
        return float(np.linalg.norm(attraction + repulsion)) / size if size > 0 else 0.0


def forces(problem: RepresentationProblem, Z: Any) -> Forces:
    r"""Return the forces on each layer, by closed forms.

    With M = (A_{ℓ−1}A_{ℓ−1}ᵀ)⁺ the attraction is −2MZ_ℓ. With W = W_{ℓ+1} of Ψ without its bias column and
    U = (A_ℓA_ℓᵀ)⁺Z_{ℓ+1} the repulsion is σ′(Z_ℓ) ∘ 2UW. (These are derivatives along directions of constant rank;
    with Tikhonov's ε along all directions.)

    Parameters
    ----------
    problem : RepresentationProblem
    Z : sequence of ndarray of shape (N, n_ℓ)
        Admissible representations, as :meth:`RepresentationProblem.to_representations` returns them.

    Returns
    -------
    Forces

    Warns
    -----
    PrecisionWarning
        If a numerical rank is not clear.

    Raises
    ------
    InputError
        For representations that no network has (and ε = 0).

    Examples
    --------
    One sample, one neuron: ‖Z₁‖² + (Z₂/σ(Z₁))² has its minimum at Z₁ = √Z₂.

    >>> problem = RepresentationProblem([[1.0]], bias=0.0)
    >>> found = forces(problem, [[[2.0]], [[4.0]]])
    >>> found.attraction[0].tolist(), found.repulsion[0].tolist(), found.imbalance(1)
    ([[-4.0]], [[4.0]], 0.0)
    """
    found, images = problem.admissible(Z)
    attraction, push = _forces(found, images)
    repulsion = tuple(problem.derivative(z) * p for z, p in zip(found, push, strict=False))
    return Forces(tuple(attraction), repulsion, -problem.fit_gradient(found[-1]) / problem.lam)


def _forces(
    Z: Sequence[np.ndarray], images: Sequence[LayerImage]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the attractions of layers 1 … L, and the repulsions of layers 1 … L − 1 before the factor σ′(Z_ℓ)."""
    attraction = [-2.0 * image.inverse_gram(z) for image, z in zip(images, Z, strict=True)]
    push = [
        -attraction[ell] @ images[ell].weights(Z[ell])[: Z[ell - 1].shape[1]].T for ell in range(1, len(Z))
    ]
    return attraction, push


def gradient(problem: RepresentationProblem, Z: Any) -> tuple[np.ndarray, ...]:
    r"""Return :math:`\nabla_{Z_\ell} \mathcal L^r`, ℓ = 1 … L: −λ(attraction + repulsion), and ∇C for the outputs.

    Each is a partial derivative with the other layers fixed, along directions of constant rank; it depends on the
    neighbouring layers only. For interpolation the outputs are fixed, and their entry is the derivative of the norm.

    Parameters
    ----------
    problem : RepresentationProblem
    Z : sequence of ndarray of shape (N, n_ℓ)

    Returns
    -------
    tuple of ndarray of shape (N, n_ℓ)

    Warns
    -----
    PrecisionWarning
        If a numerical rank is not clear.

    Raises
    ------
    InputError
        For representations that no network has (and ε = 0).

    Examples
    --------
    >>> problem = RepresentationProblem([[1.0]], [4.0], lam=0.5, bias=0.0)
    >>> [g.tolist() for g in gradient(problem, [[[1.0]], [[4.0]]])]
    [[[-15.0]], [[4.0]]]
    """
    found = forces(problem, Z)
    others = (*found.repulsion, found.pull)
    return tuple(-problem.lam * (a + b) for a, b in zip(found.attraction, others, strict=True))


@dataclass(frozen=True, eq=False)
class Stationarity:
    """Projected gradients of 𝓛ʳ, with the quantities needed to interpret them.

    Attributes
    ----------
    residuals : tuple of ndarray of shape (N, n_ℓ)
        Projections of G_ℓ on Im A_{ℓ−1}; all zero at stationary points.
    multipliers : tuple of ndarray of shape (N, n_ℓ)
        G_ℓ minus its projection.
    partial : tuple of ndarray of shape (N, n_ℓ)
        ∇_{Z_ℓ}𝓛ʳ with the other layers fixed: −λ(attraction + repulsion) for ℓ < L.
    images : tuple of LayerImage
        Images of A₀ … A_{L−1}, with their ranks.
    kink_distance : float
        Smallest |entry| of the hidden representations, without zero neurons and entries that count as kinks.
    slopes : tuple of ndarray of shape (N, n_ℓ)
        The values of σ′(Z_ℓ) used, ℓ < L; at kinks those that minimise the residual of the layer.
    n_kinks : int
        Number of entries that count as kinks.
    """

    residuals: tuple[np.ndarray, ...]
    multipliers: tuple[np.ndarray, ...]
    partial: tuple[np.ndarray, ...]
    images: tuple[LayerImage, ...]
    kink_distance: float
    slopes: tuple[np.ndarray, ...]
    n_kinks: int

    @property
    def norms(self) -> tuple[float, ...]:
        """Frobenius norms of the residuals."""
        return tuple(float(np.linalg.norm(r)) for r in self.residuals)

    @property
    def value(self) -> float:
        """The largest of the norms."""
        return max(self.norms)

    @property
    def unbalanced(self) -> tuple[float, ...]:
        """λ‖attraction + repulsion‖ of the hidden layers; zero at stationary points of full row rank only."""
        return tuple(float(np.linalg.norm(p)) for p in self.partial[:-1])

    @property
    def is_full(self) -> bool:
        """Whether every A_ℓ has full row rank N, so that the layers are unconstrained."""
        return all(image.is_full for image in self.images)


def stationarity(problem: RepresentationProblem, Z: Any, *, kink_tol: float = 0.0) -> Stationarity:
    r"""Return the projected gradients of 𝓛ʳ on its constraint set, which vanish at stationary points.

    Parameters
    ----------
    problem : RepresentationProblem
    Z : sequence of ndarray of shape (N, n_ℓ)
    kink_tol : float
        Entries of a neuron below this fraction of its largest one count as kinks, where σ′ may take any value in
        [a, 1]. The values that minimise the residual are chosen, from the last layer to the first (with several
        hidden layers this may not be optimal). With 0 there are no kinks, and σ′(0) = a.

    Returns
    -------
    Stationarity

    Warns
    -----
    PrecisionWarning
        If a numerical rank is not clear.

    Raises
    ------
    InputError
        For representations that no network has, a ``kink_tol`` outside of [0, 1), and interpolation if A_{L−1} lacks
        full row rank (directions that keep Z_L are then constrained).

    Examples
    --------
    Two samples, one neuron that is silent on the second: A₁ has rank 1, and the multiplier keeps Z₂ at 0 there.

    >>> problem = RepresentationProblem([[1.0], [-1.0]], [1.0, 1.0], lam=0.2, bias=0.0)
    >>> s = np.sqrt(1 - 2 * 0.2)
    >>> found = stationarity(problem, [[[s], [-s]], [[s * s], [0.0]]])
    >>> found.value < 1e-12, found.multipliers[1].round(9).tolist(), [image.rank for image in found.images]
    (True, [[0.0], [-1.0]], [1, 1])
    """
    check_number("kink_tol", kink_tol, "a number in [0, 1)", lambda t: 0 <= t < 1)
    found, images = problem.admissible(Z)
    return measure(problem, found, images, kink_tol)


def measure(
    problem: RepresentationProblem,
    Z: Sequence[np.ndarray],
    images: Sequence[LayerImage],
    kink_tol: float = 0.0,
) -> Stationarity:
    """Compute :func:`stationarity` from given images."""
    attraction, repulsion = _forces(Z, images)
    total = [-problem.lam * a for a in attraction]
    total[-1] = total[-1] + problem.fit_gradient(Z[-1])
    partial, slopes = list(total), [problem.derivative(z) for z in Z[:-1]]
    kinks = [np.abs(z) < kink_tol * np.abs(z).max(axis=0) for z in Z[:-1]]
    if problem.interpolates:
        if not images[-1].is_full:
            raise InputError(
                f"the features of layer {len(Z) - 1} have rank {images[-1].rank} of {len(Z[0])}: moves that "
                "keep the outputs at Y are not free then; use a small lam instead of interpolation."
            )
        total[-1] = np.zeros_like(total[-1])
    for layer in range(len(Z) - 2, -1, -1):
        weights = images[layer + 1].weights(Z[layer + 1])[: Z[layer].shape[1]]
        push = -problem.lam * repulsion[layer]
        moved, basis = push + total[layer + 1] @ weights.T, images[layer].basis
        for j in np.flatnonzero(kinks[layer].any(axis=0)):
            # slopes in [a, 1] at the kinks of a neuron that minimise its residual in the image
            slope, free = slopes[layer][:, j], kinks[layer][:, j]
            rest = basis.T @ (total[layer][:, j] + np.where(free, 0.0, slope) * moved[:, j])
            columns = basis[free].T * moved[free, j]
            slope[free] = lsq_linear(columns, -rest, (problem.slope, 1.0), method="bvls", tol=1e-14).x
        partial[layer] = total[layer] + slopes[layer] * push
        total[layer] = total[layer] + slopes[layer] * moved
    residuals = tuple(image.project(g) for image, g in zip(images, total, strict=True))
    multipliers = tuple(g - r for g, r in zip(total, residuals, strict=True))
    away = [
        np.abs(z[~kink & (np.abs(z).max(axis=0) > 0)]).min(initial=np.inf)
        for z, kink in zip(Z, kinks, strict=False)
    ]
    return Stationarity(
        residuals, multipliers, tuple(partial), tuple(images),
        float(min(away, default=np.inf)), tuple(slopes), int(sum(kink.sum() for kink in kinks)),
    )  # fmt: skip
