"""The command ``covopt bench``: benchmarks in benchopt's layout, benchmarks/weight_decay unless told otherwise."""

from __future__ import annotations

import contextlib
import io
import math
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from covopt.cli.report import Exit
from covopt.cli.running import Answer
from covopt.errors import InputError, SolverUnavailableError

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path("benchmarks") / "weight_decay"
LEVELS = (1e-2, 1e-4, 1e-6)
LEVELS_OF = {"interpolation": (1e-1, 1e-2, 1e-3)}  # by the objective's name, where others are asked for
INSTALL = "covopt bench needs benchopt: pip install 'covopt-nn[bench]'"
MOST_RUNS = 1000
CASE = ["dataset_name", "objective_name"]
EPILOG = (
    "Exit codes: 0 finished; 1 error in the input, or no solver ran; 2 usage; 3 interrupted (what had finished is "
    "still printed, saved and drawn)."
)


def bench(given: SimpleNamespace) -> Answer:
    """Race solvers: the certified gap of their networks against time.

    benchmarks/weight_decay (the default) is training with weight decay; benchmarks/interpolation is the smallest norm
    through the points, SGD against exact.
    """
    from covopt.checks.validation import check_time_limit
    from covopt.plotting import save_figure
    from covopt.plotting.bench import plot_bench

    check_time_limit(given.timeout, "--timeout")
    if given.out is not None and given.out.suffix != ".parquet":
        raise InputError(f"{given.out}: results are written as .parquet; change the extension.")
    frame, interrupted = run_bench(
        find_benchmark(given.benchmark),
        datasets=given.dataset or [],
        solvers=given.solver or [],
        objectives=given.objective or [],
        timeout=given.timeout,
        quiet=given.quiet,
    )
    rows = summarise(frame)
    return Answer(
        Exit.NOT_CERTIFIED if interrupted else Exit.CERTIFIED,
        {"results": rows, "interrupted": interrupted},
        lines(rows),
        save=lambda path: save_results(frame, path),
        draw=lambda path: save_figure(plot_bench(frame, levels=levels_of(frame)), path),
    )


def find_benchmark(folder: Path | None) -> Path:
    """Return the folder of the benchmark: the one given, that of the checkout around us, or that of this package.

    Raises
    ------
    InputError
        Where it holds no ``objective.py``.
    """
    places = [folder] if folder is not None else [Path.cwd() / FOLDER, Path(__file__).parents[2] / FOLDER]
    for place in places:
        if (place / "objective.py").is_file():
            return place.resolve()
    if folder is not None:
        raise InputError(f"{folder} is no benchmark: it has no objective.py; give the folder weight_decay.")
    raise InputError(
        f"no {FOLDER} here: it comes with covopt's repository, not with the package; run covopt bench in a checkout, "
        "or give the folder with --benchmark."
    )


def run_bench(
    folder: Path,
    *,
    datasets: Sequence[str],
    solvers: Sequence[str],
    objectives: Sequence[str],
    timeout: float,
    quiet: bool,
) -> tuple[pd.DataFrame, bool]:
    """Run the benchmark and return every evaluation, and whether it was interrupted.

    benchopt's own report, with the solvers that are skipped and why, goes to stderr. What has finished when Ctrl-C
    comes is kept.

    Raises
    ------
    SolverUnavailableError
        Without benchopt.
    InputError
        For names that the benchmark does not have, and when no solver ran.
    """
    try:
        with _no_stdout(quiet=True):
            from benchopt import run_benchmark
            from benchopt.results import read_results
    except ImportError:
        raise SolverUnavailableError(INSTALL) from None
    from click import BadParameter

    with (
        tempfile.TemporaryDirectory(prefix="covopt-bench-") as scratch,
        _environment(Path(scratch) / "cache"),
        _own_helpers(),
    ):

        def run(*, collect: bool) -> Path:
            return run_benchmark(
                str(folder),
                solver_names=list(solvers),
                dataset_names=list(datasets),
                objective_filters=list(objectives),
                max_runs=MOST_RUNS,
                timeout=timeout,
                plot_result=False,
                collect=collect,
                show_progress=sys.stderr.isatty() and not quiet,
                output_file=str(Path(scratch) / f"results-{collect}.parquet"),
            )

        interrupted = False
        try:
            with _no_stdout(quiet=quiet):
                try:
                    found = run(collect=False)
                except (KeyboardInterrupt, SystemExit):
                    interrupted = True
                    found = run(collect=True)
        except (BadParameter, ValueError) as error:
            message = error.message if isinstance(error, BadParameter) else str(error)
            raise InputError(f"{message.strip().rstrip('.')}.") from None
        except RuntimeError:  # benchopt has nothing to save
            if interrupted:
                raise KeyboardInterrupt from None
            raise InputError(
                "no solver ran: each was skipped or failed; leave out --quiet to read why."
            ) from None
        return read_results(found), interrupted


