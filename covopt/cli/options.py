"""Options that several commands share, each with one wording."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

STOPPED = ("time_limit", "interrupted", "callback")  # codes of a run that can go on

Table = Annotated[
    Path,
    typer.Argument(
        metavar="TABLE",
        help="CSV (.gz, .bz2, .xz or .zip of it too; - for standard input), Parquet, Feather, Excel or NPZ file.",
    ),
]
Sep = Annotated[str | None, typer.Option(metavar="C", help="What separates the columns of a text table.")]
Encoding = Annotated[str, typer.Option(metavar="NAME", help="Encoding of a text table, as in latin-1.")]
Decimal = Annotated[Literal[".", ","], typer.Option(help="Decimal point of a text table.")]
Features = Annotated[
    str | None, typer.Option(metavar="A,B", help="Input columns; by default every other numeric column.")
]
NoInputs = Annotated[
    str | None, typer.Option("--target", metavar="Y", help="Columns of the table that are no inputs.")
]
Bias = Annotated[float, typer.Option(help="Amount of bias: inputs become (x, bias); 0 for none.")]
OutputBias = Annotated[
    Literal["none", "penalized", "free"], typer.Option(help="Bias of the output, and whether it costs.")
]
Duplicates = Annotated[
    Literal["error", "mean"], typer.Option(help="Rows that are one point with different targets.")
]
Potential = Annotated[
    Literal["variation", "label-noise", "label-noise-exact"],
    typer.Option(metavar="NAME", help="What neurons cost: variation, label-noise, label-noise-exact."),
]
Standardise = Annotated[
    bool | None,
    typer.Option(
        "--standardise/--no-standardise",
        "--standardize/--no-standardize",
        help="Solve for columns of mean 0 and variance 1 and numbers as targets of mean 0; the network and all that "
        "is made of it take the columns as they stand in the table. By default where their units differ.",
    ),
]
OneHot = Annotated[
    bool, typer.Option("--one-hot", help="Use columns of words: one column of 0 and 1 for each word.")
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Drop the rows that lack a value in a column that is used.")
]
Tol = Annotated[float, typer.Option(help="Relative duality gap to certify.")]
TimeLimit = Annotated[
    float | None, typer.Option(metavar="S", help="Stop after S seconds with the best bracket.")
]
MemoryLimit = Annotated[
    float | None, typer.Option(metavar="GIB", help="Most memory; by default four fifths of what is free.")
]
Seed = Annotated[
    int | None, typer.Option(min=0, help="Seed of the starting neurons; the optimum is the same.")
]
Out = Annotated[Path | None, typer.Option(metavar="FILE.json", help="Save the solution.")]
Resume = Annotated[
    bool, typer.Option("--resume", help="Go on from the checkpoint that a run with this --out has left.")
]
CheckpointEvery = Annotated[
    float,
    typer.Option(metavar="S", min=0.0, help="Seconds between checkpoints, OUT.checkpoint beside --out OUT."),
]
Plot = Annotated[Path | None, typer.Option(metavar="FILE.png", help="Save a figure (.png, .pdf, .svg).")]
TableOut = Annotated[
    Path | None, typer.Option("--table", metavar="FILE.csv", help="Save a table too (.csv, .parquet, .tex).")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout, errors too.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]


def reading(sep: str | None, encoding: str, decimal: str) -> Any:
    """Return how text tables are read."""
    from covopt.data.text_tables import Text

    return Text("\t" if sep in ("\\t", "tab") else sep, encoding, decimal)


def again(context: typer.Context, *more: str, without: tuple[str, ...] = ("resume",)) -> str:
    """Return the command that was given with more options, as a shell takes it.

    Parameters
    ----------
    context : typer.Context
    *more : str
    without : tuple of str
        Parameters that are left out.
    """
    words = ["covopt", context.info_name or ""]
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE" or name in without:
            continue
        value = context.params[name]
        if parameter.param_type_name == "argument":
            words.append(str(value))
        elif isinstance(value, bool):
            words.append((parameter.opts if value else parameter.secondary_opts)[0])
        else:
            words += [parameter.opts[0], str(value)]
    return shlex.join([*words, *more])


def checkpoint_of(out: Path | None, *, resume: bool, every_s: float, kept: bool = True) -> Any:
    """Return the checkpoint beside a result; None where no result is saved, or the solver keeps none.

    Raises
    ------
    InputError
        Where there is nothing to go on from.
    """
    from covopt.errors import InputError

    if resume and not kept:
        raise InputError(
            "--resume is for shallow networks, the variation norm and column generation; leave it out."
        )
    if resume and out is None:
        raise InputError("--resume goes on from the checkpoint beside --out; name the file with --out.")
    if out is None or not kept or (out.exists() and not out.is_file()):  # a pipe or a device
        return None
    from covopt.checks.checkpoints import Checkpoint

    path = out.with_name(out.name + ".checkpoint")
    if resume and not path.exists():
        typer.echo(f"note: there is no checkpoint {path}; the run begins anew", err=True)
    if not resume and path.exists():
        typer.echo(f"note: {path} is of a run that was stopped; --resume would go on from it", err=True)
    return Checkpoint(path, every_s=every_s, resume=resume, keep=True)


def settle(checkpoint: Any, *, finished: bool) -> None:
    """After the result is saved, remove the checkpoint of a finished run; of a stopped one say how it goes on."""
    if checkpoint is None:
        return
    if finished:
        checkpoint.path.unlink(missing_ok=True)
    elif checkpoint.path.exists():
        typer.echo(f"note: the same command with --resume goes on from {checkpoint.path}", err=True)


def settle_units(standardise: bool | None, table: Any, bias: float) -> tuple[bool, list[str]]:
    """Return whether to standardise, and the line that says why where nobody asked for it.

    Parameters
    ----------
    standardise : bool or None
        What was asked for.
    table : Table
    bias : float
        Without one nothing is centred: then it has to be asked for.
    """
    if standardise is not None or bias == 0:
        return bool(standardise), []
    from covopt.data.scaling import differing_units

    why = differing_units(table.X, table.feature_names)
    return bool(why), [f"{'units':<14} {why}; --no-standardise solves them as they are"] if why else []


def check_plot(plot: Path | None) -> None:
    """Refuse a figure's suffix before anything is computed.

    Raises
    ------
    InputError
        Where matplotlib writes no such file.
    """
    if plot is not None:
        from covopt.plotting import check_figure_path

        check_figure_path(plot)
