"""The bracket over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from covopt.plotting.dual import widen
from covopt.plotting.function import INK, NEGATIVE, count, legend_below, new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEAST_SPREAD = 1e-3  # of a bracket over the rounds, relative, that fills an axis
ROUNDING = 1e-16
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
    ax = new_axes(ax)
    found = bracket_of(solution)
    ax.set_xlabel("time (s)")
    ax.set_ylabel(cost_of(solution))
    if not found.n_rounds:
        ax.text(0.5, 0.5, "no round was made", ha="center", va="center", transform=ax.transAxes)
        ax.set(xticks=[], yticks=[])
        return ax
    size = 4 if len(found.time) <= 40 else 0  # a marker a round, where they do not run together
    ax.plot(found.time, found.upper, "-", color=INK, marker="v", ms=size, label="upper bound (a network)")
    ax.plot(
        found.time, found.lower, "--", color=INK, marker="^", ms=size, mfc="white",
        label="lower bound (a dual)",
    )  # fmt: skip
    ax.fill_between(found.time, found.lower, found.upper, color="0.85", lw=0, zorder=0)
    ends = np.concatenate([found.lower, found.upper])
    low, high = np.nanmin(ends), np.nanmax(ends)
    if high - low < LEAST_SPREAD * abs(high):  # the axis would show rounding
        ax.set_ylim(low - 0.05 * abs(high), high + 0.05 * abs(high))
    handles = ax.get_legend_handles_labels()[0]
    if np.isfinite(found.gap).any():
        right = ax.twinx()
        alone = int(np.isfinite(found.gap).sum()) == 1  # a line of one point would not be seen
        right.plot(
            found.time, found.gap, ":", color=NEGATIVE, lw=1.6, marker="_" if alone else None, ms=12, mew=1.6,
            label="relative gap (right axis)",
        )  # fmt: skip
        right.set_yscale("log")
        widen(right)
        right.set_ylabel("relative gap")
        handles = handles + right.get_legend_handles_labels()[0]
    legend_below(ax, handles)
    ax.set_title(f"{count(found.n_rounds, 'round')}, gap {solution.gap:.1e}", fontsize="medium")
    return ax
