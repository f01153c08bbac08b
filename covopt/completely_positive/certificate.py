"""The result of ``cp_rank``: a matrix with reasons that bound its CP-rank, the file format, and the checker."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks import Brief, Check, Rows, counted
from covopt.completely_positive import (
    KINDS,
    SIGNS,
    CPStatus,
    Known,
    Reason,
    bracket_of,
    exclusion,
    face,
    is_note,
    lower,
    moments,
    upper,
)  # fmt: skip
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import SymmetricMatrix, support_pattern, symmetric
from covopt.errors import CovoptError
from covopt.exact.rank import NEAR
from covopt.files import Saved, check_format, damaged, heading, read_any
from covopt.files.schema import CP_RANK, check_content, fractions, numbers, shown

FORMAT = "covopt-cp-rank"
REASONS = (lower, moments, face, upper, exclusion)  # each module registers its kinds of reasons


@dataclass(frozen=True, eq=False, repr=False)
class CPRankCertificate(Rows, Brief, Saved):
    r"""Lower and upper bounds on the CP-rank with their proof: every claim follows from the reasons.

    .. math::

        \operatorname{rank_{cp}}(A) = \min\{m : A = B^\top B,\ B \in \mathbb{R}^{m\times n},\ B \ge 0\}

    Attributes
    ----------
    matrix : SymmetricMatrix
    tol : float
        Relative tolerance for entries that are floats.
    reasons : tuple of Reason
        Grouped by connected components of the support graph; the CP-rank is the sum over components.
    notes : tuple of str
    time_s : float
    """

    matrix: SymmetricMatrix
    tol: float
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...] = ()
    time_s: float = 0.0

    def by_component(self) -> dict[tuple[int, ...], list[Reason]]:
        """Return the reasons of each component, keyed by its vertices."""
        groups: dict[tuple[int, ...], list[Reason]] = {}
        for reason in self.reasons:
            groups.setdefault(reason.vertices, []).append(reason)
        return groups

    @property
    def status(self) -> CPStatus:
        """Whether the CP-rank is exact, bracketed or undecided, or the matrix not completely positive."""
        if any(reason.side == "not_cp" for reason in self.reasons):
            return CPStatus.NOT_CP
        if self.upper is None:
            return CPStatus.UNDECIDED
        return CPStatus.EXACT if self.lower == self.upper else CPStatus.BRACKET

    @property
    def lower(self) -> int | None:
        """Lower bound on the CP-rank; None if the matrix is not completely positive."""
        if any(reason.side == "not_cp" for reason in self.reasons):
            return None
        return sum(bracket_of(reasons)[0] for reasons in self.by_component().values())

    @property
    def upper(self) -> int | None:
        """Upper bound on the CP-rank; None if none is known. For exact entries it is proved for A itself."""
        return self._fewest("upper")

    @property
    def upper_numerical(self) -> int | None:
        """Rows of a numerical factor that has fewer rows than ``upper``; None if there is none.

        BᵀB is A within the tolerance. That does not bound the CP-rank of A: a nearby matrix may have a smaller one.
        """
        found = any(reason.side == "approximate" for reason in self.reasons)
        return self._fewest("upper", "approximate") if found else None

    def _fewest(self, *sides: str) -> int | None:
        """Return the sum over the components of the least value among the reasons of these sides."""
        total = 0
        for reasons in self.by_component().values():
            known = [r.value for r in reasons if r.side in sides and r.value is not None]
            if not known:
                return None
            total += min(known)
        return total

    @property
    def is_exact(self) -> bool:
        """Whether the CP-rank is known."""
        return self.status is CPStatus.EXACT

    @property
    def factor(self) -> np.ndarray | None:
        """B with A = BᵀB within the tolerance and the fewest known rows; None if a component has no factor."""
        parts = []
        for vertices, reasons in self.by_component().items():
            rows = min((r.rows for r in reasons if r.rows is not None), key=len, default=None)
            if rows is None:
                return None
            part = np.zeros((len(rows), len(self.matrix)))
            part[:, list(vertices)] = rows
            parts.append(part)
        return np.concatenate([np.zeros((0, len(self.matrix))), *parts])

    @property
    def residual(self) -> float | None:
        """Max |BᵀB − A|_ij / √(a_ii a_jj)."""
        return None if self.factor is None else residual_of(self.matrix.values, self.factor)

    WIDTH = 10

    def _rows(self) -> list[tuple[str, str]]:
        # identical components are counted, not repeated
        kind = "exact entries" if self.matrix.exact is not None else f"floats, rounding up to {self.tol:g}"
        if self.matrix.graph is not None:
            kind = f"EᵀE of a graph with {counted(self.matrix.graph.number_of_edges(), 'edge')}"
        rows = [("matrix", f"{len(self.matrix)} × {len(self.matrix)}, {kind}")]
        rows.append(("status", f"{self.status.code.upper()}: {self.status.message}"))
        if self.is_exact:
            rows.append(("CP-rank", f"{self.lower}"))
        elif self.upper is not None:
            rows.append(("CP-rank", f"between {self.lower} and {self.upper}"))
        elif self.lower is not None:
            rows.append(("CP-rank", f"at least {self.lower}, if A is completely positive at all"))
        if self.upper_numerical is not None:
            count = counted(self.upper_numerical, "row")
            rows.append(("numerical", f"{count} in an APPROXIMATE factor, which proves nothing"))
        factor = self.factor
        if factor is not None:
            rows.append(
                ("factor", f"{counted(len(factor), 'nonnegative row')}, residual {self.residual:.1e}")
            )
        several = len(self.by_component()) > 1
        for (side, value, text), times in Counter((r.side, r.value, r.text) for r in self.reasons).items():
            sign = SIGNS.get(side)
            bound = f"{sign} {value}: " if sign else ""
            where = f"{counted(times, 'component')}, each " if several and sign else ""
            rows.append((side.replace("_", " ") if side in SIGNS else "?", f"{where}{bound}{text}"))
        rows.extend(("note", note) for note in self.notes)
        rows.append(("time", f"{self.time_s:.2f} s"))
        return rows

    def verify(self) -> list[Check]:
        """Recompute every claim; see :func:`verify_cp_rank`."""
        return verify_cp_rank(self)

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats and fractions survive the round trip exactly."""
        exact = self.matrix.exact
        reasons = [vars(r) | {"text": r.text, "vertices": list(r.vertices)} for r in self.reasons]
        return {
            **heading(FORMAT),
            **self._claims(),
            "matrix": self.matrix.values.tolist(),
            "exact": None if exact is None else [[str(entry) for entry in row] for row in exact],
            "tol": self.tol,
            "readings": [{"name": "given", **self._claims(), "reasons": reasons}],
            "notes": list(self.notes),
            "time_s": self.time_s,
        }

    def _claims(self) -> dict[str, Any]:
        numbers = {"lower": self.lower, "upper": self.upper, "upper_numerical": self.upper_numerical}
        return {"status": self.status.code, **numbers}

    @classmethod
    @damaged("the CP-rank certificate")
    def from_dict(cls, content: dict[str, Any]) -> CPRankCertificate:
        """Read what :meth:`to_dict` wrote; checks only the form of the content (see ``verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            If the content is not a certificate, has another schema, or contradicts itself.
        """
        check_format(content, FORMAT)
        check_content(content, CP_RANK)
        values = numbers("matrix", content["matrix"])
        if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
            raise ValueError("the matrix is not square")
        if len(content["readings"]) != 1:
            raise ValueError(
                f"it reads the entries near zero in {len(content['readings'])} ways, and covopt in one: set them to "
                "zero, and run cp_rank again"
            )
        exact = (
            None
            if content["exact"] is None
            else np.array(list(map(fractions, content["exact"])), dtype=object)
        )
        if exact is not None and exact.shape != values.shape:
            raise ValueError("the exact matrix has another shape than the matrix")
        certificate = cls(
            SymmetricMatrix(values, exact), float(content["tol"]),
            _reasons(content["readings"][0], len(values)),
            tuple(note for note in content["notes"] if is_note(note)), float(content["time_s"]),
        )  # fmt: skip
        # files from before version 0.2 have no numerical bound
        for name, value in certificate._claims().items():
            if content.get(name) != value:
                raise ValueError(f"{name} is {shown(content.get(name))}, the reasons say {value}")
        return certificate


