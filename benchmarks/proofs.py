"""Closed proofs: their size, and the time to make them and to check them by Python, JavaScript and Coq.

    python -m benchmarks.proofs [--tol T] [WORD …]

Prints processor seconds as a table in Markdown; a reader that is not installed has a dash. The words select tables.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

import covopt
from benchmarks.micro.__main__ import spent
from benchmarks.tables import bundled
from covopt.datasets import load_diabetes_table, make_smooth
from covopt.proofs.coq import THEORY, write_coq

CHECKERS = Path(__file__).resolve().parents[1] / "checkers"


def tables() -> dict[str, Any]:
    """Return the function that solves each table, by name."""
    rng = np.random.default_rng(0)
    X, y = make_smooth(60)
    C, c = bundled("breast_cancer")
    flowers = np.unique(np.column_stack(load_iris(return_X_y=True)), axis=0)
    return {
        "20 × 2, two decimals": lambda: covopt.min_norm(
            rng.normal(size=(20, 2)).round(2), rng.normal(size=20).round(2)
        ),
        "60 × 2 of the README": lambda: covopt.min_norm(X, y),
        "the same, squared loss, λ_max/100": lambda: covopt.fit(X, y, lam="0.01max"),
        "the demo, 432 × 2": lambda: covopt.min_norm(*load_diabetes_table()[:2]),
        "iris, 149 × 4, classes as numbers": lambda: covopt.min_norm(flowers[:, :4], flowers[:, 4]),
        "diabetes, 442 × 10, squared loss, λ_max/2": lambda: covopt.fit(*bundled("diabetes"), lam="0.5max"),
        "cancer, 569 × 30, squared loss of ±1, λ_max/10": lambda: covopt.fit(
            C, 2.0 * c - 1.0, lam="0.1max", loss="squared"
        ),
        "digits 0 and 1, 360 × 52, squared hinge, λ_max/10": lambda: covopt.fit(
            *bundled("digits", n_class=2), lam="0.1max", loss="squared-hinge"
        ),
    }


def seconds(command: list[str], folder: Path) -> float | None:
    """Return the processor seconds of a command, or None if its program is not installed."""
    if shutil.which(command[0]) is None:
        return None
    return spent(command, cwd=folder)


def measured(solution: Any, folder: Path, tol: float) -> list[str]:
    """Make a proof, check it by all readers, and return its row of the table without the name."""
    solution.prove(max_boxes=100)  # compile
    began = time.process_time()
    proof = solution.prove(tol=tol)
    made = time.process_time() - began
    proof.save(folder / "proof.json")
    write_coq(proof.text, folder)
    for name in THEORY:
        seconds(["coqc", "-R", ".", "Covopt", f"{name}.v"], folder)
    times = [
        seconds([sys.executable, str(CHECKERS / "covopt_check.py"), "proof.json"], folder),
        seconds(["node", str(CHECKERS / "verify.mjs"), "proof.json"], folder),
        seconds(["coqc", "-R", ".", "Covopt", "Check.v"], folder),
    ]
    below = 1.0 - proof.lower_bound / solution.lower_bound
    cells = ["–" if value is None else f"{value:.2f}" for value in times]
    return [f"{proof.boxes:,}", f"{len(proof.text) / 1000:,.0f} kB", f"{below:.1e}", f"{made:.1f}", *cells]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--tol", type=float, default=1e-9)
    given = parser.parse_args()
    print("| table | leaves | file | bound below covopt's | made | Python | node | Coq |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, solve in tables().items():
        if all(word in name for word in given.words):
            with tempfile.TemporaryDirectory() as folder:
                print("|", " | ".join([name, *measured(solve(), Path(folder), given.tol)]), "|", flush=True)


if __name__ == "__main__":
    main()
