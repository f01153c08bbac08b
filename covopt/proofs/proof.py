"""The theorem of a closed proof and its file: format ``covopt-proof``, version 2.

A theorem consists of a table in integers with rational units, and a problem. Of files of version 1 only the claim is
read.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from covopt.errors import SolutionFileError
from covopt.exact.elimination import integer_array
from covopt.exact.rounding import below
from covopt.files import check_format, parse_json, read_json, write_atomically
from covopt.proofs.checker.covopt_check import (
    LARGEST,
    LONGEST,
    SHARES,
    Refused,
    canonical,
    check,
    double,
    read,
)
from covopt.proofs.checker.dual import Problem

DIGITS = sys.float_info.dig  # decimals of so many digits are recovered from the nearest double


@dataclass(frozen=True, eq=False, repr=False)
class Proof:
    """A theorem about all networks, with everything needed to check it in integers.

    Attributes
    ----------
    text : str
        The file for ``checkers/covopt_check.py`` and the other readers.
    """

    text: str

    @cached_property
    def own(self) -> Any:
        """The parsed file (:func:`covopt.proofs.checker.covopt_check.read`)."""
        return self._accepted(read)

    @property
    def lower_bound(self) -> float:
        """The claimed bound, rounded down."""
        return below(self.own.bound)

    @property
    def digest(self) -> str:
        """SHA-256 of the theorem."""
        return self.own.digest

    @cached_property
    def boxes(self) -> int:
        """The number of leaves; the first access checks all of them.

        Raises
        ------
        SolutionFileError
            When one of them does not close, or the bound is larger than what they give.
        """
        return self._accepted(check)[1]

    def _accepted(self, reader: Callable[[str], Any]) -> Any:
        try:
            return reader(self.text)
        except Refused as error:
            raise SolutionFileError(f"this is no proof of covopt: {error}") from error

    def __repr__(self) -> str:
        return f"Proof(lower bound {self.lower_bound:.10g}, {len(self.text):,} bytes)"

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return parse_json(self.text)

    @classmethod
    def from_dict(cls, content: Any) -> Proof | FirstProof:
        """Return the proof that parsed JSON holds; one of version 1 is a :class:`FirstProof`.

        Parameters
        ----------
        content : dict

        Raises
        ------
        SolutionFileError
            When the content is no proof, of another version, or damaged.
        """
        if check_format(content, "covopt-proof") == 1:
            return FirstProof.from_dict(content)
        found = cls(canonical(content))
        found.own  # noqa: B018
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write one file, whole or not at all.

        Parameters
        ----------
        path : path-like
        """
        write_atomically(path, lambda stream: stream.write(self.text.encode()))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Proof | FirstProof:
        """Read what :meth:`save` wrote.

        Parameters
        ----------
        path : path-like

        Raises
        ------
        SolutionFileError
            When the file is missing, too large, not JSON, not a proof, or damaged.
        """
        try:
            if os.stat(path).st_size > LARGEST:
                raise SolutionFileError(
                    f"{os.fspath(path)} has more than {LARGEST} bytes; no proof is that large"
                )
        except OSError as error:
            raise SolutionFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
        return cls.from_dict(read_json(path))


class FirstProof(NamedTuple):
    """The claim of a file of version 1, which is proved anew.

    Attributes
    ----------
    digest : str
        Of its table and dual point.
    lower_bound : float
    """

    digest: str
    lower_bound: float

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> FirstProof:
        """Read the content of a file of version 1; raise SolutionFileError where it is damaged."""
        digest, bound = content.get("digest"), content.get("lower_bound")
        if isinstance(bound, bool) or not isinstance(bound, int | float):
            bound = math.nan
        if not isinstance(digest, str) or not abs(bound) <= sys.float_info.max:
            raise SolutionFileError(
                f"the proof is damaged: its digest must be text and its lower bound a finite number, they are "
                f"{digest!r:.40} and {content.get('lower_bound')!r:.40}"
            )
        return cls(digest, float(bound))

    def is_about(self, problem: Problem, dual: np.ndarray) -> bool:
        """Whether the digest is that of a table, what is asked about it, and a dual point."""
        sealed = hashlib.sha256()
        asked = (
            float(problem.bias),
            problem.output_bias,
            problem.loss,
            float(problem.lam),
            float(problem.delta),
        )
        sealed.update(repr(asked).encode())
        for array in (problem.X, problem.Y, dual, problem.sample_weight):
            if array is not None:
                numbers = np.ascontiguousarray(array, dtype="<f8") + 0.0
                sealed.update(repr(numbers.shape).encode() + numbers.tobytes())
        return self.digest == sealed.hexdigest()


