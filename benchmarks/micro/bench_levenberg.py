"""Levenberg–Marquardt of our own against SciPy's: python benchmarks/micro/bench_levenberg.py.

Nonnegative factors A = (U∘U)ᵀ(U∘U), and Z with ZZᵀ = K, σ(Z)σ(Z)ᵀ = P: ours moves all starts at once. SciPy's
``least_squares`` has the same residuals, an exact Jacobian and starts of its own, one after the other, until one is
met to 1e-9 or as many are used up. Seconds of processor time, medians over matrices.
"""

import time

import numpy as np
from scipy.optimize import least_squares

from covopt.completely_positive.factorisation import numerical_factor, residual_of
from covopt.widths.search import decompose, pair_residual

STARTS = 32
MET = 1e-9


def by_scipy(residuals, jacobian, shape, met, rng) -> bool:
    for _ in range(STARTS):
        found = least_squares(
            residuals, rng.standard_normal(shape).ravel(), jacobian, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15,
            max_nfev=300,
        )  # fmt: skip
        if met(found.x.reshape(shape)) < MET:
            return True
    return False


def factor(A, rows, rng) -> bool:
    n = len(A)
    i, j = np.triu_indices(n)
    weight = np.where(i == j, 1.0, np.sqrt(2.0))

    def residuals(u):
        B = u.reshape(rows, n) ** 2
        return (B.T @ B - A)[i, j] * weight

    def jacobian(u):
        U = u.reshape(rows, n)
        B, J, k = U * U, np.zeros((len(i), rows, n)), np.arange(len(i))
        J[k, :, i] += B[:, j].T
        J[k, :, j] += B[:, i].T
        return (J * 2 * U * weight[:, None, None]).reshape(len(i), -1)

    # method "lm" wants as many residuals as unknowns
    if rows * n <= len(i):
        return by_scipy(residuals, jacobian, (rows, n), lambda U: residual_of(A, U * U), rng)
    missing = np.zeros(rows * n - len(i))
    padded = np.zeros((len(missing), rows * n))
    return by_scipy(
        lambda u: np.append(residuals(u), missing), lambda u: np.vstack([jacobian(u), padded]), (rows, n),
        lambda U: residual_of(A, U * U), rng,
    )  # fmt: skip


def pair(K, P, width, rng) -> bool:
    n = len(K)
    i, j = np.triu_indices(n)

    def residuals(z):
        Z = z.reshape(n, width)
        S = np.maximum(Z, 0)
        found = np.concatenate([(Z @ Z.T - K)[i, j], (S @ S.T - P)[i, j]])
        return np.append(found, np.zeros(max(0, n * width - len(found))))

    def jacobian(z):
        Z = z.reshape(n, width)
        S, k, parts = np.maximum(Z, 0), np.arange(len(i)), []
        for table, factor_ in ((Z, np.ones_like(Z)), (S, (Z > 0) * 1.0)):
            J = np.zeros((len(i), n, width))
            J[k, i] += table[j] * factor_[i]
            J[k, j] += table[i] * factor_[j]
            parts.append(J.reshape(len(i), -1))
        found = np.vstack(parts)
        return np.vstack([found, np.zeros((max(0, n * width - len(found)), n * width))])

    return by_scipy(residuals, jacobian, (n, width), lambda Z: pair_residual(Z, K, P), rng)


def timed(question) -> tuple[float, bool]:
    began = time.process_time()
    found = question()
    return time.process_time() - began, bool(found)


def show(name, cases) -> None:
    ours, scipy = zip(*((timed(a), timed(b)) for a, b in cases), strict=True)
    said = [
        f"{np.median([t for t, _ in rows]):7.3f} s, {sum(ok for _, ok in rows)} of {len(rows)} met"
        for rows in (ours, scipy)
    ]
    print(f"{name:<34} ours {said[0]}   scipy {said[1]}", flush=True)


def main() -> None:
    for n, rows in ((5, 5), (8, 8), (8, 14), (12, 14)):
        cases = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            B = rng.random((rows, n)) * (rng.random((rows, n)) < 0.7)
            A = B.T @ B + 1e-3 * np.eye(n)
            cases.append((
                lambda A=A, rows=rows: numerical_factor(A, rows, n_starts=STARTS, random_state=0) is not None,
                lambda A=A, rows=rows, rng=rng: factor(A / np.sqrt(np.outer(A.diagonal(), A.diagonal())), rows, rng),
            ))  # fmt: skip
        show(f"factor, {n} × {n}, {rows} rows", cases)
    for n, width in ((4, 4), (6, 8), (8, 12), (10, 20)):
        cases = []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            Z = rng.standard_normal((n, width))
            Z /= np.linalg.norm(Z, axis=1, keepdims=True)
            K, P = Z @ Z.T, np.maximum(Z, 0) @ np.maximum(Z, 0).T
            cases.append((
                lambda K=K, P=P, width=width, rng=rng: decompose(
                    K, P, width, n_starts=STARTS, tol=MET, rng=rng, end=time.perf_counter() + 60
                ) is not None,
                lambda K=K, P=P, width=width, rng=rng: pair(K, P, width, rng),
            ))  # fmt: skip
        show(f"pair (K, P), {n} × {n}, width {width}", cases)


if __name__ == "__main__":
    main()
