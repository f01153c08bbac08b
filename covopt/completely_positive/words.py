"""The sentences that a certificate may say: a summary prints them, so a file cannot bring its own."""

from __future__ import annotations

import re

from covopt.completely_positive.reading import Reason

_NUMBER = r"-?[0-9.]+(e[+-]?[0-9]+)?"
_PROOF = r"(; [^;]+)?(; and [0-9]+ rows? for a rest below rounding)?"
_PATTERNS: dict[tuple[str, str], str] = {
    (
        "lower",
        "rank",
    ): rf"rank of (A|A, modulo a prime in integers \(.+\)|every matrix within {_NUMBER} of A, .+)",
    ("lower", "clique-cover"): r"(lower bound on the )?edge-clique cover number of the support graph, .+",
    ("lower", "triangle-free"): r"(triangle-free support graph with a cycle: one row per edge"
    r"|support graph is a tree: the CP-rank is the rank) \(.+\)",
    (
        "lower",
        "moment",
    ): rf"moment relaxation of level [12] over the maximal cliques.*: (?P<most>{_NUMBER}), rigorous \(.+\)",
    (
        "lower",
        "face",
    ): r"an integer copositive S with ⟨A, S⟩ = 0 forces every row onto its [0-9]+ isolated zeros; "
    r"at least (?P<most>[0-9]+) of them are needed \(.+\); exact arithmetic(; proved for the matrix of small .+)?",
    ("upper", "face"): r"A = Σ w_k u_k u_kᵀ over zeros u_k of S, w_k rational",
    ("upper", "factor"): r"(square root|explicit factor of a triangle-free matrix, one row per edge"
    r"|positive semidefinite comparison matrix \(Kaykobad 1987\): one row per edge"
    r"|numerical factor by Levenberg–Marquardt|atoms of the face certificate)"
    rf"{_PROOF}(, residual {_NUMBER})?",
    (
        "upper",
        "theorem",
    ): r"(n ≤ 4: at most n|n = [0-9]+: at most (6|n\(n\+1\)/2 − 4)|rank [0-9]+: at most r\(r\+1\)/2 − 1"
    rf"|rank [01]: the CP-rank is the rank)( \(.+\))?{_PROOF}",
    (
        "approximate",
        "factor",
    ): rf"APPROXIMATE: a factor of [0-9]+ rows? of a matrix nearby, residual {_NUMBER}; "
    r"no factor of A itself with so few rows is proved to exist",
    ("not_cp", "entry"): rf"A\[[0-9]+, [0-9]+\] = {_NUMBER} is negative",
    ("not_cp", "eigenvalue"): rf"(A\[[0-9]+, [0-9]+\] = {_NUMBER} but A\[[0-9]+, [0-9]+\] is not 0"
    rf"|smallest eigenvalue {_NUMBER} in the scaling with unit diagonal"
    r"|a negative eigenvalue, found in rational arithmetic)",
    ("not_cp", "comparison"): r"its (graph has no triangle and its )?comparison matrix (has the eigenvalue "
    rf"{_NUMBER} \(unit diagonal\)|is indefinite, found in rational arithmetic)",
    ("not_cp", "copositive"): r"⟨A, S⟩ < 0 for a copositive integer matrix S, checked in integers",
}
_REASONS = {key: re.compile(pattern) for key, pattern in _PATTERNS.items()}
_NOTES = re.compile(
    r"no (factor of the component of row [0-9]+; if there is one, [0-9]+ rows do \(.+\)"
    r"|(face certificate|separating copositive matrix|moment bound of level [12]): .+)"
    r"|(the time limit was reached|interrupted); the bracket is valid"
    r"|lower bounds above [0-9]+ were left out: .+"
    r"|[0-9]+ (entry|entries) of A cannot be told from zero at the tolerance .+"
)


def is_said(reason: Reason) -> bool:
    """Whether a reason's text is one that covopt writes, and claims no more than its value.

    Examples
    --------
    >>> is_said(Reason("lower", 1, "rank", "rank of A", (0,)))
    True
    >>> is_said(Reason("lower", 1, "rank", "the CP-rank is 7, as everybody knows", (0,)))
    False
    """
    pattern = _REASONS.get((reason.side, reason.method))
    found = pattern.fullmatch(reason.text) if pattern is not None and isinstance(reason.text, str) else None
    if found is None:
        return False
    most = found.groupdict().get("most")
    return most is None or reason.value is None or float(most) <= reason.value


def is_note(text: str) -> bool:
    """Whether a note is one that covopt writes.

    Examples
    --------
    >>> is_note("the time limit was reached; the bracket is valid"), is_note("CP-rank 3, proved")
    (True, False)
    """
    return _NOTES.fullmatch(text) is not None
