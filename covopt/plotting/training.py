"""Pictures of trained networks: the best cost of each width, and objectives on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.wording import counted
from covopt.plotting.pictures import INK

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SHADE = "0.62"  # of what is many: seeds, single networks
FLOOR = "0.25"


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
    required("matplotlib", "drawing", "plot")
    from matplotlib.ticker import MaxNLocator

    ax = _axes() if ax is None else ax
    table, floor = plateau.table, plateau.floor
    widths, best = table["width"].to_numpy(), table["best_cost"].to_numpy(dtype=float)
    finite = np.isfinite(best)
    top = _top(best[finite], floor)
    _seeds(ax, table, top)
    if finite.any():
        ax.plot(widths[finite], best[finite], "-o", color=INK, lw=1.4, ms=5, label="best found", zorder=3)
    proved = "certified optimum" if plateau.certified else "certified lower bound"
    ax.axhline(floor, color=FLOOR, lw=1.6, ls="--", label=f"{proved}, {floor:.6g}", zorder=2)
    if plateau.starts_at is not None:
        at = int(np.flatnonzero(widths == plateau.starts_at)[0])
        ax.plot(
            [plateau.starts_at], [best[at]], "o", ms=12, mfc="none", mec=INK, mew=1.6, ls="none",
            label=f"starts at width {plateau.starts_at}",
        )  # fmt: skip
    if not finite.all():
        ax.plot(
            widths[~finite], np.full((~finite).sum(), top), "x", color=INK, ms=7, ls="none", clip_on=False,
            label="no network through the points found",
        )  # fmt: skip
    _bounds(ax, plateau, widths)
    ax.set_ylim(floor - 0.06 * (top - floor), top)
    ax.set_xlabel("width")
    ax.set_ylabel("‖W‖²" if plateau.lam is None else f"C + λ‖W‖²,  λ = {plateau.lam:g}")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    # below the axes: it would hide seeds or the floor
    ax.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


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
    ax = _axes() if ax is None else ax
    count = history["network"].nunique()
    history = history[np.isfinite(history["objective"])]  # the others have diverged
    ends = history.sort_values("step").groupby("network")["objective"].last()
    best = ends.idxmin() if len(ends) else None
    others: str | None = "the others"
    for network, part in history.groupby("network"):
        dark = network == best
        ax.plot(
            part["step"], part["objective"], color=INK if dark else SHADE, lw=1.6 if dark else 0.7,
            marker="o" if len(part) == 1 else None, ms=4, zorder=3 if dark else 1,
            label=f"best of {counted(count, 'network')}" if dark else others,
        )  # fmt: skip
        others = others if dark else None
    if floor is not None and floor > 0:
        ax.axhline(floor, color=FLOOR, lw=1.4, ls="--", label=f"certified lower bound, {floor:.6g}")
    if len(history) and (history["objective"] > 0).all():
        ax.set_yscale("log")
    ax.set_xlabel("step")
    ax.set_ylabel("objective  C + λ‖W‖²")
    if ax.lines:
        ax.legend(frameon=False, fontsize="small")
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def _axes() -> Axes:
    Figure = required("matplotlib.figure", "drawing", "plot").Figure
    return Figure(figsize=(7.2, 4.6), layout="constrained").subplots()


def _top(best: np.ndarray, floor: float) -> float:
    """Return the upper end of the axis: single bad seeds must not flatten the picture."""
    highest = float(best.max(initial=floor))
    return highest + 0.15 * (highest - floor) if highest > floor * (1 + 1e-9) else floor * 1.1 or 1.0


def _seeds(ax: Axes, table: pd.DataFrame, top: float) -> None:
    x = np.concatenate([np.full(len(row.costs), row.width) for row in table.itertuples()])
    y = np.concatenate([np.asarray(row.costs, dtype=float) for row in table.itertuples()])
    shown = np.isfinite(y) & (y <= top)
    if not shown.any():
        return
    ax.plot(x[shown], y[shown], "_", color=SHADE, ms=9, ls="none", label="every seed", zorder=1)


def _bounds(ax: Axes, plateau: Any, widths: np.ndarray) -> None:
    """Draw the best lower and upper bound on the width; what is off the axis is written."""
    found = plateau.bounds.bounds
    lower = max((b.value for b in found if b.kind == "lower"), default=None)
    upper = min((b.value for b in found if b.kind == "upper"), default=None)
    low, high = widths.min() - 0.5, widths.max() + 0.5
    off = []
    lines = [(lower, "at least", ":"), (upper, "at most", "-.")]
    if lower is not None and lower == upper:
        lines = [(lower, "exactly", "-.")]
    for value, text, style in lines:
        if value is None:
            continue
        needed = "" if text == "at least" else " is needed" if value == 1 else " are needed"
        label = f"theory: {text} {counted(value, 'neuron')}{needed}"
        if low <= value <= high:
            ax.axvline(value, color=SHADE, lw=1.3, ls=style, label=label, zorder=0)
        else:
            off.append(label)
    for text in off:
        ax.plot([], [], " ", label=f"{text} (off the axis)")
    ax.set_xlim(low, high)
