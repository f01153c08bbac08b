"""The choice of an exact oracle: faces in few dimensions and for vector outputs, else a search and a proof.

With one output in four or more dimensions the size of the table alone decides how maxima are proved:

- N ≤ 7 r: first by branch and bound over the signs of the rows (:mod:`covopt.oracles.sign_tree`);
- r ≤ 8: by boxes of directions (:mod:`covopt.oracles.boxes`);
- otherwise no method is sure to end: :func:`exact_oracle` raises, and :mod:`covopt.oracles.certified` uses
  quadratics.

On rows and columns of iris, wine, breast cancer and diabetes faces prove every
optimal dual in three dimensions in .01 processor seconds. For 20 standardised rows in five and eight dimensions signs
take .01 to .02, boxes .02 to .06 in five and some 6 in eight; for raw rows, whose sizes differ, signs do not end and
boxes take .1 and 1.6. For 40 normal rows in six dimensions signs take .3 and boxes .7; for 50 in eight signs take
1.2 and boxes do not end. For 60 rows in five dimensions only boxes end, in .3 to 1.3 s.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.memory import gives_way
from covopt.errors import BudgetError
from covopt.exact.rank import ATOMS, FOUND
from covopt.limits import HALF, PIECE
from covopt.oracles.base import MOST_DIMENSIONS, Pricing, kept, ranked
from covopt.oracles.boxes.scalar import DualNormBound
from covopt.oracles.boxes.search import BoxOracle, box_dual_norm
from covopt.oracles.face_lattice import FACE_BYTES, count_lattice
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED, FaceOracle
from covopt.oracles.local_search import LocalSearchOracle, starts_for
from covopt.oracles.sign_tree import sign_dual_norm, sign_limit
from covopt.oracles.sphere import CROSSING
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.parallel import available_threads

CLOSE = 0.1  # share of the tolerance that a proof may leave; share of the climbs' excess that boxes may leave
ROWS_PER_DIMENSION = 7  # up to which branch and bound over signs ends
LOOK_EVERY = 4  # rounds of a search
INSTEAD = "boxes and local search take its place, whose bounds are valid and may be weaker"


def suits_signs(n_rows: int, rank: int) -> bool:
    """Return whether branch and bound over signs comes first.

    Examples
    --------
    >>> suits_signs(16, 9), suits_signs(60, 4)
    (True, False)
    """
    return n_rows <= ROWS_PER_DIMENSION * rank


def suits_search(n_rows: int, rank: int) -> bool:
    """Return whether :class:`SearchOracle` can prove what it finds: one output, four or more dimensions.

    Examples
    --------
    >>> suits_search(16, 9), suits_search(100, 4), suits_search(100, 9), suits_search(20, 3)
    (True, True, False, False)
    """
    return rank > MOST_FACED and (rank <= MOST_DIMENSIONS or suits_signs(n_rows, rank))


def suits_boxes(rank: int) -> bool:
    """Return whether a solve with one output searches for columns and proves by boxes."""
    return MOST_FACED < rank <= MOST_DIMENSIONS


class SearchOracle:
    """Local search, then signs or boxes: exact pricing for one output where there are too many faces.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Without zero rows.
    local : LocalSearchOracle, optional
        Of few starts by default, where a bound needs only the best of them.
    n_outputs : int
        0 for duals of shape (N,). With several outputs nothing is proved here.
    proves : bool
        Whether signs and boxes are tried at all.
    max_nodes : int, optional
        Most boxes per proof, :func:`~covopt.oracles.boxes.search.box_limit` by default.
    effort : float
        Share of the node limit of signs.
    n_threads : int

    Attributes
    ----------
    by_signs : bool
        Whether branch and bound over signs comes first: few rows for the dimension.
    boxes : BoxOracle or None
        In up to eight dimensions.
    sees_all : bool
        Whether ``complete`` lists all local maxima, as far as the search by boxes finds them.

    Examples
    --------
    >>> oracle = SearchOracle(np.eye(4))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0, 0.0]))
    >>> round(float(answer.values[0]), 9), round(answer.upper_bound, 8), answer.exact
    (-6.0, 6.0, True)
    """

    def __init__(
        self, rows: np.ndarray, *, local: LocalSearchOracle | None = None, n_outputs: int = 0, proves: bool = True,
        max_nodes: int | None = None, effort: float = 1.0, n_threads: int = 2,
    ):  # fmt: skip
        self.rows = np.ascontiguousarray(rows, dtype=float)
        n, r = self.rows.shape
        proves = proves and n_outputs == 0
        self.local = local or LocalSearchOracle(
            self.rows, n_starts=starts_for(self.rows), random_state=0, n_threads=n_threads
        )
        self.by_signs, self.sees_all = proves and suits_signs(n, r), proves and suits_boxes(r)
        self.sign_limit = sign_limit(n, r, min(effort, 1.0))
        self.boxes = BoxOracle(self.rows, max_nodes=max_nodes, n_threads=n_threads) if self.sees_all else None

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima of |F| and a bound on the largest one, which one of them attains if ``exact``.

        Arguments as in :class:`covopt.oracles.base.Oracle`. With ``complete`` boxes search for all maxima above a
        positive threshold: thoroughly, but without a proof that none is missing.
        """
        found = self.local.search(dual, threshold=threshold)
        if complete and self.boxes is not None and 0.0 < threshold < np.inf:
            found = merged(found, self.boxes.price(dual, threshold=threshold, complete=True))
        bound = np.inf
        if self.by_signs:
            found, bound = _improved(found, bound, self._by_signs(dual, found))
        if bound > (1.0 + 2.0 * ATOMS) * found.upper_bound and self.boxes is not None:
            boxes = box_dual_norm(
                self.rows, dual, neurons=found.neurons, rtol=ATOMS, n_threads=self.boxes.n_threads
            )
            found, bound = _improved(found, bound, boxes)
        best = float(np.abs(found.values).max())
        bound = max(bound, best)
        return Pricing(
            *kept(found.neurons, found.values, 0.0, max_neurons),
            bound,
            bool(bound <= (1.0 + 4.0 * ATOMS) * best),
        )

    def _by_signs(self, dual: np.ndarray, found: Pricing, goal: float = 0.0) -> DualNormBound:
        return sign_dual_norm(self.rows, dual, neurons=found.neurons, goal=goal, max_nodes=self.sign_limit)


