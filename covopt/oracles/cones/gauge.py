r"""A certified upper bound on h(λ) = max over ‖w‖ ≤ 1 of |Σ λ_i σ(x_i·w)|, and neurons above a level, by boxes.

The search decides G ≤ H for one H. The H asked for first is the best local maximum plus the tolerance, for a proof
costs hardly more at 10⁻⁶ than at 10⁻²; a point above H raises it and the search goes on. Where that takes too many
boxes, the geometric mean of the value and the bound is proved, again and again; the last one proved is the answer.
"""

from __future__ import annotations

import math

import numpy as np

from covopt.exact.parallel_rows import ASCENT_DIGITS
from covopt.oracles.base import WORK, Pricing, heights, kept, ranked
from covopt.oracles.cones.scalar import TYPICAL, GaugeBound, Scalar
from covopt.oracles.cones.search import search

NEAR = 1.01  # over the value: a mean below it is not worth a search of its own
MOST_DIMENSIONS = 100  # beyond, the paths to boxes take gigabytes, and norms prove as much
SHARP = 1e-11  # what that may leave: near a single maximum it takes no more boxes than 1e-8


def box_limit(rank: int, effort: float = 1.0) -> int:
    """Return how many boxes an effort pays for: they are compiled, and few rows of a box that matters are undecided.

    Examples
    --------
    >>> box_limit(4), box_limit(8, 0.5)
    (3333333, 833333)
    """
    return int(effort * WORK / (50.0 * TYPICAL * max(rank, 1)))


