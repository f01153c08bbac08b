"""A line about every command, in the order in which somebody new needs them, and how it is called."""

from __future__ import annotations

from typing import Any

COMMANDS = {
    "demo": ("Solve a real table of patients and draw it: no file is needed.", "covopt demo"),
    "solve": (
        "The smallest network through the points, with a proof.",
        "covopt solve table.csv --target y --out solution.json --plot figure.png",
    ),
    "fit": (
        "The best network for noisy targets (weight decay), with a proof.",
        "covopt fit table.csv --target y --standardise --out fit.json",
    ),
    "path": (
        "The same along a grid of λ: which one fits?",
        "covopt path table.csv --target y --standardise --out path.json --plot path.png",
    ),
    "gap": (
        "How far a trained network is from the best one.",
        "covopt gap model.pt table.csv --target y --weight-decay 1e-3 --plot gap.png",
    ),
    "predict": (
        "Predict the targets of a table with what was saved.",
        "covopt predict fit.json new.csv --out predictions.csv",
    ),
    "verify": (
        "Recompute everything that a saved file claims.",
        "covopt verify solution.json table.csv --exact",
    ),
    "prove": (
        "Write a proof of the bound in integers, for `verify --proof`.",
        "covopt prove solution.json --out proof.json --coq folder",
    ),
    "explore": (
        "Write one HTML page to look around in a solution or a path.",
        "covopt explore solution.json --out page.html",
    ),
    "train": (
        "Train networks by gradient descent, beside the certified best.",
        "covopt train table.csv --target y --widths 8,32 --lam 1e-2 --cross-check",
    ),
    "reduce": (
        "Cut a trained PyTorch network to fewer neurons.",
        "covopt reduce model.pt table.csv --target y --out small.pt",
    ),
    "depth": (
        "Bracket the norm of the smallest network of depth L.",
        "covopt depth table.csv --target y --depth 3",
    ),
    "cells": (
        "Count or write every activation pattern of the points.",
        "covopt cells table.csv --target y --count-only",
    ),
    "cp-rank": (
        "Bracket the CP-rank of a matrix or a graph, with proofs.",
        "covopt cp-rank matrix.csv --out certificate.json",
    ),
    "bench": (
        "Race solvers, in a checkout: the options of `benchopt run`.",
        "covopt bench --solver covopt --timeout 30",
    ),
}


def texts(name: str, exit_codes: str = "") -> dict[str, Any]:
    """Return the short help and the epilog of a command: an example, and its exit codes.

    Parameters
    ----------
    name : str
    exit_codes : str

    Examples
    --------
    >>> texts("demo")["short_help"]
    'Solve a real table of patients and draw it: no file is needed.'
    """
    short, example = COMMANDS[name]
    return {"short_help": short, "epilog": f"\b\nExample:\n  {example}\n\n{exit_codes}".rstrip()}
