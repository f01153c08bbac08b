"""``cp_rank``: bounds in order of cost, stopping where they meet."""

from __future__ import annotations

from typing import Any

from covopt.checks.speaking import tell_found
from covopt.checks.validation import check_choice, check_number, check_random_state, check_time_limit
from covopt.completely_positive.bounding import Options, bracket
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.matrix import DEFAULT_TOL, LOOSEST_TOL, read_matrix
from covopt.errors import CertificateContradictedError
from covopt.limits import now

METHODS = ("auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "face")


def cp_rank(
    A: Any,
    *,
    method: str = "auto",
    tol: float = DEFAULT_TOL,
    time_limit_s: float | None = 300.0,
    random_state: int | None = 0,
) -> CPRankCertificate:
    r"""Bracket the CP-rank of a matrix, or of a graph's EᵀE, with a proof; or prove that there is none.

    .. math::

        \operatorname{rank_{cp}}(A) = \min\{m : A = B^\top B,\ B \in \mathbb{R}^{m\times n},\ B \ge 0\}

    The support graph falls into components, whose CP-ranks add up. On each of them, until the bounds meet: rank,
    triangle-free formula and explicit factor, edge-clique cover, comparison-matrix factor, numerical factors from the
    lower bound up, the face certificate, moment bounds, and theorems.

    Parameters
    ----------
    A : array_like of shape (n, n), or networkx.Graph
        Integers and fractions are exact. Other floats are known up to ``tol``: a positive entry that small, which may
        be a zero or not, is refused, and a negative one taken for zero.
    method : {"auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "face"}
        The lower bound: all of them until one meets the upper bound, or this one alone (beside the rank where it
        finds nothing). The moment bounds are ξ₁ and ξ₂ over the maximal cliques, made rigorous and rounded up;
        ``.verify()`` recomputes their values and says them.
    tol : float
        Relative size of rounding: entries against √(a_ii a_jj), and the residual of a factor likewise.
    time_limit_s : float, optional
        When it is over, the bracket found so far is returned, and after Ctrl-C as well.
    random_state : int, optional
        Of the numerical search.

    Returns
    -------
    CPRankCertificate
        Of exact entries ``upper`` is proved for A itself; a numerical factor that cannot be completed to an exact one
        is reported as ``upper_numerical``, and bounds nothing. Of floats, ``lower`` holds for every matrix within
        ``tol`` with the same zeros, but for the face bound, and ``upper`` for one of them.

    Raises
    ------
    InputError
        For a matrix that is not square, symmetric and finite, out of the range of doubles, or with floats that cannot
        be told from zero; a directed graph, a multigraph, loops; or a bad option.

    References
    ----------
    FL22 §4.2; Berman and Shaked-Monderer, Completely Positive Matrices (2003).

    Examples
    --------
    >>> from covopt.completely_positive.graphs import complete_bipartite
    >>> certificate = cp_rank(complete_bipartite(3, 3))
    >>> certificate.lower, certificate.upper, certificate.factor.shape
    (9, 9, (9, 6))
    >>> cp_rank([[1, 2], [2, 1]]).status.code
    'not_cp'
    """
    began = now()
    rule = f"positive and at most {LOOSEST_TOL:g}, or patterns lose their meaning"
    tol = check_number("tol", tol, rule, lambda t: 0 < t <= LOOSEST_TOL)
    check_choice("method", method, METHODS)
    limit = check_time_limit(time_limit_s)
    random_state = check_random_state(random_state)
    matrix = read_matrix(A)
    options = Options(tol, None if limit is None else began + limit, random_state, method)
    reasons, notes = bracket(matrix.settled(tol), options)
    certificate = CPRankCertificate(matrix, tol, tuple(reasons), tuple(notes), now() - began)
    lower, upper = certificate.lower, certificate.upper
    if lower is not None and upper is not None and lower > upper:
        raise CertificateContradictedError(
            f"the bounds contradict each other: the CP-rank would be at least {lower} and at most {upper}. "
            "One of them is wrong; please report the matrix."
        )
    text = f"CP-rank at least {lower}, at most {upper} ({certificate.status.code})"
    tell_found(certificate, text, lower=lower, upper=upper)
    return certificate
