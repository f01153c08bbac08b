"""What a checker answers with: one claim after the other."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One claim: what it says, whether it held, and the numbers."""

    name: str
    ok: bool
    detail: str
