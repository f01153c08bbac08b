r"""Forces on the representations of a layer, and the rays along which they draw its neurons (FL22 §3.1, Figure 1).

Attraction and repulsion between the layers make up the gradient of 𝓛ʳ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from covopt.checks.validation import check_count, check_number
from covopt.errors import InputError
from covopt.experiments.representations.images import LayerImage, LayerRank, admissible
from covopt.experiments.representations.problem import RepresentationProblem


@dataclass(frozen=True, eq=False)
class Forces:
    r"""Forces on the representations: rows belong to samples, columns to neurons.

    Attributes
    ----------
    representations : tuple of ndarray of shape (N, n_ℓ)
        Z_1 … Z_L.
    attraction : tuple of ndarray
        :math:`-\partial_{Z_\ell}\|A_{\ell-1}^+ Z_\ell\|^2`, ℓ = 1 … L: towards the origin,
        most where A_{ℓ−1} is small.
    repulsion : tuple of ndarray
        :math:`-\partial_{Z_\ell}\|A_\ell^+ Z_{\ell+1}\|^2`, ℓ = 1 … L − 1: away from it,
        most where Z_{ℓ+1} is large.
    pull : ndarray or None
        :math:`-\nabla C(Z_L)/\lambda`, what acts on the outputs beside their attraction; None without a loss.
    ranks : tuple of LayerRank
        Of A₀ … A_{L−1}, with Tikhonov's ε.
    """

    representations: tuple[np.ndarray, ...]
    attraction: tuple[np.ndarray, ...]
    repulsion: tuple[np.ndarray, ...]
    pull: np.ndarray | None
    ranks: tuple[LayerRank, ...]

    @property
    def tikhonov(self) -> float:
        """ε, in units of squared features."""
        return self.ranks[0].tikhonov

    def by_sample(self, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z_ℓ, attraction and repulsion with a row for each sample, ℓ = 1 … L − 1.

        Parameters
        ----------
        layer : int
            ℓ, from 1.

        Raises
        ------
        InputError
            When there is no such hidden layer.
        """
        if not isinstance(layer, Integral) or not 1 <= layer <= len(self.repulsion):
            raise InputError(
                f"layer must be a hidden layer, from 1 to {len(self.repulsion)}; received {layer!r}."
            )
        i = layer - 1
        return self.representations[i], self.attraction[i], self.repulsion[i]

    def by_neuron(self, layer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return Z_ℓ, attraction and repulsion with a row for each neuron, ℓ = 1 … L − 1.

        Parameters
        ----------
        layer : int
            ℓ, from 1.

        Raises
        ------
        InputError
            When there is no such hidden layer.
        """
        z, attraction, repulsion = self.by_sample(layer)
        return z.T, attraction.T, repulsion.T

    def imbalance(self, layer: int) -> float:
        """Return ‖attraction + repulsion‖ relative to the larger of the two, ℓ = 1 … L − 1; 0 where both vanish.

        Parameters
        ----------
        layer : int
            ℓ, from 1.
        """
        _, attraction, repulsion = self.by_sample(layer)
        size = max(float(np.linalg.norm(attraction)), float(np.linalg.norm(repulsion)))
        return float(np.linalg.norm(attraction + repulsion)) / size if size > 0 else 0.0


def forces(problem: RepresentationProblem, Z: Any) -> Forces:
    r"""Compute the forces on each layer in closed form.

    With M = (A_{ℓ−1}A_{ℓ−1}ᵀ)⁺ the attraction is −2MZ_ℓ. With W = W_{ℓ+1} of Ψ without its bias column and
    U = (A_ℓA_ℓᵀ)⁺Z_{ℓ+1} the repulsion is σ′(Z_ℓ) ∘ 2UW. (Derivatives along constant rank;
    with Tikhonov's ε everywhere.)

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
        Where a rank is not clear.

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
    found, images = admissible(problem, Z)
    attraction, repulsion = force_arrays(found, images)
    repulsion = [problem.derivative(z) * push for z, push in zip(found, repulsion, strict=False)]
    pull = None if problem.loss is None else -problem.fit_gradient(found[-1]) / problem.lam
    return Forces(
        tuple(found), tuple(attraction), tuple(repulsion), pull, tuple(image.rank for image in images)
    )


def force_arrays(
    Z: Sequence[np.ndarray], images: Sequence[LayerImage]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the attractions of layers 1 … L, and the repulsions of layers 1 … L − 1 before the factor σ′(Z_ℓ)."""
    pulled = [image.inverse_gram(z) for image, z in zip(images, Z, strict=True)]
    attraction = [-2.0 * u for u in pulled]
    repulsion = []
    for layer in range(1, len(Z)):
        weights = images[layer].weights(Z[layer])[: Z[layer - 1].shape[1]]  # Wᵀ without the bias row
        repulsion.append(2.0 * pulled[layer] @ weights.T)
    return attraction, repulsion


def gradient(problem: RepresentationProblem, Z: Any) -> tuple[np.ndarray, ...]:
    r"""Return :math:`\nabla_{Z_\ell} \mathcal L^r`, ℓ = 1 … L: −λ(attraction + repulsion), and ∇C for the outputs.

    Each is a partial derivative, the other layers fixed, along moves that keep the ranks; it depends on neighbouring
    layers alone. In interpolation the outputs are fixed and theirs is the derivative of the norm.

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
        Where a rank is not clear.

    Raises
    ------
    InputError
        For representations that no network has (and ε = 0).

    Examples
    --------
    >>> problem = RepresentationProblem([[1.0]], [4.0], lam=0.5, bias=0.0)
    >>> [g.tolist() for g in gradient(problem, [[[2.0]], [[4.0]]])]
    [[[0.0]], [[1.0]]]
    """
    found, images = admissible(problem, Z)
    return partial_gradient(problem, found, images)


def partial_gradient(
    problem: RepresentationProblem, Z: Sequence[np.ndarray], images: Sequence[LayerImage]
) -> tuple[np.ndarray, ...]:
    """∇𝓛ʳ from images already at hand."""
    attraction, repulsion = force_arrays(Z, images)
    total = [-problem.lam * a for a in attraction]
    for layer, push in enumerate(repulsion):
        total[layer] -= problem.lam * problem.derivative(Z[layer]) * push
    total[-1] = total[-1] + problem.fit_gradient(Z[-1])
    return tuple(total)


@dataclass(frozen=True, eq=False)
class NeuronRays:
    """Rays and the neurons near them.

    Attributes
    ----------
    directions : ndarray of shape (rays, N)
        Unit vectors, the one with the most mass first.
    labels : ndarray of shape (n,)
        Index of each neuron's ray; −1 for neurons near none and −2 for silent ones.
    angles_deg : ndarray of shape (n,)
        Angle between each neuron and the nearest ray; NaN for silent ones.
    mass : ndarray of shape (n,)
        Squared norms of the neurons.
    """

    directions: np.ndarray
    labels: np.ndarray
    angles_deg: np.ndarray
    mass: np.ndarray

    def __len__(self) -> int:
        return len(self.directions)

    @property
    def n_live(self) -> int:
        """Neurons that are not silent."""
        return int((self.labels > -2).sum())

    @property
    def share(self) -> float:
        """Share of the live neurons that lie near a ray; 1 where none is alive."""
        return float((self.labels >= 0).sum() / self.n_live) if self.n_live else 1.0

    @property
    def mass_share(self) -> float:
        """Share of the squared norm that lies near a ray; 1 where there is no mass."""
        total = float(self.mass.sum())
        return float(self.mass[self.labels >= 0].sum()) / total if total > 0 else 1.0


def neuron_rays(
    Z: Any, *, n_rays: int | None = None, max_angle_deg: float = 5.0, silent: float = 1e-3
) -> NeuronRays:
    """Find rays that the columns of Z (one for each neuron) lie along: greedy, by the mass covered.

    Neurons on one ray, with positive homogeneous σ, act as a single neuron. A greedy cover is no proof that
    fewer rays would not do.

    Parameters
    ----------
    Z : array_like of shape (N, n)
    n_rays : int, optional
        How many at most; by default as many as it takes to cover all neurons that are not silent.
    max_angle_deg : float
        A neuron within this angle is near the ray, below 90.
    silent : float
        Neurons of at most this share of the largest norm count as silent.

    Returns
    -------
    NeuronRays

    Raises
    ------
    InputError
        Where Z is not a finite matrix, or an option is out of range.

    Examples
    --------
    >>> found = neuron_rays([[1.0, 2.0, 0.0, 0.0], [1.0, 2.0, 0.0, -3.0]])
    >>> len(found), found.labels.tolist(), found.n_live
    (2, [0, 0, -2, 1], 3)
    """
    matrix = np.asarray(Z, dtype=float)
    if matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise InputError(f"Z must be a matrix (N, n) of finite numbers; received shape {matrix.shape}.")
    check_number("max_angle_deg", max_angle_deg, "a positive number below 90", lambda a: 0 < a < 90)
    if n_rays is not None:
        check_count("n_rays", n_rays)
    check_number("silent", silent, "a number in [0, 1)", lambda s: 0 <= s < 1)
    neurons = matrix.T
    norms = np.linalg.norm(neurons, axis=1)
    live = norms > silent * norms.max(initial=0.0)
    labels = np.where(live, -1, -2)
    units = neurons / np.where(norms > 0, norms, 1.0)[:, None]
    mass, bound = norms**2, np.cos(np.deg2rad(max_angle_deg))
    directions: list[np.ndarray] = []
    near = units @ units.T >= bound
    while (labels == -1).any() and (n_rays is None or len(directions) < n_rays):
        open_ = labels == -1
        covered = np.where(open_, near @ (mass * open_), -np.inf)
        centre = units[int(covered.argmax())]
        group = open_ & (units @ centre >= bound)
        mean = (mass[group, None] * units[group]).sum(axis=0)
        mean /= np.linalg.norm(mean)
        better = open_ & (units @ mean >= bound)
        if mass[better].sum() >= mass[group].sum():
            group, centre = better, mean
        labels[group] = len(directions)
        directions.append(centre)
    rays = np.array(directions).reshape(len(directions), len(matrix))
    cosines = np.clip(units @ rays.T, -1.0, 1.0).max(axis=1, initial=-1.0)
    angles = np.where(live, np.rad2deg(np.arccos(cosines)), np.nan)
    return NeuronRays(rays, labels, angles, mass)
