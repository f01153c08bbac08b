"""The command ``covopt depth``: what the smallest deep network through a table costs, between two bounds."""

from __future__ import annotations

from typing import Annotated

import typer

from covopt.cli.options import (
    Bias,
    Decimal,
    Duplicates,
    Encoding,
    Features,
    Json,
    MemoryLimit,
    Out,
    OutputBias,
    Quiet,
    Seed,
    Sep,
    Table,
    TimeLimit,
    Tol,
    reading,
)
from covopt.cli.report import Exit, Progress, check_outputs, left_out_lines, print_json, reporting, save
from covopt.cli.tables import JSON, check_suffix


def depth(
    table: Table,
    *,
    target: Annotated[str, typer.Option(metavar="Y", help="Target column.")],
    layers: Annotated[int, typer.Option("--depth", metavar="L", help="Number of weight layers, 2 or more.")],
    features: Features = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    bias: Bias = 1.0,
    output_bias: OutputBias = "none",
    tol: Tol = 1e-6,
    time_limit: TimeLimit = 60.0,
    duplicates: Duplicates = "error",
    seed: Seed = None,
    out: Out = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bracket the norm of the smallest network of depth L through the points: a network, and a bound below all."""
    with reporting(as_json, memory_limit=memory_limit) as heard:
        check_outputs(out, inputs=(table,))
        check_suffix(out, JSON)
        from covopt.data import table_files

        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            read = table_files.read_table(
                table, target=target, features=features, text=reading(sep, encoding, decimal)
            )
            progress.say(f"depth {layers}")
            from covopt.depth import representation_cost

            solution = representation_cost(
                read.features,
                read.targets,
                depth=layers,
                bias=bias,
                output_bias=output_bias,
                tol=tol,
                time_limit_s=time_limit,
                random_state=seed,
                duplicates=duplicates,
            )
        save(solution, out)
        code = Exit.CERTIFIED if solution.status.code == "certified" else Exit.NOT_CERTIFIED
        if as_json:
            print_json(
                {
                    "status": solution.status.code,
                    "message": solution.status.message,
                    "certified": code == Exit.CERTIFIED,
                    "exit_code": int(code),
                    "depth": layers,
                    "cost": solution.cost,
                    "lower_bound": solution.lower_bound,
                    "gap": solution.gap,
                    "tol": solution.tol,
                    "n_samples": solution.data.n_samples,
                    "features": solution.data.feature_names,
                    "targets": solution.data.target_names,
                    "left_out": read.left_out,
                    "bias": solution.data.bias,
                    "time_s": solution.time_s,
                    "timings": solution.timings,
                    "notes": solution.data.notes,
                    "warnings": heard,
                    "solution_file": out,
                }
            )
        elif not quiet:
            typer.echo(solution.summary())
            for line in left_out_lines(read):
                typer.echo(line)
            for note in solution.data.notes:
                typer.echo(f"{'note':<14} {note}")
            if out is not None:
                typer.echo(f"{'saved':<14} {out}")
        raise typer.Exit(code)
