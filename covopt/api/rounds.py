"""What a callback sees of each round, in the user's units."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from covopt.checks.speaking import logger, round_line
from covopt.limits import now
from covopt.solvers.column_generation import RoundState
from covopt.solvers.cone.frank_wolfe import FrankWolfeState

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
        logger.debug("%s", round_line(state))
        if state.note:
            logger.info("round %d: %s", state.round, state.note)
        history.append(
            {k: v for k, v in dataclasses.asdict(state).items() if (v if k == "note" else np.isfinite(v))}
        )
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
