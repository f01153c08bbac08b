"""Column generation for a problem of either kind: one output or several."""

from __future__ import annotations

from typing import Any

from covopt.oracles.base import Oracle
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration, Point
from covopt.solvers.vector_generation import VectorGeneration


def generate(problem: ShallowProblem, oracle: Oracle, **options: Any) -> Point:
    """Solve by :class:`ColumnGeneration` (one output) or :class:`VectorGeneration`, with the options of both.

    Parameters
    ----------
    problem : ShallowProblem
    oracle : Oracle
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``, ``start_neurons``.
    """
    if problem.is_vector:
        return VectorGeneration(problem, oracle, **options).solve()
    return ColumnGeneration(problem, oracle, **options).solve()
