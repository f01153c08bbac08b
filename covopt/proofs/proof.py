"""The file that a closed proof travels in: format ``covopt-proof``, version 2; and what files of version 1 claim."""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from covopt.errors import SolutionFileError
from covopt.files import parse_json, read_json, write_atomically
from covopt.files.formats import check_format
from covopt.proofs.checker.arithmetic import float_below
from covopt.proofs.checker.covopt_check import LARGEST, Refused, canonical, check, read


@dataclass(frozen=True, eq=False, repr=False)
class Proof:
    """A theorem about all networks, and all that is needed to check it with integers alone.

    Attributes
    ----------
    text : str
        The file, as ``checkers/covopt_check.py`` and the other readers take it.
    """

    text: str

    @cached_property
    def own(self) -> Any:
        """What the file says: :func:`covopt.proofs.checker.covopt_check.read`."""
        try:
            return read(self.text)
        except Refused as error:
            raise SolutionFileError(f"this is no proof of covopt: {error}") from error

    @property
    def lower_bound(self) -> float:
        """What it claims to prove, rounded down."""
        return float_below(self.own.bound)

    @property
    def digest(self) -> str:
        """SHA-256 of the theorem."""
        return self.own.digest

    @cached_property
    def boxes(self) -> int:
        """The number of leaves, once each of them has been checked.

        Raises
        ------
        SolutionFileError
            When one of them does not close, or the bound is larger than what they give.
        """
        try:
            return check(self.text)[1]
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
        content.pop("resume", None)  # of a checkpoint
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
    """What a file of version 1 claims, which is proved anew, for nothing in a file is believed.

    Attributes
    ----------
    digest : str
        Of the table and the dual point that it is about, :meth:`covopt.proofs.checker.arithmetic.Problem.digest`.
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
