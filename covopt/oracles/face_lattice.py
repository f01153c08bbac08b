r"""All faces of a central arrangement, once each, as sign vectors: the input of the vector oracle.

Flats are found from the top: {w : z_i·w = 0, i ∈ C} for the closed sets C of rows, dimension by dimension; a row
joins C when its part in the flat is shorter than a tolerance. Faces are found from the bottom: a ray at both
ends of every line; then, from dimension d to d + 1, each face F of a flat, seen from a flat one dimension
higher, is a facet of two faces there: the rows that vanish on F, but not on the higher flat, are
multiples of each other on it, hence all their signs follow from the side. Every pointed cone of
dimension d ≥ 2 has facets, so nothing is missed and no vertex, interior point or linear program is needed:
rounding can only affect which parts of rows are zero and the signs at the rays, all of them parts longer than
the tolerance. These are decided in whitened coordinates (columns of Z
orthonormal, rows of length one), where the gap between zero and nonzero is widest.

Faces that violate Euler's relation are rejected. ``slack`` bounds the distance of the given rows from rows that have
exactly these faces. Nothing here is a proof: :mod:`covopt.oracles.lattice_proof` decides afterwards whether
these are the faces of the given rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, inf

import numpy as np

from covopt.errors import UnclearRanksError
from covopt.exact.rank import FOUND
from covopt.exact.rounding import TINY, UNIT
from covopt.limits import PIECE

FACE_BYTES = 400.0  # per face of a table


def count_lattice(n_lines: int, rank: int) -> float:
    """Count the faces of n hyperplanes in general position; no arrangement of n hyperplanes has more.

    Numbers above 2⁵³, which doubles do not hold, are returned as infinity.

    >>> count_lattice(3, 2)
    12.0
    """
    total = 0
    for d in range(1, rank + 1):
        others = n_lines - rank + d
        total += 2 * comb(n_lines, rank - d) * sum(comb(others - 1, i) for i in range(d))
        if total > 1.0 / UNIT:
            return inf
    return float(total)


def block(lines: np.ndarray) -> int:
    """Return how many faces of an arrangement are priced at a time.

    Examples
    --------
    >>> block(np.eye(8))
    16384
    """
    return max(1, PIECE // lines.size)


@dataclass(frozen=True)
class SharedKinks:
    """Flats on which several rows are multiples of each other: they vanish together on a flat one dimension lower.

    Attributes
    ----------
    upper : int ndarray of shape (m,)
        The flat.
    row : int ndarray of shape (m,)
        One of the rows.
    kink, positive : uint64 ndarray of shape (m, n_words)
        All of them as bits, and those that have the sign of ``row``.
    """

    upper: np.ndarray
    row: np.ndarray
    kink: np.ndarray
    positive: np.ndarray


@dataclass(frozen=True)
class FaceLevel:
    """The faces of one dimension d.

    Attributes
    ----------
    bases : ndarray of shape (n_flats, r, d)
        An orthonormal basis of each flat.
    members : uint64 ndarray of shape (n_flats, n_words)
        Rows that vanish on the flat, as bits.
    normals : int ndarray of shape (n_flats, r - d)
        Independent rows among them.
    inverses : ndarray of shape (n_flats, r - d, r)
        The shares of a vector in the span of the normals, scaled to length one: Σ_j (a_j·g) z_j = g.
    conditioning : ndarray of shape (n_flats,)
        The shortest part that one of the normals adds to those before it, in whitened coordinates: if the normals
        have an error ε on the computed flat, other rows of length one have at most ε / conditioning.
    flat, cell, parent : int ndarray of shape (n_faces,)
        The flat that each face spans, a cell that has it on its boundary and a face one dimension higher.
    shared : SharedKinks
        The decisions about signs on the flats of this dimension.
    """

    bases: np.ndarray
    members: np.ndarray
    normals: np.ndarray
    inverses: np.ndarray
    conditioning: np.ndarray
    flat: np.ndarray
    cell: np.ndarray
    parent: np.ndarray
    shared: SharedKinks


@dataclass(frozen=True)
class FaceLattice:
    """All faces of an arrangement.

    Attributes
    ----------
    cells : uint64 ndarray of shape (n_cells, n_words)
        Rows that are positive, as bits.
    levels : tuple of FaceLevel
        Of dimensions 1 … r.
    slack : ndarray of shape (n,)
        Largest component of each row, scaled to length one, in a flat on which it is taken to vanish.
    """

    cells: np.ndarray
    levels: tuple[FaceLevel, ...]
    slack: np.ndarray


def pack(flags: np.ndarray) -> np.ndarray:
    """Pack boolean rows into 64-bit words.

    >>> pack(np.array([[True, False, True]]))
    array([[5]], dtype=uint64)
    """
    octets = np.packbits(flags, axis=-1, bitorder="little")
    padded = np.zeros((*octets.shape[:-1], -(-octets.shape[-1] // 8) * 8), dtype=np.uint8)
    padded[..., : octets.shape[-1]] = octets
    return padded.view("<u8").astype(np.uint64)


def unpack(words: np.ndarray, n: int) -> np.ndarray:
    """Undo :func:`pack`.

    >>> unpack(np.array([[5]], dtype=np.uint64), 3)
    array([[ True, False,  True]])
    """
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, axis=-1, count=n, bitorder="little").view(bool)


def sum_maps(cells: np.ndarray, steps: np.ndarray, linear: np.ndarray) -> np.ndarray:
    """Return linear + Σ of the ``steps`` of the positive rows, for every cell; error at most γ(n + 1) Σ|steps|.

    Parameters
    ----------
    cells : uint64 ndarray of shape (n_cells, n_words)
    steps : ndarray of shape (n, m)
    linear : ndarray of shape (m,)

    Examples
    --------
    >>> sum_maps(pack(np.array([[True, True], [False, True]])), np.array([[1.0], [2.0]]), np.array([0.5]))
    array([[3.5],
           [2.5]])
    """
    n = len(steps)
    maps = np.empty((len(cells), steps.shape[1]))
    for start in range(0, len(cells), step := max(1, PIECE // n)):
        maps[start : start + step] = unpack(cells[start : start + step], n).astype(float) @ steps
    return maps + linear


def _distinct(label: np.ndarray, words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of the first of each kind of row (label, words), and the kind of each row."""
    order = np.lexsort((*words.T, label))
    fresh = np.ones(len(order), dtype=bool)
    fresh[1:] = label[order[1:]] != label[order[:-1]]
    for column in words.T:
        fresh[1:] |= column[order[1:]] != column[order[:-1]]
    kind = np.empty(len(order), dtype=np.int64)
    kind[order] = np.cumsum(fresh) - 1
    return order[fresh], kind


