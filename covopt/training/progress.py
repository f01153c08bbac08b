"""The bar on the terminal while networks are trained."""

from __future__ import annotations

import math
import sys
from typing import Any


class ProgressBar:
    """Steps done of steps planned, the networks that still move and the best objective; silent off a terminal.

    Parameters
    ----------
    enabled : bool
    n_steps : int
    """

    def __init__(self, enabled: bool, n_steps: int) -> None:
        self._bar: Any = None
        if enabled and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
                console=Console(stderr=True), transient=True,
            )  # fmt: skip
            self._task = self._bar.add_task("training", total=n_steps)

    def __enter__(self) -> ProgressBar:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, state: Any) -> None:
        """Draw a :class:`~covopt.training.loop.TrainingState`."""
        if self._bar is not None:
            text = f"{state.optimiser}  {state.n_active} of {state.n_networks} networks"
            if math.isfinite(state.best_objective):
                text += f"  best {state.best_objective:.6g}"
            self._bar.update(self._task, completed=state.step, description=text)
