"""Words in pictures: names of columns as they are, numbers as people write them."""

from __future__ import annotations

from covopt.checks.wording import one_line


def label_of(name: object, most: int = 40) -> str:
    r"""Return a name as matplotlib draws it, and shows it: no mathematics between dollars, nothing overlong.

    Parameters
    ----------
    name : object
    most : int
        Letters.

    Examples
    --------
    >>> label_of("price in $"), label_of("_x"), label_of("x" * 50, 5)
    ('price in \\$', ' _x', 'xxxx…')
    """
    said = one_line(name, most).replace("$", r"\$")
    return f" {said}" if said.startswith("_") else said  # a leading underscore keeps a line out of the legend


def number_of(value: float) -> str:
    """Return a number in few digits, whole where it is large, with an exponent where it is larger.

    Parameters
    ----------
    value : float

    Examples
    --------
    >>> [number_of(v) for v in (1960.0, 111234.2, -2.14159, 1.2e9, 1e-7)]
    ['1960', '111234', '−2.14', '1.2e+09', '1e−07']
    """
    text = f"{value:.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}"
    return text.replace("-", "−")


def range_of(low: float, high: float) -> str:
    """Return both ends of what is drawn.

    Parameters
    ----------
    low, high : float

    Examples
    --------
    >>> range_of(1960.0, 2020.0)
    '1960 to 2020'
    """
    return f"{number_of(low)} to {number_of(high)}"
