"""What a run of ``cp_rank`` keeps: the bracket so far as a certificate, and what has been tried on each component.

Nothing in the file is believed: bounds and factors are checked again before a run goes on with them. That a step has
been done is believed; where it was not, the bracket is wider than it could be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from covopt.checks.kept import KeptFile
from covopt.completely_positive.bounding import hold
from covopt.completely_positive.certificate import CPRankCertificate
from covopt.completely_positive.checking import is_factor, recheck
from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.completely_positive.piece import Options, Piece
from covopt.completely_positive.reading import Reading, Reason
from covopt.completely_positive.together import reading_of
from covopt.errors import InputError, SolutionFileError
from covopt.files.schema import numbers

RESUME = "resume"
VERSION = 1


class RankKeeper:
    """The checkpoint of a run of ``cp_rank``.

    Parameters
    ----------
    file : KeptFile
    matrix : SymmetricMatrix
    options : Options

    Raises
    ------
    InputError
        Where the file is about another matrix, or was asked for with other options.
    SolutionFileError
        Where it is no certificate, or damaged.
    """

    def __init__(self, file: KeptFile, matrix: SymmetricMatrix, options: Options):
        self._file, self._matrix, self._options = file, matrix, options
        self._readings: list[tuple[str, int, list[Piece]]] = []
        self._before: dict[tuple[str, tuple[int, ...]], dict[str, Any]] = {}
        if file.content is not None:
            with file.named():
                self._read(file.content)

    def _read(self, content: Any) -> None:
        found, state = CPRankCertificate.from_dict(content), content.get(RESUME)
        if not isinstance(state, dict) or state.get("version") != VERSION:
            raise SolutionFileError(f"{self._file.path} is no checkpoint of cp_rank that this covopt reads")
        same = {
            "A": np.array_equal(found.matrix.values, self._matrix.values)
            and found.matrix.exact == self._matrix.exact,
            "tol": found.tol == self._options.tol,
            "method": state.get("method") == self._options.method,
            "random_state": state.get("random_state") == self._options.random_state,
        }
        for name, is_same in same.items():
            if not is_same:
                raise InputError(
                    f"the checkpoint {self._file.path} is of another problem: {name} differs; give the same matrix "
                    "and options, or another file."
                )
        try:
            self._before = {(kept["name"], tuple(kept["vertices"])): kept for kept in state["components"]}
            for kept in self._before.values():
                _check(kept)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise SolutionFileError(f"the checkpoint {self._file.path} is damaged: {error}") from error

    def begin(self, name: str, n: int, pieces: list[Piece]) -> None:
        """Note the components of a reading that is about to be bracketed."""
        self._readings.append((name, n, pieces))
        for piece in pieces:
            piece.kept = self._before.pop((name, piece.vertices), None)
            piece.offer = self.offer
            piece.restore = _restorer(piece)

    def offer(self) -> None:
        """Write the file where that is due."""
        self._file.offer(self._content)

    def leave(self) -> None:
        """Write the file at the end of a run that was stopped."""
        if self._readings:
            self._file.write(self._content())

    def conclude(self) -> None:
        """Remove the file; where somebody else will, once the result is saved, leave all in it."""
        if self._file.keep:
            self.leave()
        self._file.remove()

    def _content(self) -> dict[str, Any]:
        readings, notes = list[Reading](), list[str]()
        for name, n, pieces in self._readings:
            reading, said = reading_of(name, n, [_as_it_stands(piece) for piece in pieces])
            readings.append(reading)
            notes += [note for note in said if note not in notes]
        certificate = CPRankCertificate(self._matrix, self._options.tol, tuple(readings), tuple(notes), 0.0)
        components = [
            {"name": name, "vertices": list(piece.vertices), **(piece.kept or _record(piece))}
            for name, _, pieces in self._readings
            for piece in pieces
        ]
        about = {
            "version": VERSION, "method": self._options.method, "random_state": self._options.random_state,
            "components": [*components, *self._before.values()],
        }  # fmt: skip
        return {**certificate.to_dict(), RESUME: about}


def _as_it_stands(piece: Piece) -> Piece:
    """Return a copy of a component, with what is known of it put in order."""
    copy = replace(piece, reasons=list(piece.reasons), notes=list(piece.notes))
    hold(copy)
    if copy.against is None:
        copy.finish()
    return copy


def _record(piece: Piece) -> dict[str, Any]:
    """Return JSON types."""
    reasons = [*piece.reasons, *([] if piece.against is None else [piece.against])]
    return {
        "reasons": [
            {"side": r.side, "value": r.value, "method": r.method, "text": r.text, "data": r.data} for r in reasons
        ],
        "factor": None if piece.factor is None else piece.factor.tolist(),
        "approximate": None if piece.approximate is None else piece.approximate.tolist(),
        "done": list(piece.done),
        "places": dict(piece.places),
    }  # fmt: skip


def _check(kept: dict[str, Any]) -> None:
    for reason in kept["reasons"]:
        if not isinstance(reason["data"], dict) or not {"side", "value", "method", "text"} <= set(reason):
            raise ValueError("a reason is incomplete")
    if not all(isinstance(name, str) for name in kept["done"]):
        raise ValueError("a step has no name")
    for place in kept["places"].values():
        failed, most, step, known, unproved = place
        if any(type(value) is not int for value in (failed, most, step, unproved)) or type(known) is not bool:
            raise ValueError("a place of the search has another form")
    for name in ("factor", "approximate"):
        if kept[name] is not None:
            numbers(name, kept[name]).reshape(len(kept[name]), len(kept["vertices"]))


def _restorer(piece: Piece) -> Callable[[], None]:
    """Return what gives a component back what an earlier run knew, as far as that holds."""

    def restore() -> None:
        kept = piece.kept
        if kept is None:
            return
        tol, size = piece.options.tol, len(piece.vertices)
        reasons = [
            Reason(r["side"], r["value"], r["method"], r["text"], piece.vertices, r["data"]) for r in kept["reasons"]
        ]  # fmt: skip
        found: dict[str, np.ndarray | None] = {}
        for name in ("factor", "approximate"):
            rows = kept[name]
            factor = None if rows is None else numbers(name, rows).reshape(len(rows), size)
            found[name] = factor if factor is not None and is_factor(piece.matrix, factor, tol) else None
        held: list[Reason] = []
        for reason in sorted(reasons, key=lambda r: r.method == "theorem"):
            known = any(r.side == "upper" for r in held)
            if recheck(piece.matrix, reason, found["factor"], tol, known).ok:
                held.append(reason)
        piece.against = next((r for r in held if r.side == "not_cp"), None)
        piece.reasons = [r for r in held if r.side in ("lower", "upper")]
        if any(r.method == "factor" for r in piece.reasons):
            piece.factor = found["factor"]
        piece.approximate = found["approximate"]
        piece.done, piece.places = list(kept["done"]), dict(kept["places"])
        piece.kept = None

    return restore
