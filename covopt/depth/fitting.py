"""``covopt.fit(depth=L)``: deep networks trained with weight decay, with a bracket of what can be bracketed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from covopt.api.fit_task import FitTask
from covopt.checks.memory import gives_way
from covopt.checks.timing import stage, timing
from covopt.depth.bracket import Bracket
from covopt.depth.cost import MOST_DEPTH
from covopt.depth.decay import decay, objective
from covopt.depth.fit_bounds import fit_bounds
from covopt.depth.fit_solution import DeepFit
from covopt.depth.layers import Layout
from covopt.depth.linear import check_depth
from covopt.depth.polish import trim
from covopt.depth.rays import FitBound
from covopt.depth.starts import deeper, of_shallow, random_start
from covopt.depth.upper import DESCENT, EXTRA, KEPT, WIDTH, Found, distinct
from covopt.errors import InputError
from covopt.limits import now

RANDOM_STARTS = 3
LARGE = 2000  # numbers of a network's pre-activations from which on only one start is followed
_SHALLOW_SHARE, _UPPER_SHARE = 0.25, 0.7  # of a time limit
SILENT = 1e-9  # ‖w_in‖‖w_out‖ of neurons that are dropped, against the largest


def fit_deep(
    task: FitTask,
    lam: float,
    depth: int,
    *,
    time_limit_s: float | None = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    began: float | None = None,
) -> DeepFit:
    r"""Train a network of L > 2 layers with weight decay, and bracket the least objective of all such networks.

    .. math:: \min_W \sum_i s_i\, \ell(f_W(x_i), y_i) + \lambda \|W\|^2

    over all widths. From above: the shallow optimum gets one identity layer after the other, descent after each; and
    random starts, with λ rising to its value. From below: :mod:`covopt.depth.rays`.

    Parameters
    ----------
    task : FitTask
        The table, the loss, the biases.
    lam : float
    depth : int
    time_limit_s : float, optional
    callback : callable, optional
        Called with each entry of ``history``; a true answer stops.
    began : float, optional
        When the clock started.
    """
    return _Training(task, lam, depth, time_limit_s, callback, now() if began is None else began).run()


def check(depth: Any, potential: Any, start: Any, *, standardise: Any = False) -> int:
    """Return the depth asked for, refusing what goes with two layers alone.

    Raises
    ------
    InputError
        For depths that are none, and arguments that belong to the shallow problem.
    """
    L = check_depth(depth)
    if L > MOST_DEPTH:
        raise InputError(f"depth must be at most {MOST_DEPTH}; received {L}. Use a smaller depth.")
    if L > 2 and potential != "variation":
        raise InputError(
            f"depth={L} goes with the norm of the weights alone; received potential={potential!r}. Leave potential "
            "out, or use depth=2."
        )
    if L > 2 and start is not None:
        raise InputError(f"start is a shallow solution and depth is {L}; leave start out, or use depth=2.")
    if L > 2 and standardise:
        raise InputError(
            f"standardise goes with two layers and depth is {L}; centre and scale the columns beforehand."
        )
    return L


class _Training(Bracket):
    """One fit in the making."""

    def __init__(
        self,
        task: FitTask,
        lam: float,
        depth: int,
        limit: float | None,
        callback: Callable[[dict[str, Any]], Any] | None,
        began: float,
    ) -> None:
        super().__init__(depth, limit, callback, began)
        self.task, self.lam, self.data, self.loss = task, lam, task.data, task.loss
        self.rng = np.random.default_rng(task.random_state)
        self.best = self._constant()
        self.bounds: list[FitBound] = []

    def run(self) -> DeepFit:
        """Search above, then below."""
        with timing(self.began) as watch:
            self.work(_UPPER_SHARE, self._above)
            self.work(1.0, self._below)
        layout, theta = self.best[1:]
        task = self.task
        return self.said(DeepFit(
            self.data, self.depth, task.output_bias, layout.to_network(theta), self.bounds, self.status, task.tol,
            self.history, now() - self.began, task.random_state, self.lam, self.loss, task.sample_weight,
            watch.seconds(),
        ))  # fmt: skip

    @stage("bounds")
    def _below(self) -> None:
        value, layout, theta = self.best
        self.bounds = fit_bounds(self.data, self.loss, self.lam, self.task.output_bias, layout, theta, value)
        if self.bounds:
            self.note("lower", self.bounds[0].value, self.bounds[0].title)

    def _constant(self) -> Found:
        """Return the network without neurons; its output bias is what descent makes of zero."""
        bias, outputs = self.data.bias, self.data.n_outputs
        layout = Layout((self.data.n_features, *[1] * (self.depth - 1), outputs), bias, self.task.output_bias)
        theta = np.zeros(layout.size)
        if layout.has_bias(self.depth - 1):
            theta = decay(layout, theta, self.data.X, self.loss, self.lam)
        return objective(layout, theta, self.data.X, self.loss, self.lam), layout, theta

    def _above(self) -> None:
        """Continuation in the depth from the shallow optimum; then random starts."""
        self.note("upper", self.best[0], "constant")
        kept = self._shallow()
        while kept and kept[0][1].depth < self.depth:
            found = []
            for _, layout, theta in kept:
                for extra in EXTRA:
                    for start in deeper(layout, theta, self.rng, extra=extra):
                        found.append(self._improve(*start, f"depth {layout.depth} continued"))
            kept = distinct(found, 1 if self._is_large(kept[0][1]) else KEPT)
        for layout, theta in self._random_starts():
            low = theta
            for share in (0.01, 0.1):
                low = decay(layout, low, self.data.X, self.loss, share * self.lam)
            self._improve(layout, low, "random start")

    def _is_large(self, layout: Layout) -> bool:
        return self.data.n_samples * sum(layout.widths) > LARGE

    @stage("shallow optimum")
    def _shallow(self) -> list[Found]:
        """Return the shallow optimum for λ and for a tenth of it: where depth makes norms dear, more is a start."""
        found = []
        for share in (1.0, 0.1):
            left = None if self.limit is None else _SHALLOW_SHARE * self.limit
            solution = self.task.solve(share * self.lam, left, None, None, now())
            if not len(solution.network):
                continue
            layout, theta = of_shallow(solution.network, self.task.output_bias)
            found.append((objective(layout, theta, self.data.X, self.loss, self.lam), layout, theta))
        return found

    def _random_starts(self) -> Iterator[tuple[Layout, np.ndarray]]:
        data = self.data
        layout = Layout(
            (data.n_features, *[max(WIDTH, min(data.n_samples, 24))] * (self.depth - 1), data.n_outputs),
            data.bias, self.task.output_bias,
        )  # fmt: skip
        size = float(np.abs(self.loss.targets).max())
        for _ in range(1 if self._is_large(layout) else RANDOM_STARTS):
            yield random_start(layout, self.rng, size, float(np.abs(data.lifted).max()))

    @stage("descent")
    def _improve(self, layout: Layout, theta: np.ndarray, source: str) -> Found:
        """Descend, drop silent neurons, keep."""
        X = self.data.X
        if gives_way(DESCENT * layout.size, f"a descent over {layout.size:,} weights", "it is left out"):
            low = theta
        else:
            low = decay(layout, theta, X, self.loss, self.lam)
        small, trimmed = trim(layout, low, silent=SILENT * max(1.0, float(np.abs(low).max()) ** 2))
        value = objective(small, trimmed, X, self.loss, self.lam)
        before = objective(layout, low, X, self.loss, self.lam)
        if value > before * (1.0 + 1e-9):
            small, trimmed, value = layout, low, before
        if small.depth == self.depth and value < self.best[0]:
            self.best = (value, small, trimmed)
            self.note("upper", value, source)
        return value, small, trimmed
