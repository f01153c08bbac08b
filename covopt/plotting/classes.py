"""Pictures of classifiers: regions and their boundary, probabilities, scores of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from covopt.checks.optional import required
from covopt.plotting.function import INK, legend_below, limits, new_axes, predict_columns, table_of
from covopt.plotting.wording import label_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# light and apart in luminance: regions are told in greyscale too
TONES = ("#f4efe0", "#b9d3dd", "#7d9cb8", "#dcb9a5", "#a9c29a", "#cfc4e0")
MARKERS = ("o", "^", "s", "D", "v", "P")
PROBABILITIES = ("logistic", "softmax-cross-entropy")


def classes_of(solution: Any) -> list[str]:
    """Return the names of the classes.

    Parameters
    ----------
    solution : Solution
    """
    found = solution.loss.classes or range(max(2, solution.data.n_outputs))
    return [str(name) for name in found]


def codes_of(solution: Any) -> np.ndarray:
    """Return the class of each sample, counted from 0.

    Parameters
    ----------
    solution : Solution
    """
    Y = solution.data.Y
    return (Y[:, 0] > 0).astype(int) if Y.shape[1] == 1 else Y.argmax(axis=1)


def chances_of(solution: Any, X: np.ndarray) -> np.ndarray:
    """Return probabilities (N, classes); without a model of probabilities 1 for the class that is predicted.

    Parameters
    ----------
    solution : Solution
    X : ndarray of shape (N, d)
    """
    from scipy.special import expit, softmax

    scores = predict_columns(solution.network, X)
    if solution.loss.name not in PROBABILITIES:
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.eye(max(2, scores.shape[1]))[codes]
    if scores.shape[1] == 1:
        return np.column_stack([expit(-scores[:, 0]), expit(scores[:, 0])])
    return softmax(scores, axis=1)


def plot_regions_2d(solution: Any, ax: Axes | None = None, *, resolution: int = 200) -> Axes:
    """Draw where each class is predicted, the boundary between them, how sure the network is, and the data.

    Parameters
    ----------
    solution : Solution
        Of a classification with two inputs.
    ax : matplotlib Axes, optional
        A new figure by default.
    resolution : int
        Points of the grid in each direction.

    Returns
    -------
    matplotlib.axes.Axes
    """
    X, _ = table_of(solution.data.X, solution.data.Y, 2)
    ax = new_axes(ax)
    codes = codes_of(solution)
    (left, right), (bottom, top) = limits(X[:, 0]), limits(X[:, 1])
    first, second = np.meshgrid(np.linspace(left, right, resolution), np.linspace(bottom, top, resolution))
    chances = chances_of(solution, np.column_stack([first.ravel(), second.ravel()]))
    fill_regions(solution, ax, first, second, chances, named=False)
    for k, name in enumerate(classes_of(solution)):
        of = codes == k
        ax.plot(
            X[of, 0], X[of, 1], MARKERS[k % len(MARKERS)], ms=5, mfc=TONES[k % len(TONES)], mec=INK, mew=0.9,
            ls="", label=label_of(name), zorder=3,
        )  # fmt: skip
    ax.set(xlim=(left, right), ylim=(bottom, top))
    first_name, second_name = (label_of(name) for name in solution.data.feature_names)
    ax.set(xlabel=first_name, ylabel=second_name)
    dashed = ", dashed: how sure" if solution.loss.name in PROBABILITIES else ""
    ax.set_title(f"{title_of(solution)} predicted (line: boundary{dashed})", fontsize="medium")
    legend_below(ax, columns=min(len(classes_of(solution)), 4))
    return ax


def fill_regions(
    solution: Any, ax: Axes, first: np.ndarray, second: np.ndarray, chances: np.ndarray, *, named: bool = True
) -> None:
    """Draw where each class is predicted, the boundary between them, and how sure the network is.

    Parameters
    ----------
    solution : Solution
        Of a classification.
    ax : matplotlib Axes
    first, second : (m, n) arrays
        A grid.
    chances : (m·n, classes) array
        On it.
    named : bool
        Whether the regions get entries of a legend.
    """
    required("matplotlib", "drawing", "plot")
    from matplotlib.colors import ListedColormap

    names = classes_of(solution)
    best = chances.argmax(axis=1).reshape(first.shape)
    tones = ListedColormap([TONES[k % len(TONES)] for k in range(len(names))])
    ax.pcolormesh(
        first, second, best, cmap=tones, vmin=-0.5, vmax=len(names) - 0.5, shading="nearest", rasterized=True,
        zorder=0,
    )  # fmt: skip
    for k in range(len(names)):
        ahead = (chances[:, k] - np.delete(chances, k, axis=1).max(axis=1)).reshape(first.shape)
        if ahead.min() < 0 < ahead.max():
            ax.contour(first, second, ahead, levels=[0.0], colors=INK, linewidths=1.4, zorder=1)
    if solution.loss.name in PROBABILITIES:
        sure = chances.max(axis=1).reshape(first.shape)
        levels = [level for level in (0.75, 0.95) if sure.min() < level < sure.max()]
        if levels:
            lines = ax.contour(
                first, second, sure, levels=levels, colors="0.35", linewidths=0.8, linestyles="--", zorder=1
            )
            ax.clabel(lines, fmt=lambda level: f"{level:.0%}", fontsize="x-small")
    for k in np.unique(best) if named else ():
        ax.plot(
            [], [], "s", ms=8, mfc=TONES[k % len(TONES)], mec=INK, mew=0.9, ls="", label=label_of(names[k])
        )


def plot_probabilities_1d(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw the probability of each class against the one input, the boundaries, and the data below.

    Parameters
    ----------
    solution : Solution
        Of a classification with one input.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    X, _ = table_of(solution.data.X, solution.data.Y, 1)
    ax = new_axes(ax)
    names, codes = classes_of(solution), codes_of(solution)
    low, high = limits(X[:, 0])
    grid = np.linspace(low, high, 1001)
    chances = chances_of(solution, grid[:, None])
    best = chances.argmax(axis=1)
    for at in np.flatnonzero(best[1:] != best[:-1]):
        ax.axvline(0.5 * (grid[at] + grid[at + 1]), color="0.55", lw=0.9, zorder=0)
    sure = solution.loss.name in PROBABILITIES
    drawn = range(1, 2) if len(names) == 2 else range(len(names))
    for style, k in zip(("-", "--", ":", "-.") * len(names), drawn, strict=False):
        label = f"P({label_of(names[k])})" if sure else label_of(names[k])
        ax.plot(grid, chances[:, k], style, color=INK, lw=1.4, label=label)
    for k, name in enumerate(names):
        of = codes == k
        ax.plot(
            X[of, 0], np.full(of.sum(), -0.08 - 0.05 * k), MARKERS[k % len(MARKERS)], ms=5,
            mfc=TONES[k % len(TONES)], mec=INK, mew=0.9, ls="", label=label_of(name), clip_on=False,
        )  # fmt: skip
    ax.set(xlim=(low, high), ylim=(-0.1 - 0.05 * len(names), 1.05), yticks=[0, 0.25, 0.5, 0.75, 1])
    ax.set(xlabel=label_of(solution.data.feature_names[0]), ylabel="probability" if sure else "predicted")
    ax.set_title(f"{title_of(solution)} (grey lines: boundaries)", fontsize="medium")
    legend_below(ax, columns=min(len(names) + len(drawn), 4))
    return ax


def plot_scores(solution: Any, ax: Axes | None = None) -> Axes:
    """Draw, for each class, how large the probability of the true class is at its samples, sorted.

    Parameters
    ----------
    solution : Solution
        Of a classification with any number of inputs.
    ax : matplotlib Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes
    """
    ax = new_axes(ax)
    names, codes = classes_of(solution), codes_of(solution)
    chances = chances_of(solution, solution.data.X)
    right = chances.argmax(axis=1) == codes
    for k, name in enumerate(names):
        of = np.sort(chances[codes == k, k])
        if not len(of):
            continue
        ax.plot(
            np.linspace(0, 1, len(of)) if len(of) > 1 else [0.5], of, f"-{MARKERS[k % len(MARKERS)]}", ms=5, lw=0.8,
            color="0.4", mfc=TONES[k % len(TONES)], mec=INK, mew=0.9,
            label=f"{label_of(name)}: {int(right[codes == k].sum())} of {len(of)} right",
        )  # fmt: skip
    sure = solution.loss.name in PROBABILITIES
    ax.set(ylim=(-0.05, 1.05), xlabel="samples of each class, sorted (share)")
    ax.set_ylabel("probability of the true class" if sure else "1: predicted right")
    ax.set_title(f"{title_of(solution)}: {right.mean():.1%} of the data right", fontsize="medium")
    legend_below(ax, columns=1)
    return ax


def title_of(solution: Any) -> str:
    """Return what is predicted.

    Parameters
    ----------
    solution : Solution
    """
    return label_of(solution.loss.column or "class")
