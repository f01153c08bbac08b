"""Symmetries of A: a moment relaxation over its invariants, with small semidefinite blocks.

A permutation g with A_{g(i)g(j)} = A_ij maps solutions to solutions, so only invariant moments y are needed. A block
B(y) then commutes with the permutations that fix it, and in a basis adapted to them it falls apart: with the
multiplicity space Q of each irreducible part, B ⪰ 0 iff all QᵀBQ ⪰ 0. Nothing has to be trusted here: QᵀBQ ⪰ 0
follows from B ⪰ 0 for any Q, and the dual point is lifted to the full relaxation before it is rounded to a bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from covopt.completely_positive.moment_model import MomentModel

MAX_GROUP = 200
MAX_STEPS = 20_000
SEED = 20140625
SAME = 1e-8


def automorphisms(A: np.ndarray) -> list[tuple[int, ...]]:
    """Return all permutations g with A[g(i), g(j)] = A[i, j] exactly; the identity alone where they are many.

    Parameters
    ----------
    A : ndarray of shape (n, n)

    Returns
    -------
    list of tuple of int
        g as (g(0), …, g(n − 1)).

    Examples
    --------
    >>> automorphisms(np.array([[2, 1, 0], [1, 3, 1], [0, 1, 2]]))
    [(0, 1, 2), (2, 1, 0)]
    """
    n = len(A)
    rows = [tuple(sorted(row)) for row in A.tolist()]
    found: list[tuple[int, ...]] = []
    partial: list[tuple[int, ...]] = [()]
    for _ in range(MAX_STEPS):
        if not partial or len(found) > MAX_GROUP:
            break
        images = partial.pop()
        k = len(images)
        if k == n:
            found.append(images)
            continue
        for image in range(n - 1, -1, -1):
            if image in images or rows[image] != rows[k] or A[image, image] != A[k, k]:
                continue
            if all(A[image, other] == A[k, i] for i, other in enumerate(images)):
                partial.append((*images, image))
    if partial or len(found) > MAX_GROUP:
        return [tuple(range(n))]
    return found


def act(g: tuple[int, ...], label: Any) -> Any:
    """Apply a permutation of the vertices to a label; tuples of vertices are sorted, as monomials are.

    Examples
    --------
    >>> act((2, 1, 0), ("pair", (0, 1), (0, (0, 0))))
    ('pair', (1, 2), (2, (2, 2)))
    """
    if isinstance(label, str):
        return label
    if not isinstance(label, tuple):
        return g[label]
    if all(isinstance(x, int) for x in label):
        return tuple(sorted(g[x] for x in label))
    return tuple(act(g, x) for x in label)


@dataclass(frozen=True)
class _Part:
    """One orbit of blocks: the block that stands for it, where its images lie, and its adapted bases."""

    spaces: list[np.ndarray]
    images: list[tuple[int, np.ndarray]]


@dataclass(frozen=True)
class Reduction:
    """The relaxation over invariant moments, in the form of :class:`MomentModel`.

    Attributes
    ----------
    cost, G, b, n_equal, n_signs, blocks
        As in the model.
    """

    cost: np.ndarray
    G: sparse.csr_matrix
    b: np.ndarray
    n_equal: int
    n_signs: int
    blocks: tuple[int, ...]
    _model: MomentModel
    _source: np.ndarray
    _parts: list[_Part]
    _order: int

    @classmethod
    def of(cls, model: MomentModel, group: list[tuple[int, ...]]) -> Reduction:
        """Reduce a model by a group of symmetries of its matrix."""
        place = {label: k for k, label in enumerate(model.columns)}
        orbit = np.arange(len(place))
        for g in group:
            image = np.array([place[act(g, label)] for label in model.columns])
            orbit = np.minimum(orbit, image)
        _, orbit = np.unique(orbit, return_inverse=True)
        project = sparse.csr_matrix((np.ones(len(orbit)), (np.arange(len(orbit)), orbit)))
        G = sparse.csr_matrix(model.G @ project)
        cost = project.T @ model.cost
        scalars = model.n_equal + model.n_signs
        dense = G[:scalars].toarray()
        seen: dict[tuple[bool, bytes], int] = {}
        source = np.zeros(scalars, dtype=int)
        kept: list[int] = []
        for row in range(scalars):
            key = (row < model.n_equal, np.append(dense[row], model.b[row]).tobytes())
            if key not in seen:
                seen[key] = len(kept)
                kept.append(row)
            source[row] = seen[key]
        n_equal = sum(row < model.n_equal for row in kept)
        pieces, constants = [dense[kept]], [model.b[kept]]
        parts, orders = [], []
        where = {key: k for k, (key, _) in enumerate(model.block_labels)}
        starts = scalars + np.cumsum([0] + [n * (n + 1) // 2 for n in model.blocks])
        done: set[int] = set()
        for k, (key, basis) in enumerate(model.block_labels):
            if k in done:
                continue
            images = []
            for g in group:
                target = where[act(g, key)]
                index = {label: i for i, label in enumerate(model.block_labels[target][1])}
                images.append((target, np.array([index[act(g, label)] for label in basis])))
                done.add(target)
            spaces = _adapted([p for target, p in images if target == k])
            parts.append(_Part(spaces, images))
            block = G[starts[k] : starts[k + 1]].toarray()
            constant = model.b[starts[k] : starts[k + 1]]
            tables = _unpack(np.column_stack([block, constant]).T, len(basis))
            for Q in spaces:
                small = _pack(np.einsum("ap,oab,bq->opq", Q, tables, Q))
                pieces.append(small[:-1].T)
                constants.append(small[-1])
                orders.append(Q.shape[1])
        return cls(
            cost, sparse.csr_matrix(np.vstack(pieces)), np.concatenate(constants), n_equal, len(kept) - n_equal,
            tuple(orders), model, source, parts, len(group),
        )  # fmt: skip

    def lift(self, dual: np.ndarray) -> np.ndarray:
        """Return the dual point of the full model, averaged over the group."""
        model = self._model
        scalars = len(self._source)
        full = np.zeros(len(model.b))
        counts = np.bincount(self._source, minlength=self.n_equal + self.n_signs)
        full[:scalars] = (dual[: len(counts)] / np.maximum(counts, 1))[self._source]
        starts = scalars + np.cumsum([0] + [n * (n + 1) // 2 for n in model.blocks])
        position, number = len(counts), 0
        for part in self._parts:
            order = len(part.images[0][1])
            Z = np.zeros((order, order))
            for Q in part.spaces:
                size = self.blocks[number] * (self.blocks[number] + 1) // 2
                Z += Q @ _unpack(dual[None, position : position + size], self.blocks[number])[0] @ Q.T
                position, number = position + size, number + 1
            for target, images in part.images:
                moved = np.zeros_like(Z)
                moved[np.ix_(images, images)] = Z / self._order
                full[starts[target] : starts[target + 1]] += _pack(moved[None])[0]
        return full


def _adapted(permutations: list[np.ndarray]) -> list[np.ndarray]:
    """Return one multiplicity space per irreducible part of a permutation group, the identity where that fails.

    A random symmetric matrix that commutes with the group has one eigenspace per irreducible copy; a second one maps
    equivalent copies onto each other by a multiple of an orthogonal matrix, which aligns them.
    """
    size = len(permutations[0])
    whole = [np.eye(size)]
    if len(permutations) == 1:
        return whole
    rng = np.random.default_rng(SEED)
    first, second = (_commuting(rng.standard_normal((size, size)), permutations) for _ in range(2))
    values, vectors = np.linalg.eigh(first)
    cuts = np.flatnonzero(np.diff(values) > SAME * max(1.0, np.abs(values).max())) + 1
    left = np.split(vectors, cuts, axis=1)
    spaces = []
    while left:
        base = left.pop(0)
        columns, rest = [base[:, 0]], []
        if not _orthogonal(base.T @ second @ base):
            return whole
        for copy in left:
            link = base.T @ second @ copy
            if np.abs(link).max() < SAME:
                rest.append(copy)
                continue
            if not _orthogonal(link):
                return whole
            columns.append(copy @ link[0] / np.linalg.norm(link[0]))
        spaces.append(np.column_stack(columns))
        left = rest
    return spaces


def _commuting(matrix: np.ndarray, permutations: list[np.ndarray]) -> np.ndarray:
    total = np.zeros_like(matrix)
    for p in permutations:
        total[np.ix_(p, p)] += matrix + matrix.T
    return total / len(permutations)


def _orthogonal(link: np.ndarray) -> bool:
    """Whether a matrix is a multiple of an orthogonal one."""
    if link.shape[0] != link.shape[1]:
        return False
    square = link @ link.T
    return bool(np.abs(square - square[0, 0] * np.eye(len(square))).max() < 1e-6 * max(1e-6, square[0, 0]))


def _unpack(rows: np.ndarray, order: int) -> np.ndarray:
    """Return symmetric matrices from upper triangles that run column by column."""
    columns = np.repeat(np.arange(order), np.arange(1, order + 1))
    lines = np.arange(rows.shape[1]) - columns * (columns + 1) // 2
    out = np.zeros((len(rows), order, order))
    out[:, lines, columns] = rows
    out[:, columns, lines] = rows
    return out


def _pack(matrices: np.ndarray) -> np.ndarray:
    order = matrices.shape[-1]
    columns = np.repeat(np.arange(order), np.arange(1, order + 1))
    lines = np.arange(len(columns)) - columns * (columns + 1) // 2
    return matrices[:, lines, columns]
