"""Damaged and hostile files: covopt must not crash or hang, and may accept only true claims."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import covopt
from benchmarks.adversary import deep
from benchmarks.adversary.forged import holds, honest
from benchmarks.adversary.mutate import mutated_table, mutations
from benchmarks.adversary.outcome import CRASHED, HELD, Outcome, held, refuted
from benchmarks.adversary.solves import quiet
from covopt.cli import app
from covopt.errors import CovoptError

SECONDS = 5.0  # processor time within which a file must be refused; a second on an idle machine
WHOLE = 17  # the first mutations of every list, which replace the whole file


def _matrix(rng: np.random.Generator) -> Any:
    B = rng.integers(0, 3, (int(rng.integers(2, 5)), int(rng.integers(2, 5)))).astype(object)
    return quiet(covopt.cp_rank, (B.T @ B).tolist(), time_limit_s=5.0)


def _label_noise(rng: np.random.Generator) -> Any:
    potential = str(rng.choice(["label-noise", "label-noise-exact"]))
    return quiet(covopt.min_norm, rng.standard_normal((4, 1)), rng.standard_normal(4), potential=potential)


def _path(rng: np.random.Generator) -> Any:
    points = quiet(covopt.path, rng.standard_normal((4, 1)), rng.standard_normal(4), n_lams=2)
    return {"format": "covopt-path", "schema": 1, "solutions": [point.to_dict() for point in points]}


def _gap(rng: np.random.Generator) -> Any:
    X, y = rng.standard_normal((6, 1)), rng.standard_normal(6)
    return quiet(covopt.gap, (rng.standard_normal((3, 2)), rng.standard_normal(3)), X, y, lam=0.05)


KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "solution": lambda rng: honest(rng, with_loss=False),
    "fit": lambda rng: honest(rng, with_loss=True),
    "label-noise": _label_noise,
    "cp-rank": _matrix,
    "path": _path,
    "gap": _gap,
    "deep": deep.honest,
}


def damaged(kind: str) -> Callable[[np.random.Generator], Outcome]:
    """Test a changed file of this kind."""

    def ask(rng: np.random.Generator) -> Outcome:
        made = KINDS[kind](rng)
        document = made if isinstance(made, dict) else made.to_dict()
        skip = int(rng.integers(WHOLE)) if rng.random() < 0.1 else WHOLE
        name, content = next(islice(mutations(document, rng), skip, None))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file.json"
            path.write_bytes(content)
            outcome = _by_command(path) if rng.random() < 0.1 else _by_library(path, rng, made)
        if outcome.kind in ("refuted", CRASHED):
            return Outcome(outcome.kind, f"{name[:80]}: {outcome.detail}"[:300])
        return outcome

    return ask


def damaged_table(rng: np.random.Generator) -> Outcome:
    """Solve a table changed as text by the command line; check that the saved solution passes its verification."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / f"table{rng.choice(['.csv', '.tsv', '.csv.gz', ''])}"
        out = Path(folder) / "out.json"
        name, content = mutated_table(rng)
        table.write_bytes(content)
        options = ["--target", "y", "--time-limit", "2", "--out", str(out), "--quiet"]
        ended = CliRunner().invoke(app, [str(rng.choice(["solve", "fit"])), str(table), *options])
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            return Outcome(CRASHED, f"{name}: {ended.exception!r}"[:200])
        if out.exists():
            checked = quiet(covopt.verify, out)
            if not checked.ok:
                return refuted(f"{name}: {checked.summary()}"[:300])
    return held()


def _by_library(path: Path, rng: np.random.Generator, made: Any) -> Outcome:
    began = time.process_time()
    try:
        loaded = covopt.load(path)
        checked = quiet(covopt.verify, loaded)
        accepted = checked.ok
    except CovoptError:
        accepted = False
    took = time.process_time() - began
    if took > SECONDS:
        return refuted(f"{took:.0f} s to read and verify")
    if not accepted:
        return held()
    if isinstance(loaded, covopt.depth.DeepSolution):
        return deep.still_holds(loaded, made)
    loaded = loaded.best if isinstance(loaded, covopt.Gap) else loaded
    for solution in loaded if isinstance(loaded, list) else [loaded]:
        if isinstance(solution, covopt.Solution):
            solution.summary()
            outcome = holds(solution, rng)
            if outcome.kind != HELD:
                return outcome
    return held()


def _by_command(path: Path) -> Outcome:
    ended = CliRunner().invoke(app, ["verify", str(path)])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        return Outcome(CRASHED, f"the command line: {ended.exception!r}"[:200])
    if ended.exit_code not in (0, 1, 4):
        return refuted(f"the command line ended with {ended.exit_code}")
    return held()
