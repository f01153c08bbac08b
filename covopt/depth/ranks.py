r"""The Jacobian rank of a network, :math:`\mathrm{Rank}_J f = \max_x \mathrm{Rank}\, Jf(x)` (RK23, BN23)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.validation import check_count
from covopt.depth.chain import as_chain, jacobian
from covopt.depth.regions import linear_pieces
from covopt.errors import InputError
from covopt.exact.rank import COMPUTED, exact_rank
from covopt.exact.singular import singular_values_between

MOST_INPUTS = 16  # a box is held by its corners


@dataclass(frozen=True)
class JacobianRank:
    """A bracket of the Jacobian rank over a box.

    Attributes
    ----------
    lower, upper : int
        lower is attained at ``point``; upper is the thinnest layer where not all pieces were looked at.
    n_pieces : int
        Linear pieces that were looked at.
    complete : bool
        Whether these are all.
    point : ndarray of shape (d,)
        Where the rank is ``lower``, in the interior of a piece, rounded to doubles.
    """

    lower: int
    upper: int
    n_pieces: int
    complete: bool
    point: np.ndarray

    @property
    def rank(self) -> int | None:
        """The rank where the bracket is closed, else None."""
        return self.lower if self.lower == self.upper else None


def jacobian_rank(network: Any, low: Any, high: Any, *, max_pieces: int = 20_000) -> JacobianRank:
    r"""Return the Jacobian rank of a piecewise linear network over a box, exactly.

    .. math:: \max_{x \in \Pi_i [low_i, high_i]} \mathrm{Rank}\, Jf(x),

    over the interiors of the linear pieces, which are found in integer arithmetic
    (:func:`covopt.depth.regions.linear_pieces`); the rank on each is decided by elimination in integers as well. It
    bounds the bottleneck rank and, times L, the leading term of the representation cost from below
    (RK23 Theorem 1, BN23 §2): Rank_J f ≤ lim R_L(f)/L ≤ Rank_BN f.

    Parameters
    ----------
    network : DeepReLUNetwork, ReLUNetwork or sequence of ndarray
    low, high : float or array_like of shape (d,)
        The box.
    max_pieces : int
        Where they run out the rank is bracketed: by the best piece so far and the thinnest layer.

    Returns
    -------
    JacobianRank

    Raises
    ------
    InputError
        Where the box does not fit the network, is empty or infinite, or has more than 16 dimensions.

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
    if chain.n_inputs > MOST_INPUTS:
        raise InputError(
            f"network has {chain.n_inputs} inputs and the box 2^{chain.n_inputs} corners; {MOST_INPUTS} is most. "
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
    known: dict[bytes, int] = {}
    for piece in linear_pieces(chain, ends[0].tolist(), ends[1].tolist()):
        if count == cap:
            complete = False
            break
        count += 1
        linear = piece.map[:, :-1]
        key = str(linear.tolist()).encode()
        if key not in known:
            known[key] = exact_rank(linear.tolist()) if linear.any() else 0
        if known[key] > lower:
            lower = known[key]
            point = np.array([float(x) for x in piece.polytope.centre])
    return JacobianRank(lower, lower if complete else thinnest, count, complete, point)


def ranks_at(network: Any, X: Any) -> np.ndarray:
    """Return the numerical rank of Jf(x) at every row of a table.

    A singular value counts where its enclosure (:mod:`covopt.exact.singular`) lies above 1e-12 of the largest:
    the Jacobian is a product of L matrices, and what is smaller may be their rounding. :func:`jacobian_rank`
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
    r"""Return an upper bound on the bottleneck rank: f factors through the least rank of a weight matrix.

    Rank_BN f is the least k such that f = h ∘ g with piecewise linear g: ℝᵈ → ℝᵏ and h (BN23 §2). With
    W_ℓ = UVᵀ of rank k, g is Vᵀ of what comes before layer ℓ. The ranks are those of the doubles, exactly.

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
