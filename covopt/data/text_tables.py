"""Tables of text: CSV and its kin, compressed or from standard input, at once or a block of lines after the other."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from covopt.checks.memory import memory_left, plan, room
from covopt.checks.optional import required
from covopt.checks.wording import one_line
from covopt.data.rows import RowNames
from covopt.errors import InputError
from covopt.files import check_archive
from covopt.files.archive import MOST_INFLATED

if TYPE_CHECKING:
    import pandas as pd

STDIN = "-"
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
DELIMITERS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
WIDE = ("utf-16", "utf-32")
AT_ONCE = 1 << 22  # bytes
SAMPLE = 1 << 16  # bytes that tell how many numbers there are
OF_A_BYTE, OF_A_NUMBER = 2, 28  # bytes that memory takes for them
NEVER_ASKED = 1 << 20  # bytes below which every machine has room
FEWER = "Leave out rows or columns."
LEAST_BLOCK, MOST_BLOCK, BLOCKS = 1 << 16, 1 << 23, 40  # bytes of a block; what part of the memory it may be


@dataclass(frozen=True)
class Text:
    """How to read a table of text.

    Attributes
    ----------
    sep : str, optional
        What separates columns; by default comma, semicolon or tab, whichever the first line has most of.
    encoding : str
    decimal : str
        The decimal point.
    """

    sep: str | None = None
    encoding: str = "utf-8"
    decimal: str = "."


@dataclass(frozen=True)
class Raw:
    """A file as a frame.

    Attributes
    ----------
    frame : pandas.DataFrame
    groups : dict
        Names of arrays of an NPZ file to their columns.
    rows : RowNames
        What messages call the rows.
    kind : str or None
        The name of an index that makes messages do so, None where rows count from 0.
    labels : ndarray
    """

    frame: pd.DataFrame
    groups: dict[str, list[str]] = field(default_factory=dict)
    kind: str | None = None
    labels: np.ndarray | None = None

    @property
    def rows(self) -> RowNames:
        """What messages call the rows."""
        return RowNames() if self.kind is None else RowNames(self.labels, self.kind)


def check_text(text: Text) -> None:
    """Refuse separators, decimal points and encodings that are none.

    Parameters
    ----------
    text : Text

    Raises
    ------
    InputError
        Naming the option.
    """
    if text.sep is not None and len(text.sep) != 1:
        raise InputError(f"sep must be one character (\\t for a tab); received {text.sep!r}.")
    if text.decimal not in (".", ","):
        raise InputError(f"decimal must be '.' or ','; received {text.decimal!r}.")
    if text.sep == text.decimal:
        raise InputError(f"sep and decimal are both {text.sep!r}; columns could not be told from decimals.")
    try:
        "".encode(text.encoding)
    except LookupError:
        raise InputError(
            f"encoding {text.encoding!r} is unknown; try utf-8, latin-1, cp1252 or utf-16."
        ) from None


def read_text(path: Path, suffix: str, text: Text) -> Raw:
    """Read a table of text as a whole.

    Parameters
    ----------
    path : Path
    suffix : str
        ``.csv``, ``.tsv`` or ``.txt``: what it is under its compression.
    text : Text

    Raises
    ------
    InputError
        Where it is no table, or takes more memory than there may be.
    """
    return next(text_blocks(path, suffix, text, whole=True))


def text_blocks(path: Path, suffix: str, text: Text, *, whole: bool = False) -> Iterator[Raw]:
    """Read a table of text a block of whole lines after the other, so that memory holds one of them.

    Rows are called by their lines in the file. What UTF-16 and UTF-32 encode, whose lines do not end in a byte of
    their own, comes as a whole.

    Parameters
    ----------
    path, suffix, text
        As for :func:`read_text`.
    whole : bool
        Whether all of it is one block.
    """
    with _opened(path) as stream:
        if whole or _is_wide(text):
            yield _frame_of(path, suffix, _all_of(path, suffix, stream), text)
            return
        size = max(LEAST_BLOCK, room(MOST_BLOCK * BLOCKS, 1.0) // BLOCKS)
        head = b""
        while not head.removeprefix(codecs.BOM_UTF8).strip() and (line := _lines_of(stream, 0, path)):
            head += line
        before = skipped = 0
        block = _lines_of(stream, size, path)
        while block or not skipped:  # the first even where nothing follows the names
            if block.strip() or not skipped:
                try:
                    yield _frame_of(path, suffix, head + block, text, before)
                except UnicodeDecodeError as error:
                    error.start += skipped
                    raise
            before, skipped = before + _count_lines(block), skipped + max(len(block), 1)
            block = _lines_of(stream, size, path)


def _all_of(path: Path, suffix: str, stream: IO[bytes]) -> bytes:
    """Return all bytes of a table, where memory has room for them."""
    packed, most = path.suffix.lower() in COMPRESSED, max(memory_left(), NEVER_ASKED)
    most = min(MOST_INFLATED, most) if packed else most
    size = os.fstat(stream.fileno()).st_size if path.suffix.lower() == suffix else 0
    parts = [stream.read(min(SAMPLE, most + 1))]
    length = len(parts[0])
    _check_room(path, max(size, length), parts[0])
    # asked for all of it, a stream would make room first
    while length <= most and (more := stream.read(AT_ONCE)):
        parts.append(more)
        length += len(more)
    if length > most and most == MOST_INFLATED:
        raise InputError(f"{path} inflates to more than {MOST_INFLATED >> 20} MiB; unpack it first.")
    if length > most:
        plan(length, most, FEWER, what=f"the table {path}")
    _check_room(path, length, parts[0])
    return b"".join(parts)


def _is_wide(text: Text) -> bool:
    """Return whether letters take two bytes or four."""
    return text.encoding.lower().replace("_", "-").startswith(WIDE)


def _lines_of(stream: IO[bytes], size: int, path: Path) -> bytes:
    """Read so many bytes and on to the end of a line outside of quotes; nothing at the end of the file."""
    found = stream.read(size) + stream.readline(MOST_BLOCK)
    while found.count(b'"') % 2 and (more := stream.readline(MOST_BLOCK)):
        found += more
        if len(found) > size + MOST_BLOCK:
            break
    if len(found) >= size + MOST_BLOCK:
        raise InputError(f"{path} has a line of more than {MOST_BLOCK >> 20} MiB; is it a table?")
    return found


def _count_lines(raw: bytes) -> int:
    return raw.count(b"\n") + raw.count(b"\r") - raw.count(b"\r\n")


def _check_room(path: Path, size: int, head: bytes) -> None:
    """Refuse a table that memory has no room for; how many numbers a byte holds is that of its first bytes."""
    numbers = size * (max(map(head.count, (b",", b";", b"\t"))) + head.count(b"\n") + 1) / max(len(head), 1)
    check_size(path, OF_A_BYTE * size + OF_A_NUMBER * numbers)


def check_size(path: Path, needed: float) -> None:
    """Refuse a table that memory has no room for.

    Parameters
    ----------
    path : Path
    needed : float
        Bytes.

    Raises
    ------
    InputError
    """
    if needed > NEVER_ASKED:
        plan(needed, memory_left(needed), FEWER, what=f"the table {path}")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a table of text, standard input and compressed ones too."""
    if str(path) == STDIN:
        yield sys.stdin.buffer
        return
    suffix = path.suffix.lower()
    if suffix != ".zip":
        opener: Any = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}.get(suffix, Path.open)
        with opener(path, "rb") as stream:
            yield stream
        return
    member = zipped_name(path)
    with zipfile.ZipFile(path) as archive, archive.open(member) as inner:
        yield inner


