r"""Products with the atoms of all columns, at half the price where both w and −w are columns.

σ(−Zw) = σ(Zw) − Zw, so the atom of −w is that of w up to one of the few linear functions of the rows. Nine columns in
ten come in such pairs: what pricing finds on one half of a circle it finds on the other as long as Zᵀλ is small, and
starting vertices are pairs. With F the atoms of one of each pair, d and d' the weights of the two,

    Σ_j d_j a_j a_jᵀ = Fᵀ diag(d + d') F − B Zᵀ − Z Bᵀ + Z K Zᵀ,   B = Fᵀ diag(d') W,  K = Wᵀ diag(d') W.

The heavier of the two is the one that stays, so that nothing large cancels. 1000 points in the plane take 6.2 (noise)
and 8.4 s (smooth) with both this and :mod:`covopt.solvers.master.grouping`, 6.9 and 10.8 without groups, 8.6 and
14.0 with neither.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy.linalg.blas import dsyr2k, dsyrk

from covopt.solvers.master.grouping import grouped_gram

WORTH = 128  # columns from which on pairs are worth the digits that folding takes from short rows
GROUPED = 600  # rows from which on products by groups are faster, in three dimensions
OPPOSITE = 4e-15  # distance of −w, entry by entry, that is rounding
NEAR = 1e-14  # the same for a product with a fixed vector
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
        """Atoms of the columns that are kept; products by groups do without this copy, the largest there is."""
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
    """Return columns that are kept, those that are not, and which kept one is the opposite of each of these."""
    m = len(neurons)
    if m < WORTH:
        return np.arange(m), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    # opposites are neighbours in the order of |w·v|; strangers that part them cost a pair, and are rare
    place = np.abs(neurons @ np.sin(1.0 + np.arange(neurons.shape[1])))
    order = np.argsort(place, kind="stable")
    near = np.flatnonzero(np.diff(place[order]) <= NEAR)
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
    """Products of some rows with k vectors x (k, N), shape (m, k); four rows at a time, as memory can give them."""
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
