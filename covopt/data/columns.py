"""What a column of a table holds: numbers, or text; which are inputs where nobody says."""

from __future__ import annotations

import logging
import re
import shlex
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from covopt.checks.optional import required
from covopt.checks.validation import as_double, as_doubles
from covopt.checks.wording import listed, one_line
from covopt.data.readers import UNNAMED
from covopt.data.tabular import RowNames, to_doubles
from covopt.errors import InputError, TableWarning
from covopt.files.schema import SHOWN

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("covopt")
_FIGURES = re.compile(r"\W*\d")  # text that begins as a number does, whatever stands before it
# what pandas calls values that are numbers, where they need no look at each
_NUMBERS = frozenset({"integer", "floating", "mixed-integer-float", "decimal", "complex", "boolean", "empty"})
ROWS_OF_A_CLASS = 10  # on average, for whole numbers from 0 or 1 on to be classes
_COUNTERS = frozenset({"id", "index", "idx", "row", "rows", "rowid", "rownames", "no", "nr", "number", "#"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|#")


class Content(NamedTuple):
    """What a column holds.

    Attributes
    ----------
    kind : {"numbers", "mixed", "odd", "text"}
        Odd: text that begins with figures, as dates and numbers in another writing do. Mixed: numbers and something
        else.
    example : str
        A value that is no number.
    row : int
        Where it stands first.
    """

    kind: str
    example: str = ""
    row: int = 0


def content_of(series: pd.Series) -> Content:
    """Look at every value of a column.

    Parameters
    ----------
    series : pandas.Series

    Returns
    -------
    Content

    Examples
    --------
    >>> import pandas as pd
    >>> [content_of(pd.Series(values)).kind for values in (["$1", "$2"], ["2020-01-01"], ["no", "yes"], ["no", 1])]
    ['odd', 'odd', 'text', 'mixed']
    """
    pd = required("pandas", "reading a table", "tables")
    inferred = pd.api.types.infer_dtype(series, skipna=True)
    if inferred in _NUMBERS:
        return Content("numbers")
    texts = series.astype(object).map(str, na_action="ignore")
    distinct = texts.dropna().drop_duplicates()
    numbers = pd.to_numeric(distinct, errors="coerce").notna()
    words = distinct[~numbers].tolist()
    if not words:
        return Content("numbers")
    odd = inferred != "mixed" and all(map(_FIGURES.match, words))
    kind = "mixed" if numbers.any() else "odd" if odd else "text"
    return Content(kind, _shown(words[0]), int((texts == words[0]).to_numpy().argmax()))


def _shown(text: str) -> str:
    """Quote a text with every letter visible, blanks that are not spaces too."""
    return repr(text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…")


def to_numbers(series: pd.Series, name: str, where: str, remedy: str = "") -> np.ndarray:
    """Return a column as floats, missing values as NaN.

    Parameters
    ----------
    series : pandas.Series
        Its index says where rows stand in their file.
    name, where : str
        The column and its file, for messages.
    remedy : str
        What to do about text other than to convert it, beginning with a comma.

    Raises
    ------
    InputError
        Where it holds anything else, with the first of that.

    Examples
    --------
    >>> import pandas as pd
    >>> to_numbers(pd.Series([1, "2"]), "a", "t.csv").tolist()
    [1.0, 2.0]
    """
    found, at, called = content_of(series), RowNames.of(series).all, f"{where}: column {name!r}"
    if found.kind != "numbers":
        why = "Convert it to numbers (a date to days, '1 kg' to 1)"
        if "," in found.example:
            why = "Read decimal commas with --decimal , (decimal=','), or take them out"
        raise InputError(f"{called} is not numeric: {at(found.row)} holds {found.example}. {why}{remedy}.")
    values = series.to_numpy()
    if values.dtype.kind == "O":
        values = np.array([as_double(v) if isinstance(v, str) else v for v in values], dtype=object)
    return to_doubles(values, called, lambda position: f"{called}, {at(position[0])}")


def holds_classes(series: pd.Series) -> bool:
    """Return whether a target looks like classes: words, booleans, −1 and 1, or 0 … k − 1 ten times each on average.

    Parameters
    ----------
    series : pandas.Series

    Examples
    --------
    >>> import pandas as pd
    >>> [holds_classes(pd.Series(values)) for values in (["a", "b"], [0, 1, 1], [0.0, 1.5], [0, 1, 10**400])]
    [True, True, False, False]
    """
    content = content_of(series)
    if content.kind != "numbers":
        return content.kind == "text"
    try:
        values = np.unique(as_doubles(series.dropna()))
    except (TypeError, ValueError):
        return False
    if values.tolist() in ([-1.0, 1.0], [0.0, 1.0]):
        return True
    counts = len(values) > 2 and np.array_equal(values - values[0], np.arange(len(values)))
    return bool(counts and values[0] in (0.0, 1.0) and len(series) >= ROWS_OF_A_CLASS * len(values))


def counts_rows(name: str, values: np.ndarray) -> bool:
    """Return whether a column is called as row numbers are, or not at all, and holds distinct integers or nothing.

    Parameters
    ----------
    name : str
        ``id`` or ``PassengerId``, say.
    values : ndarray
    """
    words = {word.lower() for word in _WORD.findall(name)}
    if not (name.startswith(UNNAMED) or words & _COUNTERS):
        return False
    if values.dtype.kind in "iu":
        return len(np.unique(values)) == len(values)
    return values.dtype.kind == "f" and bool(np.isnan(values).all())


def without(name: str) -> str:
    """Return the option that leaves a column out, as a shell takes it.

    Examples
    --------
    >>> without("id"), without("customer id")
    ("--features=-id (features='-id')", "--features='-customer id' (features='-customer id')")
    """
    return f"--features={shlex.quote('-' + name)} (features='-{name}')"


def features_by_default(frame: pd.DataFrame, columns: list[str]) -> tuple[list[str], dict[str, str]]:
    """Return the columns that are features where nobody said which, and the others with the reason.

    Parameters
    ----------
    frame : pandas.DataFrame
    columns : list of str
        That may be features.

    Warns
    -----
    TableWarning
        About row numbers, which are left out.
    """
    found = {c: content_of(frame[c]) for c in columns}
    left_out = {c: f"text, as in {has.example}" for c, has in found.items() if has.kind == "text"}
    chosen = [c for c in columns if c not in left_out]
    counters = [c for c in chosen if counts_rows(c, frame[c].to_numpy())]
    if 0 < len(counters) < len(chosen):
        left_out |= dict.fromkeys(counters, "row numbers or nothing")
        chosen = [c for c in chosen if c not in counters]
        more = f". {len(counters)} columns are like this: {listed(counters)}" if len(counters) > 1 else ""
        warnings.warn(
            f"column {counters[0]!r} holds row numbers or nothing, so it is no feature; --features (features=...) "
            f"with {counters[0]!r} keeps it{more}.",
            TableWarning,
            stacklevel=4,
        )
    if left_out:
        logger.info("columns left out: %s", describe_left_out(left_out))
    return chosen, left_out


def describe_left_out(left_out: dict[str, Any]) -> str:
    """Return the columns left out and why, in one line.

    Parameters
    ----------
    left_out : dict of str
        Column to reason.

    Examples
    --------
    >>> describe_left_out({"town": "text, as in 'Bern'", "w": "not asked for", "z": "not asked for"})
    "town (text, as in 'Bern'); w, z (not asked for)"
    """
    by_reason: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        by_reason.setdefault(reason, []).append(one_line(name, 40))
    return "; ".join(
        f"{', '.join(names[:20])}{', …' if len(names) > 20 else ''} ({reason})"
        for reason, names in by_reason.items()
    )
