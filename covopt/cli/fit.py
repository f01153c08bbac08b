"""The command ``covopt fit``: regularised training to certified optimality."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated, Any

import typer

from covopt.checks.wording import counted, listed
from covopt.cli.cluster import Cluster
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
    Out,
    OutputBias,
    Plot,
    Potential,
    Quiet,
    Resume,
    Seed,
    Sep,
    Standardise,
    Table,
    TimeLimit,
    Tol,
    again,
    check_plot,
    checkpoint_of,
    reading,
    settle,
    settle_units,
)
from covopt.cli.report import (
    Exit,
    Progress,
    before_the_first_round,
    check_outputs,
    left_out_lines,
    print_json,
    reporting,
    save,
    standardised_of,
)
from covopt.cli.tables import JSON, check_suffix

SMALLER = 0.1  # times λ, what a hint that it is large leads to
FOR_LAMBDA = 0.1  # of the time, for λ_max after a solve that did not need it
Target = Annotated[
    str, typer.Option(metavar="Y", help="Target column: numbers, or labels for classification.")
]


def losses_there_are() -> list[str]:
    """Return the names of all losses, for completion: others may have been registered."""
    from covopt.losses import LOSSES

    return list(LOSSES)


LossName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="squared, huber, logistic, hinge, squared-hinge or softmax-cross-entropy. By default the target says: "
        "squared for numbers, logistic for two classes, softmax-cross-entropy for more.",
        autocompletion=losses_there_are,
    ),
]  # fmt: skip
Delta = Annotated[float | None, typer.Option(help="Where the Huber loss becomes linear (default 1).")]
SampleWeight = Annotated[
    str | None, typer.Option(metavar="COLUMN", help="Column of sample weights; it is no input.")
]


def read_for_loss(
    table: Path,
    target: str,
    features: str | None,
    loss: str | None,
    delta: float | None,
    sample_weight: str | None,
    text: Any,
    *,
    one_hot: bool = False,
    drop_missing: bool = False,
) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the table, the options that come from it, and a line about the loss where the target has chosen it."""
    from covopt.data.table_files import read_table
    from covopt.errors import InputError
    from covopt.losses import Huber, make_loss

    made = None if loss is None else make_loss(loss)
    if delta is not None:
        if not isinstance(made, Huber):
            raise InputError(f"--delta belongs to --loss huber; received --loss {loss}.")
        made = Huber(delta)
    read = read_table(
        table,
        target=target,
        features=features,
        labels=None if made is None else made.is_classification,
        weight=sample_weight,
        text=text,
        words=one_hot,
        drop_missing=drop_missing,
    )
    said: list[str] = []
    if made is None:
        made, said = _loss_of(read)
    return read, {"loss": made, "sample_weight": read.weights}, said


def _loss_of(read: Any) -> tuple[Any, list[str]]:
    """Return the loss that a target asks for, and the line that says so where it holds classes."""
    from covopt.losses import make_loss

    if read.Y.ndim == 2:
        return make_loss("squared"), []
    classes = sorted(set(read.Y.tolist()), key=str)
    name = "logistic" if len(classes) <= 2 else "softmax-cross-entropy"
    held = f"{read.target_names[0]} holds {counted(len(classes), 'class', 'classes')}"
    numbers = "" if read.Y.dtype.kind == "O" else "; --loss squared takes them as numbers"
    return make_loss(name), [f"{'loss':<14} {name}, for {held}, {listed([str(c) for c in classes])}{numbers}"]


def numbers_of(solution: Any) -> dict[str, Any]:
    """Return what ``--json`` says of one solution."""
    return {
        "lam": solution.lam,
        "status": solution.status.code,
        "certified": solution.status.code == "certified",
        "objective": solution.objective,
        "lower_bound": solution.lower_bound,
        "gap": solution.gap,
        "loss": solution.loss_value,
        "cost": solution.cost,
        "n_neurons": _neurons(solution.network),
        "rounds": len(solution.history),
        "time_s": solution.time_s,
        "timings": solution.timings,
    }


def _neurons(network: Any) -> int:
    """Count the hidden neurons of a network of any depth."""
    return sum(network.widths) if hasattr(network, "widths") else len(network)


def table_of(solution: Any, table: Any) -> dict[str, Any]:
    """Return what ``--json`` says of the table and the options."""
    data, loss = solution.data, solution.loss
    return {
        "loss_name": loss.name,
        "classes": loss.classes,
        "n_samples": data.n_samples,
        "features": data.feature_names,
        "targets": data.target_names,
        "left_out": table.left_out,
        "rows_dropped": table.dropped,
        "bias": data.bias,
        "output_bias": solution.output_bias,
        "potential": solution.potential,
        "standardised": standardised_of(solution),
        "tol": solution.tol,
        "solver": solution.solver,
    }