@contextlib.contextmanager
def _own_helpers() -> Iterator[None]:
    """Forget the helpers of benchmarks run before in this process: every benchmark calls its own benchmark_utils."""
    forget_helpers()
    try:
        yield
    finally:
        forget_helpers()


def forget_helpers() -> None:
    """Unload the modules of a benchmark: another one has others by the same names."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "benchmark_utils"]:
        del sys.modules[name]


@contextlib.contextmanager
def _no_stdout(*, quiet: bool) -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO() if quiet else sys.stderr):
        yield


@contextlib.contextmanager
def _environment(cache: Path) -> Iterator[None]:
    """Keep benchopt's cache out of the checkout, and times out of earlier runs."""
    before = os.environ.get("BENCHOPT_CACHE")
    os.environ["BENCHOPT_CACHE"] = str(cache)
    try:
        yield
    finally:
        if before is None:
            del os.environ["BENCHOPT_CACHE"]
        else:
            os.environ["BENCHOPT_CACHE"] = before


def save_results(frame: pd.DataFrame, path: Path) -> None:
    """Write every evaluation as Parquet."""
    from covopt.files import write_atomically

    write_atomically(path, frame.to_parquet)


def levels_of(frame: pd.DataFrame) -> tuple[float, ...]:
    """Return the gaps that the benchmark of these evaluations is about."""
    names = {str(name).partition("[")[0] for name in frame["objective_name"].unique()}
    return LEVELS_OF.get(names.pop(), LEVELS) if len(names) == 1 else LEVELS


def summarise(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return, for every dataset, objective and solver, the best network and the least time to each gap.

    The time is that of the run, or of the moment in it, whose network first had the gap; None where none had.
    """
    rows, levels = [], levels_of(frame)
    for (*case, solver), runs in frame.groupby([*CASE, "solver_name"], sort=False):
        best = runs.loc[runs["objective_value"].idxmin()]
        notes = [note for note in runs["objective_note"].unique() if note]
        rows.append(
            {
                "dataset": case[0],
                "objective": case[1],
                "solver": solver,
                "time_s": {f"{level:g}": _least_time(runs, level) for level in levels},
                "gap": float(best["objective_gap"])
                if math.isfinite(best["objective_value"])
                else float("inf"),
                "value": float(best["objective_value"]),
                "lower_bound": float(best["objective_lower_bound"]),
                "n_neurons": int(best["objective_n_neurons"]),
                "notes": notes,
            }
        )
    return rows


def _least_time(runs: pd.DataFrame, level: float) -> float | None:
    reached = runs.loc[runs["objective_gap"] <= level, "time"]
    return float(reached.min()) if len(reached) else None


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the summary as a table for people."""
    from covopt.plotting.bench import solver_labels

    out: list[str] = []
    labels = solver_labels(row["solver"] for row in rows)
    width = max(len(label) for label in labels.values())
    heads = "".join(f"{f'to {level}':>10}" for level in rows[0]["time_s"])
    previous = None
    for row in rows:
        case = f"{row['dataset']}  {row['objective']}"
        if case != previous:
            out += ["", case, f"  {'seconds':<{width}}{heads}{'best gap':>11}{'neurons':>9}"]
            previous = case
        times = "".join(f"{'-' if t is None else format(t, '.3g'):>10}" for t in row["time_s"].values())
        out.append(f"  {labels[row['solver']]:<{width}}{times}{row['gap']:>11.1e}{row['n_neurons']:>9}")
        out += [f"    {note}" for note in row["notes"]]
    return out[1:]
