r"""The Jacobian rank of a network, :math:`\mathrm{Rank}_J f = \max_x \mathrm{Rank}\, Jf(x)` (RK23, BN23).

It is computed on the linear pieces of the network over a box, in integer arithmetic. A piece is a polytope, stored as
its vertices in homogeneous integer coordinates and the inequalities that are tight at each of them. Each neuron is
affine on it. If its values at the vertices have both signs, its kink cuts the piece into two of full dimension, and
the new vertices lie on the edges between vertices of opposite sign. Doubles are dyadic rationals, so weights, values
and vertices are integers up to positive factors, and all signs are exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm
from typing import Any, NamedTuple

import numpy as np

from covopt.checks.validation import check_count
from covopt.depth.layers import as_chain, jacobian
from covopt.errors import InputError
from covopt.exact.definite import singular_values_between
from covopt.exact.rank import COMPUTED, exact_rank
from covopt.limits import MOST_LISTED, checkpoint
from covopt.network import DeepReLUNetwork


class Polytope(NamedTuple):
    """A full-dimensional polytope: vertices n_i/n_0 as (n_1 … n_d, n_0), and the inequalities tight at each."""

    vertices: tuple[tuple[int, ...], ...]
    tight: tuple[frozenset[int], ...]

    @property
    def centre(self) -> tuple[Fraction, ...]:
        """Mean of the vertices, an interior point."""
        dim, count = len(self.vertices[0]) - 1, len(self.vertices)
        return tuple(
            sum((Fraction(v[i], v[-1]) for v in self.vertices), Fraction(0)) / count for i in range(dim)
        )


@dataclass(frozen=True)
class Piece:
    """A polytope on which the network is x ↦ map·(x, 1)/unit."""

    polytope: Polytope
    map: np.ndarray  # Python integers, (k, d + 1)
    unit: int


def whole_box(low: Sequence[float], high: Sequence[float]) -> Polytope:
    """Return the box Π [low_i, high_i] of doubles.

    Examples
    --------
    >>> [float(x) for x in whole_box([0.0, -1.0], [1.0, 2.0]).centre]
    [0.5, 0.5]
    """
    dim = len(low)
    vertices, tight = [], []
    for corner in product((0, 1), repeat=dim):
        values = [Fraction((low, high)[side][i]) for i, side in enumerate(corner)]
        vertices.append(tuple(_whole([*values, Fraction(1)])))
        tight.append(frozenset(2 * i + side for i, side in enumerate(corner)))
    return Polytope(tuple(vertices), tuple(tight))


def cut(polytope: Polytope, values: Sequence[int], name: int) -> tuple[Polytope, Polytope]:
    """Cut a polytope along the zeros of an affine function that takes both signs on it.

    Parameters
    ----------
    polytope : Polytope
    values : sequence of int
        Values at the vertices, times the last coordinate of each.
    name : int
        Unused number for the new inequality.

    Returns
    -------
    above, below : Polytope
        Where the function is ≥ 0 and ≤ 0.

    Examples
    --------
    >>> square = whole_box([0.0, 0.0], [1.0, 1.0])
    >>> above, below = cut(square, [-2 * v[2] + 2 * v[0] + 2 * v[1] for v in square.vertices], 9)
    >>> len(above.vertices), len(below.vertices)
    (3, 3)
    """
    vertices, tight = polytope
    dim = len(vertices[0]) - 1
    on = [i for i, value in enumerate(values) if value == 0]
    above = [i for i, value in enumerate(values) if value > 0]
    below = [i for i, value in enumerate(values) if value < 0]
    new_vertices = [vertices[i] for i in on]
    new_tight = [tight[i] | {name} for i in on]
    for i in above:
        for j in below:
            shared = tight[i] & tight[j]
            if len(shared) < dim - 1:
                continue
            if dim > 1 and any(shared <= other for k, other in enumerate(tight) if k not in (i, j)):
                continue
            raw = [values[i] * b - values[j] * a for a, b in zip(vertices[i], vertices[j], strict=True)]
            common = gcd(*raw)
            new_vertices.append(tuple(entry // common for entry in raw))
            new_tight.append(shared | {name})
    pieces = []
    for side in (above, below):
        pieces.append(
            Polytope((*(vertices[i] for i in side), *new_vertices), (*(tight[i] for i in side), *new_tight))
        )
    return pieces[0], pieces[1]


def _whole(values: Sequence[Fraction]) -> list[int]:
    """Return a positive multiple whose entries are integers."""
    common = lcm(*(value.denominator for value in values))
    return [int(value * common) for value in values]


def linear_pieces(chain: DeepReLUNetwork, low: Sequence[float], high: Sequence[float]) -> Iterator[Piece]:
    """Yield the linear pieces of a network over a box, each once, exactly.

    The kinks of the neurons cut the box one after another, layer by layer. A neuron that vanishes on a whole piece
    does not cut it, since its output is zero there.

    Parameters
    ----------
    chain : DeepReLUNetwork
    low, high : sequence of float, of length d
        low < high in every coordinate.

    Yields
    ------
    Piece
        Neighbouring pieces may have the same map: there is one piece for each activation pattern.
    """
    dim, slope, bias = chain.n_inputs, Fraction(chain.slope), Fraction(chain.bias)
    exact = [
        [[*map(Fraction, row), bias * Fraction(shift)] for row, shift in zip(w.tolist(), shifts, strict=True)]
        for w, shifts in ((w, [0.0] * len(w) if b is None else b.tolist()) for w, b in chain.layers)
    ]
    scale = lcm(*(entry.denominator for rows in exact for row in rows for entry in row))
    layers = [
        np.array([[int(scale * x) for x in row] for row in rows], dtype=object).reshape(
            len(w), w.shape[1] + 1
        )
        for rows, w in zip(exact, chain.weights, strict=True)
    ]
    sides = slope.numerator, slope.denominator

    def descend(ell: int, features: np.ndarray, unit: int, polytope: Polytope, used: int) -> Iterator[Piece]:
        checkpoint()
        found = layers[ell][:, :-1].dot(features)
        found[:, -1] += layers[ell][:, -1] * unit
        if ell + 1 == len(layers):
            yield Piece(polytope, found, unit * scale)
            return
        for piece, active in _split(polytope, found, used):
            masked = found * np.array([[sides[on]] for on in active], dtype=object).reshape(-1, 1)
            yield from descend(ell + 1, masked, unit * scale * slope.denominator, piece, used + len(found))

    yield from descend(0, np.eye(dim, dim + 1, dtype=int).astype(object), 1, whole_box(low, high), 2 * dim)


def _split(polytope: Polytope, found: np.ndarray, used: int) -> Iterator[tuple[Polytope, tuple[bool, ...]]]:
    """Yield the pieces of a polytope on which the neurons of one layer keep their signs, and the signs."""
    stack: list[tuple[Polytope, tuple[bool, ...]]] = [(polytope, ())]
    while stack:
        piece, active = stack.pop()
        j = len(active)
        if j == len(found):
            yield piece, active
            continue
        neuron = found[j].tolist()
        values = [sum(a * b for a, b in zip(neuron, vertex, strict=True)) for vertex in piece.vertices]
        least, most = min(values), max(values)
        if least < 0 < most:
            above, below = cut(piece, values, used + j)
            stack.append((below, (*active, False)))
            stack.append((above, (*active, True)))
        else:
            stack.append((piece, (*active, most > 0)))


@dataclass(frozen=True)
class JacobianRank:
    """A bracket of the Jacobian rank over a box.

    Attributes
    ----------
    lower, upper : int
        ``lower`` is attained at ``point``; ``upper`` is the least width if not all pieces were visited.
    n_pieces : int
        Number of linear pieces that were visited.
    complete : bool
        Whether all pieces were visited.
    point : ndarray of shape (d,)
        A point of rank ``lower`` in the interior of a piece, rounded to doubles.
    """

    lower: int
    upper: int
    n_pieces: int
    complete: bool
    point: np.ndarray

    @property
    def rank(self) -> int | None:
        """The rank if lower = upper, else None."""
        return self.lower if self.lower == self.upper else None


def jacobian_rank(network: Any, low: Any, high: Any, *, max_pieces: int = 20_000) -> JacobianRank:
    r"""Return the Jacobian rank of a piecewise linear network over a box, exactly.

    .. math:: \max_{x \in \Pi_i [low_i, high_i]} \mathrm{Rank}\, Jf(x),

    over the interiors of the linear pieces, which are enumerated in integer arithmetic
    (:func:`covopt.depth.ranks.linear_pieces`); the rank on each is computed by integer elimination. It is a lower
    bound on the bottleneck rank and on the leading coefficient of the representation cost
    (RK23 Theorem 1, BN23 §2): Rank_J f ≤ lim R_L(f)/L ≤ Rank_BN f.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    low, high : float or array_like of shape (d,)
        The box.
    max_pieces : int
        Limit on the pieces. Beyond it the rank is bracketed by the best piece so far and the least width.

    Returns
    -------
    JacobianRank

    Raises
    ------
    InputError
        If the box does not fit the network, is empty or unbounded, or has more than 16 dimensions.

    Examples
    --------
    The absolute values of two coordinates, added, have rank one everywhere:

    >>> W1 = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = jacobian_rank([W1, np.ones((2, 4))], -1.0, 1.0)
    >>> found.rank, found.n_pieces, found.complete
    (1, 4, True)
    """
    chain = as_chain(network)
    cap = check_count("max_pieces", max_pieces)
    if chain.n_inputs > MOST_LISTED:  # a box is stored by its corners
        raise InputError(
            f"network has {chain.n_inputs} inputs and the box 2^{chain.n_inputs} corners; {MOST_LISTED} is most. "
            "Use covopt.depth.ranks_at on points, or fewer inputs."
        )
    ends = [_corner(name, value, chain.n_inputs) for name, value in (("low", low), ("high", high))]
    empty = np.flatnonzero(ends[0] >= ends[1])
    if len(empty):
        i = int(empty[0])
        raise InputError(
            f"the box is empty: low[{i}] = {ends[0][i]:g} is not below high[{i}] = {ends[1][i]:g}; give low < high."
        )
    thinnest = min(chain.n_inputs, chain.n_outputs, *chain.widths)
    lower, count, point = -1, 0, np.zeros(chain.n_inputs)
    complete = True
    known: dict[str, int] = {}
    for piece in linear_pieces(chain, ends[0].tolist(), ends[1].tolist()):
        if count == cap:
            complete = False
            break
        count += 1
        linear = piece.map[:, :-1]
        key = str(linear.tolist())
        if key not in known:
            known[key] = exact_rank(linear.tolist()) if linear.any() else 0
        if known[key] > lower:
            lower = known[key]
            point = np.array([float(x) for x in piece.polytope.centre])
    return JacobianRank(lower, lower if complete else thinnest, count, complete, point)


def ranks_at(network: Any, X: Any) -> np.ndarray:
    """Return the numerical rank of Jf(x) at every row of a table.

    A singular value counts if its enclosure (:mod:`covopt.exact.definite`) lies above 1e-12 times the largest:
    the Jacobian is a product of L matrices, and smaller values may be rounding errors. :func:`jacobian_rank`
    is exact.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    X : array_like of shape (N, d)

    Returns
    -------
    ndarray of int, of shape (N,)

    Examples
    --------
    >>> ranks_at([np.eye(3), np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])], [[1.0, 2.0, 3.0], [1.0, 2.0, -3.0]])
    array([2, 1])
    """
    found = []
    for at in jacobian(network, X):
        low, high = singular_values_between(at)
        found.append(int((low > COMPUTED * high.max(initial=0.0)).sum()))
    return np.array(found)


def bottleneck_rank_up(network: Any) -> int:
    r"""Return the least rank of a weight matrix, an upper bound on the bottleneck rank.

    Rank_BN f is the least k such that f = h ∘ g with piecewise linear g: ℝᵈ → ℝᵏ and h (BN23 §2). With
    W_ℓ = UVᵀ of rank k, g is Vᵀ applied to the inputs of layer ℓ. The ranks of the matrices of doubles are exact.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray

    Returns
    -------
    int

    Examples
    --------
    >>> bottleneck_rank_up([np.ones((8, 3)), np.ones((1, 8)), np.ones((8, 1)), np.ones((3, 8))])
    1
    """
    weights = as_chain(network).weights
    thinnest = min(min(w.shape) for w in weights)
    return min(thinnest, *(exact_rank(w) for w in weights if w.size)) if thinnest else 0


def _corner(name: str, value: Any, dim: int) -> np.ndarray:
    try:
        corner = np.broadcast_to(np.asarray(value, dtype=float), (dim,)).copy()
    except (TypeError, ValueError) as error:
        raise InputError(
            f"{name} must be a number or {dim} numbers, one for each input; received {value!r}."
        ) from error
    if not np.isfinite(corner).all():
        raise InputError(f"{name} must be finite, the domain is a box; received {value!r}.")
    return corner
