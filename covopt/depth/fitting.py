"""``covopt.fit(depth=L)``: train deep networks with weight decay, and bracket the least objective.

The lower bounds rest on the residuals of trained networks. The tree bound is the dual of training networks in which
each last hidden neuron has its own copy of the lower layers. For fixed squared norms c_ℓ of the lower L − 2 layers
(equal in all copies, counted once) the residuals of the best such network are optimal dual variables. With c instead
of c₀ in the lower layers, the last two cost √(c₀/c)^{L−2} as much for the same outputs: dual variables at c are the
residuals of training with λ multiplied by that factor.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from covopt.api.task import Task
from covopt.certificates.conjugate import into_domain
from covopt.checks.log import stage
from covopt.checks.memory import SMALL, gives_way
from covopt.checks.validation import check_positive
from covopt.data import Data
from covopt.depth.bounds import KINDS, MOST_ROWS, Asked, Bound
from covopt.depth.cost import MOST_DEPTH, Bracket
from covopt.depth.descent import decay, objective, trim
from covopt.depth.families import DualTree
from covopt.depth.layers import Layout, as_chain, stationarity
from covopt.depth.linear import check_depth
from covopt.depth.solution import DeepSolution
from covopt.depth.tree_search import TIGHT, TreeSearch
from covopt.depth.upper import DESCENT, KEPT, Found, UpperSearch, random_start
from covopt.errors import InputError, Status
from covopt.exact.rank import FOUND
from covopt.files.schema import DEEP_FIT
from covopt.limits import HALF, TimeUp, now, seconds_left
from covopt.losses import Loss

FORMAT = "covopt-deep-fit"


@dataclass(eq=False, repr=False)
class DeepFit(DeepSolution):
    """A network of depth L trained with weight decay, and lower bounds on the objective of all such networks.

    Attributes
    ----------
    network : DeepReLUNetwork
    depth : int
    lam : float
    loss : Loss
        Bound to its targets.
    sample_weight : ndarray of shape (N,) or None
    bounds : list of Bound
        Lower bounds on C + λ‖W‖², best first; ``covopt.verify`` recomputes them.
    status : Status
        CERTIFIED if the relative gap is at most ``tol``; else HEURISTIC, as descent found the network.
    """

    potential: ClassVar[str] = "variation"
    solver: ClassVar[str] = "descent"
    lambda_max: ClassVar[None] = None
    scaling: ClassVar[None] = None
    _FORMAT: ClassVar[str] = FORMAT
    _LAYOUT: ClassVar[Any] = DEEP_FIT
    _STATED: ClassVar[tuple[str, ...]] = ("cost", "objective", "lower_bound")

    def __post_init__(self) -> None:
        if self.loss is None or self.lam is None:
            raise ValueError("a fit has a loss and a λ")

    @property
    def _terms(self) -> tuple[Loss, float]:
        assert self.loss is not None
        assert self.lam is not None
        return self.loss, self.lam

    @property
    def loss_value(self) -> float:
        """C of the network."""
        return float(self._terms[0].value(self.network.representations(self.data.X)[-1]))

    @property
    def objective(self) -> float:
        """C + λ‖W‖² of the network."""
        return self.loss_value + self._terms[1] * self.cost

    @property
    def stationarity(self) -> float | None:
        """Relative residual of the first-order conditions in the activation cell; 0 at a local minimum."""
        loss, lam = self._terms
        gradient = loss.gradient(self.network.representations(self.data.X)[-1])
        return stationarity(self.network, self.data.X, self.output_bias, gradient, lam)

    def _rows(self) -> list[tuple[str, str]]:
        rows = {name: text for name, text in super()._rows() if name not in ("interpolation", "too large")}
        best = max(self.bounds, key=lambda bound: bound.value, default=None)
        rows["problem"] += f", {self._terms[0].title} loss, λ {self.lam:g}"
        found = {}
        for name, text in rows.items():
            if name == "lower bound":
                found["loss C"] = f"{self.loss_value:.10g}"
                found["objective"] = f"{self.objective:.10g}"
            found[name] = text
        found["lower bound"] = f"{self.lower_bound:.10g}  ({best.title if best else 'none'})"
        return list(found.items())

    def _said(self) -> str:
        if self.status is Status.HEURISTIC:
            return "the network was found by descent, smaller objectives may exist; the lower bound is valid"
        return self.status.message

    def __repr__(self) -> str:
        return (
            f"DeepFit({self.status.code}, depth {self.depth}, λ {self.lam:g}, objective {self.objective:.8g}, "
            f"lower bound {self.lower_bound:.8g}, gap {self.gap:.1e})"
        )

    # ------------------------------------------------------------------ checking
    @property
    def _least(self) -> str:
        return "min C + λ‖W‖²"

    def asked(self) -> Asked:
        """Return the problem that the bounds refer to, from the raw table."""
        loss, lam = copy.copy(self._terms[0]), self._terms[1]
        loss.encode_targets(self.data.Y, self.sample_weight)
        check_positive("lam", lam)
        data = Data.validate(self.data.X, loss.targets, bias=self.data.bias, interpolates=False)
        return Asked(data, self.depth, self.output_bias, self.objective, loss, lam)

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats survive the round trip exactly."""
        found = super().to_dict()
        found["objective"] = self.objective
        return found


