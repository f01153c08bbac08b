"""The command ``covopt train``: many networks at once, held against the certified optimum where that is asked for."""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from covopt.cli.cluster import Cluster
from covopt.cli.fit import Delta, LossName, SampleWeight, Target, columns_lines, read_for_loss, say_saved
from covopt.cli.grids import parse_lams, parse_widths
from covopt.cli.options import (
    Bias,
    Decimal,
    DropMissing,
    Encoding,
    Features,
    Json,
    MemoryLimit,
    OneHot,
    OutputBias,
    Plot,
    Quiet,
    Sep,
    Standardise,
    Table,
    TimeLimit,
    check_plot,
    reading,
    settle_units,
)
from covopt.cli.report import Exit, Progress, check_outputs, keep, print_json, reporting
from covopt.cli.tables import TABLES, check_suffix, save_table

if TYPE_CHECKING:
    import pandas as pd

EPILOG = (
    "Exit codes: 0 trained, and the floor certified where it was asked for; 1 error in the input; 2 usage; 3 stopped "
    "before the end, or a floor that is not the certified optimum (what is there is printed and saved); 4 a trained "
    "network contradicts the certificate."
)
STANDARDISED = f"{'standardised':<14} costs, bounds and λ are of columns of mean 0 and variance 1"
SHOWN = 8  # rows of the table on the terminal
COLUMNS = (
    "width", "lam", "learning_rate", "seed", "loss", "squared_norm", "objective", "cost", "ratio", "residual",
    "error_rate", "gap", "status",
)  # fmt: skip


