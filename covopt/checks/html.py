"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


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
