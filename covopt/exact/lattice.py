"""Short vectors of a lattice of whole numbers, and the one next to a given point: nothing is rounded.

A basis is made shorter as by Lenstra, Lenstra and Lovász (1982), with Gram–Schmidt's numbers kept as integers
(de Weger 1989), and the nearest plane is taken (Babai 1986). For a dozen vectors of some hundred bits that is a
tenth of a second, whatever their lengths are.
"""

from __future__ import annotations

Vector = list[int]


class Lattice:
    """All whole multiples of independent vectors.

    Parameters
    ----------
    vectors : list of list of int

    Attributes
    ----------
    basis : list of list of int
        A basis of short vectors.

    Examples
    --------
    >>> lattice = Lattice([[1, 0, 1234567], [0, 1, 7654321]])
    >>> lattice.basis[0]
    [31, -5, -28]
    >>> Lattice([[3, 0], [1, 5]]).nearest([7, 11])
    [8, 10]
    """

    def __init__(self, vectors: list[Vector]):
        self.basis = [list(vector) for vector in vectors]
        # determinants of Gram matrices, and Gram–Schmidt's numbers times those
        self._grams = [1] + [0] * len(vectors)
        self._products: list[Vector] = [[0] * len(vectors) for _ in vectors]
        self._shorten()

    def _orthogonalise(self, vector: Vector, products: Vector, known: int) -> int:
        """Write a vector's numbers beside the first ``known`` ones of the basis; return its determinant."""
        for j in range(known + 1):
            other, numbers = (vector, products) if j == known else (self.basis[j], self._products[j])
            found = sum(a * b for a, b in zip(vector, other, strict=True))
            for i in range(j):
                found = (self._grams[i + 1] * found - products[i] * numbers[i]) // self._grams[i]
            if j < known:
                products[j] = found
        return found

    def _reduce(self, vector: Vector, products: Vector, by: int) -> None:
        """Subtract the multiple of a basis vector that leaves the least along it."""
        gram = self._grams[by + 1]
        times = (2 * products[by] + gram) // (2 * gram)
        if times:
            vector[:] = [a - times * b for a, b in zip(vector, self.basis[by], strict=True)]
            products[by] -= times * gram
            for i in range(by):
                products[i] -= times * self._products[by][i]

    def _shorten(self) -> None:
        n, done, k = len(self.basis), -1, 0
        while k < n:
            if k > done:
                self._grams[k + 1] = self._orthogonalise(self.basis[k], self._products[k], k)
                if not self._grams[k + 1]:
                    raise ValueError("the vectors depend on each other")
                done = k
            if k == 0:
                k = 1
                continue
            self._reduce(self.basis[k], self._products[k], k - 1)
            before, here, after = self._grams[k - 1 : k + 2]
            if 4 * (after * before + self._products[k][k - 1] ** 2) < 3 * here * here:
                self._swap(k, done)
                k = max(1, k - 1)
            else:
                for by in range(k - 2, -1, -1):
                    self._reduce(self.basis[k], self._products[k], by)
                k += 1

    def _swap(self, k: int, done: int) -> None:
        """Exchange two neighbours."""
        basis, products, grams = self.basis, self._products, self._grams
        basis[k], basis[k - 1] = basis[k - 1], basis[k]
        for j in range(k - 1):
            products[k][j], products[k - 1][j] = products[k - 1][j], products[k][j]
        mixed = products[k][k - 1]
        gram = (grams[k - 1] * grams[k + 1] + mixed * mixed) // grams[k]
        for i in range(k + 1, done + 1):
            kept = products[i][k]
            products[i][k] = (grams[k + 1] * products[i][k - 1] - mixed * kept) // grams[k]
            products[i][k - 1] = (gram * kept + mixed * products[i][k]) // grams[k + 1]
        grams[k] = gram

    def nearest(self, goal: Vector) -> Vector:
        """Return a vector of the lattice close to a point of whole numbers.

        Parameters
        ----------
        goal : list of int
        """
        left, products = list(goal), [0] * len(self.basis)
        self._orthogonalise(left, products, len(self.basis))
        for by in range(len(self.basis) - 1, -1, -1):
            self._reduce(left, products, by)
        return [a - b for a, b in zip(goal, left, strict=True)]
