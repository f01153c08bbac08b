"""The exact oracle that fits a problem: scalar or vector outputs."""

from __future__ import annotations

import numpy as np

from covopt.checks.memory import gives_way
from covopt.errors import BudgetError
from covopt.oracles.cascade import SearchOracle, suits_search
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, MOST_FACED, FaceOracle
from covopt.oracles.vector.face_lattice import count_lattice
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.parallel import available_threads

SORTED = 32  # bytes for each crossing of two circles, in three dimensions
INSTEAD = "boxes and local search take its place, whose bounds are valid and may be weaker"
TABLED = 230  # bytes for each face in a table
MOST_FACES = 1_000_000  # in a table: some seconds


def exact_oracle(
    rows: np.ndarray,
    n_outputs: int,
    *,
    budget: float = DEFAULT_FACE_BUDGET,
    n_threads: int | None = None,
    beside: float = 0.0,
) -> FaceOracle | SearchOracle | VectorFaceOracle:
    r"""Return the exact oracle for h(Λ) = max over unit w of ‖Λᵀσ(Zw)‖₂, or refuse.

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
        Bytes that are planned for something else.

    Returns
    -------
    FaceOracle, SearchOracle or VectorFaceOracle
        For scalar duals in at most three dimensions and in more, and for vector duals. A search has no budget of
        faces: it says in each answer whether it finished.

    Raises
    ------
    BudgetError
        When there are too many faces, or they take more memory than there may be; with one output in four dimensions
        and more, when neither signs nor boxes can be expected to end.

    Warns
    -----
    MemoryLimitWarning
        In the latter case: what comes instead is weaker.

    Examples
    --------
    >>> import numpy as np
    >>> [type(exact_oracle(np.eye(3), k)).__name__ for k in (0, 2)]
    ['FaceOracle', 'VectorFaceOracle']
    """
    n_threads = available_threads() if n_threads is None else n_threads
    if n_outputs == 0 and rows.shape[1] > MOST_FACED:
        if not suits_search(*rows.shape):
            raise BudgetError(
                f"{len(rows)} rows in {rows.shape[1]} dimensions are too many for signs and for boxes"
            )
        return SearchOracle(rows, n_threads=n_threads)
    if n_outputs == 0:
        _plan(oracle_bytes(rows, 0, budget=budget), beside)
        return FaceOracle(rows, budget=budget, n_threads=n_threads)
    if count_lattice(*rows.shape) > MOST_FACES:
        raise BudgetError(f"a table of {count_lattice(*rows.shape):.3g} faces is above {MOST_FACES:.0e}")
    _plan(oracle_bytes(rows, n_outputs, budget=budget), beside)
    return VectorFaceOracle(rows, budget=budget)


def oracle_bytes(rows: np.ndarray, n_outputs: int, *, budget: float = DEFAULT_FACE_BUDGET) -> float:
    """Return about how many bytes :func:`exact_oracle` keeps; 0 where they are few, and where it refuses in any case.

    Examples
    --------
    >>> import numpy as np
    >>> [oracle_bytes(np.ones((100, 3)), k) for k in (0, 2)]
    [320000.0, 9108460.0]
    """
    n, rank = rows.shape
    if n_outputs == 0:
        return float(SORTED * n**2 if rank == 3 else 0)
    faces = count_lattice(n, rank)
    return TABLED * faces if faces <= budget else 0.0


def _plan(needed: float, beside: float) -> None:
    """Refuse what would take too much memory, before any of it is taken."""
    if needed and gives_way(needed + beside, "exact pricing", INSTEAD):
        raise BudgetError("exact pricing needs more memory than there may be")
