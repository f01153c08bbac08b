"""The command ``covopt cells``: every activation pattern of a table, counted or written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import typer

from covopt.cli.report import Exit, keep
from covopt.cli.running import Answer, progress
from covopt.cli.targets import read_plain
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
    from covopt.arrangement.files import most_cells
    from covopt.checks.speaking import tell
    from covopt.checks.validation import check_bias, check_time_limit
    from covopt.limits import TimeUp, limited

    if given.count_only and given.out is not None:
        raise typer.BadParameter("--count-only enumerates nothing that --out could save")
    began = time.perf_counter()
    with progress(given, "enumerating cells") as shown:
        bias, seconds = check_bias(given.bias), check_time_limit(given.time_limit)
        read = read_plain(given)
        read.check_inputs()
        found = {
            "n_samples": len(read.X),
            "features": list(read.feature_names),
            "left_out": read.left_out,
            "bias": bias,
        }
        try:
            with limited(seconds):
                found |= _counted(read, bias, given, shown.say)
        except TimeUp:  # nothing is saved, and the count has a bound
            given.out = None
            found |= {"at_most": most_cells(read.X, bias=bias), "stopped": f"the {seconds:g} s were over"}
        said = f"{found['n_cells']:,} cells" if "n_cells" in found else str(found["stopped"])
        tell(logging.INFO, said, "result", **found)
    found["time_s"] = time.perf_counter() - began
    code = Exit.NOT_CERTIFIED if "at_most" in found else Exit.CERTIFIED
    return Answer(code, found, lines(found), saved=f"{'saved':<16} {{}}")


def _counted(read: Any, bias: float, given: SimpleNamespace, report: Callable[[str], None]) -> dict[str, Any]:
    import numpy as np

    from covopt import count_cells, enumerate_cells
    from covopt.arrangement.enumeration import cell_bytes
    from covopt.arrangement.files import STREAMED, most_cells, write_cells
    from covopt.checks.memory import limit_bytes, plan
    from covopt.limits import TimeUp, seconds_left

    X, out, asked = read.X, given.out, {"bias": bias, "n_jobs": given.n_jobs}
    if given.count_only:
        return {"n_cells": int(count_cells(X, bias=bias))}
    if len(X) ** 2 / 8.0 > BYTES_PER_S * seconds_left():  # compiled code, which hears no deadline
        raise TimeUp
    most = most_cells(X, bias=bias)
    expected = f"at most {most:,} cells"
    if out is not None and out.suffix in STREAMED:
        tell = lambda count: report(f"{count:,} of {expected}")  # noqa: E731
        return {"n_cells": write_cells(X, out, report=tell, **asked)}
    report(f"enumerating, {expected}")
    plan(
        cell_bytes(most, len(X)),
        limit_bytes(given.memory_limit),
        "Save them with --out FILE.npy or FILE.parquet, which stream, or count them with --count-only.",
    )
    found = enumerate_cells(X, **asked)
    if out is not None:
        arrays = {
            "packed": found.packed, "n_samples": np.int64(len(X)), "n_cells": np.int64(found.n_cells), "X": X,
            "bias": np.float64(bias), "feature_names": np.array(read.feature_names),
        }  # fmt: skip
        keep(lambda path: write_atomically(path, lambda stream: np.savez_compressed(stream, **arrays)), out)
    return {
        "n_cells": int(found.n_cells),
        "rank": int(found.rank),
        "exact": bool(found.exact),
        "largest_zero": float(found.separation.largest_zero),
        "smallest_nonzero": float(found.separation.smallest_nonzero),
    }


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
