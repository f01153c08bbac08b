"""Damaged and hostile files: no traceback, no long wait, and what is still accepted is true."""

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
from benchmarks.adversary.forged import holds, honest
from benchmarks.adversary.mutate import mutations
from benchmarks.adversary.outcome import CRASHED, Outcome, held, refuted
from benchmarks.adversary.solves import quiet
from covopt.cli.commands import app
from covopt.errors import CovoptError

SECONDS = 5.0  # of processor time for saying no; a second on an idle machine
WHOLE = 17  # mutations that begin every list: whole files of another kind


def _matrix(rng: np.random.Generator) -> Any:
    B = rng.integers(0, 3, (int(rng.integers(2, 5)), int(rng.integers(2, 5)))).astype(object)
    return quiet(covopt.cp_rank, (B.T @ B).tolist(), time_limit_s=5.0)


def _label_noise(rng: np.random.Generator) -> Any:
    potential = str(rng.choice(["label-noise", "label-noise-exact"]))
    return quiet(covopt.min_norm, rng.standard_normal((4, 1)), rng.standard_normal(4), potential=potential)


KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "solution": lambda rng: honest(rng, with_loss=False),
    "fit": lambda rng: honest(rng, with_loss=True),
    "label-noise": _label_noise,
    "cp-rank": _matrix,
}


def damaged(kind: str) -> Callable[[np.random.Generator], Outcome]:
    """A file of this kind, changed."""

    def ask(rng: np.random.Generator) -> Outcome:
        document = KINDS[kind](rng).to_dict()
        skip = int(rng.integers(WHOLE)) if rng.random() < 0.1 else WHOLE
        name, content = next(islice(mutations(document, rng), skip, None))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file.json"
            path.write_bytes(content)
            outcome = _by_command(path) if rng.random() < 0.1 else _by_library(path, rng)
        if outcome.kind in ("refuted", CRASHED):
            return Outcome(outcome.kind, f"{name[:80]}: {outcome.detail}"[:300])
        return outcome

    return ask


def _by_library(path: Path, rng: np.random.Generator) -> Outcome:
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
    if not accepted or not isinstance(loaded, covopt.Solution):
        return held()
    loaded.summary()
    return holds(loaded, rng)


def _by_command(path: Path) -> Outcome:
    ended = CliRunner().invoke(app, ["verify", str(path)])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        return Outcome(CRASHED, f"the command line: {ended.exception!r}"[:200])
    if ended.exit_code not in (0, 1, 4):
        return refuted(f"the command line ended with {ended.exit_code}")
    return held()
