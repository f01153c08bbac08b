r"""The cost of a neuron: the potentials V(w, v) = ‖v‖ ω(w), ω positively homogeneous of degree one.

=====================  ==========================================================================================
name                   ω(w), means over the rows x̃_i of the table
=====================  ==========================================================================================
variation              ‖w‖ (SP20 §2; Bach 2017)
label-noise            ω_b(w) = sqrt(mean_i σ(w·x̃_i)²), as SP20 eq. (13) prints it
label-noise-exact      sqrt(mean_i σ(w·x̃_i)²) · sqrt(mean_i |x̃_i|² χ(w·x̃_i > 0))
=====================  ==========================================================================================

**Where the two label-noise potentials come from.** With one output, SGD with label noise settles at local minimisers
of the mean squared gradient of the network (SP20 eq. 10, after Blanc et al.). A neuron c σ(w·x̃) contributes (eq. 12)

.. math::
    \widetilde V(w, c) = \mathbb{E}\bigl[\sigma(w\cdot\tilde x)^2 + c^2 |\tilde x|^2 \chi(w\cdot\tilde x > 0)\bigr]
                       = S + c^2 M, \qquad S = \mathbb{E}\,\sigma^2,\; M = \mathbb{E}\,|\tilde x|^2\chi .

The neurons (tw, c/t) are one function for all t > 0. The minimum of their contributions t²S + c²M/t² is at
t⁴ = c²M/S, where both terms equal |c| sqrt(S M), so it is 2 |c| sqrt(S) sqrt(M). Eq. (13) prints |c| sqrt(S):
it drops sqrt(M), which is constant on each open cell but not from cell to cell. The two potentials have different
minimisers: the printed one charges a neuron active on few small inputs as much as one active on many large ones.

**χ on the hinge.** Eq. (12) prints χ(≥ 0). Then ω jumps UP where a row comes to lie on the hinge, and infima need not
be attained (x = y = (0, 1, 2), β = 1: the infimum (2/3)√35 of 2|c|ω is approached by neurons whose hinge tends to 0
from the right and attained by none). With χ(> 0) ω jumps down there, is lower semicontinuous, and minimisers exist.
covopt computes this version; rows within 1e-10 of the hinge, relative to the neuron's largest distance x̃·w/‖x̃‖ from
a row, or within rounding of it, count as on it (see :func:`on_hinge`).

**Invariances.** ω_b depends only on the activations σ(w·x̃_i), so with a bias the minimal cost does not change under
x ↦ Mx + t for any invertible M, nor with β. The exact potential uses |x̃|: rotations leave it, translations do not.

**Undetermined parameters.** Both depend on a neuron only through its activations. Where the active rows have rank
below D, many w have the same activations; :meth:`LabelNoise.undetermined` returns the dimension of that set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from covopt.checks.validation import check_choice
from covopt.exact.rank import FOUND, null_space, row_span
from covopt.exact.rounding import ROUNDING

HINGE = 1e-10  # a row with |x̃·w|/‖x̃‖ below this, relative to the largest or to ‖w‖, lies on the hinge of w


@dataclass(frozen=True)
class VariationNorm:
    """ω(w) = ‖w‖.

    Examples
    --------
    >>> VariationNorm().weigh(np.eye(2), np.array([[3.0, 4.0]]))
    array([5.])
    """

    @property
    def name(self) -> str:
        """Name in ``potential=``."""
        return "variation"

    def weigh(self, rows: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """Return ω of each neuron.

        Parameters
        ----------
        rows : ndarray of shape (N, D)
            Not used.
        neurons : ndarray of shape (m, D)

        Returns
        -------
        ndarray of shape (m,)
        """
        return np.hypot.reduce(neurons, axis=1)  # squares of 1e-170 would underflow

    def undetermined(self, rows: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """Return zeros: the norm determines the parameter."""
        return np.zeros(len(neurons), dtype=int)


@dataclass(frozen=True)
class LabelNoise:
    r"""SP20's label-noise potential for one output, as printed (eq. 13) or with the factor that eq. (13) drops.

    .. math::
        \omega_b(w) = \Bigl(\tfrac1N \sum_i \sigma(w\cdot\tilde x_i)^2\Bigr)^{1/2}, \qquad
        \omega(w) = \omega_b(w)\, \Bigl(\tfrac1N \sum_i |\tilde x_i|^2\, \chi(w\cdot\tilde x_i > 0)\Bigr)^{1/2}.

    The module docstring has the derivation: minimising eq. (12) over the rescaling (tw, c/t) gives 2|c|ω(w)
    with the second one.

    Parameters
    ----------
    exact : bool
        Whether to keep the factor.

    Examples
    --------
    >>> rows = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    >>> LabelNoise().weigh(rows, np.array([[1.0, 0.0]])) ** 2 * 3
    array([5.])
    >>> (2 * LabelNoise(exact=True).weigh(rows, np.array([[1.0, 0.0]])) / np.sqrt(35) * 3).round(12)
    array([2.])
    """

    exact: bool = False

    @property
    def name(self) -> str:
        """Name in ``potential=``."""
        return "label-noise-exact" if self.exact else "label-noise"

    @property
    def degree(self) -> int:
        """The power of the size of the rows with which ω grows: 1 or 2."""
        return 2 if self.exact else 1

    def weigh(
        self,
        rows: np.ndarray,
        neurons: np.ndarray,
        sample_weight: np.ndarray | None = None,
        lengths: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return ω of each neuron.

        Parameters
        ----------
        rows : ndarray of shape (N, D)
            All lifted rows x̃ of the table, repeated ones as often as they occur.
        neurons : ndarray of shape (m, D)
        sample_weight : ndarray of shape (N,), optional
            Sums to one; 1/N by default.
        lengths : ndarray of shape (N,), optional
            |x̃_i|, where rows and neurons are in other coordinates.

        Returns
        -------
        ndarray of shape (m,)
        """
        weights = np.full(len(rows), 1.0 / len(rows)) if sample_weight is None else sample_weight
        heights = neurons @ rows.T
        # the root of sums of squares, scaled for each neuron: 1e-170 squared would underflow
        top = heights.max(axis=1, initial=0.0)
        unit = np.maximum(heights, 0.0) / np.where(top > 0, top, 1.0)[:, None]
        value = top * np.sqrt(np.square(unit) @ weights)
        if self.exact:
            lengths = np.linalg.norm(rows, axis=1) if lengths is None else lengths
            active = (heights > 0) & ~on_hinge(rows, neurons)
            value = value * np.sqrt(active @ (weights * lengths**2))
        return value

    def undetermined(self, rows: np.ndarray, neurons: np.ndarray) -> np.ndarray:
        """Return, for each neuron, the dimension of the set of parameters with the same activations.

        These are {w' : x̃_i·w' = x̃_i·w for the active rows, x̃_i·w' ≤ 0 for the others}, a polyhedron; a cost that
        depends on activations and active rows is constant on it. Its dimension is D minus the rank of the active
        rows, less the directions that inactive rows on the hinge hold fixed (found by a linear program).

        Parameters
        ----------
        rows : ndarray of shape (N, D)
        neurons : ndarray of shape (m, D)

        Returns
        -------
        ndarray of int, shape (m,)

        Examples
        --------
        >>> rows = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
        >>> LabelNoise().undetermined(rows, np.array([[1.0, -1.5], [1.0, 0.0]]))
        array([1, 0])
        """
        lengths = np.linalg.norm(rows, axis=1)
        units = rows[lengths > 0] / lengths[lengths > 0, None]
        silent = on_hinge(units, neurons)
        found = np.zeros(len(neurons), dtype=int)
        for j, neuron in enumerate(neurons):
            found[j] = _free_dimension(units[(units @ neuron > 0) & ~silent[j]], units[silent[j]])
        return found


