"""Checks before anything is computed: of arguments, memory and installed packages; messages and logs.

Packages that the core does without are imported when needed; if one is missing, the message names its extra.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from covopt.errors import MissingPackageError


def required(module: str, needed_by: str, extra: str) -> Any:
    """Return a module that is not among the dependencies of the core.

    Parameters
    ----------
    module : str
    needed_by : str
        What cannot be done without it, as the subject of a sentence.
    extra : str
        What to install it with.

    Raises
    ------
    MissingPackageError
        If it is not installed; the message has the command that installs it.

    Examples
    --------
    >>> required("json", "reading", "core").loads("[1]")
    [1]
    >>> required("no_such_package", "covopt dream", "dreams")
    Traceback (most recent call last):
    covopt.errors.MissingPackageError: covopt dream needs no_such_package: pip install '.[dreams]' in the checkout
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module}.".startswith(f"{error.name}."):
            raise  # it is there, and lacks something itself
        package = module.partition(".")[0]
        package = {"sklearn": "scikit-learn"}.get(package, package)
        raise MissingPackageError(
            f"{needed_by} needs {package}: pip install '.[{extra}]' in the checkout"
        ) from None
