"""Break one safety term at a time, and see its tests fail: ``python -m tests.mutate [--list] [name ...]``.

Each mutation replaces a text of one file in a copy of the repository; its tests are run there and must fail. The exit
code is 1 where a mutation survives, and 2 where its text is no longer found: mend the table then, by the text that
does the same work now.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("covopt", "tests", "benchmarks", "checkers", "conftest.py", "pyproject.toml")


@dataclass(frozen=True)
class Mutation:
    """One change of the code that a test must notice.

    Attributes
    ----------
    name : str
    file : str
        Below the root.
    old, new : str
        The text, once in the file, and what replaces it.
    tests : str
        Arguments of pytest.
    """

    name: str
    file: str
    old: str
    new: str
    tests: str


def read(table: str) -> list[Mutation]:
    """Return the mutations of a table: after ``==`` name, file, tests, then lines that go (-) and that come (+)."""
    found = []
    for section in re.split(r"^== ", table, flags=re.MULTILINE)[1:]:
        name, file, tests, *lines = section.rstrip("\n").split("\n")
        old, new = (("\n".join(line[1:] for line in lines if line[0] == sign)) for sign in "-+")
        found.append(Mutation(name, file, old, new, tests))
    return found


MUTATIONS = read(Path(__file__).with_name("mutations.txt").read_text())


def run(mutation: Mutation, place: Path) -> tuple[str, str]:
    """Return what became of one mutation, and the last lines that pytest printed."""
    file = place / mutation.file
    if not file.exists():
        return "FILE NOT FOUND", mutation.file
    text = file.read_text()
    if text.count(mutation.old) != 1:
        return (
            "TEXT NOT FOUND",
            f"{mutation.file} has it {text.count(mutation.old)} times: {mutation.old.strip()}",
        )
    times = file.stat()
    file.write_text(text.replace(mutation.old, mutation.new))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *_words(mutation.tests)]
    try:
        env = {**os.environ, "PYTHONPATH": str(place)}
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, check=False)
    finally:
        file.write_text(text)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))  # compiled kernels are kept by it
    tail = "\n".join(done.stdout.splitlines()[-4:])
    if done.returncode == 1:
        return "caught", tail
    return (
        "SURVIVED" if done.returncode == 0 else f"PYTEST ENDED WITH {done.returncode}"
    ), tail + done.stderr[-500:]


def _words(tests: str) -> list[str]:
    before, _, chosen = tests.partition(" -k ")
    return [*before.split(), *(["-k", chosen] if chosen else [])]


def main() -> int:
    """Run the mutations that are named, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of names")
    parser.add_argument("--list", action="store_true", help="print the names")
    options = parser.parse_args()
    chosen = [m for m in MUTATIONS if not options.names or any(name in m.name for name in options.names)]
    if options.list:
        print("\n".join(f"{m.name}: {m.file}" for m in chosen))
        return 0
    worst = 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "covopt"
        place.mkdir()
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, place / name)
            elif (ROOT / name).exists():
                shutil.copy2(ROOT / name, place / name)
        for mutation in chosen:
            began = time.perf_counter()
            answer, tail = run(mutation, place)
            print(f"{answer:15s} {time.perf_counter() - began:6.1f} s  {mutation.name}", flush=True)
            if answer != "caught":
                print("    " + tail.replace("\n", "\n    "), flush=True)
                worst = max(worst, 2 if "NOT FOUND" in answer else 1)
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
