"""Pictures of classifiers: regions and their boundary, probabilities, scores of each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.data.labels import codes_of
from covopt.plotting.function import KINKS_2D, kinks_in, kinks_of, plane_of
from covopt.plotting.pictures import (
    CLASS_TONES,
    SYMBOLS,
    Line,
    Marked,
    Picture,
    Points,
    Regions,
    by_sign,
    label_of,
    limits,
    predict_columns,
)

NO_MARKS = Marked(np.zeros((0, 3)), np.zeros(0), np.zeros(0, dtype=bool))


def has_classes(solution: Any) -> bool:
    """Return whether a solution is of a classification."""
    return solution.loss is not None and solution.loss.is_classification


def classes_of(solution: Any) -> list[str]:
    """Return the names of the classes.

    Parameters
    ----------
    solution : Solution
    """
    found = solution.loss.classes or range(max(2, solution.data.n_outputs))
    return [label_of(name) for name in found]


def chances_of(solution: Any, X: np.ndarray) -> np.ndarray:
    """Return probabilities (N, classes); without a model of probabilities 1 for the class that is predicted.

    Parameters
    ----------
    solution : Solution
    X : ndarray of shape (N, d)
    """
    scores = predict_columns(solution.network, X)
    chances = solution.loss.probabilities(scores[:, 0] if scores.shape[1] == 1 else scores)
    if chances is not None:
        return chances
    return np.eye(max(2, scores.shape[1]))[codes_of(scores)]


def is_sure(solution: Any) -> bool:
    """Return whether the loss gives probabilities."""
    return solution.loss.probabilities(np.zeros((1, max(2, solution.data.n_outputs)))) is not None


def title_of(solution: Any) -> str:
    """Return what is predicted.

    Parameters
    ----------
    solution : Solution
    """
    return label_of(solution.loss.column or "class")


def _samples(solution: Any, x: np.ndarray, heights: np.ndarray) -> list[Points]:
    """Return the data, marks and tones by class."""
    codes, found = codes_of(solution.data.Y), []
    for k, name in enumerate(classes_of(solution)):
        of = np.flatnonzero(codes == k)

        def says(i: int, of: np.ndarray = of, name: str = name) -> list[str]:
            return [f"point {of[i] + 1}: {name}"]

        symbol, tone = SYMBOLS[k % len(SYMBOLS)], CLASS_TONES[k % len(CLASS_TONES)]
        found.append(Points(x[of], heights[of], name, symbol, face=tone, says=says))
    return found


def regions(solution: Any, marked: Marked, resolution: int = 61) -> Picture:
    """Return where each class is predicted over two inputs, the kinks and the data.

    Parameters
    ----------
    solution : Solution
    marked : Marked
    resolution : int
    """
    X, names = solution.data.X, classes_of(solution)
    first, second, points = plane_of(X, resolution)
    sure = is_sure(solution)
    layers = [
        Regions(first, second, chances_of(solution, points), names, sure),
        *kinks_in(X, marked, solution.network.bias)[0],
        *_samples(solution, X[:, 0], X[:, 1]),
    ]
    x, y = (label_of(name) for name in solution.data.feature_names)
    dashed = ", dashed: how sure" if sure else ""
    title = f"{title_of(solution)} predicted (line: boundary{dashed})"
    said = f"Regions in which each class is predicted; the thick line is the boundary. {KINKS_2D}"
    return Picture(
        layers, x, y, title, limits(X[:, 0]), limits(X[:, 1]), columns=min(len(names), 4), caption=said
    )


def probabilities(solution: Any, marked: Marked) -> Picture:
    """Return the probability of each class against the one input, the boundaries, and the data below.

    Parameters
    ----------
    solution : Solution
    marked : Marked
    """
    X, names = solution.data.X, classes_of(solution)
    low, high = limits(X[:, 0])
    grid = np.linspace(low, high, 1001)
    chances = chances_of(solution, grid[:, None])
    best = chances.argmax(axis=1)
    changes = np.flatnonzero(best[1:] != best[:-1])
    drawn, sure = range(1, 2) if len(names) == 2 else range(len(names)), is_sure(solution)
    name = label_of(solution.data.feature_names[0])
    reads = f"{name} %{{x:.4g}}<br>{'P' if sure else 'predicted'} %{{y:.3f}}"
    layers: list[Any] = [
        Line(grid, chances[:, k], f"P({names[k]})" if sure else names[k], dash=rank, reads=reads)
        for rank, k in enumerate(drawn)
    ]
    layers += _samples(solution, X[:, 0], -0.08 - 0.05 * codes_of(solution.data.Y))
    kinks = kinks_of(marked.hidden, solution.network.bias)
    inside = np.flatnonzero((kinks > low) & (kinks < high))
    if len(inside):
        heights = chances_of(solution, kinks[inside][:, None])[:, drawn[0]]
        layers += by_sign(kinks[inside], heights, marked, inside, "kink", 6.0)
    return Picture(
        layers, name, "probability" if sure else "predicted", f"{title_of(solution)} (grey lines: boundaries)",
        (low, high), (-0.1 - 0.05 * len(names), 1.05), yticks=[0, 0.25, 0.5, 0.75, 1],
        walls=(0.5 * (grid[changes] + grid[changes + 1])).tolist(), columns=min(len(names) + len(drawn), 4),
        caption="Probabilities against the one input; where the largest changes is a boundary.",
    )  # fmt: skip


def scores(solution: Any) -> Picture:
    """Return, for each class, how large the probability of the true class is at its samples, sorted.

    Parameters
    ----------
    solution : Solution
    """
    names, codes = classes_of(solution), codes_of(solution.data.Y)
    chances = chances_of(solution, solution.data.X)
    best = chances.argmax(axis=1)
    layers = []
    for k, name in enumerate(names):
        of = np.flatnonzero(codes == k)
        if not len(of):
            continue
        of = of[np.argsort(chances[of, k], kind="stable")]

        def says(i: int, of: np.ndarray = of, k: int = k, name: str = name) -> list[str]:
            return [
                f"point {of[i] + 1}: {name}",
                f"predicted {names[best[of[i]]]}",
                f"P {chances[of[i], k]:.3f}",
            ]

        share = np.linspace(0, 1, len(of)) if len(of) > 1 else np.array([0.5])
        label = f"{name}: {int((best[of] == k).sum())} of {len(of)} right"
        symbol, tone = SYMBOLS[k % len(SYMBOLS)], CLASS_TONES[k % len(CLASS_TONES)]
        layers.append(Points(share, chances[of, k], label, symbol, face=tone, says=says, joined=True))
    right = (best == codes).mean()
    return Picture(
        layers, "samples of each class, sorted (share)",
        "probability of the true class" if is_sure(solution) else "1: predicted right",
        f"{title_of(solution)}: {right:.1%} of the data right", ylim=(-0.05, 1.05), columns=1,
        caption="Samples of each class, sorted by its probability; the title counts those predicted right.",
    )  # fmt: skip