def fit_deep(
    task: Task,
    lam: float,
    depth: int,
    *,
    time_limit_s: float | None = None,
    callback: Callable[[dict[str, Any]], Any] | None = None,
    began: float | None = None,
    start: Any = None,
) -> DeepFit:
    r"""Train a network of L > 2 layers with weight decay, and bracket the least objective of all such networks.

    .. math:: \min_W \sum_i s_i\, \ell(f_W(x_i), y_i) + \lambda \|W\|^2

    over all widths. Upper bound: identity layers are inserted one by one into the shallow optimum, with descent after
    each, and random starts are trained with increasing λ. Lower bounds: :func:`fit_bounds`.

    Parameters
    ----------
    task : Task
        The table, the loss, the biases.
    lam : float
    depth : int
    time_limit_s : float, optional
    callback : callable, optional
        Called with each entry of ``history``; a true return value stops the search.
    began : float, optional
        Start time, for the time limit.
    start : DeepSolution, optional
        Warm start.
    """
    return _Training(task, lam, depth, time_limit_s, callback, now() if began is None else began, start).run()


def check(depth: Any, potential: Any, *, standardise: Any = False) -> int:
    """Return the depth, after checking it; refuse arguments that only the two-layer problem has.

    Raises
    ------
    InputError
        For an invalid depth, and for arguments of the two-layer problem.
    """
    L = check_depth(depth, most=MOST_DEPTH)
    if L > 2 and potential != "variation":
        raise InputError(
            f"depth={L} goes with the norm of the weights alone; received potential={potential!r}. Leave potential "
            "out, or use depth=2."
        )
    if L > 2 and standardise:
        raise InputError(
            f"standardise goes with two layers and depth is {L}; centre and scale the columns beforehand."
        )
    return L


class _Training(Bracket[DeepFit]):
    """The search for one fit."""

    kind = DeepFit

    def __init__(self, task: Task, lam: float, depth: int, *rest: Any) -> None:
        super().__init__(task.data, depth, task.output_bias, task.tol, task.random_state, *rest)
        self.task, self.lam = task, lam
        self.terms = {"lam": lam, "loss": task.loss, "sample_weight": task.sample_weight}
        self.search = TrainedSearch(task, lam, depth, self.limit, self.offer)

    def parts(self) -> None:
        """See the base class."""
        self.best = self.search.constant()
        self.work(HALF, self._above)
        self.work(1.0, self._below)

    def _above(self) -> None:
        assert self.best is not None
        if self.start is not None:
            self.offer(self.search.found(*self.start), "start")
            self.search.improve(*self.start, "start")
        if not self.history:
            self.note("upper", self.best[0], "constant")
        self.search.go_on()

    @stage("bounds")
    def _below(self) -> None:
        assert self.best is not None
        value, layout, theta = self.best
        task = self.task
        self.add(fit_bounds(task.data, task.loss, self.lam, task.output_bias, layout, theta, value))


