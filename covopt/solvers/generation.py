"""Column generation for any problem: what interpolates and what has a loss differ in their class alone."""

from __future__ import annotations

from typing import Any

from covopt.oracles.base import Oracle
from covopt.problems.regularised import RegularisedProblem
from covopt.problems.shallow import ShallowProblem
from covopt.solvers.column_generation import ColumnGeneration
from covopt.solvers.points import Point
from covopt.solvers.regularised.generation import RegularisedGeneration


def generate(problem: ShallowProblem | RegularisedProblem, oracle: Oracle, **options: Any) -> Point:
    """Solve by column generation.

    Parameters
    ----------
    problem : ShallowProblem or RegularisedProblem
    oracle : Oracle
    **options
        ``tol``, ``time_limit_s``, ``max_rounds``, ``random_state``, ``callback``, ``unit`` and ``warm``.
    """
    if isinstance(problem, ShallowProblem):
        return ColumnGeneration(problem, oracle, **options).solve()
    return RegularisedGeneration(problem, oracle, **options).solve()