def on_hinge(rows: np.ndarray, neurons: np.ndarray) -> np.ndarray:
    """Return which rows count as lying on the hinge of which neurons, shape (m, N).

    Examples
    --------
    >>> on_hinge(np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 1e-17], [1.0, 0.1]]))
    array([[ True, False],
           [False, False]])
    """
    lengths = np.linalg.norm(rows, axis=1)
    distance = np.abs(neurons @ rows.T) / np.where(lengths > 0, lengths, 1.0)
    size = HINGE * distance.max(axis=1, initial=0.0) + ROUNDING * np.linalg.norm(neurons, axis=1)
    return distance <= size[:, None]


Potential = VariationNorm | LabelNoise
POTENTIALS: dict[str, Potential] = {
    p.name: p for p in (VariationNorm(), LabelNoise(), LabelNoise(exact=True))
}


def make_potential(name: str) -> Potential:
    """Return the potential of this name.

    Parameters
    ----------
    name : {"variation", "label-noise", "label-noise-exact"}

    Raises
    ------
    InputError
        For other names.

    Examples
    --------
    >>> make_potential("label-noise")
    LabelNoise(exact=False)
    """
    return POTENTIALS[check_choice("potential", name, POTENTIALS)]


def _free_dimension(active: np.ndarray, silent: np.ndarray) -> int:
    """Return the dimension of the cone {v : active v = 0, silent v ≤ 0}."""
    dim = silent.shape[1]
    kernel = np.eye(dim)
    if len(active):
        kernel = null_space(active, FOUND)
    free = kernel.shape[1]
    fixing = silent @ kernel
    fixing = fixing[np.linalg.norm(fixing, axis=1) > FOUND]
    if not free or not len(fixing):
        return free
    # maximising the sum of slacks t ≤ 1 makes every slack positive that can be; the others are equations
    m = len(fixing)
    result = linprog(
        np.concatenate([np.zeros(free), -np.ones(m)]),
        A_ub=np.column_stack([fixing, np.eye(m)]), b_ub=np.zeros(m),
        bounds=[(None, None)] * free + [(0, 1)] * m, method="highs",
    )  # fmt: skip
    stuck = fixing[result.x[free:] < 0.5]
    return free - (len(row_span(stuck, FOUND)) if len(stuck) else 0)
