r"""Products with the atoms of all columns, at half the cost where both w and −w are columns.

σ(−Zw) = σ(Zw) − Zw, so the atom of −w is that of w up to one of the few linear functions of the rows. Nine columns in
ten come in such pairs: what pricing finds on one half of a circle it finds on the other as long as Zᵀλ is small, and
starting vertices are pairs. With F the atoms of one of each pair, d and d' the weights of the two,

    Σ_j d_j a_j a_jᵀ = Fᵀ diag(d + d') F − B Zᵀ − Z Bᵀ + Z K Zᵀ,   B = Fᵀ diag(d') W,  K = Wᵀ diag(d') W.

The atom of the heavier one is kept, so that nothing large cancels. 1000 points in the plane take 6.2 s (noise) and
8.4 s (smooth) with both pairs and groups, 6.9 and 10.8 without groups, 8.6 and 14.0 with neither.

**Groups of similar directions** need a fraction of the products for their part of the normal matrix. A column is
1[Zw > 0] ∘ Zv: the atom of w with v = w, a tangent of its face with another v. Near a centre c the pattern of w is
that of c but for the rows whose hyperplanes lie between the two, near −c it is the opposite one,

    1[Zw > 0] ∘ Zv = D Zv + s,   D = D_c or I − D_c,   s zero but on those few rows, R,

so that Σ d_j (·)(·)ᵀ over a group is a product of |R| × |R| entries and factors of rank r on all rows. With some
√(M/2) centres the first costs about as much as the second, and in three dimensions both together a third of the
plain product. The atom of −w has the same s and the other D, so a pair is one column here. Errors by cancellation are
about the rounding of the largest entries, which is less than the matrix is regularised by.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.linalg.blas import dsyr2k, dsyrk

from covopt.exact.rank import FOUND

WORTH = 128  # least number of columns for which pairs are worth the digits that folding costs short rows
GROUPED = 600  # rows from which on products by groups are faster, in three dimensions
OPPOSITE = 4e-15  # largest entrywise distance from −w that counts as rounding
PER_CENTRE = 2.0  # columns for every squared number of centres
FAST = {"reassoc", "contract", "nsz"}  # sums in any order


class Folding:
    """Atoms of columns, one row for each pair of opposite neurons.

    Parameters
    ----------
    atoms : ndarray of shape (M, N)
        σ(Z w) of every neuron; those of neurons that are zero may be anything.
    neurons : ndarray of shape (M, r)
    rows : ndarray of shape (N, r)
        Z.
    weights : ndarray of shape (M,)
        Of a pair the column of larger weight is kept.

    Examples
    --------
    >>> rows = np.array([[1.0, 2.0], [-1.0, 0.5]])
    >>> neurons = np.array([[1.0, 0.0], [-1.0, 0.0]] * 100)
    >>> atoms = np.maximum(neurons @ rows.T, 0.0)
    >>> folding = Folding(atoms[:2], neurons[:2], rows, np.ones(2))
    >>> folding.times(np.eye(2)).tolist() == atoms[:2].tolist()
    True
    """

    def __init__(self, atoms: np.ndarray, neurons: np.ndarray, rows: np.ndarray, weights: np.ndarray):
        self.rows, self.count = rows, len(atoms)
        kept, mates, owner = _pairs(neurons, weights)
        self.kept, self._mates, self._owner = kept, mates, owner
        self._every, self._neurons = atoms, neurons
        self._groups = len(rows) >= GROUPED and rows.shape[1] <= 3 and bool(neurons.any(axis=1).all())
        self._folded = None if len(mates) else atoms
        if not self._groups:
            self._folded = self.atoms
        self._lines = neurons[kept][owner]

    @property
    def atoms(self) -> np.ndarray:
        """Atoms of the kept columns; products by groups avoid this copy, the largest array."""
        if self._folded is None:
            self._folded = self._every[self.kept]
        return self._folded

    def times(self, x: np.ndarray) -> np.ndarray:
        """Return A x for x of shape (N, k)."""
        main = self.atoms @ x if self._folded is not None else _times(self._every, self.kept, x.T.copy())
        if not len(self._mates):
            return main
        out = np.empty((self.count, x.shape[1]))
        out[self.kept] = main
        out[self._mates] = main[self._owner] - self._lines @ (self.rows.T @ x)
        return out

    def transposed(self, y: np.ndarray) -> np.ndarray:
        """Return Aᵀ y for y of shape (M, k)."""
        if not len(self._mates):
            return self.atoms.T @ y
        folded, other = y[self.kept], y[self._mates]
        folded[self._owner] += other
        if self._folded is None:
            main = _transposed(self._every, self.kept, folded.T.copy())
        else:
            main = self._folded.T @ folded
        return main - self.rows @ (self._lines.T @ other)

    def gram(
        self,
        weights: np.ndarray,
        beside: np.ndarray | None = None,
        moves: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """Return the lower triangle of Aᵀ diag(weights) A, plus that of TᵀT for T ``beside`` (weights ≥ 0 then).

        Where T consists of tangents, ``moves`` are the columns that they belong to and how each moves.
        """
        if self._groups and (beside is None or moves is not None) and (weights >= 0.0).all():
            return self._grouped(weights, moves)
        folded = weights
        if len(self._mates):
            other = weights[self._mates]
            folded = weights[self.kept]
            folded[self._owner] += other
        if beside is not None:
            stacked = np.empty((len(self.atoms) + len(beside), self.atoms.shape[1]))
            np.multiply(self.atoms, np.sqrt(folded)[:, None], out=stacked[: len(self.atoms)])
            stacked[len(self.atoms) :] = beside
            total = dsyrk(1.0, stacked.T, trans=0, lower=1)
        else:
            total = np.zeros((self.atoms.shape[1],) * 2, order="F")
            for chosen, sign in ((folded > 0, 1.0), (folded < 0, -1.0)):
                if chosen.any():
                    part = self.atoms[chosen] * np.sqrt(np.abs(folded[chosen]))[:, None]
                    total = dsyrk(sign, part.T, trans=0, lower=1, beta=1.0, c=total, overwrite_c=1)
        if len(self._mates):
            weighted = self._lines * other[:, None]
            lever = np.zeros((len(self.atoms), self.rows.shape[1]))
            lever[self._owner] = weighted
            side = self.atoms.T @ lever - self.rows @ (0.5 * (self._lines.T @ weighted))
            total = dsyr2k(
                -1.0, np.asfortranarray(side), np.asfortranarray(self.rows), beta=1.0, c=total, lower=1, overwrite_c=1
            )  # fmt: skip
        return total

    def _grouped(self, weights: np.ndarray, moves: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        """:meth:`gram` by groups of like directions."""
        both = np.zeros((len(self.kept), 2))
        both[:, 0] = weights[self.kept]
        both[self._owner, 1] = weights[self._mates]
        owner, vectors = self.kept, self._neurons[self.kept]
        if moves is not None:
            owner, vectors = np.concatenate([owner, moves[0]]), np.concatenate([vectors, moves[1]])
            both = np.concatenate([both, np.tile([1.0, 0.0], (len(moves[0]), 1))])
        return grouped_gram(self.rows, self._every, self._neurons, owner, vectors, both)


def _pairs(neurons: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the kept columns, the dropped ones, and for each dropped one the position of its kept opposite."""
    m = len(neurons)
    if m < WORTH:
        return np.arange(m), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # opposites are neighbours in the order of |w·v|; another column between them loses a pair, which is rare
    place = np.abs(neurons @ np.sin(1.0 + np.arange(neurons.shape[1])))
    order = np.argsort(place, kind="stable")
    near = np.flatnonzero(np.diff(place[order]) <= OPPOSITE * neurons.shape[1])
    one, two = order[near], order[near + 1]
    distance = np.abs(neurons[one] + neurons[two]).max(axis=1, initial=0.0)
    pair = (distance <= OPPOSITE) & neurons[one].any(axis=1)
    pair[1:] &= ~(pair[:-1] & (two[:-1] == one[1:]))  # each column in one pair
    one, two = one[pair], two[pair]
    lighter = (weights[one] < weights[two]) | ((weights[one] == weights[two]) & (one > two))
    goes, stays = np.where(lighter, one, two), np.where(lighter, two, one)
    mates, stays = np.sort(goes), stays[np.argsort(goes)]
    kept = np.delete(np.arange(m), mates)
    return kept, mates, np.searchsorted(kept, stays)


