"""The exact oracle that fits a problem: scalar or vector outputs, rows in any position or orthogonal."""

from __future__ import annotations

import math

import numpy as np

from covopt.checks.memory import gives_way
from covopt.errors import BudgetError
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, FaceOracle, count_faces
from covopt.oracles.orthant import OrthantOracle, rows_are_orthogonal
from covopt.oracles.vector.face_lattice import count_lattice
from covopt.oracles.vector_faces import MOST_TABLED, VectorFaceOracle
from covopt.parallel import available_threads

SORTED, SORTED_VECTORS = 32, 50  # bytes for each crossing of two circles, in three dimensions
INSTEAD = "boxes and local search take its place, whose bounds are valid and may be weaker"
TABLED = 230  # bytes for each face in a table
MOST_ORTHOGONAL_ROWS = 200  # beyond, one eigenvalue problem of the tree takes too long


def exact_oracle(
    rows: np.ndarray,
    n_outputs: int,
    *,
    budget: float = DEFAULT_FACE_BUDGET,
    n_threads: int | None = None,
    beside: float = 0.0,
) -> FaceOracle | OrthantOracle | VectorFaceOracle:
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
    FaceOracle, OrthantOracle or VectorFaceOracle
        For scalar duals, for vector duals with orthogonal rows, and for all others. Orthogonal rows have no budget of
        faces: their oracle says in each answer whether it finished.

    Raises
    ------
    BudgetError
        When there are too many faces, or they take more memory than there may be.

    Warns
    -----
    MemoryLimitWarning
        In the latter case: what comes instead is weaker.

    Examples
    --------
    >>> import numpy as np
    >>> [type(exact_oracle(np.eye(3), k)).__name__ for k in (0, 2)]
    ['FaceOracle', 'OrthantOracle']
    >>> type(exact_oracle(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), 2)).__name__
    'VectorFaceOracle'
    """
    n_threads = available_threads() if n_threads is None else n_threads
    if n_outputs == 0:
        _plan(oracle_bytes(rows, 0, budget=budget), beside)
        return FaceOracle(rows, budget=budget, n_threads=n_threads)
    if rows_are_orthogonal(rows):
        if len(rows) > MOST_ORTHOGONAL_ROWS:
            raise BudgetError(
                f"the tree over supports of {len(rows)} orthogonal rows is out of reach; it is made for at most "
                f"{MOST_ORTHOGONAL_ROWS}"
            )
        return OrthantOracle(rows)
    _plan(oracle_bytes(rows, n_outputs, budget=budget), beside)
    return VectorFaceOracle(rows, budget=budget, n_threads=n_threads)


def oracle_bytes(rows: np.ndarray, n_outputs: int, *, budget: float = DEFAULT_FACE_BUDGET) -> float:
    """Return about how many bytes :func:`exact_oracle` keeps; 0 where they are few, and where it refuses in any case.

    Examples
    --------
    >>> import numpy as np
    >>> [oracle_bytes(np.ones((100, 3)), k) for k in (0, 2)]
    [320000.0, 500000.0]
    """
    n, rank = rows.shape
    if n_outputs == 0:
        return float(SORTED * n**2 if rank == 3 else 0)
    if rank == 3 and n > MOST_TABLED:
        return float(SORTED_VECTORS * n**2)
    faces = count_lattice(n, rank)
    return TABLED * faces if faces <= budget else 0.0


# fitted by benchmarks/micro/bench_choice.py: logarithms of the seconds of a solve to 1e-6
BY_FACES = (-11.77, 0.807)  # 1, log of the faces
BY_BOXES = (-6.185, -0.172, 0.362, 0.316, 1.011)  # 1, D, log N, D log N, ties · log of the condition number
BOX_DIMENSIONS = range(5, 9)  # below, faces are as quick; beyond, boxes do not end


def face_seconds(n: int, rank: int) -> float:
    """Return about what a solve takes that looks at every face in each round, one output."""
    constant, slope = BY_FACES
    return math.exp(constant + slope * math.log(max(count_faces(n, rank), 1.0)))


def box_seconds(rows: np.ndarray) -> float:
    """Return about what a solve takes that looks for neurons and proves by boxes, one output.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Of full column rank. Grids cost more than other tables, in proportion to how badly they are scaled.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((30, 5)) * [1.0, 0.3, 0.1, 0.05, 0.02]
    >>> box_seconds(rows) < box_seconds(rows.round(1))
    True
    """
    n, rank = rows.shape
    constant, by_rank, by_rows, both, by_ties = BY_BOXES
    shares = [1.0 - len(np.unique(column)) / n for column in rows.T if np.ptp(column) > 0.0]
    spread = float(np.mean(shares)) * math.log(np.linalg.cond(rows)) if shares else 0.0
    return math.exp(constant + by_rank * rank + (by_rows + both * rank) * math.log(n) + by_ties * spread)


def boxes_are_cheaper(rows: np.ndarray) -> bool:
    """Whether boxes are the oracle of a solve with one output: in five to eight dimensions, by the fit above.

    Where there are more faces than :func:`exact_oracle` takes they are in any case.

    Parameters
    ----------
    rows : ndarray of shape (N, r)
        Of full column rank.

    Examples
    --------
    >>> rows = np.random.default_rng(0).standard_normal((200, 12))
    >>> [boxes_are_cheaper(rows[:n, :rank]) for n, rank in ((200, 3), (10, 5), (60, 6), (40, 12))]
    [False, False, True, False]
    """
    if rows.shape[1] not in BOX_DIMENSIONS:
        return False
    return count_faces(*rows.shape) > DEFAULT_FACE_BUDGET or box_seconds(rows) < face_seconds(*rows.shape)


def _plan(needed: float, beside: float) -> None:
    """Refuse what would take too much memory, before any of it is taken."""
    if needed and gives_way(needed + beside, "exact pricing", INSTEAD):
        raise BudgetError("exact pricing needs more memory than there may be")
