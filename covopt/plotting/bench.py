"""One figure of a benchmark: certified gap against time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.drawing import draw
from covopt.plotting.pictures import POSITIVE, Line, Picture

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

CASE = ["dataset_name", "objective_name"]
OURS = "covopt"
SYMBOLS = "s^DvPX<"
GREYS = ("0.15", "0.4", "0.55")
FLOOR = 1e-13
LOWEST, HIGHEST = 1e-7, 20.0  # of cost / optimum − 1, drawn; beyond them nobody differs
INITIAL = 1e30  # benchopt's first stop value of a solver that is given tolerances: nothing has run


def solver_labels(solver_names: Iterable[str]) -> dict[str, str]:
    """Return a short name for every solver: its own, with the parameters that are words or differ.

    Examples
    --------
    >>> names = ["torch[optimizer=adam,width=9]", "torch[optimizer=sgd,width=9]", "covopt"]
    >>> solver_labels(names)
    {'torch[optimizer=adam,width=9]': 'torch adam', 'torch[optimizer=sgd,width=9]': 'torch sgd', 'covopt': 'covopt'}
    """
    parsed = {name: (name.partition("[")[0], _parameters(name)) for name in solver_names}
    labels = {}
    for name, (base, parameters) in parsed.items():
        family = [other for root, other in parsed.values() if root == base]
        shown = [
            value
            for key, value in parameters.items()
            if len({other.get(key) for other in family}) > 1 or _is_word(value)
        ]
        labels[name] = " ".join([base, *shown])
    return labels


def _parameters(name: str) -> dict[str, str]:
    inside = name.partition("[")[2].rstrip("]")
    return dict(pair.split("=", 1) for pair in inside.split(",") if "=" in pair)


def _is_word(value: str) -> bool:
    return value.isalpha() and value not in ("None", "True", "False")


def plot_bench(frame: pd.DataFrame, *, levels: tuple[float, ...] = ()) -> Figure:
    """Draw the gap of the best network so far against time, one panel for each dataset and objective.

    Parameters
    ----------
    frame : DataFrame
        The evaluations of ``covopt bench --out``.
    levels : tuple of float
        Gaps to mark.

    Returns
    -------
    matplotlib.figure.Figure
        Not attached to pyplot.
    """
    Figure = required("matplotlib.figure", "drawing", "plot").Figure
    cases = [runs for _, runs in frame.groupby(CASE, sort=False)]
    columns = min(2, len(cases))
    n_rows = math.ceil(len(cases) / columns)
    labels = solver_labels(frame["solver_name"])
    figure = Figure(figsize=(5.6 * columns + 0.6, 3.9 * n_rows + 1.3), layout="constrained")
    axes = figure.subplots(n_rows, columns, squeeze=False).ravel()
    handles: dict[object, object] = {}
    for ax, runs in zip(axes, cases, strict=False):
        draw(_picture(runs, labels, levels), ax)
        low, high = np.log10(ax.get_xlim())  # whole decades, so that the ticks are powers of ten
        ax.set_xlim(10.0 ** math.floor(low), 10.0 ** math.ceil(high))
        handles |= {line.get_label(): line for line in ax.get_lines() if line.get_label() in labels.values()}
    for ax in axes[len(cases) :]:
        ax.remove()
    order = sorted(handles, key=lambda label: (label != OURS, label))
    found = [handles[label] for label in order]
    figure.legend(found, order, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
    return figure


def _picture(runs: pd.DataFrame, labels: dict[str, str], levels: tuple[float, ...]) -> Picture:
    first = runs.iloc[0]
    trains = "p_obj_loss" in runs.columns and isinstance(first["p_obj_loss"], str)
    accuracy = max(float(first["objective_reference_gap"]), FLOOR)  # of the lower bound
    others = [name for name in labels if labels[name] != OURS]
    layers = []
    for name, label in labels.items():
        own = runs[(runs["solver_name"] == name) & (runs["stop_val"] < INITIAL)].sort_values("time")
        met = np.minimum.accumulate(own["objective_value"].to_numpy()) < np.inf
        gap = np.maximum(np.minimum.accumulate(own["objective_gap"].to_numpy()), FLOOR)[met]
        time, k = own["time"].to_numpy()[met], others.index(name) if name in others else -1
        style = (GREYS[k % len(GREYS)], k // len(SYMBOLS) + k, 1.2) if k >= 0 else (POSITIVE, 0, 2.4)
        symbol = SYMBOLS[k % len(SYMBOLS)] if k >= 0 else "o"
        layers.append(Line(time, gap, label, *style, symbol=symbol, filled=k < 0))
    dataset = str(first["dataset_name"])
    words = [] if trains else [value for value in _parameters(dataset).values() if _is_word(value)]
    title = " ".join([dataset.partition("[")[0], *words])
    title += f": N = {first['objective_n_samples']}, d = {first['objective_n_features']}"
    if trains:
        title += f", {first['p_obj_loss']} loss, λ = {float(first['p_obj_reg']):g} λ_max"
    ylabel = "certified relative gap" if trains else "cost / certified optimum − 1"
    ylim = (accuracy / 4, 2.0) if trains else (max(accuracy, LOWEST) / 4, HIGHEST)
    bounds = [*levels, accuracy] if trains or accuracy > LOWEST else levels
    return Picture(layers, "time (s)", ylabel, title, None, ylim, logs="xy", bounds=bounds, columns=0)
