r"""How far representations are from stationary: along the moves that networks can make (theory §3; FL22 Prop 1).

A move D_ℓ of Z_ℓ within Im A_{ℓ−1} changes A_ℓ, and the later layers must follow to stay in their images:
dZ_{m+1} = dA_m W_{m+1}ᵀ with the weights as they are. The derivative of 𝓛ʳ along it is ⟨G_ℓ, D_ℓ⟩ with

.. math::
    G_L = \nabla_{Z_L} \mathcal L^r, \qquad
    G_\ell = \nabla_{Z_\ell} \mathcal L^r + \sigma'(Z_\ell) \circ (G_{\ell+1} W_{\ell+1}),

so Z is stationary iff every :math:`A_{\ell-1} A_{\ell-1}^+ G_\ell` vanishes. Since :math:`A_{\ell-1}^T G_\ell =
\nabla_{W_\ell} \mathcal L_\lambda(\Psi(Z))^T`, these are the stationary points of the weights. What is left of G_ℓ
outside of the image is the multiplier of the constraint: only where the A's have full row rank is there none, and
only then attraction and repulsion cancel.

Minima of ReLU networks often lie on kinks, Z_ℓ having entries 0: one-sided derivatives differ there, and what
vanishes is a gradient with some slope σ′ between them for each such entry (0 is in Clarke's subdifferential).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_number
from covopt.errors import InputError
from covopt.experiments.representations.forces import force_arrays
from covopt.experiments.representations.images import LayerImage, LayerRank, admissible
from covopt.experiments.representations.problem import RepresentationProblem


@dataclass(frozen=True, eq=False)
class Stationarity:
    """Projected gradients of 𝓛ʳ and how to read them.

    Attributes
    ----------
    residuals : tuple of ndarray of shape (N, n_ℓ)
        G_ℓ projected on Im A_{ℓ−1}; all zero at stationary points.
    multipliers : tuple of ndarray of shape (N, n_ℓ)
        The rest of G_ℓ.
    partial : tuple of ndarray of shape (N, n_ℓ)
        ∇_{Z_ℓ}𝓛ʳ with the other layers fixed: −λ(attraction + repulsion) for ℓ < L.
    ranks : tuple of LayerRank
        Of A₀ … A_{L−1}.
    kink_distance : float
        Smallest |entry| of the hidden representations, over neurons that are not zero and entries that are not
        counted as kinks: σ is differentiable there.
    slopes : tuple of ndarray of shape (N, n_ℓ)
        σ′(Z_ℓ) as used, ℓ < L; at kinks the choice that makes the residual of the layer smallest.
    n_kinks : int
        Entries counted as kinks.
    """

    residuals: tuple[np.ndarray, ...]
    multipliers: tuple[np.ndarray, ...]
    partial: tuple[np.ndarray, ...]
    ranks: tuple[LayerRank, ...]
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
        """λ‖attraction + repulsion‖ of the hidden layers: at stationary points zero for full row rank only."""
        return tuple(float(np.linalg.norm(p)) for p in self.partial[:-1])

    @property
    def is_full(self) -> bool:
        """Whether every A_ℓ has full row rank N, so that each layer is free to move."""
        return all(rank.is_full for rank in self.ranks)


def stationarity(problem: RepresentationProblem, Z: Any, *, kink_tol: float = 0.0) -> Stationarity:
    r"""Measure how far representations are from a stationary point of 𝓛ʳ on its constraint set.

    Parameters
    ----------
    problem : RepresentationProblem
    Z : sequence of ndarray of shape (N, n_ℓ)
    kink_tol : float
        Entries of a neuron up to this share of its largest one are taken for kinks, where σ′ may be anything from a
        to 1: the values that make the residual least are chosen, from the last layer to the first (with several
        hidden layers another choice may do better still). With 0 there are no kinks, and σ′ of an entry 0 is a.

    Returns
    -------
    Stationarity

    Warns
    -----
    PrecisionWarning
        Where a rank is not clear.

    Raises
    ------
    InputError
        For representations that no network has, a positive Tikhonov ε (there is no constraint then: see
        :func:`gradient`), a ``kink_tol`` outside of [0, 1), and interpolation where A_{L−1} lacks full row rank
        (moves that keep Z_L are not free).

    Examples
    --------
    Two samples, one neuron that is silent on the second: A₁ has rank 1, and the multiplier keeps Z₂ at 0 there.

    >>> problem = RepresentationProblem([[1.0], [-1.0]], [1.0, 1.0], lam=0.2, bias=0.0)
    >>> s = np.sqrt(1 - 2 * 0.2)
    >>> found = stationarity(problem, [[[s], [-s]], [[s * s], [0.0]]])
    >>> found.value < 1e-12, found.multipliers[1].round(9).tolist(), [r.rank for r in found.ranks]
    (True, [[0.0], [-1.0]], [1, 1])
    """
    if problem.tikhonov > 0:
        raise InputError(
            "with a positive tikhonov nothing is constrained; look at gradient(problem, Z) instead."
        )
    check_number("kink_tol", kink_tol, "a number in [0, 1)", lambda t: 0 <= t < 1)
    found, images = admissible(problem, Z)
    return measure(problem, found, images, kink_tol)


def measure(
    problem: RepresentationProblem,
    Z: Sequence[np.ndarray],
    images: Sequence[LayerImage],
    kink_tol: float = 0.0,
) -> Stationarity:
    """Compute :func:`stationarity` from images already at hand."""
    attraction, repulsion = force_arrays(Z, images)
    total = [-problem.lam * a for a in attraction]
    total[-1] = total[-1] + problem.fit_gradient(Z[-1])
    partial, slopes = list(total), [problem.derivative(z) for z in Z[:-1]]
    kinks = [_kinks(z, kink_tol) for z in Z[:-1]]
    if problem.interpolates:
        if not images[-1].rank.is_full:
            raise InputError(
                f"the features of layer {len(Z) - 1} have rank {images[-1].rank.rank} of {len(Z[0])}: moves that "
                "keep the outputs at Y are not free then; use a small lam instead of interpolation."
            )
        total[-1] = np.zeros_like(total[-1])
    for layer in range(len(Z) - 2, -1, -1):
        weights = images[layer + 1].weights(Z[layer + 1])[: Z[layer].shape[1]]
        follow = total[layer + 1] @ weights.T
        push = -problem.lam * repulsion[layer]
        for j in np.flatnonzero(kinks[layer].any(axis=0)):
            slopes[layer][kinks[layer][:, j], j] = _best_slopes(
                problem,
                images[layer],
                total[layer][:, j],
                push[:, j] + follow[:, j],
                slopes[layer][:, j],
                kinks[layer][:, j],
            )
        partial[layer] = total[layer] + slopes[layer] * push
        total[layer] = partial[layer] + slopes[layer] * follow
    residuals = tuple(image.project(g) for image, g in zip(images, total, strict=True))
    multipliers = tuple(g - r for g, r in zip(total, residuals, strict=True))
    away = [
        np.abs(z[~kink & (np.abs(z).max(axis=0) > 0)]).min(initial=np.inf)
        for z, kink in zip(Z, kinks, strict=False)
    ]
    return Stationarity(
        residuals, multipliers, tuple(partial), tuple(image.rank for image in images),
        float(min(away, default=np.inf)), tuple(slopes), int(sum(kink.sum() for kink in kinks)),
    )  # fmt: skip


def _kinks(z: np.ndarray, kink_tol: float) -> np.ndarray:
    if kink_tol == 0:
        return np.zeros(z.shape, dtype=bool)
    size = np.abs(z).max(axis=0, initial=0.0)
    return (np.abs(z) <= kink_tol * size) & (size > 0)


def _best_slopes(
    problem: RepresentationProblem,
    image: LayerImage,
    fixed: np.ndarray,
    scaled: np.ndarray,
    slopes: np.ndarray,
    kinks: np.ndarray,
) -> np.ndarray:
    """Slopes at the kinks of one neuron, in [a, 1], that make ‖P(fixed + slopes ∘ scaled)‖ least."""
    from scipy.optimize import lsq_linear

    rest = fixed + np.where(kinks, 0.0, slopes) * scaled
    columns = image.basis[kinks].T * scaled[kinks]
    found = lsq_linear(columns, -image.basis.T @ rest, (problem.slope, 1.0), method="bvls", tol=1e-14)
    return found.x
