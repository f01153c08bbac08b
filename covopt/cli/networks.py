"""The commands ``covopt solve``, ``fit``, ``path``, ``depth``, ``demo`` and ``train``: from a table to networks."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from covopt.checks import counted, required, row
from covopt.checks.log import log_event
from covopt.cli.options import save_table
from covopt.cli.report import Exit, Progress, left_out_lines
from covopt.cli.running import (
    Answer,
    columns_lines,
    earlier,
    progress,
    read_for_loss,
    read_plain,
    settle_units,
    strength_in,
    strengths_in,
    widths_in,
)
from covopt.errors import InputError, MissingPackageError

if TYPE_CHECKING:
    import pandas as pd

SAID = (
    "lam", "cost", "lower_bound", "gap", "tol", "depth", "potential", "output_bias", "solver", "time_s", "timings",
)  # fmt: skip
ASKED = (
    "bias", "output_bias", "potential", "solver", "tol", "duplicates", "standardise", "start", "depth",
    "time_limit", "seed",
)  # fmt: skip
CALLED = {"time_limit": "time_limit_s", "seed": "random_state"}  # options with another name in Python
STOPPED = ("time_limit", "interrupted", "callback")  # status codes of a run that --resume can continue


def asked(given: SimpleNamespace) -> dict[str, Any]:
    """Return the options as keyword arguments of the Python functions."""
    return {CALLED.get(name, name): getattr(given, name) for name in ASKED if hasattr(given, name)}


def _found(
    given: SimpleNamespace, name: str, *, by_loss: bool = False, units: bool = True, **more: Any
) -> tuple[Any, Any, list[str]]:
    """Return the result of a function of covopt for a table, the table, and lines that say how it was read."""
    from covopt import api, depth

    given.start = earlier(given)
    with progress(given, "reading the table", given.out) as shown:
        table, options, said = read_for_loss(given) if by_loss else (read_plain(given), {}, [])
        if units:
            given.standardise, why = settle_units(given, table, options.get("loss"))
            said = [*said, *why]
        X, Y = table.features, table.targets
        if 2 * more.get("folds", 0) > len(X):  # too few rows for cross-validation
            more["folds"] = 0
        shown.say(f"{counted(len(X), 'point')}, {counted(X.shape[1], 'feature')}: first round")
        run = getattr(depth if name == "representation_cost" else api, name)
        found = run(X, Y, callback=shown, **asked(given), **options, **more)
    return found, table, said


def solve(given: SimpleNamespace) -> Answer:
    """Find the smallest network through the points, with a proof."""
    return answer_of(*_found(given, "min_norm"))


def demo(given: SimpleNamespace) -> Answer:
    """Solve a real table of patients and draw it; no file is needed."""
    try:
        required("matplotlib", "drawing", "plot")
    except MissingPackageError:
        given.plot = None
        if given.talks:
            typer.echo("no picture, which needs matplotlib: pip install '.[plot]' in the checkout")
    from covopt.data.tabular import Named
    from covopt.datasets import load_diabetes_table

    with progress(given, "reading the table") as shown:
        X, Y, feature_names, target_names = load_diabetes_table()
        if given.talks:
            names = f"{target_names[0]} from {' and '.join(feature_names)}"
            typer.echo(f"diabetes table: {names}, {counted(len(X), 'distinct row')}")
        from covopt.api import min_norm

        named = Named(X, feature_names), Named(Y, target_names)
        solution = min_norm(*named, callback=shown, random_state=0, **asked(given))
    return answer_of(solution, None, [])


def depth(given: SimpleNamespace) -> Answer:
    """Bracket the norm of the smallest network of depth L."""
    return answer_of(*_found(given, "representation_cost", units=False))


def fit(given: SimpleNamespace) -> Answer:
    """Find the best network for noisy targets, with a proof.

    Minimises mean loss + λ‖W‖² (weight decay). The optimum is global.
    """
    from covopt.api.lambdas import DEFAULT_LAMBDA
    from covopt.solution.summary import quality

    shallow = given.depth == 2
    if given.depth > 2 and given.plot is not None:
        raise InputError(f"--plot draws shallow networks; received --depth {given.depth}: leave one out.")
    given.standardise = given.standardise if shallow else bool(given.standardise)
    lam = DEFAULT_LAMBDA if given.lam is None else strength_in(given.lam)
    solution, table, said = _found(given, "fit", by_loss=True, units=shallow, lam=lam)
    (name, value), top = quality(solution), solution.lambda_max or None
    answer = answer_of(solution, table, [row(name, f"{value:.4f}  (on the points it was fitted to)"), *said])
    share = None if top is None else solution.lam / top
    answer.record |= {"lambda_max": top, "lam_over_lambda_max": share, "held_out": _held_out(solution)}
    answer.record["r2" if name == "R²" else name] = value
    return answer


def path(given: SimpleNamespace) -> Answer:
    """Fit along a grid of λ from λ_max down, and certify every point."""
    from covopt.solution.summary import scaling_rows

    grid = None if given.lams is None else strengths_in(given.lams)
    solutions, table, said = _found(
        given, "path", by_loss=True, lams=grid, n_lams=given.n_lams, eps=given.eps, folds=given.folds
    )
    n_asked = given.n_lams if grid is None else len(set(grid))
    if not solutions:  # stopped within the first point: there is nothing to save or draw
        given.out = given.plot = None
    ended = len(solutions) == n_asked
    complete = ended and all(s.status.code == "certified" for s in solutions)
    scaling = [row(*each) for s in solutions[:1] for each in scaling_rows(s)]
    record = {
        "certified": complete, "points_asked": n_asked, **(table_of(solutions[0], table) if solutions else {}),
        "points": [numbers_of(s) for s in solutions], "held_out": _held_out(solutions),
    }  # fmt: skip
    return Answer(
        Exit.CERTIFIED if complete else Exit.NOT_CERTIFIED,
        record,
        [*_path_lines(solutions, record), *columns_lines(table), *said, *scaling],
        save=solutions.save if given.out is not None else None, draw=solutions.plot, rows=solutions.to_frame,
        finished=ended and solutions[-1].status.code not in STOPPED,
    )  # fmt: skip


# ---------------------------------------------------------------------- what is printed about a solution
def answer_of(solution: Any, table: Any, lines: list[str]) -> Answer:
    """Return the answer of a command for one solution: its summary, followed by ``lines``."""
    from covopt.solution import Solution
    from covopt.solution.summary import hint

    certified = solution.status.code == "certified"
    noted = [] if solution.data.notes is None else [row("note", note) for note in solution.data.notes]
    shallow = isinstance(solution, Solution)  # hints suggest --standardise, which needs two layers
    return Answer(
        Exit.CERTIFIED if certified else Exit.NOT_CERTIFIED,
        {
            **numbers_of(solution), **table_of(solution, table), "message": solution.status.message,
            "hint": (hint(solution) or None) if shallow else None, "notes": solution.data.notes,
        },
        [*solution.summary().splitlines(), *lines, *([] if table is None else left_out_lines(table)), *noted],
        save=solution.save,
        draw=solution.plot if shallow else None,
        finished=solution.status.code not in STOPPED,
    )  # fmt: skip


def numbers_of(solution: Any) -> dict[str, Any]:
    """Return the entries of ``--json`` for one solution."""
    network = solution.network
    said = {name: getattr(solution, name, None) for name in SAID}
    found = {name: value for name, value in said.items() if value is not None}
    if solution.loss is not None:
        found |= {"objective": solution.objective, "loss": solution.loss_value}
    elif hasattr(solution, "certificate"):
        found["residual"] = solution.certificate.residual
    return found | {
        "status": solution.status.code,
        "certified": solution.status.code == "certified",
        "n_neurons": sum(network.widths) if hasattr(network, "widths") else len(network),
        "rounds": len(solution.history),
    }


def table_of(solution: Any, table: Any) -> dict[str, Any]:
    """Return the entries of ``--json`` for the table and the options."""
    data, loss, scaling = solution.data, solution.loss, getattr(solution, "scaling", None)
    found = {} if loss is None else {"loss_name": loss.name, "classes": loss.classes}
    return found | {
        "n_samples": data.n_samples,
        "features": data.feature_names,
        "targets": data.target_names,
        "left_out": {} if table is None else table.left_out,
        "rows_dropped": 0 if table is None else table.dropped,
        "values_missing": {} if table is None else table.lacking,
        "bias": data.bias,
        "output_bias": solution.output_bias,
        "tol": solution.tol,
        "standardised": None if scaling is None else scaling.by_name(data),
    }


def _held_out(found: Any) -> dict[str, Any] | None:
    """Return the entries of ``--json`` for the cross-validation."""
    seen = getattr(found, "held_out", None)
    if seen is None:
        return None
    means = {"loss": seen.losses.mean(axis=1), seen.quality: seen.qualities.mean(axis=1)}
    return {"lam": seen.best, "lams": seen.lams, **means}


def _path_lines(found: Any, record: dict[str, Any]) -> list[str]:
    """Return one line for each point of a path, and the λ that fits held-out rows best."""
    points, seen = record["points"], found.held_out
    rows = found.to_frame().drop(columns="lower_bound")
    lines = rows.to_string(index=False, float_format="{:.6g}".format).splitlines() if points else []
    if seen is not None:
        lines.append(row("fits best", f"λ = {seen.best:.6g} on rows left out: {seen.said}"))
    done, total = sum(p["certified"] for p in points), sum(p["time_s"] for p in points)
    return [*lines, f"{done} of {counted(record['points_asked'], 'point')} certified, {total:.2f} s"]


# ---------------------------------------------------------------------- training
STANDARDISED = row("standardised", "costs, bounds and λ are of columns of mean 0 and variance 1")
COLUMNS = (
    "width", "lam", "learning_rate", "seed", "loss", "squared_norm", "objective", "cost", "ratio", "residual",
    "error_rate", "status",
)  # fmt: skip
CHECKED = {  # entries of --json for a cross-check, and the attributes that hold them
    "certified": "proved", "objective": "certified", "lower_bound": "floor", "best_cost": "best_cost",
    "ratio": "ratio",
}  # fmt: skip


def train(given: SimpleNamespace) -> Answer:
    """Train networks by gradient descent, beside the certified optimum."""
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
        more, proved = {name: getattr(found, attribute) for name, attribute in CHECKED.items()}, found.proved
        run, floor = found.run, None if solution.loss is None else found.floor
        lines = [*_rows(found.table, by="cost"), row("status", solution.status.message), found.summary()]
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
    most = required("pandas", "covopt train", "train").get_option("display.min_rows")
    shown = table.sort_values(by).head(most)
    shown = shown[[name for name in COLUMNS if name in shown and not shown[name].isna().all()]]
    lines = shown.to_string(index=False, float_format=lambda value: f"{value:.6g}").splitlines()
    if len(table) > most:
        lines.append(f"the best {most} of {len(table)} networks; --out saves all")
    return lines
