"""One connected component of a matrix while its CP-rank is being bracketed: what is proved of it, and what is not."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from covopt.checks.speaking import tell
from covopt.completely_positive.dominance import dominance_factor, dominance_rows, dominance_vector
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.reading import Reason
from covopt.completely_positive.upper import factor_proof
from covopt.limits import now

MOMENT = 1e-3


@dataclass
class Options:
    """What ``cp_rank`` was asked for.

    Attributes
    ----------
    tol : float
    end : float or None
        On the clock of :func:`covopt.limits.now`.
    random_state : int or None
    method : str
    """

    tol: float
    end: float | None
    random_state: int | None
    method: str = "auto"

    def wants(self, method: str) -> bool:
        """Whether a lower bound is asked for."""
        return self.method in ("auto", method)

    def left(self, share: float = 1.0) -> float | None:
        """Return the seconds left, times ``share``; never less than a moment, which every limit takes."""
        return None if self.end is None else max(MOMENT, share * (self.end - now()))

    @property
    def over(self) -> bool:
        """Whether the time is."""
        return self.end is not None and now() >= self.end


@dataclass
class Component:
    """One component while it is being worked on.

    Attributes
    ----------
    matrix : SymmetricMatrix
        Its principal submatrix.
    vertices : tuple of int
    options : Options
    reasons : list of Reason
    factor : ndarray or None
        Of the bound that is proved.
    against : Reason or None
        Why there is no factor of any size.
    approximate : ndarray or None
        The shortest numerical factor of an exact matrix that proved nothing.
    notes : list of str
    offer : callable
        Called where the bracket could be saved.
    """

    matrix: SymmetricMatrix
    vertices: tuple[int, ...]
    options: Options
    reasons: list[Reason] = field(default_factory=list)
    factor: np.ndarray | None = None
    against: Reason | None = None
    approximate: np.ndarray | None = None
    notes: list[str] = field(default_factory=list)
    offer: Callable[[], None] = lambda: None

    @property
    def lower(self) -> int:
        """The best lower bound."""
        return max((r.value or 0 for r in self.reasons if r.side == "lower"), default=0)

    @property
    def upper(self) -> int | None:
        """The best proved upper bound."""
        return min((r.value for r in self.reasons if r.side == "upper" and r.value is not None), default=None)

    @property
    def closed(self) -> bool:
        """Whether nothing is left to ask."""
        return self.against is not None or (self.upper is not None and self.upper <= self.lower)

    def say(self, side: str, value: int | None, method: str, data: dict[str, Any] | None = None) -> None:
        """Note a bound, or why there is no factor."""
        reason = Reason(side, value, method, self.vertices, data or {})
        tell(
            logging.DEBUG, f"{side} {'' if value is None else f'{value} '}by {method}: {reason.text}", "bound",
            side=side, value=value, method=method, row=self.vertices[0], n_rows=len(self.vertices),
        )  # fmt: skip
        if side == "not_cp":
            self.against = reason
        elif (side, value, method) not in {(r.side, r.value, r.method) for r in self.reasons}:
            self.reasons.append(reason)
        self.offer()

    def take(self, factor: np.ndarray | None, how: str = "") -> bool:
        """Keep a factor where it has fewer rows than the one before and, with exact entries, proves its number."""
        if factor is None:
            return False
        factor = factor[(factor > 0).any(1)]
        if self.factor is not None and len(factor) >= len(self.factor):
            return False
        if not residual_of(self.matrix.values, factor) <= self.options.tol or (factor < 0).any():
            return False
        data = {"how": how} if how else {}
        if self.matrix.exact is not None:
            if self.upper is not None and len(factor) > self.upper:
                return False
            proof = factor_proof(self.matrix, factor)
            if proof is None:
                if self.approximate is None or len(factor) < len(self.approximate):
                    self.approximate = factor
                return False
            data["proof"] = proof
        self._bound_by(len(factor), factor, data)
        return True

    def _bound_by(self, rows: int, factor: np.ndarray | None, data: dict[str, Any]) -> None:
        self.reasons = [r for r in self.reasons if (r.side, r.method) != ("upper", "factor")]
        self.factor = factor
        self.say("upper", rows, "factor", data)

    def dominated(self) -> bool:
        """Take one row per edge where the comparison matrix allows it; of exact entries with an exact proof."""
        A, tol = self.matrix.values, self.options.tol
        if self.matrix.exact is None:
            return self.take(dominance_factor(A, tol))
        d = dominance_vector(self.matrix)
        rows = None if d is None else dominance_rows(self.matrix, d)
        if d is None or rows is None or (self.upper is not None and rows >= self.upper):
            return False
        factor = dominance_factor(A, tol, drop=0.0 if rows == len(A) else tol)
        if factor is None or len(factor) != rows or not residual_of(A, factor) <= tol:
            factor = self.factor
        self._bound_by(rows, factor, {"dominance": [str(x) for x in d], "proof": "dominance"})
        return True

    def carry(self) -> None:
        """Let the bound carry its rows: another component has none, so there is no factor of the whole."""
        if self.factor is not None:
            rows = {"rows": self.factor.tolist()}
            self.reasons = [
                replace(r, data=r.data | rows)
                if (r.side, r.method) == ("upper", "factor") and "dominance" not in r.data
                else r
                for r in self.reasons
            ]

    def finish(self) -> None:
        """Settle what the bounds leave: a numerical factor that proves nothing is named as that."""
        B = self.approximate
        if B is not None and len(B) >= self.lower and (self.upper is None or len(B) < self.upper):
            self.say("approximate", len(B), "factor", {"factor": B.tolist()})
