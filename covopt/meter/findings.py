"""Diagnosis of a trained network: sentences that suggest what to change, and one figure."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.spatial import KDTree

from covopt.checks import counted, listed, required
from covopt.exact.rank import ROUGH
from covopt.losses import Interpolation
from covopt.meter.ladder import top
from covopt.oracles.base import heights
from covopt.plotting import check_figure_path, save_figure
from covopt.plotting.pictures import GREY, INK, MOST_MARKS, PALE, SYMBOLS, Line, Picture, Points, label_of
from covopt.plotting.pictures import draw as draw_picture
from covopt.sparsify import drop_silent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from covopt.meter.report import Gap


def describe(report: Gap) -> list[str]:
    """Return a sentence for each source of the gap, in decreasing order.

    Parameters
    ----------
    report : Gap
    """
    given = report.networks["as given"]
    layer = top(given, report.X)
    width = len(layer)
    silent = width - len(drop_silent(layer, keep_negative=False))
    found = []
    if silent:
        found.append(
            f"{silent} of {counted(width, 'neuron')} are silent on every row: they only cost weight decay"
        )
    pairs = twins(np.asarray(layer.incoming))
    if pairs:
        found.append(
            f"{counted(pairs, 'pair')} of neurons point the same way: one neuron does the work of both"
        )
    into, out = np.linalg.norm(layer.incoming, axis=1), np.linalg.norm(layer.outgoing, axis=1)
    mass = into * out
    live = mass > ROUGH * mass.max(initial=0.0)
    ratio = np.exp(np.abs(np.log(into[live] / out[live])))
    if len(ratio) and report.fall("balanced") > ROUGH:
        found.append(
            f"weights are not balanced: input and output weights of a neuron differ in length "
            f"{ratio.max():.3g} times; scale them, the function stays"
        )
    if report.fall("refitted") > ROUGH:
        found.append(
            "the output weights have not converged: train on, or solve for them alone (a convex problem)"
        )
    missing = missing_neuron(report)
    if missing is not None:
        place, height = missing
        at = listed([f"{x:.3g}" for x in place])
        found.append(
            f"a neuron is missing at ({at}): the dual exceeds 1 by {100.0 * (height - 1.0):.3g} % there"
        )
    return found


def twins(hidden: np.ndarray) -> int:
    """Count the adjacent neurons with equal directions.

    Examples
    --------
    >>> twins(np.array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    1
    """
    lengths = np.linalg.norm(hidden, axis=1)
    units = hidden[lengths > 0] / lengths[lengths > 0, None]
    if not len(units):
        return 0
    return len(units) - len({min(near) for near in KDTree(units).query_ball_point(units, ROUGH)})


def missing_neuron(report: Gap) -> tuple[np.ndarray, float] | None:
    """Return the direction of the best network's neuron with the largest dual norm for the refitted residual."""
    best, loss = report.best, report.best.loss
    if loss is None or isinstance(loss, Interpolation) or report.is_deep or not len(best.network):
        return None
    hidden = best.network.hidden_weights
    units = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
    reached = np.linalg.norm(heights(best.data.lifted, report.refit_dual, units), axis=1)
    worst = int((reached >= (1.0 - 1e-9) * reached.max()).argmax())  # the first of equal ones
    return (units[worst], float(reached[worst])) if reached[worst] > 1.0 + ROUGH else None


# ---------------------------------------------------------------------- the figure: ladder, outputs
def draw(report: Gap, path: str | os.PathLike[str] | None = None) -> Any:
    """Plot a gap, and save the figure if a path is given.

    Parameters
    ----------
    report : Gap
    path : path-like, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    figure_class = required("matplotlib.figure", "drawing", "plot").Figure
    if path is not None:
        check_figure_path(os.fspath(path))
    figure = figure_class(figsize=(10.4, 4.2), layout="constrained")
    axes = figure.subplots(1, 2)
    _ladder(report, axes[0])
    draw_picture(_outputs(report), axes[1])
    if path is not None:
        save_figure(figure, os.fspath(path))
    return figure


def _ladder(report: Gap, ax: Axes) -> None:
    steps = report.ladder
    *names, below = steps
    bound = steps[below]
    is_bounded = bound > 0.0
    values = [100.0 * (steps[name] - bound) / bound if is_bounded else steps[name] for name in names]
    ax.barh(names[::-1], values[::-1], color="0.8", edgecolor=INK, lw=0.8)
    for place, name in enumerate(names[::-1]):
        ax.text(values[len(names) - 1 - place], place, f" {steps[name]:.6g}", va="center", fontsize="small")
    ax.set_xlim(0.0, 1.3 * max(values, default=1.0) or 1.0)
    ax.set_xlabel("above the lower bound (%), and the objective itself" if is_bounded else "objective")
    said = f"no network is below {bound:.6g}" if is_bounded else "no lower bound yet"
    ax.set_title(f"from your network to the best one\n{said}", fontsize="medium")


def _outputs(report: Gap) -> Picture:
    given = report.networks["as given"].representations(report.X)[-1]
    best = np.asarray(report.best.network.predict(report.X)).reshape(given.shape)
    chosen = np.linspace(0, len(given) - 1, min(len(given), MOST_MARKS)).astype(int)
    ends = np.array([min(given.min(), best.min()), max(given.max(), best.max())])
    names = [label_of(name) for name in report.best.data.target_names[: len(SYMBOLS)]]
    marks = [
        Points(best[chosen, j], given[chosen, j], name, SYMBOLS[j], 4.0, "white" if j else PALE)
        for j, name in enumerate(names)
    ]
    return Picture(
        [Line(ends, ends, color=GREY, dash=1, width=1.0), *marks], "output of the best network",
        "output of your network", "both networks on the rows\n(dashed: equal)", columns=3 if len(names) > 1 else 0,
    )  # fmt: skip
