"""Tables from files, the diabetes table of the demo, and synthetic tasks (``make_*``)."""

from __future__ import annotations

import numpy as np

from covopt.data import Data
from covopt.errors import InputError
from covopt.table_files import load_table

__all__ = ["load_diabetes_table", "load_table", "make_random_plane", "make_smooth"]


def load_diabetes_table(
    n_features: int = 2,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Read scikit-learn's diabetes table: the features most correlated with progression, distinct rows.

    Patients with identical values in the chosen features are merged into one row with the mean of their
    targets (the same as ``duplicates="mean"``), because one function cannot take two values at one point.

    Parameters
    ----------
    n_features : int, default 2
        From 1 to 10, in the order bmi, s5, bp, s4, s3, s6, s1, age, s2, sex.

    Returns
    -------
    X : (N, n_features) array
        In the standardised units of the table: mean zero, sum of squares one over the 442 patients.
    Y : (N, 1) array
        Disease progression after one year.
    feature_names, target_names : tuple of str

    Raises
    ------
    InputError
        Where ``n_features`` is not between 1 and 10.

    Examples
    --------
    >>> X, Y, features, targets = load_diabetes_table()
    >>> X.shape, features, targets
    ((432, 2), ('bmi', 's5'), ('progression',))
    """
    from sklearn.datasets import load_diabetes

    order = ("bmi", "s5", "bp", "s4", "s3", "s6", "s1", "age", "s2", "sex")
    if not isinstance(n_features, int) or not 1 <= n_features <= len(order):
        raise InputError(f"n_features must be between 1 and {len(order)}; received {n_features!r}.")
    table = load_diabetes()
    names = order[:n_features]
    columns = [list(table.feature_names).index(n) for n in names]
    data = Data.validate(table.data[:, columns], table.target, duplicates="mean")
    return data.X, data.Y, names, ("progression",)


def _check_sizes(n_samples: int, d: int) -> None:
    for name, value in (("n_samples", n_samples), ("d", d)):
        if not isinstance(value, int | np.integer) or value < 1:
            raise InputError(f"{name} must be a positive integer; received {value!r}.")


def make_random_plane(
    n_samples: int, d: int = 2, *, random_state: int | None = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Make standard normal points with standard normal targets: the hardest targets to interpolate.

    Returns
    -------
    X : (N, d) array
    y : (N,) array

    Raises
    ------
    InputError
        Where a size is not a positive integer.

    Examples
    --------
    >>> X, y = make_random_plane(60)
    >>> X.shape, y.shape
    ((60, 2), (60,))
    """
    _check_sizes(n_samples, d)
    rng = np.random.default_rng(random_state)
    return rng.standard_normal((n_samples, d)), rng.standard_normal(n_samples)


def make_smooth(n_samples: int, d: int = 2, *, random_state: int | None = 0) -> tuple[np.ndarray, np.ndarray]:
    """Make standard normal points with smooth targets: sin of even coordinates plus cos of odd ones.

    Returns
    -------
    X : (N, d) array
    y : (N,) array

    Raises
    ------
    InputError
        Where a size is not a positive integer.

    Examples
    --------
    >>> X, y = make_smooth(60)
    >>> bool(np.allclose(y, np.sin(X[:, 0]) + np.cos(X[:, 1])))
    True
    """
    _check_sizes(n_samples, d)
    X = np.random.default_rng(random_state).standard_normal((n_samples, d))
    return X, np.sin(X[:, ::2]).sum(axis=1) + np.cos(X[:, 1::2]).sum(axis=1)
