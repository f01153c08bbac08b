"""The steps of every command: check the outputs, read the tables, compute the answer, save it and print it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks import counted, listed, required, row
from covopt.cli.options import check_suffix, options_of, reading, save_table, signature
from covopt.cli.report import (
    Exit,
    Progress,
    check_outputs,
    keep,
    left_out_lines,
    print_json,
    record_lines,
    reporting,
)
from covopt.errors import InputError

# in the order in which a newcomer needs them
EXAMPLES = {
    "demo": "covopt demo",
    "solve": "covopt solve table.csv --target y --out solution.json --plot figure.png",
    "fit": "covopt fit table.csv --target y --standardise --out fit.json",
    "path": "covopt path table.csv --target y --standardise --out path.json --plot path.png",
    "gap": "covopt gap model.pt table.csv --target y --weight-decay 1e-3 --plot gap.png",
    "predict": "covopt predict fit.json new.csv --out predictions.csv",
    "verify": "covopt verify solution.json table.csv --exact",
    "prove": "covopt prove solution.json --out proof.json --coq folder",
    "explore": "covopt explore solution.json --out page.html",
    "train": "covopt train table.csv --target y --widths 8,32 --lam 1e-2 --cross-check",
    "reduce": "covopt reduce model.pt table.csv --target y --out small.pt",
    "depth": "covopt depth table.csv --target y --depth 3",
    "cells": "covopt cells table.csv --target y --count-only",
    "cp-rank": "covopt cp-rank matrix.csv --out certificate.json",
    "bench": "covopt bench --solver covopt --timeout 30",
}
EXIT_CODES = (
    "Exit codes: 0 certified to the tolerance, or done; 1 error in the input; 2 usage; 3 stopped before that (the "
    "best so far is still printed and saved); 4 verification failed, or a network contradicts its certificate."
)


@dataclass
class Answer:
    """The result of a command: what to print, and functions that write the requested files.

    Attributes
    ----------
    code : Exit
    record : dict
        The entries of ``--json``.
    lines : list of str, optional
        The text output; by default the record, one entry per line.
    save, draw : callable, optional
        Write ``--out`` and ``--plot``.
    rows : callable, optional
        Return the table for ``--table``.
    finished : bool
        False if ``--resume`` can continue the run.
    """

    code: Exit
    record: dict[str, Any] = field(default_factory=dict)
    lines: list[str] | None = None
    save: Callable[[Path], Any] | None = None
    draw: Callable[[Path], Any] | None = None
    rows: Callable[[], Any] | None = None
    finished: bool = True


Command = Callable[[SimpleNamespace], Answer]


def add(app: typer.Typer, name: str, command: Command) -> None:
    """Add a command to the application; its help is the docstring of the function, with an example.

    Parameters
    ----------
    app : typer.Typer
    name : str
    command : callable
    """

    def called(**options: Any) -> None:
        run(name, command, SimpleNamespace(**options))

    called.__doc__, called.__signature__ = command.__doc__, signature(name)  # type: ignore[attr-defined]
    app.command(name, epilog=f"\b\nExample:\n  {EXAMPLES[name]}\n\n{EXIT_CODES}")(called)


def run(name: str, command: Command, given: SimpleNamespace) -> None:
    """Check the outputs, run the command, then save, draw and print, in this order so that no result is lost."""
    memory_limit = getattr(given, "memory_limit", None)
    outputs = [option for option in options_of(name) if option.writes is not None]
    inputs = tuple(getattr(given, option.name) for option in options_of(name) if option.reads)
    given.talks = not (given.as_json or given.quiet)
    with reporting(given.as_json, memory_limit) as given.heard:
        check_outputs(*(getattr(given, option.name) for option in outputs), inputs=inputs)
        for option in outputs:
            if option.writes:
                check_suffix(getattr(given, option.name), option.writes)
        if getattr(given, "plot", None) and name != "demo":  # demo runs without matplotlib too
            required("matplotlib", "drawing", "plot")
        answer = command(given)
        if answer.save is not None:
            keep(answer.save, given.out)
        goes_on = hasattr(given, "resume") and not answer.finished
        if goes_on and given.out is not None and given.out.exists():
            typer.echo(f"note: the same command with --resume goes on from {given.out}", err=True)
        if answer.rows is not None and given.rows is not None:
            save_table(answer.rows(), given.rows)
        if answer.draw is not None and given.plot is not None:
            with Progress("drawing", enabled=given.talks):
                answer.draw(given.plot)
        files = {option.key: getattr(given, option.name) for option in outputs}
        if given.as_json:
            named = {key: file for key, file in files.items() if key}
            print_json({**answer.record, "exit_code": int(answer.code), "warnings": given.heard, **named})
        elif not given.quiet:
            saved = [str(file) for file in files.values() if file is not None]
            lines = answer.lines
            if lines is None:
                lines = record_lines(answer.record | {"saved": saved or None})
            else:
                lines = [*lines, *(row("saved", file) for file in saved)]
            typer.echo("\n".join(lines), nl=bool(lines))
        raise typer.Exit(answer.code)


def progress(given: SimpleNamespace, text: str, out: Path | None = None) -> Progress:
    """Return a spinner for the terminal that also writes the best answer so far to ``out``."""
    return Progress(text, enabled=given.talks, out=out)


def earlier(given: SimpleNamespace) -> Any:
    """Return the warm start in ``--out`` if ``--resume`` is given and the file exists, else None.

    Raises
    ------
    InputError
        If ``--out`` is missing, or the file cannot be loaded.
    """
    if not given.resume:
        return None
    if given.out is None:
        raise InputError("--resume begins with what is in --out; name the file with --out.")
    if not given.out.exists():
        typer.echo(f"note: there is no {given.out}; the run begins anew", err=True)
        return None
    from covopt import load

    return load(given.out)


# ---------------------------------------------------------------------- tables and lists of numbers
def read_plain(given: SimpleNamespace, **more: Any) -> Any:
    """Return the table of a command, with the columns and rows that its options select."""
    from covopt.data import table_files

    return table_files.read_table(
        given.table, target=given.target, features=given.features, text=reading(given),
        words=getattr(given, "one_hot", False), drop_missing=getattr(given, "drop_missing", False), **more,
    )  # fmt: skip


def read_for_loss(given: SimpleNamespace) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the table, the options that follow from it, and a line about the loss if the target determined it."""
    from covopt.losses import make_loss

    made = None if given.loss is None else make_loss(given.loss)
    labels = None if made is None else made.is_classification
    table = read_plain(given, labels=labels, weight=given.sample_weight)
    said: list[str] = []
    if made is None:
        made, said = _loss_of(table)
    return table, {"loss": made, "sample_weight": table.weights}, said


