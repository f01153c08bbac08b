"""Read tables from files, select features, targets and weights, and say which columns are left out.

Columns of words can become columns of 0 and 1, one for each word: ``town=Bern`` is 1 where the town is Bern.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from covopt.checks import listed, required
from covopt.checks.validation import suggest
from covopt.data.columns import (
    content_of,
    describe_left_out,
    features_by_default,
    holds_classes,
    to_numbers,
    without,
)
from covopt.data.readers import Text, read_frame
from covopt.data.tabular import RowNames, check_finite
from covopt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MOST_WORDS = 50  # different words of a column above which it is not a category


def one_hot(frame: pd.DataFrame, keep: Sequence[str]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Replace columns of words by indicators; for two words there is one, of the second. Missing values stay missing.

    Parameters
    ----------
    frame : pandas.DataFrame
    keep : sequence of str
        Columns that are not replaced: targets and weights.

    Returns
    -------
    frame : pandas.DataFrame
    groups : dict of str to list of str
        The names of the indicators of each column of words.
    """
    groups = {}
    for name in frame.columns:
        if name not in keep and content_of(frame[name]).kind in ("text", "two"):
            words = sorted({str(word) for word in frame[name].dropna()})
            if 1 < len(words) <= MOST_WORDS:
                groups[name] = [f"{name}={word}" for word in (words[1:] if len(words) == 2 else words)]
    order = [each for name in frame.columns for each in groups.get(name, [name])]
    return with_indicators(frame, order)[order], groups


def with_indicators(frame: pd.DataFrame, names: str | Sequence[str] | None) -> pd.DataFrame:
    """Add the named indicators, such as ``town=Bern`` if there is a column ``town``; saved networks name them.

    Parameters
    ----------
    frame : pandas.DataFrame
    names : str, sequence of str or None
    """
    added = {}
    for name in names.split(",") if isinstance(names, str) else names or []:
        column, equals, word = name.strip().partition("=")
        if equals and name.strip() not in frame.columns and column in frame.columns:
            words = frame[column]
            added[name.strip()] = np.where(words.isna(), np.nan, words.astype(str) == word)
    return frame.assign(**added)