def _reasons(reading: dict[str, Any], n: int) -> tuple[Reason, ...]:
    """Return the reasons of a file, ignoring their sentences. Files from before 0.3 have one common factor."""
    found, factor = [], reading.get("factor")
    for part in reading["reasons"]:
        vertices, data = list(part["vertices"]), part["data"]
        if any(not 0 <= v < n for v in vertices):
            raise ValueError("a reason speaks about a row that the matrix does not have")
        if factor is not None and part["side"] == "upper" and part["method"] != "theorem":
            rows = numbers("factor", factor).reshape(len(factor), n)[:, vertices]
            data = data | {"rows": rows[(rows != 0).any(1)].tolist()}
        found.append(Reason(part["side"], part["value"], part["method"], tuple(vertices), data))
    return tuple(found)


# ------------------------------------------------------------------ the checker
def verify_cp_rank(certificate: CPRankCertificate | str | os.PathLike[str]) -> list[Check]:
    """Check a CP-rank certificate by recomputing every claim from the matrix alone.

    Parameters
    ----------
    certificate : CPRankCertificate or path-like

    Returns
    -------
    list of Check
        Checks of the matrix, of the components that the reasons refer to, and of every reason. The bounds follow.

    Raises
    ------
    SolutionFileError
        If the file cannot be read as a certificate.

    Examples
    --------
    >>> from covopt.completely_positive.rank import cp_rank
    >>> all(check.ok for check in verify_cp_rank(cp_rank([[2, 1], [1, 2]])))
    True
    """
    if isinstance(certificate, str | os.PathLike):
        return verify_cp_rank(read_any(certificate, FORMAT))
    tol = certificate.tol
    try:
        matrix = _checked(certificate.matrix, tol)
    except (CovoptError, ArithmeticError, ValueError) as error:
        return [Check("matrix", False, str(error))]
    checks = [Check("matrix", True, f"{len(matrix)} × {len(matrix)}, finite and symmetric")]
    against = [reason for reason in certificate.reasons if reason.side == "not_cp"]
    if against:
        alone = len(against) == len(certificate.reasons)
        checks.append(Check("status", alone, "nothing bounds the rows of a factor that there is not"))
        return [*checks, *(_recheck(matrix.part(reason.vertices), reason, Known(tol)) for reason in against)]
    lost = (matrix.values[np.diag(matrix.values) <= 0.0] > 0.0).any()
    nonnegative = exclusion.negative_entry(matrix, tol) is None
    checks.append(
        Check("entries", nonnegative and not lost, "nonnegative, and zero beside a zero of the diagonal")
    )
    components, groups = support_pattern(matrix.values, 0.0).components(), certificate.by_component()
    same = set(groups) == set(components)
    checks.append(Check("components", same, f"the reasons speak about {len(groups)} of {len(components)}"))
    if not same:
        return checks
    for vertices, reasons in groups.items():
        part, shown_cp = matrix.part(vertices), False
        # theorems come last: they may need another reason to prove that the matrix is completely positive
        for reason in sorted(reasons, key=lambda r: r.method == "theorem"):
            checks.append(_recheck(part, reason, Known(tol, shown_cp)))
            shown_cp |= checks[-1].ok and reason.side == "upper"
    return checks


