"""The commands ``covopt solve`` and ``covopt demo``: the smallest network through the points of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from covopt.checks.optional import is_installed
from covopt.checks.wording import counted
from covopt.cli.cluster import Cluster
from covopt.cli.options import (
    STOPPED,
    Bias,
    CheckpointEvery,
    Decimal,
    DropMissing,
    Duplicates,
    Encoding,
    Features,
    Json,
    MemoryLimit,
    OneHot,
    Out,
    OutputBias,
    Plot,
    Potential,
    Quiet,
    Resume,
    Seed,
    Sep,
    Standardise,
    Table,
    TimeLimit,
    Tol,
    check_plot,
    checkpoint_of,
    reading,
    settle,
    settle_units,
)
from covopt.cli.report import (
    Exit,
    Progress,
    before_the_first_round,
    check_outputs,
    left_out_lines,
    print_json,
    reporting,
    save,
    standardised_of,
)
from covopt.cli.tables import JSON, check_suffix

Solver = Literal[
    "auto", "column-generation", "relaxation", "conic:CLARABEL", "conic:SCS", "conic:MOSEK", "frank-wolfe:sliding",
    "frank-wolfe:fully-corrective", "frank-wolfe:pairwise", "frank-wolfe:vanilla",
]  # fmt: skip


def _finish(
    solution: Any,
    *,
    checkpoint: Any = None,
    table: Any,
    said: list[str] | None = None,
    out: Path | None,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
    heard: list[str],
) -> typer.Exit:
    """Save, draw and print; the file comes first, so that nothing computed is lost to a later failure."""
    save(solution, out)
    settle(checkpoint, finished=solution.status.code not in STOPPED)
    if plot is not None:
        with Progress("drawing", enabled=not (as_json or quiet)):
            solution.plot(plot)
    certified = solution.status.code == "certified"
    code = Exit.CERTIFIED if certified else Exit.NOT_CERTIFIED
    if as_json:
        from covopt.solution.hints import hint

        data = solution.data
        print_json(
            {
                "status": solution.status.code,
                "message": solution.status.message,
                "certified": certified,
                "exit_code": int(code),
                "cost": solution.cost,
                "lower_bound": solution.lower_bound,
                "gap": solution.gap,
                "tol": solution.tol,
                "residual": solution.certificate.residual,
                "potential": solution.potential,
                "n_neurons": len(solution.network.hidden_weights),
                "n_samples": data.n_samples,
                "features": data.feature_names,
                "targets": data.target_names,
                "left_out": {} if table is None else table.left_out,
                "rows_dropped": 0 if table is None else table.dropped,
                "bias": data.bias,
                "standardised": standardised_of(solution),
                "hint": hint(solution) or None,
                "solver": solution.solver,
                "rounds": len(solution.history),
                "time_s": solution.time_s,
                "timings": solution.timings,
                "notes": data.notes,
                "warnings": heard,
                "solution_file": out,
                "figure_file": plot,
            }
        )
    elif not quiet:
        typer.echo(solution.summary())
        for line in [] if table is None else [*(said or []), *left_out_lines(table)]:
            typer.echo(line)
        for note in solution.data.notes:
            typer.echo(f"{'note':<14} {note}")
        for path in (out, plot):
            if path is not None:
                typer.echo(f"{'saved':<14} {path}")
    return typer.Exit(code)


def solve(
    table: Table,
    *,
    target: Annotated[str, typer.Option(metavar="Y", help="Target column.")],
    features: Features = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    bias: Bias = 1.0,
    output_bias: OutputBias = "none",
    potential: Potential = "variation",
    solver: Annotated[
        Solver,
        typer.Option(
            metavar="NAME",
            case_sensitive=False,
            help="auto, column-generation, relaxation, conic:CLARABEL|SCS|MOSEK (slow), or "
            "frank-wolfe:sliding|fully-corrective|pairwise|vanilla.",
        ),
    ] = "auto",
    tol: Tol = 1e-6,
    time_limit: TimeLimit = None,
    duplicates: Duplicates = "error",
    standardise: Standardise = None,
    one_hot: OneHot = False,
    drop_missing: DropMissing = False,
    seed: Seed = None,
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    plot: Plot = None,
    memory_limit: MemoryLimit = None,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Find THE smallest two-layer ReLU network through the points, and prove that none is smaller."""
    with reporting(as_json, cluster, memory_limit) as heard:
        check_outputs(out, plot, inputs=(table,))
        check_suffix(out, JSON)
        check_plot(plot)
        # other solvers and potentials keep none
        plain = potential == "variation" and solver in ("auto", "column-generation")
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every, kept=plain)
        from covopt.data import table_files

        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            read = table_files.read_table(
                table, target=target, features=features, text=reading(sep, encoding, decimal), words=one_hot,
                drop_missing=drop_missing,
            )  # fmt: skip
            standardise, why = settle_units(standardise, read, bias)
            progress.say(before_the_first_round(read.X.shape, read.Y.shape, out=not (as_json or quiet)))
            from covopt.api import min_norm

            solution = min_norm(
                read.features,
                read.targets,
                bias=bias,
                output_bias=output_bias,
                potential=potential,
                solver=solver,
                tol=tol,
                time_limit_s=time_limit,
                random_state=seed,
                callback=progress,
                duplicates=duplicates,
                checkpoint=checkpoint,
                standardise=standardise,
            )
        raise _finish(
            solution,
            checkpoint=checkpoint,
            table=read,
            said=why,
            out=out,
            plot=plot,
            as_json=as_json,
            quiet=quiet,
            heard=heard,
        )


def demo(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE.json", help="Where to save the solution.")] = Path(
        "covopt-demo.json"
    ),
    plot: Annotated[Path, typer.Option(metavar="FILE.png", help="Where to save the figure.")] = Path(
        "covopt-demo.png"
    ),
    tol: Tol = 1e-6,
    time_limit: TimeLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Solve a real table: the diabetes data, two features, every distinct row."""
    with reporting(as_json) as heard:
        check_outputs(out, plot)
        check_suffix(out, JSON)
        drawn = plot if is_installed("matplotlib") else None
        if drawn is None and not (as_json or quiet):
            typer.echo("no picture, which needs matplotlib: pip install 'covopt-nn[plot]'")
        check_plot(drawn)
        from covopt.data.tabular import Named
        from covopt.datasets import load_diabetes_table

        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            X, Y, feature_names, target_names = load_diabetes_table()
            if not (as_json or quiet):
                typer.echo(
                    f"diabetes table: {target_names[0]} from {' and '.join(feature_names)}, "
                    f"{counted(len(X), 'distinct row')}"
                )
            progress.say(before_the_first_round(X.shape, Y.shape, out=not (as_json or quiet)))
            from covopt.api import min_norm

            solution = min_norm(
                Named(X, feature_names),
                Named(Y, target_names),
                tol=tol,
                time_limit_s=time_limit,
                random_state=0,
                callback=progress,
            )
        raise _finish(solution, table=None, out=out, plot=drawn, as_json=as_json, quiet=quiet, heard=heard)
