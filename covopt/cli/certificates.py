"""The commands ``covopt verify``, ``prove`` and ``cp-rank``: files that say what is proved."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.cli.options import reading
from covopt.cli.report import Exit, keep
from covopt.cli.running import Answer, progress
from covopt.errors import BudgetError, InputError


def verify(given: SimpleNamespace) -> Answer:
    """Recompute everything a solution file claims, from the file and the data."""
    with progress(given, "verifying"):
        found = run_verify(
            given.solution, given.table, exact=given.exact, proof=given.proof, text=reading(given),
            expect=given.expect or (), time_limit_s=given.time_limit,
        )  # fmt: skip
    code = Exit.VERIFICATION_FAILED if found.failed else Exit.NOT_CERTIFIED
    return Answer(
        Exit.CERTIFIED if found.ok else code,
        {**found.to_dict(), "ok": found.ok},
        [found.summary()],
        rows=found.to_frame,
        saved="",
    )


def run_verify(
    solution: Path,
    table: Path | None,
    *,
    text: Any = None,
    expect: Sequence[str] = (),
    time_limit_s: float | None = None,
    **asked: Any,
) -> Any:
    """Verify a file of any format, against a table where one is given."""
    import covopt
    from covopt.certificates.stated import expectations
    from covopt.checks.speaking import tell

    loaded = covopt.load(solution)
    named: tuple[Any, ...] = ()
    asked |= {"expect": expectations(expect), "time_limit_s": time_limit_s}
    if table is not None:
        first = loaded[0] if isinstance(loaded, list) else loaded
        named = _columns_of(first, solution, table, text)
        if isinstance(first, covopt.depth.DeepSolution):
            loaded = first
            asked.pop("proof", None)
    found = covopt.verify(loaded, *named, **asked)
    for check in found.checks:
        said = f"{'ok' if check.ok else 'failed'} {check.name}: {check.detail}"
        tell(logging.DEBUG, said, "check", name=check.name, ok=check.ok, detail=check.detail)
    tell(logging.INFO, repr(found), "result", ok=found.ok, in_time=found.in_time, checks=len(found.checks))
    return found


def _columns_of(saved: Any, solution: Path, table: Path, text: Any) -> tuple[Any, Any]:
    """Return the columns of a table that a saved solution is about."""
    import covopt
    from covopt.data.table_files import read_table

    if not isinstance(saved, covopt.Solution | covopt.depth.DeepSolution):
        raise InputError(f"{solution} carries what it is about ({type(saved).__name__}): leave {table} out")
    data, loss = saved.data, saved.loss
    labels = loss is not None and loss.is_classification
    target = (loss.column,) if loss is not None and labels and loss.column else data.target_names
    read = read_table(
        table, target=target, features=data.feature_names, labels=labels, text=text, drop_missing=True
    )
    return read.features, read.targets


def prove(given: SimpleNamespace) -> Answer:
    """Write a proof of the lower bound that anybody can check: boxes that cover all neurons, closed in integers."""
    import covopt
    from covopt.checks.speaking import tell
    from covopt.proofs.coq import write_coq

    if given.out is None and given.coq is None:
        raise InputError("say where the proof goes: --out PROOF.json, or --coq DIR")
    with progress(given, "proving"):
        loaded = covopt.load(given.solution)
        if isinstance(loaded, list):
            raise InputError(f"{given.solution} is a path: save one of its solutions and prove that")
        if isinstance(loaded, covopt.CPRankCertificate):
            raise InputError(
                f"{given.solution} is a CP-rank certificate: verify checks its reasons, there is nothing to prove"
            )
        if not isinstance(loaded, covopt.Solution):
            raise InputError(
                f"{given.solution} holds a {type(loaded).__name__}, no solution whose bound could be proved"
            )
        stated = loaded.lower_bound
        try:
            proof: Any = loaded.prove(
                max_boxes=given.boxes, n_threads=given.threads, time_limit_s=given.time_limit,
            )  # fmt: skip
        except BudgetError as error:
            proof, message = None, str(error)
        else:
            keep(proof.save, given.out)
            if given.coq is not None:
                write_coq(proof.text, given.coq)
    if proof is None:
        if not given.as_json:
            typer.echo(message, err=True)
        found = {"message": message, "proves_what_is_stated": False, "stated": stated}
        return Answer(Exit.NOT_CERTIFIED, found, saved="")
    found = {
        "proved": proof.lower_bound,
        "stated": stated,
        "proves_what_is_stated": bool(stated <= proof.lower_bound * (1.0 + 1e-9)),
        "boxes": proof.boxes,
    }
    tell(logging.INFO, f"proved {proof.lower_bound:.10g} by {proof.boxes:,} boxes", "result", **found)
    return Answer(
        Exit.CERTIFIED if found["proves_what_is_stated"] else Exit.NOT_CERTIFIED,
        found,
        [
            f"{'proved':<10} {proof.lower_bound:.12g} by {proof.boxes} boxes in integers",
            f"{'stated':<10} {stated:.12g}",
            *(
                []
                if given.coq is None
                else [f"{'saved':<10} {given.coq}; make -C {given.coq} lets Coq check it"]
            ),
        ],
        saved=f"{'saved':<10} {{}}",
    )


def cp_rank(given: SimpleNamespace) -> Answer:
    """Bracket the CP-rank of a matrix or of a graph's EᵀE, or prove that the matrix is not completely positive.

    Integers, fractions and decimals are exact; a file with decimals of 15 digits or more holds floats, known up to
    --tol. Exit code 0: the CP-rank, or that there is none, is proved; 3: a bracket.
    """
    from covopt.completely_positive.graphs import GRAPH_SUFFIXES, read_graph
    from covopt.completely_positive.matrix import read_csv
    from covopt.completely_positive.rank import cp_rank as run

    with progress(given, "bounding the CP-rank"):
        source, suffix = given.source, given.source.suffix.lower()
        if suffix not in (".csv", ".txt", ".tsv", *GRAPH_SUFFIXES):
            raise InputError(
                f"{source} must end in .csv, .tsv or .txt (a matrix) or {' or '.join(GRAPH_SUFFIXES)} (a graph)."
            )
        matrix = read_graph(source) if suffix in GRAPH_SUFFIXES else read_csv(source)
        found = run(
            matrix,
            tol=given.tol,
            time_limit_s=given.time_limit,
            random_state=given.seed,
        )
    record = {
        "status": found.status.code,
        "message": found.status.message,
        "n_rows": len(found.matrix),
        "reasons": [
            {name: getattr(reason, name) for name in ("side", "value", "method", "text", "vertices")}
            for reason in found.reasons
        ],
        **{
            name: getattr(found, name)
            for name in ("lower", "upper", "is_exact", "residual", "notes", "time_s")
        },
    }
    return Answer(
        Exit.CERTIFIED if found.status.code in ("exact", "not_cp") else Exit.NOT_CERTIFIED,
        record,
        [found.summary()],
        save=found.save,
        saved=f"{'saved':<10} {{}}",
    )
