"""Count the lines of code by package, without blank lines, comments and docstrings.

    python -m benchmarks.lines [COMMIT …]

One column for each commit, and one for the working tree. A package is a folder of ``covopt``, or a file at its root.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("covopt", "benchmarks", "tests")
ONCE = {  # former files at the root, and the packages that they are now in
    "cone": "api", "deep_network": "network", "export": "network", "fitting": "api", "labels": "data",
    "loss_base": "losses", "model_files": "network", "path_files": "solution", "rays": "exact", "table_files": "data",
    "tabular": "data", "tight": "solution", "validation": "checks", "wording": "checks", "_fit_task": "api",
}  # fmt: skip
SILENT = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING,
    tokenize.ENDMARKER,
}  # fmt: skip


def count(source: str) -> int:
    """Return the number of lines with code."""
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in SILENT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else node
            if ast.get_docstring(node, clean=False) is not None:
                lines.difference_update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return len(lines)


def sources(commit: str | None) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield the Python files of a commit, or of the working tree."""
    if commit is None:
        for folder in FOLDERS:
            for file in sorted((ROOT / folder).rglob("*.py")):
                yield PurePosixPath(file.relative_to(ROOT).as_posix()), file.read_text(encoding="utf-8")
        return
    done = subprocess.run(["git", "-C", str(ROOT), "archive", commit], stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        for member in archive:
            path = PurePosixPath(member.name)
            if member.isfile() and path.suffix == ".py" and path.parts[0] in FOLDERS:
                content = archive.extractfile(member)
                assert content is not None
                yield path, content.read().decode()


def rooms(commit: str | None) -> Counter[str]:
    """Return the lines of code of every package of covopt, of the benchmarks and of the tests."""
    found: Counter[str] = Counter()
    for path, source in sources(commit):
        room = f"({path.parts[0]})"
        if path.parts[0] == "covopt":
            room = path.parts[1].removesuffix(".py")
            room = ONCE.get(room) or (
                "cli" if "_cli" in room else "plotting" if "_plotting" in room else room
            )
        found[room] += count(source)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "commits", nargs="*", metavar="COMMIT", help="versions to count beside the working tree"
    )
    commits = parser.parse_args().commits
    columns = [rooms(commit) for commit in (*commits, None)]
    names = sorted({name for column in columns for name in column}, key=lambda name: (name[0] == "(", name))
    package = [name for name in names if name[0] != "("]
    print("| room | " + " | ".join([*commits, "now"]) + " |")
    print("| --- |" + " --- |" * len(columns))
    for name in names:
        print(f"| {name} | " + " | ".join(str(column[name] or "") for column in columns) + " |")
    print("| covopt | " + " | ".join(str(sum(column[name] for name in package)) for column in columns) + " |")


if __name__ == "__main__":
    main()
