"""Regularisation paths as files: one JSON object with every solution in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from covopt.api.solution_path import FORMAT, SolutionPath
from covopt.errors import SolutionFileError
from covopt.files.formats import check_format
from covopt.solution import Solution


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
    >>> len(covopt.load(file))
    2
    """
    SolutionPath(solutions).save(path)


def path_from_dict(content: Any) -> SolutionPath:
    """Return the solutions of parsed JSON.

    Parameters
    ----------
    content : object

    Raises
    ------
    SolutionFileError
        When it is not a covopt path, of a newer schema, or one of its points is damaged.
    """
    check_format(content, FORMAT)
    parts = content.get("solutions")
    if not isinstance(parts, list) or not parts:
        raise SolutionFileError("it is a path without points; nothing can be read from it.")
    solutions = SolutionPath()
    for i, part in enumerate(parts):
        try:
            solutions.append(Solution.from_dict(part))
        except SolutionFileError as error:
            raise SolutionFileError(f"point {i} of the path (counting from 0): {error}") from error
    return solutions
