"""What ``covopt cells`` computes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from covopt.cli.report import keep
from covopt.files import write_atomically

BYTES_PER_S = 4e8  # of patterns along one line of the arrangement, which has one for each row


def run_cells(
    table: Path,
    target: str | None,
    features: str | None,
    bias: float,
    *,
    count_only: bool,
    n_jobs: int,
    out: Path | None,
    memory_limit: float | None,
    report: Callable[[str], None],
    text: Any = None,
    time_limit_s: float | None = None,
    checkpoint: Any = None,
) -> dict[str, Any]:
    """Count or enumerate the cells of a table, save them where asked, and return what to print.

    In no time left nothing is saved, and ``at_most`` bounds the count.
    """
    from covopt.arrangement.files import most_cells
    from covopt.checks.memory import limit_bytes
    from covopt.checks.speaking import tell
    from covopt.checks.validation import check_bias, check_time_limit
    from covopt.data.table_files import read_table
    from covopt.limits import TimeUp, limited

    bias, limit, seconds = check_bias(bias), limit_bytes(memory_limit), check_time_limit(time_limit_s)
    read = read_table(table, target=target, features=features, text=text)
    read.check_inputs()
    X, names = read.X, read.feature_names
    found: dict[str, Any] = {
        "n_samples": len(X),
        "features": list(names),
        "left_out": read.left_out,
        "bias": bias,
    }
    try:
        with limited(seconds):
            found |= _cells(X, names, bias, count_only, n_jobs, out, limit, report, checkpoint)
    except TimeUp:
        found |= {"at_most": most_cells(X, bias=bias), "stopped": f"the {seconds:g} s were over"}
    said = f"{found['n_cells']:,} cells" if "n_cells" in found else found["stopped"]
    tell(logging.INFO, said, "result", **found)
    return found


def _cells(
    X: Any,
    names: tuple[str, ...],
    bias: float,
    count_only: bool,
    n_jobs: int,
    out: Path | None,
    limit: Any,
    report: Callable[[str], None],
    checkpoint: Any,
) -> dict[str, Any]:
    import numpy as np

    from covopt.arrangement.enumeration import cell_bytes
    from covopt.arrangement.files import STREAMED, most_cells, write_cells
    from covopt.checks.memory import plan
    from covopt.limits import TimeUp, seconds_left

    if count_only:
        from covopt import count_cells

        return {"n_cells": int(count_cells(X, bias=bias))}
    if len(X) ** 2 / 8.0 > BYTES_PER_S * seconds_left():  # compiled code, which hears no deadline
        raise TimeUp
    most = most_cells(X, bias=bias)
    expected = f"of at most {most:,} cells"
    if out is not None and out.suffix in STREAMED:
        tell = lambda count: report(f"{count:,} {expected}")  # noqa: E731
        return {"n_cells": write_cells(X, out, bias=bias, n_jobs=n_jobs, report=tell, checkpoint=checkpoint)}
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
    return [
        f"{name.replace('_', ' '):<16} {f'{value:.4g}' if isinstance(value, float) else value}"
        for name, value in shown.items()
    ]
