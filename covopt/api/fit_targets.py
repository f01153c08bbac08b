"""A look at the targets of a fit before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.errors import InputError

ROOM = (1e-140, 1e140)  # of targets, whose squares losses are made of


def aligned(X: Any, Y: Any) -> Any:
    """Return Y after a look at its length, so that the message is about the table and not about the loss."""
    try:
        rows, labels = len(X), len(Y)
    except TypeError:
        return Y
    if rows != labels:
        raise InputError(f"X has {rows} rows but Y has {labels}: give one target (row) for each sample.")
    return Y


def check_size(targets: np.ndarray) -> None:
    """Refuse targets whose squares, which losses are made of, double precision has no room for."""
    largest = float(np.abs(targets).max(initial=0.0))
    if largest and not ROOM[0] <= largest <= ROOM[1]:
        raise InputError(
            f"Y: the largest target is {largest:.3g}, and its square is outside of what double precision has room "
            f"for (targets from {ROOM[0]:g} to {ROOM[1]:g}). Choose other units."
        )


def name_of(Y: Any) -> str | None:
    """Return the name of a column of labels: a Series has one, a frame of one column too."""
    names = getattr(Y, "columns", None)
    name = getattr(Y, "name", None) if names is None else (names[0] if len(names) == 1 else None)
    return name if isinstance(name, str) and name else None
