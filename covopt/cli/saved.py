"""The commands ``covopt gap``, ``predict``, ``explore`` and ``reduce``, which start from an existing network."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks import required
from covopt.checks.messages import counted
from covopt.cli.options import reading, save_table
from covopt.cli.report import Exit, left_out_lines
from covopt.cli.running import Answer, progress, read_for_loss, strength_in
from covopt.errors import InputError

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
