"""Cases of one statement: some run with every change, the rest every night (``-m slow``)."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def thinned(
    cases: Iterable[Any], every: int, *, keep: Callable[[Any], bool] = lambda case: False
) -> list[Any]:
    """Mark all as slow but the first, every so many-th after it, and those to keep."""
    return [
        case
        if place % every == 0 or keep(case)
        else at_night(*(case if isinstance(case, tuple) else (case,)))
        for place, case in enumerate(cases)
    ]


def at_night(*values: Any, id: str | None = None) -> Any:
    """Return one case that is run every night."""
    return pytest.param(*values, marks=pytest.mark.slow, id=id)
