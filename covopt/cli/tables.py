"""Tables that commands write, and the extensions that they may have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from covopt.checks.optional import required
from covopt.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet", ".tex")
JSON = (".json",)
FIGURE = ("figure",)  # which extensions, matplotlib says


def check_suffix(path: Path | None, allowed: tuple[str, ...]) -> None:
    """Refuse an extension that says something else than what would be written, before anything is computed.

    Parameters
    ----------
    path : Path, optional
        Pipes and devices are written to as they are.
    allowed : tuple of str

    Raises
    ------
    InputError
        Naming those that are written.
    """
    if path is None or path.suffix.lower() in allowed or (path.exists() and not path.is_file()):
        return
    raise InputError(
        f"cannot write {path}: the file must end in {' or '.join(allowed)}; change the extension."
    )


def save_table(table: pd.DataFrame, path: Path) -> None:
    """Write a table as its extension says.

    Parameters
    ----------
    table : pandas.DataFrame
    path : Path
        ``.csv``, ``.parquet`` or ``.tex``.

    Raises
    ------
    InputError
        For LaTeX without Jinja2.
    """
    from covopt.files import write_atomically

    suffix = path.suffix.lower()
    if suffix == ".parquet":
        required("pyarrow", str(path), "parquet")
        write_atomically(path, lambda stream: stream.write(table.to_parquet(index=False)))
        return
    if suffix == ".tex":
        try:
            content = table.to_latex(index=False, escape=True, float_format="%.6g")
        except ImportError:
            raise InputError(
                f"cannot write {path}: LaTeX tables need Jinja2; install it, or write .csv."
            ) from None
    else:
        content = table.to_csv(index=False)
    write_atomically(path, lambda stream: stream.write(content.encode()))
