"""Compiled kernels against plain NumPy and Python twins."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from covopt.arrangement.enumeration import Run, half_blocks, tasks
from covopt.arrangement.exact import as_integers, dependent, eliminate_mod, primes_below, primes_for
from covopt.arrangement.reduction import lift, reduce
from covopt.arrangement.tableau import sort_pairs, wholly_opposite
from tests.arrangement import families as fam

matrices = st.integers(1, 5).flatmap(
    lambda n: st.integers(1, 5).flatmap(lambda d: arrays(np.int64, (n, d), elements=st.integers(-4, 4)))
)


def sweep_twin(rows):
    """Half the sign vectors of generic rows (n, D), c₀ = row 0, by solving for every vertex."""
    n, d = rows.shape
    found = []
    for level in range(d):
        for basis in map(list, combinations(range(1, n), d - 1 - level)):
            # w = (0, …, 0, 1, v): the chosen rows vanish
            tail = slice(level + 1, d)
            v = np.linalg.solve(rows[basis][:, tail], -rows[basis, level]) if basis else np.empty(0)
            signs = rows[:, level] + rows[:, tail] @ v > 0
            if basis:
                objective = np.eye(d)[level + 1, tail]
                signs[basis] = np.linalg.solve(rows[basis][:, tail].T, objective) < 0
            signs[0] = True
            found.append(signs)
    return np.array(found)


@pytest.mark.parametrize(("n", "d"), [(2, 2), (6, 2), (7, 3), (9, 4), (40, 3)])
def test_sweep_against_its_numpy_twin(n, d):
    reduced = reduce(*lift(np.random.default_rng(n).standard_normal((n, d)), 0.0))
    run = Run(reduced)
    words = np.concatenate([half for half, _ in half_blocks(run, size=10**6, n_jobs=1, keep=True)])
    signs = np.unpackbits(words.view(np.uint8), axis=1, count=n).astype(bool)
    flagged = np.hstack([np.eye(d)[:, :1], run.rows]).T
    positive = np.unpackbits(reduced.base.view(np.uint8), count=n).astype(bool)
    twin = sweep_twin(flagged) == positive
    assert sorted(map(bytes, signs)) == sorted(map(bytes, twin))


def test_counting_mode_meets_as_many():
    for X in (fam.resonance(4), fam.braid(5), np.random.default_rng(0).standard_normal((12, 4))):
        run = Run(reduce(*lift(X, 0.0)))
        kept = sum(len(half) for half, _ in half_blocks(run, size=50, n_jobs=1, keep=True))
        assert kept == sum(count for _, count in half_blocks(run, size=50, n_jobs=1, keep=False))


@pytest.mark.parametrize("size", [1, 10, 1000])
def test_parts_cover_every_basis_once(size):
    n, rank = 7, 4
    met = []
    for low, high, prefix in tasks(n, rank, size):
        for level in range(low, high):
            bases = combinations(range(n), rank - 1 - level)
            met += [(level, b) for b in bases if b[: len(prefix)] == prefix]
    assert sorted(met) == sorted((v, b) for v in range(rank) for b in combinations(range(n), rank - 1 - v))


@settings(max_examples=40, deadline=None)
@given(matrices)
def test_rank_modulo_a_prime(matrix):
    p = primes_below(2**31, 1)[0]
    assert len(eliminate_mod(matrix % p, p)) == np.linalg.matrix_rank(matrix)


@settings(max_examples=40, deadline=None)
@given(matrices)
def test_dependence_is_exact(matrix):
    n, d = matrix.shape
    primes = primes_for(matrix, d)
    residues = matrix[None] % primes[:, None, None]
    work = np.empty((n, d), dtype=np.int64)
    assert dependent(residues, primes, np.arange(n), n, work) == (np.linalg.matrix_rank(matrix) < n)


def test_enough_primes():
    rows = np.array([[10**9, 1, 0], [0, 10**9, 1], [1, 0, 10**9]])
    assert np.prod([float(p) for p in primes_for(rows, 3)]) > 10.0**27


@pytest.mark.parametrize("m", [0, 1, 2, 9, 40, 64, 65, 300])
def test_sorting(m):
    key = np.round(np.random.default_rng(m).standard_normal(m), 1)
    k, o = key.copy(), np.arange(m)
    sort_pairs(k, o, m)
    assert np.array_equal(k, np.sort(key))
    assert np.array_equal(key[o], k)
    assert np.array_equal(np.sort(o), np.arange(m))


@pytest.mark.parametrize("n_bits", [3, 6, 70])
def test_opposites(n_bits):
    rng = np.random.default_rng(n_bits)
    bits = np.unique(rng.integers(0, 2, size=(40, n_bits)).astype(bool), axis=0)
    bits = np.unique(np.vstack([bits, ~bits[::3]]), axis=0)
    n_words = -(-n_bits // 64)

    def pack(b):
        padded = np.zeros((len(b), 8 * n_words), dtype=np.uint8)
        padded[:, : -(-n_bits // 8)] = np.packbits(b, axis=1)
        return padded.view(np.uint64)

    full = pack(np.ones((1, n_bits), dtype=bool))[0]
    present = set(map(bytes, bits))
    expected = {bytes(~b) for b in bits if bytes(~b) not in present}
    got = wholly_opposite(pack(bits), full)
    got = np.unpackbits(got.view(np.uint8), axis=1, count=n_bits).astype(bool)
    assert set(map(bytes, got)) == expected
    assert len(got) == len(expected)


def test_what_counts_as_integers():
    assert np.array_equal(as_integers(np.array([[0.1], [0.3]])), [[1], [3]])
    assert np.array_equal(as_integers(np.array([[0.1], [0.3]], dtype=np.float32)), [[1], [3]])
    assert np.array_equal(as_integers(np.array([[2.0**-20], [0.5]])), [[1], [2**19]])
    assert as_integers(np.array([[np.pi], [1.0]])) is None
    assert as_integers(np.array([[1e300], [1e-3]])) is None
    assert as_integers(np.array([[2**63]], dtype=np.uint64)) is None
    assert np.array_equal(as_integers(np.array([[True], [False]])), [[1], [0]])
