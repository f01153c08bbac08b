"""An interactive HTML page of a solution, or of a path with a slider, with hover texts and a table of the neurons.

The page works offline: it contains plotly's JavaScript (extra ``[explore]``).
"""

from __future__ import annotations

import base64
import gzip
import json
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from covopt.checks import counted, required
from covopt.checks.validation import check_time_limit
from covopt.errors import InputError
from covopt.explore.drawing import describe, figure_of, sight_picture
from covopt.files import write_atomically
from covopt.limits import TimeUp, limited, now
from covopt.plotting import agreement, function_pictures
from covopt.plotting.dual import dual_picture, tight_neurons
from covopt.plotting.history import history_pictures, path_pictures
from covopt.plotting.pictures import INK, MOST_MARKS, MOST_OUTPUTS, Picture, limits, short
from covopt.solution.summary import quality, summary_rows

__all__ = ["page_html", "write_page"]

MOST_STEPS = 30  # points of a path that are shown, each with its own figures
NOT_SHOWN = ("features", "hint", "solver", "hard column")


def write_page(
    found: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    time_limit_s: float | None = None,
) -> list[str]:
    """Write one HTML file that shows a solution, or a path with a slider along it.

    For one or two inputs the page shows the function with its kinks, for more its dependence on one input at a time.
    It also shows predictions against targets, the dual function with its tight set, the points on which each neuron
    is active, the bounds over time or the path, and a table of the neurons. It works offline: it contains plotly.

    Parameters
    ----------
    found : Solution, or sequence of Solution
        A solution, or the points of a path.
    path : path-like
        Ends in .html.
    title : str, optional
        Title of the page.
    time_limit_s : float, optional
        Pictures that would take longer are left out; the table of neurons is always there.

    Returns
    -------
    list of str
        The pictures left out, which the page names too.

    Raises
    ------
    InputError
        If ``found`` holds no network on a table, or the file has another extension.
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
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{os.fspath(path)}: a page is written as .html; change the extension.")
    left_out: list[str] = []
    content = page_html(found, title=title, time_limit_s=time_limit_s, left_out=left_out).encode()
    write_atomically(Path(path), lambda stream: stream.write(content))
    return left_out


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
        The names of pictures left out are appended to it.

    Raises
    ------
    InputError
        If ``found`` holds no network on a table.
    MissingPackageError
        Without plotly.
    """
    steps, is_path = _steps_of(found)
    offline = required("plotly.offline", "covopt explore", "explore")
    began, limit = now(), check_time_limit(time_limit_s)
    last, neurons = steps[-1], [describe(s) for s in steps]
    about_tight: dict[str, None] = {}

    def function() -> list[Any]:
        seen = [(s.in_your_units(), n.marked(yours=True)) for s, n in zip(steps, neurons, strict=True)]
        drawn = zip(*([*function_pictures(s, m), agreement(s)] for s, m in seen), strict=True)
        *whole, said = [[[picture] for picture in each] for each in drawn]
        return [*((f"function-{j}", stacks) for j, stacks in enumerate(whole)), ("agreement", said)]

    def dual() -> list[Any]:
        tight = [tight_neurons(s) for s in steps]
        about_tight.update({said: None for _, said in tight if said})
        seen = zip(steps, neurons, tight, strict=True)
        return [("dual", [[dual_picture(s, n.marked(), t)] for s, n, (t, _) in seen])]

    def points() -> list[Any]:
        return [("points", [[sight_picture(s, n)] for s, n in zip(steps, neurons, strict=True)])]

    def progress() -> list[Any]:
        held_out = getattr(found, "held_out", None)
        return [("progress", [path_pictures(steps, held_out) if is_path else history_pictures(last)])]

    builders: dict[str, Callable[[], list[Any]]] = {
        "the path" if is_path else "the rounds": progress, "the function": function, "the dual function": dual,
        "the neurons' points": points,
    }  # fmt: skip
    panels, late = [], []
    for what, build in builders.items():
        try:
            with limited(None if limit is None else limit - (now() - began)):
                panels += [_panel(*each) for each in build()]
        except TimeUp:
            late.append(what)
    if not is_path and panels and panels[0]["key"] == "progress":
        panels.append(panels.pop(0))
    notes = _notes(last, steps, is_path, len(found) if is_path else 1)
    if late:
        notes.append(f"There was no time for {' and '.join(late)}.")
    if left_out is not None:
        left_out.extend(late)
    pool: dict[Any, int] = {}
    content = {
        "says": [_says(s, i, len(steps)) for i, s in enumerate(steps)] if is_path else [],
        "facts": [_facts(s) for s in steps],
        "cursor": [s.lam for s in steps] if is_path else [],
        "panels": _written(panels, pool),
        "tables": [{"columns": n.columns, "rows": n.rows, "texts": n.texts()} for n in neurons],
        "pool": list(pool),
    }
    template = files("covopt.explore").joinpath("page.html").read_text(encoding="utf-8")
    parts = {
        "TITLE": escape(title or _title_of(last, is_path)),
        "NOTES": "".join(f"<li>{escape(n)}</li>" for n in [*notes, *about_tight]),
        "PANELS": "".join(_panel_html(p) for p in panels),
        "STEPS": str(len(steps) - 1),
        "HIDDEN": "" if is_path else "hidden",
        "DATA": _packed(json.dumps(content, ensure_ascii=False, allow_nan=False)),
        "PLOTLY": _packed(offline.get_plotlyjs()),
    }
    for name, text in parts.items():  # plotly's code comes last: it is not searched for placeholders
        template = template.replace(f"<!--{name}-->", text, 2 if name == "TITLE" else 1)
    return template


