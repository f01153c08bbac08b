"""The command ``covopt predict``: a saved network on a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from covopt.checks.memory import memory_left, plan
from covopt.checks.optional import required
from covopt.cli.options import reading
from covopt.cli.report import Exit
from covopt.cli.running import Answer, progress
from covopt.cli.tables import save_table
from covopt.files import write_atomically

if TYPE_CHECKING:
    import pandas as pd

ENTRY, TEXT = 80, 200  # bytes that an entry takes in a table that is written as a whole, and in JSON


def predict(given: SimpleNamespace) -> Answer:
    """Predict the targets of a table: numbers, or classes with their probabilities. Columns are found by name.

    A table of text is read, and predictions of CSV are written, a block of rows after the other.
    """
    required("pandas", "covopt predict", "tables")
    chosen = _choose(given.solution, given.lam)
    blocks, out, record = _blocks(chosen, given.table, reading(given)), given.out, {}
    with progress(given, "predicting"):
        if given.as_json or (out is not None and out.suffix.lower() in (".parquet", ".tex")):
            found = _joined(blocks, TEXT if given.as_json else ENTRY)
            record = {"predictions": found.to_dict("list"), "n_samples": len(found), "lam": chosen.lam}
            if out is not None:
                save_table(found, out)
        elif out is not None:
            write_atomically(out, lambda stream: [stream.write(text.encode()) for text in _lines(blocks)])
        else:
            for text in _lines(blocks):
                typer.echo(text, nl=False)
    return Answer(Exit.CERTIFIED, record | {"features": chosen.data.feature_names})


def _blocks(chosen: Any, table: Path, text: Any) -> Iterator[pd.DataFrame]:
    """Yield the predictions of the rows of a table, a block after the other."""
    import pandas as pd

    from covopt.data.table_files import read_inputs
    from covopt.solution.prediction import predict_columns

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
