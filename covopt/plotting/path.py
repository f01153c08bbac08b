"""Pictures of a regularisation path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.wording import counted
from covopt.plotting.function import INK, NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-16


def plot_path(solutions: Sequence[Any]) -> Figure:
    """Draw objective, loss and cost, number of neurons and gap of a path against λ.

    Points that are not certified are drawn open. Where the path has been cross-validated, the loss on rows left out
    is drawn beside the loss.

    Parameters
    ----------
    solutions : sequence of Solution
        At least one, with a loss.

    Returns
    -------
    matplotlib.figure.Figure
    """
    Figure = required("matplotlib.figure", "drawing", "plot").Figure
    figure = Figure(figsize=(11.0, 7.2), layout="constrained")
    (top, cost), (neurons, gap) = figure.subplots(2, 2, sharex=True)
    lams = np.array([s.lam for s in solutions])
    certified = np.array([s.status.code == "certified" for s in solutions])
    objective = np.array([s.objective for s in solutions])
    loss = np.array([s.loss_value for s in solutions])
    norms = np.array([s.cost for s in solutions])

    def draw(ax: Any, values: np.ndarray, label: str, style: str, color: str) -> None:
        ax.plot(lams, values, style, color=color, lw=1.3, label=label)
        marks = {"ls": "", "marker": "o", "ms": 4, "mec": color}
        ax.plot(lams[certified], values[certified], mfc=color, **marks)
        ax.plot(lams[~certified], values[~certified], mfc="white", **marks)

    draw(top, objective, "objective  C + λ‖W‖²", "-", INK)
    draw(top, loss, f"loss  C ({solutions[0].loss.name})", "--", NEGATIVE)
    draw(top, lams * norms, "decay  λ‖W‖²", ":", POSITIVE)
    seen = getattr(solutions, "held_out", None)
    if seen is not None:
        top.plot(
            seen.lams, seen.losses.mean(axis=1), "-.", color="0.35", lw=1.6, label="loss on rows left out"
        )
        top.axvline(seen.best, color="0.6", lw=1.0, label=f"least there: λ = {seen.best:.3g}")
    draw(cost, norms, "cost  ‖W‖²", "-", INK)
    draw(neurons, np.array([float(len(s.network)) for s in solutions]), "neurons", "-", INK)
    draw(gap, np.maximum([s.gap for s in solutions], ROUNDING), "relative gap", "-", INK)
    gap.axhline(solutions[0].tol, color="0.45", lw=1.0, ls="--", label="tolerance")
    gap.set_yscale("log")
    top.set_xscale("log")
    top.set_ylabel("objective")
    cost.set_ylabel("‖W‖²")
    neurons.set_ylabel("neurons")
    neurons.yaxis.get_major_locator().set_params(integer=True)
    gap.set_ylabel("relative gap")
    for ax in (neurons, gap):
        ax.set_xlabel("λ")
    top.legend(frameon=False)
    gap.legend(frameon=False)
    done = int(certified.sum())
    figure.suptitle(
        f"path of {counted(len(solutions), 'point')}, {done} certified to {solutions[0].tol:g}",
        fontsize="large",
    )
    return figure
