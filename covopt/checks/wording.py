"""Words for people: numbers with their nouns."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """Return a number with its noun, in the singular for one.

    Parameters
    ----------
    number : int
    noun : str
        Singular; adjectives may stand before it.
    plural : str, optional
        Where it is not the noun with an s.

    Examples
    --------
    >>> counted(1, "point"), counted(2, "point"), counted(0, "entry", "entries")
    ('1 point', '2 points', '0 entries')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or noun + 's'}"
