"""A solution in one picture: its function, the dual function, the bracket over time; and figures as files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.errors import BudgetError, InputError
from covopt.plotting.classes import plot_probabilities_1d, plot_regions_2d, plot_scores
from covopt.plotting.function import (
    DPI,
    INK,
    NEGATIVE,
    POSITIVE,
    count,
    legend_below,
    new_axes,
    plot_function_1d,
    plot_surface_2d,
    untangle,
)
from covopt.plotting.many_inputs import plot_partial_dependence, plot_predicted
from covopt.potentials import make_potential

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_OUTPUTS = 4
LEAST_SPREAD = 1e-3  # of a bracket over the rounds, relative, that fills an axis


def dual_values(
    dual: np.ndarray, lifted: np.ndarray, neurons: np.ndarray, potential: str = "variation"
) -> np.ndarray:
    """Return the dual function ⟨λ, σ(X̃ w/ω(w))⟩ (its norm where there are several outputs)."""
    length = make_potential(potential).weigh(lifted, neurons)
    unit = neurons / np.where(length > 0, length, 1.0)[:, None]
    dual = np.asarray(dual, dtype=float).reshape(len(lifted), -1)
    step = max(1, 4_000_000 // max(1, len(lifted)))
    parts = [np.maximum(unit[i : i + step] @ lifted.T, 0.0) @ dual for i in range(0, len(unit), step)]
    values = np.concatenate(parts) if parts else np.zeros((0, dual.shape[1]))
    return values[:, 0] if dual.shape[1] == 1 else np.linalg.norm(values, axis=1)


def _tight_neurons(solution: Any) -> np.ndarray:
    """Return the tight set of a certified solution, to the accuracy of its own dual."""
    width = solution.data.lifted.shape[1]
    if solution.status.code != "certified" or solution.potential != "variation":
        return np.zeros((0, width))
    try:
        return np.asarray(solution.tight_set(refine=False).neurons).reshape(-1, width)
    except BudgetError:
        return np.zeros((0, width))


def plot_dual(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the dual function on the unit sphere against its bound 1.

    The network is optimal because the dual function never leaves [−1, 1] and each of its neurons sits where
    it touches. With two coordinates (one input and its bias, or two inputs) the whole circle is drawn; beyond
    that, how far the neurons and the tight set stay below the bound, sorted, on a logarithmic axis. The tight
    set is left out where it is not at hand: it needs a gap of 1e-9, or at most 60 samples.

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
    lifted = solution.data.lifted
    if lifted.shape[1] == 2:
        return _plot_dual_circle(solution, lifted, ax)
    return _plot_dual_slack(solution, lifted, ax)


def _scaled_dual(solution: Any) -> np.ndarray:
    """Return the dual that the bound is read from: that of points to pass through is divided by its gauge."""
    gauge = solution.certificate.gauge
    return solution.dual / gauge if solution.loss is None and 0.0 < gauge < np.inf else solution.dual


def _unit_of(solution: Any) -> str:
    return "‖w‖" if solution.potential == "variation" else "ω(w)"


def _cost_of(solution: Any) -> str:
    cost = "‖W‖²" if solution.potential == "variation" else "Σ|v|ω(w)"
    return cost if solution.loss is None else f"C + λ{cost}"


def _plot_dual_circle(solution: Any, lifted: np.ndarray, ax: Axes) -> Axes:
    def angle_of(w: np.ndarray) -> np.ndarray:
        return np.degrees(np.arctan2(w[:, 1], w[:, 0]))

    # The function is smooth between the angles at which a sample switches on or off.
    switches = np.concatenate([angle_of(lifted) + 90, angle_of(lifted) - 90])
    grid = np.unique(np.concatenate([np.linspace(-180, 180, 1441), (switches + 180) % 360 - 180]))
    circle = np.column_stack([np.cos(np.radians(grid)), np.sin(np.radians(grid))])
    ax.plot(
        grid, dual_values(_scaled_dual(solution), lifted, circle, solution.potential),
        color=INK, lw=1.2, label="dual function", zorder=2,
    )  # fmt: skip
    for bound in (-1, 1) if np.asarray(solution.dual).ndim == 1 else (1,):
        ax.axhline(bound, color="0.45", lw=1.0, ls="--", zorder=1, label="bound" if bound == 1 else None)
    tight = _tight_neurons(solution)
    if len(tight):
        values = dual_values(_scaled_dual(solution), lifted, tight)
        ax.plot(angle_of(tight), values, "o", ms=9, mfc="none", mec=INK, mew=1.0, label="tight set", zorder=3)
    neurons = np.asarray(solution.network.hidden_weights)
    if len(neurons):
        values = dual_values(_scaled_dual(solution), lifted, neurons, solution.potential)
        ax.plot(angle_of(neurons), values, "o", ms=4.5, color=POSITIVE, label="neurons", zorder=4)
    ax.set_xlim(-180, 180)
    ax.set_xticks(range(-180, 181, 90))
    ax.set_xlabel("direction of the neuron w (degrees)")
    ax.set_ylabel(f"⟨λ, σ(X̃w)⟩,  {_unit_of(solution)} = 1")
    ax.set_title("the dual function never leaves its bound", fontsize="medium")
    legend_below(ax)
    return ax


def _plot_dual_slack(solution: Any, lifted: np.ndarray, ax: Axes) -> Axes:
    from matplotlib.ticker import MaxNLocator

    floor = 1e-16
    sets = (
        ("tight set", _tight_neurons(solution), "o", 6.0, False),
        ("neurons of the network", np.asarray(solution.network.hidden_weights), ".", 6.0, True),
    )
    for label, neurons, marker, size, filled in sets:
        if len(neurons) == 0:
            continue
        slack = 1.0 - np.abs(dual_values(_scaled_dual(solution), lifted, neurons, solution.potential))
        order = np.argsort(slack)
        ax.plot(
            np.arange(1, len(slack) + 1),
            np.maximum(slack[order], floor),
            marker,
            ms=size,
            mfc=POSITIVE if filled else "none",
            mec=POSITIVE if filled else INK,
            mew=0.9,
            label=f"{label} ({len(slack)})",
            zorder=3 if filled else 2,
        )
    ax.set_yscale("log")
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
    ax.set_xlabel("neurons, sorted by slack")
    ax.set_ylabel(f"slack  1 − |⟨λ, σ(X̃w)⟩|,  {_unit_of(solution)} = 1")
    ax.set_title("how far the dual function stays below its bound", fontsize="medium")
    legend_below(ax)
    return ax


def plot_history(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the bracket [lower bound, upper bound] and its relative gap against time.

    Parameters
    ----------
    solution : Solution
        Its ``history`` is a list of dicts with ``time_s``, ``lower_bound`` and ``upper_bound``.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = new_axes(ax)
    rounds = list(solution.history)
    ax.set_xlabel("time (s)")
    ax.set_ylabel(_cost_of(solution))
    if not rounds:
        ax.text(0.5, 0.5, "solved without rounds", ha="center", va="center", transform=ax.transAxes)
        return ax
    time, lower, upper = (
        np.array([np.nan if r.get(key) is None else r[key] for r in rounds], dtype=float)
        for key in ("time_s", "lower_bound", "upper_bound")
    )
    lower = np.fmax.accumulate(np.where(np.isfinite(lower), lower, np.nan))
    upper = np.fmin.accumulate(np.where(np.isfinite(upper), upper, np.nan))
    size = 4 if len(rounds) <= 40 else 0  # a marker a round, where they do not run together
    ax.plot(time, upper, "-", color=INK, marker="v", ms=size, label="upper bound (a network)")
    ax.plot(time, lower, "--", color=INK, marker="^", ms=size, mfc="white", label="lower bound (a dual)")
    ax.fill_between(time, lower, upper, color="0.85", lw=0, zorder=0)
    ends = np.concatenate([lower, upper])
    low, high = np.nanmin(ends), np.nanmax(ends)
    if high - low < LEAST_SPREAD * abs(high):  # the axis would show rounding
        ax.set_ylim(low - 0.05 * abs(high), high + 0.05 * abs(high))
    handles = ax.get_legend_handles_labels()[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.maximum((upper - lower) / np.abs(upper), 1e-16)
    if np.isfinite(gap).any():
        right = ax.twinx()
        alone = int(np.isfinite(gap).sum()) == 1  # a line of one point would not be seen
        right.plot(
            time, gap, ":", color=NEGATIVE, lw=1.6, marker="_" if alone else None, ms=12, mew=1.6,
            label="relative gap (right axis)",
        )  # fmt: skip
        right.set_yscale("log")
        right.set_ylabel("relative gap")
        handles = handles + right.get_legend_handles_labels()[0]
    legend_below(ax, handles)
    ax.set_title(f"{count(len(rounds), 'round')}, gap {solution.gap:.1e}", fontsize="medium")
    return ax


def plot_solution(solution: Any, path: str | Path | None = None) -> Figure:
    """Draw the panels that fit the data: the function, the dual function, the bracket.

    Of the function: with one or two inputs all of it, every output (regions and probabilities for classes); with more
    what it predicts against the data, and one input at a time.

    Parameters
    ----------
    solution : Solution
    path : str or Path, optional
        Where to write the figure; its extension (.png, .pdf, .svg) chooses the format.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        Where ``path`` has an extension that matplotlib cannot write.
    """
    of_function = _of_function(solution)
    panels = [*of_function, plot_dual, plot_history]
    columns = len(panels) if len(panels) < 4 else (len(panels) + 1) // 2
    figure = _figure(columns, -(-len(panels) // columns), to_file=path is not None)
    axes = figure.subplots(-(-len(panels) // columns), columns, squeeze=False).ravel()
    for ax in axes[len(panels) :]:
        ax.set_visible(False)
    axes = axes[: len(panels)]
    seen = solution if solution.scaling is None else solution.in_your_units()
    for panel, ax in zip(panels, axes, strict=True):
        panel(seen if panel in of_function else solution, ax)
    scaled = "" if solution.scaling is None else ", of standardised columns"
    figure.suptitle(
        f"{_cost_of(solution)}{scaled} = {solution.objective:.8g}, at least {solution.lower_bound:.8g}: "
        f"{solution.status}",
        fontsize="large",
    )
    untangle(figure)
    if path is not None:
        save_figure(figure, path)
    return figure


def _of_function(solution: Any) -> list[Callable[[Any, Axes], Any]]:
    """Return the panels about the function: what can be seen of it depends on the inputs, outputs and classes."""
    data, loss = solution.data, solution.loss
    if loss is not None and loss.is_classification:
        if data.n_features in (1, 2):
            return [plot_probabilities_1d if data.n_features == 1 else plot_regions_2d]
        return [plot_scores, *([plot_partial_dependence] if data.n_features else [])]
    if data.n_features == 1:
        return [_curve]
    if data.n_features == 2:
        return [partial(_surface, output=j) for j in range(min(data.n_outputs, MOST_OUTPUTS))]
    return [plot_predicted, *([plot_partial_dependence] if data.n_features else [])]


def _curve(solution: Any, ax: Axes) -> None:
    data = solution.data
    plot_function_1d(solution.network, data.X, data.Y, ax, names=data.target_names)
    ax.set_xlabel(data.feature_names[0])


def _surface(solution: Any, ax: Axes, *, output: int) -> None:
    data = solution.data
    plot_surface_2d(solution.network, data.X, data.Y, ax, output=output, name=data.target_names[output])
    ax.set(xlabel=data.feature_names[0], ylabel=data.feature_names[1])
    if data.n_outputs > MOST_OUTPUTS and output == MOST_OUTPUTS - 1:
        left = data.n_outputs - MOST_OUTPUTS
        said = f"{count(left, 'output')} {'is' if left == 1 else 'are'} not drawn"
        ax.set_title(f"{ax.get_title()}; {said}", fontsize="medium")


def _figure(columns: int, rows: int, *, to_file: bool) -> Figure:
    size = (5.2 * columns + 1.0, 4.8 * rows)
    if to_file:  # needs no display and leaves nothing behind in pyplot
        Figure = required("matplotlib.figure", "drawing", "plot").Figure
        return Figure(figsize=size, layout="constrained")
    plt = required("matplotlib.pyplot", "drawing", "plot")
    return plt.figure(figsize=size, dpi=DPI, layout="constrained")


def check_figure_path(path: str | Path) -> None:
    """Refuse a file name that matplotlib cannot write.

    Raises
    ------
    InputError
        With the extensions that it can.
    """
    FigureCanvasBase = required("matplotlib.backend_bases", "drawing", "plot").FigureCanvasBase

    known = sorted(FigureCanvasBase.get_supported_filetypes())
    if Path(path).suffix.lower().lstrip(".") not in known:
        raise InputError(
            f"{path}: figures are written as {', '.join('.' + k for k in known)}; change the extension."
        )


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure; a failure leaves no half-written file.

    Raises
    ------
    InputError
        Where the extension is not one that matplotlib can write.
    """
    import os

    check_figure_path(path)
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        figure.savefig(part, format=path.suffix.lower().lstrip("."), dpi=DPI)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
