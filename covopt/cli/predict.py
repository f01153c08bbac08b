"""The command ``covopt predict``: a saved network on a table."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks.optional import required
from covopt.cli.options import reading
from covopt.cli.report import Exit
from covopt.cli.running import Answer, progress
from covopt.cli.tables import save_table


def predict(given: SimpleNamespace) -> Answer:
    """Predict the targets of a table: numbers, or classes with their probabilities. Columns are found by name."""
    pd = required("pandas", "covopt predict", "tables")
    chosen = _choose(given.solution, given.lam)
    with progress(given, "predicting"):
        from covopt.data.table_files import read_table
        from covopt.solution.prediction import predict_columns

        read = read_table(given.table, target=None, features=chosen.data.feature_names, text=reading(given))
        read.check_inputs()
        found = pd.DataFrame(predict_columns(chosen, read.features))
    if given.out is None and not given.as_json:
        typer.echo(found.to_csv(index=False), nl=False)
    record = {"predictions": found.to_dict("list")} if given.as_json else {}
    return Answer(
        Exit.CERTIFIED,
        record | {"n_samples": len(found), "lam": chosen.lam, "features": chosen.data.feature_names},
        save=partial(save_table, found),
    )


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