def _loss_of(table: Any) -> tuple[Any, list[str]]:
    """Return the loss that fits the target, and a line that names it if the target holds classes."""
    from covopt.losses import make_loss

    if table.Y.ndim == 2:
        return make_loss("squared"), []
    classes = sorted(set(table.Y.tolist()), key=str)
    name = "logistic" if len(classes) <= 2 else "softmax-cross-entropy"
    held = f"{table.target_names[0]} holds {counted(len(classes), 'class', 'classes')}"
    numbers = "" if table.Y.dtype.kind == "O" else "; --loss squared takes them as numbers"
    return make_loss(name), [
        row("classes", f"{held}, {listed([str(c) for c in classes])}: the loss is {name}{numbers}")
    ]


def settle_units(given: SimpleNamespace, table: Any, loss: Any = None) -> tuple[bool, list[str]]:
    """Return whether to standardise, and a line that says why if no option decided it.

    Without a bias the columns cannot be centred, so only the option standardises. The mean of the targets matters
    if the objective has a loss and a norm, and no output bias can represent it.
    """
    if given.standardise is not None or given.bias == 0:
        return bool(given.standardise), []
    from covopt.data.scaling import differing_units, paid_offset

    why = differing_units(table.X, table.feature_names)
    if not (why or loss is None or loss.is_classification or given.output_bias != "none"):
        why = paid_offset(table.Y, table.target_names)
    return bool(why), [row("units", f"{why}; --no-standardise solves them as they are")] if why else []


def columns_lines(table: Any) -> list[str]:
    """Return the lines about the columns of a table, for commands that print no summary of a solution."""
    names = f"{listed(table.feature_names)} → {listed(table.target_names)}"
    return [row("features", names), *left_out_lines(table)]


def strength_in(text: str) -> float | str:
    """Return λ as a number if it is one; multiples of λ_max stay text.

    Examples
    --------
    >>> strength_in("0.1"), strength_in("0.03max")
    (0.1, '0.03max')
    """
    try:
        return float(text)
    except ValueError:
        return text


def strengths_in(text: str) -> list[float | str]:
    """Return the list of λ in a text like ``0.1,0.03max``: numbers, multiples of λ_max, or cv.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> strengths_in("0.1,0.03max")
    [0.1, '0.03max']
    """
    from covopt.api.lambdas import is_chosen, parse_lam

    found = [strength_in(part) for part in text.split(",")]
    for lam in found:
        if isinstance(lam, str) and not is_chosen(lam):
            parse_lam(lam)
    return found


def widths_in(text: str) -> list[int | tuple[int, ...]]:
    """Return the list of widths in a text like ``8,16`` or ``32x16,64x16``.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> widths_in("8,16"), widths_in("32x16")
    ([8, 16], [(32, 16)])
    """
    try:
        found = [tuple(int(size) for size in part.split("x")) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--widths must be integers separated by commas, as in 8,16 or 32x16; received {text!r}"
        ) from None
    return [sizes[0] if len(sizes) == 1 else sizes for sizes in found]