@njit(cache=True, nogil=True, fastmath=FAST)
def _times(atoms, kept, x):
    """Multiply some rows with k vectors x (k, N), shape (m, k); four rows at a time, for the memory bandwidth."""
    m, (k, n) = len(kept), x.shape
    out, four = np.zeros((m, k)), m // 4 * 4
    for o in range(k):
        for y in range(0, four, 4):
            a, b, c, d = kept[y], kept[y + 1], kept[y + 2], kept[y + 3]
            s, t, u, v = 0.0, 0.0, 0.0, 0.0
            for i in range(n):
                s += atoms[a, i] * x[o, i]
                t += atoms[b, i] * x[o, i]
                u += atoms[c, i] * x[o, i]
                v += atoms[d, i] * x[o, i]
            out[y, o], out[y + 1, o], out[y + 2, o], out[y + 3, o] = s, t, u, v
        for y in range(four, m):
            for i in range(n):
                out[y, o] += atoms[kept[y], i] * x[o, i]
    return out


@njit(cache=True, nogil=True, fastmath=FAST)
def _transposed(atoms, kept, y):
    """Sum some rows with k weights each, y (k, m), shape (N, k)."""
    (k, m), n = y.shape, atoms.shape[1]
    out, four = np.zeros((k, n)), m // 4 * 4
    for o in range(k):
        for j in range(0, four, 4):
            a, b, c, d = kept[j], kept[j + 1], kept[j + 2], kept[j + 3]
            for i in range(n):
                out[o, i] += (
                    y[o, j] * atoms[a, i]
                    + y[o, j + 1] * atoms[b, i]
                    + y[o, j + 2] * atoms[c, i]
                    + y[o, j + 3] * atoms[d, i]
                )
        for j in range(four, m):
            for i in range(n):
                out[o, i] += y[o, j] * atoms[kept[j], i]
    return out.T


