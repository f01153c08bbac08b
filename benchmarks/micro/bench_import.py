"""How long ``import covopt`` and ``covopt --help`` take, from a cold interpreter: median of five.

python benchmarks/micro/bench_import.py
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

COMMANDS = (
    ("python -c pass", ["-c", "pass"]),
    ("import covopt", ["-c", "import covopt"]),
    ("covopt --help", ["-m", "covopt.cli", "--help"]),
)
REPEATS = 5


def seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    for name, arguments in COMMANDS:
        seconds(arguments)  # bytecode and disk cache
        print(f"{name:<16} {median(seconds(arguments) for _ in range(REPEATS)):.3f} s")


if __name__ == "__main__":
    main()
