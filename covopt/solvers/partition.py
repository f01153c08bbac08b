r"""A dual point that can be proved: optimal for the bounds on boxes, not for the gauge.

Where h(Λ) is known up to a factor only, the optimal Λ of the problem is not the one with the best bound: the dual
value counts divided by what boxes prove. A box bounds h by the activations of a relaxed neuron, one number between
the smallest and the largest σ that its moments allow for every row (:mod:`covopt.oracles.cones.quadratic`). Added as
columns beside the neurons, these activations make the master solve

.. math:: \max_\Lambda \; -C^*(-\mu\Lambda)/\mu \quad \text{s.t.} \quad |\langle \Lambda, a \rangle| \le 1

over relaxed neurons a as well (⟨Λ, Y⟩ where the network interpolates). Its optimum moves towards duals that bounds do
not overestimate: by cutting planes on one cover of all directions, whose boxes keep their multipliers from dual to
dual, then on one of twice as many boxes, cut where the bound is largest. The columns of a box that was cut go, its
halves are less relaxed. The more boxes a search may look at, the nearer the best dual is to the optimal one: what is
returned is a mixture. Nothing rests on the activations: whoever uses the dual bounds it anew.
"""

from __future__ import annotations

import numpy as np

from covopt.limits import now
from covopt.oracles.cones.boxes import ROOT_ROUNDS, Box, bound_all, roots
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.moments import MomentSearch
from covopt.oracles.cones.transfer import transfer
from covopt.solvers.deeper import extrapolated
from covopt.solvers.master.objective import Objective
from covopt.solvers.master.restricted import solve_restricted

BOXES, MOST_BOXES = 200, 3000  # of the last cover, without a time limit and with one
PARTITION_SHARE = 0.15  # of the time that is left, for the search of a better dual
TURNS, FIRST_TURNS = 6, 14  # of cutting planes, on each cover and on the first, coarsest one
ROUNDS, FIRST = 20, 8.0  # of multipliers: for each dual, and how many those of the last dual count for
COLUMNS = 150  # the worst boxes of a turn
MOST_COLUMNS = 1500
TIGHT, USED = 0.75, 0.5  # of the bound: boxes below it give no column; columns that are kept in the end
ACCURACY = 0.1  # of the master: well inside of the constraints cutting planes are steadier
STEP = 0.3  # of the way from the best dual to the master's
MIXTURES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of the dual for the cover, the rest is the optimal one's
TRIED, MOST_TRIED, TRIED_SHARE = 160, 1000, 0.002  # boxes that tell how bounds fall: a share of the search
WORTH = 1.02  # bounds this close to the largest value met leave nothing to move for