def grouped_gram(
    rows: np.ndarray,
    atoms: np.ndarray,
    neurons: np.ndarray,
    owner: np.ndarray,
    vectors: np.ndarray,
    weights: np.ndarray,
) -> np.ndarray:
    """Return the lower triangle of Σ_j d_j (1[Zw > 0] ∘ Zv)(·)ᵀ + d'_j (1[Zw < 0] ∘ Zv)(·)ᵀ.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z.
    atoms : ndarray of shape (M, N)
        Positive where Zw > 0.
    neurons : ndarray of shape (M, r)
        w, not zero.
    owner : ndarray of int, shape (m,)
        Which neuron a column belongs to.
    vectors : ndarray of shape (m, r)
        v.
    weights : ndarray of shape (m, 2)
        d and d', not negative.

    Examples
    --------
    >>> rows, neurons = np.eye(2), np.array([[0.6, 0.8], [-0.6, 0.8]])
    >>> atoms, weights = np.maximum(neurons @ rows.T, 0.0), np.array([[1.0, 0.0], [1.0, 1.0]])
    >>> np.tril(grouped_gram(rows, atoms, neurons, np.arange(2), neurons, weights)).round(12)
    array([[0.72, 0.  ],
           [0.48, 1.28]])
    """
    n, r = rows.shape
    units = neurons[owner]
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    centres = np.empty(max(1, int(np.sqrt(len(units) / PER_CENTRE))), dtype=np.int64)
    cosine, nearest = np.zeros(len(units)), np.zeros(len(units), dtype=np.int64)
    _spread(units, centres, cosine, nearest)
    order = np.argsort(nearest, kind="stable")
    cuts = np.searchsorted(nearest[order], np.arange(len(centres) + 1))
    lengths = np.linalg.norm(rows, axis=1) * (1.0 + FOUND)
    total, buffer = np.zeros((n, n), order="F"), np.empty(0)
    left, right = np.zeros((len(centres), 2, r, n)), np.zeros((len(centres), 2, r, n))
    for g, centre in enumerate(centres):
        some = order[cuts[g] : cuts[g + 1]]
        heights = rows @ units[centre]
        # rows whose hyperplanes lie between the centre and the farthest member
        least = float(np.abs(cosine[some]).min(initial=1.0))
        near = np.flatnonzero(np.abs(heights) <= lengths * np.sqrt(max(1.0 - least**2, FOUND)))
        size = len(some) * len(near)
        if buffer.size < size:
            buffer = np.empty(2 * size)
        part = buffer[:size].reshape(len(some), len(near))
        _fill(rows, heights, atoms, owner, near, some, vectors, weights, cosine, part, left[g], right[g])
        if size:
            _add_lower(dsyrk(1.0, part.T, trans=0, lower=1), near, total)
    return dsyr2k(
        1.0, left.reshape(-1, n).T, right.reshape(-1, n).T, beta=1.0, c=total, lower=1, overwrite_c=1
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _spread(units, centres, cosine, nearest):
    """Choose centres greedily: the next one is farthest from all others and their opposites."""
    farthest = 0
    for g in range(len(centres)):
        centres[g] = farthest
        centre, least = units[centres[g]], 2.0
        for j in range(len(units)):
            t = 0.0
            for c in range(units.shape[1]):
                t += units[j, c] * centre[c]
            if abs(t) > abs(cosine[j]) or g == 0:
                cosine[j], nearest[j] = t, g
            if abs(cosine[j]) < least:
                least, farthest = abs(cosine[j]), j


@njit(cache=True, nogil=True)
def _fill(rows, heights, atoms, owner, near, some, vectors, weights, cosine, part, left, right):
    """Write √(d + d')·s of the members, and the factors of what the group adds on all rows."""
    n, r = rows.shape
    forms = np.zeros((2, r, r))
    for y in range(len(some)):
        j = some[y]
        side = 0 if cosine[j] > 0.0 else 1
        own, other = weights[j, 0], weights[j, 1]
        root = np.sqrt(own + other)
        for x in range(len(near)):
            is_active = atoms[owner[j], near[x]] > 0.0
            s = 0.0
            if is_active != ((heights[near[x]] > 0.0) == (side == 0)):
                for c in range(r):
                    s += rows[near[x], c] * vectors[j, c]
                if not is_active:
                    s = -s
                for c in range(r):
                    right[side, c, near[x]] += own * vectors[j, c] * s
                    right[1 - side, c, near[x]] -= other * vectors[j, c] * s
            part[y, x] = root * s
        for a in range(r):
            for b in range(r):
                product = vectors[j, a] * vectors[j, b]
                forms[side, a, b] += own * product
                forms[1 - side, a, b] += other * product
    for side in range(2):
        for i in range(n):
            if (heights[i] > 0.0) == (side == 0):
                for a in range(r):
                    left[side, a, i] = rows[i, a]
                    for b in range(r):
                        right[side, a, i] += 0.5 * forms[side, a, b] * rows[i, b]


@njit(cache=True, nogil=True)
def _add_lower(block, near, out):
    """Add the lower triangle of a block to the entries of ascending rows ``near``."""
    for y in range(len(near)):
        for x in range(y, len(near)):
            out[near[x], near[y]] += block[x, y]
