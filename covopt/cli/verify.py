"""What ``covopt verify`` and ``covopt prove`` compute."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from covopt.errors import InputError


def run_verify(solution: Path, table: Path | None, *, exact: bool = False, proof: Path | None = None) -> Any:
    """Verify a solution file, against a table where one is given."""
    import covopt
    from covopt.api.path_files import is_path_file, load_path, verify_path

    points = load_path(solution) if is_path_file(solution) else None
    if points is not None and proof is not None:
        raise InputError(f"{solution} is a path: a proof is about one solution, so leave --proof out")
    if table is None:
        return (
            covopt.verify(solution, exact=exact, proof=proof)
            if points is None
            else verify_path(points, exact=exact)
        )
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
    return covopt.verify(solution, X, Y, exact=exact, proof=proof)


def run_prove(solution: Path, out: Path, *, max_boxes: int, n_threads: int) -> dict[str, Any]:
    """Prove the lower bound of a saved solution and write the proof."""
    import covopt
    from covopt.api.path_files import is_path_file

    if is_path_file(solution):
        raise InputError(f"{solution} is a path: save one of its solutions and prove that")
    loaded = covopt.load(solution)
    if not isinstance(loaded, covopt.Solution):
        raise InputError(
            f"{solution} is a CP-rank certificate: verify checks its reasons, there is nothing to prove"
        )
    proof = loaded.prove(max_boxes=max_boxes, n_threads=n_threads)
    proof.save(out)
    size = max(abs(loaded.objective), proof.lower_bound)
    return {
        "proved": proof.lower_bound,
        "stated": loaded.lower_bound,
        "proves_what_is_stated": bool(loaded.lower_bound <= proof.lower_bound + 1e-9 * size),
        "boxes": len(proof.tree),
    }
