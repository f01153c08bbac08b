"""The command ``covopt reduce``: a trained network with fewer neurons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from covopt.checks.wording import counted
from covopt.cli.options import reading
from covopt.cli.report import Exit
from covopt.cli.running import Answer, progress

ACTIVATIONS = "a state dict does not name activations: every hidden layer is taken to be a ReLU"
ENDED = {
    "time_limit": "the time limit was reached; this is the smallest model that there was time for",
    "interrupted": "interrupted; this is the smallest model so far",
}


def reduce(given: SimpleNamespace) -> Answer:
    """Cut a trained ReLU network to fewer neurons: same outputs on the table, no larger norm."""
    with progress(given, "reducing"):
        found = _found(given)
    code = Exit.CERTIFIED if found["ended"] == "finished" else Exit.NOT_CERTIFIED
    return Answer(code, found, lines(found))


def _found(given: SimpleNamespace) -> dict[str, Any]:
    """Reduce a model, write it, and return what to print."""
    import numpy as np

    from covopt.checks.validation import check_time_limit
    from covopt.data.table_files import read_table
    from covopt.errors import InputError
    from covopt.limits import now
    from covopt.network.state_dict import format_of, read_model, write_model
    from covopt.sparsify.reduction import last_in_time

    model, table, out, preserve = given.model, given.table, given.out, given.preserve
    began, limit = now(), check_time_limit(given.time_limit)
    found = read_model(model)
    if format_of(out) != found.format:
        raise InputError(
            f"cannot write {out}: the format of {model} is kept; give the file the extension {model.suffix}."
        )
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
        "dtypes": list(found.dtypes),
        "ended": ended,
        "note": ACTIVATIONS,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the summary, a line each."""
    from covopt.data.column_choice import describe_left_out

    def widths(values: list[int]) -> str:
        return ", ".join(map(str, values)) or "none"

    left_out = describe_left_out(found["left_out"]) or "nothing"
    return [
        f"{'features':<14} {', '.join(found['features'])}; left out: {left_out}",
        f"{'widths':<14} {widths(found['widths_before'])} → {widths(found['widths_after'])}",
        f"{'‖W‖²':<14} {found['squared_norm_before']:.10g} → {found['squared_norm_after']:.10g}",
        f"{'outputs':<14} change by at most {found['output_change']:.1e} on {counted(found['n_samples'], 'point')}, "
        f"{found['output_change_rounded']:.1e} as written ({', '.join(sorted(set(found['dtypes'])))}); "
        f"largest output {found['largest_output']:.4g}",
        f"{'note':<14} {found['note']}",
        *([f"{'ended':<14} {ENDED[found['ended']]}"] if found["ended"] in ENDED else []),
    ]
