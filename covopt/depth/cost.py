"""``representation_cost``: bracket the least norm of a deep network that interpolates the points.

:class:`Bracket` runs the search for both bounds; :mod:`covopt.depth.fitting` uses it as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

import numpy as np
from threadpoolctl import threadpool_limits

from covopt.api import min_norm
from covopt.checks.log import log_bound, log_found, log_timings, logged, stage, timing
from covopt.checks.memory import GIB, memory_left
from covopt.checks.validation import check_output_bias, check_random_state, check_time_limit, check_tol
from covopt.data import Data
from covopt.depth.bounds import Bound, chain_bounds, closed_bounds, tree_bounds
from covopt.depth.descent import norm_of
from covopt.depth.layers import Layout
from covopt.depth.linear import check_depth
from covopt.depth.solution import DeepSolution
from covopt.depth.upper import Found, UpperSearch
from covopt.errors import BudgetError, InputError, Status
from covopt.exact.rank import FOUND
from covopt.exact.rounding import relative_gap
from covopt.limits import HALF, HURRY_S, TimeUp, limited, now
from covopt.losses import INTERPOLATES, relative_residual
from covopt.solution import Solution

Solved = TypeVar("Solved", bound=DeepSolution)


class Stop(Exception):
    """Raised to end the search: the callback asked for it, or the bracket is closed."""


def begun(start: Any, data: Data, depth: int, output_bias: str) -> tuple[Layout, np.ndarray] | None:
    """Return the weights of an earlier solution, as a warm start.

    Raises
    ------
    InputError
        If it belongs to another table, or is not a DeepSolution.
    """
    if start is None:
        return None
    if isinstance(start, DeepSolution):
        layers = [w if b is None else np.column_stack([w, b]) for w, b in start.network.layers]
        layout, theta = Layout.of_layers(layers, data.n_features, data.bias, output_bias)
        same = start.data.bias == data.bias and np.array_equal(start.data.X, data.X)
        sizes = (layout.depth, layout.size, layout.widths[-1]) == (depth, len(theta), data.n_outputs)
        if same and sizes:
            return layout, theta
    raise InputError(
        f"start must be a DeepSolution for the same X, bias and depth; received {type(start).__name__}."
    )


class Bracket(ABC, Generic[Solved]):
    """The best network and the bounds so far, with a clock, a history and a status.

    Parameters
    ----------
    data : Data
    depth : int
    output_bias : {"none", "penalized", "free"}
    tol : float
        Relative gap at which the search ends.
    random_state : int or None
    limit : float or None
        Seconds.
    callback : callable or None
        Called with each entry of the history; a true return value stops the search.
    began : float
    start : DeepSolution or None
        Warm start.
    """

    kind: type[Solved]

    def __init__(
        self,
        data: Data,
        depth: int,
        output_bias: str,
        tol: float,
        random_state: int | None,
        limit: float | None,
        callback: Callable[[dict[str, Any]], Any] | None,
        began: float,
        start: Any,
    ) -> None:
        self.data, self.depth, self.output_bias, self.tol = data, depth, output_bias, tol
        self.limit, self.callback, self.began, self.random_state = limit, callback, began, random_state
        self.start = begun(start, data, depth, output_bias)
        self.terms: dict[str, Any] = {}  # further fields of the solution class
        self.best: Found | None = None
        self.bounds: list[Bound] = []
        self.history: list[dict[str, Any]] = []
        self.status = Status.HEURISTIC

    @property
    def closed(self) -> bool:
        """Whether the relative gap is at most ``tol``."""
        lower = max((bound.value for bound in self.bounds), default=0.0)
        return self.best is not None and relative_gap(self.best[0], lower) <= self.tol

    def offer(self, found: Found, source: str) -> None:
        """Keep a network of the required depth if it is the best so far."""
        if found[1].depth != self.depth or (self.best is not None and found[0] >= self.best[0]):
            return
        self.best = found
        self.note("upper", found[0], source)
        if self.closed:
            raise Stop

    def add(self, found: list[Bound]) -> None:
        """Add lower bounds and keep the list sorted, best first."""
        self.bounds = sorted([*self.bounds, *found], key=lambda bound: -bound.value)
        if found:
            best = max(found, key=lambda bound: bound.value)
            self.note("lower", best.value, best.title)

    def note(self, side: str, value: float, source: str) -> None:
        """Record a bound in the history; stop if the callback asks for it."""
        entry = {"side": side, "value": value, "source": source, "time_s": now() - self.began}
        self.history.append(entry)
        log_bound(self.depth, entry)
        best = None if self.best is None else self.solution
        if self.callback is not None and self.callback(entry | {"best": best}):
            self.status = Status.CALLBACK
            raise Stop

    def solution(self) -> Solved:
        """Return the best network and bounds so far; requires a network."""
        assert self.best is not None
        _, layout, theta = self.best
        return self.kind(
            self.data, self.depth, self.output_bias, layout.to_network(theta), self.bounds, self.status, self.tol,
            self.history, now() - self.began, self.random_state, timings=self.watch.seconds(), **self.terms,
        )  # fmt: skip

    def work(self, share: float | None, part: Callable[[], Any]) -> None:
        """Run one part of the search within a share of the remaining time; skip it once stopped or closed."""
        if self.status in (Status.INTERRUPTED, Status.CALLBACK) or self.closed:
            return
        left = None
        if self.limit is not None and share is not None:
            left = max(0.05, share * self._left())
        try:
            with limited(left):
                part()
        except TimeUp:
            self.status = Status.TIME_LIMIT
        except Stop:
            pass
        except KeyboardInterrupt:
            self.status = Status.INTERRUPTED

    def _left(self) -> float:
        assert self.limit is not None
        return self.limit - (now() - self.began)

    @abstractmethod
    def parts(self) -> None:
        """Search for upper and lower bounds, by calls of :meth:`work`."""

    def run(self) -> Solved:
        """Run all parts, log the result and return it; its status is CERTIFIED if the bracket is closed."""
        with threadpool_limits(1, user_api="blas"), timing(self.began) as self.watch:
            self.parts()
            found = self.solution()
        if found.gap <= found.tol:
            found.status = Status.CERTIFIED
        log_timings(found)
        log_found(found, repr(found), objective=found.objective, lower_bound=found.lower_bound, gap=found.gap)
        return found


ACTIVATIONS = 16.0  # bytes per point, neuron and layer, slopes included; as many neurons as points
MOST_DEPTH = 40


def representation_cost(
    X: Any,
    Y: Any,
    *,
    depth: int,
    bias: float = 1.0,
    output_bias: str = "none",
    tol: float = 1e-6,
    time_limit_s: float | None = 60.0,
    random_state: int | None = 0,
    duplicates: str = "error",
    callback: Callable[[dict[str, Any]], Any] | None = None,
    verbose: int = 0,
    start: DeepSolution | Solution | None = None,
) -> DeepSolution | Solution:
    r"""Bracket the representation cost of a table: the least squared norm of a deep ReLU network through its points.

    .. math::

        R_L(X, Y) = \min_W \|W\|^2 \quad \text{s.t.} \quad
        W_L\,\sigma(W_{L-1} \cdots \sigma(W_1 \tilde x_i)) = y_i,

    over all widths, with a bias of weight β in every layer (FL22 §2, RK23 §2). Beyond two layers the problem is not
    convex. The upper bound is the norm of an interpolating network: a layer is inserted into the best shallower
    networks, then an augmented Lagrangian with L-BFGS and sequential quadratic programming lower the norm. The lower
    bound is the best of three: closed forms for pairs of rows (:mod:`covopt.depth.pairs`), a shortest path over the
    covariances of two rows with biases (:mod:`covopt.depth.gram_chain`), and the tree bound
    (:mod:`covopt.depth.tree`). :func:`covopt.verify` recomputes each of them from the table.

    Parameters
    ----------
    X : array_like, pandas or polars frame, of shape (N, d)
    Y : array_like of shape (N,) or (N, k)
    depth : int
        L ≥ 2, the number of weight layers. 2 is :func:`covopt.min_norm`.
    bias : float
        β ≥ 0; 0 for networks without biases.
    output_bias : {"none", "penalized", "free"}
        Bias of the last layer: absent, counted in the norm, or not counted.
    tol : float
        Relative gap (cost − lower bound) / cost at which the bracket counts as closed.
    time_limit_s : float, optional
        Seconds after which the best bracket so far is returned; None for no limit.
    random_state : int, optional
        Seed of the random starts. It affects the lower bound only through the layer norms at which that is searched.
    duplicates : {"error", "mean"}
        What to do with rows that are the same point with different targets.
    callback : callable, optional
        Called with each entry of ``history``, where ``best()`` returns the solution so far; a true return value stops
        the search. For depth 2 see :func:`covopt.min_norm`.
    verbose : int
        1 prints the result to standard error, 2 every step.
    start : DeepSolution, optional
        Warm start: an earlier solution for the same table.

    Returns
    -------
    DeepSolution
        Network, bounds and status: CERTIFIED if the relative gap is at most ``tol``, else HEURISTIC. For depth 2 a
        :class:`covopt.Solution`.

    Raises
    ------
    InputError
        When the input cannot be used, or no network of this depth interpolates it.
    BudgetError
        If an interpolating network of so many points does not fit into memory.

    Examples
    --------
    Two opposite points, L·4^{1/L} (RK23 §2):

    >>> import covopt
    >>> found = covopt.representation_cost([[1.0], [-1.0]], [1.0, 1.0], depth=4, bias=0.0)
    >>> round(found.cost, 6), found.status.code
    (5.656854, 'certified')
    """
    L = check_depth(depth, most=MOST_DEPTH)
    tol = check_tol(tol)
    limit = check_time_limit(time_limit_s)
    check_random_state(random_state)
    check_output_bias(output_bias, bias)
    if L == 2:
        return min_norm(
            X, Y, bias=bias, output_bias=output_bias, tol=tol, time_limit_s=limit, random_state=random_state,
            duplicates=duplicates, verbose=verbose, callback=callback, start=cast("Solution", start),
        )  # fmt: skip
    began = now()
    data = Data.validate(X, Y, bias=bias, duplicates=duplicates)
    held = ACTIVATIONS * float(data.n_samples) ** 2 * L
    if held > memory_left():
        raise BudgetError(
            f"a deep network through {data.n_samples} points takes about {held / GIB:.2g} GiB of activations, more "
            "than there may be; use fewer rows, or covopt.fit(depth=...), whose networks are narrow."
        )
    with logged(verbose):
        return _Task(data, L, output_bias, tol, random_state, limit, callback, began, start).run()


class _Task(Bracket[DeepSolution]):
    """One bracket of the representation cost."""

    kind = DeepSolution

    def parts(self) -> None:
        """See the base class."""
        self.search = UpperSearch(
            self.data, self.depth, self.output_bias, self.limit, self.random_state, self.offer
        )
        self.work(None, self._at_once)
        self.work(HALF, self._begin)
        if self.best is None:
            self.best = self._cheap()
        self.work(HALF, self._trees)  # takes seconds, and the search after it rarely lowers the norm much
        self.work(HALF, self.search.go_on)

    def _begin(self) -> None:
        self.search.begin()
        if self.best is None:
            self.search.go_on()

    def _cheap(self) -> Found:
        """Return some interpolating network within a short time limit."""
        interrupted = self.status is Status.INTERRUPTED
        late = HURRY_S if interrupted or self.limit is None else HALF * self._left()
        try:
            with limited(late):
                return self.search.cheap()
        except TimeUp:
            if interrupted:
                raise KeyboardInterrupt from None
            raise BudgetError(
                f"no network of depth {self.depth} through {self.data.n_samples} points was found in time; give more "
                "time or fewer rows, or use covopt.fit(depth=...), whose networks need not pass through them."
            ) from None

    def _zero(self) -> None:
        """Solve the trivial cases of cost zero: targets that are zero, or constant with a free output bias."""
        Y = self.data.Y
        if Y.any() and not (self.output_bias == "free" and (Y[0] == Y).all()):
            return
        data = self.data
        layout = Layout.of_width(1, data, self.depth, self.output_bias)
        theta = np.zeros(layout.size)
        if layout.has_bias(self.depth - 1):
            layout.split(theta)[-1][:, -1] = Y[0] / data.bias
        self.offer((norm_of(layout, theta), layout, theta), "zero")
        raise Stop

    def offer(self, found: Found, source: str) -> None:
        """Keep a network unless it is below the lower bound: missing targets of size 1e-12 saves (1e-12)^{2/L}."""
        if not self.bounds or found[0] >= (1.0 - FOUND) * self.bounds[0].value:
            super().offer(found, source)

    # ------------------------------------------------------------------ from below
    @stage("closed bounds")
    def _at_once(self) -> None:
        """Run the immediate parts (trivial cases, closed forms, warm start), so that they survive an interrupt."""
        self._zero()
        self.add(closed_bounds(self.data, self.depth, self.output_bias))
        if self.start is not None:
            layout, theta = self.start
            if relative_residual(layout.forward(theta, self.data.X)[1][-1], self.data.Y) <= INTERPOLATES:
                self.offer((norm_of(layout, theta), layout, theta), "start")
            self.search.improve(layout, theta, "start")

    @stage("tree bound")
    def _trees(self) -> None:
        """Compute the tree and chain bounds, at layer norms near those of the best network so far."""
        assert self.best is not None
        upper = self.best[0]
        closed = [bound for bound in self.bounds if bound.kind == "pair"]
        many, rest = self.data.n_samples > 2, (self.data, self.depth, self.output_bias)
        found = tree_bounds(*rest, upper=upper, weights=self.search.dual) if many else []
        known = max((bound.value for bound in [*self.bounds, *found]), default=0.0)
        found += chain_bounds(*rest, upper=upper, closed=closed, known=known, tol=self.tol)
        if not many and (not found or relative_gap(upper, found[0].value) > self.tol):
            found += tree_bounds(*rest, upper=upper, weights=self.search.dual)
        self.add(found)

    def solution(self) -> DeepSolution:
        """See the base class; raise if the lower bound exceeds the cost, as the network misses small targets."""
        solution = super().solution()
        if solution.lower_bound > (1.0 + FOUND) * solution.cost:
            least = float(np.abs(self.data.Y[self.data.Y != 0.0]).min() / np.abs(self.data.Y).max())
            missed = solution.lower_bound / solution.cost - 1.0
            raise BudgetError(
                f"no network of depth {self.depth} was found that meets the small targets as well: they go down to "
                f"{least:.1g} of the largest and cost {missed:.1g} of the norm; scale the outputs, or leave them out."
            )
        return solution