def train(
    table: Table,
    *,
    target: Target,
    widths: Annotated[
        str, typer.Option(metavar="A,B", help="Hidden widths, as in 8,16; deep networks as in 32x16,64x16.")
    ],
    lam: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="λ: the objective is mean loss + λ‖W‖². None: 0, or interpolation."),
    ] = None,
    loss: LossName = None,
    delta: Delta = None,
    seeds: Annotated[int, typer.Option(min=1, help="Networks of each width and λ.")] = 32,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps of the optimiser, and of L-BFGS after it.")
    ] = None,
    optimiser: Annotated[
        str, typer.Option(metavar="NAME", help="adam, sgd, gd, lbfgs or label-noise-sgd.")
    ] = "adam",
    learning_rate: Annotated[float | None, typer.Option(help="Learning rate.")] = None,
    features: Features = None,
    sample_weight: SampleWeight = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    bias: Bias = 1.0,
    output_bias: OutputBias = "none",
    standardise: Standardise = None,
    one_hot: OneHot = False,
    drop_missing: DropMissing = False,
    device: Annotated[str, typer.Option(metavar="cpu|cuda", help="Where to train.")] = "cpu",
    dtype: Annotated[Literal["float64", "float32"], typer.Option(help="Precision.")] = "float64",
    cross_check: Annotated[
        bool, typer.Option("--cross-check", help="Certify the optimum, and compare every network with it.")
    ] = False,
    plateau: Annotated[
        bool, typer.Option("--plateau", help="Best cost of each width over the certified floor.")
    ] = False,
    time_limit: TimeLimit = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all draws.")] = 0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Save the table (.csv, .parquet, .tex).")
    ] = None,
    plot: Plot = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the state of training while it runs; removed at the end."),
    ] = None,
    memory_limit: MemoryLimit = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint.")] = False,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="S", min=1e-3, help="Seconds between checkpoints.")
    ] = 60.0,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Train many networks at once; with --cross-check or --plateau against the certified optimum."""
    with reporting(as_json, cluster, memory_limit) as heard:
        check_outputs(out, plot, inputs=(table,))
        check_plot(plot)
        from covopt.checks.optional import required
        from covopt.checks.speaking import tell

        # seconds, of which the time limit counts none
        with Progress("loading PyTorch", enabled=not (as_json or quiet)):
            required("torch", "covopt train", "train")
        from covopt.errors import CertificateContradictedError, InputError

        if cross_check and plateau:
            raise InputError("--cross-check and --plateau are two questions; give one of them.")
        if (cross_check or plateau) and (checkpoint is not None or resume):
            raise InputError(
                "--checkpoint and --resume belong to plain training; leave them out with --cross-check, --plateau."
            )
        if resume and checkpoint is None:
            raise InputError("--resume needs --checkpoint FILE, the file to go on from.")
        if plateau and sample_weight is not None:
            raise InputError("--plateau takes no --sample-weight; use --cross-check.")
        if cluster is not None and not (cross_check or plateau):
            raise InputError(
                "training runs on this machine; leave --cluster out, or train with another --seed on each machine."
            )
        check_suffix(out, TABLES)
        sizes, lams = parse_widths(widths), parse_lams(lam)
        if (cross_check or plateau) and len(lams) > 1:
            raise InputError(f"--cross-check and --plateau take one λ; received --lam {lam}.")
        if (cross_check or plateau) and any(isinstance(size, tuple) for size in sizes):
            raise InputError(f"certificates are about two-layer networks; received --widths {widths}.")
        with Progress("reading the table", enabled=not (as_json or quiet)) as progress:
            text = reading(sep, encoding, decimal)
            chosen = loss if lam is not None else loss or "squared"  # without λ points are interpolated
            read, options, said = read_for_loss(
                table, target, features, chosen, delta, sample_weight, text, one_hot=one_hot,
                drop_missing=drop_missing,
            )  # fmt: skip
            standardise, why = settle_units(standardise, read, bias)
            X, Y = read.features, read.targets
            scaled = None
            if standardise:
                X, Y, scaled = _standardised(X, Y, bias, options)
            options |= {"bias": bias, "output_bias": output_bias}
            trained: dict[str, Any] = {
                "seeds": seeds, "device": device, "dtype": dtype, "random_state": seed,
                "schedule": _schedule(optimiser, steps), "learning_rate": learning_rate,
                "callback": _Callback(progress, time_limit),
            }  # fmt: skip
            progress.say(f"{len(X)} points, {len(read.feature_names)} features")
            place = None if out is None else out.with_name(f"{out.stem}-contradiction.json")
            try:
                if plateau:
                    trained["contradiction_file"] = place
                    outcome = _run_plateau(X, Y, sizes, lams, options, trained)
                elif cross_check:
                    trained["contradiction_file"] = place
                    outcome = _run_cross_check(
                        X, Y, sizes, lams, options, trained, progress, curves=plot is not None
                    )
                else:
                    trained |= {
                        "checkpoint": checkpoint,
                        "resume": resume,
                        "checkpoint_every_s": checkpoint_every,
                    }
                    outcome = _run_plain(X, Y, sizes, lams, options, trained, curves=plot is not None)
            except CertificateContradictedError as error:
                _contradicted(error, as_json, heard)
                raise typer.Exit(Exit.VERIFICATION_FAILED) from None
        numbers = {name: value for name, value in outcome.numbers.items() if name != "widths"}
        tell(logging.INFO, outcome.lines[-1], "result", exit_code=int(outcome.code), **numbers)
        if out is not None:  # the file comes first, so that nothing computed is lost to a later failure
            keep(lambda path: _save_table(outcome.table, path), out)
        if plot is not None:
            outcome.draw(plot)
        if checkpoint is not None and outcome.code is Exit.CERTIFIED:
            checkpoint.unlink(missing_ok=True)  # there is nothing left to go on with
            checkpoint = None
        if as_json:
            print_json(
                {
                    **outcome.numbers,
                    "features": read.feature_names, "targets": read.target_names, "left_out": read.left_out,
                    "standardised": scaled, "exit_code": int(outcome.code),
                    "networks": outcome.table.to_dict("records"),
                    "warnings": heard, "table_file": out, "figure_file": plot, "checkpoint_file": checkpoint,
                }
            )  # fmt: skip
        elif not quiet:
            for line in [
                *outcome.lines,
                *columns_lines(read),
                *said,
                *why,
                *([STANDARDISED] if scaled else []),
            ]:
                typer.echo(line)
            say_saved(out, plot)
        raise typer.Exit(outcome.code)


def _standardised(X: Any, Y: Any, bias: float, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
    """Return the table that is trained on in place of the user's, and how it was made."""
    from covopt.data import Data
    from covopt.data.scaling import standardise
    from covopt.data.tabular import Named

    classes, weights = options["loss"].is_classification, options["sample_weight"]
    table = Data.validate(X, [0.0] * len(X) if classes else Y, bias=bias, interpolates=False)
    data, scaling = standardise(table, weights, targets=not classes)
    targets = Y if classes else Named(data.Y, data.target_names)
    return Named(data.X, data.feature_names), targets, scaling.by_name(data)


class _Outcome:
    """What is printed, saved and drawn."""

    def __init__(
        self, table: pd.DataFrame, code: Exit, lines: list[str], numbers: dict[str, Any], draw: Any
    ) -> None:
        self.table, self.code, self.lines, self.numbers, self.draw = table, code, lines, numbers, draw


class _Callback:
    """Say where training is; ask to stop when the time is up."""

    def __init__(self, progress: Progress, time_limit_s: float | None) -> None:
        from covopt.checks.validation import check_time_limit
        from covopt.limits import now

        limit = check_time_limit(time_limit_s)
        self._progress, self._now = progress, now
        self._end = inf if limit is None else now() + limit

    def left(self) -> float | None:
        """Return the seconds that a solver may take: half of what is left, none where there is no limit."""
        return None if self._end == inf else max(1e-3, 0.5 * (self._end - self._now()))

    def __call__(self, state: Any) -> bool:
        stage = f"λ {state.stage + 1} of {state.n_stages}   " if hasattr(state, "stage") else ""
        now = getattr(state, "state", state)
        self._progress.say(
            f"{stage}{now.optimiser} {now.step} of {now.n_steps} steps   {now.n_active} of {now.n_networks} networks"
            f"   best {now.best_objective:.6g}"
        )
        return self._now() >= self._end


