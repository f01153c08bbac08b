"""What a solution predicts: numbers, or classes with their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.solution import Solution
from covopt.solution.hints import quality

__all__ = ["predict_columns", "quality"]


def predict_columns(solution: Solution, X: Any) -> dict[str, np.ndarray]:
    """Return the predictions, a column for each target; for classes the label, then the probability of each class.

    Parameters
    ----------
    solution : Solution
    X : array_like or frame of shape (N, d)
        The columns of frames are found by name.

    Returns
    -------
    dict of (N,) arrays

    Raises
    ------
    InputError
        Where X does not fit the network.

    Examples
    --------
    >>> import covopt
    >>> fitted = covopt.fit([[-1.0], [0.0], [1.0]], ["a", "b", "a"], lam=0.01, loss="logistic")
    >>> found = predict_columns(fitted, [[-2.0], [0.0]])
    >>> list(found), found["y"].tolist()
    (['y', 'P(a)', 'P(b)'], ['a', 'b'])
    """
    outputs = solution.network.predict(X)
    loss = solution.loss
    if loss is None or not loss.is_classification:
        columns = outputs[:, None] if outputs.ndim == 1 else outputs
        return dict(zip(solution.data.target_names, columns.T, strict=True))
    name = loss.column or "y"
    classes = list(loss.classes or range(max(2, solution.data.n_outputs)))
    labels = np.empty(len(classes), dtype=object)
    labels[:] = classes
    codes = (outputs > 0).astype(int) if outputs.ndim == 1 else outputs.argmax(axis=1)
    found: dict[str, np.ndarray] = {name: np.array(labels[codes].tolist())}
    chances = loss.probabilities(outputs)
    if chances is not None:
        found |= {f"P({label})": column for label, column in zip(classes, chances.T, strict=True)}
    return found
