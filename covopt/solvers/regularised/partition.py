r"""A dual point that can be proved: optimal for the bounds on boxes, not for the gauge.

Where h(Λ) is known up to a factor only, the optimal Λ of the problem is not the one with the best bound: the dual
value counts divided by what boxes prove. A box bounds h by the activations of a relaxed neuron, one number between
the smallest and the largest σ that its moments allow for every row (:mod:`covopt.oracles.cones.quadratic`). Added as
columns beside the neurons, these activations make the master solve

.. math:: \max_\Lambda \; -C^*(-\mu\Lambda)/\mu \quad \text{s.t.} \quad |\langle \Lambda, a \rangle| \le 1

over relaxed neurons a as well. Its optimum moves towards duals that bounds do not overestimate. Nothing rests on the
activations: the dual that is returned is bounded anew by whoever uses it.
"""

from __future__ import annotations

import numpy as np

from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.moments import Box, MomentSearch
from covopt.oracles.cones.transfer import transfer
from covopt.problems.regularised import RegularisedProblem
from covopt.solvers.master.objective import Fit
from covopt.solvers.master.restricted import solve_restricted

ROUNDS = 3
BOXES = 1500  # per round
COLUMNS = 60  # the worst open boxes of a round
TIGHT = 0.7  # columns below it are left out
ACCURACY = 1e-3
WORTH = 1.02  # bounds this close to the largest value met leave nothing to move for
MIDDLE = 0.25  # of the way to the relaxed optimum: deeper searches are less relaxed


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


def towards_provable(
    problem: RegularisedProblem,
    dual: np.ndarray,
    neurons: np.ndarray,
    *,
    boxes: int = BOXES,
    rounds: int = ROUNDS,
) -> np.ndarray:
    """Move a dual point to where bounds on boxes are tighter, if that raises the lower bound that few boxes prove.

    Parameters
    ----------
    problem : RegularisedProblem
        With one output and no offset that has to be balanced.
    dual : ndarray of shape (N, 1)
        Λ, optimal or nearly.
    neurons : ndarray of shape (m, r)
        Neurons that constrain it.
    boxes, rounds : int

    Returns
    -------
    ndarray of shape (N, 1)
        The given dual where nothing better was found.
    """
    rows, atoms = problem.rows, problem.atoms(neurons).T
    best, lower, relaxed = dual, -np.inf, dual
    for turn in range(rounds + 1):
        point = np.ascontiguousarray(relaxed[:, 0])
        made = transfer(rows, point)
        if made.V.shape[1] == 0:
            return best
        search = MomentSearch(Scalar(made))
        search.offer(neurons @ made.V)
        gauge = made.lift(search.run(ACCURACY, boxes))
        scaled, value = problem.scale_dual(relaxed, gauge)
        if value > lower:
            best, lower = relaxed, value
        if turn == rounds or search.bound <= WORTH * search.best:
            break
        fresh = [relaxed_activations(rows @ made.V, point, box) for box in search.worst(COLUMNS)]
        if not fresh:
            break
        atoms = np.concatenate([atoms, fresh])
        start = 0.5 * scaled
        start *= min(1.0, 0.5 / max(float(np.abs(atoms @ start).max()), 1e-300))
        master = solve_restricted(Fit(problem), atoms, start, tol=ACCURACY)
        relaxed = problem.project_dual(master.dual)
        atoms = atoms[np.abs(atoms @ relaxed)[:, 0] > TIGHT]
    return best if best is dual else (1.0 - MIDDLE) * dual + MIDDLE * best
