"""What a callback sees of each round, in the user's units."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from covopt.checks.speaking import round_line, tell
from covopt.limits import now
from covopt.solvers.loop import RoundState

Callback = Callable[[Any], Any]


def observer(
    scale: float, history: list[dict[str, float]], callback: Callback | None, began: float
) -> Callback:
    """Return a callback that keeps the history, and hands states on, in the user's units."""

    def observe(state: RoundState) -> bool:
        state = state.scaled(scale, now() - began)
        seen = {k: v for k, v in vars(state).items() if (v if k == "note" else np.isfinite(v))}
        tell(logging.DEBUG, round_line(state), "round", **seen)
        if state.note:
            tell(
                logging.INFO, f"round {state.round}: {state.note}", "note", round=state.round, note=state.note
            )
        history.append(seen)
        return bool(callback(state)) if callback is not None else False

    return observe