_CLASSES = "; for classes train with a loss, as in covopt fit --loss logistic"


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file that were read, and those that were left out.

    Attributes
    ----------
    X : (N, d) array
    Y : (N, k) array, or (N,) labels
    feature_names, target_names : tuple of str
    left_out : dict of str
        The reason for each column that is neither.
    weights : (N,) array or None
        The sample weights.
    index : pandas.Index
        Index of the rows; called ``line`` or ``sheet row`` if it holds their places in the file.
    dropped : int
        Number of rows dropped because of missing values.
    lacking : dict of str to int
        Numbers of missing values by column in these rows, in decreasing order.
    """

    X: np.ndarray
    Y: np.ndarray
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    index: pd.Index = field(repr=False)
    left_out: dict[str, str] = field(default_factory=dict)
    weights: np.ndarray | None = None
    dropped: int = 0
    lacking: dict[str, int] = field(default_factory=dict)

    @property
    def features(self) -> pd.DataFrame:
        """X with names and the index of the rows, so that messages can name the lines of the file."""
        pd = required("pandas", "reading a table", "tables")
        return pd.DataFrame(self.X, columns=list(self.feature_names), index=self.index)

    @property
    def targets(self) -> pd.DataFrame | pd.Series:
        """Y with names and the index of the rows; labels are a Series."""
        pd = required("pandas", "reading a table", "tables")
        if self.Y.ndim == 1:
            return pd.Series(self.Y, name=self.target_names[0], index=self.index)
        return pd.DataFrame(self.Y, columns=list(self.target_names), index=self.index)

    def check_inputs(self) -> None:
        """Refuse inputs that are not finite.

        Raises
        ------
        InputError
            With the first one.
        """
        check_finite("X", self.X, self.feature_names, RowNames.of(self.features))


def read_table(
    path: str | Path,
    *,
    target: str | Sequence[str] | None,
    features: str | Sequence[str] | None = None,
    labels: bool | None = False,
    weight: str | None = None,
    text: Text | None = None,
    words: bool = False,
    drop_missing: bool = False,
) -> Table:
    r"""Read inputs, targets and weights from a file, as :func:`load_table` does, with the columns left out.

    Parameters
    ----------
    path, target, features, labels
        As for :func:`load_table`; ``labels=None`` takes the target as labels if it looks like classes.
    weight : str, optional
        The column of sample weights; it is a feature only if it is named as one.
    text : Text, optional
        How to read text tables.
    words : bool
        Whether columns of words become columns of 0 and 1 (:mod:`covopt.data.table_files`).
    drop_missing : bool
        Whether rows with a missing value in a column that is used are dropped.

    Returns
    -------
    Table

    Raises
    ------
    InputError
        As :func:`load_table`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> table = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = table.write_text("a,town,y\n0,Bern,2\n3,Thun,5\n4,Genf,6\n")
    >>> read_table(table, target="y").left_out
    {'town': "text, as in 'Bern'"}
    """
    path = Path(path)
    frame, groups = read_frame(path, text or Text())
    words_of: dict[str, list[str]] = {}
    if words:
        asked = [target] if isinstance(target, str) else [*(target or [])]
        frame, words_of = one_hot(
            frame, [name.strip() for part in [*asked, weight or ""] for name in (part, *part.split(","))]
        )
    frame, targets, chosen, weighing, left_out = _roles(
        frame, groups | words_of, path, target, features, weight
    )
    missing = frame[[*chosen, *targets, *weighing]].isna() & drop_missing
    whole, lacking = ~missing.any(axis=1), missing.sum()
    if not whole.any():
        raise InputError(
            f"{path}: every row lacks a value in a column that is used; name fewer with --features."
        )
    frame = frame[whole]
    of_words = {name: column for column, group in words_of.items() for name in group}
    lacking = lacking[lacking > 0].sort_values(ascending=False, kind="stable")

    def numbers(names: list[str], remedy: str = "") -> np.ndarray:
        found = [to_numbers(frame[c], c, str(path), remedy.format(without(c))) for c in names]
        return np.column_stack(found) if found else np.empty((len(frame), 0))

    if labels is None:
        labels = len(targets) == 1 and holds_classes(frame[targets[0]])
    if labels and len(targets) != 1:
        raise InputError(f"classes stand in one column; target names {len(targets)}.")
    if labels and content_of(frame[targets[0]]).kind not in ("numbers", "mixed"):
        Y = np.asarray(frame[targets[0]])
    else:
        Y = numbers(targets, _CLASSES)
    return Table(
        numbers(chosen, ", or leave it out with {}"), Y[:, 0] if labels and Y.ndim == 2 else Y, tuple(chosen),
        tuple(targets), frame.index, left_out, numbers(weighing)[:, 0] if weighing else None,
        int((~whole).sum()), {of_words.get(name, name): int(count) for name, count in lacking.items()},
    )  # fmt: skip


def taken_away(features: str | Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Return the columns that ``features`` excludes, as in ``-id,-weight``; none if it names the features.

    Parameters
    ----------
    features : str, sequence of str or None
    columns : sequence of str

    Examples
    --------
    >>> taken_away("-id,-weight", ["id", "weight", "y"]), taken_away("id", ["id", "weight", "y"])
    (['id', 'weight'], [])
    """
    names = [name.strip() for name in features.split(",")] if isinstance(features, str) else []
    less = [name[1:] for name in names if name.startswith("-") and name not in columns]
    return less if len(less) == len(names) else []


def resolve(
    argument: str,
    wanted: str | Sequence[str] | None,
    columns: Sequence[str],
    groups: dict[str, list[str]],
    path: Path,
) -> list[str]:
    """Return the columns that an argument names.

    Parameters
    ----------
    argument : str
        The name of the argument, for messages.
    wanted : str, sequence of str or None
        Names of columns or of groups; ``"a,b"`` names two.
    columns : sequence of str
    groups : dict
        The columns of each group.
    path : Path

    Raises
    ------
    InputError
        For unknown names, and for columns named twice.
    """
    if wanted is None:
        return []
    if isinstance(wanted, str):
        wanted = [wanted] if wanted in columns or wanted in groups else [w.strip() for w in wanted.split(",")]
    names: list[str] = []
    for name in wanted:
        if name not in columns and name not in groups:
            near = suggest(name, columns) or "."
            raise InputError(f"{argument}: {path} has no column {name!r}{near} Available: {listed(columns)}.")
        names.extend([name] if name in columns else groups[name])
    repeated = [n for n in names if names.count(n) > 1]
    if repeated:
        raise InputError(f"{argument} names the column {repeated[0]!r} twice.")
    if not names:
        raise InputError(f"{argument} names no column. Available: {listed(columns)}.")
    return names


