"""One figure of a benchmark: certified gap against time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.pictures import INK, POSITIVE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CASE = ["dataset_name", "objective_name"]
OURS = "covopt"
STYLES = list(product(("-", "--", ":", "-."), ("s", "^", "D", "v", "P", "X", "<")))
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
    parsed = {}
    for name in solver_names:
        base, _, inside = name.partition("[")
        pairs = [pair.split("=", 1) for pair in inside.rstrip("]").split(",") if "=" in pair]
        parsed[name] = (base, dict(pairs))
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
    cases = list(frame.groupby(CASE, sort=False))
    columns = min(2, len(cases))
    n_rows = math.ceil(len(cases) / columns)
    labels = solver_labels(frame["solver_name"])
    figure = Figure(figsize=(5.6 * columns + 0.6, 3.9 * n_rows + 1.3), layout="constrained")
    axes = figure.subplots(n_rows, columns, squeeze=False)
    others = [name for name in labels if labels[name] != OURS]
    handles = {}
    for ax, (_, runs) in zip(axes.flat, cases, strict=False):
        for name, label in labels.items():
            own = runs[(runs["solver_name"] == name) & (runs["stop_val"] < INITIAL)]
            if len(own):
                index = others.index(name) if name in others else None
                handles[label] = _draw(ax, own, label, index)
        _finish(ax, runs, levels)
    for ax in axes.flat[len(cases) :]:
        ax.remove()
    order = sorted(handles, key=lambda label: (label != OURS, label))
    figure.legend(
        [handles[label] for label in order],
        order,
        loc="outside lower center",
        ncols=4,
        fontsize="small",
        frameon=False,
    )
    return figure


def _draw(ax: Axes, runs: pd.DataFrame, label: str, index: int | None):
    runs = runs.sort_values("time")
    met = np.minimum.accumulate(runs["objective_value"].to_numpy()) < np.inf
    time = runs["time"].to_numpy()[met]
    gap = np.maximum(np.minimum.accumulate(runs["objective_gap"].to_numpy()), FLOOR)[met]
    if index is None:
        style = {
            "color": POSITIVE,
            "ls": "-",
            "marker": "o",
            "mfc": POSITIVE,
            "lw": 2.4,
            "ms": 7,
            "zorder": 5,
        }
    else:
        line, marker = STYLES[(index * 8) % len(STYLES)]
        grey = GREYS[index % len(GREYS)]
        style = {
            "color": grey,
            "ls": line,
            "marker": marker,
            "mfc": "white",
            "lw": 1.2,
            "ms": 5.5,
            "zorder": 3,
        }
    every = np.unique(np.round(np.linspace(0, max(len(time) - 1, 0), min(len(time), 9))).astype(int))
    return ax.loglog(time, gap, markevery=list(every), label=label, **style)[0]


def _finish(ax: Axes, runs: pd.DataFrame, levels: tuple[float, ...]) -> None:
    first = runs.iloc[0]
    trains = "p_obj_loss" in runs.columns and isinstance(first["p_obj_loss"], str)
    accuracy = max(float(first["objective_reference_gap"]), FLOOR)
    if trains or accuracy > LOWEST:
        ax.axhline(accuracy, color="0.6", lw=0.9, ls="--", zorder=1)
        ax.annotate(
            "accuracy of the lower bound",
            (0.01, accuracy),
            xycoords=("axes fraction", "data"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize="x-small",
            color="0.35",
        )
    for level in levels:
        ax.axhline(level, color="0.85", lw=0.7, zorder=0)
    ax.set_ylim(*((accuracy / 4, 2.0) if trains else (max(accuracy, LOWEST) / 4, HIGHEST)))
    low, high = np.log10(ax.get_xlim())  # whole decades, so that the ticks are powers of ten
    ax.set_xlim(10.0 ** math.floor(low), 10.0 ** math.ceil(high))
    ax.set_xlabel("time (s)")
    ax.set_ylabel("certified relative gap" if trains else "cost / certified optimum − 1")
    name, _, inside = str(first["dataset_name"]).partition("[")
    title = f"{name}: N = {first['objective_n_samples']}, d = {first['objective_n_features']}"
    if trains:
        title += f", {first['p_obj_loss']} loss, λ = {float(first['p_obj_reg']):g} λ$_{{max}}$"
    else:
        words = [
            pair.split("=")[1] for pair in inside.rstrip("]").split(",") if _is_word(pair.partition("=")[2])
        ]
        title = " ".join([name, *words]) + title.removeprefix(name)
    ax.set_title(title, fontsize="medium", color=INK)
