"""What a closed proof says: a table in integers and rational units, and the question asked about it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from covopt.proofs.checker.arithmetic import Problem
from covopt.proofs.checker.covopt_check import LONGEST, SHARES, canonical, double

DIGITS = 15  # decimals of so many are found again by the nearest double


def on_unit(values: Sequence[Any], *, decimals: bool = True) -> tuple[list[int], Fraction]:
    """Write doubles as integers of one unit, a power of ten where all of them are short decimals, else of two.

    Examples
    --------
    >>> on_unit([5.1, -0.3])
    ([51, -3], Fraction(1, 10))
    >>> on_unit([1.0 / 3.0, 2.0])[1] == Fraction(1, 2**54)
    True
    """
    for places in range(DIGITS + 1 if decimals else 0):
        whole = [round(Fraction(value) * 10**places) for value in values]
        if any(abs(n) >= 10**DIGITS for n in whole):
            break
        if all(n / 10**places == value for n, value in zip(whole, values, strict=True)):
            return whole, Fraction(1, 10**places)
    ratios = [Fraction(value) for value in values]
    bottom = math.lcm(*(ratio.denominator for ratio in ratios))
    whole = [int(ratio * bottom) for ratio in ratios]
    common = math.gcd(*whole) or 1
    return [n // common for n in whole], Fraction(common, bottom)


def text(values: Iterable[int]) -> str:
    """Write integers as the file has them."""
    return " ".join(map(str, values))


def ratio(value: Fraction) -> str:
    """Write a fraction as the file has it."""
    return f"{value.numerator} {value.denominator}"


def sealed(content: dict[str, Any]) -> str:
    """Return the text of a file, with the digest of its theorem."""
    digest = hashlib.sha256(canonical(content["theorem"]).encode()).hexdigest()
    return canonical({**content, "digest": digest})


def counted(problem: Problem) -> np.ndarray:
    """Return which rows have a weight."""
    weights = problem.sample_weight
    return np.ones(len(problem.X), dtype=bool) if weights is None else np.asarray(weights) > 0


def theorem_of(problem: Problem) -> dict[str, Any]:
    """Return the entry ``theorem`` of a file, with the bound 0, and without a loss for which files have no rule."""
    rows = counted(problem)
    X, Y = problem.X[rows], problem.Y[rows, 0].tolist()
    whole, x_unit = on_unit([*X.ravel().tolist(), float(problem.bias)])
    targets, y_unit = on_unit(Y)
    d = X.shape[1]
    loss = None
    if problem.loss in SHARES:
        weights = (
            [1] * len(Y)
            if problem.sample_weight is None
            else on_unit(problem.sample_weight[rows].tolist())[0]
        )
        lam, delta = (on_unit([float(value)]) for value in (problem.lam, problem.delta))
        loss = {
            "name": problem.loss, "lambda": ratio(lam[0][0] * lam[1]), "delta": ratio(delta[0][0] * delta[1]),
            "weights": text(weights),
        }  # fmt: skip
    return {
        "X": [text(whole[i * d : (i + 1) * d]) for i in range(len(Y))], "Y": text(targets), "bias": str(whole[-1]),
        "bound": "0 1", "loss": loss, "output_bias": problem.output_bias, "x_unit": ratio(x_unit),
        "y_unit": ratio(y_unit),
    }  # fmt: skip


def network_of(hidden: np.ndarray, output: np.ndarray, shift: np.ndarray) -> dict[str, Any] | None:
    """Return the entry ``network`` of a file, None for a network without neurons or of more than one output."""
    m, width = hidden.shape
    if m == 0 or output.shape[1] != 1:
        return None
    inner, hidden_unit = on_unit(hidden.ravel().tolist(), decimals=False)
    outer, output_unit = on_unit([*output.ravel().tolist(), *shift.tolist()], decimals=False)
    if max(len(str(n)) for n in (*inner, *outer)) > LONGEST:
        return None
    return {
        "hidden": [text(inner[j * width : (j + 1) * width]) for j in range(m)], "hidden_unit": ratio(hidden_unit),
        "output": text(outer[:-1]), "output_bias": str(outer[-1]), "output_unit": ratio(output_unit),
    }  # fmt: skip


def exactly(own: Any, problem: Problem) -> Problem:
    """Return a problem with the rationals that a file is about in the place of the doubles next to them."""

    def array(rows: Any) -> np.ndarray:
        return np.array([*rows, None], dtype=object)[:-1]

    X = np.array([[own.x_unit * x for x in row] for row in own.X], dtype=object).reshape(len(own.X), -1)
    rows, weights = counted(problem), problem.sample_weight
    about = replace(
        problem, X=X, Y=array([own.y_unit * y for y in own.Y])[:, None], bias=own.x_unit * own.bias,
        sample_weight=None if weights is None else np.asarray(weights)[rows],
    )  # fmt: skip
    if own.loss is None:
        return about
    return replace(about, lam=own.lam, delta=own.delta, sample_weight=array(own.weights))


def differs(own: Any, problem: Problem) -> str | None:
    """Say in what a file is about something else than a problem, None where it is about that."""
    rows = counted(problem)
    weights = np.ones(len(problem.X)) if problem.sample_weight is None else np.asarray(problem.sample_weight)
    shares = [Fraction(value) for value in weights[rows].tolist()]
    table = [[double(own.x_unit * x) for x in row] for row in own.X]
    goals = [[double(own.y_unit * y)] for y in own.Y]
    facts = {
        "table": table == problem.X[rows].tolist() and goals == problem.Y[rows].tolist(),
        "bias": double(own.x_unit * own.bias) == problem.bias,
        "output bias": own.output_bias == problem.output_bias,
        "loss": own.loss == problem.loss,
    }  # fmt: skip
    if own.loss is not None and own.loss == problem.loss:
        facts["lambda"] = double(own.lam) == problem.lam
        facts["delta"] = own.loss != "huber" or double(own.delta) == problem.delta
        facts["weights"] = own.weights == [share / sum(shares) for share in shares]
    return next((f"another {name}" for name, same in facts.items() if not same), None)
