"""The output of the command line: results, one-line errors, warnings, JSON, progress."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any

import typer

from covopt.checks import listed, one_line, row
from covopt.checks.log import json_line, round_line, spinner
from covopt.errors import CertificateContradictedError, CovoptError, CovoptWarning, InputError
from covopt.limits import announce_compilation, defer_interrupts, ends_like_an_interrupt

EVERY_S = 30.0  # seconds between two writes of the best answer so far
INTERRUPTED = "interrupted before there was anything to save"


class Exit(IntEnum):
    """Exit codes of the command line."""

    CERTIFIED = 0
    INPUT_ERROR = 1
    USAGE = 2
    NOT_CERTIFIED = 3
    VERIFICATION_FAILED = 4


def print_json(content: dict[str, Any]) -> None:
    """Write one JSON object on stdout."""
    typer.echo(json_line(content))


@contextmanager
def reporting(as_json: bool, memory_limit: float | None = None) -> Iterator[list[str]]:
    """Turn expected failures into one line and an exit code; collect the warnings for ``--json``.

    Large arrays are limited to ``memory_limit`` GiB.
    An unexpected exception is a bug of covopt and keeps its traceback.
    """
    from covopt.checks.memory import memory_limited  # imports NumPy

    heard: list[str] = []

    def show(message: Any, category: type[Warning], *_: Any, **__: Any) -> None:
        if issubclass(category, CovoptWarning):
            heard.append(str(message))
            if not as_json:
                typer.echo(f"warning: {message}", err=True)

    def fail(message: str, code: Exit, **more: Any) -> typer.Exit:
        if as_json:
            print_json({"error": message, "exit_code": int(code), "warnings": heard, **more})
        typer.echo(f"error: {message}", err=True)
        return typer.Exit(code)

    def say(text: str) -> None:
        if not as_json and sys.stderr.isatty():
            typer.echo(text, err=True)

    announce_compilation(say)
    with ends_like_an_interrupt(), warnings.catch_warnings():
        warnings.simplefilter("default", CovoptWarning)
        warnings.showwarning = show
        try:
            with memory_limited(memory_limit):
                yield heard
        except CovoptError as error:
            if isinstance(error, CertificateContradictedError) and error.path is not None:
                said, code = _one_line(error), Exit.VERIFICATION_FAILED
                raise fail(said, code, contradiction_file=error.path) from None
            raise fail(_one_line(error), Exit.INPUT_ERROR) from None
        except BrokenPipeError:
            # The reader of the pipe has exited; flushing the buffer at shutdown must not raise again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(Exit.INPUT_ERROR) from None
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise fail(f"{where}{error.strerror or error}", Exit.INPUT_ERROR) from None
        except MemoryError:
            raise fail("out of memory; use fewer rows or features", Exit.INPUT_ERROR) from None
        except KeyboardInterrupt:
            with defer_interrupts():  # another Ctrl-C may follow
                failure = fail(INTERRUPTED, Exit.NOT_CERTIFIED)
            raise failure from None
        except Exception as error:
            # Ctrl-C while an extension module is imported is raised as ImportError
            if _is_interruption(error):
                raise fail(INTERRUPTED, Exit.NOT_CERTIFIED) from None
            raise


def _is_interruption(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def check_outputs(*outputs: Path | None, inputs: tuple[Path | None, ...] = ()) -> None:
    """Refuse output files that cannot be written, before anything is computed.

    Raises
    ------
    InputError
        If a folder is missing or not writable, a path is a folder, or two files have the same name.
    """
    taken = {p.resolve(): "it is the input" for p in inputs if p is not None}
    for path in outputs:
        if path is None:
            continue
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; give the name of a file.")
        if not path.parent.is_dir():
            raise InputError(
                f"cannot write {path}: the folder {path.parent} does not exist; create it first."
            )
        if path.resolve() in taken:
            raise InputError(f"cannot write {path}: {taken[path.resolve()]}; choose another name.")
        taken[path.resolve()] = "another output has the same name"
        if path.exists() and not path.is_file():  # a pipe or a device
            continue
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(
                f"cannot write {path}: {error.strerror or error}; choose another folder."
            ) from None


def keep(write: Callable[[Path], Any], out: Path | None) -> None:
    """Write a file; if that fails, write it to the system's folder for temporary files.

    Raises
    ------
    InputError
        If the first write failed; the message names the file written instead, if any.
    """
    if out is None:
        return
    with defer_interrupts():
        try:
            write(out)
        except OSError as error:
            said = f"cannot write {out}: {error.strerror or error}; "
            try:
                other = Path(tempfile.mkdtemp(prefix="covopt-")) / out.name
                write(other)
            except OSError:
                raise InputError(
                    f"{said}nor can anything be written elsewhere; what was kept is left."
                ) from None
            raise InputError(f"{said}it is in {other}.") from None


def record_lines(record: dict[str, Any]) -> list[str]:
    """Return the entries of ``--json`` as text: a line for each entry that is not None.

    Parameters
    ----------
    record : dict

    Examples
    --------
    >>> record_lines({"n_cells": 12, "features": ("a", "b"), "bias": 1.0, "ended": None})
    ['n cells    12', 'features   a, b', 'bias       1']
    """

    def said(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:.12g}" if abs(value) > 1e-6 else f"{value:.2g}"
        if isinstance(value, dict):  # the columns left out, with reasons
            from covopt.data.columns import describe_left_out

            return describe_left_out(value) or "nothing"
        return (", ".join(map(str, value)) or "nothing") if isinstance(value, list | tuple) else str(value)

    width = max((len(name) for name in record), default=0) + 2
    return [
        row(name.replace("_", " "), said(value), width) for name, value in record.items() if value is not None
    ]


def left_out_lines(table: Any) -> list[str]:
    """Return the lines about columns that are no inputs and about dropped rows."""
    from covopt.data.columns import describe_left_out

    lines = [row("left out", describe_left_out(table.left_out))] if table.left_out else []
    if table.dropped:
        where = listed([f"{one_line(name, 40)} ({count})" for name, count in table.lacking.items()], 8)
        rows = f"{table.dropped} of {table.dropped + len(table.X)} rows, which lack a value in {where}"
        lines.append(row("dropped", rows))
    return lines


class Progress:
    """A spinner with the bracket and the time on a terminal; silent elsewhere.

    Pass it to a solver as callback; it never stops the solver. During a long run it regularly writes the best answer
    so far to the output file, so that the answer survives even if the process is killed.
    """

    def __init__(self, text: str, *, enabled: bool, out: Path | None = None):
        self._out, self._best, self._ended = out, None, threading.Event()
        self._writer = threading.Thread(target=self._write_often, daemon=True)
        self._status = spinner(text, enabled)

    def __enter__(self) -> Progress:
        if self._out is not None:
            self._writer.start()
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._out is not None:
            with defer_interrupts():  # the result has not been returned yet, so an interrupt would lose it
                self._writer.join()
        self._status.stop()

    def __call__(self, state: Any) -> bool:
        """Show the state of a round; return False, which means go on."""
        deep = isinstance(state, dict)
        self._best = (state["best"] if deep else state.best) or self._best
        if deep:
            self.say(f"{state['side']} {state['value']:.8g}   {state['source']}")
        elif not self._status.disable:
            self.say(round_line(state))
        return False

    def _write_often(self) -> None:
        """Write the answer of the last round, in a thread of its own since a round may take hours."""
        while not self._ended.wait(EVERY_S):
            self.write()

    def write(self) -> None:
        """Write the best answer so far, if it is new."""
        best, self._best = self._best, None
        # write only the final result to a pipe or a device
        if best is not None and self._out is not None and (self._out.is_file() or not self._out.exists()):
            with suppress(Exception):  # a failed write must not end the run
                best().save(self._out)

    def say(self, text: str) -> None:
        """Replace the text of the spinner."""
        self._status.update(self._status.task_ids[0], description=text)
