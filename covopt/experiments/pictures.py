"""Pictures of FL22: forces between the layers (Figure 1), loss against width (Figure 2)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.checks.validation import check_choice
from covopt.errors import InputError
from covopt.experiments.representations import Forces, neuron_rays
from covopt.plotting.drawing import legend_below, new_axes
from covopt.plotting.pictures import INK, NEGATIVE, POSITIVE

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

VIEWS = ("sample", "neuron")
MARKERS = "os^DvP*Xd<"
GREYS = ("0.15", "0.75", "1.0")
LONGEST = 0.16  # of the wider side of the cloud


def principal_axes(Z: np.ndarray, *, centred: bool) -> tuple[np.ndarray, np.ndarray, float]:
    """Return origin (n,), two orthonormal rows (2, n), and the share of the squares that they keep."""
    origin = Z.mean(axis=0) if centred else np.zeros(Z.shape[1])
    _, singular, right = np.linalg.svd(Z - origin, full_matrices=False)
    total = float((singular**2).sum())
    axes = np.zeros((2, Z.shape[1]))
    axes[: min(2, len(right))] = right[:2]
    axes *= np.where(axes.sum(axis=1) < 0, -1.0, 1.0)[:, None]  # the same picture for either sign
    return origin, axes, float((singular[:2] ** 2).sum()) / total if total > 0 else 1.0


def plot_forces(
    forces: Forces,
    layer: int,
    *,
    by: str = "sample",
    labels: Any = None,
    n_rays: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    r"""Draw one hidden representation with attraction and repulsion, on its two principal axes (FL22 Figure 1).

    Attraction is drawn solid with a filled head, repulsion dashed with an open one, all on one scale.

    Parameters
    ----------
    forces : Forces
        Of :func:`covopt.representations.forces`.
    layer : int
        ℓ of Z_ℓ, from 1.
    by : {"sample", "neuron"}
        A point for each row of Z_ℓ, around their mean; or for each column, around the origin, with the rays that
        :func:`covopt.representations.neuron_rays` finds as grey dashed lines.
    labels : array_like of shape (N,), optional
        Classes of the samples: a marker each.
    n_rays : int, optional
        Rays drawn at most; all of them by default.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        For another view, layer, or number of labels.
    """
    check_choice("by", by, VIEWS)
    ax = new_axes(ax)
    z, attraction, repulsion = forces.by_sample(layer) if by == "sample" else forces.by_neuron(layer)
    origin, axes, kept = principal_axes(z, centred=by == "sample")
    points = (z - origin) @ axes.T
    if by == "sample":
        _draw_classes(ax, points, labels)
    else:
        _draw_rays(ax, forces.representations[layer - 1], axes, n_rays)
        ax.plot(*points.T, "o", ms=4.5, mfc="0.75", mec=INK, mew=0.7, ls="", label="neurons", zorder=3)
        ax.plot(0, 0, "+", color=INK, ms=9, zorder=4)
    span = max(float(np.ptp(points, axis=0).max()), 1e-300)
    arrows = {"attraction": attraction @ axes.T, "repulsion": repulsion @ axes.T}
    longest = max(float(np.linalg.norm(a, axis=1).max(initial=0.0)) for a in arrows.values())
    scale = LONGEST * span / longest if longest > 0 else 0.0
    _draw_arrows(ax, points, scale * arrows["attraction"], POSITIVE, "-", "attraction", filled=True)
    _draw_arrows(ax, points, scale * arrows["repulsion"], NEGATIVE, "--", "repulsion", filled=False)
    ax.set_aspect("equal", adjustable="datalim")
    ax.margins(0.12)
    ax.set_xlabel("first principal axis")
    ax.set_ylabel("second")
    what = "samples" if by == "sample" else "neurons"
    ax.set_title(
        f"$Z_{{{layer}}}$ by {what} ({len(z)}), {100 * kept:.0f} % of the "
        f"{'variance' if by == 'sample' else 'squares'}",
        fontsize="medium",
    )
    return ax


def _draw_classes(ax: Axes, points: np.ndarray, labels: Any) -> None:
    labels = np.zeros(len(points), dtype=int) if labels is None else np.asarray(labels)
    if labels.shape != (len(points),):
        raise InputError(
            f"labels has shape {labels.shape}; one for each of the {len(points)} samples is needed."
        )
    classes = np.unique(labels)
    for label, marker, grey in zip(classes, cycle(MARKERS), cycle(GREYS), strict=False):
        mine = labels == label
        name = "samples" if len(classes) == 1 else str(label)
        ax.plot(*points[mine].T, marker, ms=5.5, mfc=grey, mec=INK, mew=0.7, ls="", label=name, zorder=3)


def _draw_rays(ax: Axes, Z: np.ndarray, axes: np.ndarray, n_rays: int | None) -> None:
    found = neuron_rays(Z, n_rays=n_rays)
    for ray, direction in enumerate(found.directions):
        mine = found.labels == ray
        length = 1.15 * float(np.sqrt(found.mass[mine]).max(initial=0.0))
        end = length * (axes @ direction)
        label = "rays" if ray == 0 else "_"
        ax.plot([0, end[0]], [0, end[1]], ls=(0, (5, 3)), lw=1.1, color="0.55", label=label, zorder=1)


def _draw_arrows(
    ax: Axes, start: np.ndarray, change: np.ndarray, color: str, style: str, label: str, *, filled: bool
) -> None:
    required("matplotlib", "drawing", "plot")
    from matplotlib.patches import FancyArrowPatch

    for at, by in zip(start, change, strict=True):
        if np.linalg.norm(by) > 0:
            ax.add_patch(
                FancyArrowPatch(
                    at, at + by, arrowstyle="-|>" if filled else "->", mutation_scale=7, lw=1.0, ls=style,
                    color=color, shrinkA=0, shrinkB=0, zorder=2,
                )
            )  # fmt: skip
    ax.plot([], [], ls=style, color=color, lw=1.2, label=label)


def plot_attraction_repulsion(forces: Forces, labels: Any = None, *, n_rays: int | None = None) -> Figure:
    """Draw :func:`plot_forces` of every hidden layer, by sample and by neuron: the panels of FL22 Figure 1.

    Parameters
    ----------
    forces : Forces
        With at least one hidden layer.
    labels : array_like of shape (N,), optional
    n_rays : int, optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    InputError
        Where there is no hidden layer.
    """
    plt = required("matplotlib.pyplot", "drawing", "plot")
    layers = len(forces.repulsion)
    if layers == 0:
        raise InputError("these forces have no hidden layer to draw.")
    figure = plt.figure(figsize=(9.6, 4.6 * layers), layout="constrained")
    panels = figure.subplots(layers, 2, squeeze=False)
    for layer, (left, right) in enumerate(panels, start=1):
        plot_forces(forces, layer, by="sample", labels=labels, ax=left)
        plot_forces(forces, layer, by="neuron", n_rays=n_rays, ax=right)
    for ax in panels[-1]:
        legend_below(ax, columns=5)
    epsilon = f"Tikhonov ε = {forces.tikhonov:.1e}" if forces.tikhonov else "pseudo-inverses"
    figure.suptitle(f"attraction and repulsion at the end of training ({epsilon})", fontsize="large")
    return figure


def plot_loss_against_width(
    table: pd.DataFrame,
    *,
    by: str | None = None,
    train: str = "train",
    test: str | None = "test",
    starts: dict[Any, float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the least training loss of each width and the test loss of that network (FL22 Figure 2).

    Parameters
    ----------
    table : pandas.DataFrame
        One row for each network, with a column ``width`` (a number, or a tuple of equal ones).
    by : str, optional
        Column that splits the table into curves, such as λ.
    train, test : str
        Columns of the losses; test may be None.
    starts : dict, optional
        Where the plateau of each curve starts, by the values of ``by``: a number and an arrow.
    ax : matplotlib Axes, optional

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    InputError
        Where a column is missing.
    """
    wanted = ["width", train, *([test] if test else []), *([by] if by else [])]
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise InputError(
            f"table has no column {missing[0]!r}; its columns: {', '.join(map(str, table.columns))}."
        )
    ax = new_axes(ax)
    frame = table.assign(width=[_number(w) for w in table["width"]])
    curves: Iterable[tuple[Any, Any]] = frame.groupby(by) if by else [(None, frame)]
    for (value, rows), color, marker in zip(
        curves, cycle((INK, NEGATIVE, POSITIVE)), cycle("os^"), strict=False
    ):
        best = rows.loc[rows.groupby("width")[train].idxmin()].sort_values("width")
        tail = "" if by is None else f", {'λ' if by == 'lam' else by} = {value:g}"
        style: dict[str, Any] = {"color": color, "marker": marker, "ms": 4}
        ax.plot(best["width"], best[train], "-", label=f"train{tail}", zorder=3, **style)
        if test:
            ax.plot(best["width"], best[test], "--", mfc="white", label=f"test{tail}", zorder=2, **style)
        if rows.groupby("width").size().max() > 1:
            label = None if "every trial" in ax.get_legend_handles_labels()[1] else "every trial"
            ax.plot(rows["width"], rows[train], "_", color=color, ms=7, mew=1.0, zorder=1, label=label)
        if starts and value in starts:
            at = float(np.interp(starts[value], best["width"], best[train]))
            ax.annotate(
                f"{starts[value]:g}", (starts[value], at), (10, 22), textcoords="offset points", ha="center",
                fontsize="small", bbox={"fc": "white", "ec": "none", "pad": 0.5, "alpha": 0.8},
                arrowprops={"arrowstyle": "->", "color": color},
            )  # fmt: skip
    ax.set_xlabel("width of the hidden layers")
    ax.set_ylabel("loss")
    ax.legend(frameon=False, fontsize="small")
    return ax


def _number(width: Any) -> float:
    return float(np.max(width)) if np.ndim(width) else float(width)
