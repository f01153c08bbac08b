"""Bounds that are proved of any dual point, as ``verify --exact`` proves them."""

from fractions import Fraction

import numpy as np

from covopt.certificates.prove import cover
from covopt.proofs.checker.covopt_check import check_cover, largest_bound
from covopt.proofs.checker.dual import Problem


def make_problem(X, Y, bias=1.0, **options) -> Problem:
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    return Problem(X.reshape(len(Y), -1), Y.reshape(len(Y), -1), bias, **options)


def proved(problem: Problem, dual) -> Fraction:
    """Cover all directions by boxes, check them in integers, and return what the dual point is worth."""
    own = cover(problem, np.asarray(dual, dtype=float))[1]
    assert check_cover(own) > 0
    return max(Fraction(0), largest_bound(own))
