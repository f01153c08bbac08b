"""Matrices of known CP-rank: Bomze, Schachinger, Ullrich 2014 (M7 to M11) and 2015 (twelve)."""

from tests.cases import cases


def circulant(last_is_diagonal: list[int]) -> list[list[int]]:
    row = [last_is_diagonal[-1], *last_is_diagonal[:-1]]
    n = len(row)
    return [[row[(j - i) % n] for j in range(n)] for i in range(n)]


M7 = circulant([531, 81, 150, 150, 81, 531, 926])
M7_TILDE = circulant([108, 27, 4, 4, 27, 108, 163])
S7 = circulant([-153, 127, -27, -27, 127, -153, 162])
M8 = cases("M8")
M9 = cases("M9")
M11 = cases("M11")


def quadratic_form(M, v):
    return sum(x * y * M[i][j] for i, x in enumerate(v) for j, y in enumerate(v))


def twelve() -> list[list[int]]:
    """Three groups of four; the first vertex of each is special."""

    def entry(i: int, j: int) -> int:
        special = (i % 4 == 0) + (j % 4 == 0)
        if i == j:
            return 91 if special else 42
        return 0 if i // 4 == j // 4 else (6, 24, 19)[special]

    return [[entry(i, j) for j in range(12)] for i in range(12)]


HORN = [
    [1, -1, 1, 1, -1], [-1, 1, -1, 1, 1], [1, -1, 1, -1, 1], [1, 1, -1, 1, -1], [-1, 1, 1, -1, 1]
]  # fmt: skip
HOFFMAN_PEREIRA = circulant([-1, 1, 0, 0, 1, -1, 1])

# doubly nonnegative, not completely positive: Salce–Zanardo 1993, Nie 2014 (ex. 6.2), Barioli 1998
NOT_CP = {
    "salce-zanardo": [[1, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 1, 0], [0, 0, 1, 2, 1], [1, 0, 0, 1, 3]],
    "nie": [[1, 1, 0, 0, 1], [1, 2, 1, 0, 0], [0, 1, 2, 1, 0], [0, 0, 1, 2, 1], [1, 0, 0, 1, 6]],
    "barioli": [
        [7, 1, 2, 2, 1, 1], [1, 12, 1, 3, 3, 5], [2, 1, 2, 3, 0, 0], [2, 3, 3, 5, 0, 0], [1, 3, 0, 0, 2, 4],
        [1, 5, 0, 0, 4, 10],
    ],
}  # fmt: skip
