"""Checks before anything is computed: of arguments, memory and installed packages; logs; and here texts for people.

Numbers with nouns, lists of names, messages of other programs in one line, tables, checks. Packages that the core
does without are imported when needed; if one is missing, the message names its extra.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from html import escape
from importlib import import_module
from typing import Any, ClassVar

from covopt.errors import MissingPackageError


def required(module: str, needed_by: str, extra: str) -> Any:
    """Return a module that is not among the dependencies of the core.

    Parameters
    ----------
    module : str
    needed_by : str
        What cannot be done without it, as the subject of a sentence.
    extra : str
        What to install it with.

    Raises
    ------
    MissingPackageError
        If it is not installed; the message has the command that installs it.

    Examples
    --------
    >>> required("json", "reading", "core").loads("[1]")
    [1]
    >>> required("no_such_package", "covopt dream", "dreams")
    Traceback (most recent call last):
    covopt.errors.MissingPackageError: covopt dream needs no_such_package: pip install '.[dreams]' in the checkout
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module}.".startswith(f"{error.name}."):
            raise  # it is there, and lacks something itself
        package = module.partition(".")[0]
        package = {"sklearn": "scikit-learn"}.get(package, package)
        raise MissingPackageError(
            f"{needed_by} needs {package}: pip install '.[{extra}]' in the checkout"
        ) from None


class Brief:
    """Base of dataclasses whose repr is one line: shapes of arrays and lengths of long values instead of content."""

    def __repr__(self) -> str:
        said = (f"{f.name}={_brief(getattr(self, f.name))}" for f in fields(self) if f.repr)  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(said)})"


class Rows:
    """Base of classes with a summary of rows, each a name and a text; in notebooks it is a table."""

    WIDTH: ClassVar[int] = 14

    def _rows(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def summary(self) -> str:
        """Return the summary, with a line for each row."""
        return "\n".join(row(name, text, self.WIDTH) for name, text in self._rows())

    def _repr_html_(self) -> str:
        return html_table(self._rows())


def row(name: str, text: object, width: int = Rows.WIDTH) -> str:
    """Return a line of a summary: a name and a text.

    Examples
    --------
    >>> row("neurons", 3)
    'neurons        3'
    """
    return f"{name:<{width}} {text}"


def _brief(value: Any) -> str:
    if getattr(value, "shape", ()):
        return f"<{' × '.join(map(str, value.shape))}>"
    text = "" if isinstance(value, bytes) else repr(value)
    if text and len(text) <= 70 and "\n" not in text:
        return text
    return f"<{len(value)}>" if hasattr(value, "__len__") else f"<{type(value).__name__}>"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, in the singular for one.

    Parameters
    ----------
    number : int
    noun : str
        Singular, possibly with adjectives.
    plural : str, optional
        By default the noun with an s.

    Examples
    --------
    >>> counted(1, "point"), counted(2, "point"), counted(0, "entry", "entries")
    ('1 point', '2 points', '0 entries')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"


def listed(names: Sequence[str], most: int = 20) -> str:
    """Return names with commas; of many names the first ones and the last, which often is the target.

    Parameters
    ----------
    names : sequence of str
    most : int

    Examples
    --------
    >>> listed(["a", "b"]), listed([f"x{i}" for i in range(30)], 2)
    ('a, b', 'x0, …, x29 (30 in all)')
    """
    shown = [one_line(name, 40) for name in names[: most if len(names) <= most else most - 1]]
    if len(names) > most:
        shown += ["…", f"{one_line(names[-1], 40)} ({len(names)} in all)"]
    return ", ".join(shown)


def one_line(said: object, most: int = 160) -> str:
    r"""Return a text of another program or file as one short line of printable letters.

    Parameters
    ----------
    said : object
    most : int
        Most letters.

    Examples
    --------
    >>> one_line("no such\x00 field\nat line 1"), len(one_line("x" * 1000))
    ('no such\\x00 field', 160)
    """
    first = str(said).strip().split("\n", 1)[0] or type(said).__name__
    shown = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in first[:most]
    )
    return shown if len(first) <= most and len(shown) <= most else f"{shown[: most - 1]}…"


def html_table(rows: Iterable[Sequence[object]], *, head: Sequence[str] = (), caption: str = "") -> str:
    """Return an HTML table; every cell is escaped.

    Parameters
    ----------
    rows : iterable of sequences
    head : sequence of str
        Names of the columns.
    caption : str

    Examples
    --------
    >>> html_table([("a<b",)])
    '<table><tbody><tr><td style="text-align:left">a&lt;b</td></tr></tbody></table>'
    """
    cell = '<td style="text-align:left">{}</td>'
    body = "".join(f"<tr>{''.join(cell.format(escape(str(c))) for c in row)}</tr>" for row in rows)
    top = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in head)
    return (
        "<table>"
        + (f"<caption>{escape(caption)}</caption>" if caption else "")
        + (f"<thead><tr>{top}</tr></thead>" if top else "")
        + f"<tbody>{body}</tbody></table>"
    )


NOT_EXACT = "NOT exact"


@dataclass(frozen=True)
class Check:
    """The check of a claim: its name, whether it holds, and the numbers."""

    name: str
    ok: bool
    detail: str

    @property
    def floating(self) -> bool:
        """Whether it holds in floating point only, although exact arithmetic was requested."""
        return self.ok and NOT_EXACT in self.detail
