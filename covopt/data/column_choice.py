"""Which columns of a table are inputs: those that are named, or every number, and a word about the others."""

from __future__ import annotations

import logging
import re
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covopt.checks.validation import suggest
from covopt.checks.wording import listed, one_line
from covopt.data.columns import content_of, is_constant, is_counter, is_unnamed_index
from covopt.data.readers import UNNAMED
from covopt.errors import InputError, TableWarning

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger("covopt")

NEARLY = re.compile(r"'(0[xX][0-9a-fA-F]+|\d+[-/]\d+)'$")  # text that may have been meant as a number


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
        About columns that may have been meant otherwise.
    """
    found = {c: content_of(frame[c]) for c in columns}
    left_out = {c: content.reason for c, content in found.items() if content.reason}
    chosen = [c for c in columns if c not in left_out]
    nameless = [c for c in chosen if c.startswith(UNNAMED) and is_unnamed_index(frame[c].to_numpy())]
    if len(nameless) < len(chosen):
        left_out |= dict.fromkeys(nameless, "without a name, and row numbers or nothing")
        chosen = [c for c in chosen if c not in nameless]
    else:
        nameless = []
    told = [
        c
        for c in left_out
        if c in found and (found[c].kind in ("dates", "two") or NEARLY.match(found[c].example))
    ]
    which = "; ".join(f"column {c!r} ({left_out[c]})" for c in told)
    for names, sentence in (
        (nameless, "column {0!r} has no name and holds row numbers or nothing, so it is no feature; --features "
         "(features=...) with {0!r} keeps it"),
        ([c for c in chosen if is_counter(c, frame[c])],
         "column {0!r} counts the rows and is used as a feature; leave it out with {1} if it says nothing about the "
         "target"),
        ([c for c in chosen if is_constant(frame[c])] if len(chosen) > 1 else [],
         "column {0!r} holds {2} in every row and is used as a feature, though it can tell no rows apart; leave it "
         "out with {1}"),
        (told[:1] if chosen else [], "left out because no numbers: {3}; turn them into numbers to use them"),
    ):  # fmt: skip
        if names:
            more = f". {len(names)} columns are like this: {listed(names)}" if len(names) > 1 else ""
            text = sentence.format(names[0], without(names[0]), frame[names[0]].iloc[0], which)
            warnings.warn(f"{text}{more}.", TableWarning, stacklevel=4)
    if left_out:
        logger.info("columns left out: %s", describe_left_out(left_out))
    return chosen, left_out


def taken_away(features: str | Sequence[str] | None, columns: Sequence[str]) -> list[str]:
    """Return the columns that are no features where all others are wanted; none where features are named.

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
        What messages call it.
    wanted : str, sequence of str or None
        Names of columns or of groups; ``"a,b"`` names two.
    columns : sequence of str
    groups : dict
        Names that stand for several columns.
    path : Path

    Raises
    ------
    InputError
        For names that are none, or stand twice.
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
