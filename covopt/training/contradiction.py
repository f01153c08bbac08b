"""A network that a certificate says cannot exist: the error, and the report that reproduces it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from covopt.checks.claims import Check
from covopt.errors import CertificateContradictedError
from covopt.files.formats import read_one
from covopt.meter.report import Gap
from covopt.verification import verify

DEFAULT_NAME = "covopt-contradiction.json"


def contradicted(report: Gap, path: str | os.PathLike[str] | None = None) -> CertificateContradictedError:
    """Save a report whose network is below its bound, and return the error to raise.

    Parameters
    ----------
    report : Gap
    path : path-like, optional
        ``covopt-contradiction.json`` by default; in the folder for temporary files where that cannot be written.
    """
    place = Path(DEFAULT_NAME if path is None else path)
    try:
        report.save(place)
    except OSError:
        place = Path(tempfile.mkdtemp(prefix="covopt-")) / DEFAULT_NAME
        report.save(place)
    return CertificateContradictedError(
        f"{report.what} is below the certificate: its objective is {report.objective:.12g}, and "
        f"{report.lower_bound:.12g} is certified; problem, dual and weights are in {place}, and covopt.verify or "
        f"covopt.training.recheck({str(place)!r}) compares again. Please report it.",
        place,
    )


def recheck(path: str | os.PathLike[str]) -> list[Check]:
    """Read the report of a contradiction and verify it again: the checks that fail.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    list of Check
        Empty when the network respects the certificate after all.

    Raises
    ------
    SolutionFileError
        When the file is missing or no report of :func:`covopt.gap`.
    """
    found: Any = read_one(path, "covopt-gap")
    return [check for check in verify(found).checks if not check.ok]
