"""The command line. The commands import heavy packages only when they run, so that ``covopt --help`` is fast."""

from covopt.cli.commands import app, main

__all__ = ["app", "main"]
