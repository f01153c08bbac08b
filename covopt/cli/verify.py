"""What ``covopt verify`` and ``covopt prove`` compute."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from covopt.cli.report import save
from covopt.errors import BudgetError, InputError


def run_verify(
    solution: Path,
    table: Path | None,
    *,
    exact: bool = False,
    proof: Path | None = None,
    text: Any = None,
    expect: Sequence[str] = (),
    time_limit_s: float | None = None,
) -> Any:
    """Verify a file of any format, against a table where one is given."""
    from covopt.certificates.stated import expectations
    from covopt.checks.speaking import tell

    found = _verified(
        solution,
        table,
        exact=exact,
        proof=proof,
        text=text,
        expect=expectations(expect),
        time_limit_s=time_limit_s,
    )
    for check in found.checks:
        said = f"{'ok' if check.ok else 'failed'} {check.name}: {check.detail}"
        tell(logging.DEBUG, said, "check", name=check.name, ok=check.ok, detail=check.detail)
    tell(logging.INFO, repr(found), "result", ok=found.ok, in_time=found.in_time, checks=len(found.checks))
    return found


def _verified(
    solution: Path,
    table: Path | None,
    *,
    exact: bool,
    proof: Path | None,
    text: Any,
    expect: dict[str, str],
    time_limit_s: float | None,
) -> Any:
    import covopt

    loaded = covopt.load(solution)
    if table is None:
        return covopt.verify(loaded, exact=exact, proof=proof, expect=expect, time_limit_s=time_limit_s)
    from covopt.data.table_files import read_table

    first = loaded[0] if isinstance(loaded, list) else loaded
    if isinstance(first, covopt.depth.DeepSolution):
        named, kind = first.data, first.loss
        if kind is not None and kind.is_classification:
            column = (kind.column,) if kind.column else named.target_names
            read = read_table(
                table, target=column, features=named.feature_names, labels=True, text=text, drop_missing=True
            )
        else:
            read = read_table(
                table, target=named.target_names, features=named.feature_names, text=text, drop_missing=True
            )
        return covopt.verify(
            first, read.features, read.targets, exact=exact, expect=expect, time_limit_s=time_limit_s
        )
    if not isinstance(first, covopt.Solution):
        raise InputError(f"{solution} carries what it is about ({type(first).__name__}): leave {table} out")
    saved, loss = first.data, first.loss
    labels = loss is not None and loss.is_classification
    target = (loss.column,) if loss is not None and labels and loss.column else saved.target_names
    read = read_table(
        table, target=target, features=saved.feature_names, labels=labels, text=text, drop_missing=True
    )
    return covopt.verify(
        loaded,
        read.features,
        read.targets,
        exact=exact,
        proof=proof,
        expect=expect,
        time_limit_s=time_limit_s,
    )


def run_prove(
    solution: Path,
    out: Path,
    *,
    max_boxes: int,
    n_threads: int,
    time_limit_s: float | None,
    checkpoint: Any = None,
) -> dict[str, Any]:
    """Prove the lower bound of a saved solution and write the proof; only a message where the time was up before."""
    import covopt
    from covopt.checks.speaking import tell

    loaded = covopt.load(solution)
    if isinstance(loaded, list):
        raise InputError(f"{solution} is a path: save one of its solutions and prove that")
    if isinstance(loaded, covopt.CPRankCertificate):
        raise InputError(
            f"{solution} is a CP-rank certificate: verify checks its reasons, there is nothing to prove"
        )
    if not isinstance(loaded, covopt.Solution):
        raise InputError(
            f"{solution} holds a {type(loaded).__name__}, no solution whose bound could be proved"
        )
    try:
        proof = loaded.prove(
            max_boxes=max_boxes, n_threads=n_threads, time_limit_s=time_limit_s, checkpoint=checkpoint
        )
    except BudgetError as error:
        return {"message": str(error), "proves_what_is_stated": False, "stated": loaded.lower_bound}
    save(proof, out)
    found = {
        "proved": proof.lower_bound,
        "stated": loaded.lower_bound,
        "proves_what_is_stated": bool(loaded.lower_bound <= proof.lower_bound * (1.0 + 1e-9)),
        "boxes": len(proof.tree),
    }
    tell(logging.INFO, f"proved {proof.lower_bound:.10g} by {len(proof.tree):,} boxes", "result", **found)
    return found
