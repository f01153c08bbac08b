"""Linear and mixed-integer programs in HiGHS."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import sparse


def linear_program(
    cost: np.ndarray,
    matrix: np.ndarray | sparse.csr_array,
    sides: tuple[np.ndarray, np.ndarray],
    bounds: tuple[np.ndarray, np.ndarray],
    *,
    integral: Iterable[int] = (),
    **options: Any,
) -> Any:
    r"""Return a silent ``highspy.Highs`` with a program, which can be changed and run again.

    .. math:: \min_x \langle c, x\rangle \quad\text{s.t.}\quad l \le A x \le u,\quad a \le x \le b

    Parameters
    ----------
    cost : ndarray of shape (n,)
        c.
    matrix : ndarray or csr_array of shape (m, n)
        A.
    sides : (ndarray of shape (m,), ndarray of shape (m,))
        l and u; infinite where there is none.
    bounds : (ndarray of shape (n,), ndarray of shape (n,))
        a and b; infinite where there is none.
    integral : iterable of int
        Indices of the integer variables.
    **options
        Options of HiGHS.

    Examples
    --------
    >>> one = np.ones(1)
    >>> model = linear_program(one, np.array([[2.0]]), (one, np.inf * one), (-np.inf * one, np.inf * one))
    >>> _ = model.run()
    >>> model.getSolution().col_value
    [0.5]
    """
    import highspy

    table = sparse.csr_array(matrix)
    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = table.shape
    program.col_cost_ = cost
    program.col_lower_, program.col_upper_ = bounds
    program.row_lower_, program.row_upper_ = sides
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.num_row_, program.a_matrix_.num_col_ = table.shape
    program.a_matrix_.start_ = table.indptr
    program.a_matrix_.index_ = table.indices
    program.a_matrix_.value_ = table.data
    whole = set(integral)
    if whole:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        program.integrality_ = [kinds[j in whole] for j in range(len(cost))]
    model = highspy.Highs()
    for name, value in {"output_flag": False, **options}.items():
        model.setOptionValue(name, value)
    model.passModel(program)
    return model
