"""The page itself: everything in one HTML file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from covopt.checks.optional import required
from covopt.checks.validation import check_time_limit
from covopt.checks.wording import counted
from covopt.errors import InputError
from covopt.explore.drawing import MOST_POINTS
from covopt.explore.neurons import MOST_NEURONS, MOST_ROWS, describe
from covopt.explore.panels import MOST_OUTPUTS, Panel, cell_panel, dual_panel, function_panels
from covopt.explore.progress import path_panel, rounds_panel
from covopt.files import write_atomically
from covopt.limits import TimeUp, limited, now
from covopt.solution.summary import summary_rows

Drawn = TypeVar("Drawn")
MOST_STEPS = 60  # of a path; each has its own figures


def write_page(
    found: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    time_limit_s: float | None = None,
) -> list[str]:
    """Write one HTML file that shows a solution, or a path with a slider along it.

    Of one or two inputs: the function with its kinks; of more: slices and predicted against actual. Then the dual
    function with its tight set, which points each neuron sees, the rounds of the solve or the path, and a table of
    the neurons. The file needs no connection: plotly's JavaScript is within it.

    Parameters
    ----------
    found : Solution, or sequence of Solution
        A solution, or the points of a path.
    path : path-like
        Ends in .html.
    title : str, optional
        Of the page.
    time_limit_s : float, optional
        Pictures that there is no time for are left out; the table of neurons is always there.

    Returns
    -------
    list of str
        What was left out; the page says so, too.

    Raises
    ------
    InputError
        Where ``found`` holds no network on a table, and where the file has another extension.
    MissingPackageError
        Without plotly; the extra ``[explore]`` has it.

    Examples
    --------
    >>> import covopt, pathlib, tempfile
    >>> solution = covopt.min_norm([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "page.html"
    >>> covopt.explore.write_page(solution, file)
    []
    >>> file.read_text().startswith("<!doctype html>")
    True
    """
    check_page_path(path)
    left_out: list[str] = []
    content = page_html(found, title=title, time_limit_s=time_limit_s, left_out=left_out).encode()
    write_atomically(Path(path), lambda stream: stream.write(content))
    return left_out


def check_page_path(path: str | os.PathLike[str]) -> None:
    """Refuse a file name that is none of a page.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    InputError
        Where it does not end in .html or .htm.
    """
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{os.fspath(path)}: a page is written as .html; change the extension.")


def page_html(
    found: Any,
    *,
    title: str | None = None,
    time_limit_s: float | None = None,
    left_out: list[str] | None = None,
) -> str:
    """Return the page of :func:`write_page` as text.

    Parameters
    ----------
    found : Solution, or sequence of Solution
    title : str, optional
    time_limit_s : float, optional
    left_out : list of str, optional
        Gets what there was no time for.

    Raises
    ------
    InputError
        Where ``found`` holds no network on a table.
    MissingPackageError
        Without plotly.
    """
    steps, is_path = _steps_of(found)
    offline = required("plotly.offline", "covopt explore", "explore")
    began, limit = now(), check_time_limit(time_limit_s)
    late: list[str] = []

    def in_time(what: str, draw: Callable[[], Drawn]) -> Drawn | None:
        try:
            with limited(None if limit is None else limit - (now() - began)):
                return draw()
        except TimeUp:
            late.append(what)
            return None

    last = steps[-1]
    progress: Panel | None
    if is_path:
        progress, says = in_time("the path", lambda: path_panel(steps)) or (None, [])
        steps = steps if says else [last]
    else:
        progress, says = in_time("the rounds", lambda: rounds_panel(last)), []
    neurons = [describe(s) for s in steps]
    seen = [s.in_your_units() for s in steps]
    notes = _notes(last, steps, is_path, len(found) if is_path else 1)
    if progress is None and not late:
        notes.append("The solve had no rounds to draw.")

    panels = in_time("the function", lambda: function_panels(seen, neurons)) or []
    dual, about_tight = in_time("the dual function", lambda: dual_panel(steps, neurons)) or (None, [])
    cells = in_time("the neurons' points", lambda: cell_panel(steps, neurons))
    panels = [*panels, *(panel for panel in (dual, cells) if panel is not None)]
    if progress is not None:
        panels = [progress, *panels] if is_path else [*panels, progress]
    if late:
        notes.append(f"There was no time for {' and '.join(late)}.")
        if left_out is not None:
            left_out.extend(late)
    beside = [p for p in panels if not p.wide]
    if len(beside) % 2:
        beside[-1].wide = True
    what = title or _title_of(last, is_path)
    content = {
        "says": says,
        "start": len(says) - 1,
        "panels": [_panel_json(p) for p in panels],
        "tables": [{"columns": n.columns, "rows": n.rows, "left": len(n) - len(n.rows)} for n in neurons],
    }
    template = files("covopt.explore").joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": escape(what),
        "FACTS": _facts(last, is_path),
        "NOTES": "".join(f"<li>{escape(n)}</li>" for n in [*notes, *about_tight]),
        "PANELS": "".join(_panel_html(p) for p in panels),
        "STEPS": str(max(0, len(says) - 1)),
        "HIDDEN": "" if says else "hidden",
        "DATA": json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c"),
        "PLOTLY": offline.get_plotlyjs(),
    }
    for name, text in parts.items():  # plotly's own text comes last: it is not searched for marks
        template = template.replace(f"<!--{name}-->", text, 2 if name == "TITLE" else 1)
    return template


def _steps_of(found: Any) -> tuple[list[Any], bool]:
    """Return solutions, and whether they are a path."""
    is_path = isinstance(found, Sequence)
    steps = list(found) if is_path else [found]
    for s in steps:
        if not all(hasattr(s, name) for name in ("network", "dual", "history", "certificate", "data")):
            what = type(s).__name__
            raise InputError(
                f"explore shows solutions with one hidden layer, and paths of them; received a {what}. Print it, or "
                "ask `covopt verify` about its file."
            )
    if not steps:
        raise InputError("explore needs at least one point of a path; received none.")
    if len(steps) > MOST_STEPS:
        steps = [steps[i] for i in np.linspace(0, len(steps) - 1, MOST_STEPS).astype(int)]
    return steps, is_path and len(steps) > 1


def _title_of(solution: Any, is_path: bool) -> str:
    names = ", ".join(solution.data.target_names[:3]) + (", …" if solution.data.n_outputs > 3 else "")
    if solution.loss is not None and solution.loss.is_classification and solution.loss.column:
        names = solution.loss.column
    inputs = ", ".join(solution.data.feature_names[:4]) + (", …" if solution.data.n_features > 4 else "")
    return f"{'Path: ' if is_path else ''}{names} from {inputs}" if inputs else names


def _facts(solution: Any, is_path: bool) -> str:
    """Return the summary as a list of terms; of a path its last point."""
    rows = [("facts of", "the smallest λ of the path")] if is_path else []
    kept = ("problem", "standardised", "status", "loss", "objective", "cost ‖W‖²", "cost Σ|v|ω(w)", "lower bound",
            "relative gap", "interpolation", "neurons", "potential", "undetermined")  # fmt: skip
    rows += [(name, text) for name, text in summary_rows(solution) if name in kept]
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in rows)


def _notes(solution: Any, steps: Sequence[Any], is_path: bool, given: int) -> list[str]:
    """Return sentences about what cannot be shown."""
    data, said = solution.data, []
    if len(solution.network) == 0:
        said.append("The network has no neuron: it is constant.")
    if is_path and given > len(steps):
        said.append(f"{len(steps)} of the {given} points of the path are shown.")
    if solution.scaling is not None:
        said.append(
            "The columns were standardised: weights, cost and slack are those on the standardised columns, "
            "the function and its kinks are in the units of the table."
        )
    if data.n_samples > MOST_POINTS:
        said.append(
            f"{MOST_POINTS} of the {data.n_samples} points are drawn; all of them are in the numbers."
        )
    classes = solution.loss is not None and solution.loss.is_classification
    if data.n_outputs > MOST_OUTPUTS and not classes:
        said.append(f"The first {MOST_OUTPUTS} of {data.n_outputs} outputs are drawn.")
    if data.n_features == 0:
        said.append("There is no input to draw the function against.")
    if data.n_features == 1 and data.n_outputs > 1 and not classes:
        said.append("Kinks are drawn on the first output; every output bends there.")
    most = max(len(s.network) for s in steps)
    if most > MOST_ROWS:
        drawn = f", the pictures the {MOST_NEURONS} costliest" if most > MOST_NEURONS else ""
        said.append(f"The table has the {MOST_ROWS} costliest of {counted(most, 'neuron')}{drawn}.")
    return said


def _panel_json(panel: Panel) -> dict[str, Any]:
    from plotly.io import to_json

    figures = [json.loads(to_json(figure, validate=False)) for figure in panel.figures]
    return {"key": panel.key, "figures": figures, "cursor": panel.cursor}


def _panel_html(panel: Panel) -> str:
    key = escape(panel.key)
    height = panel.figures[0].layout.height
    return (
        f'<figure class="panel{" wide" if panel.wide else ""}" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(panel.title)}</h2>'
        f'<div id="{key}" class="plot" style="height:{height}px" role="img" '
        f'aria-labelledby="{key}-title {key}-caption"></div>'
        f'<figcaption id="{key}-caption">{escape(panel.caption)}</figcaption></figure>'
    )
