"""Follow the five-minute start word for word in a fresh virtual environment, and time every line.

    python -m benchmarks.fresh_start [--page docs/start.md] [--constraints constraints.txt]

The package is built as it is handed out: an archive of the sources, and from that archive alone a wheel. Where the
page says ``pip install .`` pip gets the wheel; the rest of it runs as it stands, and ends the run where it fails.
``mine.csv``, the reader's own table on that page, is written first, with all that the page says of it. Printed as
well: what the core takes on disk, with and without bytecode.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
BUILD = "from setuptools import build_meta as b; b.build_{0}({1!r})"
BLOCK = re.compile(r"^```(sh|console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MIB = 2**20
MINE = "größe;raucher;y\n1,5;yes;2,0\n2,5;no;3,5\n;yes;1,0\n"  # words, commas, a cell without a number


def lines_of(page: str) -> Iterator[str]:
    """Yield what a reader types: lines for a shell, and the Python of the page as one of them."""
    for kind, block in BLOCK.findall(page):
        if kind == "sh":
            yield from ([block] if block.startswith("python -c") else block.strip().split("\n"))
        elif kind == "console":
            yield from (line[2:] for line in block.split("\n") if line.startswith("$ "))
        else:
            yield f"cat > page.txt <<'END'\n{block}END\npython -m doctest -o NORMALIZE_WHITESPACE page.txt"


def built(folder: Path) -> Path:
    """Return the wheel that comes out of the archive of the sources."""
    copy = folder / "copy"
    ignore = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "generated", "gallery")
    shutil.copytree(ROOT, copy, ignore=ignore)
    for kind, place in (("sdist", copy), ("wheel", folder / "unpacked")):
        if kind == "wheel":
            with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
                archive.extractall(folder, filter="data")
            next(folder.glob("covopt_nn-*/")).rename(place)
        subprocess.run(
            [sys.executable, "-c", BUILD.format(kind, str(folder))],
            cwd=place,
            check=True,
            capture_output=True,
        )
    return next(folder.glob("*.whl"))


def size(folder: Path) -> tuple[float, float]:
    """Return MiB of the files in a folder, and how much of it is bytecode."""
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    code = sum(file.stat().st_size for file in files if file.suffix == ".pyc")
    return sum(file.stat().st_size for file in files) / MIB, code / MIB


def follow(page: Path, folder: Path, constraints: Path | None) -> bool:
    """Run the page line by line; return whether all of it worked."""
    wheel, work, venv = built(folder), folder / "work", folder / "venv"
    work.mkdir()
    (work / "mine.csv").write_bytes(MINE.encode("latin-1"))
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
    environment |= {"PATH": f"{venv / 'bin'}:{environment['PATH']}", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if constraints is not None:
        environment["PIP_CONSTRAINT"] = str(constraints.resolve())
    sizes, total = [], 0.0
    for line in (
        f"{shlex.quote(sys.executable)} -m venv {venv}",
        *lines_of(page.read_text(encoding="utf-8")),
    ):
        before = time.perf_counter()
        typed = re.sub(r"(?<=pip install )(\"?)\.(?=[\[ ]|$)", rf"\1{wheel}", line)
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", typed], cwd=work, env=environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        total += (took := time.perf_counter() - before)
        said = (
            "the Python of the page" if line.startswith("cat > page.txt") else line.strip().partition("\n")[0]
        )
        print(f"{took:7.1f} s  {said.replace(str(venv), 'venv')}", flush=True)
        if done.returncode != 0:
            print(f"exit {done.returncode}\n{done.stdout}{done.stderr}")
            return False
        if len(sizes) < 2:
            sizes.append(size(next((venv / "lib").glob("python*")) / "site-packages"))
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = used.ru_utime + used.ru_stime
    print(f"{total:7.1f} s  altogether, {processor:.0f} s of processor time with the build")
    (empty, empty_code), (full, full_code) = sizes
    code = full_code - empty_code
    print(f"core: {full - empty - code:.0f} MiB, and {code:.0f} MiB of bytecode that pip adds")
    return True


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "start.md")
    parser.add_argument("--constraints", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        sys.exit(0 if follow(options.page, Path(folder), options.constraints) else 1)


if __name__ == "__main__":
    main()
