"""The command ``covopt cells``: every activation pattern of a table, counted or written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import typer

from covopt.cli.options import reading
from covopt.cli.report import Exit, keep
from covopt.cli.running import Answer, progress
from covopt.files import write_atomically

WORDS = {  # what a line means
    "n_cells": "activation patterns: which points a neuron can be active on",
    "rank": "of the table with its column of biases",
    "largest_zero": "relative; the most that counted as zero, a point on the kink",
    "smallest_nonzero": "relative; the least that did not; covopt warns where the two come near",
}
EXACT = {True: "whole numbers, counted without rounding", False: "counted in doubles"}
BYTES_PER_S = 4e8  # of patterns along one line of the arrangement, which has one for each row


def cells(given: SimpleNamespace) -> Answer:
    """Count or write every activation pattern: each set of points on which one neuron can be active."""
    if given.count_only and given.out is not None:
        raise typer.BadParameter("--count-only enumerates nothing that --out could save")
    began = time.perf_counter()
    with progress(given, "enumerating cells") as shown:
        found = _found(given, shown.say)
    found["time_s"] = time.perf_counter() - began
    stopped = "at_most" in found
    if stopped:
        given.out = None
    code = Exit.NOT_CERTIFIED if stopped else Exit.CERTIFIED
    return Answer(code, found, lines(found), saved=f"{'saved':<16} {{}}")


def _found(given: SimpleNamespace, report: Callable[[str], None]) -> dict[str, Any]:
    """Return what to print; in no time left nothing is saved, and ``at_most`` bounds the count."""
    from covopt.arrangement.files import most_cells
    from covopt.checks.memory import limit_bytes
    from covopt.checks.speaking import tell
    from covopt.checks.validation import check_bias, check_time_limit
    from covopt.data.table_files import read_table
    from covopt.limits import TimeUp, limited

    bias, seconds = check_bias(given.bias), check_time_limit(given.time_limit)
    limit = limit_bytes(given.memory_limit)
    read = read_table(given.table, target=given.target, features=given.features, text=reading(given))
    read.check_inputs()
    found = {
        "n_samples": len(read.X),
        "features": list(read.feature_names),
        "left_out": read.left_out,
        "bias": bias,
    }
    try:
        with limited(seconds):
            found |= _cells(read.X, read.feature_names, bias, given, limit, report)
    except TimeUp:
        found |= {"at_most": most_cells(read.X, bias=bias), "stopped": f"the {seconds:g} s were over"}
    said = f"{found['n_cells']:,} cells" if "n_cells" in found else str(found["stopped"])
    tell(logging.INFO, said, "result", **found)
    return found


def _cells(
    X: Any,
    names: tuple[str, ...],
    bias: float,
    given: SimpleNamespace,
    limit: Any,
    report: Callable[[str], None],
) -> dict[str, Any]:
    import numpy as np

    from covopt.arrangement.enumeration import cell_bytes
    from covopt.arrangement.files import STREAMED, most_cells, write_cells
    from covopt.checks.memory import plan
    from covopt.limits import TimeUp, seconds_left

    out, n_jobs = given.out, given.n_jobs
    if given.count_only:
        from covopt import count_cells

        return {"n_cells": int(count_cells(X, bias=bias))}
    if len(X) ** 2 / 8.0 > BYTES_PER_S * seconds_left():  # compiled code, which hears no deadline
        raise TimeUp
    most = most_cells(X, bias=bias)
    expected = f"of at most {most:,} cells"
    if out is not None and out.suffix in STREAMED:
        tell = lambda count: report(f"{count:,} {expected}")  # noqa: E731
        return {"n_cells": write_cells(X, out, bias=bias, n_jobs=n_jobs, report=tell)}
    report(f"enumerating, {expected[3:]}")
    plan(
        cell_bytes(most, len(X)),
        limit,
        "Save them with --out FILE.npy or FILE.parquet, which stream, or count them with --count-only.",
    )
    from covopt import enumerate_cells

    arrangement = enumerate_cells(X, bias=bias, n_jobs=n_jobs)
    found = {
        "n_cells": int(arrangement.n_cells),
        "rank": int(arrangement.rank),
        "exact": bool(arrangement.exact),
        "largest_zero": float(arrangement.separation.largest_zero),
        "smallest_nonzero": float(arrangement.separation.smallest_nonzero),
    }
    if out is not None:
        arrays = {
            "packed": arrangement.packed,
            "n_samples": np.int64(len(X)),
            "n_cells": np.int64(arrangement.n_cells),
            "X": X,
            "bias": np.float64(bias),
            "feature_names": np.array(names),
        }
        keep(lambda path: write_atomically(path, lambda stream: np.savez_compressed(stream, **arrays)), out)
    return found


def lines(found: dict[str, Any]) -> list[str]:
    """Return the summary, a line each."""
    from covopt.data.column_choice import describe_left_out

    shown = {
        **found,
        "features": ", ".join(found["features"]),
        "left_out": describe_left_out(found["left_out"]) or "nothing",
    }
    words = {**WORDS, "exact": EXACT.get(found.get("exact", False), "")}
    return [
        f"{name.replace('_', ' '):<16} {f'{value:.4g}' if isinstance(value, float) else value}"
        + (f"  ({words[name]})" if name in words else "")
        for name, value in shown.items()
    ]
