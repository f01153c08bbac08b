"""The command line. The commands import heavy packages only when they run, so that ``covopt --help`` is fast."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from covopt.checks import required
from covopt.cli import analysis, networks
from covopt.cli.report import Exit, print_json, reporting
from covopt.cli.running import EXAMPLES, EXIT_CODES, add
from covopt.errors import InputError

__all__ = ["app", "main"]

_BEGIN = (
    "\b\nTo begin:\n  covopt demo\n  covopt solve table.csv --target y --out solution.json\n"
    "  covopt COMMAND --help\n\n"
)

UsageError: Any = typer.BadParameter.__mro__[1]  # of click, or of typer's own copy of click


class _Group(TyperGroup):
    """Print usage errors as JSON with ``--json``; list the commands in the order of ``EXAMPLES``."""

    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=list(EXAMPLES).index)

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
    epilog=_BEGIN + EXIT_CODES,
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
        from covopt.checks.log import start_log, stop_log, write_events

        if verbose:
            context.call_on_close(partial(stop_log, start_log(verbose)))
        if log_json is not None:
            with reporting(as_json=False):
                context.call_on_close(partial(stop_log, write_events(log_json)))


for _name, _command in {
    "solve": networks.solve, "demo": networks.demo, "fit": networks.fit, "path": networks.path,
    "depth": networks.depth, "gap": analysis.gap, "cells": analysis.cells, "predict": analysis.predict,
    "train": networks.train, "cp-rank": analysis.cp_rank, "verify": analysis.verify,
    "prove": analysis.prove, "explore": analysis.explore, "reduce": analysis.reduce,
}.items():  # fmt: skip
    add(app, _name, _command)

_BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "peers"


@app.command(
    "bench",
    hidden=not _BENCHMARK.is_dir(),
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    epilog=f"\b\nExample:\n  {EXAMPLES['bench']}",
)
def _bench(
    context: typer.Context,
    benchmark: Annotated[Path, typer.Option(metavar="DIR", help="Its folder.")] = _BENCHMARK,
) -> None:
    """Compare solvers, in a checkout, with options of `benchopt run`."""
    with reporting(as_json=False):
        required("benchopt", "covopt bench", "bench")
        if not (benchmark / "objective.py").is_file():
            raise InputError(
                f"{benchmark} is no benchmark: run covopt bench in a checkout, or give --benchmark DIR."
            )
    command = [sys.executable, "-m", "benchopt", "run", str(benchmark), *context.args]
    raise typer.Exit(subprocess.run(command, check=False).returncode)


def main() -> None:
    """Run the command line; signals that arrive after it has ended do not change the exit code."""
    try:
        app()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        gc.freeze()  # saves half a second: at exit the interpreter would otherwise traverse all of numba and pandas
