"""A closed proof as a file for Coq: its kernel then checks a theorem about all networks.

``Statement.v`` and ``Losses.v`` say what is proved, ``Cover.v`` has the lemmas, ``Reflect.v`` and ``Fit.v`` the
checker and why it is right. Here the table and the cover become ``Check.v``; its last line prints the axioms used.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from covopt.errors import InputError
from covopt.proofs.checker.covopt_check import DEEPEST, MAGNITUDE, read
from covopt.proofs.closing import entries_of

THEORY = ("Statement", "Losses", "Cover", "Reflect", "Fit")
FIELD_BITS = 21  # a slope is one field, a coordinate of a normal two
FIELDS = 63 // FIELD_BITS  # of a word
MOST_WORDS = 4_194_303  # of an array in Coq
DISGUISE = 0x1E3779B97F4A7C15  # times the place: Coq is slow where many words have the same low bits
LOSSES = {"squared": "Squared", "hinge": "Hinge", "squared-hinge": "SquaredHinge"}
SHIFTS = {"none": "Absent", "penalized": "Penalized", "free": "Free"}


def write_coq(text: str, folder: str | Path) -> Path:
    """Write a closed proof as ``Check.v`` into a folder, beside the theory it needs and a Makefile.

    Parameters
    ----------
    text : str
        Content of a file ``covopt-proof``, version 2.
    folder : str or path
        Made where there is none. ``make -C folder`` lets Coq check.

    Returns
    -------
    Path
        Of ``Check.v``.

    Raises
    ------
    InputError
        When the proof has weighted samples, or numbers that are too long for the words of Coq's arrays.
    covopt.proofs.checker.covopt_check.Refused
        When the text is no proof.
    """
    own = read(text)
    content = _check_v(own, _words(own))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name in THEORY:
        shutil.copyfile(Path(__file__).with_name(f"{name}.v"), folder / f"{name}.v")
    lines = "".join(f"\tcoqc -R . Covopt {name}.v\n" for name in (*THEORY, "Check"))
    (folder / "Makefile").write_text(f"all:\n{lines}", encoding="utf-8")
    (folder / "Check.v").write_text(content, encoding="utf-8")
    return folder / "Check.v"


def _words(own: Any) -> list[str]:
    found, last = [], len(own.basis) + 1
    nodes = entries_of(own)
    if own.slope_bits > FIELD_BITS or own.normal_bits > 2 * FIELD_BITS:
        raise InputError(
            f"Coq's words hold slopes of {FIELD_BITS} bits and normals of {2 * FIELD_BITS - 1}; the proof has "
            f"{own.slope_bits} and {own.normal_bits - 1}: prove again"
        )
    for token, _, numbers in nodes:
        found.append(token)
        for k, (number, bits) in enumerate(numbers):
            double = bits == MAGNITUDE if token == last else k < last - 1
            found += divmod(number, 1 << FIELD_BITS) if double else [number]
    found += [0] * (-len(found) % FIELDS)
    if len(found) > FIELDS * MOST_WORDS:
        raise InputError(f"Coq's arrays hold {MOST_WORDS} words; the proof has {len(found) // FIELDS}")
    parts = (found[k : k + FIELDS] for k in range(0, len(found), FIELDS))
    words = (sum(part << FIELD_BITS * k for k, part in enumerate(each)) for each in parts)
    return [str(word ^ (k * DISGUISE % 2**63)) for k, word in enumerate(words)]


def _check_v(own: Any, words: list[str]) -> str:
    points = ";\n    ".join(f"({_list(x)}, {_z(y)})" for x, y in zip(own.X, own.Y, strict=True))
    bound = f"{_z(own.bound.numerator)} {_z(own.bound.denominator)}"
    shift, (statement, theorem) = SHIFTS[own.output_bias], _theorem(own)
    basis = (
        "[" + ";\n    ".join(map(_list, own.basis)) + "]",
        "[" + ";\n    ".join(map(_list, own.inverse)) + "]",
    )
    scale = sum(column[0] * row[0] for column, row in zip(own.basis, own.inverse, strict=True))
    body = "".join(
        "\n" + "; ".join(words[k : k + 8]) + ("" if k + 8 >= len(words) else ";")
        for k in range(0, len(words), 8)
    )
    return f"""(* Made by covopt: {len(own.X)} points, {len(own.X[0])} inputs. *)
From Coq Require Import PArray Uint63.

Definition certificate : array int := ([|{body}
  | 0 |])%uint63.

From Coq Require Import ZArith List.
From Covopt Require Import Statement Losses Reflect Fit.
Import ListNotations.

Open Scope Z_scope.
Definition data : table := {{|
  dimension := {len(own.X[0])}%nat;
  x_unit := {_pair(own.x_unit)};
  y_unit := {_pair(own.y_unit)};
  bias := {_z(own.bias)};
  points := [
    {points}]
|}}.

Definition multipliers : list Z := {_list(own.multipliers)}.

Theorem proved : {statement.format(shift=shift, bound=bound)}.
Proof.
  apply ({theorem.format(shift=shift, bound=bound)} multipliers {own.H} {own.one} {own.unit} {own.corner}
    {basis[0]}
    {basis[1]}
    {_z(scale)} {DEEPEST + 1}%nat certificate).
  vm_cast_no_check (eq_refl true).
Qed.

Print Assumptions proved.
"""


def _theorem(own: Any) -> tuple[str, str]:
    if own.loss is None:
        return "lower_bound data {shift} {bound}", "Reflect.Fast.check_right data {shift} {bound}"
    if len(set(own.weights)) > 1:
        raise InputError("in Coq a fit's mean has equal weights; the proof has others: read it in Python")
    kind = f"(Huber {_pair(own.delta)})" if own.loss == "huber" else LOSSES[own.loss]
    about = f"{kind} {_pair(own.lam)}"
    return (
        f"fit_bound data {{shift}} {about} {{bound}}",
        f"Fit.Fast.fit_right data {{shift}} {about} {{bound}}",
    )


def _z(value: int) -> str:
    return f"({value})" if value < 0 else str(value)


def _pair(value: Any) -> str:
    return f"({_z(value.numerator)}, {value.denominator})"


def _list(values: Any) -> str:
    return "[" + "; ".join(map(_z, values)) + "]"
