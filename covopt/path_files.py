"""Regularisation paths as files: one JSON object with every solution in it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from covopt.errors import SolutionFileError
from covopt.files import write_atomically
from covopt.solution import Solution

FORMAT = "covopt-path"
SCHEMA = 1


def save_path(solutions: Sequence[Solution], path: str | os.PathLike[str]) -> None:
    """Write the solutions of a path to one JSON file, atomically.

    Parameters
    ----------
    solutions : sequence of Solution
    path : path-like

    Examples
    --------
    >>> import covopt, pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "path.json"
    >>> save_path(covopt.path([[0.0], [1.0]], [0.0, 1.0], n_lams=2), file)
    >>> len(load_path(file))
    2
    """
    content = {"format": FORMAT, "schema": SCHEMA, "solutions": [s.to_dict() for s in solutions]}
    text = json.dumps(content, allow_nan=False) + "\n"
    write_atomically(path, lambda stream: stream.write(text.encode()))


def is_path_content(content: Any) -> bool:
    """Whether parsed JSON claims to be a path."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def load_path(path: str | os.PathLike[str]) -> list[Solution]:
    """Read a path written by :func:`save_path`.

    Parameters
    ----------
    path : path-like

    Raises
    ------
    SolutionFileError
        When the file is missing, not JSON, not a covopt path, or of a newer schema.
    """
    name = os.fspath(path)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SolutionFileError(f"cannot read {name}: {error.strerror or error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise SolutionFileError(f"{name} is not a JSON file: {error}") from error
    if not is_path_content(content):
        raise SolutionFileError(f"{name} is not a covopt path: its format field is not {FORMAT!r}")
    if content.get("schema") != SCHEMA or not isinstance(content.get("solutions"), list):
        raise SolutionFileError(
            f"{name} has schema {content.get('schema')!r}; this covopt reads schema {SCHEMA}. Upgrade covopt."
        )
    return [Solution.from_dict(part) for part in content["solutions"]]
