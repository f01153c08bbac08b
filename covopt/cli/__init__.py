"""The command line. Heavy imports stay inside the commands: ``covopt --help`` answers at once."""

from covopt.cli.commands import app, main

__all__ = ["app", "main"]
