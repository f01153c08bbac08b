"""What commands make of a table and of lists of numbers: the loss that a target asks for, units, widths, λ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from covopt.checks.wording import counted, listed
from covopt.cli.options import reading
from covopt.cli.report import left_out_lines
from covopt.errors import InputError


def read_plain(given: SimpleNamespace, **more: Any) -> Any:
    """Return the table of a command, with the columns and rows that its options ask for."""
    from covopt.data import table_files

    return table_files.read_table(
        given.table, target=given.target, features=given.features, text=reading(given),
        words=getattr(given, "one_hot", False), drop_missing=getattr(given, "drop_missing", False), **more,
    )  # fmt: skip


def read_for_loss(given: SimpleNamespace) -> tuple[Any, dict[str, Any], list[str]]:
    """Return the table, the options that come from it, and a line about the loss where the target has chosen it."""
    from covopt.losses import Huber, make_loss

    made = None if given.loss is None else make_loss(given.loss)
    if given.delta is not None:
        if not isinstance(made, Huber):
            raise InputError(f"--delta belongs to --loss huber; received --loss {given.loss}.")
        made = Huber(given.delta)
    labels = None if made is None else made.is_classification
    table = read_plain(given, labels=labels, weight=given.sample_weight)
    said: list[str] = []
    if made is None:
        made, said = _loss_of(table)
    return table, {"loss": made, "sample_weight": table.weights}, said


def _loss_of(table: Any) -> tuple[Any, list[str]]:
    """Return the loss that a target asks for, and the line that says so where it holds classes."""
    from covopt.losses import make_loss

    if table.Y.ndim == 2:
        return make_loss("squared"), []
    classes = sorted(set(table.Y.tolist()), key=str)
    name = "logistic" if len(classes) <= 2 else "softmax-cross-entropy"
    held = f"{table.target_names[0]} holds {counted(len(classes), 'class', 'classes')}"
    numbers = "" if table.Y.dtype.kind == "O" else "; --loss squared takes them as numbers"
    return make_loss(name), [
        f"{'classes':<14} {held}, {listed([str(c) for c in classes])}: the loss is {name}{numbers}"
    ]


def settle_units(given: SimpleNamespace, table: Any) -> tuple[bool, list[str]]:
    """Return whether to standardise, and the line that says why where nobody asked for it.

    Without a bias nothing is centred: then it has to be asked for.
    """
    if given.standardise is not None or given.bias == 0:
        return bool(given.standardise), []
    from covopt.data.scaling import differing_units

    why = differing_units(table.X, table.feature_names)
    return bool(why), [f"{'units':<14} {why}; --no-standardise solves them as they are"] if why else []


def columns_lines(table: Any) -> list[str]:
    """Return the lines about the columns of a table, where no solution's summary says them."""
    names = f"{listed(table.feature_names)} → {listed(table.target_names)}"
    return [f"{'features':<14} {names}", *left_out_lines(table)]


def strength_in(text: str) -> float | str:
    """Return λ as a number where it is one; shares of λ_max stay text.

    Examples
    --------
    >>> strength_in("0.1"), strength_in("0.03max")
    (0.1, '0.03max')
    """
    try:
        return float(text)
    except ValueError:
        return text


def strengths_in(text: str) -> list[float | str]:
    """Return the λ that ``0.1,0.03max`` stands for: numbers, shares of λ_max, or cv.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> strengths_in("0.1,0.03max")
    [0.1, '0.03max']
    """
    from covopt.api.lambdas import is_chosen, parse_lam

    found = [strength_in(part) for part in text.split(",")]
    for lam in found:
        if isinstance(lam, str) and not is_chosen(lam):
            parse_lam(lam)
    return found


def widths_in(text: str) -> list[int | tuple[int, ...]]:
    """Return the widths that ``8,16`` or ``32x16,64x16`` stands for.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> widths_in("8,16"), widths_in("32x16")
    ([8, 16], [(32, 16)])
    """
    try:
        found = [tuple(int(size) for size in part.split("x")) for part in text.split(",")]
    except ValueError:
        raise InputError(
            f"--widths must be integers separated by commas, as in 8,16 or 32x16; received {text!r}"
        ) from None
    return [sizes[0] if len(sizes) == 1 else sizes for sizes in found]