def _run_plain(X, Y, sizes, lams, options, trained, *, curves: bool) -> _Outcome:
    from covopt.training import train as run
    from covopt.training.stages import Watch

    watch = Watch(trained.pop("callback"), lambda state: state)
    schedule = trained["schedule"]
    planned = 2000 if schedule is None else sum(phase.steps for phase in schedule)
    record = max(1, planned // 100) if curves else None
    found = run(
        X,
        Y,
        widths=sizes,
        lam=lams if lams else 0.0,
        callback=watch,
        record_every=record,
        **options,
        **trained,
    )
    table = found.table
    code = Exit.NOT_CERTIFIED if watch.interrupted else Exit.CERTIFIED
    counts = table["status"].value_counts().to_dict()
    said = ", ".join(f"{count} {status}" for status, count in counts.items())
    lines = [*_rows(table), f"{len(table)} networks (heuristic): {said}, {found.time_s:.2f} s"]
    if watch.interrupted:
        lines.append("stopped before the end of the schedule")
    numbers = {
        "complete": not watch.interrupted,
        "best": None if (table["status"] == "diverged").all() else found.best,
        "time_s": found.time_s,
    }
    return _Outcome(table, code, lines, numbers, lambda path: _draw_curves(found, None, path))


def _run_cross_check(X, Y, sizes, lams, options, trained, progress: Progress, *, curves: bool) -> _Outcome:
    from covopt.training import cross_check as run

    progress.say("certifying the optimum")
    solution = _certify(X, Y, lams, {**options, "time_limit_s": trained["callback"].left()}, progress)
    if solution.status.code == "interrupted":  # the solvers return what they have; nothing is trained yet
        raise KeyboardInterrupt
    found = run(solution, widths=sizes, record_every=25 if curves else None, **trained)
    certified = solution.status.code == "certified"
    code = Exit.CERTIFIED if certified and found.complete else Exit.NOT_CERTIFIED
    numbers = {
        "certified": certified, "complete": found.complete, "objective": found.certified, "lower_bound": found.floor,
        "best_cost": found.best_cost, "ratio": found.ratio, "time_s": found.time_s,
    }  # fmt: skip
    lines = [*_rows(found.table, by="cost"), f"{'status':<14} {solution.status.message}", found.summary()]
    floor = None if solution.loss is None else found.floor
    return _Outcome(found.table, code, lines, numbers, lambda path: _draw_curves(found.run, floor, path))


def _run_plateau(X, Y, sizes, lams, options, trained) -> _Outcome:
    from covopt.training import plateau as run

    options.pop("sample_weight")
    found = run(
        X,
        Y,
        sizes,
        lam=lams[0] if lams else None,
        time_limit_s=trained["callback"].left(),
        **options,
        **trained,
    )
    code = Exit.CERTIFIED if found.certified and found.complete else Exit.NOT_CERTIFIED
    numbers = {
        "certified": found.certified, "complete": found.complete, "floor": found.floor,
        "starts_at": found.starts_at, "starts_by": found.starts_by, "best_width": found.best_width,
        "time_s": found.time_s, "widths": found.table.drop(columns="costs").to_dict("records"),
    }  # fmt: skip
    table = found.table[["width", "costs"]].explode("costs", ignore_index=True)
    table = table.rename(columns={"costs": "cost"}).astype({"cost": float})
    return _Outcome(table, code, [found.summary()], numbers, found.plot)


def _certify(X: Any, Y: Any, lams: list[float], options: dict[str, Any], progress: Progress) -> Any:
    from covopt.errors import InputError

    kept = dict(options)
    if lams:
        from covopt.api.fitting import fit

        return fit(X, Y, lam=lams[0], callback=progress, **kept)
    if kept.pop("loss").name != "squared" or kept.pop("sample_weight") is not None:
        raise InputError(
            "without --lam the points are interpolated, and no loss or weight applies; give --lam."
        )
    from covopt.api import min_norm

    return min_norm(X, Y, callback=progress, **kept)


# ---------------------------------------------------------------------- reading and writing
def _schedule(optimiser: str, steps: int | None) -> Any:
    """Return a schedule that ends in full-batch descent, but for label noise, whose end is the point."""
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


def _draw_curves(run: Any, floor: float | None, path: Path) -> None:
    from covopt.plotting import save_figure
    from covopt.plotting.training import plot_losses

    figure: Any = plot_losses(run.history, floor=floor).figure
    save_figure(figure, path)


def _contradicted(error: Any, as_json: bool, heard: list[str]) -> None:
    if as_json:
        print_json(
            {
                "error": str(error), "exit_code": int(Exit.VERIFICATION_FAILED), "warnings": heard,
                "contradiction_file": error.path,
            }
        )  # fmt: skip
    typer.echo(f"error: {error}", err=True)
