"""``cp_rank``: compute bounds on each connected component, the cheapest first, until they meet."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from covopt.checks.log import log_event, log_found
from covopt.checks.validation import check_choice, check_number, check_random_state, check_time_limit
from covopt.completely_positive import NOTES, Reason, bracket_of, exclusion
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.dominance import dominance_factor, dominance_rows, dominance_vector
from covopt.completely_positive.exclusion import CERTIFIED_ORDER
from covopt.completely_positive.factorisation import caratheodory, numerical_factor, residual_of
from covopt.completely_positive.lower import clique_cover_bound, rank_bound, triangle_free_rank
from covopt.completely_positive.matrix import SymmetricMatrix, read_matrix, support_pattern
from covopt.completely_positive.upper import factor_proof, has_small_cap, theorem_cap
from covopt.errors import BudgetError, CertificateContradictedError, MissingPackageError, SolverError
from covopt.exact.rank import FOUND, NEAR
from covopt.limits import HALF, PIECE_S, TimeUp, checkpoint, defer_interrupts, limited, now, seconds_left

METHODS = ("auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "face")
MOMENT_SIZE = {1: 40, 2: 9}


def cp_rank(
    A: Any,
    *,
    method: str = "auto",
    tol: float = FOUND,
    time_limit_s: float | None = 300.0,
    random_state: int | None = 0,
) -> CPRankCertificate:
    r"""Bracket the CP-rank of a matrix, or of a graph's EᵀE, or prove that it is not completely positive.

    .. math::

        \operatorname{rank_{cp}}(A) = \min\{m : A = B^\top B,\ B \in \mathbb{R}^{m\times n},\ B \ge 0\}

    The CP-rank is the sum over the connected components of the support graph. On each component these are computed
    until the bounds meet: triangle-free formula and comparison-matrix factor, rank, edge-clique cover, numerical
    factors from the lower bound up, theorems, the face certificate and moment bounds.

    Parameters
    ----------
    A : array_like of shape (n, n), or networkx.Graph
        Integers and fractions are exact. Other floats are known up to ``tol``: positive entries below it, which may
        be zeros or not, are refused; negative ones count as zero.
    method : {"auto", "rank", "clique-cover", "triangle-free", "moment-1", "moment-2", "face"}
        The lower bound: ``auto`` tries all until one meets the upper bound; otherwise only this one and the rank.
        The moment bounds are ξ₁ and ξ₂ over the maximal cliques, made rigorous and rounded up; ``.verify()``
        recomputes and reports their values.
    tol : float
        Relative tolerance of entries and of the residual of a factor, with respect to √(a_ii a_jj).
    time_limit_s : float, optional
        Seconds after which the bracket so far is returned, as it is after Ctrl-C.
    random_state : int, optional
        Seed of the numerical search.

    Returns
    -------
    CPRankCertificate
        For exact entries ``upper`` is proved for A itself; a numerical factor that cannot be completed to an exact
        one is reported as ``upper_numerical``, which is not a bound. For floats ``lower`` holds for every matrix
        within ``tol`` with the same zeros, and ``upper`` for one of them.

    Raises
    ------
    InputError
        For a matrix that is not square, symmetric and finite, is out of the range of doubles, or has floats that may
        be zero; for a directed graph, a multigraph or loops; or for an invalid option.

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
    rule = f"positive and at most {NEAR:g}, or patterns lose their meaning"
    tol = check_number("tol", tol, rule, lambda t: 0 < t <= NEAR)
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
    log_found(certificate, text, lower=lower, upper=upper)
    return certificate


@dataclass
class Options:
    """Options of ``cp_rank``; ``end`` is the deadline on the clock of :func:`covopt.limits.now`."""

    tol: float
    end: float | None
    random_state: int | None
    method: str = "auto"

    def wants(self, method: str) -> bool:
        """Whether a lower bound is to be computed."""
        return self.method in ("auto", method)

    def left(self, share: float = 1.0) -> float | None:
        """Return a share of the seconds left; a small positive number after the deadline."""
        return None if self.end is None else max(PIECE_S, share * (self.end - now()))


