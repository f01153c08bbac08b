"""What a callback sees of each round, in the user's units."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import numpy as np

from covopt.checks.speaking import round_line, tell
from covopt.limits import now
from covopt.solvers.cone.frank_wolfe import FrankWolfeState
from covopt.solvers.loop import RoundState

Callback = Callable[[RoundState], bool]


def observer(
    scale: float, history: list[dict[str, float]], callback: Callback | None, began: float
) -> Callback:
    """Return a callback that keeps the history, and hands states on, in the user's units."""

    def observe(state: RoundState) -> bool:
        state = dataclasses.replace(
            state,
            lower_bound=state.lower_bound * scale,
            upper_bound=state.upper_bound * scale,
            time_s=now() - began,
        )
        seen = {k: v for k, v in vars(state).items() if (v if k == "note" else np.isfinite(v))}
        tell(logging.DEBUG, round_line(state), "round", **seen)
        if state.note:
            tell(
                logging.INFO, f"round {state.round}: {state.note}", "note", round=state.round, note=state.note
            )
        history.append(seen)
        return bool(callback(state)) if callback is not None else False

    return observe


def heard(callback: Callable[[FrankWolfeState], bool] | None) -> Callable[[FrankWolfeState], bool]:
    """Return a callback for Frank–Wolfe that logs its iterations before the caller's sees them."""

    def observe(state: FrankWolfeState) -> bool:
        line = (
            f"iteration {state.iteration}: {state.lower_bound:.8g} <= minimum <= {state.cost:.8g}, "
            f"gap {state.gap:.1e}, {state.n_atoms} atoms, {state.time_s:.2f} s"
        )
        tell(logging.DEBUG, line, "iteration", **dataclasses.asdict(state))
        return bool(callback(state)) if callback is not None else False

    return observe


def as_rounds(callback: Callback) -> Callable[[FrankWolfeState], bool]:
    """Return a callback for Frank–Wolfe that shows its iterations as rounds."""

    def observe(state: FrankWolfeState) -> bool:
        return bool(
            callback(
                RoundState(
                    state.iteration + 1, state.lower_bound, state.cost, state.gap, state.n_atoms, state.time_s
                )
            )
        )

    return observe