class Cover:
    """Boxes that cover all directions in fixed coordinates, for duals that move.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        In these coordinates.
    dual : ndarray of shape (N,)
        Of the size of the duals to come.
    n_threads : int

    Attributes
    ----------
    boxes : list of Box
    gauge : float
        What the boxes show of the last dual.
    columns : ndarray of shape (m, N)
        Relaxed neurons.
    """

    def __init__(self, rows: np.ndarray, dual: np.ndarray, n_threads: int = 1):
        self.rows, self.n_threads = rows, n_threads
        self._unit = 2.0 ** np.frexp(np.abs(dual).max())[1]
        self.boxes = list(roots(*rows.shape))
        self._fresh = True
        self.gauge = np.inf
        self.columns, self._owners = np.zeros((0, len(rows))), np.zeros(0, dtype=np.int64)

    def bound(self, dual: np.ndarray) -> float:
        """Bound the gauge of a dual of shape (N,), box by box, and keep the multipliers."""
        for box in self.boxes:
            box.bound = np.inf
        self._look(self.boxes, dual)
        self._fresh = False
        self.gauge = self._unit * max(box.bound for box in self.boxes)
        return self.gauge

    def _look(self, boxes: list[Box], dual: np.ndarray) -> None:
        level = TIGHT * self.gauge / self._unit if np.isfinite(self.gauge) else 0.0
        bound_all(
            Scalar.in_coordinates(self.rows, dual / self._unit),
            boxes,
            rounds=ROOT_ROUNDS if self._fresh else ROUNDS,
            first=2.0 if self._fresh else FIRST,
            level=level,
            n_threads=self.n_threads,
        )

    def price(self, dual: np.ndarray) -> None:
        """Add the relaxed neurons of the worst boxes to the columns."""
        bounds = np.array([box.bound for box in self.boxes])
        worst = np.argsort(-bounds, kind="stable")[:COLUMNS]
        worst = worst[bounds[worst] > TIGHT * bounds.max()]
        found = [relaxed_activations(self.rows, dual, self.boxes[place]) for place in worst]
        self.columns = np.concatenate([self.columns, found])
        self._owners = np.concatenate([self._owners, worst])

    def drop(self, heights: np.ndarray) -> None:
        """Keep the columns that are tightest."""
        if len(heights) > MOST_COLUMNS:
            kept = np.argsort(-heights, kind="stable")[: MOST_COLUMNS // 2]
            self.columns, self._owners = self.columns[kept], self._owners[kept]

    def refine(self, dual: np.ndarray, count: int) -> None:
        """Cut the worst boxes until there are ``count``, a quarter of them at a time."""
        while len(self.boxes) < count:
            bounds = np.array([box.bound for box in self.boxes])
            worst = np.argsort(-bounds, kind="stable")[: max(1, min(len(bounds) // 4, count - len(bounds)))]
            worst = np.array([place for place in worst if self.boxes[place].cut >= 0], dtype=np.int64)
            if not len(worst):
                return
            halves = [tuple(self.boxes[place].halves()) for place in worst]
            for place, (left, _) in zip(worst, halves, strict=True):
                self.boxes[place] = left
            self.boxes += [right for _, right in halves]
            kept = ~np.isin(self._owners, worst)
            self.columns, self._owners = self.columns[kept], self._owners[kept]
            self._look([box for pair in halves for box in pair], dual)


def relaxed_activations(rows: np.ndarray, dual: np.ndarray, box: Box) -> np.ndarray:
    """Return what a box takes for σ(z_i·w): most where ``box.sign``·λ_i > 0, least elsewhere.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        In the coordinates of the box.
    dual : ndarray of shape (N,)
    box : Box

    Returns
    -------
    ndarray of shape (N,)
    """
    a, side = box.chart, box.side
    middle, reach = rows @ box.centre, np.abs(rows) @ box.width
    low, high = middle - reach, middle + reach
    nearest = np.maximum(np.abs(box.centre) - box.width, 0.0)
    nearest[a] = 1.0
    longest = 1.0 / np.linalg.norm(nearest)
    products = rows @ box.X
    first, second = rows @ box.x, np.maximum((products * rows).sum(axis=1), 0.0)
    edge = products[:, a] * side
    with np.errstate(divide="ignore", invalid="ignore"):
        width = high - low
        largest = np.maximum(-low, high) * longest
        tau = np.minimum(np.sqrt(second), largest)
        curved = 0.5 * first + 0.25 * np.where(tau > 0.0, second / tau, 0.0) + 0.25 * tau
        bend = np.minimum(high, -low) / (width**2 * longest)
        chord = high / width * (first - low * box.x[a] * side)
        chord -= bend * ((low + high) * edge - second - low * high * box.X[a, a])
        length = np.linalg.norm(products, axis=1)
        inside = (np.abs(products @ box.centre) + np.abs(products) @ box.width) * longest
        pull = np.nan_to_num(length**2 / np.minimum(length, inside))
        most = np.fmin(curved, chord)
        least = np.fmax.reduce(
            [
                0.0 * first, first, (second - low * edge) / (width * longest),
                0.5 * (first + second / largest), 0.5 * (first + pull),
            ]
        )  # fmt: skip
    found = np.where(box.sign * dual > 0.0, most, least)
    return np.where(low >= 0.0, first, np.where(high <= 0.0, 0.0, found))


def for_a_cover(
    view: Objective,
    dual: np.ndarray,
    neurons: np.ndarray,
    *,
    boxes: int = BOXES,
    time_s: float = np.inf,
    n_threads: int = 1,
) -> np.ndarray:
    """Move a dual point to where the bounds of one cover are tighter, if that raises the lower bound that they prove.

    Parameters
    ----------
    view : Objective
        Of a problem with one output and no offset that has to be balanced.
    dual : ndarray of shape (N, 1)
        Λ, optimal or nearly.
    neurons : ndarray of shape (m, r)
        Neurons that constrain it.
    boxes : int
        Of the last cover; 0 for the first one alone.
    time_s : float
        After which the search ends.
    n_threads : int
        Changes nothing in the answer.

    Returns
    -------
    ndarray of shape (N, 1)
        The given dual where nothing better was found.

    Examples
    --------
    >>> from covopt.problems.shallow import ShallowProblem
    >>> from covopt.solvers.master.objective import Interpolation
    >>> view = Interpolation(ShallowProblem(np.eye(9), np.arange(1.0, 10.0)))
    >>> for_a_cover(view, np.ones((9, 1)), np.eye(9)).shape
    (9, 1)
    """
    made = transfer(view.rows, np.ascontiguousarray(dual[:, 0]))
    if made.V.shape[1] < view.rows.shape[1]:
        return dual
    began, centre, best = now(), dual, dual
    atoms = view.problem.atoms(neurons).T
    cover = Cover(view.rows @ made.V, dual, n_threads)
    while True:
        value, first = -np.inf, centre is dual
        for turn in range(FIRST_TURNS if first else TURNS):
            gauge = cover.bound(np.ascontiguousarray(centre[:, 0]))
            scaled, reached = view.scale(centre, gauge)
            if reached > value:
                best, value = scaled, reached
            if gauge <= WORTH * float(np.abs(atoms @ centre).max(initial=0.0)):
                return dual if centre is dual else best
            if now() - began > time_s:
                return dual if centre is dual else best
            cover.price(centre[:, 0])
            columns = np.concatenate([atoms, cover.columns])
            start = 0.5 * best * min(1.0, 1.0 / max(float(np.abs(columns @ best).max()), 1e-300))
            master = solve_restricted(view, columns, start, tol=ACCURACY)
            relaxed = view.project(master.dual)
            heights = np.abs(columns @ relaxed)[:, 0]
            if turn == TURNS:
                atoms = atoms[heights[: len(atoms)] > USED]
            cover.drop(heights[len(columns) - len(cover.columns) :])
            centre = best + STEP * (relaxed - best)
        if len(cover.boxes) >= boxes:
            return best
        cover.refine(np.ascontiguousarray(centre[:, 0]), min(2 * len(cover.boxes), boxes))


def towards_provable(
    view: Objective,
    dual: np.ndarray,
    neurons: np.ndarray,
    *,
    search_boxes: float,
    boxes: int = BOXES,
    time_s: float = np.inf,
    n_threads: int = 1,
) -> np.ndarray:
    """Return the dual point of which so many boxes are likely to prove most: between the given one and a cover's.

    The more boxes a search may look at, the nearer the best dual is to the optimal one. How bounds fall with the
    boxes is tried on a few mixtures.

    Parameters
    ----------
    view, dual, neurons, boxes, time_s, n_threads
        As for :func:`for_a_cover`.
    search_boxes : float
        Boxes of the search that is to come.
    """
    moved = for_a_cover(view, dual, neurons, boxes=boxes, time_s=time_s, n_threads=n_threads)
    tried = int(np.clip(TRIED_SHARE * search_boxes, TRIED, MOST_TRIED))
    best, value = dual, -np.inf
    for share in MIXTURES if moved is not dual else ():
        mixed = (1.0 - share) * dual + share * moved
        made = transfer(view.rows, np.ascontiguousarray(mixed[:, 0]))
        search = MomentSearch(Scalar(made), n_threads=n_threads)
        search.offer(neurons @ made.V)
        before, last = ((most, search.run(0.0, most) / search.best) for most in (tried // 4, tried))
        ratio = extrapolated(before, last, max(search_boxes, tried))
        reached = view.scale(mixed, made.lift(ratio * search.best))[1]
        if reached > value:
            best, value = mixed, reached
    return best