CODES = {"float32": "f4", "uint8": "u1"}  # plotly's codes of dtypes; other types are written as doubles


def _written(value: Any, pool: dict[Any, int]) -> Any:
    """Return figures as JSON types, without the entries that are None.

    Arrays of numbers, as bytes, and the lines of hover texts go into a pool, since most are the same at every step.
    """
    if isinstance(value, dict):
        return {key: _written(part, pool) for key, part in value.items() if part is not None}
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        code = CODES.get(value.dtype.name, "f8")
        coded = base64.b64encode(np.ascontiguousarray(value, dtype=f"<{code}").tobytes()).decode()
        shape = ", ".join(map(str, value.shape))
        return {"dtype": code, "bdata": {"pool": [pool.setdefault(coded, len(pool))]}, "shape": shape}
    if not isinstance(value, list | tuple | np.ndarray):
        return value.item() if isinstance(value, np.generic) else value
    if not len(value) or not all(isinstance(part, str) for part in value):
        return [_written(part, pool) for part in value]
    lines = [part.split("<br>") for part in value]
    columns = list(zip(*lines, strict=True)) if len({len(each) for each in lines}) == 1 else [tuple(value)]
    return {"pool": [pool.setdefault(column, len(pool)) for column in columns]}


@lru_cache(maxsize=2)  # compressing plotly's code takes a third of a second
def _packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _steps_of(found: Any) -> tuple[list[Any], bool]:
    """Return the solutions to show, and whether they form a path."""
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


def _says(solution: Any, place: int, count: int) -> str:
    """Return the text beside the slider."""
    neurons = counted(len(solution.network), "neuron")
    return f"λ = {short(solution.lam)} ({place + 1} of {count}); {solution.status.code}; {neurons}"


def _facts(solution: Any) -> list[tuple[str, str]]:
    """Return the lines of the summary, and R² or the accuracy."""
    name, value = quality(solution)
    width = len(solution.network)
    more = "" if width else ": constant"
    if width > MOST_MARKS:
        more = f", of which the {MOST_MARKS} costliest are described and drawn"
    said = {word: text for word, text in summary_rows(solution) if word not in NOT_SHOWN}
    said["neurons"] += more
    return [*said.items(), (name, f"{value:.4f} (on the points it was fitted to)")]


def _notes(solution: Any, steps: Sequence[Any], is_path: bool, given: int) -> list[str]:
    """Return sentences about what the page leaves out, and about units."""
    data, said = solution.data, []
    if is_path and given > len(steps):
        said.append(f"{len(steps)} of the {given} points of the path are shown.")
    if solution.scaling is not None:
        said.append(
            "The columns were standardised: weights, cost and slack are those on the standardised columns, "
            "the function and its kinks are in the units of the table."
        )
    if data.n_samples > MOST_MARKS:
        said.append(f"{MOST_MARKS} of the {data.n_samples} points are drawn; all of them are in the numbers.")
    classes = solution.loss is not None and solution.loss.is_classification
    if data.n_outputs > MOST_OUTPUTS and not classes:
        said.append(f"The first {MOST_OUTPUTS} of {data.n_outputs} outputs are drawn.")
    if data.n_features == 1 and data.n_outputs > 1 and not classes:
        said.append("Kinks are drawn on the first output; every output bends there.")
    return said


def _panel(key: str, steps: Sequence[Sequence[Picture]]) -> dict[str, Any]:
    """Return one panel: a figure with a stack of pictures for each step of the slider, or one for all steps."""
    first = [pictures[0] for pictures in steps]
    layers = [layer for picture in first for layer in picture.layers]
    if all(p.ylim is None and not p.logs for p in first) and len(steps) > 1 and layers:
        heights = limits(np.concatenate([layer.y for layer in layers]))  # fixed while the slider moves
        for picture in first:
            picture.ylim = heights
    figures = [figure_of(pictures) for pictures in steps]
    if key == "progress" and "x" in first[0].logs:
        layout = figures[0]["layout"]
        for axis in [name for name in layout if name.startswith("xaxis")]:
            layout[axis]["autorange"] = "reversed"
        layout["shapes"].append(dict(
            type="line", x0=0, x1=0, y0=0, y1=1, xref="x", yref="paper", line=dict(color=INK, width=1.5, dash="dot"),
            name="cursor",
        ))  # fmt: skip
    caption = next((p.caption for p in first if p.layers), "")
    return {"key": key, "title": first[-1].title, "caption": caption, "figures": figures}


def _panel_html(panel: dict[str, Any]) -> str:
    key, height = escape(panel["key"]), panel["figures"][0]["layout"]["height"]
    return (
        f'<figure class="panel" aria-labelledby="{key}-title">'
        f'<h2 id="{key}-title">{escape(panel["title"])}</h2>'
        f'<div id="{key}" class="plot" style="height:{height}px" role="img" '
        f'aria-labelledby="{key}-title {key}-caption"></div>'
        f'<figcaption id="{key}-caption">{escape(panel["caption"])}</figcaption></figure>'
    )
