"""The command ``covopt path``: a grid of λ, every point certified."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from covopt.checks.wording import counted
from covopt.cli.cluster import Cluster
from covopt.cli.fit import (
    Delta,
    LossName,
    SampleWeight,
    Target,
    columns_lines,
    numbers_of,
    read_for_loss,
    say_saved,
    table_of,
)
from covopt.cli.options import (
    STOPPED,
    Bias,
    CheckpointEvery,
    Decimal,
    DropMissing,
    Encoding,
    Features,
    Json,
    MemoryLimit,
    OneHot,
    OutputBias,
    Plot,
    Potential,
    Quiet,
    Resume,
    Seed,
    Sep,
    Standardise,
    Table,
    TableOut,
    TimeLimit,
    Tol,
    check_plot,
    checkpoint_of,
    reading,
    settle,
    settle_units,
)
from covopt.cli.report import Exit, Progress, check_outputs, keep, print_json, reporting
from covopt.cli.tables import JSON, TABLES, check_suffix, save_table


def path(
    table: Table,
    *,
    target: Target,
    loss: LossName = None,
    delta: Delta = None,
    lams: Annotated[
        str | None, typer.Option(metavar="A,B", help="The λ to solve for; by default a grid from λ_max down.")
    ] = None,
    n_lams: Annotated[int, typer.Option(min=1, help="Points of the grid.")] = 30,
    eps: Annotated[float, typer.Option(help="Smallest λ of the grid, as a share of λ_max.")] = 1e-3,
    folds: Annotated[
        int,
        typer.Option(
            min=0, help="Folds of a cross-validation, which says which λ fits rows left out; 0: none."
        ),
    ] = 5,
    features: Features = None,
    sample_weight: SampleWeight = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    bias: Bias = 1.0,
    output_bias: OutputBias = "none",
    potential: Potential = "variation",
    standardise: Standardise = None,
    one_hot: OneHot = False,
    drop_missing: DropMissing = False,
    tol: Tol = 1e-6,
    time_limit: TimeLimit = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Save all solutions.")] = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    rows: TableOut = None,
    plot: Plot = None,
    memory_limit: MemoryLimit = None,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Solve for a grid of λ from λ_max down, every point certified, and draw the path."""
    with reporting(as_json, cluster, memory_limit) as heard:
        check_outputs(out, plot, rows, inputs=(table,))
        check_suffix(out, JSON)
        check_suffix(rows, TABLES)
        check_plot(plot)
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every)
        grid = None if lams is None else _parse_lams(lams)
        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            text = reading(sep, encoding, decimal)
            read, options, said = read_for_loss(
                table, target, features, loss, delta, sample_weight, text, one_hot=one_hot, drop_missing=drop_missing
            )  # fmt: skip
            standardise, why = settle_units(standardise, read, bias)
            X, Y = read.features, read.targets
            progress.say(f"{counted(len(X), 'point')}, {counted(X.shape[1], 'feature')}: first λ")
            from covopt.api.fitting import path as run

            solutions = run(
                X, Y, lams=grid, n_lams=n_lams, eps=eps, bias=bias, output_bias=output_bias, potential=potential,
                standardise=standardise, tol=tol, time_limit_s=time_limit, random_state=seed, callback=progress,
                checkpoint=checkpoint, folds=folds if len(X) >= 2 * folds else 0,
                **options,
            )  # fmt: skip
        asked = n_lams if grid is None else len(set(grid))
        if not solutions:  # stopped within the first point: there is nothing to read from such a file
            out = plot = None
        if out is not None:
            from covopt.api.path_files import save_path

            keep(lambda file: save_path(solutions, file), out)
        ended = len(solutions) == asked and solutions[-1].status.code not in STOPPED
        settle(checkpoint, finished=ended)
        if rows is not None:
            save_table(solutions.to_frame(), rows)
        if plot is not None:
            from covopt.plotting import save_figure
            from covopt.plotting.path import plot_path

            save_figure(plot_path(solutions), plot)
        complete = len(solutions) == asked and all(s.status.code == "certified" for s in solutions)
        code = Exit.CERTIFIED if complete else Exit.NOT_CERTIFIED
        if as_json:
            print_json(
                {
                    "exit_code": int(code), "certified": complete, "points_asked": asked,
                    **(table_of(solutions[0], read) if solutions else {}),
                    "points": [numbers_of(s) for s in solutions], "held_out": _held_out(solutions),
                    "warnings": heard, "path_file": out, "table_file": rows, "figure_file": plot,
                }
            )  # fmt: skip
        elif not quiet:
            for line in [
                *_lines(solutions, asked),
                *columns_lines(read),
                *said,
                *why,
                *_standardised_lines(solutions),
            ]:
                typer.echo(line)
            say_saved(out, rows, plot)
        raise typer.Exit(code)


def _standardised_lines(solutions: list[Any]) -> list[str]:
    from covopt.solution.summary import scaling_rows

    if not solutions:
        return []
    return [f"{name:<14} {text}" for name, text in scaling_rows(solutions[0])]


def _parse_lams(lams: str) -> list[float]:
    from covopt.errors import InputError

    try:
        return [float(part) for part in lams.split(",")]
    except ValueError:
        raise InputError(f"--lams must be numbers separated by commas; received {lams!r}") from None


def _held_out(solutions: Any) -> dict[str, Any] | None:
    """Return what ``--json`` says of the cross-validation."""
    seen = solutions.held_out
    if seen is None:
        return None
    means = {"loss": seen.losses.mean(axis=1), seen.quality: seen.qualities.mean(axis=1)}
    return {"lam": seen.best, "lams": seen.lams, **means}


def _lines(solutions: Any, asked: int) -> list[str]:
    """Return one line for each point, and which fits rows left out best."""
    seen = solutions.held_out
    name = "" if seen is None else {"r2": "R²"}.get(seen.quality, seen.quality)
    beside = [""] * len(solutions)
    if seen is not None:
        means = zip(seen.losses.mean(axis=1), seen.qualities.mean(axis=1), strict=True)
        beside = [f"{loss:14.6g} {quality:9.4f} " for loss, quality in means]
    more = "" if seen is None else f"{'left out: loss':>14} {name:>9} "
    lines = [f"{'λ':>12} {'objective':>14} {'loss':>14} {more}{'‖W‖²':>14} {'neurons':>8} {'gap':>9}  status"]
    lines += [
        f"{s.lam:12.6g} {s.objective:14.8g} {s.loss_value:14.8g} {left}{s.cost:14.8g} {len(s.network):8d} "
        f"{s.gap:9.1e}  {s.status.code}"
        for s, left in zip(solutions, beside, strict=False)
    ]
    done = sum(s.status.code == "certified" for s in solutions)
    total = sum(s.time_s for s in solutions)
    if seen is not None:
        best = float(seen.qualities.mean(axis=1)[int(seen.losses.mean(axis=1).argmin())])
        lines.append(
            f"{'fits best':<14} λ = {seen.best:.6g} on rows left out in turn ({name} {best:.4f} there)"
        )
    return [*lines, f"{done} of {counted(asked, 'point')} certified, {total:.2f} s"]
