"""The choice of an exact oracle: faces in few dimensions and for vector outputs, else a search and a proof.

With one output in four or more dimensions the size of the table alone decides how maxima are proved:

- N ≤ 7 r: first by branch and bound over the signs of the rows (:mod:`covopt.oracles.branch_and_bound`);
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

import numpy as np

from covopt.checks.memory import gives_way
from covopt.errors import BudgetError
from covopt.exact.rank import ATOMS
from covopt.limits import PIECE
from covopt.oracles.base import MOST_DIMENSIONS, Pricing, affords, kept, ranked
from covopt.oracles.boxes.search import BoxOracle, box_dual_norm
from covopt.oracles.branch_and_bound import BranchAndBoundOracle
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED, FaceOracle
from covopt.oracles.local_search import LocalSearchOracle
from covopt.oracles.vector.face_lattice import FACE_BYTES, count_lattice
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.parallel import available_threads

ROWS_PER_DIMENSION = 7  # up to which branch and bound over signs ends
SORTED = 32  # bytes for each crossing of two circles, in three dimensions
INSTEAD = "boxes and local search take its place, whose bounds are valid and may be weaker"


def suits_signs(n_rows: int, rank: int) -> bool:
    """Return whether branch and bound over signs comes first.

    Examples
    --------
    >>> suits_signs(16, 9), suits_signs(60, 4)
    (True, False)
    """
    return n_rows <= ROWS_PER_DIMENSION * rank


def sign_nodes(n_rows: int, rank: int, effort: float = 1.0) -> int:
    """Return the node limit of branch and bound over signs for an effort, at least one.

    Examples
    --------
    >>> sign_nodes(40, 21, 1 / 30), sign_nodes(200, 11), sign_nodes(40, 8)
    (2013, 37375, 61724)
    """
    return max(affords(4.0 * (n_rows + rank) ** 2, effort), 1)


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
    n_threads : int

    Attributes
    ----------
    sees_all : bool
        Whether ``complete`` lists all local maxima, as far as the search by boxes finds them.

    Examples
    --------
    >>> oracle = SearchOracle(np.eye(4))
    >>> answer = oracle.price(np.array([3.0, 4.0, -6.0, 0.0]))
    >>> round(float(answer.values[0]), 9), round(answer.upper_bound, 8), answer.exact
    (-6.0, 6.0, True)
    """

    def __init__(self, rows: np.ndarray, *, n_threads: int = 2):
        self.rows = np.ascontiguousarray(rows, dtype=float)
        n, r = self.rows.shape
        self._by_signs, self._by_boxes = suits_signs(n, r), r <= MOST_DIMENSIONS
        self.sees_all = self._by_boxes
        self.signs = BranchAndBoundOracle(
            self.rows, node_limit=sign_nodes(n, r), random_state=0, n_threads=n_threads
        )
        self.local: LocalSearchOracle = self.signs.local
        self.boxes = BoxOracle(self.rows, n_threads=n_threads)

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
        if self._by_signs:
            found = self.signs.price(dual, threshold=threshold)
            if self.signs.interrupted:
                raise KeyboardInterrupt
        else:
            found = self.local.search(dual, threshold=threshold)
        if complete and self._by_boxes and 0.0 < threshold < np.inf:
            found = merged(found, self.boxes.price(dual, threshold=threshold, complete=True))
        best = float(np.abs(found.values).max())
        bound = found.upper_bound if self._by_signs else np.inf
        if bound > (1.0 + 2.0 * ATOMS) * best and self._by_boxes:
            boxes = box_dual_norm(
                self.rows, dual, neurons=found.neurons, rtol=ATOMS, n_threads=self.boxes.n_threads
            )
            bound = min(bound, boxes.upper_bound)
            if abs(boxes.best_value) > best:
                found = merged(
                    found, Pricing(boxes.best_neuron[None], np.array([boxes.best_value]), bound, False)
                )
                best = float(np.abs(found.values[0]))
        bound = max(bound, best)
        return Pricing(
            *kept(found.neurons, found.values, 0.0, max_neurons),
            bound,
            bool(bound <= (1.0 + 4.0 * ATOMS) * best),
        )


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
    needed = FACE_BYTES * faces if n_outputs else float(SORTED * n**2 * (rank == MOST_FACED))
    if needed and gives_way(needed + beside, "exact pricing", INSTEAD):  # before anything is allocated
        raise BudgetError("exact pricing needs more memory than there may be")
    if n_outputs:
        return VectorFaceOracle(rows, budget=budget)
    return FaceOracle(rows, budget=budget, n_threads=n_threads)
