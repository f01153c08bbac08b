"""What a solution predicts: numbers, or classes with their probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.solution.summary import explained, quality


class Predicts:
    """What every solution can say of rows that it may not have seen."""

    network: Any
    loss: Any
    data: Any

    def predict(self, X: Any) -> np.ndarray:
        """Return what the network says of each row: numbers in your units, or the labels of classes.

        Parameters
        ----------
        X : array_like or frame of shape (N, d)
            The columns of frames are found by name.

        Examples
        --------
        >>> import covopt
        >>> covopt.fit([[-1.0], [0.0], [1.0]], ["a", "b", "a"], lam=0.01, loss="logistic").predict([[-2.0], [0.0]])
        array(['a', 'b'], dtype='<U1')
        """
        if self.loss is None or not self.loss.is_classification:
            return self.network.predict(X)
        return next(iter(predict_columns(self, X).values()))

    def score(self, X: Any = None, Y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on a table, the mean over outputs; the accuracy for classes.

        Parameters
        ----------
        X : array_like or frame of shape (N, d), optional
            By default the points that were fitted, with their weights.
        Y : array_like of shape (N,) or (N, k), optional
            Numbers, or labels.
        sample_weight : array_like of shape (N,), optional

        Examples
        --------
        >>> import covopt
        >>> covopt.min_norm([[0.0], [1.0]], [0.0, 2.0]).score([[0.0], [0.5], [1.0]], [0.0, 1.0, 2.0])
        1.0
        """
        if X is None:
            return quality(self)[1]
        said, Y = self.predict(X), np.asarray(Y)
        if self.loss is not None and self.loss.is_classification:
            codes = Y.argmax(axis=1) if Y.ndim > 1 and Y.shape[1] > 1 else Y.ravel()  # one-hot rows
            return float(np.average(said == codes, weights=sample_weight))
        return explained(Y.reshape(len(Y), -1), said.reshape(len(Y), -1), sample_weight)


def predict_columns(solution: Predicts, X: Any) -> dict[str, np.ndarray]:
    """Return the predictions, a column for each target; for classes the label, then the probability of each class.

    Parameters
    ----------
    solution : Solution or DeepSolution
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
