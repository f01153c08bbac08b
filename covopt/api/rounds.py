"""What is seen of each round: the history and the callback in the user's units."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from covopt.checks.speaking import round_line, tell
from covopt.limits import now
from covopt.solvers.loop import RoundState

Callback = Callable[[Any], Any]


class Watch:
    """What a solver calls after each round.

    Parameters
    ----------
    scale : float
        From the solver's bounds to the user's.
    callback : callable or None
        The user's; a true answer stops.
    began : float
    so_far : callable
        Makes a solution of a point; None where there is none.

    Attributes
    ----------
    history : list of dict
    """

    def __init__(
        self,
        scale: float,
        callback: Callback | None,
        began: float,
        so_far: Callable[[Any], Any] | None = None,
    ):
        self.scale, self.callback, self.began, self.so_far = scale, callback, began, so_far
        self.history: list[dict[str, float]] = []

    def __call__(self, state: RoundState, point: Any) -> bool:
        """Note a round; whether to stop."""
        state = state.scaled(self.scale, now() - self.began)
        seen = {k: v for k, v in vars(state).items() if (np.isfinite(v) if isinstance(v, int | float) else v)}
        tell(logging.DEBUG, round_line(state), "round", **seen)
        if state.note:
            note = f"round {state.round}: {state.note}"
            tell(logging.INFO, note, "note", round=state.round, note=state.note)
        self.history.append(seen)
        if self.so_far is not None and np.isfinite(point.upper_bound):
            state = replace(state, best=partial(self.so_far, replace(point)))
        return self.callback is not None and bool(self.callback(state))
