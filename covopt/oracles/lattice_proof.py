r"""Proof that computed faces are the faces of the given rows, by bounds on the errors of the computed flats.

:mod:`covopt.oracles.face_lattice` makes three kinds of decisions in floating point: which rows vanish on a
flat, which signs rows have on a ray, and, where several rows vanish together on a facet, whether they change sign
alike. Everything else is combinatorial. Here each decision is checked in the coordinates of the rows, so that the
faces are proved.

**The error of a computed flat.** Let Z be the unit rows of a flat X = {w : Zw = 0} of dimension d, B its computed
basis (r × d) and A any matrix (r × m; here a computed inverse of Z from the right). For w ∈ X,

.. math::
    w - B B^T w = (I - B B^T - A Z) w, \qquad |w - B B^T w| \le \rho |w|, \quad \rho = |I - B B^T - A Z|_F .

Where ρ < 1 no w ∈ X is orthogonal to the range of B. So the m rows are independent, X and the range have the same
dimension, and the sine of their largest angle is at most ρ, from either side. Products have an error γ(r + m +
4)(‖B‖² + ‖A‖‖Z‖) (Frobenius), and unit rows, one division each, u: so ρ grows as rows come close to dependent. Where
the rows represent others, z_i for z'_i with ‖z_i − z'_i‖ ≤ ν_i, and X is a flat of those, Zw is off by ‖ν‖ and ρ
grows by ‖A‖‖ν‖.

**Decisions.** The part of a unit row in X, as a functional, differs from that in the range of B by at most
2ρ + ν + 4u.

1. A row whose computed part exceeds SAFE·(ρ + ν) does not vanish on X. A row that is taken to vanish is one of the m
   normals, or depends on them exactly: their common rank is computed in rational arithmetic.
2. On a ray, a row whose height exceeds the same threshold has the sign of that height.
3. Rows that vanish together on a facet of X are multiples of each other on X, so if their parts exceed the threshold
   and are nearly parallel, they determine the sign of the factor.

By induction on the dimension, from above, every flat is then found with all its rows (each flat arises from one above
and a row that does not vanish there), and from below every face with all its signs. Bases are also orthonormal to
DEFECT, as measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covopt.exact.rank import exact_rank
from covopt.exact.rounding import UNIT, gamma
from covopt.limits import PIECE
from covopt.oracles.face_lattice import FaceLattice, FaceLevel, pack, unpack
from covopt.oracles.sphere import WIDEST

SAFE = 8.0
DEFECT = 2.0**-44  # largest defect of orthonormality that the bounds allow for
MOST_EXACT = 3000  # most ranks in rational arithmetic, a fraction of a millisecond each


@dataclass(frozen=True)
class LatticeProof:
    """What was proved about a lattice.

    Attributes
    ----------
    proved : bool
        Whether its faces are those of the rows, no more and no fewer.
    off : tuple of ndarray
        For every level the bounds ρ of its flats; zero in the highest dimension.
    slack : ndarray of shape (n,)
        Largest component of each unit row in a computed flat on which it vanishes.
    """

    proved: bool
    off: tuple[np.ndarray, ...]
    slack: np.ndarray

    @property
    def widest(self) -> float:
        """The largest ρ."""
        return max(float(off.max(initial=0.0)) for off in self.off)


def prove_lattice(
    rows: np.ndarray,
    lattice: FaceLattice,
    *,
    unsure: np.ndarray | None = None,
    given: np.ndarray | None = None,
) -> LatticeProof:
    """Check all decisions of a lattice.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        The argument of :func:`~covopt.oracles.face_lattice.build_lattice`.
    lattice : FaceLattice
    unsure : ndarray of shape (n,), optional
        ν, bounds on the distance of the unit rows from the rows that the proof is about.
    given : ndarray of shape (n, D), optional
        Rows that an injective linear map takes to those: their ranks are computed, by default those of ``rows``.

    Examples
    --------
    >>> from covopt.oracles.face_lattice import build_lattice
    >>> rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 2.0], [1.0, -1.0, 0.5]])
    >>> found = prove_lattice(rows, build_lattice(rows))
    >>> found.proved, found.widest < 1e-13
    (True, True)
    >>> rows[2, 2] += 1e-15
    >>> prove_lattice(rows, build_lattice(rows)).proved
    False
    """
    n, r = rows.shape
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    unsure = np.zeros(n) if unsure is None else unsure
    given = rows if given is None else given
    proved, off, slack = True, [], np.zeros(n)
    asked = 0
    for level in lattice.levels:
        d = level.bases.shape[2]
        sines, orthonormal = sines_of_flats(units, level, unsure)
        off.append(sines)
        proved = proved and orthonormal and bool(sines.max(initial=0.0) < WIDEST)
        for start in range(0, len(sines), step := max(1, PIECE // (n * d))):
            here = slice(start, start + step)
            parts = np.linalg.norm(np.matmul(units, level.bases[here]), axis=2)
            inside = unpack(level.members[here], n)
            least = SAFE * (sines[here, None] + unsure + (r + 4) * UNIT)
            proved = proved and bool((inside | (parts > least)).all())
            np.maximum(slack, np.where(inside, parts, 0.0).max(axis=0), out=slack)
        dependent = np.flatnonzero(np.bitwise_count(level.members).sum(axis=1) > r - d)
        asked += len(dependent)
        proved = proved and asked <= MOST_EXACT and _kinks_agree(units, level)
        proved = proved and all(
            exact_rank(given[flags]) == r - d for flags in unpack(level.members[dependent], n)
        )
    proved = proved and _rays_agree(units, lattice)
    return LatticeProof(proved, tuple(off), slack * (1.0 + gamma(4 * (r + 4))) + 4 * (r + 4) * UNIT)


def sines_of_flats(units: np.ndarray, level: FaceLevel, unsure: np.ndarray) -> tuple[np.ndarray, bool]:
    """Bound ρ for every flat, and return whether all bases are orthonormal to DEFECT.

    Parameters
    ----------
    units : ndarray of shape (n, r)
        Of length one.
    level : FaceLevel
    unsure : ndarray of shape (n,)
        ν.

    Returns
    -------
    (ndarray of shape (n_flats,), bool)
        The first is 1 where nothing is proved.

    Examples
    --------
    >>> from covopt.oracles.face_lattice import build_lattice
    >>> sines, orthonormal = sines_of_flats(np.eye(2), build_lattice(np.eye(2)).levels[0], np.zeros(2))
    >>> bool((sines < 1e-13).all()), orthonormal
    (True, True)
    """
    bases = level.bases
    _, r, d = bases.shape
    if d == r:
        return np.zeros(len(bases)), True
    chosen, off = units[level.normals], unsure[level.normals]
    transposed = bases.transpose(0, 2, 1)
    with np.errstate(all="ignore"):
        sines = _misses(bases, chosen, level.inverses.transpose(0, 2, 1), off)
    defect = np.linalg.norm(transposed @ bases - np.eye(d), axis=(1, 2)) + gamma(4 * (r + 4)) * d
    return np.where(np.isfinite(sines), sines, 1.0), bool(defect.max(initial=0.0) <= DEFECT)


def _misses(bases: np.ndarray, chosen: np.ndarray, inverse: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Bound ‖I − BBᵀ − AZ‖ + ‖A‖‖ν‖ from above."""
    (_, m, r), d = chosen.shape, bases.shape[2]
    rest = np.eye(r) - bases @ bases.transpose(0, 2, 1) - inverse @ chosen
    lengths = np.linalg.norm(inverse, axis=(1, 2))
    size = d + lengths * np.sqrt(m)
    sines = np.linalg.norm(rest, axis=(1, 2)) + gamma(4 * (r + m + 4)) * 2.0 * size
    return sines + lengths * np.linalg.norm(off, axis=1) * (1.0 + DEFECT)


