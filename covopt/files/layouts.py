"""The layout of every JSON file that covopt writes: its fields and their kinds, see ``files.schema``."""

from __future__ import annotations

from typing import Any

from covopt.files.schema import (
    Table,
    each,
    finite,
    flag,
    fraction,
    line,
    maybe,
    number,
    record,
    rows,
    seconds,
    share,
    text,
    whole,
)


def _scalar(value: Any) -> str | None:
    return None if value is None or isinstance(value, str | int | float) else "text or a number"


LOSS: Table = {
    "name": line,
    "classes": maybe(each(_scalar, "classes"), absent=True),
    "column": maybe(text, absent=True),
    "total": maybe(flag, absent=True),
}

SCALING: Table = {"centre": rows, "scale": rows, "target_centre": rows}

PROBLEM: Table = {
    "X": rows,
    "Y": rows,
    "bias": number,
    "output_bias": line,
    "potential": line,
    "feature_names": each(text, "names"),
    "target_names": each(text, "names"),
    "notes": each(line, "notes"),
    "scaling": maybe(record, absent=True),
}

NETWORK: Table = {"hidden_weights": rows, "output_weights": rows, "output_bias": rows}

CERTIFICATE: Table = {"residual": number, "gauge": number, "exact": flag, "bound": line}

SOLUTION: Table = {
    "status": line,
    "cost": number,
    "lower_bound": number,
    "gap": number,
    "tol": share,
    "problem": PROBLEM,
    "network": NETWORK,
    "dual": rows,
    "dual_low": maybe(rows, absent=True),
    "proof": maybe(
        record, absent=True
    ),  # multipliers of a semidefinite relaxation, once: the dual norm is computed anew
    "certificate": CERTIFICATE,
    "solver": line,
    "random_state": maybe(whole),
    "time_s": finite,
    "timings": maybe(seconds, absent=True),
    "history": each(record, "rounds"),
}

SOLUTION_WITH_LOSS: Table = {
    **SOLUTION,
    "problem": {**PROBLEM, "lam": number, "loss": LOSS, "sample_weight": maybe(rows)},
    "certificate": {**CERTIFICATE, "objective": number, "loss_value": number},
}

DEEP_NETWORK: Table = {"weights": each(rows, "layers"), "biases": each(maybe(rows), "layers")}

DEEP_SOLUTION: Table = {
    "status": line,
    "depth": whole,
    "cost": finite,
    "lower_bound": finite,
    "tol": share,
    "problem": {name: kind for name, kind in PROBLEM.items() if name != "potential"},
    "network": DEEP_NETWORK,
    "bounds": each(record, "bounds"),
    "random_state": maybe(whole),
    "time_s": finite,
    "timings": maybe(seconds, absent=True),
    "history": each(record, "steps"),
}

DEEP_FIT: Table = {
    **DEEP_SOLUTION,
    "objective": finite,
    "problem": {**DEEP_SOLUTION["problem"], "lam": number, "loss": LOSS, "sample_weight": maybe(rows)},  # type: ignore[dict-item]
}

REASON: Table = {
    "side": line,
    "value": maybe(whole),
    "method": line,
    "text": line,
    "vertices": each(whole, "rows"),
    "data": record,
}

READING: Table = {
    "name": line,
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "factor": maybe(rows),
    "reasons": each(REASON, "reasons"),
}

CP_RANK: Table = {
    "status": line,
    "lower": maybe(whole),
    "upper": maybe(whole),
    "upper_numerical": maybe(whole, absent=True),
    "matrix": rows,
    "exact": maybe(each(each(fraction, "fractions"), "rows")),
    "tol": share,
    "readings": each(READING, "readings"),
    "notes": each(line, "notes"),
    "time_s": finite,
}

GAP: Table = {
    "ladder": record,
    "what": line,
    "formula": line,
    "notes": each(line, "notes"),
    "findings": each(line, "findings"),
    "tol": share,
    "time_s": finite,
    "networks": record,
    "best": record,
}
