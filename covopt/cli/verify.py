"""What ``covopt verify`` computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covopt.errors import InputError


def run_verify(solution: Path, table: Path | None, *, exact: bool = False) -> Any:
    """Verify a solution file, against a table where one is given."""
    import covopt
    from covopt.api.path_files import is_path_file, load_path, verify_path

    points = load_path(solution) if is_path_file(solution) else None
    if table is None:
        return covopt.verify(solution, exact=exact) if points is None else verify_path(points, exact=exact)
    from covopt.datasets import load_table

    loaded = covopt.load(solution) if points is None else points[0]
    if not isinstance(loaded, covopt.Solution):
        raise InputError(f"{solution} is a CP-rank certificate: it carries its matrix, so leave {table} out")
    saved, loss = loaded.data, loaded.loss
    labels = loss is not None and loss.is_classification
    target = (loss.column,) if loss is not None and labels and loss.column else saved.target_names
    X, Y, _, _ = load_table(table, target=target, features=saved.feature_names, labels=labels)
    if points is not None:
        return verify_path(points, X, Y, exact=exact)
    return covopt.verify(solution, X, Y, exact=exact)