@dataclass
class _Flats:
    """Flats of one dimension: bases (f, d, r) as rows, members, and the pairs (flat, flat one dimension lower)."""

    basis: np.ndarray
    members: np.ndarray
    normals: np.ndarray
    upper: np.ndarray | None = None  # of each pair, the flat of this dimension …
    lower: np.ndarray | None = None  # … and the one below
    positive: np.ndarray | None = None  # the rows that are positive on one side of the lower flat
    row: np.ndarray | None = None  # one of them


def _descend(units: np.ndarray, flats: _Flats) -> _Flats:
    """Find the flats one dimension lower, and store the pairs in ``flats``."""
    n = len(units)
    d = flats.basis.shape[1]
    step = max(1, PIECE // (n * n * d))
    found: list[tuple[np.ndarray, ...]] = []
    for start in range(0, len(flats.basis), step):
        basis = flats.basis[start : start + step]
        inside = unpack(flats.members[start : start + step], n)
        parts = units @ basis.transpose(0, 2, 1)  # of every row, in the flat
        of, row = np.nonzero(~inside)
        normal = parts[of, row]
        length = np.linalg.norm(normal, axis=1)
        mirror = normal / length[:, None]
        side = np.einsum("cnd,cd->cn", parts[of], mirror)
        mirror[:, 0] += np.copysign(1.0, mirror[:, 0])  # Householder: the normal becomes the first axis
        mirror /= np.linalg.norm(mirror, axis=1, keepdims=True)
        along = np.einsum("cnd,cd->cn", parts[of], mirror)
        rest = parts[of][:, :, 1:] - 2.0 * along[:, :, None] * mirror[:, None, 1:]
        size = np.linalg.norm(rest, axis=2)
        size[inside[of]] = 0.0
        vanishing = size <= FOUND
        vanishing[np.arange(len(row)), row] = True
        turned = np.einsum("cdr,cd->cr", basis[of], mirror)
        lower = basis[of][:, 1:] - 2.0 * mirror[:, 1:, None] * turned[:, None, :]
        members = pack(vanishing)
        # every row that distinguishes two flats yields the pair once
        first, _ = _distinct(of, members)
        new = vanishing & ~inside[of]
        found.append(
            (
                of[first] + start,
                members[first],
                pack(new & (side > 0))[first],
                lower[first],
                np.concatenate([flats.normals[of + start], row[:, None]], axis=1)[first],
                row[first],
            )
        )
    upper, members, positive, basis, normals, row = (np.concatenate(p) for p in zip(*found, strict=True))
    first, kind = _distinct(np.zeros(len(members), dtype=np.int64), members)
    flats.upper, flats.lower, flats.positive, flats.row = upper, kind, positive, row
    return _Flats(basis[first], members[first], normals[first])


def _expand(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the group of each entry and its place in the group, for groups of the given sizes."""
    group = np.repeat(np.arange(len(counts)), counts)
    return group, np.arange(len(group)) - np.repeat(np.cumsum(counts) - counts, counts)


def _ascend(flats: _Flats, lower: _Flats, flat: np.ndarray, positive: np.ndarray):
    """Build the faces of ``flats`` from those one dimension lower (sorted by flat).

    Return flat and positive of the faces, and for each lower face one face that has it on its boundary.
    """
    assert flats.upper is not None and flats.lower is not None and flats.positive is not None
    begin = np.searchsorted(flat, np.arange(len(lower.members) + 1))
    pair, place = _expand((begin[1:] - begin[:-1])[flats.lower])
    face = begin[flats.lower[pair]] + place
    new = lower.members[flats.lower] & ~flats.members[flats.upper]
    ahead = positive[face] | flats.positive[pair]
    behind = positive[face] | (new & ~flats.positive)[pair]
    label = np.concatenate([flats.upper[pair], flats.upper[pair]])
    words = np.concatenate([ahead, behind])
    first, kind = _distinct(label, words)
    parent = np.empty(len(flat), dtype=np.int64)
    parent[face] = kind[: len(face)]
    return label[first], words[first], parent


def _shared(flats: _Flats, lower: _Flats | None) -> SharedKinks:
    """Return the pairs where more than one row vanishes on the lower flat but not on the upper one."""
    words = flats.members.shape[1]
    if lower is None:
        none = np.empty(0, dtype=np.int64)
        return SharedKinks(none, none, np.empty((0, words), np.uint64), np.empty((0, words), np.uint64))
    assert flats.upper is not None and flats.lower is not None
    assert flats.positive is not None and flats.row is not None
    kink = lower.members[flats.lower] & ~flats.members[flats.upper]
    several = np.flatnonzero(np.bitwise_count(kink).sum(axis=1) > 1)
    return SharedKinks(flats.upper[several], flats.row[several], kink[several], flats.positive[several])


def _bases(
    lines: np.ndarray, units: np.ndarray, weights: np.ndarray, normals: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return bases of the flats where the given rows vanish, their inverses, and how independent these rows are."""
    n_flats, m = normals.shape
    r = lines.shape[1]
    if m == 0:
        return np.tile(np.eye(r), (n_flats, 1, 1)), np.zeros((n_flats, 0, r)), np.ones(n_flats)
    q, triangle = np.linalg.qr(lines[normals].transpose(0, 2, 1), mode="complete")
    with np.errstate(all="ignore"):  # dependent rows: the proof fails
        inverses = np.linalg.solve(triangle[:, :m] + TINY * np.eye(m), q[:, :, :m].transpose(0, 2, 1))
    whitened = np.linalg.qr(units[normals].transpose(0, 2, 1), mode="r")
    parts = np.abs(np.einsum("fii->fi", whitened)) * weights[normals]
    return np.ascontiguousarray(q[:, :, m:]), inverses, parts.min(axis=1)


def build_lattice(rows: np.ndarray) -> FaceLattice:
    """Enumerate all faces of the arrangement {w : z_i·w = 0}.

    Parameters
    ----------
    rows : ndarray of shape (n, r)
        One row per line, none zero, of full column rank.

    Returns
    -------
    FaceLattice

    Raises
    ------
    UnclearRanksError
        If the faces contradict each other: ranks cannot be told from rounding.

    Examples
    --------
    >>> lattice = build_lattice(np.eye(3))
    >>> [len(level.flat) for level in lattice.levels], len(lattice.cells)
    ([6, 12, 8], 8)
    """
    lines = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    whitened = np.linalg.svd(lines, full_matrices=False)[0]
    n, r = whitened.shape
    lengths = np.linalg.norm(whitened, axis=1)
    units = whitened / lengths[:, None]
    flats = [_Flats(np.eye(r)[None], pack(np.zeros((1, n), bool)), np.empty((1, 0), dtype=np.int64))]
    for _ in range(r - 1):
        flats.append(_descend(units, flats[-1]))
    rays = flats[-1]
    height = rays.basis[:, 0] @ units.T
    inside = unpack(rays.members, n)
    flat = np.repeat(np.arange(len(rays.members)), 2)
    up, down = pack((height > 0) & ~inside), pack((height < 0) & ~inside)
    positive = np.stack([up, down], axis=1).reshape(-1, up.shape[1])
    faces, parents = [flat], []
    for d in range(1, r):
        flat, positive, parent = _ascend(flats[r - 1 - d], flats[r - d], flat, positive)
        faces.append(flat)
        parents.append(parent)
    euler = sum((-1) ** d * len(flat) for d, flat in enumerate(faces))
    if euler != 1 + (-1) ** (r - 1):
        raise UnclearRanksError(
            "the ranks of these rows cannot be told from rounding; round the data to fewer digits"
        )
    cell = np.arange(len(faces[-1]))
    levels: list[FaceLevel] = []
    slack = np.zeros(n)
    for d in range(r, 0, -1):
        parent = parents[d - 1] if d < r else cell
        cell = cell[parent]
        here = flats[r - d]
        bases, inverses, conditioning = _bases(lines, units, lengths / lengths.max(), here.normals)
        for start in range(0, len(bases), step := max(1, PIECE // (n * d))):
            part = np.linalg.norm(np.matmul(lines, bases[start : start + step]), axis=2)
            part[~unpack(here.members[start : start + step], n)] = 0.0
            np.maximum(slack, part.max(axis=0), out=slack)
        levels.append(
            FaceLevel(
                bases, here.members, here.normals, inverses, conditioning, faces[d - 1], cell, parent,
                _shared(here, flats[r - d + 1] if d > 1 else None),
            )
        )  # fmt: skip
    return FaceLattice(positive, tuple(levels[::-1]), slack)
