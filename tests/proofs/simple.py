"""Proofs of version 1 without a search: no tree, the checker cuts on its own."""

import base64

import numpy as np

from covopt.proofs import FirstProof, Problem


def lift(X, bias):
    return np.column_stack([X, np.full((len(X), int(bias > 0)), bias)])


def make_problem(X, Y, bias=1.0, **options) -> Problem:
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    return Problem(X.reshape(len(Y), -1), Y.reshape(len(Y), -1), bias, **options)


def make_proof(problem: Problem, dual, H: float, bits: int = 48) -> FirstProof:
    """One piece per row, on a grid of so many bits; V is the identity."""
    dual = np.asarray(dual, dtype=float)
    rows = lift(problem.X, problem.bias)
    y = np.abs(dual)[:, None] * rows
    unit = 2.0 ** (np.frexp(np.abs(y).max(initial=0.0))[1] - bits)
    y = np.rint(y / unit) * unit
    n, dimension = rows.shape
    return FirstProof(
        problem.digest(dual), np.eye(dimension), y, np.sign(dual).astype(np.int64), np.zeros(dimension), np.arange(n),
        np.ones(n), 0, H, bytes(4 * dimension), 0.0,
    )  # fmt: skip


def content_of(proof: FirstProof) -> dict:
    """What a file of version 1 holds."""
    arrays = ("V", "y", "signs", "linear", "piece", "factor")
    return {
        "format": "covopt-proof", "version": 1, "digest": proof.digest, "exponent": proof.exponent, "H": proof.H,
        "tree": base64.b64encode(proof.tree).decode(), "lower_bound": proof.lower_bound,
        **{name: getattr(proof, name).tolist() for name in arrays},
    }  # fmt: skip


def brute_force(y: np.ndarray, signs: np.ndarray, linear: np.ndarray, n: int = 200_000) -> float:
    """Largest |G| at many unit vectors: a lower bound on the maximum, close to it in two and three dimensions."""
    rng = np.random.default_rng(0)
    u = rng.standard_normal((n, y.shape[1]))
    u /= np.linalg.norm(u, axis=1)[:, None]
    return float(np.abs(u @ linear + np.maximum(u @ y.T, 0.0) @ signs).max())
