"""Boxes as a pricing oracle: neurons above a threshold, or a proof that there are none."""

from __future__ import annotations

from math import frexp, ldexp

import numpy as np

from covopt.exact.parallel_rows import ASCENT_DIGITS
from covopt.oracles.base import Pricing, ranked
from covopt.oracles.cones.gauge import DEFAULT_NODES, MOST_DIMENSIONS, Scalar, box_gauge, validated
from covopt.oracles.cones.search import search
from covopt.oracles.coordinates import transfer
from covopt.oracles.remembered import remember

PER_ROOT = 16
COMPLETE = 16  # times as many, where all are wanted


class BoxOracle:
    """Pricing by boxes, for scalar outputs in any dimension.

    With a threshold H the answer are the maxima that the boxes above H lead to, or, when there are none, the bound H
    itself, proved. Without a threshold it is :func:`covopt.oracles.cones.box_gauge`.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Any rows; dependent, repeated and zero ones included.
    max_nodes : int
        Boxes per pricing. Where they run out the bound is weaker, and still valid.
    rtol : float
        Tolerance of a pricing without a threshold.
    n_threads : int

    Attributes
    ----------
    nodes : int
        Boxes that the last pricing looked at.

    Examples
    --------
    >>> import numpy as np
    >>> oracle = BoxOracle(np.eye(3))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=5.5)
    >>> answer.neurons.round(9), answer.values.round(9)
    (array([[0., 0., 1.]]), array([-6.]))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0]), threshold=6.5)
    >>> len(answer.neurons), 6.5 <= answer.upper_bound < 6.5000001
    (1, True)
    """

    def __init__(
        self, rows: np.ndarray, *, max_nodes: int = DEFAULT_NODES, rtol: float = 1e-9, n_threads: int = 1
    ):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        self.max_nodes = max_nodes
        self.rtol = rtol
        self.n_threads = n_threads
        self.nodes = 0

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
        rows, dual = validated(self.rows, dual, self.rtol, most)
        made = transfer(rows, dual)
        if not threshold > 0.0 or not 0 < made.V.shape[1] <= MOST_DIMENSIONS:
            bound = box_gauge(rows, dual, rtol=self.rtol, max_nodes=most, n_threads=self.n_threads)
            self.nodes = bound.nodes
            close = abs(bound.best_value) * (1.0 + 2.0 * self.rtol)
            neurons = bound.best_neuron[None]
            return Pricing(
                neurons, np.array([bound.best_value]), bound.upper_bound, exact=bound.upper_bound <= close
            )
        scalar = Scalar(made)
        fraction, exponent = frexp(threshold)
        H = ldexp(fraction, min(exponent - made.exponent, 1000)) / made.norm - made.residual
        H = min(max(H, 2.0**-40 * scalar.norms()), 2.0 * scalar.norms())
        answer = search(
            scalar.y,
            scalar.signs,
            scalar.linear,
            H,
            max_nodes=most,
            n_points=PER_ROOT * (COMPLETE if complete else 1),
            stops=not complete,
            n_threads=self.n_threads,
        )
        self.nodes = answer.nodes
        met = answer.points if len(answer.points) else scalar.starts(np.random.default_rng(0))
        points = scalar.ascend(met)
        neurons = points @ made.V.T
        neurons /= np.linalg.norm(neurons, axis=1, keepdims=True)
        values = np.maximum(neurons @ rows.T, 0.0) @ dual
        neurons, values = ranked(neurons, values, ASCENT_DIGITS)
        above = max(int((np.abs(values) >= threshold).sum()), 1)
        keep = slice(above if max_neurons is None else min(above, max_neurons))
        upper = made.lift(min(answer.upper_bound, scalar.norms()))
        remember(rows, dual, upper)
        best = float(np.abs(values[0]))
        return Pricing(neurons[keep], values[keep], max(upper, best), exact=False)
