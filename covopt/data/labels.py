"""Labels of classes: to ±1 for two classes, to one-hot rows for several."""

from __future__ import annotations

from typing import Any

import numpy as np

from covopt.checks.wording import listed
from covopt.data.tabular import RowNames
from covopt.errors import InputError

INFINITE = (np.inf, -np.inf)


def codes_of(scores: np.ndarray) -> np.ndarray:
    """Return the class of each row of scores, or of encoded targets, counted from 0.

    Examples
    --------
    >>> codes_of(np.array([-1.0, 1.0])).tolist(), codes_of(np.eye(3)).tolist()
    ([0, 1], [0, 1, 2])
    """
    scores = scores[:, 0] if scores.ndim == 2 and scores.shape[1] == 1 else scores
    found: np.ndarray = (scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)
    return found


def _as_labels(Y: Any) -> tuple[np.ndarray, list[Any]]:
    """Return the labels as given, of one dimension or a matrix for one-hot rows, and their distinct values."""
    labels = np.asarray(Y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim not in (1, 2) or not len(labels):
        raise InputError(f"Y must hold one label for each sample; received shape {labels.shape}.")
    if labels.ndim == 2:
        return labels, []
    given = labels.tolist()
    lacking = next((i for i, v in enumerate(given) if v is None or v != v or v in INFINITE), None)  # noqa: PLR0124
    if lacking is not None:
        where = RowNames.of(Y).all(lacking)
        raise InputError(f"Y {where} is missing or is not finite; every sample needs a label.")
    if len({isinstance(label, str) for label in given}) > 1:
        raise InputError("Y mixes strings with other labels; use one kind.")
    return labels, np.unique(labels).tolist()


def _shown(values: list[Any]) -> str:
    return listed([repr(value) for value in values])


def encode_binary(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return ±1 of shape (N, 1) and the labels of −1 and +1.

    Parameters
    ----------
    loss : str
        For messages.
    Y : array_like of shape (N,) or (N, 1)
        −1 and 1, 0 and 1, booleans, or two strings (in alphabetical order).
    known : tuple, optional
        Labels found before, of −1 and 1.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> encode_binary("logistic", [True, False])[0].ravel().tolist()
    [1.0, -1.0]
    """
    labels, found = _as_labels(Y)
    if labels.ndim == 2:
        raise InputError(
            f"loss={loss!r} takes one label for each sample, but Y has shape {labels.shape}; "
            'for several classes use loss="softmax-cross-entropy".'
        )
    pairs: list[tuple[Any, Any]] = [(-1, 1), (False, True) if labels.dtype.kind == "b" else (0, 1)]
    if isinstance(found[0], str):
        pairs = [(found[0], found[1])] if len(found) == 2 else []
    for pair in pairs:
        if set(found) <= set(pair):
            signs = np.where(labels == pair[1], 1.0, -1.0)[:, None]
            return signs, known or pair if pair == (-1, 1) else pair
    hint = ' (for more than two classes use loss="softmax-cross-entropy")' if len(found) > 2 else ""
    raise InputError(
        f"loss={loss!r} needs labels of two classes, -1 and 1, 0 and 1, booleans or two strings; "
        f"Y holds {_shown(found)}{hint}."
    )


def encode_classes(
    loss: str, Y: Any, known: tuple[Any, ...] | None = None
) -> tuple[np.ndarray, tuple[Any, ...]]:
    """Return one-hot rows (N, k) and the labels of the columns, sorted.

    Parameters
    ----------
    loss : str
        For messages.
    Y : array_like of shape (N,) or (N, k)
        Integers, booleans or strings; or rows with a single one and zeros.
    known : tuple, optional
        Labels found before.

    Raises
    ------
    InputError
        For fractions, rows that are not one-hot, and a single class.

    Examples
    --------
    >>> encode_classes("softmax-cross-entropy", [3, 5, 3])
    (array([[1., 0.], [0., 1.], [1., 0.]]), (3, 5))
    """
    labels, found = _as_labels(Y)
    if labels.ndim == 2:
        ones = labels == 1
        wrong = (~ones & (labels != 0)).any(axis=1) | (ones.sum(axis=1) != 1)
        if wrong.any():
            raise InputError(
                f"loss={loss!r}: Y {RowNames.of(Y).all(int(np.argmax(wrong)))} is not one-hot: "
                "give a single 1 in each row, or one column of labels."
            )
        return ones.astype(float), known or tuple(range(ones.shape[1]))
    if labels.dtype.kind in "fc" and (labels != np.round(labels)).any():
        row = int(np.argmax(labels != np.round(labels)))
        raise InputError(
            f"loss={loss!r} needs classes, but Y {RowNames.of(Y).all(row)} is {labels[row]:g}; "
            'use integers or strings, or loss="squared" for numbers.'
        )
    if labels.dtype.kind == "f":
        labels, found = labels.astype(int), [int(value) for value in found]
    kinds = known if known is not None and set(found) <= set(known) else tuple(found)
    if len(kinds) < 2:
        raise InputError(f"loss={loss!r} needs at least two classes; every label in Y is {_shown(found)}.")
    return np.column_stack([labels == kind for kind in kinds]).astype(float), kinds
