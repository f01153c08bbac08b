"""Archives that would fill the memory when they are opened."""

from __future__ import annotations

import os
import zipfile
from typing import IO

MOST_INFLATED = 2**30
MOST_RATIO = 200  # tables of zeros reach 1000, small ones


def check_archive(path: str | os.PathLike[str] | IO[bytes]) -> None:
    """Refuse a zip archive that says of itself that it is large and almost empty.

    Parameters
    ----------
    path : path-like or binary file
        What is no zip archive passes; so does one that cannot be read, for its reader to say why.

    Raises
    ------
    ValueError
        Where more than 1 GiB comes out of less than a 200th of it.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = [(entry.file_size, entry.compress_size) for entry in archive.infolist()]
    except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
        return
    full, packed = sum(size for size, _ in sizes), sum(size for _, size in sizes)
    if full > MOST_INFLATED and full > MOST_RATIO * max(packed, 1):
        raise ValueError(f"it inflates from {packed >> 10} KiB to {full >> 20} MiB")
