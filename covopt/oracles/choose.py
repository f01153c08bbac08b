"""The exact oracle that fits a problem: scalar or vector outputs, rows in any position or orthogonal."""

from __future__ import annotations

import numpy as np

from covopt.errors import BudgetError
from covopt.oracles.faces import DEFAULT_FACE_BUDGET, FaceOracle
from covopt.oracles.orthant import OrthantOracle, rows_are_orthogonal
from covopt.oracles.vector_faces import VectorFaceOracle
from covopt.parallel import available_threads

MOST_ORTHOGONAL_ROWS = 200  # beyond, one eigenvalue problem of the tree takes too long


def exact_oracle(
    rows: np.ndarray, n_outputs: int, *, budget: float = DEFAULT_FACE_BUDGET, n_threads: int | None = None
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

    Returns
    -------
    FaceOracle, OrthantOracle or VectorFaceOracle
        For scalar duals, for vector duals with orthogonal rows, and for all others. Orthogonal rows have no budget of
        faces: their oracle says in each answer whether it finished.

    Raises
    ------
    BudgetError
        When there are too many faces.

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
        return FaceOracle(rows, budget=budget, n_threads=n_threads)
    if rows_are_orthogonal(rows):
        if len(rows) > MOST_ORTHOGONAL_ROWS:
            raise BudgetError(
                f"the tree over supports of {len(rows)} orthogonal rows is out of reach; it is made for at most "
                f"{MOST_ORTHOGONAL_ROWS}"
            )
        return OrthantOracle(rows)
    return VectorFaceOracle(rows, budget=budget, n_threads=n_threads)
