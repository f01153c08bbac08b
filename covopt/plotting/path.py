"""Pictures of a regularisation path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.wording import counted
from covopt.plotting.drawing import draw
from covopt.plotting.pictures import GREY, INK, NEGATIVE, POSITIVE, Line, Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROUNDING = 1e-16


def path_pictures(solutions: Sequence[Any]) -> list[Picture]:
    """Return objective, loss and decay, then cost, neurons and gap of a path against λ.

    Points that are not certified are open. Where the path has been cross-validated, the loss on rows left out stands
    beside the loss.

    Parameters
    ----------
    solutions : sequence of Solution
    """
    lams = np.array([s.lam for s in solutions], dtype=float)
    certified = np.array([s.status.code == "certified" for s in solutions])
    objective, loss, norms = (
        np.array([getattr(s, name) for s in solutions], dtype=float)
        for name in ("objective", "loss_value", "cost")
    )
    widths = np.array([float(len(s.network)) for s in solutions])

    def line(values: np.ndarray, name: str, dash: int = 0, color: str = INK) -> Line:
        return Line(lams, values, name, color, dash, 1.3, symbol="o", filled=certified)

    top = [
        line(objective, "objective  C + λ‖W‖²"),
        line(loss, f"loss  C ({solutions[0].loss.name})", 1, NEGATIVE),
        line(lams * norms, "decay  λ‖W‖²", 2, POSITIVE),
    ]
    seen = getattr(solutions, "held_out", None)
    walls: tuple[float, ...] = ()
    if seen is not None:
        name = f"loss on rows left out, least at λ = {seen.best:.3g}"
        top.append(Line(seen.lams, seen.losses.mean(axis=1), name, GREY, 3))
        walls = (seen.best,)
    gaps = [
        line(np.maximum([s.gap for s in solutions], ROUNDING), "relative gap"),
        Line(lams, np.full(len(lams), solutions[0].tol), "tolerance", GREY, 1, 1.0),
    ]
    return [
        Picture(top, "λ", "objective", logs="x", walls=walls),
        Picture([line(norms, "cost  ‖W‖²")], "λ", "‖W‖²", logs="x", columns=0),
        Picture([line(widths, "neurons")], "λ", "neurons", logs="x", whole="y", columns=0),
        Picture(gaps, "λ", "relative gap", logs="xy"),
    ]


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
    figure = Figure(figsize=(11.0, 8.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True).ravel()
    for picture, ax in zip(path_pictures(solutions), axes, strict=True):
        draw(picture, ax)
    done = sum(s.status.code == "certified" for s in solutions)
    figure.suptitle(
        f"path of {counted(len(solutions), 'point')}, {done} certified to {solutions[0].tol:g}",
        fontsize="large",
    )
    return figure