class SearchedThenProved(SearchOracle):
    """Column search where no oracle prices exactly: local search; then signs or boxes prove what it found.

    Where climbs find enough neurons above one for a round, nothing else runs. Where rows lie on grids most neurons
    above one are in cells where no climb starts: near the optimum of raw iris climbs find ten where boxes find a
    thousand. So one round of four also searches boxes, until they find at most twice as many as the climbs: the
    neurons of one search serve several rounds. Without this raw iris ends at a gap of 15 %. Proofs are attempted when
    the rounds seem to have converged: earlier they cost more than they gain. A proof that fails has found what climbs
    miss, and the rounds go on with it.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
    tol : float
        Tolerance of the solver.
    random_state : int, optional
    **options
        Of :class:`SearchOracle`.
    """

    def __init__(self, rows: np.ndarray, *, tol: float, random_state: int | None = None, **options: Any):
        local = LocalSearchOracle(
            rows, n_starts=8 * starts_for(rows), random_state=0 if random_state is None else random_state
        )
        super().__init__(rows, local=local, **options)
        self.tol, self._asked = tol, 0
        self._look = self.boxes and BoxOracle(
            self.rows, max_nodes=min(PIECE, self.boxes.max_nodes), n_threads=2
        )

    def price(
        self,
        dual: np.ndarray,
        *,
        threshold: float = 0.0,
        max_neurons: int | None = None,
        complete: bool = False,
    ) -> Pricing:
        """Return local maxima; ``upper_bound`` is the largest value found, not a bound."""
        options: dict[str, Any] = {"threshold": threshold, "max_neurons": max_neurons}
        found = self.local.search(dual, **options, n_starts=starts_for(self.rows))
        if _count(found) >= HALF * len(dual):
            return found
        self._asked += 1
        if self._look is not None and self._asked % LOOK_EVERY == 0:
            level = 1.0 + CLOSE * max(found.upper_bound - 1.0, self.tol)
            more = self._look.price(dual, threshold=level, complete=True)
            self._look = self._look if _count(more) > 2 * _count(found) else None
            found = merged(found, more)
        if not _count(found):
            found = merged(found, self.local.search(dual, **options))
        return found

    def prove(self, dual: np.ndarray, level: float) -> Pricing:
        """Return neurons above a level, or a bound close to the level: by signs, where these end, or by boxes."""
        found, bound = Pricing(self.rows[:0], np.zeros(0), np.inf, exact=False), np.inf
        if self.by_signs:
            goal = (1.0 + HALF * CLOSE * self.tol) * level
            found = self.local.search(dual, threshold=level, n_starts=starts_for(self.rows))
            found, bound = _improved(found, bound, self._by_signs(dual, found, goal))
            if bound <= max(goal, (1.0 + 2.0 * ATOMS) * found.upper_bound):
                return Pricing(found.neurons, found.values, bound, exact=False)
        if self.boxes is not None:
            boxes = self.boxes.price(dual, threshold=level)
            found, bound = merged(found, boxes), min(bound, boxes.upper_bound)
        return Pricing(found.neurons, found.values, bound, exact=False)


