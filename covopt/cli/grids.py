"""Which widths and λ ``covopt train`` is asked for."""

from __future__ import annotations

from covopt.errors import InputError


def parse_widths(widths: str) -> list[int | tuple[int, ...]]:
    """Return the widths that ``8,16`` or ``32x16,64x16`` stands for.

    Raises
    ------
    InputError
        For anything else.

    Examples
    --------
    >>> parse_widths("8,16"), parse_widths("32x16")
    ([8, 16], [(32, 16)])
    """
    try:
        found = [tuple(int(size) for size in part.split("x")) for part in widths.split(",")]
    except ValueError:
        raise InputError(
            f"--widths must be integers separated by commas, as in 8,16 or 32x16; received {widths!r}"
        ) from None
    return [sizes[0] if len(sizes) == 1 else sizes for sizes in found]


def parse_lams(lam: str | None) -> list[float]:
    """Return the numbers that ``0.1,0.01`` stands for; none without.

    Examples
    --------
    >>> parse_lams("0.1,0.01"), parse_lams(None)
    ([0.1, 0.01], [])
    """
    if lam is None:
        return []
    try:
        return [float(part) for part in lam.split(",")]
    except ValueError:
        raise InputError(f"--lam must be numbers separated by commas; received {lam!r}") from None
