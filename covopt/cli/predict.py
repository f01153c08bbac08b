"""The command ``covopt predict``: a saved network on a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from covopt.checks.memory import memory_left, plan
from covopt.checks.optional import required
from covopt.cli.options import Decimal, Encoding, Json, MemoryLimit, Quiet, Sep, Table, reading
from covopt.cli.report import Exit, Progress, check_outputs, print_json, reporting
from covopt.cli.tables import TABLES, check_suffix, save_table
from covopt.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

ENTRY, TEXT = 80, 200  # bytes that an entry takes in a table that is written as a whole, and in JSON


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
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the targets of a table: numbers, or classes with their probabilities. Columns are found by name.

    A table of text is read, and predictions of CSV are written, a block of rows after the other.
    """
    with reporting(as_json, memory_limit=memory_limit) as heard:
        check_outputs(out, inputs=(solution, table))
        check_suffix(out, TABLES)
        required("pandas", "covopt predict", "tables")
        chosen = _choose(solution, lam)
        names = chosen.data.feature_names
        said = Progress("predicting", enabled=not (as_json or quiet))
        blocks = _blocks(chosen, table, reading(sep, encoding, decimal))
        if as_json or (out is not None and out.suffix.lower() in (".parquet", ".tex")):
            with said:
                found = _joined(blocks, TEXT if as_json else ENTRY)
            if out is not None:
                save_table(found, out)
            if as_json:
                print_json(
                    {
                        "predictions": found.to_dict("list"), "features": names, "n_samples": len(found),
                        "lam": chosen.lam, "exit_code": int(Exit.CERTIFIED), "warnings": heard, "table_file": out,
                    }
                )  # fmt: skip
        elif out is not None:
            with said:
                write_atomically(out, lambda stream: [stream.write(text.encode()) for text in _lines(blocks)])
        else:
            with said:
                for text in _lines(blocks):
                    typer.echo(text, nl=False)
        if not (as_json or quiet or out is None):
            typer.echo(f"{'saved':<14} {out}")


def _blocks(chosen: Any, table: Path, text: Any) -> Iterator[pd.DataFrame]:
    """Yield the predictions of the rows of a table, a block after the other."""
    import pandas as pd

    from covopt.api.prediction import predict_columns
    from covopt.data.table_files import read_inputs

    for read in read_inputs(table, chosen.data.feature_names, text=text):
        yield pd.DataFrame(predict_columns(chosen, read.features))


def _lines(blocks: Iterator[pd.DataFrame]) -> Iterator[str]:
    for number, found in enumerate(blocks):
        yield found.to_csv(index=False, header=number == 0)


def _joined(blocks: Iterator[pd.DataFrame], entry: int) -> pd.DataFrame:
    """Return all predictions, where there is room for so many bytes an entry."""
    import pandas as pd

    found, held = [], 0
    for each in blocks:
        held += entry * each.size
        plan(
            held,
            memory_left(held),
            "Save them as .csv, which is streamed.",
            what="a table of the predictions",
        )
        found.append(each)
    return pd.concat(found, ignore_index=True) if len(found) > 1 else found[0]


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
