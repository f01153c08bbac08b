"""Commands that analyse networks, saved files, matrices and points.

``covopt gap``, ``predict``, ``explore``, ``reduce``, ``verify``, ``prove``, ``cp-rank`` and ``cells``.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks import counted, required
from covopt.checks.log import log_event
from covopt.cli.options import reading, save_table
from covopt.cli.report import Exit, keep, left_out_lines
from covopt.cli.running import Answer, progress, read_for_loss, read_plain, strength_in
from covopt.errors import BudgetError, InputError

ACTIVATIONS = "a state dict does not name activations: every hidden layer is taken to be a ReLU"


def reduce(given: SimpleNamespace) -> Answer:
    """Reduce a trained PyTorch network to fewer neurons.

    Keeps its outputs on the table and never raises its norm.
    """
    with progress(given, "reducing"):
        found = _found(given)
    code = Exit.CERTIFIED if found["ended"] == "finished" else Exit.NOT_CERTIFIED
    return Answer(code, found)


def _found(given: SimpleNamespace) -> dict[str, Any]:
    """Reduce a model, write it, and return what to print."""
    import numpy as np

    from covopt.checks.validation import check_time_limit
    from covopt.data.table_files import read_table
    from covopt.limits import now
    from covopt.network.state_dict import format_of, read_model, write_model
    from covopt.sparsify.reduction import last_in_time

    model, table, out, preserve = given.model, given.table, given.out, given.preserve
    began, limit = now(), check_time_limit(given.time_limit)
    found = read_model(model)
    format_of(out)  # before anything is computed
    read = read_table(table, target=given.target, features=given.features, text=reading(given))
    read.check_inputs()
    X, names = read.X, read.feature_names
    network = found.network
    if X.shape[1] != network.n_inputs:
        listed = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        raise InputError(
            f"{table} gives {X.shape[1]} inputs ({listed}) but {model} "
            f"takes {network.n_inputs}; choose them with --features, and leave targets out with --target."
        )
    before = network.predict(X)
    left = None if limit is None else limit - (now() - began)
    small, ended = last_in_time(network.reductions(X, preserve=preserve), network, left)
    written = write_model(out, found, small)

    def change(other: Any) -> float:
        return float(np.abs(other.predict(X) - before).max(initial=0.0))

    return {
        "model": str(model),
        "n_samples": len(X),
        "features": list(names),
        "left_out": read.left_out,
        "preserve": preserve,
        "widths_before": list(network.widths),
        "widths_after": list(written.widths),
        "squared_norm_before": network.squared_norm,
        "squared_norm_after": written.squared_norm,
        "largest_output": float(np.abs(before).max(initial=0.0)),
        "output_change": change(small),
        "output_change_rounded": change(written),
        "dtypes": found.dtypes,
        "ended": ended,
        "note": ACTIVATIONS,
    }


SAID = ("status", "ladder", "gap", "excess", "what", "formula", "notes", "findings", "tol", "time_s")
ASKED = ("weight_decay", "reduction", "bias", "output_bias", "standardise", "tol")


def gap(given: SimpleNamespace) -> Answer:
    """Say how far a trained network is from the best one."""
    with progress(given, "measuring"):
        if given.interpolation:
            given.loss = "squared"
        table, options, said = read_for_loss(given)
        if given.interpolation:
            options["loss"] = "interpolation"
        from covopt.meter import gap as measure

        found = measure(
            given.model, table.features, table.targets, time_limit_s=given.time_limit,
            lam=None if given.lam is None else strength_in(given.lam),
            random_state=given.seed, **{name: getattr(given, name) for name in ASKED}, **options,
        )  # fmt: skip
    data, content = found.best.data, found.to_dict()
    record = {
        **{name: content[name] for name in SAID},
        "objective": found.objective, "lower_bound": found.lower_bound, "lam": found.best.lam,
        "n_samples": data.n_samples, "features": data.feature_names, "targets": data.target_names,
    }  # fmt: skip
    code = Exit.CERTIFIED if found.status.code == "certified" else Exit.NOT_CERTIFIED
    return Answer(
        code, record, [found.summary(), *said, *left_out_lines(table)], save=found.save, draw=found.plot
    )


def explore(given: SimpleNamespace) -> Answer:
    """Write one interactive HTML page that shows a solution or a path."""
    import covopt
    from covopt.explore import write_page

    given.out = given.out or given.solution.with_suffix(".html")
    with progress(given, "drawing"):
        left_out = write_page(covopt.load(given.solution), given.out, time_limit_s=given.time_limit)
    return Answer(
        Exit.NOT_CERTIFIED if left_out else Exit.CERTIFIED,
        {"left_out": left_out},
    )


def predict(given: SimpleNamespace) -> Answer:
    """Predict the targets of a table with a saved solution.

    Numbers, or classes with their probabilities; columns are found by name.
    """
    pd = required("pandas", "covopt predict", "tables")
    chosen = _choose(given.solution, given.lam)
    with progress(given, "predicting"):
        import numpy as np

        from covopt.data.table_files import read_table
        from covopt.solution.summary import predict_columns

        read = read_table(given.table, target=None, features=chosen.data.feature_names, text=reading(given))
        lacking = np.isnan(read.X).any(axis=1)
        if given.drop_missing:
            read.X[np.isnan(read.X)] = 0.0  # placeholders: predictions of these rows are emptied below
        read.check_inputs()
        found = pd.DataFrame(predict_columns(chosen, read.features))
        if lacking.any():
            found = found.astype(object)
            found.loc[lacking] = None
            typer.echo(
                f"note: {lacking.sum()} of {counted(len(found), 'row')} lack a value; theirs are empty",
                err=True,
            )
    record = {
        "n_samples": len(found), "empty": int(lacking.sum()), "lam": chosen.lam,
        "features": chosen.data.feature_names,
    }  # fmt: skip
    if given.as_json:
        record["predictions"] = found.to_dict("list")
    elif given.out is None:
        typer.echo(found.to_csv(index=False), nl=False)
    return Answer(Exit.CERTIFIED, record, [], partial(save_table, found))


def _choose(file: Path, lam: float | None) -> Any:
    import covopt
    from covopt.checks.validation import check_positive

    loaded = covopt.load(file)
    if isinstance(loaded, list):
        if lam is None:
            raise InputError(
                f"{file} is a path of {len(loaded)} solutions, λ {loaded[0].lam:.6g} to {loaded[-1].lam:.6g}: "
                "choose one with --lam."
            )
        lam = check_positive("--lam", lam)
        return min(loaded, key=lambda s: abs(math.log(s.lam / lam)))
    if not isinstance(loaded, covopt.Solution | covopt.depth.DeepSolution):
        raise InputError(f"{file} holds a {type(loaded).__name__}, no solution that could predict.")
    if lam is not None:
        raise InputError(f"--lam chooses a point of a path; {file} is one solution.")
    return loaded


# ---------------------------------------------------------------------- certificates, CP-ranks, cells
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
    from covopt.checks.memory import plan
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
