r"""Shortest paths through the targets: a lower bound for networks that map the data through one dimension.

Let f = h ∘ g with g: ℝᵈ → ℝ and f(x_i) = y_i. With the points sorted by g, f maps the segment from the first x to the
last to a curve through all y's in that order, so somewhere on it

.. math::
    \|Jf\| \ge \min_\pi \frac{\sum_i \|y_{\pi(i+1)} - y_{\pi(i)}\|}{\|x_{\pi(N)} - x_{\pi(1)}\|},

and the network's squared norm is at least L times the 2/L-th power of that. (RK23 Proposition 10 has the smaller
bound shortest path / diameter.) This bounds interpolants of bottleneck rank one, NOT the representation cost of
the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import Any

import numpy as np
from scipy.sparse.csgraph import minimum_spanning_tree

from covopt.checks import required
from covopt.checks.validation import check_random_state
from covopt.data import Data
from covopt.depth.linear import check_depth
from covopt.errors import InputError
from covopt.exact.rounding import below, gamma, root_down
from covopt.limits import PIECE


@dataclass(frozen=True)
class Tour:
    """The shortest path through the targets, and its bound on interpolants of bottleneck rank one.

    Attributes
    ----------
    order : ndarray of shape (N,)
        A short path through the rows.
    length : float
        Its length Σ‖y_{π(i+1)} − y_{π(i)}‖.
    lower : float
        Lower bound on the length of every path.
    slope : float
        Lower bound, over all paths, on the length divided by the distance of the end points in the inputs. Every
        interpolant f of bottleneck rank one has ‖Jf(x)‖ ≥ slope at some x.
    exact : bool
        Whether ``length`` and ``slope`` are optimal; ``lower`` and ``slope`` are rounded down.
    """

    order: np.ndarray
    length: float
    lower: float
    slope: float
    exact: bool

    def cost(self, depth: int) -> float:
        """Return L·slope^{2/L}, a lower bound on the squared norm of networks of depth L that compute such an f.

        Parameters
        ----------
        depth : int
        """
        L = check_depth(depth)
        return below(L * Fraction(root_down(Fraction(self.slope) ** 2, L)))


def rank_one_tour(X: Any, Y: Any, *, random_state: int | None = 0) -> Tour:
    """Return the shortest Hamiltonian path through the targets and its bound for rank-one interpolants.

    Up to 8 points all orders are enumerated. Beyond, the path is found by insertion and threshold
    accepting (networkx), the lower bound by 1-trees with ascent on the node weights (Held and Karp 1970), and
    the slope is that bound divided by the diameter of the inputs.

    Parameters
    ----------
    X : array_like of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    random_state : int, optional
        Seed of the search for a short path.

    Returns
    -------
    Tour

    Raises
    ------
    InputError
        For invalid tables, and for fewer than two points.

    Examples
    --------
    The corners of a square need three sides; from a corner to the opposite one the path is longer, and so is the way
    that it may stretch:

    >>> square = [[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    >>> tour = rank_one_tour(square, square)
    >>> tour.length, tour.exact, round(tour.cost(4), 6)
    (3.0, True, 6.215096)
    """
    data = Data.validate(X, Y)
    seed = check_random_state(random_state)
    if data.n_samples < 2:
        raise InputError("a path needs at least two points; X has one row.")
    # scaled by powers of two, so that squares neither overflow nor underflow
    turns = [-int(np.frexp(np.abs(table).max(initial=0.0))[1]) - 1 for table in (data.X, data.Y)]
    near, far = (np.ldexp(table, turn) for table, turn in zip((data.X, data.Y), turns, strict=True))
    steps = np.linalg.norm(far[:, None] - far[None], axis=2)
    spans = np.linalg.norm(near[:, None] - near[None], axis=2)
    if math.factorial(data.n_samples) * data.n_samples <= PIECE:  # numbers in a list of all orders
        found = _compare_all(steps, spans)
    else:
        order, length = _short_path(steps, seed)
        lower = min(length, path_length_down(steps, length))
        found = Tour(order, length, lower, lower / float(spans.max()), False)
    # rounding errors: a few units per column in each length, one per row in their sum
    room = Fraction(1.0 - gamma(2 * (data.n_samples + data.n_features + data.n_outputs) + 16))
    return replace(
        found, length=_turned(Fraction(found.length), -turns[1]),
        lower=_turned(Fraction(found.lower) * room, -turns[1]),
        slope=_turned(Fraction(found.slope) * room, turns[0] - turns[1]),
    )  # fmt: skip


def _turned(value: Fraction, power: int) -> float:
    """Return a number times a power of two, rounded down."""
    return below(value * Fraction(2) ** power)


def _compare_all(steps: np.ndarray, spans: np.ndarray) -> Tour:
    orders = np.array(list(permutations(range(len(steps)))))
    lengths = steps[orders[:, :-1], orders[:, 1:]].sum(axis=1)
    apart = spans[orders[:, 0], orders[:, -1]]
    ratios = np.divide(lengths, apart, out=np.full(len(lengths), np.inf), where=apart > 0)
    best = int(lengths.argmin())
    return Tour(orders[best], float(lengths[best]), float(lengths[best]), float(ratios.min()), True)


def _short_path(steps: np.ndarray, seed: int | None) -> tuple[np.ndarray, float]:
    """Find a tour through all rows and a node at distance zero from all of them, and cut it at that node."""
    nx = required("networkx", "a path through more than 8 points", "graphs")
    n = len(steps)
    weights = np.pad(steps, (0, 1)).tolist()
    graph = nx.Graph()
    graph.add_weighted_edges_from((i, j, weights[i][j]) for i in range(n + 1) for j in range(i))
    tour = nx.approximation.threshold_accepting_tsp(graph, "greedy", source=n, seed=seed)
    order = np.array(tour[1:-1])
    return order, float(steps[order[:-1], order[1:]].sum())


def path_length_down(steps: np.ndarray, length: float, *, n_rounds: int = 200) -> float:
    """Return a lower bound on the length of every Hamiltonian path, by 1-trees with subgradient ascent on weights.

    With an extra node at distance zero from all others paths are tours, and a tour is a 1-tree with all degrees two.
    So for any node weights π the least 1-tree for ‖y_i − y_j‖ + π_i + π_j, minus 2Σπ, is a lower bound.

    Parameters
    ----------
    steps : ndarray of shape (N, N)
        Distances.
    length : float
        Length of some path, for the step sizes.
    n_rounds : int

    Returns
    -------
    float

    Examples
    --------
    >>> line = np.abs(np.arange(5.0)[:, None] - np.arange(5.0))
    >>> 4.0 - 1e-9 < path_length_down(line, 4.0) <= 4.0
    True
    """
    n = len(steps)
    weights = np.zeros(n)
    best, step = 0.0, 1.0
    for _ in range(n_rounds):
        lengths = steps + weights[:, None] + weights[None, :]
        # scipy takes zero for a missing edge; adding a constant to all edges does not change the tree
        tree = minimum_spanning_tree(np.triu(lengths + (1.0 - lengths.min()), 1)).tocoo()
        degrees = np.bincount(tree.row, minlength=n) + np.bincount(tree.col, minlength=n)
        total = float(lengths[tree.row, tree.col].sum())
        # the two edges of the extra node (weight zero) cost the weights of their other ends
        ends = np.argsort(weights, kind="stable")[:2]
        degrees[ends] += 1
        value = total + float(weights[ends].sum()) - 2.0 * float(weights.sum())
        best = max(best, value)
        slack = degrees - 2
        if not slack.any():
            break
        step = 0.97 * step
        weights = weights + step * max(length - value, 1e-3 * length) / float((slack**2).sum()) * slack
    return max(0.0, best - 1e-12 * (length + 4.0 * float(np.abs(weights).sum())))