class TrainedSearch(UpperSearch):
    """Search for networks with small C + λ‖W‖²: continuation in the depth, then random starts with increasing λ.

    Parameters
    ----------
    task : Task
    lam : float
    depth : int
    limit : float or None
    offer : callable
        As for :class:`covopt.depth.upper.UpperSearch`.
    """

    def __init__(
        self, task: Task, lam: float, depth: int, limit: float | None, offer: Callable[[Found, str], None]
    ) -> None:
        super().__init__(task.data, depth, task.output_bias, limit, task.random_state, offer)
        self.task, self.lam, self._loss = task, lam, task.loss

    def constant(self) -> Found:
        """Return the constant network, its output bias found by descent from zero."""
        layout = Layout.of_width(1, self.data, self.depth, self.output_bias)
        theta = np.zeros(layout.size)
        if layout.has_bias(self.depth - 1):
            theta = decay(layout, theta, self.data.X, self._loss, self.lam)
        return self.found(layout, theta)

    def go_on(self) -> None:
        """Run the continuation in the depth from the shallow optimum, then the random starts."""
        kept = self._shallow()
        if kept:
            self.continue_in_depth(kept, 1 if self._is_large(kept[0][1]) else KEPT)
        data = self.data
        layout = Layout.of_width(min(data.n_samples + 2, 24), data, self.depth, self.output_bias)
        size = float(np.abs(self._loss.targets).max())
        for _ in range(1 if self._is_large(layout) else KEPT):
            _, low = random_start(layout, self._rng, size, float(np.abs(data.lifted).max()))
            for share in (0.01, 0.1):
                low = decay(layout, low, data.X, self._loss, share * self.lam)
            self.improve(layout, low, "random start")

    def _is_large(self, layout: Layout) -> bool:
        """Return whether only one start is continued, as the Jacobians are large."""
        return layout.jacobian_bytes(self.data.n_samples) > SMALL

    def found(self, layout: Layout, theta: np.ndarray) -> Found:
        """Return the triple of objective, layout and weights."""
        return objective(layout, theta, self.data.X, self._loss, self.lam), layout, theta

    @stage("shallow optimum")
    def _solved(self) -> list[Found]:
        """Return the shallow optima for λ and λ/10; the second is the better start if depth makes norms costly."""
        found = []
        for share in (1.0, 0.1):
            left = None if self.limit is None else HALF * seconds_left()
            solution = self.task.solve(share * self.lam, left, None, None, now())
            if len(solution.network):
                chain = as_chain(solution.network)
                found.append(self.found(*Layout.of_network(chain, self.data.bias, self.output_bias)))
        return found

    @stage("descent")
    def improve(self, layout: Layout, theta: np.ndarray, source: str) -> list[Found]:
        """Descend, drop negligible neurons, and offer the network."""
        low = theta
        if not gives_way(DESCENT * layout.size, f"a descent over {layout.size:,} weights", "it is left out"):
            low = decay(layout, theta, self.data.X, self._loss, self.lam)
        before = self.found(layout, low)
        found = self.found(*trim(layout, low, silent=FOUND * max(1.0, float(np.abs(low).max()) ** 2)))
        if found[0] > before[0] * (1.0 + 1e-9):
            found = before
        self._offer(found, source)
        return [found]


