"""The command ``covopt train``: train many networks, and compare them with the certified optimum if asked to."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from covopt.cli.options import save_table
from covopt.cli.report import Exit, Progress
from covopt.cli.running import (
    Answer,
    columns_lines,
    progress,
    read_for_loss,
    settle_units,
    strengths_in,
    widths_in,
)

if TYPE_CHECKING:
    import pandas as pd

STANDARDISED = f"{'standardised':<14} costs, bounds and λ are of columns of mean 0 and variance 1"
SHOWN = 8  # rows of the table on the terminal
COLUMNS = (
    "width", "lam", "learning_rate", "seed", "loss", "squared_norm", "objective", "cost", "ratio", "residual",
    "error_rate", "status",
)  # fmt: skip
SAID = {  # entries of --json for a cross-check, and the attributes that hold them
    "certified": "proved", "objective": "certified", "lower_bound": "floor", "best_cost": "best_cost",
    "ratio": "ratio",
}  # fmt: skip


def train(given: SimpleNamespace) -> Answer:
    """Train networks by gradient descent, beside the certified optimum."""
    from covopt.checks import required
    from covopt.checks.log import log_event

    with progress(given, "loading PyTorch"):  # takes seconds, which the time limit does not count
        required("torch", "covopt train", "train")
    sizes, lams = _asked(given)
    with progress(given, "reading the table") as shown:
        if given.lam is None and given.loss is None:
            given.loss = "squared"  # without λ the networks interpolate
        table, options, said = read_for_loss(given)
        given.standardise, why = settle_units(given, table, options["loss"] if given.lam else None)
        X, Y, scaled = table.features, table.targets, None
        if given.standardise:
            X, Y, scaled = _standardised(X, Y, given.bias, options)
            why = [*why, STANDARDISED]
        options |= {"X": X, "Y": Y, "bias": given.bias, "output_bias": given.output_bias}
        shown.say(f"{len(X)} points, {len(table.feature_names)} features")
        outcome = _run(given, sizes, lams, options, shown)
    assert outcome.lines is not None
    numbers = {name: value for name, value in outcome.record.items() if name != "networks"}
    log_event(logging.INFO, outcome.lines[-1], "result", exit_code=int(outcome.code), **numbers)
    outcome.lines += [*columns_lines(table), *said, *why]
    outcome.record |= {
        "features": table.feature_names, "targets": table.target_names, "left_out": table.left_out,
        "standardised": scaled,
    }  # fmt: skip
    return outcome


def _asked(given: SimpleNamespace) -> tuple[list[Any], list[float | str]]:
    """Return widths and λ, or refuse options that exclude each other."""
    from covopt.errors import InputError

    sizes, lams = widths_in(given.widths), strengths_in(given.lam) if given.lam else []
    if given.cross_check and len(lams) > 1:
        raise InputError(f"--cross-check takes one λ; received --lam {given.lam}.")
    if given.cross_check and any(isinstance(size, tuple) for size in sizes):
        raise InputError(f"certificates are about two-layer networks; received --widths {given.widths}.")
    return sizes, lams


def _standardised(X: Any, Y: Any, bias: float, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the standardised table to train on, and the transformation by column."""
    from covopt.data import Data
    from covopt.data.scaling import standardise
    from covopt.data.tabular import Named

    classes, weights = options["loss"].is_classification, options["sample_weight"]
    table = Data.validate(X, [0.0] * len(X) if classes else Y, bias=bias, interpolates=False)
    data, scaling = standardise(table, weights, targets=not classes)
    targets = Y if classes else Named(data.Y, data.target_names)
    return Named(data.X, data.feature_names), targets, scaling.by_name(data)


def _run(
    given: SimpleNamespace, sizes: list[Any], lams: list[Any], options: dict[str, Any], shown: Progress
) -> Answer:
    """Train the networks; with ``--cross-check``, first certify the optimum and then compare."""
    from covopt import training
    from covopt.api.stopping import Clock
    from covopt.checks.validation import check_time_limit
    from covopt.limits import now
    from covopt.training.crosscheck import certified_optimum

    clock = Clock(check_time_limit(given.time_limit), now())

    def seen(state: Any) -> bool:
        shown.say(state.said)
        return clock.limit is not None and now() - clock.began >= clock.limit

    trained: dict[str, Any] = {
        "widths": sizes, "seeds": given.seeds, "device": given.device, "dtype": given.dtype,
        "random_state": given.seed, "schedule": _schedule(given.optimiser, given.steps),
        "learning_rate": given.learning_rate, "callback": seen,
        "record_every": None if given.plot is None else max(1, (given.steps or 2000) // 100),
    }  # fmt: skip
    proved, floor = True, None
    if given.cross_check:
        shown.say("certifying the optimum")
        lam = lams[0] if lams else None
        solution = certified_optimum(lam=lam, **options, time_limit_s=clock.half(), callback=shown)
        place = None if given.out is None else given.out.with_name(f"{given.out.stem}-contradiction.json")
        found: Any = training.cross_check(solution, contradiction_file=place, **trained)
        more, proved = {name: getattr(found, attribute) for name, attribute in SAID.items()}, found.proved
        run, floor = found.run, None if solution.loss is None else found.floor
        lines = [*_rows(found.table, by="cost"), f"{'status':<14} {solution.status.message}", found.summary()]
    else:
        run = found = training.train(lam=lams if lams else 0.0, **options, **trained)
        counts = found.table["status"].value_counts().to_dict()
        more = {"best": None if set(counts) == {"diverged"} else found.best}
        said = ", ".join(f"{count} {status}" for status, count in counts.items())
        lines = [
            *_rows(found.table),
            f"{len(found.table)} networks (heuristic): {said}, {found.time_s:.2f} s",
        ]
        lines += [] if found.complete else ["stopped before the end of the schedule"]

    def draw(path: Path) -> None:
        from covopt.plotting import save_figure
        from covopt.plotting.history import plot_losses

        figure: Any = plot_losses(run.history, floor=floor).figure
        save_figure(figure, path)

    return Answer(
        Exit.CERTIFIED if found.complete and proved else Exit.NOT_CERTIFIED,
        {"complete": found.complete, "time_s": found.time_s, **more, "networks": found.table.to_dict("records")},
        lines, save=partial(_save_table, found.table), draw=draw,
    )  # fmt: skip


# ---------------------------------------------------------------------- reading and writing
def _schedule(optimiser: str, steps: int | None) -> Any:
    """Return a schedule that ends in full-batch L-BFGS, except for label-noise SGD, whose last iterates matter."""
    from covopt.training import Phase

    if optimiser == "adam" and steps is None:
        return None
    steps = 1000 if steps is None else steps
    decay = "constant" if optimiser in ("lbfgs", "label-noise-sgd") else "cosine"
    first = Phase(optimiser, steps, decay=decay)
    return (first,) if decay == "constant" else (first, Phase("lbfgs", steps))


def _save_table(table: pd.DataFrame, out: Path) -> None:
    flat = table.copy()
    if "width" in flat and flat["width"].map(lambda width: isinstance(width, tuple)).any():
        flat["width"] = flat["width"].map(lambda width: "x".join(str(size) for size in width))
    save_table(flat, out)


def _rows(table: pd.DataFrame, by: str = "objective") -> list[str]:
    shown = table.sort_values(by).head(SHOWN)
    shown = shown[[name for name in COLUMNS if name in shown and not shown[name].isna().all()]]
    lines = shown.to_string(index=False, float_format=lambda value: f"{value:.6g}").splitlines()
    if len(table) > SHOWN:
        lines.append(f"the best {SHOWN} of {len(table)} networks; --out saves all")
    return lines
