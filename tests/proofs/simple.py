"""Bounds that are proved of any dual point, as ``verify --exact`` proves them, by boxes and by all faces."""

from fractions import Fraction

import numpy as np

from covopt.certificates.prove import cover
from covopt.exact.rounding import root_up
from covopt.proofs.checker.covopt_check import check_cover, largest_bound
from covopt.proofs.checker.dual import Problem, dual_value, lift, move_into_domain
from covopt.proofs.checker.faces import square_above


def make_problem(X, Y, bias=1.0, **options) -> Problem:
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    return Problem(X.reshape(len(Y), -1), Y.reshape(len(Y), -1), bias, **options)


def proved(problem: Problem, dual) -> Fraction:
    """Cover all directions by boxes, check them in integers, and return what the dual point is worth."""
    own = cover(problem, np.asarray(dual, dtype=float))[1]
    assert check_cover(own) > 0
    return max(Fraction(0), largest_bound(own))


def by_faces(problem: Problem, dual) -> Fraction:
    """Return what the dual point is worth with its h over all faces, in its domain."""
    moved = move_into_domain(problem, np.asarray(dual, dtype=float))
    return dual_value(problem, moved, Fraction(root_up(square_above(lift(problem), np.array(moved)), 2)))
