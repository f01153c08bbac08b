"""Curves: the bracket over time, a path along λ, objectives in training, the best cost for each width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks import counted, required
from covopt.exact.rounding import EPS
from covopt.plotting.pictures import GREY, INK, NEGATIVE, PALE, POSITIVE, Line, Picture, Points, draw
from covopt.plotting.predictions import has_classes

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PATH = "From the largest λ to the smallest. Open marks are not certified to the tolerance."


def bracket_of(solution: Any) -> np.ndarray:
    """Return, for each round, time, best lower and upper bound so far, and gap; the last column is the certificate.

    Parameters
    ----------
    solution : Solution
        Its ``history`` is a list of dicts with ``time_s``, ``lower_bound`` and ``upper_bound``.
    """
    if not solution.history:
        return np.zeros((4, 0))
    names = ("time_s", "lower_bound", "upper_bound")
    rounds = np.array([[r.get(name) for name in names] for r in solution.history], dtype=float)
    rounds[~np.isfinite(rounds)] = np.nan  # not known yet
    time, lower, upper = rounds[:, 0], np.fmax.accumulate(rounds[:, 1]), np.fmin.accumulate(rounds[:, 2])
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.maximum((upper - lower) / np.abs(upper), EPS)
    settled = (solution.time_s, solution.lower_bound, solution.objective, max(solution.gap, EPS))
    ends = zip((time, lower, upper, gap), settled, strict=True)
    return np.array([np.append(of, end) for of, end in ends])


def cost_of(solution: Any) -> str:
    """Return the formula of the objective.

    Parameters
    ----------
    solution : Solution
    """
    cost = "‖W‖²" if solution.potential == "variation" else "Σ|v|ω(w)"
    return cost if solution.loss is None else f"C + λ{cost}"


def history_pictures(solution: Any) -> list[Picture]:
    """Return both bounds and the relative gap over time.

    Parameters
    ----------
    solution : Solution
    """
    (time, lower, upper, gap), n_rounds = bracket_of(solution), len(solution.history)
    symbols = ("v", "^") if n_rounds <= 40 else ("", "")  # a marker for each round, if they do not overlap
    layers = [
        Line(time, upper, "upper bound (a network)", symbol=symbols[0]),
        Line(time, lower, "lower bound (a dual)", dash=1, symbol=symbols[1], filled=False),
    ]
    ends = np.concatenate([lower, upper])
    ends = ends[np.isfinite(ends)] if n_rounds else np.zeros(1)
    pad = 0.05 * float(np.abs(ends).max())  # else the axis of a closed bracket would show rounding errors
    bounds = Picture(
        layers if n_rounds else [], "time (s)", cost_of(solution),
        f"the bracket: {counted(n_rounds, 'round')}, gap {solution.gap:.1e}", None,
        (ends.min() - pad, ends.max() + pad) if pad else None, empty="no round was made",
        caption="The answer lies between the two bounds; the last point is the certificate.",
    )  # fmt: skip
    shown = Line(time, gap, "relative gap", NEGATIVE, dash=2)
    return [bounds, Picture([shown] if n_rounds else [], "time (s)", "relative gap", logs="y", columns=0)]


def plot_history(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the bracket [lower bound, upper bound] against time, the certificate last.

    Parameters
    ----------
    solution : Solution
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    return draw(history_pictures(solution)[0], ax)


def path_pictures(solutions: Sequence[Any], seen: Any = None) -> list[Picture]:
    """Return objective, loss and decay, then R² or accuracy, cost, neurons and gap of a path against λ.

    Points that are not certified are open. If the path has been cross-validated, the loss on held-out rows is drawn
    with the loss.

    Parameters
    ----------
    solutions : sequence of Solution
    seen : HeldOut, optional
        The cross-validation, if ``solutions`` has no attribute ``held_out``.
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
    seen = getattr(solutions, "held_out", seen)
    walls: tuple[float, ...] = ()
    if seen is not None:
        name = f"loss on rows left out, least at λ = {seen.best:.3g}"
        top.append(Line(seen.lams, seen.losses.mean(axis=1), name, GREY, 3))
        walls = (seen.best,)
    how = "accuracy" if has_classes(solutions[0]) else "R²"
    fit = [line(np.array([s.score() for s in solutions]), f"{how} on the points fitted")]
    if seen is not None:
        fit.append(Line(seen.lams, seen.qualities.mean(axis=1), f"{how} on rows left out", GREY, 3))
    gaps = [
        line(np.maximum([s.gap for s in solutions], EPS), "relative gap"),
        Line(lams, np.full(len(lams), solutions[0].tol), "tolerance", GREY, 1, 1.0),
    ]
    return [
        Picture(top, "λ", "objective", "the path", logs="x", walls=walls, caption=PATH),
        Picture(fit, "λ", how, logs="x", walls=walls, columns=0 if seen is None else 2),
        Picture([line(norms, "cost  ‖W‖²")], "λ", "‖W‖²", logs="x", columns=0),
        Picture([line(widths, "neurons")], "λ", "neurons", logs="x", whole="y", columns=0),
        Picture(gaps, "λ", "relative gap", logs="xy"),
    ]


def plot_path(solutions: Sequence[Any]) -> Figure:
    """Draw objective and loss, R² or accuracy, cost, number of neurons and gap of a path against λ.

    Points that are not certified are drawn open. If the path has been cross-validated, the loss on held-out rows is
    drawn with the loss.

    Parameters
    ----------
    solutions : sequence of Solution
        At least one, with a loss.

    Returns
    -------
    matplotlib.figure.Figure
    """
    Figure = required("matplotlib.figure", "drawing", "plot").Figure
    figure = Figure(figsize=(11.0, 11.6), layout="constrained")
    axes = figure.subplot_mosaic([[0, 0], [1, 2], [3, 4]])
    for picture, ax in zip(path_pictures(solutions), axes.values(), strict=True):
        draw(picture, ax)
    done = sum(s.status.code == "certified" for s in solutions)
    figure.suptitle(
        f"path of {counted(len(solutions), 'point')}, {done} certified to {solutions[0].tol:g}",
        fontsize="large",
    )
    return figure


def plot_plateau(plateau: Any, ax: Axes | None = None) -> Axes:
    """Draw the best cost and that of every seed against width, with the certified lower bound.

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
    highest = float(best[finite].max(initial=floor))  # the scale ignores single bad seeds
    top = highest + 0.15 * (highest - floor) if highest > floor * (1 + 1e-9) else floor * 1.1 or 1.0
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
    return draw(
        Picture(
            layers, "width", "‖W‖²" if plateau.lam is None else f"C + λ‖W‖²,  λ = {plateau.lam:g}",
            "", (low, high), (floor - 0.06 * (top - floor), top + 0.03 * (top - floor)), whole="x",
        ),
        ax,
    )  # fmt: skip


def plot_losses(history: pd.DataFrame, *, floor: float | None = None, ax: Axes | None = None) -> Axes:
    """Draw the recorded objectives against steps, one line for each network, the best one dark.

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
    history = history[np.isfinite(history["objective"])]  # without diverged networks
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
