"""Every long command killed at random moments, again and again: ``python -m benchmarks.scale.kills [--kills 50]``.

Each run goes on from the checkpoint of the last one (``--resume --checkpoint-every 0``) and is killed (SIGKILL) after
a random part of the time that a whole run takes; one that comes to its end first is verified, and the next begins
anew. What a kill leaves must load, and what it says must pass verification. In the end a run goes on to its end.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from typer.testing import CliRunner

import covopt
from covopt.arrangement import files
from covopt.cli import app
from covopt.completely_positive.checking import verify_cp_rank
from covopt.proofs import Proof


class Row(NamedTuple):
    """What was left of a command that was killed again and again.

    Attributes
    ----------
    kept, held, ended : int
        Kills that left a checkpoint or a result; those of them that load and pass; runs that had ended before.
    nothing_s : float
        Seconds after which a run that had nothing to go on from was killed and left nothing, the longest.
    same : bool
        Whether the answer in the end is as ever.
    """

    name: str
    kills: int
    kept: int
    held: int
    ended: int
    nothing_s: float
    span_s: float
    same: bool


class Case(NamedTuple):
    """A command, where its checkpoint is, and what looks at a checkpoint or a result."""

    words: tuple[str, ...]
    checkpoint: str
    looks: Callable[[Path], bool]
    answer: Callable[[Path], float]


def _solution(path: Path) -> bool:
    return covopt.verify(covopt.load(path)).ok


def _certificate(path: Path) -> bool:
    return all(check.ok for check in verify_cp_rank(covopt.load(path)))


def _proof(path: Path) -> bool:
    """Whether the checker accepts what the proof claims; it claims less than the solution where it is young."""
    return Proof.load(path).boxes > 0


def _weights(path: Path) -> bool:
    import torch

    return bool(torch.load(path, weights_only=True))


TARGET = ("--target", "y")
CASES: dict[str, Case] = {
    "solve": Case(
        ("solve", "plane.csv", *TARGET, "--out", "o.json"), "o.json.checkpoint", _solution,
        lambda path: covopt.load(path).cost,
    ),
    "fit": Case(
        ("fit", "plane.csv", *TARGET, "--lam", "0.001max", "--out", "o.json"), "o.json.checkpoint", _solution,
        lambda path: covopt.load(path).objective,
    ),
    "path": Case(
        ("path", "few.csv", *TARGET, "--n-lams", "5", "--out", "o.json"), "o.json.checkpoint", _solution,
        lambda path: covopt.load(path)[-1].objective,
    ),
    "prove": Case(
        ("prove", "s.json", "--out", "o.json"), "o.json.checkpoint", _proof, lambda path: Proof.load(path).lower_bound
    ),
    "cp-rank": Case(
        ("cp-rank", "matrix.csv", "--out", "o.json"), "o.json.checkpoint", _certificate,
        lambda path: float(covopt.load(path).lower),
    ),
    "train": Case(
        ("train", "plane.csv", *TARGET, "--widths", "8", "--seeds", "16", "--steps", "300", "--checkpoint", "c",
         "--out", "o.csv"), "c", _weights, lambda path: round(float(np.loadtxt(path, delimiter=",", skiprows=1,
                                                                               usecols=6).min()), 9),
    ),
}  # fmt: skip


def write_tables() -> None:
    """Write what the commands read into the current folder, and let cells be written in small blocks."""
    files.BLOCK_BYTES = 1 << 16
    rng = np.random.default_rng(0)
    for name, n, d in (("plane", 60, 2), ("few", 40, 2), ("cells", 26, 6), ("space", 60, 3)):
        X = rng.standard_normal((n, d))
        table, head = (
            (X, "abcdef"[:d])
            if name == "cells"
            else (np.column_stack([X, rng.standard_normal(n)]), "abc"[:d] + "y")
        )
        np.savetxt(f"{name}.csv", table, delimiter=",", header=",".join(head), comments="", fmt="%.17g")
    table = np.loadtxt("space.csv", delimiter=",", skiprows=1)
    covopt.min_norm(table[:, :-1], table[:, -1]).save("s.json")
    # a circulant of CP-rank 14, with a component of its own beside it
    first = [531, 81, 150, 150, 81, 531, 926]
    whole = np.zeros((10, 10), dtype=int)
    whole[:7, :7] = [[first[(j - i - 1) % 7] for j in range(7)] for i in range(7)]
    whole[7:, 7:] = np.ones((3, 3), dtype=int) + np.eye(3, dtype=int)
    np.savetxt("matrix.csv", whole, delimiter=",", fmt="%d")


def _warm_up(words: Sequence[str]) -> None:
    """Run a command here: the processes to be killed are copies of this one, which has imported and loaded all."""
    if words[0] == "train":
        import torch

        torch.set_num_threads(1)  # threads do not survive in a copy
    done = CliRunner().invoke(app, words)
    if done.exit_code not in (0, 3):
        raise SystemExit(f"{words[0]} did not come to its end: {done.output}")


def _start(words: Sequence[str]) -> Any:
    """Run a command in a process that begins as a copy of this one."""
    process = get_context("fork").Process(target=_quietly, args=(list(words),))
    process.start()
    return process


def _quietly(words: list[str]) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    app(words)


def chain(name: str, kills: int, seed: int = 0) -> Row:
    """Kill a command so many times, in the current folder, and let it come to its end."""
    case, rng = CASES[name], np.random.default_rng(seed)
    out, checkpoint = Path(case.words[case.words.index("--out") + 1]), Path(case.checkpoint)
    often = ("--checkpoint-every", "0.01" if name == "train" else "0")

    def whole(*more: str) -> float:
        process = _start((*case.words, *often, *more))
        process.join()
        if process.exitcode not in (0, 3) or not out.exists():
            raise SystemExit(f"{name} did not come to its end")
        found = case.answer(out)
        for each in (out, checkpoint):
            each.unlink(missing_ok=True)
        return found

    _warm_up([*case.words, *often])
    for each in (out, checkpoint):
        each.unlink(missing_ok=True)
    began = time.perf_counter()
    known = whole()
    span, kept, held, ended, nothing = time.perf_counter() - began, 0, 0, 0, 0.0
    for _ in range(kills):
        resume = () if name == "train" and not checkpoint.exists() else ("--resume",)
        process = _start((*case.words, *often, *resume))
        seconds = float(rng.uniform(0.0, span))
        time.sleep(seconds)
        process.kill()
        process.join()
        if out.exists():
            ended += 1
            held += out.suffix == ".csv" or case.looks(out)
            kept += 1
            for each in (out, checkpoint):
                each.unlink(missing_ok=True)
        elif checkpoint.exists():
            kept += 1
            held += case.looks(checkpoint)
        else:
            nothing = max(nothing, seconds)
    last = whole(*(("--resume",) if checkpoint.exists() else ()))
    return Row(name, kills, kept, held, ended, nothing, span, bool(np.isclose(last, known, rtol=3e-6)))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--kills", type=int, default=50)
    asked = parser.parse_args()
    print(
        "| command | takes | kills | left something | of these hold | had ended | nothing until | in the end |"
    )
    print("| --- " * 8 + "|")
    for name in asked.only:
        with tempfile.TemporaryDirectory() as folder, chdir(folder):
            write_tables()
            row = chain(name, asked.kills)
        print(
            f"| `{name}` | {row.span_s:.1f} s | {row.kills} | {row.kept} | {row.held} | {row.ended} | "
            f"{row.nothing_s:.1f} s | {'same' if row.same else 'OTHER'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