def on_unit(values: Sequence[Any], *, decimals: bool = True) -> tuple[list[int], Fraction]:
    """Write doubles as integers of one unit: a power of ten if all are short decimals, else a power of two.

    Examples
    --------
    >>> on_unit([5.1, -0.3])
    ([51, -3], Fraction(1, 10))
    >>> on_unit([1.0 / 3.0, 2.0])[1] == Fraction(1, 2**54)
    True
    """
    for places in range(DIGITS + 1 if decimals else 0):
        whole = [round(Fraction(value) * 10**places) for value in values]
        if any(abs(n) >= 10**DIGITS for n in whole):
            break
        if all(n / 10**places == value for n, value in zip(whole, values, strict=True)):
            return whole, Fraction(1, 10**places)
    found, unit = integer_array(np.array(values, dtype=object))
    return found.tolist(), unit


def text(values: Iterable[int]) -> str:
    """Write integers as the file has them."""
    return " ".join(map(str, values))


def ratio(value: Fraction) -> str:
    """Write a fraction as the file has it."""
    return f"{value.numerator} {value.denominator}"


def sealed(content: dict[str, Any]) -> str:
    """Return the text of a file, with the digest of its theorem."""
    digest = hashlib.sha256(canonical(content["theorem"]).encode()).hexdigest()
    return canonical({**content, "digest": digest})


def counted(problem: Problem) -> np.ndarray:
    """Return which rows have a weight."""
    return np.asarray(problem.weights > 0, dtype=bool)


def theorem_of(problem: Problem) -> dict[str, Any]:
    """Return the entry ``theorem`` of a file, with the bound 0, and without a loss that files do not support."""
    rows = counted(problem)
    X, Y = problem.X[rows], problem.Y[rows, 0].tolist()
    whole, x_unit = on_unit([*X.ravel().tolist(), float(problem.bias)])
    targets, y_unit = on_unit(Y)
    d = X.shape[1]
    loss = None
    if problem.loss in SHARES:
        weights = on_unit(problem.weights[rows].tolist())[0]
        lam, delta = (on_unit([float(value)]) for value in (problem.lam, problem.delta))
        loss = {
            "name": problem.loss, "lambda": ratio(lam[0][0] * lam[1]), "delta": ratio(delta[0][0] * delta[1]),
            "weights": text(weights),
        }  # fmt: skip
    return {
        "X": [text(whole[i * d : (i + 1) * d]) for i in range(len(Y))], "Y": text(targets), "bias": str(whole[-1]),
        "bound": "0 1", "loss": loss, "output_bias": problem.output_bias, "x_unit": ratio(x_unit),
        "y_unit": ratio(y_unit),
    }  # fmt: skip


def network_of(hidden: np.ndarray, output: np.ndarray, shift: np.ndarray) -> dict[str, Any] | None:
    """Return the entry ``network`` of a file, None for a network without neurons or of more than one output."""
    m, width = hidden.shape
    if m == 0 or output.shape[1] != 1:
        return None
    inner, hidden_unit = on_unit(hidden.ravel().tolist(), decimals=False)
    outer, output_unit = on_unit([*output.ravel().tolist(), *shift.tolist()], decimals=False)
    if max(len(str(n)) for n in (*inner, *outer)) > LONGEST:
        return None
    return {
        "hidden": [text(inner[j * width : (j + 1) * width]) for j in range(m)], "hidden_unit": ratio(hidden_unit),
        "output": text(outer[:-1]), "output_bias": str(outer[-1]), "output_unit": ratio(output_unit),
    }  # fmt: skip


def exactly(own: Any, problem: Problem) -> Problem:
    """Return a problem with its doubles replaced by the rationals of a file."""

    def array(rows: Any) -> np.ndarray:
        return np.array([*rows, None], dtype=object)[:-1]

    X = np.array([[own.x_unit * x for x in row] for row in own.X], dtype=object).reshape(len(own.X), -1)
    about = replace(
        problem, X=X, Y=array([own.y_unit * y for y in own.Y])[:, None], bias=own.x_unit * own.bias,
        sample_weight=problem.weights[counted(problem)],
    )  # fmt: skip
    if own.loss is None:
        return about
    return replace(about, lam=own.lam, delta=own.delta, sample_weight=array(own.weights))


def differs(own: Any, problem: Problem) -> str | None:
    """Say how the theorem of a file differs from a problem; None if it does not."""
    rows = counted(problem)
    shares = [Fraction(value) for value in problem.weights[rows].tolist()]
    table = [[double(own.x_unit * x) for x in row] for row in own.X]
    goals = [[double(own.y_unit * y)] for y in own.Y]
    facts = {
        "table": table == problem.X[rows].tolist() and goals == problem.Y[rows].tolist(),
        "bias": double(own.x_unit * own.bias) == problem.bias,
        "output bias": own.output_bias == problem.output_bias,
        "loss": own.loss == problem.loss,
    }  # fmt: skip
    if own.loss is not None and own.loss == problem.loss:
        facts["lambda"] = double(own.lam) == problem.lam
        facts["delta"] = own.loss != "huber" or double(own.delta) == problem.delta
        facts["weights"] = own.weights == [share / sum(shares) for share in shares]
    return next((f"another {name}" for name, same in facts.items() if not same), None)
