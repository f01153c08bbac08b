"""Ordinary tables from scikit-learn, and a simulated one: columns of mean 0 and variance 1, and the loss of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import datasets

Table = tuple[np.ndarray, np.ndarray]
MADE = "made 10000 x 8"
LOSSES = {"diabetes": "squared", "breast_cancer": "logistic"}  # the other tables have several classes
ORDINARY: dict[str, tuple[str, dict[str, Any]]] = {  # by name: what is loaded, and with which arguments
    "diabetes": ("diabetes", {}), "cancer": ("breast_cancer", {}), "wine": ("wine", {}), "iris": ("iris", {}),
    "digits 0/1": ("digits", {"n_class": 2}), "digits": ("digits", {}),
    "diabetes, 2 columns": ("diabetes", {"columns": [2, 8]}),
}  # fmt: skip


def standardised(values: np.ndarray) -> np.ndarray:
    """Return the columns that vary, with mean 0 and variance 1."""
    spread = values.std(axis=0)
    return ((values - values.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0))[..., spread > 0.0]


def bundled(name: str, *, rows: int | None = None, columns: list[int] | None = None, **options: Any) -> Table:
    """Return a table of scikit-learn, standardised, with the targets too unless they are classes."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True, **options)
    X, y = standardised(X[:rows, columns or slice(None)]), y[:rows]
    return X, (y - y.mean()) / y.std() if name == "diabetes" else y


def ordinary(name: str) -> tuple[np.ndarray, np.ndarray, str]:
    """Return columns, targets and the loss of a table by its name."""
    if name == MADE:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((10_000, 8))
        y = np.maximum(X[:, 0], 0.0) - np.abs(X[:, 1] + 0.5 * X[:, 2]) + np.sin(X[:, 3])
        y = y + 0.3 * rng.standard_normal(len(y))
        return standardised(X), (y - y.mean()) / y.std(), "squared"
    own, options = ORDINARY[name]
    X, y = bundled(own, **options)
    return X, y, "logistic" if options.get("n_class") == 2 else LOSSES.get(own, "softmax-cross-entropy")