# ---------------------------------------------------------------------- lower bounds
ROWS = {3: 30, 4: 10}  # rows of a tree, by depth; for larger depths, where families are closed, MOST_ROWS
MOST_CELLS = 1000  # activation cells of the rows: each height is a maximum over them
# values of c relative to the mean squared norm of a layer; the first uses the network's own residuals
SHARES = (0.8, 0.6, 0.35, 0.1)


def fit_bounds(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> list[Bound]:
    """Return lower bounds on the least objective, best first.

    Parameters
    ----------
    data : Data
    loss : Loss
        Bound to its targets.
    lam : float
    output_bias : {"none", "penalized", "free"}
    layout, theta : Layout, ndarray of shape (layout.size,)
        A trained network.
    upper : float
        Its objective.
    """
    asked = Asked(data, layout.depth, output_bias, upper, loss, lam)
    done = [_bound((), asked)]
    trees: list[DualTree] = []
    try:
        for tree in _trees(data, loss, lam, output_bias, layout, theta, upper):
            trees.append(tree)
            if len(trees) == 1:  # keep a bound now: the other trees may not be ready before the deadline
                done.append(_bound((tree,), asked))
        if len(trees) > 1:
            done[1] = _bound(tuple(trees), asked)
    except TimeUp:
        pass
    return sorted(done, key=lambda bound: -bound.value)


def _bound(trees: tuple[DualTree, ...], asked: Asked) -> Bound:
    return Bound(KINDS["trees"].value(trees, asked), "trees", trees)


def _trees(
    data: Data, loss: Loss, lam: float, output_bias: str, layout: Layout, theta: np.ndarray, upper: float
) -> Iterator[DualTree]:
    """Yield dual variables with their trees, for several norms of the lower layers."""
    depth = layout.depth
    residuals = _residuals(loss, layout.forward(theta, data.X)[1][-1])
    rows = _heaviest(data, residuals, depth)
    if not len(rows):
        return
    X, part = data.X[rows], loss.take(rows)
    layers = [float((w**2).sum()) for w in layout.split(theta)]
    mean = max(float(np.mean(layers)), 1e-3 * upper / (lam * depth))
    # the network's own residuals serve only if ``rows`` contains every row with a residual
    seen = len(rows) == int(residuals.any(axis=1).sum())
    for share in SHARES if seen else SHARES[1:]:
        there = (
            theta if share == SHARES[0] else decay(layout, theta, X, part, lam * share ** (1.0 - depth / 2.0))
        )
        *_, activations, outputs = layout.forward(there, X)[1]
        slope = into_domain(part, part.gradient(outputs), free=output_bias == "free" and data.bias > 0.0)
        if slope.any():
            search = TreeSearch(data.lifted[rows], -slope[:, 0], data.bias, tol=TIGHT)
            search.use(share * mean)
            search.hints = list(activations.T)
            yield search.tree(
                rows.tolist(), -slope, level=loss.is_level,
                levels=depth - 2 if depth in ROWS else None,
            )  # fmt: skip


def _residuals(loss: Loss, outputs: np.ndarray) -> np.ndarray:
    """Return −∇C, with zeros for rows of weight zero."""
    counted = np.flatnonzero(loss.weights[:, 0] > 0.0)
    residuals = np.zeros_like(outputs)
    residuals[counted] = -loss.take(counted).gradient(outputs[counted])
    return residuals


def _heaviest(data: Data, residuals: np.ndarray, depth: int) -> np.ndarray:
    """Return the rows with the largest ‖residual‖·‖(x, β)‖, in decreasing order: sets of rows are split in it."""
    sizes = np.linalg.norm(residuals, axis=1) * np.linalg.norm(data.lifted, axis=1)
    most, dim = ROWS.get(depth, MOST_ROWS), data.lifted.shape[1]
    while most > MOST_ROWS and 2 * sum(math.comb(most - 1, i) for i in range(dim)) > MOST_CELLS:
        most -= 1
    rows = np.argsort(-sizes, kind="stable")[:most]
    return rows[sizes[rows] > 0.0]