@dataclass
class Component:
    """One component with its bounds so far.

    Attributes
    ----------
    matrix : SymmetricMatrix
        The principal submatrix of the component.
    vertices : tuple of int
    options : Options
    reasons : list of Reason
    approximate : ndarray or None
        For an exact matrix the numerical factor with the fewest rows that gives no proof.
    notes : list of str
    """

    matrix: SymmetricMatrix
    vertices: tuple[int, ...]
    options: Options
    reasons: list[Reason] = field(default_factory=list)
    approximate: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)

    @property
    def lower(self) -> int:
        """Best lower bound."""
        return bracket_of(self.reasons)[0]

    @property
    def upper(self) -> int | None:
        """Best proved upper bound."""
        return bracket_of(self.reasons)[1]

    @property
    def rows(self) -> int | None:
        """Number of rows of the known factor; None without one."""
        return min((len(r.data["rows"]) for r in self.reasons if "rows" in r.data), default=None)

    @property
    def closed(self) -> bool:
        """Whether the bounds meet or the matrix is not completely positive."""
        lower, upper = bracket_of(self.reasons)
        return (upper is not None and upper <= lower) or any(r.side == "not_cp" for r in self.reasons)

    def say(self, side: str, value: int | None, method: str, data: dict[str, Any] | None = None) -> None:
        """Add a bound, or a reason why there is no factor; a new factor replaces the last one."""
        reason = Reason(side, value, method, self.vertices, data or {})
        log_event(
            logging.DEBUG, f"{side} {'' if value is None else f'{value} '}by {method}: {reason.text}", "bound",
            side=side, value=value, method=method, row=self.vertices[0], n_rows=len(self.vertices),
        )  # fmt: skip
        if (side, method) == ("upper", "factor"):
            self.reasons = [r for r in self.reasons if (r.side, r.method) != ("upper", "factor")]
        if (side, value, method) not in {(r.side, r.value, r.method) for r in self.reasons}:
            self.reasons.append(reason)

    def take(self, factor: np.ndarray | None) -> bool:
        """Keep a factor with fewer rows than the last one; for exact entries only if it proves an upper bound."""
        if factor is None:
            return False
        factor = factor[(factor > 0).any(1)]
        if self.rows is not None and len(factor) >= self.rows:
            return False
        if not residual_of(self.matrix.values, factor) <= self.options.tol or (factor < 0).any():
            return False
        data = {"rows": factor.tolist()}
        if self.matrix.exact is not None:
            if self.upper is not None and len(factor) > self.upper:
                return False
            proof = factor_proof(self.matrix, factor)
            if proof is None:
                if self.approximate is None or len(factor) < len(self.approximate):
                    self.approximate = factor
                return False
            data["proof"] = proof
        self.say("upper", len(factor), "factor", data)
        return True

    def dominated(self) -> bool:
        """Add the factor with one row per edge if the comparison matrix allows it, with a proof for exact entries."""
        A, tol = self.matrix.values, self.options.tol
        if self.matrix.exact is None:
            return self.take(dominance_factor(A, tol))
        d = dominance_vector(self.matrix)
        rows = None if d is None else dominance_rows(self.matrix, d)
        if d is None or rows is None or (self.upper is not None and rows >= self.upper):
            return False
        data: dict[str, Any] = {"dominance": [str(x) for x in d], "proof": "dominance"}
        factor = dominance_factor(A, tol, drop=0.0 if rows == len(A) else tol)
        if factor is not None and len(factor) == rows and residual_of(A, factor) <= tol:
            data["rows"] = factor.tolist()
        self.say("upper", rows, "factor", data)
        return True

    def finish(self) -> None:
        """Report a numerical factor without proof that has fewer rows than the upper bound."""
        B = self.approximate
        if B is not None and len(B) >= self.lower and (self.upper is None or len(B) < self.upper):
            self.say("approximate", len(B), "factor", {"factor": B.tolist()})


def bracket(matrix: SymmetricMatrix, options: Options) -> tuple[list[Reason], list[str]]:
    """Return the reasons that bracket the CP-rank, component by component, and notes; zeros must be decided."""
    tol = options.tol
    against = exclusion.negative_entry(matrix, tol) or exclusion.negative_eigenvalue(matrix, tol)
    if against is not None:
        return [against], []
    pieces = [Component(matrix.part(v), v, options) for v in support_pattern(matrix.values, 0.0).components()]
    for piece in pieces:
        _solve_in_time(piece)
        if any(reason.side == "not_cp" for reason in piece.reasons):
            return [reason for reason in piece.reasons if reason.side == "not_cp"], piece.notes
    notes = [note for piece in pieces for note in piece.notes]
    worst = max((p for p in pieces if p.upper is None), key=lambda p: len(p.vertices), default=None)
    if worst is not None:
        notes.append(NOTES["no factor"].format(worst.vertices[0], theorem_cap(worst.matrix)))
    return [reason for piece in pieces for reason in piece.reasons], list(dict.fromkeys(notes))


def _solve_in_time(piece: Component) -> None:
    """Compute the bounds of one component, keeping those found before the deadline or an interrupt."""
    why = "time"
    try:
        with limited(piece.options.left()):
            for step in STEPS:
                if not piece.closed:
                    checkpoint()
                    step(piece)
            if not piece.closed:
                checkpoint()
        why = ""
    except TimeUp:
        pass
    except KeyboardInterrupt:
        why, piece.options.end = "interrupted", now()
    with defer_interrupts():
        if not piece.reasons:
            _rank(piece)
        piece.finish()
        if why:
            piece.notes.append(NOTES[why])


