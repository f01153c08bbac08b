"""The commands ``covopt verify``, ``prove``, ``cp-rank`` and ``cells``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks.log import log_event
from covopt.cli.options import reading
from covopt.cli.report import Exit, keep
from covopt.cli.running import Answer, progress, read_plain
from covopt.errors import BudgetError, InputError


def verify(given: SimpleNamespace) -> Answer:
    """Recompute everything that a saved file claims."""
    import covopt
    from covopt.certificates.stated import expectations

    asked = {"exact": given.exact, "proof": given.proof, "time_limit_s": given.time_limit}
    with progress(given, "verifying"):
        loaded, named = covopt.load(given.solution), ()
        asked["expect"] = expectations(given.expect or ())
        if given.table is not None:
            first = loaded[0] if isinstance(loaded, list) else loaded
            named = _columns_of(first, given)
            if isinstance(first, covopt.depth.DeepSolution):
                loaded = first
                asked.pop("proof")
        found = covopt.verify(loaded, *named, **asked)
        for check in found.checks:
            said = f"{'ok' if check.ok else 'failed'} {check.name}: {check.detail}"
            log_event(logging.DEBUG, said, "check", name=check.name, ok=check.ok, detail=check.detail)
        log_event(
            logging.INFO, repr(found), "result", ok=found.ok, in_time=found.in_time, checks=len(found.checks)
        )
    code = Exit.VERIFICATION_FAILED if found.failed else Exit.NOT_CERTIFIED
    return Answer(
        Exit.CERTIFIED if found.ok else code,
        {**found.to_dict(), "ok": found.ok},
        [found.summary()],
        rows=found.to_frame,
    )


def _columns_of(saved: Any, given: SimpleNamespace) -> Any:
    """Return the features and targets of a table by the names in a saved solution."""
    import covopt
    from covopt.data.table_files import read_table

    if not isinstance(saved, covopt.Solution | covopt.depth.DeepSolution):
        raise InputError(
            f"{given.solution} carries what it is about ({type(saved).__name__}): leave {given.table} out"
        )
    data, loss = saved.data, saved.loss
    labels = loss is not None and loss.is_classification
    target = (loss.column,) if loss is not None and labels and loss.column else data.target_names
    read = read_table(
        given.table, target=target, features=data.feature_names, labels=labels, text=reading(given),
        drop_missing=True,
    )  # fmt: skip
    return read.features, read.targets


def prove(given: SimpleNamespace) -> Answer:
    """Write a proof of the bound in integers, for `verify --proof`."""
    import covopt
    from covopt.proofs.coq import write_coq

    if given.out is None and given.coq is None:
        raise InputError("say where the proof goes: --out PROOF.json, or --coq DIR")
    with progress(given, "proving"):
        loaded = covopt.load(given.solution)
        if not isinstance(loaded, covopt.Solution):
            what = f"holds a {type(loaded).__name__}, no solution whose bound could be proved"
            raise InputError(f"{given.solution} {what}")
        stated = loaded.lower_bound
        try:
            proof = loaded.prove(
                max_boxes=given.boxes, n_threads=given.threads, time_limit_s=given.time_limit, tol=given.tol,
            )  # fmt: skip
        except BudgetError as error:
            given.out = None
            found = {"message": str(error), "proves_what_is_stated": False, "stated": stated}
            return Answer(Exit.NOT_CERTIFIED, found)
        if given.coq is not None:
            write_coq(proof.text, given.coq)
    holds = bool(proof.lower_bound >= stated - given.tol * abs(stated))
    found = {
        "proved": proof.lower_bound,
        "stated": stated,
        "proves_what_is_stated": holds,
        "boxes": proof.boxes,
    }
    log_event(logging.INFO, f"proved {proof.lower_bound:.10g} by {proof.boxes:,} boxes", "result", **found)
    if given.coq is not None:
        found["checked_by"] = f"make -C {given.coq}"
    return Answer(Exit.CERTIFIED if holds else Exit.NOT_CERTIFIED, found, save=proof.save)


def cp_rank(given: SimpleNamespace) -> Answer:
    """Bracket the CP-rank of a matrix or a graph, with proofs.

    Integers, fractions and decimals are exact; the numbers of a file with decimals of 15 digits or more are floats,
    known up to --tol. Exit code 0: the CP-rank, or its nonexistence, is proved; 3: a bracket.
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
        found = run(matrix, tol=given.tol, time_limit_s=given.time_limit, random_state=given.seed)
    said = ("lower", "upper", "is_exact", "residual", "notes", "time_s")
    of_a_reason = ("side", "value", "method", "text", "vertices")
    record = {
        "status": found.status.code,
        "message": found.status.message,
        "n_rows": len(found.matrix),
        "reasons": [{name: getattr(reason, name) for name in of_a_reason} for reason in found.reasons],
        **{name: getattr(found, name) for name in said},
    }
    code = Exit.CERTIFIED if found.status.code in ("exact", "not_cp") else Exit.NOT_CERTIFIED
    return Answer(code, record, [found.summary()], save=found.save)


BYTES_PER_S = 4e8  # speed of computing patterns along one line of the arrangement, which has one line per row


def cells(given: SimpleNamespace) -> Answer:
    """Count or write every activation pattern of the points.

    A pattern is a set of points on which one neuron can be active.
    """
    from covopt.arrangement.files import most_cells
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
        except TimeUp:  # save nothing, report an upper bound on the count
            given.out = None
            found |= {"at_most": most_cells(read.X, bias=bias), "stopped": f"the {seconds:g} s were over"}
        said = f"{found['n_cells']:,} cells" if "n_cells" in found else str(found["stopped"])
        log_event(logging.INFO, said, "result", **found)
    found["time_s"] = time.perf_counter() - began
    code = Exit.NOT_CERTIFIED if "at_most" in found else Exit.CERTIFIED
    return Answer(code, found)


def _counted(read: Any, bias: float, given: SimpleNamespace, report: Callable[[str], None]) -> dict[str, Any]:
    import numpy as np

    from covopt import count_cells, enumerate_cells
    from covopt.arrangement.enumeration import cell_bytes
    from covopt.arrangement.files import STREAMED, most_cells, write_cells
    from covopt.checks.memory import limit_bytes, plan
    from covopt.files import write_atomically
    from covopt.limits import TimeUp, seconds_left

    X, out, asked = read.X, given.out, {"bias": bias, "n_jobs": given.n_jobs}
    if given.count_only:
        return {"n_cells": int(count_cells(X, bias=bias))}
    if len(X) ** 2 / 8.0 > BYTES_PER_S * seconds_left():  # compiled code does not check the deadline
        raise TimeUp
    most = most_cells(X, bias=bias)
    expected = f"at most {most:,} cells"
    if out is not None and out.suffix in STREAMED:
        count = write_cells(X, out, report=lambda done: report(f"{done:,} of {expected}"), **asked)
        return {"n_cells": count}
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
