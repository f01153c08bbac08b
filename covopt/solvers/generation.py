"""Column generation for any problem: what interpolates and what has a loss differ in their class alone."""

from __future__ import annotations

from typing import Any

from covopt.oracles.base import Oracle
from covopt.problems.problem import Problem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.points import Point
from covopt.solvers.regularised.generation import RegularisedGeneration


def generate(problem: Problem, oracle: Oracle, **options: Any) -> Point:
    """Solve by column generation.

    Parameters
    ----------
    problem : Problem
    oracle : Oracle
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``, ``unit`` and ``warm``.
    """
    if problem.interpolates:
        return ColumnGeneration(problem, oracle, **options).solve()
    return RegularisedGeneration(problem, oracle, **options).solve()
