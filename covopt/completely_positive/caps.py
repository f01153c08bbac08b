"""Upper bounds on the CP-rank by theorem: they hold for every completely positive matrix of that size or rank."""

from __future__ import annotations

from covopt.completely_positive.matrix import SymmetricMatrix
from covopt.exact.rank import exact_rank

EXACT_SIZE = 40


def theorem_cap(matrix: SymmetricMatrix) -> tuple[int, str]:
    """Return the smallest cap that applies to a completely positive matrix, and its source.

    Parameters
    ----------
    matrix : SymmetricMatrix
        The rank counts only where it is known exactly.

    References
    ----------
    Maxfield and Minc (1962) for n ≤ 4; Shaked-Monderer, Berman, Bomze, Jarre and Schachinger for n = 5 (2013) and for
    n(n+1)/2 − 4 (2015); Barioli and Berman (2003) for r(r+1)/2 − 1.

    Examples
    --------
    >>> from covopt.completely_positive.matrix import read_matrix
    >>> theorem_cap(read_matrix([[2, 1], [1, 2]]))
    (2, 'n ≤ 4: at most n (Maxfield and Minc 1962)')
    """
    n = len(matrix)
    if n <= 4:
        caps = [(n, "n ≤ 4: at most n (Maxfield and Minc 1962)")]
    elif n == 5:
        caps = [(6, "n = 5: at most 6 (Shaked-Monderer, Berman, Bomze, Jarre and Schachinger 2013)")]
    else:
        text = f"n = {n}: at most n(n+1)/2 − 4 (Shaked-Monderer, Berman, Bomze, Jarre and Schachinger 2015)"
        caps = [(n * (n + 1) // 2 - 4, text)]
    if matrix.exact is not None and n <= EXACT_SIZE:
        rank = exact_rank(matrix.fractions())
        if rank >= 2:
            caps.append(
                (rank * (rank + 1) // 2 - 1, f"rank {rank}: at most r(r+1)/2 − 1 (Barioli and Berman 2003)")
            )
        else:
            caps.append((rank, f"rank {rank}: the CP-rank is the rank"))
    return min(caps)
