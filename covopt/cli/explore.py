"""The command ``covopt explore``: a page to look around in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from covopt.cli.options import Json, MemoryLimit, Quiet, TimeLimit
from covopt.cli.report import Exit, Progress, check_outputs, print_json, reporting

EPILOG = (
    "Exit codes: 0 written; 1 error in the input; 2 usage; 3 stopped, or pictures left out for want of time."
)


def explore(
    solution: Annotated[
        Path,
        typer.Argument(metavar="FILE.json", help="A solution, or a path: what solve, fit and path saved."),
    ],
    *,
    out: Annotated[Path, typer.Option("--out", metavar="PAGE.html", help="Where to write the page.")],
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write one HTML page to look around in: the function, the dual function, neurons, a slider."""
    with reporting(as_json, memory_limit=memory_limit) as heard:
        import covopt
        from covopt.explore.page import check_page_path, write_page

        check_outputs(out, inputs=(solution,))
        check_page_path(out)
        with Progress("drawing", enabled=not (as_json or quiet)):
            left_out = write_page(covopt.load(solution), out, time_limit_s=time_limit)
        code = Exit.NOT_CERTIFIED if left_out else Exit.CERTIFIED
        if as_json:
            print_json({"page_file": out, "left_out": left_out, "exit_code": int(code), "warnings": heard})
        elif not quiet:
            if left_out:
                typer.echo(f"{'left out':<10} {', '.join(left_out)}, for want of time")
            typer.echo(f"{'saved':<10} {out}; open it in any browser")
        raise typer.Exit(code)
