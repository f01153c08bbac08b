"""Pictures of trained networks: the best cost of each width, and objectives on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.wording import counted
from covopt.plotting.drawing import draw
from covopt.plotting.pictures import GREY, INK, PALE, Line, Picture, Points

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def plot_plateau(plateau: Any, ax: Axes | None = None) -> Axes:
    """Draw best cost against width over the certified floor, every seed, and the bounds of theory.

    Lines differ by dashes and marks, not by colour.

    Parameters
    ----------
    plateau : covopt.training.Plateau
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    table, floor = plateau.table, plateau.floor
    widths, best = table["width"].to_numpy(), table["best_cost"].to_numpy(dtype=float)
    finite = np.isfinite(best)
    top = _top(best[finite], floor)
    low, high = widths.min() - 0.5, widths.max() + 0.5
    x = np.concatenate([np.full(len(row.costs), row.width) for row in table.itertuples()])
    y = np.concatenate([np.asarray(row.costs, dtype=float) for row in table.itertuples()])
    shown = np.isfinite(y) & (y <= top)
    proved = "certified optimum" if plateau.certified else "certified lower bound"
    layers: list[Any] = [
        Points(x[shown], y[shown], "every seed" if shown.any() else "", "_", 9.0, edge=GREY),
        Line(np.array([low, high]), np.full(2, floor), f"{proved}, {floor:.6g}", dash=1),
        Line(widths[finite], best[finite], "best found" if finite.any() else "", width=1.4, symbol="o"),
    ]
    if plateau.starts_at is not None:
        at = widths == plateau.starts_at
        layers.append(
            Points(widths[at], best[at], f"starts at width {plateau.starts_at}", size=12.0, face="none")
        )
    if not finite.all():
        none = widths[~finite]
        layers.append(Points(none, np.full(len(none), top), "no network through the points found", "x", 7.0))
    walls, off = _bounds(plateau, low, high, (floor, top))
    return draw(
        Picture(
            [*walls, *layers], "width", "‖W‖²" if plateau.lam is None else f"C + λ‖W‖²,  λ = {plateau.lam:g}",
            "\n".join(off), (low, high), (floor - 0.06 * (top - floor), top + 0.03 * (top - floor)), whole="x",
        ),
        ax,
    )  # fmt: skip


def plot_losses(history: pd.DataFrame, *, floor: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw recorded objectives against steps, one line for each network, the best one dark.

    Parameters
    ----------
    history : pandas.DataFrame
        ``TrainingRun.history``.
    floor : float, optional
        A certified lower bound of the objective.
    ax : Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    count = history["network"].nunique()
    history = history[np.isfinite(history["objective"])]  # the others have diverged
    parts = [part for _, part in history.groupby("network")]
    parts.sort(key=lambda part: -part.sort_values("step")["objective"].iloc[-1])  # the best one on top
    layers: list[Any] = []
    for place, part in enumerate(parts):
        dark = place == len(parts) - 1
        name = f"best of {counted(count, 'network')}" if dark else "" if place else "the others"
        ends = part["step"].to_numpy(), part["objective"].to_numpy()
        symbol = "o" if len(part) == 1 else ""
        layers.append(Line(*ends, name, INK if dark else PALE, width=1.6 if dark else 0.7, symbol=symbol))
    if floor is not None and floor > 0 and len(history):
        steps = history["step"].to_numpy()[[0, -1]]
        layers.append(Line(steps, np.full(2, floor), f"certified lower bound, {floor:.6g}", GREY, 1, 1.4))
    logs = "y" if len(history) and (history["objective"] > 0).all() else ""
    said = "every network has diverged"
    return draw(Picture(layers, "step", "objective  C + λ‖W‖²", logs=logs, empty=said), ax)


def _top(best: np.ndarray, floor: float) -> float:
    """Return the upper end of the axis: single bad seeds must not flatten the picture."""
    highest = float(best.max(initial=floor))
    return highest + 0.15 * (highest - floor) if highest > floor * (1 + 1e-9) else floor * 1.1 or 1.0


def _bounds(plateau: Any, low: float, high: float, ends: tuple[float, float]) -> tuple[list[Line], list[str]]:
    """Return the best lower and upper bound on the width, and in words what is off the axis."""
    found = plateau.bounds.bounds
    lower = max((b.value for b in found if b.kind == "lower"), default=None)
    upper = min((b.value for b in found if b.kind == "upper"), default=None)
    bounds = [(lower, "at least", 2), (upper, "at most", 3)]
    if lower is not None and lower == upper:
        bounds = [(lower, "exactly", 3)]
    walls, off = [], []
    for value, text, dash in bounds:
        if value is None:
            continue
        needed = "" if text == "at least" else " is needed" if value == 1 else " are needed"
        label = f"theory: {text} {counted(value, 'neuron')}{needed}"
        if low <= value <= high:
            walls.append(Line(np.full(2, value), np.array(ends), label, GREY, dash, 1.3))
        else:
            off.append(f"{label} (off the axis)")
    return walls, off