def zipped_name(path: Path) -> str:
    """Return the name of the one file in a zip archive.

    Parameters
    ----------
    path : Path

    Raises
    ------
    InputError
        Where it holds none, or several.
    """
    check_archive(path)
    with zipfile.ZipFile(path) as archive:
        names = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX/")]
    if len(names) != 1:
        raise InputError(f"{path} holds {len(names)} files; a table is one file.")
    return names[0]


def _frame_of(path: Path, suffix: str, raw: bytes, text: Text, before: int = 0) -> Raw:
    """Return the frame of a text, of whose lines so many are left out between the first and the second."""
    pd = required("pandas", "reading a table", "tables")
    if b"\x00" in raw and not _is_wide(text):
        raise InputError(
            f"{path} holds zero bytes, which no text does; is it a table of another kind? For UTF-16 give "
            "--encoding utf-16 (encoding=...)."
        )
    utf8 = text.encoding.lower() in ("utf-8", "utf8")
    content, plain = raw.decode("utf-8-sig" if utf8 else text.encoding), utf8 and raw.isascii()
    head = next((line for line in _each_line(content) if line.strip()), "")
    if not head:
        raise InputError(f"{path} is empty; the first line must name the columns.")
    candidates = [c for c in DELIMITERS[suffix] if c != text.decimal]
    delimiter = text.sep or max(candidates, key=lambda c: (head.count(c), -candidates.index(c)))
    names = [n.strip() for n in next(csv.reader([head], delimiter=delimiter))]
    if pd.to_numeric(pd.Series(names, dtype=object), errors="coerce").notna().all():
        raise InputError(
            f"{path}: the first line must name the columns; it holds numbers ({head.strip()[:60]})."
        )
    check_unique(names, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer releases of pandas round correctly without being asked
        warnings.simplefilter("error", pd.errors.ParserWarning)  # fields beyond the header would be lost
        try:
            frame = pd.read_csv(
                _Heard(raw if plain else content.encode()),
                sep=delimiter,
                decimal=text.decimal,
                skipinitialspace=True,
                index_col=False,
                float_precision="round_trip",
            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            raise InputError(
                _too_wide(content, delimiter, len(names), path, before) or f"{path}: {error}"
            ) from None
    frame.columns = [str(c).strip() for c in frame.columns]
    if text.decimal == ",":
        _check_points(frame, path)
    return Raw(frame, kind="line", labels=before + _lines(content, delimiter, len(frame)))


class _Heard(io.BytesIO):
    """Bytes whose reader hears deadlines and interrupts: the parser comes back for every quarter of a megabyte."""

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size)

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(size)


def _each_line(content: str) -> Iterator[str]:
    """Yield the lines with their ends; StringIO would hold four bytes for every letter."""
    for line in re.finditer(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", content):
        yield line[0]


def _records(content: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows that are not empty, each with the line on which it begins, counted from 1 as editors do."""
    reader = csv.reader(_each_line(content), delimiter=delimiter)
    before = 0
    for record in reader:
        if len(record) > 1 or (record and record[0].strip()):
            yield before + 1, record
        before = reader.line_num


def _too_wide(content: str, delimiter: str, width: int, path: Path, skipped: int) -> str:
    """Say which line has more fields than the header; nothing where none has."""
    for line, record in _records(content, delimiter):
        if len(record) > width and any(field.strip() for field in record[width:]):
            return (
                f"{path}: line {skipped + line} has {len(record)} fields, but the first line names {width} "
                f"column{'' if width == 1 else 's'}. Titles and comments above the names have to go; --sep (sep=...) "
                "names another separator."
            )
    return ""


def _check_points(frame: pd.DataFrame, path: Path) -> None:
    """Refuse 1.000 where the decimal is a comma: it would be one thousand in one country and one in another."""
    for name in frame.select_dtypes(exclude="number").columns:
        pointed = frame[name].dropna().astype(str)
        pointed = pointed[pointed.str.fullmatch(r"\s*[+-]?\d*\.\d*(?:[eE][+-]?\d+)?\s*")]
        if len(pointed):
            raise InputError(
                f"{path}: column {name!r} holds '{one_line(pointed.iloc[0], 40)}', a point although the decimal is a "
                "comma; take points between thousands out, or leave --decimal (decimal=...) away."
            )


def _lines(content: str, delimiter: str, n_rows: int) -> np.ndarray:
    """Return the line on which each row begins, counted from 1 as editors do."""
    plain = content.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    if plain.count("\n") == n_rows:  # neither blank lines nor line ends within quotes
        return np.arange(2, n_rows + 2)
    return np.array([line for line, _ in _records(content, delimiter)][1 : n_rows + 1])


def check_unique(names: Sequence[str], path: Path) -> None:
    """Refuse two columns of one name.

    Parameters
    ----------
    names : sequence of str
    path : Path

    Raises
    ------
    InputError
        Naming them.
    """
    repeated = sorted({n for n in names if list(names).count(n) > 1})
    if repeated:
        raise InputError(
            f"{path} has more than one column called {', '.join(map(repr, repeated))}; rename or drop them."
        )