def box_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    *,
    neurons: np.ndarray | None = None,
    rtol: float = 1e-9,
    max_nodes: int | None = None,
    n_threads: int = 1,
    random_state: int = 0,
    goal: float = 0.0,
) -> GaugeBound:
    r"""Bound h(λ) = max over ‖w‖₂ ≤ 1 of |Σ_i λ_i σ(x_i·w)| from above.

    The bound holds in exact arithmetic for the rows and the dual as given: the coordinates and every rounding are
    paid for (:mod:`covopt.oracles.cones.scalar`, :mod:`covopt.oracles.cones.kernel`), about 10⁻¹⁴ Σ|λ_i|‖x_i‖ in
    all. It is valid whatever the number of boxes; that number, at 1–2 µs a box, decides how tight it is.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        x_i, with their bias coordinate; of any scale, dependent or repeated rows included.
    dual : ndarray of shape (N,)
        λ.
    neurons : ndarray of shape (m, D), optional
        Directions to try beside those of a local search.
    rtol : float
        Wanted distance of the bound to the largest |F| met, relative. Where the maximum is one point, the bound comes
        closer (:data:`SHARP`), with no more boxes.
    max_nodes : int, optional
        Boxes; :func:`box_limit` by default.
    n_threads : int
        Changes nothing in the answer.
    random_state : int
        For the local search.
    goal : float
        A bound that is enough.

    Raises
    ------
    InputError
        For arrays of the wrong shape, infinite or missing numbers.

    Examples
    --------
    >>> import numpy as np
    >>> answer = box_gauge(np.eye(2), np.array([3.0, 4.0]))
    >>> answer.closed, 5.0 <= answer.upper_bound <= 5.00000001
    (True, True)
    >>> answer.best_neuron.round(9), round(answer.best_value, 9)
    (array([0.6, 0.8]), 5.0)
    """
    scalar = Scalar(rows, dual)
    if scalar.V.shape[1] == 0:
        return scalar.answer(0.0, 0, rtol)
    scalar.search(neurons, random_state)
    lowest = trivial = scalar.norms()
    max_nodes = box_limit(scalar.V.shape[1]) if max_nodes is None else max_nodes
    wanted, nodes = min(max(scalar.best, 2.0**-40 * trivial, scalar.lower(goal)), trivial), 0

    def ask(H: float, budget: int, rtol: float = rtol) -> bool:
        nonlocal lowest, nodes
        level, growth = H * (1.0 + 0.5 * rtol) + scalar.rounding(H), 1.0 + 0.5 * rtol
        found = search(scalar, level, max_nodes=budget, growth=growth, n_threads=n_threads)
        nodes += found.nodes
        scalar.offer(found.points)
        if found.upper_bound < lowest:
            lowest = found.upper_bound
            scalar.lift(lowest)
        return found.finished

    few = scalar.V.shape[1] <= MOST_DIMENSIONS
    # half of the boxes for the H that is wanted
    if few and not ask(wanted, max(max_nodes // 2, 1), min(rtol, SHARP)):
        while nodes < max_nodes:
            base = max(scalar.best, wanted)
            mean = math.sqrt(base * lowest)
            if not ask(mean if mean > NEAR * base else base, max_nodes - nodes) or mean <= NEAR * base:
                break
    return scalar.answer(lowest, nodes, rtol)


class BoxOracle:
    """Pricing by boxes, for scalar outputs in any dimension.

    With a threshold H the answer are the maxima that the boxes above H lead to, or, when there are none, a bound of
    about H, proved. Without a threshold it is :func:`box_gauge`.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Any rows; dependent, repeated and zero ones included.
    max_nodes : int, optional
        Boxes per pricing, :func:`box_limit` by default. Where they run out the bound is weaker, and still valid.
    rtol : float
        Tolerance of a pricing without a threshold.
    n_threads : int

    Examples
    --------
    >>> import numpy as np
    >>> oracle = BoxOracle(np.eye(3))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=5.5)
    >>> answer.neurons.round(9), answer.values.round(9)
    (array([[0., 0., 1.]]), array([-6.]))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=6.5)
    >>> len(answer.neurons), 6.0 <= answer.upper_bound < 6.5000001
    (1, True)
    """

    def __init__(
        self, rows: np.ndarray, *, max_nodes: int | None = None, rtol: float = 1e-9, n_threads: int = 1
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.max_nodes = box_limit(self.rows.shape[1]) if max_nodes is None else max_nodes
        self.rtol = rtol
        self.n_threads = n_threads

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
        max_nodes: int | None = None,
    ) -> Pricing:
        """Return maxima of |F| above ``threshold``, the best one that is known always, and a valid bound on h(λ).

        Arguments as in :class:`covopt.oracles.base.Oracle`. With ``complete`` and a threshold it goes on until every
        root has been walked, not only until a few points are found. Maxima that share a box above the threshold with
        a better one can still be missing. ``max_nodes`` boxes are looked at, at most the oracle's own.
        """
        most = self.max_nodes if max_nodes is None else min(max_nodes, self.max_nodes)
        scalar = Scalar(self.rows, dual)
        if not threshold > 0.0 or not 0 < scalar.V.shape[1] <= MOST_DIMENSIONS:
            found = box_gauge(self.rows, dual, rtol=self.rtol, max_nodes=most, n_threads=self.n_threads)
            exact = found.upper_bound <= abs(found.best_value) * (1.0 + 2.0 * self.rtol)
            return Pricing(found.best_neuron[None], np.array([found.best_value]), found.upper_bound, exact)
        answer = search(
            scalar,
            scalar.lower(threshold),
            max_nodes=most,
            stops=not complete,
            n_threads=self.n_threads,
        )
        points = scalar.ascend(answer.points)
        if not len(answer.points):
            scalar.search()
            points = np.concatenate([points, scalar.point[None]]) if scalar.point is not None else points
        neurons = points @ scalar.V.T
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        neurons, values = ranked(neurons, heights(self.rows, scalar.dual, neurons), ASCENT_DIGITS)
        upper = scalar.lift(min(answer.upper_bound, scalar.norms()))
        best = float(np.abs(values[0]))
        return Pricing(*kept(neurons, values, threshold, max_neurons), max(upper, best), exact=False)