def _count(found: Pricing) -> int:
    return int((np.abs(found.values) > 1.0 + FOUND).sum())


def _improved(found: Pricing, bound: float, proof: DualNormBound) -> tuple[Pricing, float]:
    """Add the best neuron of a proof, and its bound."""
    if abs(proof.best_value) > found.upper_bound:
        found = merged(found, Pricing(proof.best_neuron[None], np.array([proof.best_value]), 0.0, False))
    return found, min(bound, proof.upper_bound)


def merged(found: Pricing, more: Pricing) -> Pricing:
    """Merge the neurons of two answers, each once; the best value stands in for the bound."""
    neurons, values = (
        np.concatenate(both) for both in ((found.neurons, more.neurons), (found.values, more.values))
    )
    neurons, values = ranked(neurons, values)
    return Pricing(neurons, values, float(np.abs(values).max(initial=0.0)), exact=False)


def exact_oracle(
    rows: np.ndarray,
    n_outputs: int,
    *,
    budget: float = DEFAULT_FACE_BUDGET,
    n_threads: int | None = None,
    beside: float = 0.0,
) -> FaceOracle | SearchOracle | VectorFaceOracle:
    r"""Return the exact oracle for h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖₂, or raise an error.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Z, of full column rank without zero rows.
    n_outputs : int
        0 for duals of shape (N,), else k for duals of shape (N, k).
    budget : float
        Largest number of faces per pricing; see the oracles.
    n_threads : int, optional
        By default one for each processor that this process may use.
    beside : float
        Bytes reserved for something else.

    Returns
    -------
    FaceOracle, SearchOracle or VectorFaceOracle
        For scalar duals in at most three dimensions, scalar duals in more, and vector duals. A search has no face
        budget: each answer says whether it is exact.

    Raises
    ------
    BudgetError
        When there are too many faces, or they exceed the memory limit; with one output in four or more dimensions,
        when neither signs nor boxes can be expected to end.

    Warns
    -----
    MemoryLimitWarning
        When the memory limit is exceeded: the bounds used instead are weaker.

    Examples
    --------
    >>> import numpy as np
    >>> [type(exact_oracle(np.eye(3), k)).__name__ for k in (0, 2)]
    ['FaceOracle', 'VectorFaceOracle']
    """
    n_threads, (n, rank) = available_threads() if n_threads is None else n_threads, rows.shape
    if n_outputs == 0 and rank > MOST_FACED:
        if not suits_search(n, rank):
            raise BudgetError(f"{n} rows in {rank} dimensions are too many for signs and for boxes")
        return SearchOracle(rows, n_threads=n_threads)
    faces = count_lattice(n, rank) if n_outputs else 0.0
    if faces > PIECE:
        raise BudgetError(f"a table of {faces:.3g} faces is above {PIECE:.0e}")
    needed = FACE_BYTES * faces
    if n_outputs == 0 and rank == MOST_FACED:
        needed = float(n**2 * sum(kind.itemsize for kind in CROSSING))
    if needed and gives_way(needed + beside, "exact pricing", INSTEAD):  # before anything is allocated
        raise BudgetError("exact pricing needs more memory than there may be")
    if n_outputs:
        return VectorFaceOracle(rows, budget=budget)
    return FaceOracle(rows, budget=budget, n_threads=n_threads)