def _kinks_agree(units: np.ndarray, level: FaceLevel) -> bool:
    """Return whether rows that vanish together on facets change sign as the lattice says (decision 3)."""
    n, r = units.shape
    shared = level.shared
    for start in range(0, len(shared.upper), step := max(1, PIECE // (n * r))):
        here = slice(start, start + step)
        upper, row = shared.upper[here], shared.row[here]
        parts = np.matmul(units, level.bases[upper])
        first = parts[np.arange(len(row)), row]
        products = np.einsum("pnd,pd->pn", parts, first)
        clear = 0.5 * np.linalg.norm(parts, axis=2) * np.linalg.norm(first, axis=1)[:, None]
        asked, positive = unpack(shared.kink[here], n), unpack(shared.positive[here], n)
        if (asked & ((np.abs(products) < clear) | ((products > 0.0) != positive))).any():
            return False
    return True


def _rays_agree(units: np.ndarray, lattice: FaceLattice) -> bool:
    """Return whether the two rays of every line have opposite signs, those of its computed direction (decision 2)."""
    rays = lattice.levels[0]
    n = len(units)
    inside = unpack(rays.members, n)
    heights = rays.bases[:, :, 0] @ units.T
    ahead, behind = pack((heights > 0) & ~inside), pack((heights < 0) & ~inside)
    signs = lattice.cells[rays.cell] & ~rays.members[rays.flat]
    is_ahead = (signs == ahead[rays.flat]).all(axis=1)
    is_behind = (signs == behind[rays.flat]).all(axis=1)
    once = np.bincount(rays.flat[is_ahead], minlength=len(inside)) == 1
    again = np.bincount(rays.flat[is_behind], minlength=len(inside)) == 1
    return bool((is_ahead | is_behind).all() and once.all() and again.all())
