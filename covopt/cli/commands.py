"""The commands; heavy imports stay inside them."""

from __future__ import annotations

import signal
import time
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from covopt.cli import bench, depth, explore, fit, path, predict, reduce, solve, train
from covopt.cli.cluster import Cluster
from covopt.cli.examples import COMMANDS, texts
from covopt.cli.options import (
    Bias,
    CheckpointEvery,
    Decimal,
    Encoding,
    Features,
    Json,
    MemoryLimit,
    NoInputs,
    Quiet,
    Resume,
    Sep,
    Table,
    TableOut,
    TimeLimit,
    checkpoint_of,
    reading,
    settle,
)
from covopt.cli.report import Exit, Progress, check_outputs, print_json, reporting, save
from covopt.cli.tables import JSON, TABLES, check_suffix, save_table

_EPILOG = (
    "Exit codes: 0 certified to the tolerance; 1 error in the input; 2 usage; 3 stopped before the tolerance "
    "(the best bracket so far is still printed and saved); 4 verification failed."
)

_BEGIN = (
    "\b\nTo begin:\n  covopt demo\n  covopt solve table.csv --target y --out solution.json\n"
    "  covopt COMMAND --help\n\n"
)

UsageError: Any = typer.BadParameter.__mro__[1]  # click's, or that of the copy within typer


class _Group(TyperGroup):
    """Say usage errors as JSON too, where that was asked for; list what somebody new needs first."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(COMMANDS).index)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        ctx.meta["covopt.json"] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if ctx.meta.get("covopt.json"):
                print_json({"error": error.format_message(), "exit_code": int(Exit.USAGE), "warnings": []})
            raise


app = typer.Typer(
    name="covopt",
    cls=_Group,
    help="Exact minimal-norm ReLU networks, the proof that they are optimal, and its checker.",
    epilog=_BEGIN + _EPILOG,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        from covopt import __version__

        typer.echo(f"covopt {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="Say what is found; -vv: every round.")
    ] = 0,
    log_json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Append each round and result as a line of JSON; - for stderr."),
    ] = None,
) -> None:
    if verbose or log_json is not None:
        from covopt.checks.speaking import listen, silence, write_events

        if verbose:
            context.call_on_close(partial(silence, listen(verbose)))
        if log_json is not None:
            with reporting(as_json=False):
                context.call_on_close(partial(silence, write_events(log_json)))


app.command(**texts("solve", _EPILOG))(solve.solve)
app.command(**texts("demo", _EPILOG))(solve.demo)


@app.command(**texts("cells"))
def cells(
    table: Table,
    *,
    target: NoInputs = None,
    features: Features = None,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    bias: Bias = 1.0,
    count_only: Annotated[bool, typer.Option("--count-only", help="Count without enumerating.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Save the patterns, packed bits (numpy.unpackbits): .npz, or .npy and .parquet, which are streamed "
            "in bounded memory.",
        ),
    ] = None,
    n_jobs: Annotated[int, typer.Option(help="Processes; -1 for one per core.")] = 1,
    memory_limit: MemoryLimit = None,
    time_limit: TimeLimit = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Count and enumerate every activation pattern of the data, each exactly once."""
    with reporting(as_json, cluster, memory_limit) as heard:
        if count_only and out is not None:
            raise typer.BadParameter("--count-only enumerates nothing that --out could save")
        check_outputs(out, inputs=(table,))
        check_suffix(out, (".npz", ".npy", ".parquet"))
        streamed = out is not None and out.suffix == ".npy"
        if resume and not streamed:
            raise typer.BadParameter("--resume goes on with cells in an .npy file: give --out FILE.npy")
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every, kept=streamed)
        from covopt.cli.cells import lines, run_cells

        began = time.perf_counter()
        with Progress("enumerating cells", enabled=not (as_json or quiet)) as progress:
            found = run_cells(
                table, target, features, bias, count_only=count_only, n_jobs=n_jobs, out=out,
                memory_limit=memory_limit, report=progress.say, text=reading(sep, encoding, decimal),
                time_limit_s=time_limit, checkpoint=checkpoint,
            )  # fmt: skip
        found["time_s"] = time.perf_counter() - began
        stopped = "at_most" in found
        settle(checkpoint, finished=not stopped)
        if as_json:
            print_json({**found, "warnings": heard, "patterns_file": None if stopped else out})
        elif not quiet:
            for line in lines(found):
                typer.echo(line)
            if out is not None and not stopped:
                typer.echo(f"{'saved':<16} {out}")
        if stopped:
            raise typer.Exit(Exit.NOT_CERTIFIED)


app.command(**texts("fit", _EPILOG))(fit.fit)
app.command(**texts("path", _EPILOG))(path.path)
app.command(**texts("depth", _EPILOG))(depth.depth)
app.command(**texts("predict"))(predict.predict)
app.command(**texts("bench", bench.EPILOG))(bench.bench)
app.command(**texts("train", train.EPILOG))(train.train)


