"""The rounds of a solve, and the λ of a path, along which a slider moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from covopt.checks.wording import counted
from covopt.explore.drawing import figure_of
from covopt.explore.panels import Panel
from covopt.plotting.history import bounds_picture, bracket_of, gap_picture
from covopt.plotting.path import path_pictures
from covopt.plotting.pictures import INK, short


def rounds_panel(solution: Any) -> Panel | None:
    """Return the bracket over time; None where there are no two rounds.

    Parameters
    ----------
    solution : Solution
    """
    if len(solution.history) < 2:
        return None
    found = bracket_of(solution)
    figure = figure_of([bounds_picture(solution, found), gap_picture(found)])
    return Panel("progress", "The bracket over time", "The answer lies between the two bounds.", [figure])


def path_panel(steps: Sequence[Any]) -> tuple[Panel, list[str]]:
    """Return objective, neurons and gap along λ, with what the slider says at each.

    Parameters
    ----------
    steps : sequence of Solution
    """
    lams = np.array([s.lam for s in steps], dtype=float)
    says = [
        f"λ = {short(s.lam)} ({i + 1} of {len(steps)}); {s.status.code}, gap {short(s.gap, 2)}; "
        f"{counted(len(s.network), 'neuron')}; objective {short(s.objective, 6)}, loss {short(s.loss_value, 6)}, "
        f"‖W‖² {short(s.cost, 6)}"
        for i, s in enumerate(steps)
    ]
    figure = figure_of(path_pictures(steps), height=620)
    figure.update_xaxes(autorange="reversed")
    if lams.min() > 0 and lams.max() > 100 * lams.min():  # else plotly's own ticks, between the powers
        figure.update_xaxes(dtick=1)
    _cursor(figure, lams[-1])
    caption = "From the largest λ to the smallest. Open marks are not certified to the tolerance."
    return Panel("progress", "The path", caption, [figure], list(lams), wide=True), says


def _cursor(figure: Any, at: float) -> None:
    """Add the vertical line that the slider moves; on a logarithmic axis a shape's place is the number itself."""
    figure.add_shape(
        type="line", x0=at, x1=at, y0=0, y1=1, xref="x", yref="paper", line=dict(color=INK, width=1.5, dash="dot"),
        name="cursor",
    )  # fmt: skip