def fit(
    context: typer.Context,
    table: Table,
    *,
    target: Target,
    lam: Annotated[
        str | None,
        typer.Option(
            metavar="λ",
            help="The objective is mean loss + λ‖W‖²: a number, a share of λ_max (default 0.1max), or cv: chosen by "
            "cross-validation.",
        ),
    ] = None,
    loss: LossName = None,
    delta: Delta = None,
    depth: Annotated[
        int,
        typer.Option(
            metavar="L", help="Weight layers. Beyond 2 descent finds the network, and bounds bracket it."
        ),
    ] = 2,
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
    out: Out = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    plot: Plot = None,
    memory_limit: MemoryLimit = None,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train a two-layer ReLU network with weight decay to its global optimum, and prove it."""
    with reporting(as_json, cluster, memory_limit) as heard:
        check_outputs(out, plot, inputs=(table,))
        check_suffix(out, JSON)
        check_plot(plot)
        if depth > 2 and plot is not None:
            from covopt.errors import InputError

            raise InputError(f"--plot draws shallow networks; received --depth {depth}: leave one out.")
        kept = potential == "variation" and depth == 2
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every, kept=kept)
        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            text = reading(sep, encoding, decimal)
            read, options, said = read_for_loss(
                table, target, features, loss, delta, sample_weight, text, one_hot=one_hot, drop_missing=drop_missing
            )  # fmt: skip
            standardise, why = (
                settle_units(standardise, read, bias) if depth == 2 else (bool(standardise), [])
            )
            X, Y = read.features, read.targets
            progress.say(before_the_first_round(X.shape, (len(X), 1), out=not (as_json or quiet)))
            from covopt.api.fitting import fit as run
            from covopt.api.lambdas import DEFAULT_LAMBDA

            solution = run(
                X, Y, lam=DEFAULT_LAMBDA if lam is None else _number(lam), depth=depth, bias=bias,
                output_bias=output_bias, potential=potential, standardise=standardise, tol=tol,
                time_limit_s=time_limit, random_state=seed, checkpoint=checkpoint,
                callback=progress if depth == 2 else None, **options,
            )  # fmt: skip
        save(solution, out)  # first, so that nothing computed is lost to a later failure
        settle(checkpoint, finished=solution.status.code not in STOPPED)
        if plot is not None:
            solution.plot(plot)
        code = Exit.CERTIFIED if solution.status.code == "certified" else Exit.NOT_CERTIFIED
        extra = _beside(solution, X, Y, options, None if time_limit is None else FOR_LAMBDA * time_limit)
        extra["next"] = _next(context, extra["hint"], lam)
        if as_json:
            print_json(
                {
                    **numbers_of(solution), **extra, "message": solution.status.message, "exit_code": int(code),
                    **table_of(solution, read), "warnings": heard, "solution_file": out, "figure_file": plot,
                }
            )  # fmt: skip
        elif not quiet:
            typer.echo(solution.summary())
            for line in [*_extra_lines(extra, default=lam is None), *said, *why, *left_out_lines(read)]:
                typer.echo(line)
            say_saved(out, plot)
            if extra["next"] is not None:
                typer.echo(f"{'try':<14} {extra['next']}")
        raise typer.Exit(code)


def _number(lam: str) -> float | str:
    """Return what can be a number as one."""
    try:
        return float(lam)
    except ValueError:
        return lam


def _beside(
    solution: Any, X: Any, Y: Any, options: dict[str, Any], time_limit_s: float | None
) -> dict[str, Any]:
    """Return what is worth knowing beside the certificate: how well the network fits, and λ over λ_max."""
    from covopt.api.fitting import lambda_max
    from covopt.api.prediction import quality
    from covopt.errors import CovoptError
    from covopt.limits import TimeUp, limited
    from covopt.solution import Solution
    from covopt.solution.hints import hint

    name, value = quality(solution)
    top = solution.lambda_max
    if top is None and solution.status not in ("time_limit", "interrupted"):  # else the time is up
        with contextlib.suppress(CovoptError, TimeUp), limited(time_limit_s):  # too many faces
            top = lambda_max(
                X,
                Y,
                bias=solution.data.bias,
                output_bias=solution.output_bias,
                potential=solution.potential,
                standardise=solution.scaling is not None,
                **options,
            )
    return {
        "r2" if name == "R²" else name: value,
        # --standardise, of which hints speak, goes with two layers
        "hint": (hint(solution) or None) if isinstance(solution, Solution) else None,
        "lambda_max": top or None,
        "lam_over_lambda_max": solution.lam / top if top else None,
    }


def _next(context: typer.Context, hint: str | None, lam: str | None) -> str | None:
    """Return the command that does what a hint says; None where the hint asks for nothing that an option gives."""
    from covopt.api.lambdas import DEFAULT_LAMBDA

    if hint is None:
        return None
    if "--standardise" in hint:
        return again(context, "--standardise", without=("resume", "standardise"))
    if "--lam" not in hint:
        return None
    share, is_share, _ = (lam or DEFAULT_LAMBDA).partition("max")
    with contextlib.suppress(ValueError):
        smaller = f"{SMALLER * float(share or 1.0):g}{is_share}"
        return again(context, "--lam", smaller, without=("resume", "lam"))
    return None


def _extra_lines(extra: dict[str, Any], *, default: bool) -> list[str]:
    name = "accuracy" if "accuracy" in extra else "r2"
    share = extra["lam_over_lambda_max"]
    chosen = "; by default, since --lam was not given" if default else ""
    said = (
        "λ_max was not computed"
        if share is None
        else f"{share:.4g}  (λ_max {extra['lambda_max']:.6g}{chosen})"
    )
    title = "R²" if name == "r2" else name
    return [f"{title:<14} {extra[name]:.4f}  (on the points it was fitted to)", f"{'λ / λ_max':<14} {said}"]


def columns_lines(table: Any) -> list[str]:
    """Return the lines about the columns of a table, where no solution's summary says them."""
    names = f"{listed(table.feature_names)} → {listed(table.target_names)}"
    return [f"{'features':<14} {names}", *left_out_lines(table)]


def say_saved(*files: Path | None) -> None:
    """Print a line for every file that was written."""
    for file in files:
        if file is not None:
            typer.echo(f"{'saved':<14} {file}")
