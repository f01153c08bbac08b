"""What ``covopt verify`` computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covopt.errors import InputError


def run_verify(solution: Path, table: Path | None, *, exact: bool = False) -> Any:
    """Verify a solution file, against a table where one is given."""
    import covopt

    if table is None:
        return covopt.verify(solution, exact=exact)
    from covopt.datasets import load_table

    loaded = covopt.load(solution)
    if not isinstance(loaded, covopt.Solution):
        raise InputError(f"{solution} is a CP-rank certificate: it carries its matrix, so leave {table} out")
    saved, loss = loaded.data, loaded.loss
    labels = loss is not None and loss.is_classification
    target = (loss.column,) if loss is not None and labels and loss.column else saved.target_names
    X, Y, _, _ = load_table(table, target=target, features=saved.feature_names, labels=labels)
    return covopt.verify(solution, X, Y, exact=exact)
