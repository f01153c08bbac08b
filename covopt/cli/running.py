"""One way for every command to run: its options and outputs are checked, it answers, the answer is saved and said."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import typer

from covopt.checks.optional import is_installed
from covopt.cli.examples import texts
from covopt.cli.options import options_of, signature
from covopt.cli.report import Exit, Progress, check_outputs, keep, print_json, reporting
from covopt.cli.tables import FIGURE, check_suffix, save_table

STOPPED = ("time_limit", "interrupted", "callback")  # codes of a run that can go on


@dataclass
class Answer:
    """What a command has found: what is printed, and how it is written to the files that were asked for.

    Attributes
    ----------
    code : Exit
    record : dict
        For ``--json``.
    lines : list of str
        For people.
    save, draw : callable, optional
        Write ``--out`` and ``--plot``.
    rows : callable, optional
        Return the table for ``--table``.
    finished : bool
        Whether there is nothing to resume.
    saved : str
        How a line for a file reads.
    next : str, optional
        The command that may come next.
    """

    code: Exit
    record: dict[str, Any] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    save: Callable[[Path], Any] | None = None
    draw: Callable[[Path], Any] | None = None
    rows: Callable[[], Any] | None = None
    finished: bool = True
    saved: str = f"{'saved':<14} {{}}"
    next: str | None = None


Command = Callable[[SimpleNamespace], Answer]


def add(app: typer.Typer, name: str, command: Command, epilog: str = "") -> None:
    """Make a function of the options that were given a command.

    Parameters
    ----------
    app : typer.Typer
    name : str
    command : callable
    epilog : str
        About its exit codes.
    """

    def called(**options: Any) -> None:
        run(name, command, SimpleNamespace(**options))

    called.__doc__, called.__signature__ = command.__doc__, signature(name)  # type: ignore[attr-defined]
    app.command(name, **texts(name, epilog))(called)


def run(name: str, command: Command, given: SimpleNamespace) -> None:
    """Check the outputs, answer, save, draw and print; the files come first, so that nothing computed is lost."""
    memory_limit = getattr(given, "memory_limit", None)
    outputs = [option for option in options_of(name) if option.writes is not None]
    inputs = tuple(getattr(given, option.name) for option in options_of(name) if option.reads)
    given.checkpoint = getattr(given, "checkpoint", None)
    given.talks = not (given.as_json or given.quiet)
    with reporting(given.as_json, memory_limit) as given.heard:
        check_outputs(*(getattr(given, option.name) for option in outputs), inputs=inputs)
        for option in outputs:
            # what draws without being asked goes on where nothing can be drawn
            if option.writes is not FIGURE or option.default is None or is_installed("matplotlib"):
                _check(getattr(given, option.name), option.writes or ())
        answer = command(given)
        if answer.save is not None:
            keep(answer.save, given.out)
        settle(given.checkpoint, finished=answer.finished)
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
            written = [answer.saved.format(file) for file in files.values() if file is not None]
            after = [] if answer.next is None else [f"{'try':<14} {answer.next}"]
            for line in [*answer.lines, *(written if answer.saved else []), *after]:
                typer.echo(line)
        raise typer.Exit(answer.code)


def _check(path: Path | None, writes: tuple[str, ...]) -> None:
    """Refuse the extension of an output, before anything is computed."""
    if path is None or not writes:
        return
    if writes is not FIGURE:
        check_suffix(path, writes)
        return
    from covopt.plotting import check_figure_path

    check_figure_path(path)


@contextmanager
def progress(given: SimpleNamespace, text: str) -> Iterator[Progress]:
    """Show a spinner where somebody looks."""
    with Progress(text, enabled=given.talks) as shown:
        yield shown


def keep_checkpoint(given: SimpleNamespace, *, kept: bool = True) -> None:
    """Open the checkpoint beside the result; none where no result is saved, or the solver keeps none.

    Parameters
    ----------
    given : SimpleNamespace
        The options; ``checkpoint`` is set.
    kept : bool
        Whether this solver keeps any.

    Raises
    ------
    InputError
        Where there is nothing to go on from.
    """
    from covopt.errors import InputError

    out = given.out
    if given.resume and not kept:
        raise InputError(
            "--resume is for shallow networks, the variation norm and column generation; leave it out."
        )
    if given.resume and out is None:
        raise InputError("--resume goes on from the checkpoint beside --out; name the file with --out.")
    if out is None or not kept or (out.exists() and not out.is_file()):  # a pipe or a device
        return
    from covopt.checks.checkpoints import Checkpoint

    path = out.with_name(out.name + ".checkpoint")
    if given.resume and not path.exists():
        typer.echo(f"note: there is no checkpoint {path}; the run begins anew", err=True)
    if not given.resume and path.exists():
        typer.echo(f"note: {path} is of a run that was stopped; --resume would go on from it", err=True)
    given.checkpoint = Checkpoint(path, every_s=given.checkpoint_every, resume=given.resume, keep=True)


def settle(checkpoint: Any, *, finished: bool) -> None:
    """After the result is saved, remove the checkpoint of a finished run; of a stopped one say how it goes on."""
    path = getattr(checkpoint, "path", checkpoint)
    if path is None:
        return
    if finished:
        path.unlink(missing_ok=True)
    elif path.exists():
        typer.echo(f"note: the same command with --resume goes on from {path}", err=True)
