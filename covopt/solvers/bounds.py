"""Lower bounds for a network that the search could not prove optimal: the best of several valid ones.

- the dual of the search, divided by an upper bound on its dual norm, computed as certificates do;
- for interpolation, the optimal dual of a subset S of the rows: it is a dual point of the whole problem, and its h
  involves only the arrangement of S; S grows while there is time to solve it;
- beyond eight dimensions, and with a loss, a dual with a smaller relaxation bound, unless the gap is small; then,
  with a loss, quadratics on boxes; on request, the dual of the semidefinite relaxation
  (:mod:`covopt.conic.programs`), divided likewise.

Each gets an equal share of the remaining time.

**Duals with a small relaxation bound** (:func:`relaxed_duals`) are bounded quickly, where bounding the optimal dual
takes too long. The bound B(Λ) ≥ h(Λ) of :class:`~covopt.oracles.bounds.Relaxation` is convex; at every Λ it returns
outputs A with, approximately, B(Λ') ≥ ⟨Λ', A⟩ for all Λ'. Beside the neurons of a network they are cutting planes:

    min over m ≥ 0, B    C(Σ_j m_j A_j + 1Bᵀ)/μ + Σ_j m_j + ½ ρ ‖B‖²,    Λ = −∇C/μ there,

and the next dual is half way to this one from the best so far. On noise in many dimensions B is up to 2 at the
optimal dual, and smaller at a dual near it (diabetes, 442 × 10, at λ_max/10: .74 of the objective becomes .80 within
a second).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.optimize import minimize

from covopt.checks.memory import check_room
from covopt.conic.programs import relaxed_dual
from covopt.errors import BudgetError, SolverError, Status
from covopt.exact.rank import ROUGH
from covopt.exact.rounding import relative_gap
from covopt.limits import HALF, TimeUp, checkpoint, limited, now
from covopt.oracles.base import MOST_DIMENSIONS, SHOWN, remember
from covopt.oracles.bounds import Relaxation, importance
from covopt.oracles.boxes.quadratic_search import (
    MOST_QUADRATIC_DIMENSIONS,
    MomentSearch,
    quadratic_dual_norm,
    quadratic_limit,
)
from covopt.oracles.boxes.scalar import narrow
from covopt.oracles.cascade import exact_oracle, suits_search, suits_signs
from covopt.oracles.certified import certified_dual_norm, fan_limit
from covopt.problems.problem import Problem
from covopt.solvers.both_layers import STEPS, Network
from covopt.solvers.descent import Descent
from covopt.solvers.generation import generate
from covopt.solvers.interpolating import squared_fits
from covopt.solvers.loop import Point, RoundState
from covopt.solvers.searching import search

SUBSET_TOL = ROUGH  # tolerance for duals of fewer points, and for interpolation that no bound certifies
FITS = 0.3, 0.1, 0.03, 0.01, 0.003, 0.001  # λ of fits whose duals are tried: shares of a one-point λ_max
POINTS = "points by themselves raise the lower bound"
RELAXED = "a dual that is easier to bound raises the lower bound"
NEAR = 0.05  # gap up to which boxes bound the dual of the search
STALE = 12  # consecutive duals that hardly raise the bound, after which to stop
FULL = "open boxes fill the memory that is meant for them: the lower bound stays where it is"
TOO_WIDE = (
    f"boxes are for at most {MOST_QUADRATIC_DIMENSIONS} dimensions (features, and one for the bias): the lower bound "
    "is a relaxation's"
)


class Bounds:
    """Methods that raise the lower bound of a point; the dual of the best bound is kept.

    Parameters
    ----------
    problem : Problem
    point : Point
        Result of a search; its lower bound is raised in place.
    dual : ndarray of shape (N, k)
        Believed to be optimal.
    tol : float
    time_s : float or None
        From now.
    effort : float
        Share of a full search that a bound without a time limit may take.
    callback : callable, optional
        Called when the bound rises.
    random_state : int, optional
    failed : bool
        Whether the search has tried to prove the dual, and could not.
    """

    def __init__(
        self,
        problem: Problem,
        point: Point,
        dual: np.ndarray,
        *,
        tol: float,
        time_s: float | None = None,
        effort: float = 1.0,
        callback: Callable[[Any, Point], bool] | None = None,
        random_state: int | None = None,
        failed: bool = False,
    ):
        self.problem, self.point, self.dual, self.tol = problem, point, dual, tol
        self.time_s, self.effort, self.callback, self.random_state = time_s, effort, callback, random_state
        self.began, self.rows, self.asked = now(), problem.rows[problem.live], problem.asked(dual)
        self.easier, self.part, self.is_exact, self.failed = dual, self.left, False, failed
        self.closes = suits_fan(problem)

    @property
    def left(self) -> float:
        """Remaining seconds."""
        return np.inf if self.time_s is None else max(0.1, self.time_s - (now() - self.began))

    def offer(self, dual: np.ndarray, dual_norm: float, *, claimed: bool = False) -> None:
        """Scale a dual (N, k) by a bound on its dual norm, and keep it if its value is the best so far."""
        scaled, lower = self.problem.scale_dual(dual, dual_norm)
        if lower > self.point.lower_bound:
            self.point.dual, self.point.lower_bound = scaled, lower
            self.point.claimed, self.point.hoped = claimed, None

    def raise_all(self, *, proves: bool = True) -> None:
        """Try the bounds that there is time for, or the semidefinite relaxation; certify a gap that closes."""
        point, rank = self.point, self.rows.shape[1]
        point.status = Status.HEURISTIC
        if self.effort < 1.0 and self.time_s is None and proves:  # the certificate would repeat it
            return
        ways = self._ways() if proves else [self.by_relaxation]
        for number, way in enumerate(ways):
            self.part = self.left / (len(ways) - number)
            with contextlib.suppress(TimeUp), limited(self.part):
                way()
            if point.gap <= self.tol or self.is_exact:
                break
        if rank > MOST_QUADRATIC_DIMENSIONS and proves:
            self.report(TOO_WIDE)
        if not self.is_exact and (self.closes or (self.problem.is_scalar and rank <= MOST_DIMENSIONS)):
            point.hoped = self.dual  # the certificate may still prove it
        if point.gap <= self.tol:
            point.status = Status.CERTIFIED

    def _ways(self) -> list[Callable[[], None]]:
        """Return the methods that bound the dual, or find one that is easier to bound, in order."""
        (n, rank), problem = self.rows.shape, self.problem
        if problem.interpolates:
            if self.failed and rank > MOST_DIMENSIONS:  # by signs, which would end where they did
                return [self.by_few_points]
            narrow = rank <= MOST_DIMENSIONS or suits_signs(n, rank)
            if narrow or not problem.is_scalar:
                return [self.by_few_points, self.by_policy]
            return [self.by_relaxed_dual, self.by_few_points]
        if self.closes:
            return []
        ways: list[Callable[[], None]] = [self.by_policy] if suits_signs(n, rank) else []
        has_boxes = problem.is_scalar and rank <= MOST_QUADRATIC_DIMENSIONS
        if not has_boxes or self.point.gap > NEAR:
            ways.append(self.by_relaxed_dual)
        return [*ways, self.by_boxes] if has_boxes else ways

    def by_policy(self) -> None:
        """Bound the dual as certificates do."""
        if self.asked.any():
            found = certified_dual_norm(self.rows, self.asked, effort=self.effort)
            self.offer(self.dual, found.value)
            self.is_exact = found.exact  # no other dual has a better bound

    def by_relaxed_dual(self) -> None:
        """Look for a dual with a smaller relaxation bound; a search may still prove more for the presumed optimum.

        Duals of fits are dual points of interpolation too: λ decreases while they improve the bound.
        """
        problem, best, told = self.problem, 0.0, 0.0
        for fit in squared_fits(problem, FITS) if problem.interpolates else [problem]:
            network, start, before = Network(*self.point.network), self.dual, best
            if problem.interpolates:
                descent = Descent(fit, self.random_state)
                for _ in descent.run(1, 1):
                    pass
                network, start = descent.network, descent.point.dual
            for dual, dual_norm in relaxed_duals(fit, network, start):
                scaled, lower = problem.scale_dual(dual, dual_norm)
                if lower > best:
                    best, self.easier = lower, scaled
                self.offer(dual, dual_norm)
                if self.point.lower_bound > told:
                    told = (1.0 + ROUGH) * self.point.lower_bound
                    if self.report(RELAXED):
                        return
            if best <= before:
                return

    def by_few_points(self) -> None:
        """Use the optimal duals of a few points, then of more."""
        for dual in more_and_more_points(self.problem, self.part, self.random_state, self.dual):
            before = self.point.lower_bound
            self.offer(dual, 1.0)
            if self.point.lower_bound > before and self.report(
                f"{np.count_nonzero(dual.any(axis=1))} {POINTS}"
            ):
                return

    def by_boxes(self) -> None:
        """Bound the dual norm by quadratics on boxes; at a large gap, that of a dual which is easier to bound.

        The certificate, which may examine twice as many, repeats this.
        """
        is_near = self.point.gap <= NEAR
        if self.time_s is None and not is_near:  # without a limit they would not end
            return
        dual = self.dual if is_near else 0.5 * (self.dual + self.easier)
        told = np.inf

        def goes_on(search: MomentSearch) -> bool:
            nonlocal told
            stopped = False
            self.offer(dual, search.scalar.lift(search.bound), claimed=True)
            if search.bound < (1.0 - ROUGH) * told:
                told = search.bound
                stopped = self.report(f"{search.nodes} boxes with quadratics raise the lower bound")
            if search.is_full:
                self.report(FULL)
            return not stopped and self.point.gap > self.tol

        most = HALF * SHOWN * quadratic_limit(*self.rows.shape)
        found = quadratic_dual_norm(
            self.rows, self.problem.asked(dual), neurons=self.point.neurons, rtol=HALF * self.tol,
            max_nodes=int(most), by_signs=is_near, n_threads=2, goes_on=goes_on,
        )  # fmt: skip
        self.offer(dual, found.upper_bound, claimed=True)
        self.is_exact = is_near and found.closed

    def by_relaxation(self) -> None:
        """Solve the semidefinite relaxation for a dual point, and bound its dual norm."""
        most = None if self.time_s is None else self.left / 2
        with contextlib.suppress(TimeUp, SolverError), limited(self.left):
            weights = importance(self.rows, self.dual)
            found = relaxed_dual(self.problem, weights=weights, time_limit_s=most)
            self.offer(found, certified_dual_norm(self.rows, self.problem.asked(found)).value)

    def report(self, note: str) -> bool:
        """Report the bound and its origin to the callback; return whether to stop."""
        point = self.point
        columns = point.history[-1].n_columns if point.history else 0
        lower = max(point.lower_bound, 0.0)
        gap = relative_gap(point.upper_bound, lower)
        state = RoundState(len(point.history), lower, point.upper_bound, gap, columns, 0.0, note)
        point.history.append(state)
        return self.callback is not None and bool(self.callback(state, point))


def suits_fan(problem: Problem) -> bool:
    """Return whether a fan of output directions bounds duals; the certificate, which has more time, does it."""
    n, rank = problem.rows[problem.live].shape
    return not problem.is_scalar and (
        problem.interpolates or suits_signs(n, rank) or fan_limit(n, rank) >= problem.n_outputs
    )


def few_points(
    problem: Problem, chosen: np.ndarray, time_limit_s: float, random_state: int | None = None
) -> np.ndarray:
    """Return a proved dual with h ≤ 1 that is supported on the chosen rows."""
    # with rows of length one, a short row with a large dual counts like any other
    rows = narrow(problem.rows[chosen], 1.0 / np.linalg.norm(problem.rows[chosen], axis=1))[1]
    part = Problem.through(rows, problem.targets[chosen], problem.offset_cost)
    full = np.zeros(problem.dual_shape)
    limit = time_limit_s if np.isfinite(time_limit_s) else None
    options: dict[str, Any] = {"tol": SUBSET_TOL, "random_state": random_state, "time_limit_s": limit}
    with contextlib.suppress(BudgetError):
        if part.is_scalar and suits_search(*rows.shape):
            point = search(part, **options)
        else:
            point = generate(part, exact_oracle(rows, problem.vector_outputs), **options)
        full[chosen] = point.dual
        if point.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
    return full


def more_and_more_points(
    problem: Problem, time_limit_s: float, random_state: int | None = None, guess: np.ndarray | None = None
) -> Iterator[np.ndarray]:
    """Yield duals of increasing value, optimal for more and more points, the most important of a guess first.

    Examples
    --------
    >>> rows = np.column_stack([np.random.default_rng(0).standard_normal((50, 2)), np.ones(50)])
    >>> problem = Problem.through(rows, np.sin(np.arange(50.0)))
    >>> 0.0 < problem.dual_value(next(more_and_more_points(problem, 1.0)))
    True
    """
    began, highest = now(), 0.0
    if guess is None or not guess.any():
        guess = problem.project_dual(problem.targets)
    weights = importance(problem.rows, guess)
    order, count = np.argsort(-weights, kind="stable")[: np.count_nonzero(weights)], problem.rows.shape[1]
    most = len(order) if np.isfinite(time_limit_s) else 2 * problem.rows.shape[1]
    with contextlib.suppress(TimeUp):
        while len(order) and (left := time_limit_s - (now() - began)) > 0.0:
            started, count = now(), min(count, len(order))
            dual = few_points(problem, np.sort(order[:count]), left, random_state)
            if problem.dual_value(dual) > highest:
                highest = problem.dual_value(dual)
                yield dual
            if not dual.any() or count >= most or HALF * left < now() - started:
                break
            count = min(2 * count, (count + len(order) + 1) // 2)  # all points at once were too many


def relaxed_duals(problem: Problem, network: Network, dual: np.ndarray) -> Iterator[tuple[np.ndarray, float]]:
    """Yield duals (N, k) that raise the lower bound, and bounds on their h, until the lower bound stalls.

    Parameters
    ----------
    problem : Problem
        With a loss.
    network : Network
        Its neurons are the first columns.
    dual : ndarray of shape (N, k)

    Examples
    --------
    >>> from itertools import islice
    >>> from covopt.losses import make_loss
    >>> loss, rows = make_loss("squared"), np.eye(3)
    >>> _ = loss.encode_targets([3.0, 4.0, -6.0])
    >>> problem = Problem(rows, loss, 0.1)
    >>> network = Network(np.eye(3)[:2], np.ones((2, 1)), np.zeros(1))
    >>> found = islice(relaxed_duals(problem, network, loss.targets), 2)
    >>> first, second = (problem.scale_dual(*each)[1] for each in found)
    >>> bool(second > first)
    True
    """
    live = problem.live
    rows = problem.rows[live]
    sizes = np.linalg.norm(network.weights, axis=1)
    atoms = np.maximum(rows @ network.neurons.T, 0.0)
    columns = atoms.T[:, :, None] * (network.weights / sizes[:, None])[:, None, :]
    masses, offset, since = sizes, network.offset, 0
    best, centre, relaxation = -np.inf, dual, Relaxation(rows)
    while since < STALE:
        checkpoint()
        found, since = relaxation.bound(dual[live]), since + 1
        if problem.scale_dual(dual, found.value)[1] > best:
            dual_norm = found.proved()
            remember(rows, dual[live], dual_norm)  # for later checks
            scaled, value = problem.scale_dual(dual, dual_norm)
            if value > best:
                since = 0 if value > (1.0 + ROUGH) * best else since
                best, centre = value, scaled
                yield dual, dual_norm
        held = columns.nbytes
        check_room(held, held + sum(atom.nbytes for atom in found.atoms), "the columns of a relaxation")
        columns = np.concatenate([columns, found.atoms])
        masses = np.concatenate([masses, np.zeros(len(found.atoms))])
        masses, offset, dual = _least(problem, live, columns, masses, offset)
        dual = problem.project_dual(0.5 * (centre + dual))


def _least(
    problem: Problem, live: np.ndarray, columns: np.ndarray, masses: np.ndarray, offset: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Minimise the objective over the columns; return masses, offset and the dual there."""
    m, flat = len(columns), columns.reshape(len(columns), -1)
    unit = 1.0 / np.sqrt(max(problem.offset_cost, 1.0)) if problem.has_offset else 0.0
    fitted = np.zeros(problem.dual_shape)

    def outputs(variables: np.ndarray) -> np.ndarray:
        fitted[live] = (variables[:m] @ flat).reshape(-1, fitted.shape[1])
        return fitted + unit * variables[m:]

    def objective(variables: np.ndarray) -> tuple[float, np.ndarray]:
        checkpoint()
        at, shift = outputs(variables), unit * variables[m:]
        pull = problem.dual_of(at)
        value = problem.loss.value(problem.raise_outputs(at)) / problem.strength + variables[:m].sum()
        slope = np.concatenate([1.0 - flat @ pull[live].ravel(), -unit * pull.sum(axis=0)])
        if problem.has_offset:
            value += 0.5 * problem.offset_cost * float(shift @ shift)
            slope[m:] += unit * problem.offset_cost * shift
        return value, slope

    start = np.concatenate([masses, offset / unit if unit else 0.0 * offset])
    scale = 1.0 / max(abs(objective(start)[0]), 1e-300)
    found = minimize(
        lambda variables: tuple(scale * part for part in objective(variables)), start, jac=True, method="L-BFGS-B",
        bounds=[(0.0, None)] * m + [(None, None)] * len(offset),
        options={"maxcor": 30, "maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-13, "gtol": 0.0},
    )  # fmt: skip
    return found.x[:m], unit * found.x[m:], problem.dual_of(outputs(found.x))
