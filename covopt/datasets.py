"""Tables from files, the diabetes table of the demo, and synthetic tasks (``make_*``)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from itertools import pairwise
from typing import Any

import numpy as np

from covopt.checks import required
from covopt.checks.validation import check_choice, check_count, is_whole
from covopt.data import Data
from covopt.data.table_files import load_table
from covopt.errors import InputError

__all__ = [
    "load_diabetes_table",
    "load_digit_images",
    "load_table",
    "make_random_plane",
    "make_smooth",
    "make_teacher_student",
]


def load_diabetes_table(
    n_features: int = 2,
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[str, ...]]:
    """Read the diabetes table of Efron, Hastie, Johnstone and Tibshirani (2004), as scikit-learn scales it.

    The features are those most correlated with progression.

    Patients with identical values in the chosen features are merged into one row with the mean of their
    targets (the same as ``duplicates="mean"``), because a function takes one value at one point.

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
        If ``n_features`` is not between 1 and 10.

    Examples
    --------
    >>> X, Y, features, targets = load_diabetes_table()
    >>> X.shape, features, targets
    ((432, 2), ('bmi', 's5'), ('progression',))
    """
    order = ("bmi", "s5", "bp", "s4", "s3", "s6", "s1", "age", "s2", "sex")
    if not isinstance(n_features, int) or not 1 <= n_features <= len(order):
        raise InputError(f"n_features must be between 1 and {len(order)}; received {n_features!r}.")
    names = order[:n_features]
    with files("covopt.data").joinpath("diabetes.npz").open("rb") as stream, np.load(stream) as table:
        X, y = table["X"][:, [list(table["names"]).index(name) for name in names]], table["y"]
    data = Data.validate(X, y, duplicates="mean")
    return data.X, data.Y, names, ("progression",)


def _check_sizes(n_samples: int, d: int) -> None:
    for name, value in (("n_samples", n_samples), ("d", d)):
        check_count(name, value)


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
        If a size is not a positive integer.

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
        If a size is not a positive integer.

    Examples
    --------
    >>> X, y = make_smooth(60)
    >>> bool(np.allclose(y, np.sin(X[:, 0]) + np.cos(X[:, 1])))
    True
    """
    _check_sizes(n_samples, d)
    X = np.random.default_rng(random_state).standard_normal((n_samples, d))
    return X, np.sin(X[:, ::2]).sum(axis=1) + np.cos(X[:, 1::2]).sum(axis=1)


def load_digit_images(
    digits: Sequence[int] = tuple(range(10)),
    n_per_digit: int | None = None,
    *,
    source: str = "digits",
    random_state: int | None = 0,
) -> tuple[np.ndarray, np.ndarray]:
    """Read images of handwritten digits with their labels, pixels in [0, 1].

    Parameters
    ----------
    digits : sequence of int
        A selection of 0 … 9.
    n_per_digit : int, optional
        Number of images of each digit, drawn at random without replacement; all by default.
    source : {"digits", "mnist"}
        scikit-learn's own digits: 8 × 8 pixels, at least 174 images of each. Or MNIST: 28 × 28 pixels, some
        thousands of each, fetched once from OpenML (``mnist_784``) and cached by scikit-learn.
    random_state : int, optional

    Returns
    -------
    X : (N, 64) or (N, 784) array
        Images of all the digits in random order.
    labels : (N,) array of int

    Raises
    ------
    InputError
        For anything that is not a digit, more images than there are, and MNIST without a network connection.

    Examples
    --------
    >>> X, labels = load_digit_images((7, 8, 9), 14)
    >>> X.shape, np.bincount(labels)[7:].tolist(), float(X.min()), float(X.max())
    ((42, 64), [14, 14, 14], 0.0, 1.0)
    """
    wanted = list(digits)
    if not wanted or any(d not in range(10) for d in wanted) or len(set(wanted)) < len(wanted):
        raise InputError(f"digits must be different numbers from 0 to 9; received {digits!r}.")
    if check_choice("source", source, ("digits", "mnist")) == "digits":
        sets = required("sklearn.datasets", "load_digit_images", "sklearn")
        pixels, labels = sets.load_digits(return_X_y=True)
    else:
        pixels, labels = _fetch_mnist()
    rng = np.random.default_rng(random_state)
    rows = []
    for digit in wanted:
        of_digit = rng.permutation(np.flatnonzero(labels == digit))
        if n_per_digit is not None and not (
            isinstance(n_per_digit, int | np.integer) and 1 <= n_per_digit <= len(of_digit)
        ):
            raise InputError(
                f"n_per_digit must be from 1 to {len(of_digit)}, the images of digit {digit}; "
                f"received {n_per_digit!r}."
            )
        rows.append(of_digit[:n_per_digit])
    order = rng.permutation(np.concatenate(rows))
    return pixels[order] / (16.0 if source == "digits" else 255.0), labels[order]


def _fetch_mnist() -> tuple[np.ndarray, np.ndarray]:
    sets = required("sklearn.datasets", "load_digit_images", "sklearn")
    try:
        pixels, labels = sets.fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
    except Exception as error:  # network, proxy, server and cache each raise their own
        first = str(error).strip().split("\n", 1)[0] or type(error).__name__
        raise InputError(
            f"MNIST could not be fetched from OpenML ({first}); connect to a network once, or use source='digits'."
        ) from None
    return pixels.astype(float), labels.astype(int)


def make_teacher_student(
    n_samples: int,
    widths: Sequence[int] = (50, 10, 10, 10),
    *,
    random_state: int | None = 0,
    return_weights: bool = False,
) -> Any:
    r"""Make standard normal points with the outputs of a random ReLU network, the teacher (FL22 Figure 2, right).

    The teacher has no biases and standard normal weights divided by the square root of their number of inputs, so
    that the outputs have about the size of the inputs; FL22 says "random Gaussian weights" and no more.

    Parameters
    ----------
    n_samples : int
    widths : sequence of int
        Inputs, hidden layers, outputs; FL22's by default, which makes depth 3.
    random_state : int, optional
        Seed of points and teacher. The first rows of a longer table are those of a shorter one.
    return_weights : bool
        Whether to return the teacher as well.

    Returns
    -------
    X : (N, widths[0]) array
    Y : (N, widths[-1]) array
    weights : list of (n_ℓ, n_{ℓ−1}) array
        Only with ``return_weights``.

    Raises
    ------
    InputError
        If a size is not a positive integer, or fewer than two widths are given.

    Examples
    --------
    >>> X, Y = make_teacher_student(1000)
    >>> X.shape, Y.shape
    ((1000, 50), (1000, 10))
    """
    sizes = list(widths)
    _check_sizes(n_samples, 1)
    if len(sizes) < 2 or not all(is_whole(w, 1) for w in sizes):
        raise InputError(
            f"widths must be positive integers, at least those of inputs and outputs; received {widths!r}."
        )
    rng = np.random.default_rng(random_state)
    teacher = [rng.standard_normal((after, before)) / np.sqrt(before) for before, after in pairwise(sizes)]
    X = rng.standard_normal((n_samples, sizes[0]))
    Y = X
    for layer, weights in enumerate(teacher):
        Y = (np.maximum(Y, 0.0) if layer else Y) @ weights.T
    return (X, Y, teacher) if return_weights else (X, Y)
