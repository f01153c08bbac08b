r"""What faces that were computed say about the faces of the rows they stand for: nothing is argued by a tolerance.

The lattice of :mod:`covopt.oracles.vector.face_lattice` belongs to unit vectors y_i, doubles, that stand for true
ones x_i with \|x_i − y_i\| ≤ ν_i: rows were whitened, merged, scaled (the transfer of :mod:`covopt.exact.rounding`).

**Flats** (:func:`flats_miss_up`). N holds m of the y_i, B is the basis of {w : Nw = 0} as computed. Let w be a unit
vector of the true flat, where the m rows x_i vanish, t = Bᵀw and δ = w − Bt. Then Nδ = (N − X)w − NBt and
Bᵀδ = (1 − BᵀB)t, so

.. math::
    \|\delta\| \le \|S^{-1}\| \sqrt{(\|\nu\| + \|N B\|)^2 + \|1 - B^\top B\|^2} =: \mu, \qquad
    S = \begin{pmatrix} N \\ B^\top \end{pmatrix}, \qquad \|S^{-1}\| \le \frac{\|G\|}{1 - \|1 - G S\|}

for any G. All of it is a few products of doubles, with γ for what they round (fact 2). Where μ < 1, w ↦ t is one to
one, so the true flat has D − m dimensions, no more, and ‖w‖ ≤ ‖B‖‖t‖/(1 − μ).

**Rows that do not vanish** on it are those with ‖y_iB‖ > (μ + ν_i)‖B‖/(1 − μ): then x_i·w has the sign of y_i·Bt for
the t along y_iB. On a line this decides the signs of both its rays. **Rows that vanish** do so exactly: the rank of
the table's own rows, in fractions. Flats that contain all rows of their rank and no other, and the lines' signs,
determine all faces (:func:`is_proved`). The signs on the two sides of a flat within the next were decided in other
coordinates, by reflections, whose errors are at most 64(r + 1)u/σ_min of the rows that vanish (m reflections of r
entries, each backward stable); they have to be below a quarter of the shortest part of a row.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from covopt.exact.rank import exact_rank
from covopt.exact.rounding import UNIT, gamma
from covopt.oracles.vector.face_lattice import FaceLevel, unpack

MOST_EXACT = 3000
ROOM = 1.0 + 2.0**-20  # more than what the handful of sums and quotients that are not enclosed err by
BLOCK = 1 << 13


def flats_miss_up(units: np.ndarray, unsure: np.ndarray, level: FaceLevel) -> np.ndarray:
    """Bound the distance of unit vectors of each true flat from the computed one: μ above, infinite where unproved.

    Parameters
    ----------
    units : ndarray of shape (n, r)
        y_i.
    unsure : ndarray of shape (n,)
        ν_i.
    level : FaceLevel

    Returns
    -------
    ndarray of shape (n_flats,)

    Examples
    --------
    >>> from covopt.oracles.vector.face_lattice import build_lattice
    >>> rays = build_lattice(np.eye(2)).levels[0]
    >>> bool((flats_miss_up(np.eye(2), np.zeros(2), rays) < 1e-13).all())
    True
    """
    n_flats, r, d = level.bases.shape
    if d == r:
        return np.zeros(n_flats)
    found = np.empty(n_flats)
    share = gamma(2 * r + 8)
    for start in range(0, n_flats, BLOCK):
        part = slice(start, start + BLOCK)
        basis, across = level.bases[part], units[level.normals[part]]
        square = np.concatenate([across, basis.transpose(0, 2, 1)], axis=1)
        inverse = _inverse(square)
        size, long = _lengths(inverse), _lengths(square)
        apart = _lengths(inverse @ square - np.eye(r)) + share * size * long
        beside = (
            _lengths(across @ basis) + share * long**2 + np.linalg.norm(unsure[level.normals[part]], axis=1)
        )
        turned = _lengths(basis.transpose(0, 2, 1) @ basis - np.eye(d)) + share * long**2
        good = (apart < 0.5) & (turned < 2.0**-22)
        with np.errstate(divide="ignore", invalid="ignore"):
            miss = size / (1.0 - apart) * np.hypot(beside, turned) * ROOM
        found[part] = np.where(good & (miss < 0.5), miss, np.inf)
    return found


def is_proved(
    units: np.ndarray,
    unsure: np.ndarray,
    levels: Iterable[FaceLevel],
    given: np.ndarray,
    dropped: Iterable[np.ndarray] = (),
) -> bool:
    """Whether a lattice lists exactly the faces of the true rows.

    Parameters
    ----------
    units : ndarray of shape (n, r)
        One row per line.
    unsure : ndarray of shape (n,)
    levels : iterable of FaceLevel
    given : ndarray of shape (n, D)
        Rows of the table on these lines, which the units stand for by a linear map that is one to one.
    dropped : iterable of ndarray of int
        Sets of lines that have to have a rank below r.

    Returns
    -------
    bool
        False also where deciding it would take more than :data:`MOST_EXACT` ranks in fractions.

    Examples
    --------
    >>> from covopt.oracles.vector.face_lattice import build_lattice
    >>> rows = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.5, 0.5, 1.0], [1.0, 1.0, 1.0]])
    >>> units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    >>> is_proved(units, np.full(4, 1e-15), build_lattice(rows).levels, rows)
    True
    >>> is_proved(units, np.full(4, 1e-15), build_lattice(rows).levels, rows + 1e-13 * np.eye(4, 3))
    False
    """
    n, r = units.shape
    whitened = np.linalg.svd(units, full_matrices=False)[0]
    whitened /= np.linalg.norm(whitened, axis=1, keepdims=True)
    asked: dict[bytes, tuple[np.ndarray, int]] = {}
    for lines in dropped:
        asked.setdefault(np.sort(lines).tobytes(), (lines, r - 1))
    for level in levels:
        m = level.normals.shape[1]
        if m == 0:
            continue
        inside = unpack(level.members, n)
        if len(asked) + int(inside.sum()) - m * len(inside) > MOST_EXACT:
            return False
        miss = flats_miss_up(units, unsure, level)
        if np.isinf(miss).any():
            return False
        for start in range(0, len(miss), BLOCK):
            part = slice(start, start + BLOCK)
            off = ~inside[part]
            height = np.linalg.norm(units @ level.bases[part], axis=2)
            slip = (miss[part, None] + unsure) / (1.0 - miss[part, None]) * ROOM + gamma(2 * r + 8)
            if (off & (height <= slip)).any() or not _sides_are_clear(whitened, level.normals[part], off):
                return False
        for flat, row in zip(*np.nonzero(inside), strict=True):
            if row not in level.normals[flat]:
                lines = np.append(level.normals[flat], row)
                asked.setdefault(np.sort(lines).tobytes(), (lines, m))
    return len(asked) <= MOST_EXACT and all(
        exact_rank(given[lines]) <= most for lines, most in asked.values()
    )


def _sides_are_clear(whitened: np.ndarray, normals: np.ndarray, off: np.ndarray) -> bool:
    """Whether parts of rows in flats are longer than what reflections may err by, in whitened coordinates."""
    r, m = whitened.shape[1], normals.shape[1]
    across = whitened[normals]
    least = np.linalg.svd(across, compute_uv=False)[:, -1]
    q, _ = np.linalg.qr(across.transpose(0, 2, 1), mode="complete")
    parts = np.where(off, np.linalg.norm(whitened @ q[:, :, m:], axis=2), np.inf)
    return bool((4.0 * 64.0 * (r + 1) * UNIT <= least * parts.min(axis=1)).all())


def _inverse(square: np.ndarray) -> np.ndarray:
    try:
        return np.linalg.inv(square)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(square)


def _lengths(matrices: np.ndarray) -> np.ndarray:
    """Frobenius norms."""
    return np.sqrt(np.einsum("fij,fij->f", matrices, matrices))
