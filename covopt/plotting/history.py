"""The bracket over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from covopt.plotting.drawing import draw, legend_below, widen
from covopt.plotting.pictures import NEGATIVE, Line, Picture, count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_SPREAD = 1e-3  # of a bracket over the rounds, relative, that fills an axis
ROUNDING = 1e-16
NO_ROUND = "no round was made"
SETTLED = 1e-12  # a gap that nothing after it is worth a point of


class Bracket(NamedTuple):
    """The best bounds so far, round by round; what the certificate settled at the end is the last row.

    Attributes
    ----------
    time, lower, upper, gap : (rounds,) or (rounds + 1,) arrays
    n_rounds : int
    """

    time: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    gap: np.ndarray
    n_rounds: int


def bracket_of(solution: Any) -> Bracket:
    """Return the bracket over time.

    Parameters
    ----------
    solution : Solution
        Its ``history`` is a list of dicts with ``time_s``, ``lower_bound`` and ``upper_bound``.
    """
    rounds = list(solution.history)
    time, lower, upper = (
        np.array([np.nan if r.get(key) is None else r[key] for r in rounds], dtype=float)
        for key in ("time_s", "lower_bound", "upper_bound")
    )
    lower = np.fmax.accumulate(np.where(np.isfinite(lower), lower, np.nan))
    upper = np.fmin.accumulate(np.where(np.isfinite(upper), upper, np.nan))
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.maximum((upper - lower) / np.abs(upper), ROUNDING)
    if rounds:
        last = (solution.lower_bound, solution.objective, max(solution.gap, ROUNDING))
        settled = gap[-1] <= max(2 * last[2], SETTLED)  # false for NaN, too
        later = solution.time_s > time[-1] and not settled
        keep = slice(None) if later else slice(-1)
        time = np.append(time, solution.time_s) if later else time
        lower, upper, gap = (
            np.append(of[keep], end) for of, end in zip((lower, upper, gap), last, strict=True)
        )
    return Bracket(time, lower, upper, gap, len(rounds))


def cost_of(solution: Any) -> str:
    """Return what is minimised.

    Parameters
    ----------
    solution : Solution
    """
    cost = "‖W‖²" if solution.potential == "variation" else "Σ|v|ω(w)"
    return cost if solution.loss is None else f"C + λ{cost}"


def bounds_picture(solution: Any, found: Bracket) -> Picture:
    """Return both bounds over time.

    Parameters
    ----------
    solution : Solution
    found : Bracket
    """
    at, x = found.time, "time (s)"
    marks = len(at) <= 40  # a marker a round, where they do not run together
    layers = [
        Line(at, found.upper, "upper bound (a network)", symbol="v" if marks else ""),
        Line(at, found.lower, "lower bound (a dual)", dash=1, symbol="^" if marks else "", filled=False),
    ]
    ends = np.concatenate([found.lower, found.upper])
    ends = ends[np.isfinite(ends)]
    low, high = (ends.min(), ends.max()) if len(ends) else (0.0, 1.0)
    close = high - low < LEAST_SPREAD * abs(high)  # the axis would show rounding
    ylim = (low - 0.05 * abs(high), high + 0.05 * abs(high)) if close else None
    title = f"{count(found.n_rounds, 'round')}, gap {solution.gap:.1e}"
    return Picture(
        layers if found.n_rounds else [], x, cost_of(solution), title, None, ylim, columns=0, empty=NO_ROUND
    )


def gap_picture(found: Bracket, name: str = "relative gap") -> Picture:
    """Return the relative gap, as :func:`bounds_picture`."""
    line = Line(found.time, found.gap, name, NEGATIVE, dash=2)
    return Picture([line], "time (s)", "relative gap", logs="y", columns=0)


def plot_history(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the bracket [lower bound, upper bound] and its relative gap against time, the certificate last.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    found = bracket_of(solution)
    ax = draw(bounds_picture(solution, found), ax)
    if not found.n_rounds:
        return ax
    ax.fill_between(found.time, found.lower, found.upper, color="0.85", lw=0, zorder=0)
    handles = ax.get_legend_handles_labels()[0]
    if np.isfinite(found.gap).any():
        right = draw(gap_picture(found, "relative gap (right axis)"), ax.twinx())
        if int(np.isfinite(found.gap).sum()) == 1:  # a line of one point would not be seen
            right.lines[0].set(marker="_", markersize=12, markeredgewidth=1.6)
        widen(right)
        handles = handles + right.get_legend_handles_labels()[0]
    legend_below(ax, handles)
    return ax
