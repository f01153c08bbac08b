"""The answer of ``cp_rank``: a bracket on the CP-rank, the factor, the reasons, and the file that carries them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from covopt.checks.wording import Brief, counted
from covopt.completely_positive import exclusion, face, lower, moments, upper
from covopt.completely_positive.factorisation import residual_of
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.reading import CPStatus, Reading, Reason, is_note
from covopt.files import write_json
from covopt.files.formats import check_format, damaged
from covopt.files.schema import CP_RANK, check_content, fractions, numbers, shown

FORMAT = "covopt-cp-rank"
SCHEMA = 1
REASONS = (lower, moments, face, upper, exclusion)  # each registers the kinds that it finds


@dataclass(frozen=True, eq=False, repr=False)
class CPRankCertificate(Brief):
    r"""A bracket on the CP-rank with its proof.

    .. math::

        \operatorname{rank_{cp}}(A) = \min\{m : A = B^\top B,\ B \in \mathbb{R}^{m\times n},\ B \ge 0\}

    Attributes
    ----------
    matrix : SymmetricMatrix
    tol : float
        What counts as rounding where the entries are floats.
    readings : tuple of Reading
        One; two where entries may or may not be zeros, and then every number here covers both.
    notes : tuple of str
    time_s : float
    """

    matrix: SymmetricMatrix
    tol: float
    readings: tuple[Reading, ...]
    notes: tuple[str, ...] = ()
    time_s: float = 0.0

    @property
    def status(self) -> CPStatus:
        """Combined over the readings: they have to agree on more than a bracket."""
        found = {reading.status for reading in self.readings}
        if found <= {CPStatus.EXACT, CPStatus.BRACKET}:
            return CPStatus.EXACT if self.lower == self.upper else CPStatus.BRACKET
        return found.pop() if len(found) == 1 else CPStatus.UNDECIDED

    @property
    def lower(self) -> int | None:
        """No factor has fewer rows; None where there is no factor at all."""
        values = [reading.lower for reading in self.readings if reading.lower is not None]
        return min(values, default=None)

    @property
    def upper(self) -> int | None:
        """Some factor has no more rows; None where that is not known. Of exact entries: proved for A itself."""
        values = [reading.upper for reading in self.readings]
        return None if any(v is None for v in values) else max(v for v in values if v is not None)

    @property
    def upper_numerical(self) -> int | None:
        """Rows of a numerical factor with fewer rows than are proved to do; None where there is none.

        BᵀB is A within the tolerance, which says nothing about A itself: a matrix nearby may have a smaller CP-rank.
        """
        values = []
        for reading in self.readings:
            found = [reason for reason in reading.reasons if reason.side == "approximate"]
            groups: dict[tuple[int, ...], int] = {}
            for reason in reading.reasons:
                if reason.side in ("upper", "approximate") and reason.value is not None:
                    groups[reason.vertices] = min(reason.value, groups.get(reason.vertices, reason.value))
            if not found or set(groups) != {reason.vertices for reason in reading.reasons}:
                return None
            values.append(sum(groups.values()))
        return max(values, default=None)

    @property
    def is_exact(self) -> bool:
        """Whether the CP-rank is known."""
        return self.status is CPStatus.EXACT

    @property
    def factor(self) -> np.ndarray | None:
        """B ≥ 0 with BᵀB = A up to ``residual``, the rounding of an exact factor where the entries are exact.

        Of the reading with more rows where there are two; None where none is known.
        """
        factors = [reading.factor for reading in self.readings if reading.factor is not None]
        return max(factors, key=len, default=None)

    @property
    def residual(self) -> float | None:
        """Max |BᵀB − A|_ij / √(a_ii a_jj)."""
        return None if self.factor is None else residual_of(self.matrix.values, self.factor)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        """Every bound that was computed, reading by reading, component by component."""
        return tuple(reason for reading in self.readings for reason in reading.reasons)

    def summary(self) -> str:
        """Return a few lines for people."""
        kind = "exact entries" if self.matrix.exact is not None else f"floats, rounding up to {self.tol:g}"
        if self.matrix.graph is not None:
            kind = f"EᵀE of a graph with {counted(self.matrix.graph.number_of_edges(), 'edge')}"
        rows = [("matrix", f"{len(self.matrix)} × {len(self.matrix)}, {kind}")]
        rows.append(("status", f"{self.status.code.upper()}: {self.status.message}"))
        if self.status is not CPStatus.NOT_CP:
            if self.is_exact:
                rows.append(("CP-rank", f"{self.lower}"))
            elif self.upper is not None:
                rows.append(("CP-rank", f"between {self.lower} and {self.upper}"))
            else:
                rows.append(("CP-rank", f"at least {self.lower}, if A is completely positive at all"))
        if self.upper_numerical is not None:
            count = counted(self.upper_numerical, "row")
            rows.append(("numerical", f"{count} in an APPROXIMATE factor, which proves nothing"))
        if self.factor is not None:
            rows.append(
                ("factor", f"{counted(len(self.factor), 'nonnegative row')}, residual {self.residual:.1e}")
            )
        for reading in self.readings:
            if len(self.readings) > 1:
                rows.append(
                    ("reading", f"{reading.name}: {reading.status.code}, {reading.lower} to {reading.upper}")
                )
            rows.extend(reading.rows())
        rows.extend(("note", note) for note in self.notes)
        rows.append(("time", f"{self.time_s:.2f} s"))
        return "\n".join(f"{name:<10} {text}" for name, text in rows)

    def verify(self) -> list[Any]:
        """Recompute every claim; see :func:`~covopt.completely_positive.checking.verify_cp_rank`."""
        from covopt.completely_positive.checking import verify_cp_rank

        return verify_cp_rank(self)

    # ------------------------------------------------------------------ files
    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types; floats and fractions survive the round trip exactly."""
        from covopt import __version__

        exact = self.matrix.exact
        return {
            "format": FORMAT,
            "schema": SCHEMA,
            "covopt": __version__,
            "status": self.status.code,
            "lower": self.lower,
            "upper": self.upper,
            "upper_numerical": self.upper_numerical,
            "matrix": self.matrix.values.tolist(),
            "exact": None if exact is None else [[str(entry) for entry in row] for row in exact],
            "tol": self.tol,
            "readings": [reading.to_dict() for reading in self.readings],
            "notes": list(self.notes),
            "time_s": self.time_s,
        }

    @classmethod
    @damaged("the CP-rank certificate")
    def from_dict(cls, content: dict[str, Any]) -> CPRankCertificate:
        """Inverse of :meth:`to_dict`; checks only the shape of the content (see ``verify``).

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            Where the content is something else, of another schema, or contradicts itself.
        """
        check_format(content, FORMAT)
        check_content(content, CP_RANK)
        values = numbers("matrix", content["matrix"])
        if values.ndim != 2 or values.shape[0] != values.shape[1] or not len(values):
            raise ValueError("the matrix is not square")
        exact = content["exact"]
        if exact is not None:
            exact = tuple(tuple(fractions(row)) for row in exact)
            if [len(row) for row in exact] != [len(values)] * len(values):
                raise ValueError("the exact matrix has another shape than the matrix")
        readings = tuple(Reading.from_dict(part, len(values)) for part in content["readings"])
        if not readings or len({reading.name for reading in readings}) != len(readings):
            raise ValueError("the readings are missing or repeated")
        certificate = cls(
            SymmetricMatrix(values, exact), float(content["tol"]), readings,
            tuple(note for note in content["notes"] if is_note(note)), float(content["time_s"]),
        )  # fmt: skip
        # files of before 0.2 have no numerical bound
        for name in ("lower", "upper", "upper_numerical"):
            if content.get(name) != getattr(certificate, name):
                raise ValueError(f"{name} is {content[name]}, the readings say {getattr(certificate, name)}")
        if content["status"] != certificate.status.code:
            raise ValueError(
                f"status is {shown(content['status'])}, the readings say {certificate.status.code}"
            )
        return certificate

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one JSON file, atomically.

        Parameters
        ----------
        path : path-like
        """
        write_json(path, self.to_dict())
