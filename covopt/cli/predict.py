"""The command ``covopt predict``: a saved network on a table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from covopt.checks.optional import required
from covopt.cli.options import Decimal, Encoding, Json, Quiet, Sep, Table, reading
from covopt.cli.report import Exit, Progress, check_outputs, print_json, reporting
from covopt.cli.tables import TABLES, check_suffix, save_table


def predict(
    solution: Annotated[
        Path, typer.Argument(metavar="FILE.json", help="A solution or a path, as solve, fit and path save.")
    ],
    table: Table,
    *,
    lam: Annotated[
        float | None, typer.Option(help="Which point of a path: the one whose λ is nearest.")
    ] = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.csv", help="Save them (.csv, .parquet, .tex); else CSV on stdout."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the targets of a table: numbers, or classes with their probabilities. Columns are found by name."""
    with reporting(as_json) as heard:
        check_outputs(out, inputs=(solution, table))
        check_suffix(out, TABLES)
        pd = required("pandas", "covopt predict", "tables")
        from covopt.api.prediction import predict_columns
        from covopt.data.table_files import read_table

        with Progress("predicting", enabled=not (as_json or quiet)):
            chosen = _choose(solution, lam)
            read = read_table(
                table, target=None, features=chosen.data.feature_names, text=reading(sep, encoding, decimal)
            )
            read.check_inputs()
            found = pd.DataFrame(predict_columns(chosen, read.features))
        if out is not None:
            save_table(found, out)
        if as_json:
            print_json(
                {
                    "predictions": found.to_dict("list"), "features": read.feature_names, "n_samples": len(found),
                    "lam": chosen.lam, "exit_code": int(Exit.CERTIFIED), "warnings": heard, "table_file": out,
                }
            )  # fmt: skip
        elif out is None:
            typer.echo(found.to_csv(index=False), nl=False)
        elif not quiet:
            typer.echo(f"{'saved':<14} {out}")


def _choose(file: Path, lam: float | None) -> Any:
    import covopt
    from covopt.checks.validation import check_positive
    from covopt.errors import InputError

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