def _roles(
    frame: pd.DataFrame,
    groups: dict[str, list[str]],
    path: Path,
    target: str | Sequence[str] | None,
    features: str | Sequence[str] | None,
    weight: str | None,
) -> tuple[pd.DataFrame, list[str], list[str], list[str], dict[str, str]]:
    """Return the frame with the requested indicators, its targets, features and weights, and the columns left out."""
    less = taken_away(features, list(frame.columns))
    frame = with_indicators(frame, None if less else features)
    columns = list(frame.columns)
    if not columns or len(frame) == 0:
        raise InputError(f"{path} has no {'rows' if columns else 'columns'}; at least one sample is needed.")
    targets, chosen, weighing, less = (
        resolve(of, names, columns, groups, path)
        for of, names in (
            ("target", target), ("features", None if less else features), ("--sample-weight", weight),
            ("features", less or None),
        )
    )  # fmt: skip
    if len(weighing) > 1:
        raise InputError(f"--sample-weight takes one column; received {weight!r}.")
    for roles, names in (("a feature", chosen), ("the sample weight", weighing)):
        both = [c for c in names if c in targets]
        if both:
            raise InputError(f"column {both[0]!r} is both {roles} and the target; name it once.")
    reasons: dict[str, str] = {}
    if not chosen:
        chosen, reasons = features_by_default(
            frame, [c for c in columns if c not in (*targets, *weighing, *less)]
        )
        if not chosen:
            besides = f" besides the target {', '.join(map(repr, targets))}" if targets else ""
            raise InputError(
                f"{path} has no numeric column{besides}: {describe_left_out(reasons) or 'no other'}."
            )
    left_out = (
        dict.fromkeys(columns, "not asked for") | reasons | dict.fromkeys(weighing, "the sample weight")
    )
    left_out = {c: why for c, why in left_out.items() if c not in (*chosen, *targets)}
    return frame, targets, chosen, weighing, left_out


def load_table(
    path: str | Path,
    *,
    target: str | Sequence[str] | None,
    features: str | Sequence[str] | None = None,
    labels: bool = False,
    sep: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> tuple[np.ndarray, np.ndarray, tuple[str, ...], tuple[str, ...]]:
    r"""Read inputs and targets from a CSV, Parquet, Feather, Excel or NPZ file, chosen by its extension.

    Parameters
    ----------
    path : str or Path
        ``.csv`` (comma, semicolon, tab or bar; the first line names the columns), ``.tsv``, ``.txt``, each also with
        ``.gz``, ``.bz2``, ``.xz`` or ``.zip`` after it; ``-`` for CSV from standard input;
        ``.parquet``, ``.pq``, ``.feather``, ``.xlsx`` (needs openpyxl); or ``.npz`` (one-dimensional arrays are
        columns of their name; an (N, d) array ``X`` holds the columns ``x0, x1, …``, any other (N, d) array ``a``
        the columns ``a0, a1, …``).
    target : str, sequence of str or None
        Target columns; ``"y1,y2"`` names two. In NPZ files the name of a two-dimensional array stands for all
        of its columns, and ``y`` also finds ``Y``. None: no targets, Y has no columns.
    features : str or sequence of str, optional
        Input columns, by default every other numeric column in the order of the file. Columns of text are
        left out, columns of dates or of two words with a warning; a column that mixes numbers with text, or holds
        numbers in another notation (``$10``, ``1%``, ``1_000``), is an error. Columns without a name that are empty
        or hold different whole numbers (an index written by pandas) are left out with a warning. A column called
        ``id`` (or ``index``, ``row``, …) that counts the rows is used, with a warning.
    labels : bool
        Whether the target is one column of classes, which may be text; then Y is (N,) and holds the labels.
    sep, encoding, decimal : str
        For text tables: the separator of columns (by default the most frequent one in the first line), the encoding,
        and the decimal point.

    Returns
    -------
    X : (N, d) array
    Y : (N, k) array
    feature_names, target_names : tuple of str

    Raises
    ------
    InputError
        If the file is missing or cannot be read, a column is unknown, repeated or not numeric, or the table is
        empty; the message names the column and the line of the file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> table = pathlib.Path(tempfile.mkdtemp()) / "table.csv"
    >>> _ = table.write_text("a,b,y\n0,1,2\n3,4,5\n")
    >>> X, Y, features, targets = load_table(table, target="y")
    >>> X.tolist(), Y.tolist(), features, targets
    ([[0.0, 1.0], [3.0, 4.0]], [[2.0], [5.0]], ('a', 'b'), ('y',))
    """
    found = read_table(
        path, target=target, features=features, labels=labels, text=Text(sep, encoding, decimal)
    )
    return found.X, found.Y, found.feature_names, found.target_names
