r"""A better bound on the gauge of one dual point, in the time that is left.

Quadratics on boxes, the worst box first, bring the bound B on h(Λ) down like B − h ~ n⁻ᵖ with n boxes, p between 0.2
and 0.5 on tables of noise. The certificate makes the same search once more, with the bound that was reached as
its goal, and needs about as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from covopt.limits import now
from covopt.oracles.cones.gauge import Scalar
from covopt.oracles.cones.moments import MEMORY, MomentSearch
from covopt.oracles.coordinates import transfer
from covopt.oracles.remembered import remember
from covopt.oracles.support import MOST_QUADRATIC_DIMENSIONS, SHOWN, quadratic_limit

ENOUGH = 1e-6  # a bound this close to a value met
SLICE = 128  # boxes between two looks at the clock
SAFE = 0.7  # of the boxes that a certificate looks at
FULL = f"open boxes fill the {MEMORY >> 20} MB that are meant for them: the lower bound stays where it is"
TOO_WIDE = (
    f"boxes are for at most {MOST_QUADRATIC_DIMENSIONS} dimensions (features, and one for the bias): the lower bound "
    "is a relaxation's"
)
TO_CLOSE = 0.25  # of the tolerance, that a bound may be above the largest value met
FIRST_LOOK = 0.04  # share of a certificate's boxes that are looked at in any case
# over the root of that share: by how much a bound may exceed the value met for a search to go on
PROMISING = 0.06
MORE = 8  # times a certificate's boxes, at most
NEWS = 0.95  # of the bound that was told last


def deep_gauge(
    rows: np.ndarray,
    dual: np.ndarray,
    neurons: np.ndarray,
    *,
    time_s: float,
    report: Callable[[float, str], bool] | None = None,
) -> float:
    """Bound h(λ) from above; infinity in more dimensions than quadratics are for.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,)
    neurons : ndarray of shape (m, r)
        Neurons that are nearly tight.
    time_s : float
        Seconds, about.
    report : callable, optional
        Sees the bound, and in words what made it, whenever it is a few per cent lower; a true answer stops.

    Examples
    --------
    >>> found = deep_gauge(np.eye(12), np.full(12, 2.0), np.ones((1, 12)), time_s=1.0)
    >>> bool(48**0.5 <= found < 48.001**0.5)
    True
    """
    made = transfer(rows, dual)
    if made.V.shape[1] == 0:
        return made.lift(0.0)
    most = int(SAFE * SHOWN * quadratic_limit(*rows.shape))
    if most == 0:
        return math.inf
    began, told, stopped = now(), math.inf, False
    search = MomentSearch(Scalar(made), n_threads=2)
    search.offer(neurons @ made.V)
    while not stopped and search.nodes < most and now() - began < time_s:
        before = search.nodes
        search.run(ENOUGH, min(before + SLICE, most))
        remember(rows, dual, made.lift(min(search.bound, search.scalar.norms())))
        if report is not None and search.bound < NEWS * told:
            told = search.bound
            stopped = report(made.lift(told), f"{search.nodes} boxes with quadratics raise the lower bound")
        if search.nodes == before:  # closed, or no room for more boxes
            break
    if search.is_full and report is not None:
        report(made.lift(search.bound), FULL)
    return made.lift(min(search.bound, search.scalar.norms())) if search.nodes else math.inf


def closed_gauge(
    rows: np.ndarray, dual: np.ndarray, neurons: np.ndarray, *, tol: float, time_s: float
) -> float:
    """Bound h(λ) to a quarter of a tolerance, where a first look promises that boxes close; else infinity.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    dual : ndarray of shape (N,)
    neurons : ndarray of shape (m, r)
        Neurons that are nearly tight.
    tol : float
        Gap that is asked for.
    time_s : float
        Seconds after which to give up.

    Examples
    --------
    >>> found = closed_gauge(np.eye(12), np.full(12, 2.0), np.ones((1, 12)), tol=1e-6, time_s=10.0)
    >>> bool(48**0.5 <= found < 48.0001**0.5)
    True
    """
    made, began = transfer(rows, dual), now()
    most = quadratic_limit(*rows.shape)
    if made.V.shape[1] == 0 or most == 0:
        return math.inf
    scalar = Scalar(made)
    search = MomentSearch(scalar, n_threads=2, by_signs=True)
    starts = np.concatenate([neurons @ made.V, scalar.starts(np.random.default_rng(0))])
    search.offer(scalar.ascend(np.concatenate([starts, -starts])))
    search.goal = search.best * (1.0 + TO_CLOSE * tol)
    search.run(0.0, 1)  # the roots
    while search.bound > search.goal and not search.is_full and search.nodes < MORE * most:
        share = search.nodes / most
        hopeless = share >= FIRST_LOOK and search.bound > (1.0 + PROMISING / math.sqrt(share)) * search.best
        if hopeless or now() - began > time_s:
            break
        search.run(0.0, search.nodes + SLICE)
        remember(rows, dual, made.lift(search.bound))
    is_closed = search.bound <= search.best * (1.0 + 2.0 * TO_CLOSE * tol)
    return made.lift(search.bound) if is_closed else math.inf
