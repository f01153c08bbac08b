"""A newcomer's own table: ``python benchmarks/real_tables/newcomer.py [--only "200 x 10"] [--folder DIR]``.

Eight to twelve columns: a year from 1950 to 2020, an income of some ten thousands, an integer, and noise columns that
are correlated with one another; targets with a kink, an interaction and noise, in units of their own. Each table goes
through ``covopt fit`` as it is and with ``--standardise``, with no other option, and through ``covopt verify``. Most
kernels are compiled before the clock starts; seconds are of the processor.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from covopt.cli import app

TABLES = [
    (n, d, seed)
    for n, d, seed in (
        (100, 8, 0), (100, 10, 1), (150, 12, 2), (200, 10, 0), (200, 10, 1), (200, 10, 2), (300, 8, 3), (300, 10, 4)
    )
]  # fmt: skip
NAMES = ("year", "income", "rooms")


def table(n: int, d: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Return the names and the columns, the target last.

    Parameters
    ----------
    n, d, seed : int
    """
    rng = np.random.default_rng(seed)
    year = rng.integers(1950, 2021, n).astype(float)
    income = np.round(np.exp(10.3 + 0.5 * rng.standard_normal(n) + 0.005 * (year - 1985)), -1)
    rooms = rng.integers(1, 8, n).astype(float)
    mixing = 0.5 * rng.standard_normal((d - 3, d - 3)) + np.eye(d - 3)
    others = np.round(rng.standard_normal((n, d - 3)) @ mixing, 3)
    price = (
        120.0
        + 1.2 * np.maximum(year - 1990, 0.0)
        + 30.0 * np.log(income / 3e4)
        + 9.0 * rooms
        + 6.0 * others[:, 0] * (rooms > 4)
        + 5.0 * np.abs(others[:, 1])
        + 10.0 * rng.standard_normal(n)
    )
    names = [*NAMES, *(f"x{j}" for j in range(d - 3)), "price"]
    return names, np.column_stack([year, income, rooms, others, np.round(price, 1)])


def command(*arguments: str) -> tuple[dict, float]:
    """Return what a command says in JSON, and its processor seconds."""
    began = time.process_time()
    result = CliRunner().invoke(app, [*arguments, "--json"])
    return json.loads(result.stdout.splitlines()[-1]), time.process_time() - began


def main() -> None:
    """Print one line for each table and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help='part of a name, e.g. "200 x 10, seed 1"')
    parser.add_argument("--folder", type=Path, default=Path(tempfile.mkdtemp()))
    parser.add_argument("--options", default="", help='of covopt fit, e.g. "--lam 0.01max"')
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for warm_up, (n, d, seed) in [(True, (40, 8, 0)), *((False, given) for given in TABLES)]:
        name = f"{n} x {d}, seed {seed}"
        if not warm_up and arguments.only not in name:
            continue
        names, values = table(n, d, seed)
        file, out = arguments.folder / f"{n}x{d}-{seed}.csv", arguments.folder / "fit.json"
        np.savetxt(file, values, delimiter=",", header=",".join(names), comments="", fmt="%.10g")
        for way in ([], ["--standardise"]):
            said, seconds = command(
                "fit", f"{file}", "--target", "price", *way, *arguments.options.split(), "--out", f"{out}"
            )
            checked, check_s = command("verify", f"{out}", f"{file}")
            if not warm_up:
                print(
                    f"{name:20} {'standardised' if way else 'raw':13} {said['status']:10} gap {said['gap']:.1e}  "
                    f"R² {said['r2']:.3f}  {said['n_neurons']:3d} neurons  fit {seconds:5.1f} s  "
                    f"{'verified' if checked['ok'] else 'NOT VERIFIED'} {check_s:5.1f} s",
                    flush=True,
                )


if __name__ == "__main__":
    main()