@app.command("cp-rank", **texts("cp-rank", _EPILOG))
def cp_rank(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="Symmetric matrix (.csv) or graph without weights (.g6, .graphml)."
        ),
    ],
    *,
    tol: Annotated[
        float, typer.Option(help="Relative size of rounding in the entries and the factor.")
    ] = 1e-9,
    time_limit: TimeLimit = 300.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the numerical search.")] = 0,
    out: Annotated[Path | None, typer.Option(metavar="FILE.json", help="Save the certificate.")] = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Bracket the CP-rank of a matrix or of a graph's EᵀE, or prove that the matrix is not completely positive.

    Integers, fractions and decimals are exact; a file with decimals of 15 digits or more holds floats, known up to
    --tol. Exit code 0: the CP-rank, or that there is none, is proved; 3: a bracket.
    """
    with reporting(as_json, memory_limit=memory_limit) as heard:
        check_outputs(out, inputs=(source,))
        check_suffix(out, JSON)
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every)
        from covopt.cli.cp_rank import as_record, exit_code, run_cp_rank

        with Progress("bounding the CP-rank", enabled=not (as_json or quiet)):
            found = run_cp_rank(source, tol=tol, time_limit_s=time_limit, seed=seed, checkpoint=checkpoint)
        save(found, out)
        settle(checkpoint, finished=checkpoint is None or not checkpoint.stopped)
        code = exit_code(found)
        if as_json:
            print_json(
                {**as_record(found), "exit_code": int(code), "warnings": heard, "certificate_file": out}
            )
        elif not quiet:
            typer.echo(found.summary())
            if out is not None:
                typer.echo(f"{'saved':<10} {out}")
        raise typer.Exit(code)


@app.command(**texts("verify", _EPILOG))
def verify(
    solution: Annotated[Path, typer.Argument(metavar="FILE.json", help="Any JSON file that covopt saved.")],
    table: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE]", help="The table it claims to fit; without it, the copy in the file."
        ),
    ] = None,
    *,
    sep: Sep = None,
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Prove residual, norm and bound in exact arithmetic too."),
    ] = False,
    proof: Annotated[
        Path | None,
        typer.Option("--proof", metavar="PROOF.json", help="What `prove` wrote; implies --exact."),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            "--expect",
            metavar="NAME=VALUE",
            help="What the problem should be, as lam=0.1, loss=squared, bias=1, weights=none; again for more.",
        ),
    ] = None,
    time_limit: TimeLimit = None,
    checks: TableOut = None,
    memory_limit: MemoryLimit = None,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Recompute everything a solution file claims, from the file and the data."""
    with reporting(as_json, cluster, memory_limit) as heard:
        from covopt.cli.verify import run_verify

        check_outputs(checks, inputs=(solution, table))
        check_suffix(checks, TABLES)
        with Progress("verifying", enabled=not (as_json or quiet)):
            verification = run_verify(
                solution, table, exact=exact, proof=proof, text=reading(sep, encoding, decimal),
                expect=expect or (), time_limit_s=time_limit,
            )  # fmt: skip
        if checks is not None:
            save_table(verification.to_frame(), checks)
        code = Exit.VERIFICATION_FAILED if verification.failed else Exit.NOT_CERTIFIED
        code = Exit.CERTIFIED if verification.ok else code
        if as_json:
            print_json(
                {**verification.to_dict(), "ok": verification.ok, "exit_code": int(code), "warnings": heard}
            )
        elif not quiet:
            typer.echo(verification.summary())
        raise typer.Exit(code)


@app.command(**texts("prove", _EPILOG))
def prove(
    solution: Annotated[
        Path, typer.Argument(metavar="FILE.json", help="A file that solve or fit saved, with one output.")
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PROOF.json", help="Where to write the proof; for `verify --proof`."),
    ],
    boxes: Annotated[
        int,
        typer.Option("--boxes", min=1, metavar="N", help="Most boxes; where they run out it proves less."),
    ] = 2_000_000,
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Of the search.")] = 1,
    time_limit: TimeLimit = None,
    resume: Resume = False,
    checkpoint_every: CheckpointEvery = 60.0,
    memory_limit: MemoryLimit = None,
    cluster: Cluster = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a proof of the lower bound that needs no oracle: boxes that cover all neurons, checked in integers."""
    with reporting(as_json, cluster, memory_limit) as heard:
        from covopt.cli.verify import run_prove

        check_outputs(out, inputs=(solution,))
        check_suffix(out, JSON)
        checkpoint = checkpoint_of(out, resume=resume, every_s=checkpoint_every)
        with Progress("proving", enabled=not (as_json or quiet)):
            found = run_prove(
                solution,
                out,
                max_boxes=boxes,
                n_threads=threads,
                time_limit_s=time_limit,
                checkpoint=checkpoint,
            )
        settle(checkpoint, finished=checkpoint is None or not checkpoint.stopped)
        code = Exit.CERTIFIED if found["proves_what_is_stated"] else Exit.NOT_CERTIFIED
        if as_json:
            print_json({**found, "exit_code": int(code), "warnings": heard})
        elif "message" in found:
            typer.echo(found["message"], err=True)
        elif not quiet:
            typer.echo(f"{'proved':<10} {found['proved']:.12g} by {found['boxes']} boxes in integers")
            typer.echo(f"{'stated':<10} {found['stated']:.12g}")
            typer.echo(f"{'saved':<10} {out}")
        raise typer.Exit(code)


app.command(**texts("explore", explore.EPILOG))(explore.explore)
app.command(**texts("reduce", _EPILOG))(reduce.reduce)


def main() -> None:
    """Run the command line; signals that come when it has ended change nothing of how it ended."""
    try:
        app()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
