"""The command ``covopt train``: many networks at once, held against the certified optimum where that is asked for."""

from __future__ import annotations

import logging
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import typer

from covopt.cli.report import Exit, Progress, print_json
from covopt.cli.running import Answer, progress
from covopt.cli.tables import save_table
from covopt.cli.targets import columns_lines, read_for_loss, settle_units, strengths_in, widths_in

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


def train(given: SimpleNamespace) -> Answer:
    """Train many networks at once; with --cross-check or --plateau against the certified optimum."""
    from covopt.checks.optional import required
    from covopt.checks.speaking import tell

    with progress(given, "loading PyTorch"):  # seconds, of which the time limit counts none
        required("torch", "covopt train", "train")
    from covopt.errors import CertificateContradictedError

    sizes, lams = _asked(given)
    with progress(given, "reading the table") as shown:
        if given.lam is None and given.loss is None:
            given.loss = "squared"  # without λ points are interpolated
        table, options, said = read_for_loss(given)
        given.standardise, why = settle_units(given, table)
        X, Y, scaled = table.features, table.targets, None
        if given.standardise:
            X, Y, scaled = _standardised(X, Y, given.bias, options)
            why = [*why, STANDARDISED]
        options |= {"bias": given.bias, "output_bias": given.output_bias}
        trained: dict[str, Any] = {
            "seeds": given.seeds, "device": given.device, "dtype": given.dtype, "random_state": given.seed,
            "schedule": _schedule(given.optimiser, given.steps), "learning_rate": given.learning_rate,
            "callback": _Callback(shown, given.time_limit),
        }  # fmt: skip
        shown.say(f"{len(X)} points, {len(table.feature_names)} features")
        out, curves = given.out, given.plot is not None
        if given.plateau or given.cross_check:
            place = None if out is None else out.with_name(f"{out.stem}-contradiction.json")
            trained["contradiction_file"] = place
        else:
            trained |= {
                "checkpoint": given.checkpoint,
                "resume": given.resume,
                "checkpoint_every_s": given.checkpoint_every,
            }
        try:
            if given.plateau:
                outcome = _run_plateau(X, Y, sizes, lams, options, trained)
            elif given.cross_check:
                outcome = _run_cross_check(X, Y, sizes, lams, options, trained, shown, curves=curves)
            else:
                outcome = _run_plain(X, Y, sizes, lams, options, trained, curves=curves)
        except CertificateContradictedError as error:
            _contradicted(error, given)
            raise typer.Exit(Exit.VERIFICATION_FAILED) from None
    numbers = {name: value for name, value in outcome.record.items() if name not in ("widths", "networks")}
    tell(logging.INFO, outcome.lines[-1], "result", exit_code=int(outcome.code), **numbers)
    outcome.lines += [*columns_lines(table), *said, *why]
    outcome.finished = outcome.code is Exit.CERTIFIED
    outcome.record |= {
        "features": table.feature_names, "targets": table.target_names, "left_out": table.left_out,
        "standardised": scaled, "checkpoint_file": None if outcome.finished else given.checkpoint,
    }  # fmt: skip
    return outcome


def _asked(given: SimpleNamespace) -> tuple[list[Any], list[float | str]]:
    """Return widths and λ, where the options go together."""
    from covopt.errors import InputError

    certifies = given.cross_check or given.plateau
    if given.cross_check and given.plateau:
        raise InputError("--cross-check and --plateau are two questions; give one of them.")
    if certifies and (given.checkpoint is not None or given.resume):
        raise InputError(
            "--checkpoint and --resume belong to plain training; leave them out with --cross-check, --plateau."
        )
    if given.resume and given.checkpoint is None:
        raise InputError("--resume needs --checkpoint FILE, the file to go on from.")
    if given.plateau and given.sample_weight is not None:
        raise InputError("--plateau takes no --sample-weight; use --cross-check.")
    if given.cluster is not None and not certifies:
        raise InputError(
            "training runs on this machine; leave --cluster out, or train with another --seed on each machine."
        )
    sizes, lams = widths_in(given.widths), strengths_in(given.lam)
    if certifies and len(lams) > 1:
        raise InputError(f"--cross-check and --plateau take one λ; received --lam {given.lam}.")
    if certifies and any(isinstance(size, tuple) for size in sizes):
        raise InputError(f"certificates are about two-layer networks; received --widths {given.widths}.")
    return sizes, lams


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


def _outcome(table: pd.DataFrame, code: Exit, record: dict[str, Any], lines: list[str], draw: Any) -> Answer:
    """Return what is printed, saved and drawn of trained networks."""
    record |= {"networks": table.to_dict("records")}
    return Answer(code, record, lines, save=lambda path: _save_table(table, path), draw=draw)


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


def _run_plain(X, Y, sizes, lams, options, trained, *, curves: bool) -> Answer:
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
    return _outcome(table, code, numbers, lines, lambda path: _draw_curves(found, None, path))


def _run_cross_check(X, Y, sizes, lams, options, trained, progress: Progress, *, curves: bool) -> Answer:
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
    return _outcome(found.table, code, numbers, lines, lambda path: _draw_curves(found.run, floor, path))


def _run_plateau(X, Y, sizes, lams, options, trained) -> Answer:
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
    return _outcome(table, code, numbers, [found.summary()], found.plot)


def _certify(X: Any, Y: Any, lams: list[float | str], options: dict[str, Any], progress: Progress) -> Any:
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


def _contradicted(error: Any, given: SimpleNamespace) -> None:
    if given.as_json:
        code = int(Exit.VERIFICATION_FAILED)
        said = {"error": str(error), "exit_code": code, "contradiction_file": error.path}
        print_json(said | {"warnings": given.heard})
    typer.echo(f"error: {error}", err=True)
