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
from covopt.oracles.cones.cover import Cover
from covopt.oracles.cones.deeper import extrapolated
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.moments import MomentSearch
from covopt.oracles.cones.transfer import transfer
from covopt.solvers.master.newton import solve_restricted
from covopt.solvers.master.objective import Objective

BOXES, MOST_BOXES = 200, 3000  # of the last cover, without a time limit and with one
PARTITION_SHARE = 0.15  # of the time that is left, for the search of a better dual
TURNS, FIRST_TURNS = 6, 14  # of cutting planes, on each cover and on the first, coarsest one
USED = 0.5  # of the bound: columns that are kept in the end
ACCURACY = 0.1  # of the master: well inside of the constraints cutting planes are steadier
STEP = 0.3  # of the way from the best dual to the master's
MIXTURES = (1.0, 0.75, 0.5, 0.25, 0.0)  # of the dual for the cover, the rest is the optimal one's
TRIED, MOST_TRIED, TRIED_SHARE = 160, 1000, 0.002  # boxes that tell how bounds fall: a share of the search
WORTH = 1.02  # bounds this close to the largest value met leave nothing to move for


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
