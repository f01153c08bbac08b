"""What ``covopt cells`` computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def run_cells(
    table: Path,
    target: str | None,
    features: str | None,
    bias: float,
    *,
    count_only: bool,
    n_jobs: int,
    text: Any = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Count or enumerate the cells of a table; return what to print and the arrays to save."""
    import numpy as np

    from covopt.checks.validation import check_bias
    from covopt.data.table_files import read_table

    bias = check_bias(bias)
    read = read_table(table, target=target, features=features, text=text)
    read.check_inputs()
    X, names = read.X, read.feature_names
    found: dict[str, Any] = {
        "n_samples": len(X),
        "features": list(names),
        "left_out": read.left_out,
        "bias": bias,
    }
    if count_only:
        from covopt import count_cells

        return found | {"n_cells": int(count_cells(X, bias=bias))}, {}
    from covopt import enumerate_cells

    arrangement = enumerate_cells(X, bias=bias, n_jobs=n_jobs)
    found |= {
        "n_cells": int(arrangement.n_cells),
        "rank": int(arrangement.rank),
        "exact": bool(arrangement.exact),
        "largest_zero": float(arrangement.separation.largest_zero),
        "smallest_nonzero": float(arrangement.separation.smallest_nonzero),
    }
    return found, {
        "packed": arrangement.packed,
        "n_samples": np.int64(len(X)),
        "n_cells": np.int64(arrangement.n_cells),
        "X": X,
        "bias": np.float64(bias),
        "feature_names": np.array(names),
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the summary, a line each."""
    from covopt.data.table_files import describe_left_out

    shown = {
        **found,
        "features": ", ".join(found["features"]),
        "left_out": describe_left_out(found["left_out"]) or "nothing",
    }
    return [
        f"{name.replace('_', ' '):<16} {f'{value:.4g}' if isinstance(value, float) else value}"
        for name, value in shown.items()
    ]
