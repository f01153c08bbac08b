"""JSON files read back."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from covopt.errors import SolutionFileError


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When it is missing, cannot be read, or is not JSON.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SolutionFileError(f"cannot read {os.fspath(path)}: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SolutionFileError(f"{os.fspath(path)} is not a JSON file: {error}") from error
