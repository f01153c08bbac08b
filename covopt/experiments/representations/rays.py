"""Rays from the origin along which the neurons of a layer lie (FL22 §3.1, Figure 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_count, check_number
from covopt.errors import InputError


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