def _checked(matrix: SymmetricMatrix, tol: float) -> SymmetricMatrix:
    """Return the matrix that the reasons refer to."""
    found = symmetric(matrix.values, matrix.exact)
    if not 0 < tol <= NEAR:
        raise ValueError(f"the tolerance {tol!r} is not between 0 and {NEAR:g}")
    if matrix.exact is not None and not np.array_equal(matrix.exact.astype(float), matrix.values):
        raise ValueError("the exact entries differ from the floats")
    return found.settled(tol)


def _recheck(part: SymmetricMatrix, reason: Reason, known: Known) -> Check:
    """Recompute one reason; any error in its data makes the check fail."""
    kind = KINDS.get((reason.side, reason.method))
    if kind is None:
        return Check(reason.method, False, "unknown reason")
    try:
        found, detail = kind[0](part, reason, known)
        ok, rows = reason.follows(found), reason.rows
        if ok and rows is not None:
            ok = upper.is_factor(part, rows, known.tol) and reason.follows(len(rows))
            detail = f"{detail}; max |BᵀB − A| = {residual_of(part.values, rows):.1e} (unit diagonal)"
    except (CovoptError, ArithmeticError, LookupError, ValueError, TypeError, AttributeError) as error:
        return Check(reason.method, False, f"cannot be checked: {error}")
    if SIGNS[reason.side]:
        detail = f"{SIGNS[reason.side]} {reason.value}: {detail if found is None else f'{found}, {detail}'}"
    return Check(reason.method, ok, detail)
