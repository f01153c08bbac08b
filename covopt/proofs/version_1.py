"""Proofs that earlier versions wrote: what they claim, which is proved anew, for nothing in a file is believed."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

from covopt.errors import SolutionFileError


class FirstProof(NamedTuple):
    """What a file of version 1 claims.

    Attributes
    ----------
    digest : str
        Of the table and the dual point that it is about, :meth:`covopt.proofs.problem.Problem.digest`.
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
