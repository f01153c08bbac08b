"""What a checker answers with: one claim after the other."""

from __future__ import annotations

from dataclasses import dataclass

NOT_EXACT = "NOT exact"


@dataclass(frozen=True)
class Check:
    """One claim: what it says, whether it held, and the numbers."""

    name: str
    ok: bool
    detail: str

    @property
    def floating(self) -> bool:
        """Whether it held, in floating point alone, where exact arithmetic was asked for."""
        return self.ok and NOT_EXACT in self.detail