def _comparison(piece: Component) -> None:
    """Use one row per edge; without triangles this is the CP-rank, or the matrix is not completely positive."""
    matrix, tol = piece.matrix, piece.options.tol
    formula = triangle_free_rank(matrix, tol)
    found = None if formula is None else exclusion.indefinite_comparison(matrix, tol)
    if found is not None:
        piece.say("not_cp", None, found.method, found.data)
    elif formula is not None and piece.options.wants("triangle-free"):
        piece.say("lower", formula, "triangle-free")
    if found is None:
        piece.dominated()


def _rank(piece: Component) -> None:
    piece.say("lower", rank_bound(piece.matrix, piece.options.tol), "rank")


def _cliques(piece: Component) -> None:
    if piece.options.wants("clique-cover"):
        piece.say("lower", clique_cover_bound(piece.matrix.values, 0.0), "clique-cover")


def _cap(piece: Component) -> None:
    """Add the bound by theorems if the matrix is proved completely positive, or small and doubly nonnegative."""
    if piece.upper is not None or has_small_cap(piece.matrix):
        piece.say("upper", theorem_cap(piece.matrix), "theorem")


def _search(piece: Component, *, share: float, n_starts: int) -> None:
    """Search for factors from the lower bound up in growing steps, then by bisection; also without a limit this ends.

    Each attempt raises the number of rows that failed, or lowers the number that is left to try.
    """
    most = theorem_cap(piece.matrix) if piece.rows is None else piece.rows - 1
    failed, step, known = piece.lower - 1, 1, piece.rows is not None
    with suppress(TimeUp), limited(piece.options.left(share)):
        while failed < most and not piece.closed:
            rows = min(failed + step, most)
            taken = False
            with suppress(TimeUp), limited(None if known else HALF * seconds_left()):
                factor = numerical_factor(
                    piece.matrix.values, rows, n_starts=n_starts, tol=piece.options.tol,
                    random_state=piece.options.random_state,
                )  # fmt: skip
                if factor is not None:
                    taken = any(piece.take(B) for B in (caratheodory(factor), factor))
            checkpoint()
            if taken:
                most, known = rows - 1, True
                step = max(1, (most - failed) // 2)
            else:
                failed = rows
                step = max(1, (most - failed) // 2) if known else 2 * step


def _boundary(piece: Component) -> None:
    """Search for a copositive matrix that proves the CP-rank, or that there is no factor."""
    if len(piece.matrix) > CERTIFIED_ORDER:
        return
    from covopt.completely_positive.face import face_certificate, separate

    with _noting(piece, "face certificate"):
        if piece.options.wants("face") and piece.matrix.exact is None:
            # a face certificate would hold for the exact floats only, not for nearby matrices
            piece.notes.append(NOTES["no exact"])
        elif piece.options.wants("face"):
            found = face_certificate(piece.matrix, time_limit_s=piece.options.left())
            if found is not None and found.lower > piece.lower:
                piece.say("lower", int(found.lower), "face", found.to_dict())
            if found is not None and (piece.upper is None or found.upper < piece.upper):
                piece.reasons = [r for r in piece.reasons if r.method != "factor"]
                rows = {"rows": found.factor.tolist()}
                piece.say("upper", int(found.upper), "face", found.to_dict() | rows)
        if piece.upper is None:
            S = separate(piece.matrix)
            if S is not None and exclusion.separated(piece.matrix, S, piece.options.tol):
                piece.say("not_cp", None, "copositive", {"S": S})


@contextmanager
def _noting(piece: Component, what: str) -> Iterator[None]:
    """Add a note if a conic program gives no bound."""
    try:
        yield
    except MissingPackageError:
        piece.notes.append(NOTES["no extra"])
    except (BudgetError, SolverError):
        piece.notes.append(NOTES["no program"].format(what))


def _moment(piece: Component, method: str, level: int, kind: str) -> None:
    """Add the requested moment bound; under ``auto`` only for small matrices and if it is better."""
    automatic = method == "auto"
    if piece.options.method != method or (automatic and len(piece.matrix) > MOMENT_SIZE[level]):
        return
    from covopt.completely_positive.moments import moment_bound

    with _noting(piece, f"moment bound of level {level}"):
        found = moment_bound(
            piece.matrix, level=level, method=kind, time_limit_s=piece.options.left(HALF),
            tol=piece.options.tol if piece.matrix.exact is None else 0.0,
        )  # fmt: skip
        if not automatic or found.integer > piece.lower:
            piece.say("lower", int(found.integer), "moment", found.data)


STEPS: tuple[Callable[[Component], None], ...] = (
    _comparison, _rank, *(partial(_moment, method=f"moment-{t}", level=t, kind="plain") for t in (1, 2)), _cliques,
    partial(_search, share=HALF, n_starts=4), _cap, _boundary,
    *(partial(_moment, method="auto", level=t, kind="strong") for t in (1, 2)),
    partial(_search, share=1.0, n_starts=64), _cap,
)  # fmt: skip
